//! The rows of `OVN_Southbound` that causeway reads, with the columns it touches (OVN 25.03,
//! ovn-sb(5)).
//!
//! Read by the controller. Nothing of causeway writes to a real Southbound: northd and the chassis
//! do. Tests write such rows where neither runs.

use std::collections::BTreeMap;

use crate::{notation::Uuid, table::tables};

tables! {
    /// A node that forwards.
    Chassis = "Chassis" {
        /// Its system id, by which Northbound names it.
        name = "name": String,
        /// The node's name.
        hostname = "hostname": String,
        /// What it can do and how it is set up.
        other_config = "other_config": BTreeMap<String, String>,
    }

    /// What a chassis says of itself often.
    ChassisPrivate = "Chassis_Private" {
        /// The chassis's name.
        name = "name": String,
        /// The `NB_Global.nb_cfg` that it has caught up with.
        nb_cfg = "nb_cfg": i64,
        /// When it had, in milliseconds since 1970.
        nb_cfg_timestamp = "nb_cfg_timestamp": i64,
    }

    /// Where a logical port is.
    PortBinding = "Port_Binding" {
        /// The port's name; `cr-<port>` for the gateway of a router port.
        logical_port = "logical_port": String,
        /// `chassisredirect` for the gateway of a router port.
        kind = "type": String,
        /// The switch or router it belongs to, as Southbound knows it.
        datapath = "datapath": Uuid,
        /// The [`Chassis`] that has it.
        chassis = "chassis": Option<Uuid>,
        /// Whether that chassis has set it up.
        up = "up": Option<bool>,
        /// Settings of its type.
        options = "options": BTreeMap<String, String>,
    }
}
