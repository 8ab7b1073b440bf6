//! Kubernetes kinds of causeway and thin types of the foreign kinds it uses.
//!
//! Used by everything that reads or writes the Kubernetes API: observe, controller, cli, stand-ins
//! and the lab. Shapes only: what a field may hold beyond its bounds is decided in the planner.
//! Must stay true: the definitions in `deploy/crds` are what these types generate; an optional field
//! that nobody set is absent from what is written, so that server-side apply owns only what was
//! stated; unknown fields are dropped in reading, never an error.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint takes two printed columns of one type for a repetition"
)]

pub mod crds;
pub mod ipam;
pub mod keys;
pub mod kubeovn;
pub mod multus;
pub mod network;
pub mod observed;
mod schema;
pub mod vpc;
pub mod zone;

pub use crds::{apps_crds, crds, foreign_crds, to_yaml};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
pub use network::{ProxmoxNetwork, ProxmoxNetworkSpec, ProxmoxNetworkStatus};
pub use vpc::{VirtualPrivateCloud, VirtualPrivateCloudSpec, VirtualPrivateCloudStatus};
pub use zone::{ProxmoxNetworkZone, ProxmoxNetworkZoneSpec, ProxmoxNetworkZoneStatus};
