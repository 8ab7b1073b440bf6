//! What is counted: reviews by kind, operation and verdict, and how long they took.
//!
//! Written by the service, read at /metrics. Must stay true: labels are of a fixed few values; nothing
//! that somebody writes becomes one.

use std::time::Duration;

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, text::encode},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::review::{Answer, Question};

/// Seconds: the API server gives up after 5.
const BUCKETS: [f64; 9] = [0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Kind {
    VirtualPrivateCloud,
    ProxmoxNetworkZone,
    ProxmoxNetwork,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Outcome {
    Allowed,
    Warned,
    Denied,
    Undecided,
    Malformed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: Kind,
    verdict: Outcome,
}

/// Counts reviews.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    reviews: Family<Labels, Counter>,
    seconds: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("causeway_webhook");
        let reviews = Family::<Labels, Counter>::default();
        let seconds = Histogram::new(BUCKETS);
        registry.register("reviews", "Reviews by kind and verdict", reviews.clone());
        registry.register(
            "review_seconds",
            "Time from a whole review to its answer",
            seconds.clone(),
        );
        Self {
            registry,
            reviews,
            seconds,
        }
    }

    pub(crate) fn answered(&self, question: &Question, answer: &Answer, took: Duration) {
        let kind = match question.kind.name.as_str() {
            "VirtualPrivateCloud" => Kind::VirtualPrivateCloud,
            "ProxmoxNetworkZone" => Kind::ProxmoxNetworkZone,
            "ProxmoxNetwork" => Kind::ProxmoxNetwork,
            _ => Kind::Other,
        };
        let verdict = match answer {
            Answer::Allow(warnings) if warnings.is_empty() => Outcome::Allowed,
            Answer::Allow(_) => Outcome::Warned,
            Answer::Deny(_) => Outcome::Denied,
            Answer::Undecided(..) => Outcome::Undecided,
        };
        self.reviews.get_or_create(&Labels { kind, verdict }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn malformed(&self) {
        let labels = Labels {
            kind: Kind::Other,
            verdict: Outcome::Malformed,
        };
        self.reviews.get_or_create(&labels).inc();
    }

    /// In the text format of OpenMetrics.
    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
