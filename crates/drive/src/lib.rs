//! The scheduler that controllers and stand-ins share.
//!
//! ```text
//! Cache (list, watch) ──on_change──▶ Wakes (ordered set of keys) ──next──▶ one pass over a key
//!        ▲                                                                       │
//!        └────────────────────── fold: what we wrote ourselves ──────────────────┘
//! ```
//!
//! Must stay true: no step depends on having seen an event. Watches only add keys; a pass over a
//! key reads everything else from the caches, and what a pass wrote is in the caches before the
//! next pass plans.

mod apply;
mod cache;
mod wakes;

pub use apply::{apply, apply_status};
pub use cache::{Cache, Change, Name, Watched};
pub use kube::runtime::watcher::Config as Selection;
pub use wakes::{Backoff, Wakes};
