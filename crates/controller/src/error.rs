//! What can go wrong in a pass, and what is done about it.

use std::time::Duration;

use causeway_observe::Key;
use causeway_ovn::TransactError;
use causeway_planner::plan::Target;

/// A pass that ended before it was done. Nothing of it is lost: the next one plans anew.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The object was not what the plan was made from; its present state has been read.
    #[error("{} {} has changed under the plan", .target.kind, .target.name)]
    Stale {
        /// The object.
        target: Target,
    },
    /// The API refused, or could not be reached.
    #[error("cannot {verb} {} {}", .target.kind, .target.name)]
    Api {
        /// What was tried.
        verb: &'static str,
        /// The object.
        target: Target,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// A status cannot be written.
    #[error("cannot report on {kind} {name}")]
    Report {
        /// The object's kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// A kind that the plan names is not served any more.
    #[error("{} is not served by the API", .0.kind)]
    NotServed(Target),
    /// The northbound database refused, or could not be reached.
    #[error("cannot write northbound rows")]
    Northbound(#[source] TransactError),
    /// A row of the plan has no uuid.
    #[error("{row:?} is no row")]
    NoRow {
        /// What should have been a uuid.
        row: String,
    },
    /// An object cannot be written as JSON.
    #[error("cannot write {} {} as JSON", .target.kind, .target.name)]
    Json {
        /// The object.
        target: Target,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Something undoes what this pass writes.
    #[error(
        "{key} is not done after {} rounds: something undoes its writes",
        crate::ROUNDS_MAX
    )]
    NeverDone {
        /// The key.
        key: Key,
    },
}

impl PassError {
    /// Stale plans are everyday; everything else is for the log.
    pub(crate) fn log(&self, key: &Key, wait: Duration) {
        let error = self as &dyn std::error::Error;
        if matches!(self, Self::Stale { .. }) {
            tracing::debug!(%key, ?wait, error, "planned from an older state");
        } else {
            tracing::warn!(%key, ?wait, error, "pass ended early");
        }
    }
}
