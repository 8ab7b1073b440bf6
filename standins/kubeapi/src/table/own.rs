//! Cells of the server's own kinds that are more than a field, as `pkg/printers/internalversion`
//! makes them.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use crate::{
    events,
    kinds::{Column, Kind, Nature},
    object,
};

/// A cell that is computed; nothing if it is the column's field.
pub(super) fn cell(kind: &Kind, column: &Column, object: &Value, now: Timestamp) -> Option<Value> {
    let count = |field: &str| match object.get(field) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(list)) => list.len(),
        _ => 0,
    };
    if kind.nature == Nature::Custom {
        return None;
    }
    Some(match (kind.name.as_str(), column.name.as_str()) {
        (_, "Created At") => object::meta_str(object, "creationTimestamp").into(),
        ("ConfigMap", "Data") => (count("data") + count("binaryData")).into(),
        ("Secret", "Data") => count("data").into(),
        ("ServiceAccount", "Secrets") => count("secrets").into(),
        ("RoleBinding" | "ClusterRoleBinding", "Role") => format!(
            "{}/{}",
            text(object, "/roleRef/kind"),
            text(object, "/roleRef/name")
        )
        .into(),
        ("RoleBinding" | "ClusterRoleBinding", "Users") => subjects(object, "User").into(),
        ("RoleBinding" | "ClusterRoleBinding", "Groups") => subjects(object, "Group").into(),
        ("RoleBinding" | "ClusterRoleBinding", "ServiceAccounts") => {
            subjects(object, "ServiceAccount").into()
        }
        ("Event", name) => return event(name, object, now),
        ("Node", name) => return node(name, object),
        ("Pod", name) => return pod(name, object),
        _ => return None,
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>" } else { text }.into()
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn subjects(binding: &Value, kind: &str) -> String {
    let of_kind = list(binding, "/subjects")
        .iter()
        .filter(|one| text(one, "/kind") == kind);
    let names: Vec<String> = of_kind
        .map(|one| match (kind, text(one, "/name")) {
            ("ServiceAccount", name) => format!("{}/{name}", text(one, "/namespace")),
            (_, name) => name.to_owned(),
        })
        .collect();
    names.join(", ")
}

/// Events, whichever group shows them.
fn event(column: &str, event: &Value, now: Timestamp) -> Option<Value> {
    let event = &events::as_stored(event.clone());
    let since = |pointers: &[&str]| {
        let mut stamps = pointers.iter().map(|pointer| text(event, pointer));
        match stamps.find(|stamp| !stamp.is_empty()) {
            None => "<unknown>".into(),
            Some(stamp) => stamp.parse::<Timestamp>().map_or_else(
                |_| "<invalid>".into(),
                |then| age::human(now.duration_since(then)).into(),
            ),
        }
    };
    Some(match column {
        "Last Seen" => since(&[
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/firstTimestamp",
            "/eventTime",
        ]),
        "First Seen" => since(&["/firstTimestamp", "/eventTime"]),
        "Object" => {
            let kind = text(event, "/involvedObject/kind").to_lowercase();
            let name = text(event, "/involvedObject/name");
            match kind.as_str() {
                "" => name.to_owned(),
                kind => format!("{kind}/{name}"),
            }
            .into()
        }
        "Subobject" => text(event, "/involvedObject/fieldPath").into(),
        "Source" => {
            let (component, host) = (events::source(event), text(event, "/source/host"));
            if host.is_empty() {
                component.into()
            } else {
                format!("{component}, {host}").into()
            }
        }
        "Message" => text(event, "/message").trim().into(),
        "Count" => {
            let counts = ["/series/count", "/count"];
            let mut stated = counts.iter().filter_map(|pointer| event.pointer(pointer));
            stated
                .find(|count| count.as_i64() != Some(0))
                .cloned()
                .unwrap_or_else(|| 1.into())
        }
        _ => return None,
    })
}

fn node(column: &str, node: &Value) -> Option<Value> {
    let address = |kind: &str| {
        let found = list(node, "/status/addresses")
            .iter()
            .find(|one| text(one, "/type") == kind);
        or_none(found.map(|one| text(one, "/address")).unwrap_or_default())
    };
    Some(match column {
        "Status" => {
            let ready = list(node, "/status/conditions")
                .iter()
                .find(|condition| text(condition, "/type") == "Ready");
            let ready = match ready.map(|condition| text(condition, "/status")) {
                None => "Unknown",
                Some("True") => "Ready",
                Some(_) => "NotReady",
            };
            let closed = node.pointer("/spec/unschedulable") == Some(&true.into());
            if closed {
                format!("{ready},SchedulingDisabled")
            } else {
                ready.to_owned()
            }
            .into()
        }
        "Roles" => {
            let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
            let mut roles: Vec<&str> = labels
                .into_iter()
                .flatten()
                .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
                .filter(|role| !role.is_empty())
                .collect();
            roles.sort_unstable();
            or_none(&roles.join(","))
        }
        "Internal-IP" => address("InternalIP"),
        "External-IP" => address("ExternalIP"),
        "OS-Image" => unknown(text(node, "/status/nodeInfo/osImage")),
        "Kernel-Version" => unknown(text(node, "/status/nodeInfo/kernelVersion")),
        "Container-Runtime" => unknown(text(node, "/status/nodeInfo/containerRuntimeVersion")),
        "Version" => text(node, "/status/nodeInfo/kubeletVersion").into(),
        _ => return None,
    })
}

fn unknown(text: &str) -> Value {
    if text.is_empty() { "<unknown>" } else { text }.into()
}

fn pod(column: &str, pod: &Value) -> Option<Value> {
    let statuses = list(pod, "/status/containerStatuses");
    Some(match column {
        "Ready" => {
            let ready = statuses
                .iter()
                .filter(|one| one.get("ready") == Some(&true.into()));
            format!("{}/{}", ready.count(), list(pod, "/spec/containers").len()).into()
        }
        "Status" => {
            let reason = text(pod, "/status/reason");
            if object::is_deleting(pod) {
                if reason == "NodeLost" {
                    "Unknown"
                } else {
                    "Terminating"
                }
                .into()
            } else if reason.is_empty() {
                text(pod, "/status/phase").into()
            } else {
                reason.into()
            }
        }
        "Restarts" => {
            let counts = statuses
                .iter()
                .filter_map(|one| one.get("restartCount")?.as_u64());
            counts.sum::<u64>().to_string().into()
        }
        "IP" => or_none(text(pod, "/status/podIP")),
        "Node" => or_none(text(pod, "/spec/nodeName")),
        "Nominated Node" => or_none(text(pod, "/status/nominatedNodeName")),
        "Readiness Gates" => {
            let gates = list(pod, "/spec/readinessGates");
            if gates.is_empty() {
                "<none>".into()
            } else {
                let conditions = list(pod, "/status/conditions");
                let passed = gates.iter().filter(|gate| {
                    conditions.iter().any(|condition| {
                        text(condition, "/type") == text(gate, "/conditionType")
                            && text(condition, "/status") == "True"
                    })
                });
                format!("{}/{}", passed.count(), gates.len()).into()
            }
        }
        _ => return None,
    })
}
