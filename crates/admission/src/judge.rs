//! One review: which rule is asked, and what is looked at live before the answer is no.
//!
//! Called by the service. Must stay true: nobody is refused for what only a cache that is behind says; nothing is
//! allowed that the planner could not decide.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use causeway_api::{ProxmoxNetwork, ProxmoxNetworkZone, VirtualPrivateCloud, observed};
use causeway_observe::Observer;
use causeway_planner::{
    admit::{Reference, Verdict, Write, decide, guard_network},
    model::{SubnetKey, VpcKey, ZoneName},
    snapshot::{Moment, Snapshot},
};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::review::{self, Answer, Operation, Question};

/// How often what is missing is read live for one review (design 9.3).
const LOOKS: usize = 2;

/// A watch that has been broken for longer makes its replica unready (design 9.3).
const STALE: Duration = Duration::from_secs(30);

/// Answers reviews from its caches.
#[derive(Clone)]
pub struct Judge {
    observer: Arc<Observer>,
}

impl Judge {
    /// A judge of this world.
    pub fn new(observer: Arc<Observer>) -> Self {
        Self { observer }
    }

    /// Why no answer should be asked for here, if there is a reason.
    pub fn unready(&self) -> Option<String> {
        let stale = self.observer.caches.stale(STALE);
        (!stale.is_empty()).then(|| {
            format!(
                "watches have been broken for more than {} s: {}",
                STALE.as_secs(),
                stale.join(", ")
            )
        })
    }

    /// The answer to a question; `body` has its objects.
    pub async fn answer(&self, question: &Question, body: &[u8]) -> Answer {
        let kind = &question.kind;
        if !question.sub_resource.is_empty() || question.operation == Operation::Connect {
            return Answer::Undecided(
                400,
                "BadRequest",
                format!(
                    "causeway has no rule for subresources of {}, and its webhook configuration asks for none",
                    kind.name
                ),
            );
        }
        match (
            kind.group.as_str(),
            kind.version.as_str(),
            kind.name.as_str(),
        ) {
            ("apps.cozystack.io", "v1alpha1", "VirtualPrivateCloud") => {
                self.vpc(question, body).await
            }
            ("proxmox.cozystack.io", "v1alpha1", "ProxmoxNetworkZone") => {
                self.zone(question, body).await
            }
            ("proxmox.cozystack.io", "v1alpha1", "ProxmoxNetwork") => {
                self.network(question, body).await
            }
            _ => Answer::Undecided(
                400,
                "BadRequest",
                format!(
                    "causeway has no rule for {} of {}/{}: its webhook configuration has been changed by \
                     hand; apply what `causeway webhook --print-configuration` prints",
                    kind.name, kind.group, kind.version
                ),
            ),
        }
    }

    async fn vpc(&self, question: &Question, body: &[u8]) -> Answer {
        let pair = match Pair::<VirtualPrivateCloud>::read(question, body) {
            Ok(pair) => pair,
            Err(answer) => return answer,
        };
        let key = VpcKey::new(&question.namespace, &pair.name);
        let (old, new) = (
            pair.old.as_ref().map(observed::vpc),
            pair.new.as_ref().map(observed::vpc),
        );
        self.decide(Some(&question.namespace), |snapshot| {
            let write = Write::Vpc {
                key: &key,
                old: old.as_ref(),
                new: new.as_ref(),
            };
            decide(write, snapshot)
        })
        .await
    }

    async fn zone(&self, question: &Question, body: &[u8]) -> Answer {
        let pair = match Pair::<ProxmoxNetworkZone>::read(question, body) {
            Ok(pair) => pair,
            Err(answer) => return answer,
        };
        let name = ZoneName::from(pair.name.as_str());
        let old = pair.old.as_ref().map(observed::zone);
        let mut new = pair.new.as_ref().map(observed::zone);
        if old.is_none()
            && let Some(new) = &mut new
        {
            // Times have whole seconds, and of two of one second chance would be the elder.
            new.meta.created = Moment(i64::MAX);
        }
        self.decide(None, |snapshot| {
            let write = Write::Zone {
                name: &name,
                old: old.as_ref(),
                new: new.as_ref(),
            };
            decide(write, snapshot)
        })
        .await
    }

