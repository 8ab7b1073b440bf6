//! What an API server must do, as a table of cases that know nothing but a `kube::Client`.
//!
//! Each case runs here against the stand-in; with `CAUSEWAY_KUBEAPI_URL` set (for example to what
//! `kubectl proxy` serves) the same cases run against that server instead. A case makes its own
//! namespace and gives cluster-scoped objects names of its own, so that all of them can share one
//! server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs,
    reason = "a case that cannot go on has failed, and says why"
)]

mod cases {
    pub mod access;
    pub mod apply;
    pub mod apply_parts;
    pub mod apply_rules;
    pub mod bench;
    pub mod changing;
    pub mod collecting;
    pub mod deleting;
    pub mod discovery;
    pub mod events;
    pub mod hook;
    pub mod making;
    pub mod own;
    pub mod own_kinds;
    pub mod reading;
    pub mod rules;
    pub mod rules_written;
    pub mod scale;
    pub mod shape;
    pub mod status;
    pub mod strict;
    pub mod tables;
    pub mod watching;
    pub mod webhook_failures;
    pub mod webhook_matching;
    pub mod webhooks;
}
