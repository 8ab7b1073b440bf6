//! What of the rows is left alone and what is not.

use causeway_api::kubeovn::{Subnet, Vpc};
use causeway_ovn::Replica;
use causeway_ovn::nb::{Acl, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute};
use serde_json::json;
use std::collections::BTreeSet;

use crate::bench::Bench;

fn router_port(replica: &Replica) -> LogicalRouterPort {
    let rows = replica.rows::<LogicalRouterPort>();
    rows.expect("is monitored")
        .into_values()
        .find(|row| row.name == "v-s")
        .expect("the port is there")
}

fn policies(replica: &Replica) -> Vec<(i64, String)> {
    let rows = replica.rows::<LogicalRouterPolicy>();
    let rows = rows.expect("is monitored").into_values();
    let mut rows: Vec<_> = rows.map(|row| (row.priority, row.matches)).collect();
    rows.sort();
    rows.retain(|(_, matches)| !matches.contains("10.244") && !matches.contains("100.64"));
    rows
}

/// Changes excludeIps and waits until the change was worked on.
async fn touch(bench: &Bench, address: &str) {
    bench
        .patch::<Subnet>("s", json!({"spec": {"excludeIps": [address]}}))
        .await;
    let wanted = ["172.20.10.1".to_owned(), address.to_owned()];
    bench
        .when::<Subnet>("s", |subnet| {
            let range = subnet
                .status
                .as_ref()
                .and_then(|it| it.v4_available_ip_range.clone());
            subnet.spec.exclude_ips.as_deref() == Some(&wanted)
                && range
                    .is_some_and(|range| range.starts_with("172.20.10.2-") && range.contains(','))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_port_keeps_what_others_set_until_it_is_made_again() {
    let mut bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&["lrp-set-gateway-chassis", "v-s", "chassis-1", "20"]);
    bench.nbctl(&[
        "set",
        "Logical_Router_Port",
        "v-s",
        "options:gateway_mtu=1400",
        "external_ids:theirs=yes",
    ]);
    bench
        .northbound_when("the option", |replica| {
            let port = router_port(replica);
            !port.options.is_empty() && !port.gateway_chassis.is_empty()
        })
        .await;
    let before = router_port(&bench.northbound.replica());
    assert_eq!(before.gateway_chassis.len(), 1);

    touch(&bench, "172.20.10.9").await;
    bench
        .patch::<Vpc>(
            "v",
            json!({"spec": {"staticRoutes": [{"cidr": "0.0.0.0/0", "nextHopIP": "172.20.10.3"}]}}),
        )
        .await;
    bench
        .northbound_when("the route", |replica| {
            replica
                .rows::<LogicalRouterStaticRoute>()
                .is_ok_and(|rows| rows.len() == 2)
        })
        .await;
    bench.stop_kube_ovn().await;
    bench.start_kube_ovn();
    touch(&bench, "172.20.10.8").await;
    assert_eq!(router_port(&bench.northbound.replica()), before);

    bench
        .patch::<Subnet>("s", json!({"spec": {"logicalGateway": false}}))
        .await;
    bench
        .northbound_when("the port's absence", |replica| {
            let rows = replica.rows::<LogicalRouterPort>();
            rows.is_ok_and(|rows| rows.values().all(|row| row.name != "v-s"))
        })
        .await;
    bench
        .patch::<Subnet>("s", json!({"spec": {"logicalGateway": true}}))
        .await;
    bench
        .northbound_when("the port", |replica| {
            let rows = replica.rows::<LogicalRouterPort>();
            rows.is_ok_and(|rows| rows.values().any(|row| row.name == "v-s"))
        })
        .await;
    let after = router_port(&bench.northbound.replica());
    assert_ne!(after.mac, before.mac);
    assert!(after.gateway_chassis.is_empty() && after.options.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_arp_is_dropped_by_one_marked_acl_that_names_the_active_chassis() {
    let bench = Bench::with_vlan_subnet().await;
    bench
        .subnet(
            "o",
            json!({"vpc": "v", "cidrBlock": "10.50.0.0/24", "provider": "ovn"}),
        )
        .await;
    bench.ready::<Subnet>("o").await;
    let acls = bench.rows::<Acl>();
    let [acl] = acls.as_slice() else {
        panic!("one for the VLAN subnet, none for the overlay: {acls:?}")
    };
    assert_eq!(
        acl.matches,
        "inport == \"localnet.s\" && arp.tpa == 172.20.10.1 && arp.op == 1 && !is_chassis_resident(\"cr-v-s\")"
    );
    assert_eq!(
        (acl.direction.as_str(), acl.action.as_str()),
        ("from-lport", "drop")
    );
    assert_eq!(
        acl.external_ids,
        [("standin".to_owned(), "arp-drop".to_owned())].into()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_subnet_has_acls_and_only_those_of_kube_ovn_go_with_it() {
    let bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&[
        "acl-add",
        "s",
        "to-lport",
        "500",
        "ip4.src == 192.0.2.1",
        "drop",
    ]);
    let acl = json!([{"direction": "to-lport", "priority": 2000, "match": "ip4.src == 192.0.2.2", "action": "drop"}]);
    bench
        .patch::<Subnet>(
            "s",
            json!({"spec": {"private": true, "allowSubnets": ["10.50.0.0/24"], "acls": acl}}),
        )
        .await;
    let priorities = |bench: &Bench| {
        let mut all: Vec<_> = bench.rows::<Acl>().iter().map(|acl| acl.priority).collect();
        all.sort_unstable();
        all
    };
    bench
        .northbound_when("seven ACLs", |replica| {
            replica.rows::<Acl>().is_ok_and(|rows| rows.len() == 7)
        })
        .await;
    assert_eq!(
        priorities(&bench),
        [500, 1000, 1001, 1001, 2000, 3000, 32767]
    );
    let theirs = bench
        .rows::<Acl>()
        .into_iter()
        .find(|acl| acl.priority == 2000)
        .expect("is there");
    let ids = [("parent", "s"), ("subnet", "s"), ("vendor", "kube-ovn")];
    assert_eq!(
        theirs.external_ids,
        ids.map(|(key, value)| (key.into(), value.into())).into()
    );
    bench
        .ready_with("s", "SetPrivateLogicalSwitchSuccess")
        .await;

    bench
        .patch::<Subnet>("s", json!({"spec": {"private": false, "acls": null}}))
        .await;
    bench
        .northbound_when("two ACLs", |replica| {
            replica.rows::<Acl>().is_ok_and(|rows| rows.len() == 2)
        })
        .await;
    assert_eq!(priorities(&bench), [500, 32767]);
    bench.ready_with("s", "ResetLogicalSwitchAclSuccess").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_that_the_vpc_does_not_state_go_unless_they_have_the_keys() {
    let bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&[
        "lr-policy-add",
        "v",
        "31601",
        "ip4.src == 192.0.2.1",
        "drop",
    ]);
    let keyed =
        "--id=@p create Logical_Router_Policy priority=31603 action=drop external_ids:subnet=x";
    let keyed: Vec<_> = keyed.split(' ').collect();
    let matches = ["match=\"ip4.src == 192.0.2.3\""];
    let add = ["--", "add", "Logical_Router", "v", "policies", "@p"];
    bench.nbctl(&[&["--"], keyed.as_slice(), &matches, &add].concat());
    let stated = json!([
        {"priority": 29900, "match": "ip4.dst == 10.60.0.0/24", "action": "allow"},
        {"priority": 29800, "match": "ip4.dst == 10.61.0.0/24", "action": "reroute",
         "nextHopIP": "172.20.10.5,172.20.10.6"},
    ]);
    bench
        .patch::<Vpc>("v", json!({"spec": {"policyRoutes": stated}}))
        .await;
    let kept = [
        (29800, "ip4.dst == 10.61.0.0/24"),
        (29900, "ip4.dst == 10.60.0.0/24"),
        (31000, "ip4.dst == 172.20.10.0/24"),
        (31603, "ip4.src == 192.0.2.3"),
    ];
    let are = |wanted: &[(i64, &str)]| {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(at, matches)| (*at, (*matches).to_owned()))
            .collect();
        move |replica: &Replica| policies(replica) == wanted
    };
    bench.northbound_when("the policies", are(&kept)).await;
    bench
        .patch::<Vpc>("v", json!({"spec": {"policyRoutes": null}}))
        .await;
    bench.northbound_when("the policies", are(&kept[2..])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_routes_with_one_prefix_the_later_stays_and_foreign_routes_stay_too() {
    let bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&["lr-route-add", "v", "198.51.100.0/24", "172.20.10.7"]);
    let stated = json!([
        {"cidr": "0.0.0.0/0", "nextHopIP": "172.20.10.3"},
        {"cidr": "0.0.0.0/0", "nextHopIP": "172.20.10.4"},
    ]);
    bench
        .patch::<Vpc>("v", json!({"spec": {"staticRoutes": stated}}))
        .await;
    let hops = |replica: &Replica| {
        let rows = replica
            .rows::<LogicalRouterStaticRoute>()
            .unwrap_or_default();
        let hops: BTreeSet<_> = rows.into_values().map(|row| row.nexthop).collect();
        hops.into_iter().collect::<Vec<_>>().join(" ")
    };
    bench
        .northbound_when("the routes", |it| {
            hops(it) == "100.64.0.1 172.20.10.4 172.20.10.7"
        })
        .await;
    let vpc = bench.get::<Vpc>("v").await;
    let mut routes = vpc.spec.static_routes.iter().flatten();
    assert!(
        routes.all(|route| route.policy.as_deref() == Some("policyDst")),
        "{vpc:?}"
    );
    bench
        .patch::<Vpc>("v", json!({"spec": {"staticRoutes": null}}))
        .await;
    bench
        .northbound_when("the foreign route", |it| {
            hops(it) == "100.64.0.1 172.20.10.7"
        })
        .await;
}
