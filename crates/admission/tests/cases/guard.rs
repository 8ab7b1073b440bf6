//! ProxmoxNetwork is written by the controller alone.

use causeway_admission::configuration::GUARD;
use causeway_planner::model::VpcKey;
use serde_json::{Value, json};

use super::bench::{Bench, Written, path_of_networks, path_of_vpcs, vpc, zone};

pub const CONTROLLER: &str = "system:serviceaccount:causeway-system:causeway-controller";

/// The network of subnet `workers` of VPC `main`.
pub fn network(namespace: &str) -> Value {
    let key = VpcKey::new(namespace, "main");
    let id = key.id().to_string();
    json!({
        "apiVersion": "proxmox.cozystack.io/v1alpha1", "kind": "ProxmoxNetwork",
        "metadata": {
            "name": key.subnet_id(&"workers".into()).to_string(),
            "namespace": namespace,
            "finalizers": ["proxmox.cozystack.io/hold"],
            "labels": {
                "app.kubernetes.io/managed-by": "causeway",
                "cozystack.io/vpcName": "virtualprivatecloud-main",
                "cozystack.io/vpcId": id,
                "cozystack.io/tenantName": namespace,
                "cozystack.io/subnetName": "workers",
            },
        },
        "spec": {
            "zone": "default", "vpc": {"name": "main", "id": id}, "subnet": "workers",
            "cidr": "172.20.10.0/24", "gateway": "172.20.10.1",
            "vmRange": "172.20.10.64-172.20.10.191", "index": 0,
        },
    })
}

pub fn workers() -> Value {
    json!({"subnets": [{"name": "workers", "cidr": "172.20.10.0/24", "proxmox": {}}]})
}

fn assert_refused(answer: &Written, words: &str) {
    let denied = format!("admission webhook \"{GUARD}\" denied the request: ");
    let said = answer.message().strip_prefix(&denied);
    assert_eq!(answer.code, 403, "{answer:?}");
    assert!(said.is_some_and(|said| said.contains(words)), "{answer:?}");
}

/// A network that is wanted: its path and uid.
async fn wanted(bench: &Bench) -> (String, String) {
    bench.namespace("tenant-g", &json!({})).await;
    for object in [
        zone("default", "vmbr1", "default"),
        vpc("tenant-g", "main", workers()),
    ] {
        let made = bench.create(&object).await;
        assert_eq!(made.code, 201, "{made:?}");
    }
    let network = network("tenant-g");
    let refused = bench.create(&network).await;
    let words = "write a subnet with `proxmox: {}` in a VirtualPrivateCloud";
    assert_refused(&refused, words);
    let made = bench.create_as(CONTROLLER, &network).await;
    assert_eq!(made.code, 201, "{made:?}");
    let text = |field: &str| made.body["metadata"][field].as_str().expect("text");
    let path = format!("{}/{}", path_of_networks("tenant-g"), text("name"));
    (path, text("uid").to_owned())
}

/// The administrator lets go of it, and it goes.
async fn let_go(bench: &Bench, path: &str, uid: &str) {
    let key = "proxmox.cozystack.io/allow-disruption";
    for (value, code) in [("another", 403), (uid, 200)] {
        let change = json!({"metadata": {"annotations": {key: value}}});
        let annotated = bench.merge(&bench.client, path, &change).await;
        assert_eq!(annotated.code, 200, "{annotated:?}");
        let answer = bench.delete(&bench.client, path).await;
        assert_eq!(answer.code, code, "{answer:?}");
    }
    let change = json!({"metadata": {"finalizers": null}});
    let freed = bench.merge(&bench.client, path, &change).await;
    assert_eq!(freed.code, 200, "{freed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_controller_writes_a_network_and_everybody_else_hears_what_to_write() {
    let bench = Bench::new().await;
    let (path, uid) = wanted(&bench).await;
    for (change, words) in [
        (
            json!({"spec": {"vmRange": "172.20.10.64-172.20.10.200"}}),
            "change subnet \"workers\" of VirtualPrivateCloud \"main\" instead",
        ),
        (
            json!({"metadata": {"finalizers": null}}),
            "finalizer proxmox.cozystack.io/hold is causeway's",
        ),
        (
            json!({"metadata": {"labels": {"cozystack.io/vpcId": null}}}),
            "causeway finds the network by label cozystack.io/vpcId",
        ),
    ] {
        let answer = bench.merge(&bench.client, &path, &change).await;
        assert_refused(&answer, words);
    }
    let change = json!({"metadata": {"labels": {"team": "a"}}});
    let labelled = bench.merge(&bench.client, &path, &change).await;
    assert_eq!(labelled.code, 200, "{labelled:?}");
    let status = json!({"status": {"vlan": 214}});
    let at = format!("{path}/status");
    let written = bench.merge(&bench.client, &at, &status).await;
    assert_eq!(
        written.code, 200,
        "statuses are not asked about: {written:?}"
    );

    let wanted = "it is subnet \"workers\" of VPC tenant-g/main";
    assert_refused(&bench.delete(&bench.client, &path).await, wanted);
    let all = path_of_networks("tenant-g");
    assert_refused(&bench.delete(&bench.client, &all).await, wanted);
    let_go(&bench, &path, &uid).await;
    let main = format!("{}/main", path_of_vpcs("tenant-g"));
    let gone = bench.delete(&bench.client, &main).await;
    assert_eq!(gone.code, 200, "{gone:?}");
}
