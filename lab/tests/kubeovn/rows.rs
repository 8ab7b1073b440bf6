//! What of the rows is left alone and what is not.

use causeway_api::kubeovn::{Subnet, Vpc};
use causeway_ovn::nb::{Acl, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute};
use serde_json::json;

use crate::bench::Bench;

fn router_port(bench: &Bench) -> LogicalRouterPort {
    let rows = bench.rows::<LogicalRouterPort>();
    rows.into_iter()
        .find(|row| row.name == "v-s")
        .expect("the port is there")
}

fn policies(bench: &Bench) -> Vec<(i64, String)> {
    let rows = bench.rows::<LogicalRouterPolicy>();
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|row| (row.priority, row.matches))
        .collect();
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
        .northbound_when("the option", |_| router_port_has_options(&bench))
        .await;
    let before = router_port(&bench);
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
    assert_eq!(router_port(&bench), before);

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
    let after = router_port(&bench);
    assert_ne!(after.mac, before.mac);
    assert!(after.gateway_chassis.is_empty() && after.options.is_empty());
}

fn router_port_has_options(bench: &Bench) -> bool {
    !router_port(bench).options.is_empty() && !router_port(bench).gateway_chassis.is_empty()
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
async fn policies_without_keys_and_kube_ovns_own_routes_go_and_the_others_stay() {
    let bench = Bench::with_vlan_subnet().await;
    bench.nbctl(&[
        "lr-policy-add",
        "v",
        "31601",
        "ip4.src == 192.0.2.1",
        "drop",
    ]);
    bench.nbctl(&[
        "lr-policy-add",
        "v",
        "31602",
        "ip4.src == 192.0.2.2",
        "drop",
    ]);
    bench.nbctl(&[
        "--",
        "--id=@p",
        "create",
        "Logical_Router_Policy",
        "priority=31603",
        "action=drop",
        "match=\"ip4.src == 192.0.2.3\"",
        "external_ids:subnet=x",
        "--",
        "add",
        "Logical_Router",
        "v",
        "policies",
        "@p",
    ]);
    bench.nbctl(&["lr-route-add", "v", "198.51.100.0/24", "172.20.10.7"]);
    let spec = json!({
        "policyRoutes": [
            {"priority": 29900, "match": "ip4.dst == 10.60.0.0/24", "action": "allow"},
            {"priority": 29800, "match": "ip4.dst == 10.61.0.0/24", "action": "reroute", "nextHopIP": "172.20.10.5,172.20.10.6"},
        ],
        "staticRoutes": [
            {"cidr": "0.0.0.0/0", "nextHopIP": "172.20.10.3"},
            {"cidr": "0.0.0.0/0", "nextHopIP": "172.20.10.4"},
        ],
    });
    bench.patch::<Vpc>("v", json!({"spec": spec})).await;
    bench
        .northbound_when("the routes", |replica| {
            let rows = replica.rows::<LogicalRouterStaticRoute>();
            rows.is_ok_and(|rows| rows.values().any(|row| row.nexthop == "172.20.10.4"))
        })
        .await;
    let kept = [
        (29800, "ip4.dst == 10.61.0.0/24"),
        (29900, "ip4.dst == 10.60.0.0/24"),
        (31000, "ip4.dst == 172.20.10.0/24"),
        (31603, "ip4.src == 192.0.2.3"),
    ];
    assert_eq!(
        policies(&bench),
        kept.map(|(priority, matches)| (priority, matches.to_owned()))
    );
    let vpc = bench.get::<Vpc>("v").await;
    let written = vpc
        .spec
        .static_routes
        .iter()
        .flatten()
        .map(|route| route.policy.clone());
    assert!(
        written
            .into_iter()
            .all(|policy| policy.as_deref() == Some("policyDst")),
        "{vpc:?}"
    );

    bench
        .patch::<Vpc>(
            "v",
            json!({"spec": {"policyRoutes": null, "staticRoutes": null}}),
        )
        .await;
    bench
        .northbound_when("the routes' end", |replica| {
            let rows = replica.rows::<LogicalRouterStaticRoute>();
            rows.is_ok_and(|rows| rows.values().all(|row| !row.nexthop.ends_with(".4")))
        })
        .await;
    let routes: Vec<_> = bench
        .rows::<LogicalRouterStaticRoute>()
        .into_iter()
        .map(|row| row.ip_prefix)
        .collect();
    assert!(routes.contains(&"198.51.100.0/24".to_owned()), "{routes:?}");
    assert_eq!(
        policies(&bench),
        [
            (31000, "ip4.dst == 172.20.10.0/24".into()),
            (31603, "ip4.src == 192.0.2.3".into())
        ]
    );
}
