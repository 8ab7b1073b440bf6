//! The rows of `OVN_Northbound` that causeway reads or writes, with the columns it touches
//! (OVN 25.03, ovn-nb(5)).
//!
//! Read by the controller; written by the controller (gateway chassis, options, external ids) and
//! by what stands in for Kube-OVN (all the rest).

use std::collections::{BTreeMap, BTreeSet};

use crate::{notation::Uuid, table::tables};

tables! {
    /// The one row about the whole database.
    NbGlobal = "NB_Global" {
        /// Incremented by whoever wants to know when everyone has caught up.
        nb_cfg = "nb_cfg": i64,
        /// Settings of the site.
        options = "options": BTreeMap<String, String>,
    }

    /// A layer-2 network.
    LogicalSwitch = "Logical_Switch" {
        /// Its name; OVN itself lets two have the same.
        name = "name": String,
        /// Its [`LogicalSwitchPort`]s.
        ports = "ports": BTreeSet<Uuid>,
        /// Its [`Acl`]s.
        acls = "acls": BTreeSet<Uuid>,
        /// Settings.
        other_config = "other_config": BTreeMap<String, String>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// A port of a logical switch.
    LogicalSwitchPort = "Logical_Switch_Port" {
        /// Its name, unique in the site.
        name = "name": String,
        /// Empty for a VM or pod, else `router`, `localnet` and so on.
        kind = "type": String,
        /// MAC and IP addresses as one text each, or `router`, `unknown`.
        addresses = "addresses": BTreeSet<String>,
        /// The MAC and IP addresses that may send, in the same form.
        port_security = "port_security": BTreeSet<String>,
        /// Settings of its type: `router-port`, `network_name`.
        options = "options": BTreeMap<String, String>,
        /// The VLAN number of a localnet port.
        tag = "tag": Option<i64>,
        /// Whether a chassis has it; written by northd.
        up = "up": Option<bool>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// A router.
    LogicalRouter = "Logical_Router" {
        /// Its name; OVN itself lets two have the same.
        name = "name": String,
        /// Its [`LogicalRouterPort`]s.
        ports = "ports": BTreeSet<Uuid>,
        /// Its [`LogicalRouterPolicy`] rows.
        policies = "policies": BTreeSet<Uuid>,
        /// Its [`LogicalRouterStaticRoute`]s.
        static_routes = "static_routes": BTreeSet<Uuid>,
        /// Settings.
        options = "options": BTreeMap<String, String>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// A port of a router.
    LogicalRouterPort = "Logical_Router_Port" {
        /// Its name, unique in the site.
        name = "name": String,
        /// Its MAC address.
        mac = "mac": String,
        /// Its addresses, each with the length of its prefix.
        networks = "networks": BTreeSet<String>,
        /// The [`GatewayChassis`] that may have it.
        gateway_chassis = "gateway_chassis": BTreeSet<Uuid>,
        /// The name of the port at the other end, if that is a router's.
        peer = "peer": Option<String>,
        /// Settings, such as `gateway_mtu`.
        options = "options": BTreeMap<String, String>,
        /// What northd says of it, such as `hosting-chassis`.
        status = "status": BTreeMap<String, String>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// A rule by which a router passes, drops or reroutes packets before its routes are asked.
    LogicalRouterPolicy = "Logical_Router_Policy" {
        /// The highest that matches decides; 0 to 32767.
        priority = "priority": i64,
        /// Which packets.
        matches = "match": String,
        /// `allow`, `drop`, `reroute` or `jump`.
        action = "action": String,
        /// Where `reroute` sends them.
        nexthops = "nexthops": BTreeSet<String>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// A route of a router.
    LogicalRouterStaticRoute = "Logical_Router_Static_Route" {
        /// The table it is in; empty for the main one.
        route_table = "route_table": String,
        /// Which addresses.
        ip_prefix = "ip_prefix": String,
        /// `dst-ip`, which is meant by none, or `src-ip`.
        policy = "policy": Option<String>,
        /// The next router's address.
        nexthop = "nexthop": String,
        /// The name of the port to leave by, if the next hop does not tell.
        output_port = "output_port": Option<String>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// A chassis that may have a router port.
    GatewayChassis = "Gateway_Chassis" {
        /// Its name, unique in the site: `<port>-<chassis>`.
        name = "name": String,
        /// The name of the chassis in Southbound.
        chassis_name = "chassis_name": String,
        /// The highest that lives has the port; 0 to 32767.
        priority = "priority": i64,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// A rule of a switch or port group.
    Acl = "ACL" {
        /// A name for its log lines.
        name = "name": Option<String>,
        /// The stage it is in; the lowest is asked first, 0 to 3.
        tier = "tier": i64,
        /// The highest of its tier that matches decides; 0 to 32767.
        priority = "priority": i64,
        /// `from-lport` or `to-lport`.
        direction = "direction": String,
        /// Which packets.
        matches = "match": String,
        /// `allow`, `allow-related`, `allow-stateless`, `drop`, `reject` or `pass`.
        action = "action": String,
        /// Whether what it matches is logged.
        log = "log": bool,
        /// How grave the log line is.
        severity = "severity": Option<String>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// Addresses that matches may name together.
    AddressSet = "Address_Set" {
        /// Its name, unique in the site; matches write `$name`.
        name = "name": String,
        /// The addresses.
        addresses = "addresses": BTreeSet<String>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }

    /// Ports that matches may name together.
    PortGroup = "Port_Group" {
        /// Its name, unique in the site; matches write `@name`.
        name = "name": String,
        /// The [`LogicalSwitchPort`]s.
        ports = "ports": BTreeSet<Uuid>,
        /// The [`Acl`]s that hold for them.
        acls = "acls": BTreeSet<Uuid>,
        /// Whose it is.
        external_ids = "external_ids": BTreeMap<String, String>,
    }
}
