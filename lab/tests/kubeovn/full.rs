//! The recorded site of three linked Vpcs, made again: all of it but what Kube-OVN made for two
//! Subnets of two families and for an egress gateway.
//!
//! The gateway's pods are made as pods, for their addresses and ports are as those of others.

use causeway_api::kubeovn::{IP, ProviderNetwork, Subnet, Vlan, Vpc};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{
    bench::{Bench, create, gone, is_running, pod, when},
    recorded::{
        Row, asked, assert_same, assert_same_addresses, assert_same_node, assert_same_pods,
        assert_same_rows, both_nodes_carry, is_no_nodes, run_pods, without_counters, yaml,
    },
};

macro_rules! full {
    ($name:literal) => {
        include_str!(concat!("data/full/", $name))
    };
}

macro_rules! table {
    ($name:literal) => {
        include_str!(concat!("data/full/nb-", $name, ".txt"))
    };
}

/// All that was recorded of the northbound database.
const TABLES: [(&str, &str); 12] = [
    ("Logical_Switch", table!("logical_switch")),
    ("Logical_Switch_Port", table!("logical_switch_port")),
    ("ACL", table!("acl")),
    ("Logical_Router", table!("logical_router")),
    ("Logical_Router_Port", table!("logical_router_port")),
    ("Logical_Router_Policy", table!("logical_router_policy")),
    (
        "Logical_Router_Static_Route",
        table!("logical_router_static_route"),
    ),
    ("Gateway_Chassis", table!("gateway_chassis")),
    ("HA_Chassis_Group", table!("ha_chassis_group")),
    ("HA_Chassis", table!("ha_chassis")),
    ("Port_Group", table!("port_group")),
    ("Address_Set", table!("address_set")),
];

/// The Vlan of a Subnet of two families: there for its provider network to carry.
const VLAN_OF_TWO_FAMILIES: &str = full!("vlan-pve-default-215.yaml");

const VLANS: [&str; 2] = [
    full!("vlan-pve-default-214.yaml"),
    full!("vlan-pve-default-300.yaml"),
];

const VPCS: [&str; 3] = [
    full!("vpc-vpc-1a2b3c.yaml"),
    full!("vpc-vpc-4d5e6f.yaml"),
    full!("vpc-transit-default.yaml"),
];

const SUBNETS: [&str; 4] = [
    full!("subnet-subnet-1a2b3c4d.yaml"),
    full!("subnet-subnet-overlay1.yaml"),
    full!("subnet-subnet-overlay2.yaml"),
    full!("subnet-transit-default.yaml"),
];

/// Where the egress gateway's pods are, and their second network.
const GATEWAYS: &str = "cozy-proxmox-network";

/// The Subnets of two families.
const TWO_FAMILIES: [&str; 2] = ["subnet-dual", "subnet-overlay6"];

/// The recorded site, and the rows that somebody else wrote.
async fn three_vpcs() -> Bench {
    let bench = Bench::start().await;
    let network = asked(full!("provider-network-pve-default.yaml"));
    bench.create::<ProviderNetwork>(&network).await;
    // One after another: the provider network tells of them in the order in which they came.
    let [first, last] = VLANS;
    for (index, vlan) in [first, VLAN_OF_TWO_FAMILIES, last].into_iter().enumerate() {
        bench.create::<Vlan>(&asked(vlan)).await;
        let carried = |it: &ProviderNetwork| {
            let vlans = it.status.as_ref().and_then(|it| it.vlans.as_ref());
            vlans.is_some_and(|vlans| vlans.len() > index)
        };
        bench.when::<ProviderNetwork>("pve-default", carried).await;
    }
    for vpc in VPCS {
        bench.create::<Vpc>(&asked(vpc)).await;
    }
    for subnet in SUBNETS {
        let subnet = asked(subnet);
        bench.create::<Subnet>(&subnet).await;
        let name = subnet["metadata"]["name"].as_str().expect("has a name");
        bench.ready::<Subnet>(name).await;
    }
    bench.attachment("subnet-1a2b3c4d").await;
    run_pods(&bench, full!("pods.yaml"), is_of_one_family).await;
    gateway_pods(&bench).await;
    rows_of_others(&bench);
    both_nodes_carry(&bench).await;
    for text in SUBNETS {
        let recorded = yaml(text);
        let using = recorded["status"]["v4usingIPs"].as_u64();
        let name = recorded["metadata"]["name"].as_str().expect("has a name");
        let counted = |it: &Subnet| it.status.as_ref().and_then(|it| it.v4_using_ips) == using;
        bench.when::<Subnet>(name, counted).await;
    }
    bench
}

