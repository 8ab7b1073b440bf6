//! ProviderNetwork status: which nodes carry it. The nodes say so by their labels.

use causeway_api::{
    keys::provider_network_ready,
    kubeovn::{KubeOvnCondition, NodeCondition, ProviderNetwork, ProviderNetworkStatus},
};
use kube::ResourceExt;

use super::{Controller, now};
use crate::{cni::Cni, node::selects, pass::PassError};

impl<C: Cni> Controller<C> {
    pub(super) async fn network(&mut self, name: &str) -> Result<(), PassError> {
        let Some(network) = self.objects.networks.get(name) else {
            return Ok(());
        };
        let old = network.status.clone().unwrap_or_default();
        let mut ready = Vec::new();
        let mut not_ready = Vec::new();
        let mut conditions = Vec::new();
        for node in self
            .objects
            .nodes
            .all()
            .filter(|node| selects(&network, node))
        {
            let node_name = node.name_any();
            let label = node.labels().get(&provider_network_ready(name));
            let failure = self.nodes.failure(&node_name, name);
            let carries = failure.is_none() && label.is_some_and(|label| label == "true");
            let state = match &failure {
                Some(message) => Some(("False", "InitOVSBridgeFailed", Some(message.clone()))),
                None => carries.then_some(("True", "InitOVSBridgeSucceeded", None)),
            };
            if let Some(state) = state {
                conditions.push(node_condition(&old, &node_name, state));
            }
            if carries { &mut ready } else { &mut not_ready }.push(node_name);
        }
        let some = |names: Vec<String>| (!names.is_empty()).then_some(names);
        let status = ProviderNetworkStatus {
            ready: Some(not_ready.is_empty()),
            ready_nodes: some(ready),
            not_ready_nodes: some(not_ready),
            vlans: old.vlans,
            conditions: (!conditions.is_empty()).then_some(conditions),
        };
        let mut changed = ProviderNetwork::clone(&network);
        changed.status = Some(status);
        self.objects
            .networks
            .change_status(&network, &changed)
            .await?;
        Ok(())
    }
}

fn node_condition(
    old: &ProviderNetworkStatus,
    node: &str,
    (status, reason, message): (&str, &str, Option<String>),
) -> NodeCondition {
    let before = old
        .conditions
        .iter()
        .flatten()
        .find(|it| it.node.as_deref() == Some(node));
    let since = before
        .filter(|before| before.condition.status.as_deref() == Some(status))
        .and_then(|before| before.condition.last_transition_time.clone());
    NodeCondition {
        node: Some(node.to_owned()),
        condition: KubeOvnCondition {
            type_: Some("Ready".to_owned()),
            status: Some(status.to_owned()),
            reason: Some(reason.to_owned()),
            message,
            last_update_time: None,
            last_transition_time: since.or_else(|| Some(now())),
        },
    }
}
