//! Pods: addresses, IP objects, switch ports and annotations of those that have a node.
//!
//! Must stay true: an address is given once. The IP object is made first and its name is the
//! port's, so a pass that ends early goes on with the address that it gave.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use causeway_api::{
    keys::{IP_NODE, IP_SUBNET, KUBE_OVN_FINALIZER},
    kubeovn::{IP, IPSpec, Subnet},
};
use causeway_drive::Name;
use causeway_ovn::{
    Condition, Datum, Operation, Replica, Row,
    nb::{LogicalSwitch, LogicalSwitchPort},
    table::Column,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::{
    Controller,
    subnet::{has_router_port, pool},
};
use crate::{
    DEFAULT_VPC,
    attachments::{Attachment, attachments},
    cni::Cni,
    northbound::{add_to, ids, named, take_out},
    pass::PassError,
};

impl<C: Cni> Controller<C> {
    pub(super) async fn pod(&mut self, name: &Name) -> Result<(), PassError> {
        let pod = self.objects.pods.get(&name.0, &name.1).filter(is_alive);
        let uid = pod.as_ref().and_then(|pod| pod.uid());
        let another = self
            .seen_pods
            .get(name)
            .is_some_and(|seen| uid.as_ref() != Some(seen));
        if pod.is_none() || another {
            self.release(name).await?;
            self.seen_pods.remove(name);
        }
        let Some(pod) = pod else { return Ok(()) };
        let spec = pod.spec.clone().unwrap_or_default();
        let Some(node) = spec.node_name.filter(|_| spec.host_network != Some(true)) else {
            return Ok(());
        };
        self.seen_pods.insert(name.clone(), uid.unwrap_or_default());
        // All before the first address: a pod with a wrong network gets none.
        let mut wanted = Vec::new();
        for attachment in attachments(&pod, &self.objects.attachments)? {
            let subnet = attachment.subnet(&pod, &self.objects)?;
            wanted.push((attachment, subnet));
        }
        let mut annotations = BTreeMap::new();
        let mut operations = Vec::new();
        for (attachment, subnet) in wanted {
            let ip = self.address(&pod, &node, &attachment, &subnet).await?;
            operations.extend(port(&self.replica(), &pod, &subnet, &ip)?);
            annotations.extend(self.annotations(&attachment, &subnet, &ip.spec)?);
        }
        self.transact(operations).await?;
        let held = pod.annotations();
        if annotations
            .iter()
            .any(|(key, value)| held.get(key) != Some(value))
        {
            let patch = json!({"metadata": {"uid": pod.uid(), "annotations": annotations}});
            self.objects.patch_pod(name, false, patch).await?;
        }
        Ok(())
    }

    /// The interface's IP object, made if absent.
    async fn address(
        &mut self,
        pod: &Pod,
        node: &str,
        attachment: &Attachment,
        subnet: &Subnet,
    ) -> Result<IP, PassError> {
        let (namespace, pod_name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let name = attachment.port(&namespace, &pod_name);
        if let Some(held) = self.objects.ips.get(&name) {
            if held.metadata.deletion_timestamp.is_some() {
                return Err(PassError::waiting(format!("IP {name} to go")));
            }
            return Ok(IP::clone(&held));
        }
        let subnet_name = subnet.name_any();
        let asked = attachment
            .says(pod, "ip_address")
            .and_then(|asked| asked.parse().ok());
        let used = self.used(&subnet_name);
        let given_back = self.given_back.entry(subnet_name.clone()).or_default();
        let address = pool(subnet)?
            .allocate(asked, &used, given_back)?
            .to_string();
        let mac = attachment.says(pod, "mac_address").map(str::to_owned);
        let spec = IPSpec {
            pod_name: Some(pod_name),
            namespace: Some(namespace),
            subnet: Some(subnet_name.clone()),
            node_name: Some(node.to_owned()),
            ip_address: Some(address.clone()),
            v4_ip_address: Some(address),
            v6_ip_address: Some(String::new()),
            mac_address: Some(mac.unwrap_or_else(|| self.macs.draw(&name))),
            attach_subnets: Some(Vec::new()),
            attach_ips: Some(Vec::new()),
            attach_macs: Some(Vec::new()),
            container_id: Some(String::new()),
            pod_type: Some(String::new()),
        };
        let mut ip = IP::new(&name, spec);
        ip.labels_mut().extend([
            (subnet_name.clone(), String::new()),
            (
                "ovn.kubernetes.io/ip_reserved".to_owned(),
                "false".to_owned(),
            ),
            (IP_NODE.to_owned(), node.to_owned()),
            (IP_SUBNET.to_owned(), subnet_name),
        ]);
        ip.finalizers_mut().push(KUBE_OVN_FINALIZER.to_owned());
        self.objects.ips.create(&ip).await?;
        Ok(ip)
    }

    fn annotations(
        &self,
        attachment: &Attachment,
        subnet: &Subnet,
        ip: &IPSpec,
    ) -> Result<BTreeMap<String, String>, PassError> {
        let pool = pool(subnet)?;
        let mut said = BTreeMap::from([
            ("allocated", "true".to_owned()),
            ("cidr", pool.cidr().to_string()),
            ("gateway", pool.gateway().to_string()),
            ("ip_address", ip.ip_address.clone().unwrap_or_default()),
            ("logical_switch", subnet.name_any()),
            ("mac_address", ip.mac_address.clone().unwrap_or_default()),
            ("pod_nic_type", "veth-pair".to_owned()),
            ("routed", "true".to_owned()),
        ]);
        if has_router_port(subnet) {
            said.insert(
                "logical_router",
                subnet.spec.vpc.clone().unwrap_or_default(),
            );
        }
        if let Some(vlan) = subnet.spec.vlan.as_deref().filter(|vlan| !vlan.is_empty()) {
            let vlan = self.objects.vlans.get(vlan);
            let vlan = vlan.ok_or_else(|| PassError::waiting("the subnet's vlan"))?;
            said.insert("provider_network", vlan.spec.provider.clone());
            said.insert("vlan_id", vlan.spec.id.unwrap_or(0).to_string());
        }
        Ok(said
            .into_iter()
            .map(|(what, value)| (attachment.key(what), value))
            .collect())
    }

    /// Ports first, then the IP objects: they count as in use until they are gone.
    async fn release(&self, (namespace, name): &Name) -> Result<(), PassError> {
        let replica = self.replica();
        let mark = Datum::map([("pod", format!("{namespace}/{name}"))]);
        let mark = mark.as_map().and_then(|pairs| pairs.first());
        let mut ports = BTreeSet::new();
        for (uuid, row) in replica.table("Logical_Switch_Port")? {
            let ids = row
                .get("external_ids")
                .and_then(Datum::as_map)
                .unwrap_or_default();
            if mark.is_some_and(|mark| ids.contains(mark)) {
                ports.insert(*uuid);
            }
        }
        self.transact(take_out::<LogicalSwitch>("ports", ports))
            .await?;
        for ip in self.objects.ips.all() {
            let theirs = ip.spec.pod_name.as_ref() == Some(name)
                && ip.spec.namespace.as_ref() == Some(namespace);
            if theirs && ip.metadata.deletion_timestamp.is_none() {
                self.objects.ips.delete(&ip).await?;
            }
        }
        Ok(())
    }
}

/// A pod that has ended has no more addresses; one that is being deleted keeps them until it is
/// gone.
fn is_alive(pod: &Arc<Pod>) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

fn port(
    replica: &Replica,
    pod: &Pod,
    subnet: &Subnet,
    ip: &IP,
) -> Result<Vec<Operation>, PassError> {
    let switch = subnet.name_any();
    let Some((switch_uuid, _)) = named::<LogicalSwitch>(replica, &switch)? else {
        return Err(PassError::waiting(format!("switch {switch}")));
    };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let address = format!(
        "{} {}",
        text(&ip.spec.mac_address),
        text(&ip.spec.ip_address)
    );
    let whose = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let mut external_ids = ids([("ls", &switch), ("pod", &whose)]);
    if subnet.spec.vpc.as_deref() != Some(DEFAULT_VPC) {
        external_ids.insert("associated_sg_default-securitygroup".into(), "false".into());
    }
    let row = LogicalSwitchPort {
        name: ip.name_any(),
        addresses: [address].into(),
        external_ids,
        ..LogicalSwitchPort::default()
    };
    Ok(match named::<LogicalSwitchPort>(replica, &row.name)? {
        None => add_to::<LogicalSwitch, _>(&switch_uuid.into(), "ports", &row.name, &row).into(),
        Some((_, held)) if held.addresses == row.addresses => Vec::new(),
        Some((uuid, _)) => {
            let columns = Row::from([("addresses".into(), row.addresses.write())]);
            vec![Operation::update::<LogicalSwitchPort>(
                Condition::is(uuid),
                columns,
            )]
        }
    })
}
