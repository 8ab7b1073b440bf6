//! Rows that somebody else wrote: which of them Kube-OVN leaves, and which go.

use causeway_api::kubeovn::{Subnet, Vpc};
use causeway_ovn::nb::{Acl, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort};
use serde_json::json;

use crate::bench::Bench;

/// Changes of Subnet and Vpc, then a start.
async fn go_through_everything(bench: &mut Bench) {
    let excluded = json!({"spec": {"excludeIps": ["172.20.10.1", "172.20.10.9"]}});
    bench.patch::<Subnet>("s", excluded).await;
    let routes =
        json!({"spec": {"staticRoutes": [{"cidr": "0.0.0.0/0", "nextHopIP": "172.20.10.3"}]}});
    bench.patch::<Vpc>("v", routes).await;
    bench.settle().await;
    bench.stop_kube_ovn().await;
    bench.start_kube_ovn();
    bench.settle().await;
}

fn port(bench: &Bench) -> LogicalRouterPort {
    let mut rows = bench.rows::<LogicalRouterPort>().into_iter();
    rows.find(|row| row.name == "v-s").expect("the port")
}

#[tokio::test(flavor = "multi_thread")]
async fn nat_address_sets_chassis_groups_and_global_options_of_others_stay() {
    let mut bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&[
        "lr-nat-add",
        "v",
        "dnat_and_snat",
        "198.51.100.10",
        "10.60.0.2",
    ]);
    let set = "addresses=\"10.60.0.0/24\"";
    bench.nbctl(&[
        "create",
        "Address_Set",
        "name=theirs",
        set,
        "external_ids:owner=proxmox",
    ]);
    bench.nbctl(&["ha-chassis-group-add", "theirs"]);
    bench.nbctl(&["ha-chassis-group-add-chassis", "theirs", "chassis-1", "30"]);
    let group = bench.nbctl(&[
        "--bare",
        "--columns=_uuid",
        "find",
        "HA_Chassis_Group",
        "name=theirs",
    ]);
    let group = format!("ha_chassis_group={}", group.trim());
    bench.nbctl(&["set", "Logical_Router_Port", "v-s", &group]);
    bench.nbctl(&[
        "set",
        "NB_Global",
        ".",
        "options:bfd-min-rx=200",
        "options:bfd-mult=3",
    ]);
    let rows = |bench: &Bench| {
        let port = "--columns=name,mac,networks,gateway_chassis,ha_chassis_group,options";
        [
            bench.nbctl(&["list", "NAT"]),
            bench.nbctl(&["list", "Address_Set"]),
            bench.nbctl(&["list", "HA_Chassis_Group"]),
            bench.nbctl(&[
                "get",
                "NB_Global",
                ".",
                "options:bfd-min-rx",
                "options:bfd-mult",
            ]),
            bench.nbctl(&["--columns=nat", "find", "Logical_Router", "name=v"]),
            bench.nbctl(&[port, "find", "Logical_Router_Port", "name=v-s"]),
        ]
    };
    let before = rows(&bench);
    assert!(
        before.iter().all(|rows| !rows.trim().is_empty()),
        "{before:?}"
    );
    go_through_everything(&mut bench).await;
    assert_eq!(rows(&bench), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_is_no_vpcs_goes_at_a_start_with_all_it_has() {
    let mut bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&["lr-add", "theirs"]);
    bench.nbctl(&[
        "lrp-add",
        "theirs",
        "theirs-a",
        "02:00:00:00:00:01",
        "192.0.2.1/24",
    ]);
    bench.nbctl(&["lr-policy-add", "theirs", "31601", "ip4", "drop"]);
    bench.settle().await;
    let there = |bench: &Bench| {
        (
            bench
                .rows::<LogicalRouter>()
                .iter()
                .any(|row| row.name == "theirs"),
            bench
                .rows::<LogicalRouterPort>()
                .iter()
                .any(|row| row.name == "theirs-a"),
            bench
                .rows::<LogicalRouterPolicy>()
                .iter()
                .any(|row| row.priority == 31601),
        )
    };
    assert_eq!(there(&bench), (true, true, true));
    bench.stop_kube_ovn().await;
    bench.start_kube_ovn();
    bench.settle().await;
    assert_eq!(there(&bench), (false, false, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_vlan_subnet_keeps_its_router_port_and_what_others_set_on_it() {
    let bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&["lrp-set-gateway-chassis", "v-s", "chassis-1", "20"]);
    bench.nbctl(&[
        "set",
        "Logical_Router_Port",
        "v-s",
        "options:gateway_mtu=1400",
    ]);
    bench.settle().await;
    let before = port(&bench);
    assert_eq!((before.gateway_chassis.len(), before.options.len()), (1, 1));
    for (private, reason) in [
        (true, "SetPrivateLogicalSwitchSuccess"),
        (false, "ResetLogicalSwitchAclSuccess"),
    ] {
        let patch = json!({"spec": {"private": private}});
        bench.patch::<Subnet>("s", patch).await;
        bench.ready_with("s", reason).await;
        let drops = bench.rows::<Acl>().into_iter();
        let drops = drops.filter(|row| row.matches == "ip" && row.action == "drop");
        assert_eq!(drops.count(), usize::from(private));
        assert_eq!(port(&bench), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_written_as_it_stands_whatever_it_names() {
    let bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&[
        "create",
        "Address_Set",
        "name=theirs",
        "addresses=\"172.20.10.0/24\"",
    ]);
    let stated = json!([
        {"priority": 30990, "match": "ip4.dst == $theirs", "action": "drop"},
        {"priority": 31500, "match": "ip4.src == 172.20.10.0/24", "action": "drop"},
    ]);
    bench
        .patch::<Vpc>("v", json!({"spec": {"policyRoutes": stated}}))
        .await;
    bench
        .northbound_when("the policies", |replica| {
            replica.rows::<LogicalRouterPolicy>().is_ok_and(|rows| {
                let has = |priority, matches: &str, action: &str| {
                    rows.values().any(|row| {
                        (row.priority, row.matches.as_str(), row.action.as_str())
                            == (priority, matches, action)
                    })
                };
                // Between the two is what lets traffic into the Vpc's own subnets through.
                has(30990, "ip4.dst == $theirs", "drop")
                    && has(31000, "ip4.dst == 172.20.10.0/24", "allow")
                    && has(31500, "ip4.src == 172.20.10.0/24", "drop")
            })
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acls_of_a_vlan_subnet_are_written_as_they_stand_in_both_directions() {
    let bench = Bench::with_vlan_subnet().await;
    let acls = json!([
        {"direction": "from-lport", "priority": 2000, "match": "ip4.dst == 10.60.0.0/24", "action": "drop"},
        {"direction": "to-lport", "priority": 2001, "match": "ip4.src == 10.60.0.0/24", "action": "drop"},
    ]);
    bench
        .patch::<Subnet>("s", json!({"spec": {"acls": acls}}))
        .await;
    let stated = |row: &&Acl| row.external_ids.get("subnet").map(String::as_str) == Some("s");
    bench
        .northbound_when("the ACLs", |replica| {
            let rows = replica.rows::<Acl>();
            rows.is_ok_and(|rows| rows.values().filter(stated).count() == 2)
        })
        .await;
    let mut rows: Vec<_> = bench.rows::<Acl>();
    rows.retain(|row| stated(&row));
    rows.sort_by_key(|row| row.priority);
    let texts = rows.iter().map(|row| {
        let texts = [&row.direction, &row.matches, &row.action];
        (row.priority, row.tier, texts.map(String::as_str))
    });
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            (2000, 2, ["from-lport", "ip4.dst == 10.60.0.0/24", "drop"]),
            (2001, 2, ["to-lport", "ip4.src == 10.60.0.0/24", "drop"]),
        ]
    );
}
