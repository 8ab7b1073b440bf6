//! Objects recorded from a real Kube-OVN 1.15.10 and a real in-cluster IPAM, and the examples:
//! read through the types and written again, nothing may be lost, added or changed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what these tests share may fail them"
)]

use std::{fs, path::PathBuf};

use causeway_api::{
    ProxmoxNetworkZone, VirtualPrivateCloud,
    ipam::InClusterIPPool,
    kubeovn::{IP, ProviderNetwork, Subnet, Vlan, Vpc, condition},
    zone::AntiSpoofing,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn documents(path: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    documents
        .into_iter()
        .flat_map(|document| match document["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![document],
        })
        .collect()
}

fn recorded(name: &str) -> Value {
    documents(&format!("tests/data/kubeovn-1.15.10/{name}.yaml")).remove(0)
}

fn read<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone())
        .unwrap_or_else(|error| panic!("{}: {error}", object["metadata"]["name"]))
}

fn written<K: Serialize + DeserializeOwned>(object: &Value) -> Value {
    serde_json::to_value(read::<K>(object)).unwrap()
}

#[test]
fn every_recorded_object_of_kube_ovn_survives_reading_and_writing() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/kubeovn-1.15.10");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        for object in documents(&format!("tests/data/kubeovn-1.15.10/{name}")) {
            let again = match object["kind"].as_str() {
                Some("ProviderNetwork") => written::<ProviderNetwork>(&object),
                Some("Vlan") => written::<Vlan>(&object),
                Some("Vpc") => written::<Vpc>(&object),
                Some("Subnet") => written::<Subnet>(&object),
                Some("IP") => written::<IP>(&object),
                other => panic!("{name}: unexpected kind {other:?}"),
            };
            // Not the metadata, which is Kubernetes' own type (and here recorded without uids).
            for part in ["apiVersion", "kind", "spec", "status"] {
                assert_eq!(again[part], object[part], "{name} {part}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 12, "only {seen} objects recorded");
}

#[test]
fn every_recorded_pool_survives_reading_and_writing() {
    let pools = documents("tests/data/ipam-1.0.3/inclusterippool.yaml");
    assert_eq!(pools.len(), 3);
    for pool in pools {
        assert_eq!(written::<InClusterIPPool>(&pool), pool);
    }
}

#[test]
fn what_the_controller_waits_for_is_found_in_the_recorded_objects() {
    let subnet: Subnet = read(&recorded("subnet-subnet-1a2b3c4d"));
    let status = subnet.status.unwrap();
    let ready = condition(status.conditions.as_deref(), "Ready").unwrap();
    assert_eq!(ready.status.as_deref(), Some("True"));
    assert_eq!(status.v4_using_ips, Some(1));
    assert_eq!(condition(status.conditions.as_deref(), "Absent"), None);

    let vlan: Vlan = read(&recorded("vlan-pve-default-214"));
    assert_eq!(vlan.spec.id, Some(214));
    let on_it = vlan.status.unwrap().subnets.unwrap();
    assert_eq!(on_it, ["subnet-1a2b3c4d"]);

    let network: ProviderNetwork = read(&recorded("provider-network-pve-default"));
    let status = network.status.unwrap();
    assert_eq!(status.vlans.unwrap(), ["pve-default-214"]);
    let conditions = status.conditions.unwrap();
    assert_eq!(conditions[0].node.as_deref(), Some("node1"));
    assert_eq!(conditions[0].condition.status.as_deref(), Some("True"));
}

#[test]
fn nulls_in_place_of_lists_are_read_as_absent() {
    let mut vpc = recorded("vpc-vpc-1a2b3c");
    vpc["status"]["subnets"] = Value::Null;
    vpc["status"]["extraExternalSubnets"] = Value::Null;
    vpc["spec"]["staticRoutes"] = Value::Null;
    let vpc: Vpc = read(&vpc);
    assert_eq!(vpc.spec.static_routes, None);
    assert_eq!(vpc.status.unwrap().subnets, None);

    let mut network = recorded("provider-network-pve-default");
    network["status"]["vlans"] = Value::Null;
    network["status"]["conditions"] = json!([{"node": "node1", "lastUpdateTime": null}]);
    let network: ProviderNetwork = read(&network);
    let status = network.status.unwrap();
    assert_eq!(status.vlans, None);
    let conditions = status.conditions.unwrap();
    assert_eq!(conditions[0].condition.last_update_time, None);
}

#[test]
fn counters_are_read_however_kube_ovn_writes_them() {
    let count = |number: &str| {
        let mut subnet = recorded("subnet-subnet-1a2b3c4d");
        subnet["status"]["v6availableIPs"] = serde_json::from_str(number).unwrap();
        read::<Subnet>(&subnet).status.unwrap().v6_available_ips
    };
    assert_eq!(count("124"), Some(124));
    assert_eq!(count("124.0"), Some(124));
    assert_eq!(count("1.8446744073709552e+19"), Some(u64::MAX));
    assert_eq!(
        count("340282366920938463463374607431768211456"),
        Some(u64::MAX)
    );
    assert_eq!(count("-1"), Some(0));
    assert_eq!(count("null"), None);
}

#[test]
fn a_field_that_a_newer_kube_ovn_adds_does_not_stop_reading() {
    let mut subnet = recorded("subnet-subnet-1a2b3c4d");
    subnet["spec"]["u2oFeatures"] = json!({"overlayOnlyRouting": true});
    let subnet: Subnet = read(&subnet);
    assert_eq!(subnet.spec.vpc.as_deref(), Some("vpc-1a2b3c"));
}

#[test]
fn what_was_not_stated_is_not_written() {
    let subnet = Subnet::new(
        "subnet-1a2b3c4d",
        causeway_api::kubeovn::SubnetSpec::default(),
    );
    assert_eq!(serde_json::to_value(subnet).unwrap()["spec"], json!({}));
}

#[test]
fn the_example_of_the_source_document_survives_reading_and_writing() {
    for file in ["vpc", "second-tenant"] {
        let vpcs = documents(&format!("../../examples/{file}.yaml"));
        assert_eq!(vpcs.len(), 1);
        assert_eq!(written::<VirtualPrivateCloud>(&vpcs[0]), vpcs[0], "{file}");
    }
    let main: VirtualPrivateCloud = read(&documents("../../examples/vpc.yaml")[0]);
    let [workers, data, pods] = main.spec.subnets.as_slice() else {
        panic!("the document's VPC has three subnets");
    };
    assert_eq!(workers.proxmox.as_ref().map(|p| p.zone.clone()), Some(None));
    let range = data.proxmox.as_ref().and_then(|p| p.vm_range.as_deref());
    assert_eq!(range, Some("172.20.11.100-172.20.11.199"));
    assert_eq!(pods.proxmox, None);
    assert_eq!(pods.allow_subnets, ["172.20.10.0/24", "172.20.11.0/24"]);
    assert!(main.spec.egress.is_some_and(|egress| egress.enabled));
}

#[test]
fn a_zone_written_without_the_optional_fields_has_their_defaults() {
    let zone: ProxmoxNetworkZone = read(&documents("../../examples/zone.yaml")[0]);
    assert_eq!(zone.spec.vlans.ranges, ["200-299", "310"]);
    assert_eq!(zone.spec.wire, "default");
    assert_eq!(zone.spec.mtu, 1500);
    assert_eq!(zone.spec.gateway.max_chassis, 3);
    assert_eq!(zone.spec.anti_spoofing, AntiSpoofing::Gateway);
    assert_eq!(zone.spec.max_networks_per_namespace, 0);
    assert_eq!(zone.spec.transit, None);

    let mut bare = documents("../../examples/zone.yaml").remove(0);
    bare["spec"].as_object_mut().unwrap().remove("gateway");
    let bare: ProxmoxNetworkZone = read(&bare);
    assert_eq!(bare.spec, zone.spec);
}

#[test]
fn counters_of_ours_are_written_also_when_they_are_zero() {
    let network = causeway_api::network::ProxmoxNetworkStatus {
        addresses: Some(causeway_api::network::AddressUsage::default()),
        ..Default::default()
    };
    assert_eq!(
        serde_json::to_value(network).unwrap(),
        json!({"addresses": {"total": 0, "used": 0, "free": 0}})
    );
    let zone = causeway_api::zone::ProxmoxNetworkZoneStatus::default();
    assert_eq!(serde_json::to_value(zone).unwrap(), json!({"networks": 0}));
}