    async fn network(&self, question: &Question, body: &[u8]) -> Answer {
        let pair = match Pair::<ProxmoxNetwork>::read(question, body) {
            Ok(pair) => pair,
            Err(answer) => return answer,
        };
        let key = SubnetKey {
            namespace: question.namespace.as_str().into(),
            id: pair.name.as_str().into(),
        };
        let (old, new) = (
            pair.old.as_ref().map(observed::network),
            pair.new.as_ref().map(observed::network),
        );
        self.decide(None, |snapshot| {
            guard_network(&key, old.as_ref(), new.as_ref(), snapshot)
        })
        .await
    }

    /// Asks the planner. Before it refuses, what it refuses by is looked at live once; what it
    /// lacks, at most twice.
    async fn decide(&self, namespace: Option<&str>, ask: impl Fn(&Snapshot) -> Verdict) -> Answer {
        let mut looks = 0;
        loop {
            let (refused, most) = match self.observer.with_snapshot(&ask) {
                Verdict::Allow { warnings } => return Answer::Allow(warnings),
                Verdict::Deny(broken) => (Answer::Deny(broken), 1),
                Verdict::Need(missing) => (undecided(&missing), LOOKS),
            };
            if looks >= most {
                return refused;
            }
            looks += 1;
            if let Err(error) = self.observer.caches.look_again(namespace).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot look at zones"
                );
                return match refused {
                    Answer::Deny(_) => refused,
                    _ => Answer::Undecided(
                        503,
                        "ServiceUnavailable",
                        format!("causeway cannot decide: zones cannot be read: {error}"),
                    ),
                };
            }
        }
    }
}

fn undecided(missing: &BTreeSet<Reference>) -> Answer {
    let names: Vec<String> = missing
        .iter()
        .map(|one| match one {
            Reference::Zone(name) => format!("ProxmoxNetworkZone {:?}", name.as_str()),
            Reference::Zones => "every ProxmoxNetworkZone".to_owned(),
        })
        .collect();
    let message = format!(
        "causeway cannot decide without {}, which it does not find",
        names.join(", ")
    );
    Answer::Undecided(403, "Forbidden", message)
}

/// The objects of a review.
struct Pair<K> {
    name: String,
    old: Option<K>,
    new: Option<K>,
}

impl<K: Resource<DynamicType = ()> + DeserializeOwned> Pair<K> {
    /// The objects that the operation has, or why there is no answer.
    fn read(question: &Question, body: &[u8]) -> Result<Self, Answer> {
        let kind = K::kind(&());
        let bad = |why: String| {
            let message = format!("the {kind} in the review cannot be read: {why}");
            Answer::Undecided(400, "BadRequest", message)
        };
        let (old, new) = review::objects::<K>(body).map_err(|error| bad(error.to_string()))?;
        let (wants_old, wants_new) = match question.operation {
            Operation::Create => (false, true),
            Operation::Update => (true, true),
            Operation::Delete | Operation::Connect => (true, false),
        };
        for (there, wanted, what) in [
            (old.is_some(), wants_old, "oldObject"),
            (new.is_some(), wants_new, "object"),
        ] {
            if wanted && !there {
                return Err(bad(format!("{what} is missing")));
            }
        }
        // A create without a name has got one from generateName, which only the object has.
        let named = new.as_ref().or(old.as_ref()).map(ResourceExt::name_any);
        let name = named.filter(|name| !name.is_empty());
        Ok(Self {
            name: name.unwrap_or_else(|| question.name.clone()),
            old: old.filter(|_| wants_old),
            new: new.filter(|_| wants_new),
        })
    }
}

#[cfg(test)]
mod tests;
