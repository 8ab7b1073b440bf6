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
//!
//! ```no_run
//! use causeway_ovn::{Client, Condition, Monitors, NamedUuid, Operation, Remote, monitor, nb};
//!
//! # async fn add_a_gateway() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::start(
//!     Remote::Unix("/run/ovn/ovnnb_db.sock".into()),
//!     "OVN_Northbound",
//!     Monitors::from([monitor::<nb::LogicalRouterPort>(), monitor::<nb::GatewayChassis>()]),
//! );
//! let ports = client.connected().await.rows::<nb::LogicalRouterPort>()?;
//! for (uuid, port) in ports.iter().filter(|(_, port)| port.gateway_chassis.is_empty()) {
//!     let row = nb::GatewayChassis {
//!         name: format!("{}-node1", port.name),
//!         chassis_name: "node1".into(),
//!         priority: 100,
//!         ..Default::default()
//!     };
//!     let name = NamedUuid::of(&row.name);
//!     let at = Condition::is(*uuid);
//!     let operations =
//!         Operation::insert_into::<nb::LogicalRouterPort, _>(at, "gateway_chassis", name, &row);
//!     client.transact(operations.into()).await?;
//! }
//! # Ok(())
//! # }
//! ```

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
