//! The imitated drop of requests for the gateway, with packets on real OVN.
//!
//! Needs root, as every site does.

use std::net::Ipv4Addr;

use causeway_api::{
    foreign_crds,
    kubeovn::{ProviderNetwork, Subnet, Vlan, Vpc},
};
use causeway_kubeapi::{Clock, KubeApi};
use causeway_kubeovn::{KubeOvn, monitors};
use causeway_lab::{Guest, Options, Progress, Site, Vm};
use causeway_ovn::{Client, Remote};
use k8s_openapi::{
    api::core::v1::Node,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Api;
use serde_json::json;

use crate::bench::{PATIENCE, create, vlan_subnet, when};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 20, 10, 1);

async fn vlan_subnet_on(site: &Site, api: &KubeApi) -> KubeOvn {
    let client = api.client("admin");
    for definition in foreign_crds() {
        create::<CustomResourceDefinition>(&Api::all(client.clone()), &json!(definition)).await;
    }
    for (node, trunk) in [("node1", "true"), ("node2", "true"), ("node3", "false")] {
        let node = json!({"metadata": {"name": node, "labels": {"trunk": trunk}}});
        create::<Node>(&Api::all(client.clone()), &node).await;
    }
    let remote = site.nb_remote();
    let socket = remote.strip_prefix("unix:").expect("a unix socket").into();
    let northbound = Client::start(Remote::Unix(socket), "OVN_Northbound", monitors());
    let options = causeway_kubeovn::Options::default();
    let kube_ovn = KubeOvn::start(api.client("kube-ovn"), northbound, site.cni(), options);
    let network = json!({
        "metadata": {"name": "pve"},
        "spec": {"defaultInterface": "eth1", "nodeSelector": {"matchLabels": {"trunk": "true"}}},
    });
    create::<ProviderNetwork>(&Api::all(client.clone()), &network).await;
    let vlan = json!({"metadata": {"name": "vlan-214"}, "spec": {"id": 214, "provider": "pve"}});
    create::<Vlan>(&Api::all(client.clone()), &vlan).await;
    create::<Vpc>(
        &Api::all(client.clone()),
        &json!({"metadata": {"name": "v"}, "spec": {}}),
    )
    .await;
    let subnet = json!({
        "metadata": {"name": "s"}, "spec": vlan_subnet("vlan-214", "172.20.10.0/24"),
    });
    create::<Subnet>(&Api::all(client.clone()), &subnet).await;
    let is_ready = |subnet: &Subnet| {
        let status = subnet
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_deref());
        let ready = causeway_api::kubeovn::condition(status, "Ready");
        ready.is_some_and(|ready| ready.status.as_deref() == Some("True"))
    };
    when::<Subnet>(Api::all(client.clone()), "s", is_ready).await;
    let carried = |network: &ProviderNetwork| {
        let status = network.status.as_ref();
        status
            .and_then(|it| it.ready_nodes.as_ref())
            .is_some_and(|nodes| nodes.len() == 2)
    };
    when::<ProviderNetwork>(Api::all(client), "pve", carried).await;
    kube_ovn
}

async fn vm_on(site: &Site, hypervisor: &str, last: u8) -> Guest {
    let vm = Vm {
        hypervisor: hypervisor.into(),
        name: format!("vm{last}"),
        tag: 214,
        mac: format!("bc:24:11:00:00:{last:02x}"),
        address: format!("172.20.10.{last}/24").parse().expect("an address"),
        gateway: Some(GATEWAY),
    };
    site.vm(vm).await.expect("a VM can be made")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_silent_to_the_vlan_until_a_chassis_has_it() {
    let site = Site::start(
        "kovn",
        Options::default(),
        Progress::new(|step| println!("… {step}")),
    )
    .await
    .expect("a site can be built");
    let api = KubeApi::new(Clock::machine()).expect("the API starts");
    let kube_ovn = vlan_subnet_on(&site, &api).await;
    let vm = vm_on(&site, "pve1", 10).await;
    let neighbour = vm_on(&site, "pve2", 11).await;
    // All flows are in place on all chassis before silence means anything.
    site.nbctl(["--wait=hv", "sync"])
        .await
        .expect("every chassis catches up");
    vm.ping_until(neighbour.address(), PATIENCE)
        .await
        .expect("the wire carries VLAN 214");
    assert_eq!(
        vm.arp_probe(GATEWAY).await.expect("can ask"),
        None,
        "nobody may answer"
    );

    let chassis = site.chassis("node1").expect("has a chassis").to_owned();
    site.nbctl([
        "--wait=hv",
        "lrp-set-gateway-chassis",
        "v-s",
        &chassis,
        "20",
    ])
    .await
    .expect("the row is written");
    let took = vm
        .ping_until(GATEWAY, PATIENCE)
        .await
        .expect("the gateway answers");
    println!(
        "the gateway answered {:.2} s after its row",
        took.as_secs_f64()
    );
    assert!(vm.arp_probe(GATEWAY).await.expect("can ask").is_some());

    site.nbctl(["--wait=hv", "lrp-del-gateway-chassis", "v-s", &chassis])
        .await
        .expect("the row is removed");
    assert_eq!(
        vm.arp_probe(GATEWAY).await.expect("can ask"),
        None,
        "silent again"
    );
    kube_ovn.stop().await;
}
