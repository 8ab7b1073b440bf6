//! The site in a box: real OVN and OVS, hypervisors, guests and packets in network namespaces of
//! one Linux machine.
//!
//! Called by `causeway demo`, `causeway up` and the packet scenarios. Must stay true: no packet
//! leaves the namespaces that a site made; a site leaves nothing behind, however it ends; what
//! cannot run says what is missing and never passes silently.

mod arp;
mod capture;
mod central;
mod chain;
mod claim;
pub mod cluster;
mod cni;
mod command;
pub mod embedded;
mod guest;
mod nb;
mod netns;
pub mod ovn;
mod packages;
mod ping;
mod processes;
mod progress;
pub mod scenarios;
mod site;
pub mod soak;
mod state;
mod switch;
mod tcp;
pub mod up;

pub use arp::{ArpError, Neighbour};
pub use capture::{Capture, CaptureError, Place};
pub use chain::chain;
pub use claim::{ClaimError, clear_leftovers, end_sites, end_sites_on_signals};
pub use cluster::{Cluster, ClusterError};
pub use cni::SiteCni;
pub use command::CommandError;
pub use guest::{Guest, GuestError, Vm};
pub use nb::{DumpError, NbDump};
pub use packages::{PACKAGES, Package, PackagesMissing};
pub use ping::{PingError, PingReport, Pinger, Reply};
pub use progress::Progress;
pub use site::{NodeOptions, Options, Site, SiteError};
pub use state::{Ended, Held, Holder, State, StateError};
pub use tcp::{TcpError, TcpReport};