/// Those of the first generation came and went before the recording: their addresses are free and
/// were not given again.
async fn gateway_pods(bench: &Bench) {
    let namespace = json!({"metadata": {"name": GATEWAYS}});
    bench.create::<Namespace>(&namespace).await;
    bench.attachment_within(GATEWAYS, "transit-default").await;
    let deployment = yaml(full!("deployment-vpc-1a2b3c.yaml"));
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    let pods = [("vpc-1a2b3c-0", "node1"), ("vpc-1a2b3c-1", "node2")];
    let api = bench.within::<Pod>(GATEWAYS);
    for generation in [1, 2] {
        for (name, node) in pods {
            create(&api, &pod(name, node, annotations)).await;
            when(api.clone(), name, is_running).await;
        }
        if generation == 2 {
            return;
        }
        for (name, _) in pods {
            let deleted = api.delete(name, &DeleteParams::default()).await;
            deleted.expect("is deleted");
            gone(api.clone(), name).await;
            let ip = format!("{name}.{GATEWAYS}");
            bench.gone::<IP>(&ip).await;
            let second = format!("{ip}.transit-default.{GATEWAYS}.ovn");
            bench.gone::<IP>(&second).await;
        }
    }
}

fn rows_of_others(bench: &Bench) {
    for (priority, matches, owner) in [
        ("31601", "ip4.src == 203.0.113.2", "external_ids:subnet=x"),
        (
            "31603",
            "ip4.src == 203.0.113.4",
            "external_ids:vpc-egress-gateway=a/b",
        ),
    ] {
        bench.nbctl(&["lr-policy-add", "vpc-4d5e6f", priority, matches, "drop"]);
        let found = format!("match=\"{matches}\"");
        let table = "Logical_Router_Policy";
        let uuid = bench.nbctl(&["--bare", "--columns=_uuid", "find", table, &found]);
        bench.nbctl(&["set", table, uuid.trim(), owner]);
    }
    let route = "--id=@r create Logical_Router_Static_Route ip_prefix=203.0.113.0/24 \
                 nexthop=169.254.7.5 external_ids:owner=proxmox \
                 -- add Logical_Router vpc-4d5e6f static_routes @r";
    bench.nbctl(&route.split_whitespace().collect::<Vec<_>>());
    let group = "pve-default-gw";
    bench.nbctl(&["ha-chassis-group-add", group]);
    for (chassis, priority) in [("1", "30"), ("2", "20")] {
        let chassis = format!("00000000-0000-4000-8000-00000000000{chassis}");
        bench.nbctl(&["ha-chassis-group-add-chassis", group, &chassis, priority]);
    }
    let uuid = bench.nbctl(&["--bare", "--columns=_uuid", "list", "HA_Chassis_Group"]);
    let grouped = format!("ha_chassis_group={}", uuid.trim());
    let port = |name: &str, set: &str| bench.nbctl(&["set", "Logical_Router_Port", name, set]);
    port("vpc-1a2b3c-subnet-1a2b3c4d", &grouped);
    port("vpc-1a2b3c-subnet-overlay1", "options:gateway_mtu=1400");
}

fn is_of_one_family(pod: &str) -> bool {
    !pod.starts_with("web6")
}

/// Without the Subnets of two families in the status of their Vpc.
fn of_one_family(object: &mut Value) {
    let subnets = object.pointer_mut("/status/subnets");
    if let Some(subnets) = subnets.and_then(Value::as_array_mut) {
        subnets.retain(|name| !TWO_FAMILIES.iter().any(|it| name == it));
    }
}

/// No row of the Subnets of two families, and none by which the egress gateway is its Vpc's.
fn is_compared(row: &Row) -> bool {
    let line = format!("{row:?}");
    let others = [
        "subnet-dual",
        "overlay6",
        "fd00:",
        "10.51.0.",
        "vpc-egress-gateway=\\\"cozy-proxmox-network/",
    ];
    !others.iter().any(|part| line.contains(part))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_the_linked_vpcs_are_those_recorded() {
    let bench = three_vpcs().await;
    let same = |_: &mut Value| {};
    let network = full!("provider-network-pve-default.yaml");
    assert_same::<ProviderNetwork>(&bench, network, same).await;
    for vlan in VLANS {
        assert_same::<Vlan>(&bench, vlan, same).await;
    }
    for vpc in VPCS.into_iter().chain([full!("vpc-ovn-cluster.yaml")]) {
        assert_same::<Vpc>(&bench, vpc, of_one_family).await;
    }
    let pods = full!("subnet-ovn-default.yaml");
    for subnet in SUBNETS.into_iter().chain([pods]) {
        assert_same::<Subnet>(&bench, subnet, same).await;
    }
    assert_same::<Subnet>(&bench, full!("subnet-join.yaml"), without_counters).await;
    assert_same_node(&bench, full!("node-node1.yaml")).await;
    let ips = |name: &str| is_no_nodes(name) && is_of_one_family(name);
    let addresses = assert_same_addresses(&bench, full!("ips.yaml"), ips).await;
    let pods = assert_same_pods(&bench, full!("pods.yaml"), is_of_one_family).await;
    assert_eq!((addresses, pods), (8, 3), "all that was recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_the_linked_vpcs_are_those_recorded_over_a_restart_too() {
    let mut bench = three_vpcs().await;
    for restart in [false, true] {
        if restart {
            bench.stop_kube_ovn().await;
            bench.start_kube_ovn();
        }
        bench.settle().await;
        let switches = 6 + 15 + 4;
        let routers = 4 + 9 + 8 + 8;
        let chassis_group = 1 + 2;
        assert_eq!(
            assert_same_rows(&bench, &TABLES, is_compared),
            switches + routers + chassis_group,
            "all that is compared was recorded"
        );
    }
}
