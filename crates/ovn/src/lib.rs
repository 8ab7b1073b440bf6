//! OVSDB client (RFC 7047 and `monitor_cond_since` of ovsdb-server(7)), and the northbound and
//! southbound rows that causeway touches.
//!
//! ```text
//!  ovsdb-server
//!     │ ▲ bytes
//!     ▼ │
//!  codec        cuts the stream into messages, each of bounded length
//!     │ ▲
//!  session      connect ─▶ get_schema ─▶ monitor_cond_since ─▶ updates, answers, probes
//!     │ ▲
//!  client       one task: a session after another; whatever ends one drops all rows
//!     │ └────────── transactions, each sent at most once ◀── Client::transact(Vec<Operation>)
//!     ▼
//!  replica      Arc<Replica> through tokio::sync::watch ──▶ replica.rows::<nb::LogicalRouterPort>()
//! ```
//!
//! What can be relied on:
//! - A replica is whole, or it is not connected and has no rows. There is no stale one.
//! - A transaction that returned success is in the replica (see [`Client::transact`]).
//! - A transaction is done only if every element of the server's answer says so; one that was on its
//!   way when the session ended is [`TransactError::OutcomeUnknown`], and is never sent again.

use std::path::PathBuf;

pub mod client;
pub mod codec;
pub mod nb;
pub mod notation;
pub mod operation;
pub mod replica;
pub mod sb;
mod schema;
mod session;
pub mod table;

pub use client::Client;
pub use notation::{Atom, Condition, Datum, Mutation, NamedUuid, Row, Uuid};
pub use operation::{Operation, Outcome, TransactError, TransactReply};
pub use replica::{Replica, ReplicaError};
pub use schema::SchemaError;
pub use session::SessionError;
pub use table::{Monitors, Table, monitor};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// A unix socket of this machine.
    Unix(PathBuf),
}
