//! The planner's objects as Kubernetes objects. The way back is `causeway_api::observed`, and what
//! went out must come back equal, or two passes would fight each other for ever (a test).

use causeway_api::{
    LabelSelector, ProxmoxNetwork, ProxmoxNetworkSpec, ipam, keys, kubeovn, multus, network,
};
use causeway_planner::{
    model::{
        Attachment, KubeOvnSubnet, KubeOvnVpc, NetworkRecord, Pool, ProviderNetwork, Selector,
        SelectorOperator, SubnetKey,
    },
    plan::{Claim, Wanted},
    snapshot::Version,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelectorRequirement, ObjectMeta};

/// Where kube-ovn-cni listens on every node (Kube-OVN's own default).
const CNI_SOCKET: &str = "/run/openvswitch/kube-ovn-daemon.sock";
/// Version of the CNI configuration format that Kube-OVN's documentation uses.
const CNI_VERSION: &str = "0.3.0";

/// The metadata that an apply states, with the version that the plan was made from.
pub(crate) fn metadata(
    name: String,
    namespace: Option<String>,
    wanted: &Wanted,
    seen: Option<&Version>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace,
        labels: Some(wanted.labels.clone()),
        annotations: (!wanted.annotations.is_empty()).then(|| wanted.annotations.clone()),
        finalizers: wanted.held.then(|| vec![keys::HOLD.to_owned()]),
        uid: seen.map(|seen| seen.uid.to_string()),
        resource_version: seen.map(|seen| seen.resource_version.clone()),
        ..ObjectMeta::default()
    }
}

pub(crate) fn provider_network(
    metadata: ObjectMeta,
    spec: &ProviderNetwork,
) -> kubeovn::ProviderNetwork {
    let trunk = &spec.trunk;
    let exceptions = trunk.exceptions.iter().map(|one| kubeovn::CustomInterface {
        interface: Some(one.interface.clone()),
        nodes: Some(one.nodes.iter().map(ToString::to_string).collect()),
    });
    kubeovn::ProviderNetwork {
        metadata,
        spec: kubeovn::ProviderNetworkSpec {
            default_interface: trunk.interface.clone(),
            custom_interfaces: (!trunk.exceptions.is_empty()).then(|| exceptions.collect()),
            node_selector: (!trunk.node_selector.is_empty())
                .then(|| label_selector(&trunk.node_selector)),
            ..kubeovn::ProviderNetworkSpec::default()
        },
        status: None,
    }
}

fn label_selector(selector: &Selector) -> LabelSelector {
    let operator = |operator| match operator {
        SelectorOperator::In => "In",
        SelectorOperator::NotIn => "NotIn",
        SelectorOperator::Exists => "Exists",
        SelectorOperator::DoesNotExist => "DoesNotExist",
    };
    let expressions = selector
        .expressions
        .iter()
        .map(|one| LabelSelectorRequirement {
            key: one.key.clone(),
            operator: operator(one.operator).to_owned(),
            values: (!one.values.is_empty()).then(|| one.values.clone()),
        });
    LabelSelector {
        match_labels: (!selector.labels.is_empty()).then(|| selector.labels.clone()),
        match_expressions: (!selector.expressions.is_empty()).then(|| expressions.collect()),
    }
}

/// The Vpc, with the record of the spec as JSON beside it.
pub(crate) fn router(
    mut metadata: ObjectMeta,
    spec: &KubeOvnVpc,
) -> Result<kubeovn::Vpc, serde_json::Error> {
    let annotations = metadata.annotations.get_or_insert_default();
    let owner = spec.owner.as_ref().map(ToString::to_string);
    annotations.extend(owner.map(|owner| (keys::OWNER_UID.to_owned(), owner)));
    if let Some(record) = &spec.record {
        annotations.insert(keys::SPEC.to_owned(), serde_json::to_string(record)?);
    }
    let routes = spec.routes.iter().map(|route| kubeovn::StaticRoute {
        policy: Some("policyDst".to_owned()),
        cidr: Some(route.cidr.to_string()),
        next_hop_ip: Some(route.next_hop.to_string()),
        ecmp_mode: Some(String::new()),
        bfd_id: Some(String::new()),
        route_table: Some(String::new()),
    });
    Ok(kubeovn::Vpc {
        metadata,
        spec: kubeovn::VpcSpec {
            static_routes: (!spec.routes.is_empty()).then(|| routes.collect()),
            ..kubeovn::VpcSpec::default()
        },
        status: None,
    })
}

