//! The webhook beside an API server, with the configuration that is shipped.
//!
//! Each case runs here against the stand-in; with `CAUSEWAY_KUBEAPI_URL` set the same cases run
//! against that server (`cargo xtask conformance admission --against real`). There is one webhook
//! configuration in a cluster, so the cases take turns.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs,
    reason = "a case that cannot go on has failed, and says why"
)]

mod cases {
    pub mod bench;
    pub mod certificates;
    pub mod down;
    pub mod guard;
    pub mod reviews;
    pub mod rules;
}
