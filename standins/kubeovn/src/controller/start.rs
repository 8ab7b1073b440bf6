//! What a start does once: makes the default Vpc and Subnets, and clears rows that no object asks
//! for.
//!
//! Must stay true: of a Subnet that went while nobody looked only the switch goes. Its router port,
//! its policy and its name in `Vlan.status.subnets` stay for good, as with the real one.

use causeway_api::kubeovn::{Subnet, SubnetSpec, Vpc, VpcSpec};
use causeway_ovn::{
    Condition, Operation,
    nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort},
};
use ipnet::Ipv4Net;

use kube::ResourceExt;

use super::{Controller, vpc::link_port};
use crate::{
    DEFAULT_SUBNET, DEFAULT_VPC, JOIN_SUBNET,
    cni::Cni,
    key::Key,
    northbound::{ours, take_out},
    pass::PassError,
};

impl<C: Cni> Controller<C> {
    pub(super) async fn start(&mut self) -> Result<(), PassError> {
        if self.objects.vpcs.get(DEFAULT_VPC).is_none() {
            self.objects
                .vpcs
                .create(&Vpc::new(DEFAULT_VPC, VpcSpec::default()))
                .await?;
        }
        for subnet in [
            join(self.options.join_cidr),
            ovn_default(self.options.default_cidr),
        ] {
            let name = subnet.metadata.name.as_deref().unwrap_or_default();
            if self.objects.subnets.get(name).is_none() {
                self.objects.subnets.create(&subnet).await?;
            }
        }
        self.clear_leftovers().await
    }

    /// Switches and routers without an object go, whosever they are; pods that are gone are looked
    /// at again.
    async fn clear_leftovers(&self) -> Result<(), PassError> {
        let replica = self.replica();
        let mut operations = Vec::new();
        for (uuid, switch) in replica.rows::<LogicalSwitch>()? {
            if self.objects.subnets.get(&switch.name).is_none() {
                operations.push(Operation::delete::<LogicalSwitch>(Condition::is(uuid)));
            }
        }
        for (uuid, router) in replica.rows::<LogicalRouter>()? {
            if self.objects.vpcs.get(&router.name).is_none() {
                operations.push(Operation::delete::<LogicalRouter>(Condition::is(uuid)));
            }
        }
        for (uuid, port) in replica.rows::<LogicalRouterPort>()? {
            if port.peer.is_some() && ours(&port.external_ids) && !self.is_link(&port.name) {
                operations.extend(take_out::<LogicalRouter>("ports", [uuid]));
            }
        }
        self.transact(operations).await?;
        for port in replica.rows::<LogicalSwitchPort>()?.into_values() {
            if let Some((namespace, pod)) = port
                .external_ids
                .get("pod")
                .and_then(|pod| pod.split_once('/'))
            {
                self.objects
                    .wakes
                    .wake(Key::Pod((namespace.into(), pod.into())));
            }
        }
        for ip in self.objects.ips.all() {
            if let (Some(namespace), Some(pod)) = (&ip.spec.namespace, &ip.spec.pod_name)
                && !namespace.is_empty()
            {
                self.objects
                    .wakes
                    .wake(Key::Pod((namespace.clone(), pod.clone())));
            }
        }
        Ok(())
    }
}

impl<C: Cni> Controller<C> {
    /// Whether some Vpc's status tells of this port to another router.
    fn is_link(&self, port: &str) -> bool {
        self.objects.vpcs.all().any(|vpc| {
            let status = vpc.status.as_ref();
            let known = status.and_then(|status| status.vpc_peerings.as_ref());
            let mut remotes = known.into_iter().flatten();
            remotes.any(|remote| link_port(&vpc.name_any(), remote) == port)
        })
    }
}

fn first_host(cidr: Ipv4Net) -> Option<String> {
    cidr.hosts().next().map(|host| host.to_string())
}

fn in_default_vpc(name: &str, cidr: Ipv4Net, spec: SubnetSpec) -> Subnet {
    let gateway = first_host(cidr);
    let spec = SubnetSpec {
        vpc: Some(DEFAULT_VPC.into()),
        protocol: Some("IPv4".into()),
        provider: Some("ovn".into()),
        cidr_block: Some(cidr.to_string()),
        exclude_ips: Some(gateway.iter().cloned().collect()),
        gateway,
        gateway_node: Some(String::new()),
        private: Some(false),
        ..spec
    };
    Subnet::new(name, spec)
}

fn join(cidr: Ipv4Net) -> Subnet {
    let spec = SubnetSpec {
        default: Some(false),
        disable_inter_connection: Some(true),
        nat_outgoing: Some(false),
        ..SubnetSpec::default()
    };
    in_default_vpc(JOIN_SUBNET, cidr, spec)
}

fn ovn_default(cidr: Ipv4Net) -> Subnet {
    let spec = SubnetSpec {
        default: Some(true),
        enable_lb: Some(true),
        gateway_type: Some("distributed".into()),
        nat_outgoing: Some(true),
        ..SubnetSpec::default()
    };
    in_default_vpc(DEFAULT_SUBNET, cidr, spec)
}