pub(crate) fn network(metadata: ObjectMeta, record: &NetworkRecord) -> ProxmoxNetwork {
    ProxmoxNetwork {
        metadata,
        spec: ProxmoxNetworkSpec {
            zone: record.zone.as_ref().map(ToString::to_string),
            vpc: network::NetworkVpc {
                name: record.vpc.to_string(),
                id: record.vpc_id.to_string(),
            },
            subnet: record.subnet.to_string(),
            cidr: record.cidr.to_string(),
            gateway: record.gateway.to_string(),
            vm_range: record.vm_range.to_string(),
            index: record.index,
        },
        status: None,
    }
}

pub(crate) fn attachment(
    metadata: ObjectMeta,
    key: &SubnetKey,
    spec: &Attachment,
) -> multus::NetworkAttachmentDefinition {
    let config = serde_json::json!({
        "cniVersion": CNI_VERSION,
        "name": key.id,
        "type": "kube-ovn",
        "server_socket": CNI_SOCKET,
        "provider": spec.provider,
    });
    multus::NetworkAttachmentDefinition {
        metadata,
        spec: multus::NetworkAttachmentDefinitionSpec {
            config: Some(config.to_string()),
        },
    }
}

pub(crate) fn subnet(metadata: ObjectMeta, spec: &KubeOvnSubnet) -> kubeovn::Subnet {
    let allow = spec.allow.iter().map(ToString::to_string);
    kubeovn::Subnet {
        metadata,
        spec: kubeovn::SubnetSpec {
            vpc: Some(spec.vpc.to_string()),
            vlan: spec.vlan.clone(),
            logical_gateway: spec.vlan.as_ref().map(|_| true),
            protocol: Some("IPv4".to_owned()),
            cidr_block: Some(spec.cidr.to_string()),
            gateway: Some(spec.gateway.to_string()),
            exclude_ips: Some(spec.exclude_ips.clone()),
            provider: Some(spec.provider.clone()),
            private: Some(spec.private),
            allow_subnets: spec.private.then(|| allow.collect()),
            nat_outgoing: Some(false),
            enable_lb: Some(false),
            mtu: Some(spec.mtu),
            ..kubeovn::SubnetSpec::default()
        },
        status: None,
    }
}

pub(crate) fn pool(metadata: ObjectMeta, spec: &Pool) -> ipam::InClusterIPPool {
    ipam::InClusterIPPool {
        metadata,
        spec: ipam::InClusterIPPoolSpec {
            addresses: spec.addresses.clone(),
            prefix: spec.prefix,
            gateway: Some(spec.gateway.to_string()),
            ..ipam::InClusterIPPoolSpec::default()
        },
        status: None,
    }
}

/// The claim of a VLAN number.
pub(crate) fn claim(claim: &Claim) -> kubeovn::Vlan {
    kubeovn::Vlan {
        metadata: ObjectMeta {
            name: Some(claim.name.clone()),
            labels: Some(claim.labels.clone()),
            annotations: Some([(keys::OWNER_UID.to_owned(), claim.owner.to_string())].into()),
            ..ObjectMeta::default()
        },
        spec: kubeovn::VlanSpec {
            id: Some(claim.vid.into()),
            provider: claim.provider.clone(),
        },
        status: None,
    }
}

#[cfg(test)]
mod tests;
