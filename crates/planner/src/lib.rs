//! The decisions of causeway: pure, deterministic, without I/O.
//!
//! ```text
//! Snapshot ──plan──▶ Plan { steps, statuses, waits }
//! VpcInput, ZoneInput ──admit──▶ VpcSpec, ZoneSpec  |  Violations
//! ```
//!
//! The controller, the admission webhook, `causeway check` and the tests call the same functions.
//! What must stay true: nothing here reads a clock, draws a random number, or depends on the order
//! of a hash map; time comes in with the [`snapshot::Snapshot`].

pub mod admit;
pub mod alloc;
pub mod conditions;
pub mod explain;
pub mod invariants;
pub mod model;
pub mod northbound;
pub mod plan;
pub mod preview;
pub mod snapshot;
pub mod usage;
pub mod vpc;
pub mod zone;
