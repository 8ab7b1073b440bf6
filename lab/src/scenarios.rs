//! Packet scenarios: each builds a site of its own, sends packets, and says line by line what was
//! sent and seen.
//!
//! Run by `cargo xtask packets`, and by `causeway demo` (the first of them, with tables). Must stay
//! true: a line is a real packet on real OVN; what must not pass is tried only after what must.

mod checks;
mod failover;
mod guests;
mod prefixes;
mod removal;
mod repair;

use std::{future::Future, pin::Pin};

pub use checks::{Checks, Show};
pub use guests::Guests;

use crate::{
    DumpError, GuestError, NodeOptions, Options, PingError, SiteError, arp::ArpError,
    embedded::EmbeddedError,
};

/// A scenario could not go on. A packet that went wrong is a failed line instead.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The embedded site.
    #[error("the site is not as the scenario needs it")]
    Embedded(#[from] EmbeddedError),
    /// The lab.
    #[error("the lab failed")]
    Site(#[from] SiteError),
    /// A guest.
    #[error("a guest cannot be made")]
    Guest(#[from] GuestError),
    /// ping itself.
    #[error("ping cannot be run")]
    Ping(#[from] PingError),
    /// The neighbour table of a guest.
    #[error("a neighbour table cannot be used")]
    Arp(#[from] ArpError),
    /// A dump of OVN.
    #[error("the northbound database cannot be dumped")]
    Dump(#[from] DumpError),
    /// Something that the scenario relies on is not there.
    #[error("{0}")]
    Missing(String),
}

/// What a scenario's future is.
type Run<'a> = Pin<Box<dyn Future<Output = Result<(), ScenarioError>> + Send + 'a>>;

/// One scenario.
pub struct Scenario {
    /// Name: what FILTER matches, and the name of its site.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    run: for<'a> fn(&'a mut Checks, &'a str) -> Run<'a>,
}

impl Scenario {
    /// Runs it on a site of this name.
    ///
    /// # Errors
    /// [`ScenarioError`] if it could not go on.
    pub async fn run(&self, checks: &mut Checks, site: &str) -> Result<(), ScenarioError> {
        (self.run)(checks, site).await
    }
}

/// All scenarios.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "repair",
        about: "gateway rows removed by hand come back, and the gateway answers only with them",
        run: |checks, site| Box::pin(repair::run(checks, site)),
    },
    Scenario {
        name: "failover",
        about: "a VPC with VMs only: the active gateway chassis is killed, another takes over",
        run: |checks, site| Box::pin(failover::run(checks, site)),
    },
    Scenario {
        name: "prefixes",
        about: "networks of /16, /24 and /28 in one VPC reach each other",
        run: |checks, site| Box::pin(prefixes::run(checks, site)),
    },
    Scenario {
        name: "removal",
        about: "deleting a VPC removes all that it caused, and nothing else",
        run: |checks, site| Box::pin(removal::run(checks, site)),
    },
];

/// The site that most scenarios use: two trunk nodes, one without trunk, two hypervisors.
pub fn usual_site() -> Options {
    let node = |name: &str, trunk| NodeOptions {
        name: name.to_owned(),
        trunk,
    };
    Options {
        nodes: vec![
            node("node1", true),
            node("node2", true),
            node("node3", false),
        ],
        hypervisors: vec!["pve1".to_owned(), "pve2".to_owned()],
    }
}

/// The zone of `examples/`.
pub const ZONE: &str = include_str!("../../examples/zone.yaml");
