//! Fields that are accepted and kept, but that nothing acts on in this release. `causeway check`
//! warns where one is written, and a generated page of the docs lists them.

/// A field that nothing acts on yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithoutEffect {
    /// The kind that has it.
    pub kind: &'static str,
    /// Its path from the object's root.
    pub path: &'static [&'static str],
    /// Values with which it is as good as absent.
    pub idle: &'static [&'static str],
    /// What is missing.
    pub missing: &'static str,
}

/// All of them.
pub const WITHOUT_EFFECT: &[WithoutEffect] = &[
    WithoutEffect {
        kind: "VirtualPrivateCloud",
        path: &["spec", "peers"],
        idle: &[],
        missing: "VPCs are not connected with each other",
    },
    WithoutEffect {
        kind: "VirtualPrivateCloud",
        path: &["spec", "egress", "enabled"],
        idle: &["false"],
        missing: "no egress gateway is made, traffic stays inside the VPC",
    },
    WithoutEffect {
        kind: "ProxmoxNetworkZone",
        path: &["spec", "antiSpoofing"],
        idle: &["Off"],
        missing: "frames that claim a foreign address are not dropped",
    },
    WithoutEffect {
        kind: "ProxmoxNetworkZone",
        path: &["spec", "maxNetworksPerNamespace"],
        idle: &["0"],
        missing: "the number of networks is not limited",
    },
    WithoutEffect {
        kind: "ProxmoxNetworkZone",
        path: &["spec", "proxmox"],
        idle: &[],
        missing: "the Proxmox API is not asked",
    },
    WithoutEffect {
        kind: "ProxmoxNetworkZone",
        path: &["spec", "transit"],
        idle: &[],
        missing: "no transit network is made",
    },
];
