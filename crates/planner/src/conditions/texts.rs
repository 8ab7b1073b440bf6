//! What each reason means: the words of `causeway explain`, `explain --reason` and
//! docs/reference/conditions.md.
//!
//! Must stay true: every reason has a text (a missing one does not compile), and where a text says
//! that the reason stands is where plans put it (a test walks the planner's cases).

use super::{ConditionType, Reason};

/// Whose condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// A `ProxmoxNetwork`'s.
    Network,
    /// A `VirtualPrivateCloud`'s.
    Vpc,
    /// A `ProxmoxNetworkZone`'s.
    Zone,
}

impl Whose {
    /// The kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Network => "ProxmoxNetwork",
            Self::Vpc => "VirtualPrivateCloud",
            Self::Zone => "ProxmoxNetworkZone",
        }
    }
}

/// What a reason means, for people.
#[derive(Clone, Copy, Debug)]
pub struct ReasonText {
    /// In a few words.
    pub title: &'static str,
    /// Where it stands. What a network's Ready takes from its other conditions is not repeated.
    pub at: &'static [(Whose, ConditionType)],
    /// What was observed.
    pub means: &'static str,
    /// What the controller does while it is so.
    pub meanwhile: &'static str,
    /// Who can do what; empty where nobody has to do anything.
    pub remedies: &'static [Remedy],
}

/// What somebody can do.
#[derive(Clone, Copy, Debug)]
pub struct Remedy {
    /// Who.
    pub who: &'static str,
    /// What.
    pub what: &'static str,
}

const TENANT: &str = "tenant";
const ADMINISTRATOR: &str = "administrator";

macro_rules! texts {
    ($($reason:ident at [$($whose:ident $kind:ident),*] $title:literal
        means $means:literal
        meanwhile $meanwhile:literal
        $($who:ident can $what:literal)*;
    )*) => {
        impl Reason {
            /// What it means.
            pub fn text(self) -> ReasonText {
                match self {
                    $(Self::$reason => ReasonText {
                        title: $title,
                        at: &[$((Whose::$whose, ConditionType::$kind)),*],
                        means: $means,
                        meanwhile: $meanwhile,
                        remedies: &[$(Remedy { who: $who, what: $what }),*],
                    },)*
                }
            }
        }
    };
}

