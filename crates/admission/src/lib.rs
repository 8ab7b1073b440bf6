//! The admission webhook: AdmissionReview to `planner::admit` and back, over HTTPS.
//!
//! ```text
//! kube-apiserver ──HTTPS──▶ server ──▶ service ──▶ review ──▶ judge ──▶ planner::admit
//!                             │ key      │ /readyz, /metrics    │ caches (observe), live look
//!                          keeper ◀── Secret: authority and leaf, renewed before they end
//!                             └──▶ configuration: caBundle
//! ```
//!
//! Started by `causeway webhook` ([`Webhook::start`]) and by tests. Must stay true: nothing is decided
//! here, every answer is the planner's; a review has no side effect; whatever comes in, what goes out is
//! an answer that says what is wrong, never a panic and never silence; an unready replica says why.

mod certificates;
pub mod configuration;
mod judge;
mod keeper;
mod metrics;
mod review;
mod server;
mod service;
mod webhook;

pub use certificates::CertificateError;
pub use judge::Judge;
pub use keeper::{KeepError, SECRET};
pub use server::BindError;
pub use service::LARGEST_REVIEW;
pub use webhook::{Options, StartError, Webhook};
