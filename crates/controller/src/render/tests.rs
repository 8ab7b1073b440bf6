use std::collections::BTreeMap;

use causeway_api::observed;
use causeway_planner::{
    admit::VpcInput,
    model::{Cidr, Requirement, Route, Trunk, TrunkException, Vid, objects::network_excludes},
    plan::Object,
};

use super::*;

fn meta(wanted: &Wanted) -> ObjectMeta {
    metadata("a".to_owned(), None, wanted, None)
}

fn wanted(object: Object) -> Wanted {
    Wanted {
        object,
        labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        annotations: BTreeMap::new(),
        held: true,
    }
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a CIDR")
}

fn record() -> NetworkRecord {
    NetworkRecord {
        zone: Some("default".into()),
        vpc: "main".into(),
        vpc_id: "vpc-4cf9df".into(),
        subnet: "workers".into(),
        cidr: cidr("172.20.10.0/24"),
        gateway: "172.20.10.1".parse().expect("an address"),
        vm_range: "172.20.10.64-172.20.10.191".parse().expect("a range"),
        index: 3,
    }
}

#[test]
fn a_provider_network_reads_back_as_it_was_meant() {
    let spec = ProviderNetwork {
        trunk: Trunk {
            interface: "eth1".to_owned(),
            exceptions: vec![TrunkException {
                interface: "ens19".to_owned(),
                nodes: vec!["node-c".into()],
            }],
            node_selector: Selector {
                labels: BTreeMap::from([("trunk".to_owned(), "true".to_owned())]),
                expressions: vec![Requirement {
                    key: "rack".to_owned(),
                    operator: SelectorOperator::NotIn,
                    values: vec!["r9".to_owned()],
                }],
            },
        },
    };
    let object = provider_network(
        meta(&wanted(Object::ProviderNetwork {
            name: "a".to_owned(),
            spec: spec.clone(),
        })),
        &spec,
    );
    let seen = observed::provider_network(&object);
    assert_eq!(seen.spec, Some(spec));
    assert!(seen.meta.held);
    assert_eq!(seen.meta.labels.get("a").map(String::as_str), Some("b"));
}

#[test]
fn a_router_reads_back_with_its_routes_and_the_record_of_its_spec() {
    let input: VpcInput = serde_json::from_value(serde_json::json!({
        "subnets": [
            {"name": "workers", "cidr": "172.20.10.0/24", "proxmox": {}},
            {"name": "pods", "cidr": "172.20.20.0/24", "allowSubnets": ["172.20.10.0/24"]},
        ],
        "egress": {"enabled": true},
    }))
    .expect("a spec");
    let spec = KubeOvnVpc {
        routes: vec![Route {
            cidr: cidr("10.90.0.0/16"),
            next_hop: "172.20.20.9".parse().expect("an address"),
        }],
        owner: Some("uid".into()),
        record: Some(input),
    };
    let object = Object::Vpc {
        id: "vpc-4cf9df".into(),
        spec: spec.clone(),
    };
    let object = router(meta(&wanted(object)), &spec).expect("JSON");
    assert_eq!(observed::router(&object).spec, Some(spec));
}

#[test]
fn a_network_and_its_subnet_attachment_and_pool_read_back() {
    let record = record();
    let key = SubnetKey {
        namespace: "tenant-example".into(),
        id: "subnet-7bb6e3ad".into(),
    };
    let wanted = wanted(Object::Network {
        key: key.clone(),
        spec: record.clone(),
    });
    assert_eq!(
        observed::network(&network(meta(&wanted), &record)).spec,
        Some(record.clone())
    );
    let provider = key.id.provider(&key.namespace);
    let spec = KubeOvnSubnet::of_network(
        &record,
        network_excludes(record.gateway, &[record.vm_range]),
        provider.clone(),
        "pve-default-200".into(),
        1500,
    );
    assert_eq!(
        spec.exclude_ips,
        ["172.20.10.1", "172.20.10.64..172.20.10.191"]
    );
    assert_eq!(
        observed::subnet(&subnet(meta(&wanted), &spec)).spec,
        Some(spec)
    );
    let spec = Attachment { provider };
    let object = attachment(meta(&wanted), &key, &spec);
    assert_eq!(observed::attachment(&object).spec, Some(spec));
    let spec = Pool::of(&record);
    assert_eq!(observed::pool(&pool(meta(&wanted), &spec)).spec, Some(spec));
}

#[test]
fn an_overlay_subnet_reads_back() {
    let spec = KubeOvnSubnet::overlay(
        "vpc-4cf9df".into(),
        cidr("172.20.20.0/24"),
        "172.20.20.1".parse().expect("an address"),
        "subnet-fc0705a0.tenant-example.ovn".to_owned(),
        vec![cidr("172.20.10.0/24")],
        1400,
    );
    let wanted = wanted(Object::Subnet {
        id: "subnet-fc0705a0".into(),
        spec: spec.clone(),
    });
    assert_eq!(
        observed::subnet(&subnet(meta(&wanted), &spec)).spec,
        Some(spec)
    );
}

#[test]
fn a_claim_reads_back_with_its_owner() {
    let vid = Vid::try_from(214).expect("a VLAN number");
    let claimed = Claim {
        name: "pve-default-214".to_owned(),
        vid,
        provider: "pve-default".to_owned(),
        owner: "some-uid".into(),
        labels: BTreeMap::new(),
    };
    let seen = observed::vlan(&claim(&claimed));
    assert_eq!(seen.spec.vid, Some(vid));
    assert_eq!(seen.spec.owner, Some("some-uid".into()));
    assert_eq!(seen.spec.released, None);
}
