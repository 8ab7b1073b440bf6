//! What the in-cluster IPAM provider does, as cases that know nothing but a `kube::Client`.
//!
//! Each case runs here against the stand-in on the stand-in of the API; with `CAUSEWAY_KUBEAPI_URL`
//! set the same cases run against that server, beside which the real provider must run with its
//! webhooks (`cargo xtask conformance ipam --against real`). A case makes its own namespace, so that
//! all of them can share one server. No case waits for time to pass: that something does not happen
//! is seen once something has that comes after it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs,
    reason = "a case that cannot go on has failed, and says why"
)]

mod cases {
    pub mod addresses;
    pub mod bench;
    pub mod claims;
    pub mod clusters;
    pub mod counts;
    pub mod deleting;
    pub mod pools;
    pub mod refusals;
}