texts! {
    Ready at [
        Network ZoneReady, Network TrunkReady, Network SwitchReady, Network GatewayReady,
        Network PoolReady, Network Ready, Vpc Ready, Zone Ready
    ] "All is well"
        means "What the condition is about was observed to be as it should be. A message, where there \
               is one, is worth knowing all the same: `no failover: one trunk node` says that nobody \
               can take the gateway over."
        meanwhile "The controller goes on looking, and repairs what is changed by hand.";
    Allocated at [Network VLANAllocated] "The VLAN number is held"
        means "A Kube-OVN Vlan of the network's wire and number exists and names the network as its \
               owner; the message has the number."
        meanwhile "The controller keeps the claim for as long as the network exists.";
    Pending at [
        Network ZoneReady, Network VLANAllocated, Network TrunkReady, Network SwitchReady,
        Network GatewayReady, Network PoolReady, Network Ready
    ] "Cannot be looked at yet"
        means "Something before it is missing; the message says what it waits for."
        meanwhile "The controller makes the next object as soon as what it waits for is there. If this stays for \
                   more than some seconds, the condition above it, or what the message names, is the \
                   place to look."
    ;
    NoZone at [Network ZoneReady] "No zone exists"
        means "There is no ProxmoxNetworkZone, so there is no bridge and no VLAN to put the network on."
        meanwhile "The controller makes nothing for the network but its record, and goes on once there is a zone. \
                   Overlay subnets of the VPC are made."
        ADMINISTRATOR can "create a ProxmoxNetworkZone";
    ZoneNotFound at [Network ZoneReady] "The named zone does not exist"
        means "The subnet's `proxmox.zone`, or the network's record, names a zone that is not there; \
               the message lists those that are."
        meanwhile "The controller makes nothing further for the network. What exists already stays as it is."
        TENANT can "name a zone that exists: remove the subnet and add it under a new name"
        ADMINISTRATOR can "create a zone of that name";
    ZoneAmbiguous at [Network ZoneReady] "Several zones are possible, and none is named"
        means "More than one zone admits the namespace and none of them is called `default`."
        meanwhile "The controller makes nothing for the network but its record."
        TENANT can "set `proxmox.zone` to one of the zones in the message"
        ADMINISTRATOR can "call one zone `default`, or narrow the namespaceSelectors";
    NamespaceNotAdmitted at [Network ZoneReady] "The zone does not admit the namespace"
        means "The zone's `namespaceSelector` does not match the namespace's labels (without a \
               selector: the namespace's name does not begin as tenants' names do), or the zone is \
               being deleted."
        meanwhile "The controller makes nothing for the network but its record. A network that has its zone \
                   already runs on."
        TENANT can "name a zone that admits the namespace"
        ADMINISTRATOR can "label the namespace, or change the zone's namespaceSelector";
    ZoneNotReady at [Network ZoneReady] "The zone cannot be used"
        means "The network's zone breaks a rule or contradicts an earlier zone; the message is the \
               zone's own."
        meanwhile "The controller makes nothing further on that zone. What exists already stays as it is."
        ADMINISTRATOR can "put the zone right, by the message of its own Ready condition";
    ZoneExhausted at [Network VLANAllocated] "No VLAN number is free"
        means "Every number of the zone's ranges is held, or rests after its release; the message has \
               the figures."
        meanwhile "The controller takes the first number that becomes free. A released one is free after the \
                   cool-down of one minute, which keeps old traffic away from new tenants."
        TENANT can "remove a network that is no longer used, or name another zone"
        ADMINISTRATOR can "extend `spec.vlans.ranges` of the zone, or take numbers out of `reserved`";
    PreviousSubnetTerminating at [Network VLANAllocated] "An earlier object of the same name is still going"
        means "A Subnet of this name is being deleted, or its switch is still in OVN. Names are never \
               used again before the switch is gone."
        meanwhile "The controller waits until Kube-OVN has removed it, and then goes on by itself."
        ADMINISTRATOR can "look at kube-ovn-controller, and at the Subnet's finalizers, if it stays";
    NameCollision at [Network VLANAllocated, Network Ready, Vpc Ready] "The generated id belongs to somebody else"
        means "The id is a short hash of namespace, VPC and subnet, and an object of this id exists \
               that belongs to another of them. Ids are never shared."
        meanwhile "The controller leaves the other object alone and makes nothing under the id."
        TENANT can "give the subnet, or the VPC, another name"
        ADMINISTRATOR can "remove the object that the message names, if nobody needs it";
    NoTrunkNodes at [Network TrunkReady, Zone Ready] "No node carries the trunk"
        means "No node that the zone's `trunk.nodeSelector` names is Ready, listed in the \
               ProviderNetwork's readyNodes and labelled ready by Kube-OVN."
        meanwhile "The controller makes no new switch on the zone, and goes on once one node is healthy."
        ADMINISTRATOR can "label the nodes that have the NIC, and see why Kube-OVN does not take them: \
                           `kubectl describe` the ProviderNetwork, and the log of kube-ovn-cni";
    VLANNotCarried at [Network TrunkReady] "The trunk does not carry the VLAN"
        means "Kube-OVN has not added the Vlan to its ProviderNetwork, or calls it a conflict: another \
               Vlan of the ProviderNetwork has the same number."
        meanwhile "The controller waits, and keeps its claim."
        ADMINISTRATOR can "remove the Vlan with the same number that causeway did not make";
    WaitingForProviderNetwork at [Network TrunkReady] "The ProviderNetwork is not there yet"
        means "The zone's ProviderNetwork does not exist."
        meanwhile "The controller makes the ProviderNetwork with the zone, and goes on once it is there."
        ADMINISTRATOR can "look at the zone's Ready condition if it stays";
    WaitingForVPC at [Network SwitchReady, Vpc Ready] "The VPC's router is not there"
        means "Kube-OVN has not reported the router of the VPC, or somebody deleted its Vpc object."
        meanwhile "The controller makes the Vpc and waits for Kube-OVN. A Vpc deleted by hand is made again once \
                   no address of its subnets is in use."
        ADMINISTRATOR can "look at kube-ovn-controller if it stays";
    WaitingForKubeOVN at [Network SwitchReady] "Kube-OVN has not made the switch"
        means "The Subnet exists, and Kube-OVN has not reported on it, or not put its switch on the \
               Vlan."
        meanwhile "The controller waits, and keeps the Subnet as it should be."
        ADMINISTRATOR can "look at kube-ovn-controller if it stays";
    KubeOVNRejected at [Network SwitchReady] "Kube-OVN refuses the Subnet"
        means "The Subnet's own Ready condition is False; the message is Kube-OVN's."
        meanwhile "The controller keeps the Subnet as it should be, and goes on once Kube-OVN takes it."
        ADMINISTRATOR can "act on Kube-OVN's message";
    KubeOVNNotInstalled at [Network SwitchReady] "Kube-OVN is not installed"
        means "The API server does not serve kubeovn.io/v1."
        meanwhile "The controller makes nothing of Kube-OVN, and looks again after its next start."
        ADMINISTRATOR can "install Kube-OVN, then restart the controller";
    MultusNotInstalled at [Network SwitchReady] "Multus is not installed"
        means "The API server does not serve k8s.cni.cncf.io/v1, so pods could not be attached to the \
               network."
        meanwhile "The controller makes the Subnet without attachment, and looks again after its next start."
        ADMINISTRATOR can "install Multus, then restart the controller";
    RouterPortMissing at [Network GatewayReady] "The router has no port on the subnet"
        means "OVN's northbound database has no router port of the subnet, so nobody can answer for \
               the gateway."
        meanwhile "The controller writes the gateway rows once Kube-OVN has made the port."
        ADMINISTRATOR can "look at kube-ovn-controller if it stays";
    NoGatewayChassis at [Network GatewayReady] "The router port has no gateway chassis"
        means "No Gateway_Chassis row is on the router port; the message says how many healthy trunk \
               nodes there are."
        meanwhile "The controller writes the rows as soon as a healthy trunk node has a chassis. While a gateway \
                   moves, this is seen for up to two seconds."
        ADMINISTRATOR can "bring a trunk node back, or see that its ovn-controller is registered in \
                           the southbound database";
    NotClaimed at [Network GatewayReady] "No healthy trunk node holds the gateway"
        means "The southbound database shows the gateway port held by nobody, or by a node that is no \
               healthy trunk node."
        meanwhile "The controller keeps the rows as they should be; the chassis settle among themselves who holds \
                   the port."
        ADMINISTRATOR can "look at ovn-controller on the trunk nodes, and at tunnels between them";
    OVNUnreachable at [Network GatewayReady] "No connection to the OVN databases"
        means "The controller cannot read the northbound or the southbound database. The gateway may \
               well work."
        meanwhile "The controller writes no rows, makes and removes no switches, and connects again by itself."
        ADMINISTRATOR can "bring ovn-central back, and see that the controller's addresses of it are right";
    IPAMNotInstalled at [Network PoolReady] "The in-cluster IPAM provider is not installed"
        means "The API server does not serve ipam.cluster.x-k8s.io/v1alpha2, so machines cannot get \
               addresses. Switch and gateway work."
        meanwhile "The controller makes no pool, and looks again after its next start."
        ADMINISTRATOR can "install the in-cluster IPAM provider, then restart the controller";
    PoolRejected at [Network PoolReady] "The pool is not as it should be"
        means "The InClusterIPPool does not hold the network's VM range."
        meanwhile "The controller writes the pool as it should be; where the write is refused, the controller's log \
                   has the refusal."
        ADMINISTRATOR can "see who changes the pool, or what refuses its change";
    VMRangeBusy at [Network PoolReady] "Pods have addresses of the VM range"
        means "The VM range was extended over addresses that pods have; the message names them."
        meanwhile "The pool keeps the range that it has, and pods are kept off no more than that."
        TENANT can "remove the pods that the message names, or set a vmRange that leaves their addresses \
                    out";
    InUse at [Network Ready, Zone Ready] "Being removed, and held by what still uses it"
        means "Somebody asked for the removal while addresses are in use (of a zone: while networks \
               are on it); the message names them."
        meanwhile "The controller keeps the network working until the last address is given back, and then removes \
                   it."
        TENANT can "delete the machines and pods that the message names, or put the subnet back into \
                    the VPC to keep it";
    Terminating at [Network Ready, Vpc Ready, Zone Ready] "Being removed"
        means "Nothing uses it any more; the message says which part is going now."
        meanwhile "The controller removes one part after the other: pool, Subnet, VLAN, attachment, record."
        ADMINISTRATOR can "look at whoever has to remove what the message waits for, if it stays";
    SpecRefused at [Vpc Ready] "The spec breaks a rule"
        means "The VPC was written past the admission webhook, or changes what cannot be changed; the \
               message has the field and the rule."
        meanwhile "The controller goes by the last spec that kept every rule; a VPC that never had one is not made."
        TENANT can "write the spec as the message says; `causeway check FILE` finds it before";
    NetworkNotReady at [Vpc Ready] "A network of the VPC is not Ready"
        means "The message has the network, its reason and its message."
        meanwhile "The controller works on the network as the network's own reason says."
        TENANT can "ask `causeway explain NETWORK`";
    RangeInvalid at [Zone Ready] "The zone breaks a rule"
        means "The zone was written past the admission webhook; the message has the field and the rule."
        meanwhile "The controller writes nothing for the zone and gives out no number of it."
        ADMINISTRATOR can "write the zone as the message says; `causeway check FILE` finds it before";
    WireConflict at [Zone Ready] "The zone contradicts an earlier zone of its wire"
        means "Two zones of one wire overlap in their numbers or differ in their trunk, or the wire's \
               ProviderNetwork was not made by causeway. The zone created later is the one that is \
               refused."
        meanwhile "The controller writes nothing for the later zone and gives out no number of it; the earlier one \
                   works."
        ADMINISTRATOR can "change the later zone as the message says";
    NICShared at [Zone Ready] "The trunk NIC or the bridge belongs to another wire"
        means "An earlier zone uses the same NIC of a node, or the same bridge, under another wire. \
               Kube-OVN cannot put one NIC on two bridges."
        meanwhile "The controller writes nothing for the later zone and gives out no number of it; the earlier one \
                   works."
        ADMINISTRATOR can "name the same wire in both zones, or, for bridges of separate fabrics, \
                           annotate one zone proxmox.cozystack.io/separate-fabric: \"true\"";
    ProviderNetworkMissing at [Zone Ready] "The ProviderNetwork is not there"
        means "The zone's ProviderNetwork does not exist, or Kube-OVN is not installed."
        meanwhile "The controller makes the ProviderNetwork, and goes on once it is there."
        ADMINISTRATOR can "install Kube-OVN if the message says so";
}
