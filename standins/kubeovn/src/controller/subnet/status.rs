//! A Subnet's conditions and counters.
//!
//! Must stay true: `Error` is never cleared, `observedGeneration` is never set, and a condition that
//! says what it said keeps its times.

use causeway_api::kubeovn::{KubeOvnCondition, SubnetStatus};

use crate::{addresses::Counters, controller::now};

const VALIDATED: &str = "Validated";
const READY: &str = "Ready";
const ERROR: &str = "Error";

/// A step did not work.
pub(super) fn failed(status: &mut SubnetStatus, reason: &str, message: &str) {
    set(status, ERROR, "True", reason, message);
    if reason == "ValidateLogicalSwitchFailed" {
        set(status, VALIDATED, "False", reason, message);
    } else {
        set(status, VALIDATED, "True", reason, "");
    }
    set(status, READY, "False", reason, message);
}

/// A step worked.
pub(super) fn passed(status: &mut SubnetStatus, reason: &str) {
    // The real one writes the first reason and then, in the same pass, the second: only the last is
    // ever seen for long.
    let is_ready = reason != "ValidateLogicalSwitchSuccess";
    let validated = find(status, VALIDATED).is_some_and(|it| it.status.as_deref() == Some("True"));
    if is_ready || !validated {
        set(status, VALIDATED, "True", reason, "");
    }
    if is_ready {
        set(status, READY, "True", reason, "");
    }
}

/// Adds the conditions that are not there yet.
pub(super) fn all_three(status: &mut SubnetStatus) {
    for kind in [VALIDATED, READY, ERROR] {
        if find(status, kind).is_none() {
            set(status, kind, "Unknown", "Init", "Not Observed");
        }
    }
}

/// The counters, and every other field that Kube-OVN writes whether it holds anything or not.
pub(super) fn count(status: &mut SubnetStatus, counters: Counters) {
    status.v4_available_ips = Some(counters.available);
    status.v4_available_ip_range = Some(counters.available_range);
    status.v4_using_ips = Some(counters.using);
    status.v4_using_ip_range = Some(counters.using_range);
    status.v6_available_ips.get_or_insert_default();
    status.v6_using_ips.get_or_insert_default();
    status.nat_outgoing_policy_rules.get_or_insert_default();
    for text in [
        &mut status.v6_available_ip_range,
        &mut status.v6_using_ip_range,
        &mut status.activate_gateway,
        &mut status.dhcp_v4_options_uuid,
        &mut status.dhcp_v6_options_uuid,
        &mut status.u2o_interconnection_ip,
        &mut status.u2o_interconnection_mac,
        &mut status.u2o_interconnection_vpc,
        &mut status.mcast_querier_ip,
        &mut status.mcast_querier_mac,
    ] {
        text.get_or_insert_default();
    }
}

fn find<'a>(status: &'a mut SubnetStatus, kind: &str) -> Option<&'a mut KubeOvnCondition> {
    let mut conditions = status.conditions.iter_mut().flatten();
    conditions.find(|condition| condition.type_.as_deref() == Some(kind))
}

fn set(status: &mut SubnetStatus, kind: &str, value: &str, reason: &str, message: &str) {
    let message = (!message.is_empty()).then(|| message.to_owned());
    let now = Some(now());
    let Some(condition) = find(status, kind) else {
        status
            .conditions
            .get_or_insert_default()
            .push(KubeOvnCondition {
                type_: Some(kind.to_owned()),
                status: Some(value.to_owned()),
                reason: Some(reason.to_owned()),
                message,
                last_update_time: now.clone(),
                last_transition_time: now,
            });
        return;
    };
    let same = condition.status.as_deref() == Some(value)
        && condition.reason.as_deref() == Some(reason)
        && condition.message == message;
    if same {
        return;
    }
    if condition.status.as_deref() != Some(value) {
        condition.last_transition_time.clone_from(&now);
        condition.status = Some(value.to_owned());
    }
    condition.last_update_time = now;
    condition.reason = Some(reason.to_owned());
    condition.message = message;
}
