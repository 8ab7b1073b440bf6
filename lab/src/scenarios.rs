//! Packet scenarios: each builds a site of its own, sends packets, and says line by line what was
//! sent and seen.
//!
//! Run by `cargo xtask packets`; the main job by `causeway demo`. Must stay
//! true: a line is a real packet on real OVN; what must not pass is tried only after what must.

mod checks;
mod demo;
mod failover;
mod guests;
mod held;
mod orders;
mod outage;
mod prefixes;
mod removal;
mod repair;
mod vm_range;

use std::time::Duration;

use causeway_planner::snapshot::{COOL_DOWN, Settings};
use futures::{FutureExt, future::LocalBoxFuture};

pub use checks::{Checks, Show};
pub use guests::Guests;

use crate::{
    DumpError, GuestError, NodeOptions, Options, PingError, Progress, SiteError,
    arp::ArpError,
    embedded::{Backend, Embedded, EmbeddedError},
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

/// One scenario.
pub struct Scenario {
    /// Name: what FILTER matches, and part of its site's name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// How long released VLAN numbers rest.
    cool_down: Duration,
    show: for<'a> fn(&'a mut Embedded, &'a mut Checks) -> Showing<'a>,
}

type Showing<'a> = LocalBoxFuture<'a, Result<(), ScenarioError>>;

impl Scenario {
    /// Runs it on a site of this name, which it builds and takes away, on the stand-in of the API.
    ///
    /// # Errors
    /// [`ScenarioError`] if it could not go on.
    pub async fn run(
        &self,
        site: &str,
        progress: Progress,
        checks: &mut Checks,
    ) -> Result<(), ScenarioError> {
        self.run_on(Backend::StandIn, site, progress, checks).await
    }

    /// The same, on the stand-in of the API or on the real one.
    ///
    /// # Errors
    /// [`ScenarioError`] if it could not go on.
    pub async fn run_on(
        &self,
        backend: Backend,
        site: &str,
        progress: Progress,
        checks: &mut Checks,
    ) -> Result<(), ScenarioError> {
        let settings = Settings {
            cool_down: self.cool_down,
            ..Settings::default()
        };
        let mut embedded =
            Embedded::start_on(backend, site, usual_site(), settings, progress).await?;
        let shown = self.show(&mut embedded, checks).await;
        let stopped = embedded.stop().await;
        shown.and(Ok(stopped?))
    }

    /// The same on a site that is there, without a controller yet, and which stays.
    ///
    /// # Errors
    /// [`ScenarioError`] if it could not go on.
    pub async fn show(
        &self,
        embedded: &mut Embedded,
        checks: &mut Checks,
    ) -> Result<(), ScenarioError> {
        (self.show)(embedded, checks).await
    }
}

/// The main job, which `causeway demo` shows.
pub const DEMO: Scenario = Scenario {
    name: "demo",
    about: "the source document's VPC goes in word for word, and packets flow",
    cool_down: COOL_DOWN,
    show: |embedded, checks| demo::show(embedded, checks).boxed_local(),
};

/// All scenarios.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "repair",
        about: "gateway rows removed by hand come back, and the gateway answers only with them",
        cool_down: COOL_DOWN,
        show: |embedded, checks| repair::show(embedded, checks).boxed_local(),
    },
    Scenario {
        name: "failover",
        about: "a VPC with VMs only: the active gateway chassis is killed, another takes over",
        cool_down: COOL_DOWN,
        show: |embedded, checks| failover::show(embedded, checks).boxed_local(),
    },
    Scenario {
        name: "prefixes",
        about: "networks of /16, /24 and /28 in one VPC reach each other",
        cool_down: COOL_DOWN,
        show: |embedded, checks| prefixes::show(embedded, checks).boxed_local(),
    },
    Scenario {
        name: "removal",
        about: "deleting a VPC removes all that it caused, and nothing else",
        cool_down: Duration::ZERO,
        show: |embedded, checks| removal::show(embedded, checks).boxed_local(),
    },
    Scenario {
        name: "held",
        about: "a VPC deleted under a machine: its network carries on, and is taken over again",
        cool_down: Duration::ZERO,
        show: |embedded, checks| held::show(embedded, checks).boxed_local(),
    },
    Scenario {
        name: "orders",
        about: "in whatever order a person removes things, the state from before is left",
        cool_down: Duration::ZERO,
        show: |embedded, checks| orders::show(embedded, checks).boxed_local(),
    },
    Scenario {
        name: "outage",
        about: "Kube-OVN is away while a VPC goes: nothing stays, and the VPC can be made again",
        cool_down: Duration::ZERO,
        show: |embedded, checks| outage::show(embedded, checks).boxed_local(),
    },
    Scenario {
        name: "vm-range",
        about: "the VM range grows and shrinks under a pod and a machine",
        cool_down: COOL_DOWN,
        show: |embedded, checks| vm_range::show(embedded, checks).boxed_local(),
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
