//! Pods: addresses, ports and what their nodes plug.

use causeway_api::kubeovn::{IP, Subnet};
use causeway_kubeovn::cni::Route;
use causeway_ovn::nb::LogicalSwitchPort;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use crate::bench::{Bench, gone};

const ADDRESS: &str = "s.tenant-example.ovn.kubernetes.io/ip_address";

fn networks() -> Value {
    json!({"k8s.v1.cni.cncf.io/networks": "s"})
}

async fn with_attachment() -> Bench {
    let bench = Bench::with_vlan_subnet().await;
    bench.attachment("s").await;
    bench
}

fn using(subnet: &Subnet) -> Option<u64> {
    subnet
        .status
        .as_ref()
        .and_then(|status| status.v4_using_ips)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_the_lowest_free_addresses_and_give_them_back() {
    let bench = with_attachment().await;
    bench
        .patch::<Subnet>(
            "s",
            json!({"spec": {"excludeIps": ["172.20.10.1", "172.20.10.3"]}}),
        )
        .await;
    let mut given = Vec::new();
    for name in ["a", "b", "c"] {
        bench.pod(name, "node1", networks()).await;
        given.push(bench.running(name).await.annotations()[ADDRESS].clone());
    }
    assert_eq!(given, ["172.20.10.2", "172.20.10.4", "172.20.10.5"]);
    bench.when("s", |subnet| using(subnet) == Some(3)).await;

    let pods = bench.namespaced::<Pod>();
    pods.delete("a", &DeleteParams::default())
        .await
        .expect("is deleted");
    gone::<Pod>(bench.namespaced(), "a").await;
    bench
        .gone::<IP>("a.tenant-example.s.tenant-example.ovn")
        .await;
    bench.gone::<IP>("a.tenant-example").await;
    bench.when("s", |subnet| using(subnet) == Some(2)).await;
    assert!(!bench.cni.now().pods.contains_key("a"), "unplugged");
    let ports = bench.rows::<LogicalSwitchPort>();
    assert!(
        ports.iter().all(|row| !row.name.starts_with("a.")),
        "{ports:?}"
    );

    bench.pod("d", "node1", networks()).await;
    assert_eq!(
        bench.running("d").await.annotations()[ADDRESS],
        "172.20.10.6",
        "what was given back comes last"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_plugged_with_its_default_route_on_eth0_and_its_own_routes_on_the_others() {
    let bench = with_attachment().await;
    let annotations = json!({
        "k8s.v1.cni.cncf.io/networks": "[{\"name\": \"s\", \"namespace\": \"tenant-example\"}]",
        "s.tenant-example.ovn.kubernetes.io/routes": "[{\"dst\": \"172.20.11.0/24\", \"gw\": \"172.20.10.1\"}]",
    });
    bench.pod("p", "node2", annotations).await;
    bench.running("p").await;
    let sandbox = bench.cni.now().pods["p"].clone();
    assert_eq!(sandbox.pod.node, "node2");
    let [eth0, net1] = sandbox.interfaces.as_slice() else {
        panic!("{sandbox:?}")
    };
    assert_eq!(
        (eth0.name.as_str(), eth0.port.as_str(), eth0.mtu),
        ("eth0", "p.tenant-example", 1400)
    );
    assert_eq!(eth0.default_gateway, Some([10, 244, 0, 1].into()));
    assert_eq!((net1.name.as_str(), net1.default_gateway), ("net1", None));
    assert_eq!(net1.port, "p.tenant-example.s.tenant-example.ovn");
    assert_eq!((net1.address, net1.prefix), ([172, 20, 10, 2].into(), 24));
    assert_eq!(
        net1.mtu, 1400,
        "a VLAN with a logical gateway has the overlay's MTU if it states none"
    );
    let route = Route {
        dst: "172.20.11.0/24".into(),
        via: [172, 20, 10, 1].into(),
    };
    assert_eq!(net1.routes, [route]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugged_pod_is_annotated_with_later_does_not_reach_its_interfaces() {
    let mut bench = with_attachment().await;
    bench.pod("p", "node1", networks()).await;
    bench.running("p").await;
    let plugged = bench.cni.now().pods;
    let later = json!({"metadata": {"annotations": {
        "s.tenant-example.ovn.kubernetes.io/routes": "[{\"dst\": \"0.0.0.0/0\", \"gw\": \"172.20.10.1\"}]",
    }}});
    let pods = bench.namespaced::<Pod>();
    let (params, later) = (
        kube::api::PatchParams::default(),
        kube::api::Patch::Merge(later),
    );
    pods.patch("p", &params, &later).await.expect("is patched");
    bench.stop_kube_ovn().await;
    bench.start_kube_ovn();
    bench.pod("q", "node1", networks()).await;
    bench.running("q").await;
    assert_eq!(bench.cni.now().pods["p"], plugged["p"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_pod_is_plugged_again_with_its_addresses_on_a_node_that_begins_anew() {
    let mut bench = with_attachment().await;
    bench.pod("p", "node1", networks()).await;
    bench.running("p").await;
    let plugged = bench.cni.now().pods;
    bench.stop_kube_ovn().await;
    bench.cni.forget();
    bench.start_kube_ovn();
    let again = bench
        .cni
        .when("p is plugged", |notes| notes.pods.contains_key("p"));
    assert_eq!(again.await.pods, plugged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_a_network_that_is_absent_gets_no_address_until_it_is_there() {
    let bench = Bench::with_vlan_subnet().await;
    bench.pod("p", "node1", networks()).await;
    bench.settle().await;
    let pod = bench.namespaced::<Pod>().get("p").await.expect("is there");
    assert!(
        pod.annotations()
            .keys()
            .all(|key| !key.contains("ip_address")),
        "{pod:?}"
    );
    bench.attachment("s").await;
    bench.running("p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_asked_for_is_given_even_if_it_is_excluded_and_does_not_count() {
    let bench = with_attachment().await;
    bench
        .patch::<Subnet>(
            "s",
            json!({"spec": {"excludeIps": ["172.20.10.1", "172.20.10.64..172.20.10.191"]}}),
        )
        .await;
    let mut annotations = networks();
    annotations[ADDRESS] = "172.20.10.70".into();
    bench.pod("p", "node1", annotations).await;
    bench.running("p").await;
    let ip = bench
        .get::<IP>("p.tenant-example.s.tenant-example.ovn")
        .await;
    assert_eq!(ip.spec.v4_ip_address.as_deref(), Some("172.20.10.70"));
    bench.settle().await;
    assert_eq!(using(&bench.get("s").await), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_went_during_an_outage_give_their_addresses_back_at_the_next_start() {
    let mut bench = with_attachment().await;
    bench.pod("p", "node1", networks()).await;
    bench.running("p").await;
    bench.stop_kube_ovn().await;
    let at_once = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    bench
        .namespaced::<Pod>()
        .delete("p", &at_once)
        .await
        .expect("is deleted");
    bench.start_kube_ovn();
    bench
        .gone::<IP>("p.tenant-example.s.tenant-example.ovn")
        .await;
    bench
        .northbound_when("the port's end", |replica| {
            let rows = replica.rows::<LogicalSwitchPort>();
            rows.is_ok_and(|rows| rows.values().all(|row| !row.name.starts_with("p.")))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_pod_of_the_same_name_gets_a_port_of_its_own() {
    let bench = with_attachment().await;
    bench.pod("p", "node1", networks()).await;
    bench.running("p").await;
    let mac = |bench: &Bench| bench.cni.now().pods["p"].interfaces[1].mac.clone();
    let first = mac(&bench);
    let at_once = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    bench
        .namespaced::<Pod>()
        .delete("p", &at_once)
        .await
        .expect("is deleted");
    bench.pod("p", "node2", networks()).await;
    bench.running("p").await;
    bench
        .cni
        .when("the new pod on node2", |notes| {
            notes
                .pods
                .get("p")
                .is_some_and(|pod| pod.pod.node == "node2")
        })
        .await;
    assert_ne!(mac(&bench), first);
}
