//! The webhooks of the configurations that are stored, and what they may answer.
//!
//! Must stay true: a configuration that is stored can be honoured ([`faults`]).

use base64::Engine;
use serde_json::Value;

use super::{Attributes, rules::selector_faults};
use crate::{
    cel::Condition,
    kinds::Nature,
    object::{self, strings},
    status::FieldFault,
    store::Store,
};

/// Which webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Mutating,
    Validating,
}

/// Where a webhook is.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(super) url: String,
    pub(super) authority: Vec<u8>,
    pub(super) seconds: u64,
}

/// One webhook of one configuration.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) phase: Phase,
    configuration: String,
    pub(super) name: String,
    pub(super) address: Address,
    pub(super) json: Value,
    pub(super) conditions: Vec<Condition>,
    pub(super) is_ignored_on_failure: bool,
    pub(super) is_called_again: bool,
}

impl Hook {
    pub(super) fn id(&self) -> String {
        format!("{:?} {}/{}", self.phase, self.configuration, self.name)
    }

    fn read(phase: Phase, configuration: &str, json: &Value) -> Self {
        let text = |pointer: &str| {
            let text = json.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let conditions = json.get("matchConditions").and_then(Value::as_array);
        let conditions = conditions.into_iter().flatten().filter_map(|condition| {
            let expression = condition.get("expression")?.as_str()?;
            Condition::read(expression).ok()
        });
        let authority = text("/clientConfig/caBundle");
        Self {
            phase,
            configuration: configuration.to_owned(),
            name: text("/name"),
            address: Address {
                url: url(json),
                authority: base64::engine::general_purpose::STANDARD
                    .decode(authority)
                    .unwrap_or_default(),
                seconds: json
                    .get("timeoutSeconds")
                    .and_then(Value::as_u64)
                    .unwrap_or(10),
            },
            conditions: conditions.collect(),
            is_ignored_on_failure: text("/failurePolicy") == "Ignore",
            is_called_again: text("/reinvocationPolicy") == "IfNeeded",
            json: json.clone(),
        }
    }
}

/// Where the real server would call.
fn url(json: &Value) -> String {
    let text = |pointer: &str| {
        let text = json.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    let stated = text("/clientConfig/url");
    if !stated.is_empty() {
        return stated.to_owned();
    }
    let port = json.pointer("/clientConfig/service/port");
    format!(
        "https://{}.{}.svc:{}{}",
        text("/clientConfig/service/name"),
        text("/clientConfig/service/namespace"),
        port.and_then(Value::as_u64).unwrap_or(443),
        text("/clientConfig/service/path"),
    )
}

/// The webhooks of a phase in the order in which they are asked.
pub(super) fn read(store: &Store, phase: Phase, asked: &Attributes<'_>) -> Vec<Hook> {
    // Nobody is asked about the configurations themselves.
    if asked.target.kind.nature == Nature::Webhooks {
        return Vec::new();
    }
    let plural = match phase {
        Phase::Mutating => "mutatingwebhookconfigurations",
        Phase::Validating => "validatingwebhookconfigurations",
    };
    let Some(kind) = store
        .kinds
        .find("admissionregistration.k8s.io", "v1", plural)
    else {
        return Vec::new();
    };
    let configurations = store.list(&kind.resource, "");
    configurations
        .flat_map(|(_, configuration)| {
            let name = object::name(configuration).to_owned();
            let hooks = configuration.get("webhooks").and_then(Value::as_array);
            let hooks = hooks.into_iter().flatten();
            hooks.map(move |json| Hook::read(phase, &name, json))
        })
        .collect()
}

/// What a webhook says.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) warnings: Vec<String>,
    /// The `status` of a denial.
    pub(super) denial: Option<Value>,
    /// A JSON patch, or null.
    pub(super) patch: Value,
}

/// Reads an AdmissionReview that came back; its uid has been compared already.
pub(super) fn verify(hook: &Hook, review: &Value) -> Result<Response, String> {
    let invalid = |why: &str| Err(format!("received invalid webhook response: {why}"));
    let Some(response) = review
        .get("response")
        .filter(|response| response.is_object())
    else {
        return invalid("webhook response was absent");
    };
    let text = |field: &str| response.get(field).and_then(Value::as_str);
    let patch = text("patch").filter(|patch| !patch.is_empty());
    let patch = match (hook.phase, patch, text("patchType")) {
        (Phase::Validating, Some(_), _) => {
            return invalid("validating webhook may not return response.patch");
        }
        (Phase::Validating, None, Some(_)) => {
            return invalid("validating webhook may not return response.patchType");
        }
        (_, None, None) => Value::Null,
        (_, Some(_), None) => {
            return invalid("webhook returned response.patch but not response.patchType");
        }
        (_, None, Some(_)) => {
            return invalid("webhook returned response.patchType but not response.patch");
        }
        (_, Some(patch), Some("JSONPatch")) => base64::engine::general_purpose::STANDARD
            .decode(patch)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or("received undecodable patch in webhook response")?,
        (_, Some(_), Some(other)) => return Err(format!("unsupported patch type {other:?}")),
    };
    let allowed = response.get("allowed").and_then(Value::as_bool) == Some(true);
    let warnings = strings(response.get("warnings"));
    Ok(Response {
        warnings: warnings.into_iter().map(str::to_owned).collect(),
        denial: (!allowed).then(|| response.get("status").cloned().unwrap_or_default()),
        patch,
    })
}

/// What is wrong with a configuration.
pub(crate) fn faults(configuration: &Value) -> Vec<FieldFault> {
    let mut found = Vec::new();
    let hooks = configuration.get("webhooks").and_then(Value::as_array);
    let mut names = Vec::new();
    for (index, hook) in hooks.into_iter().flatten().enumerate() {
        let at = format!("webhooks[{index}]");
        hook_faults(hook, &at, &mut found);
        let name = hook.get("name").cloned().unwrap_or_default();
        if names.contains(&name) {
            found.push(FieldFault::duplicate(format!("{at}.name"), &name));
        }
        names.push(name);
    }
    found
}

fn hook_faults(hook: &Value, at: &str, found: &mut Vec<FieldFault>) {
    let text = |field: &str| hook.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("name").split('.').count() < 3 {
        let rule = "should be a domain with at least three segments separated by dots";
        found.push(FieldFault::invalid(
            format!("{at}.name"),
            &text("name").into(),
            rule,
        ));
    }
    choice_faults(hook, at, found);
    let seconds = hook
        .get("timeoutSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(10);
    if !(1..=30).contains(&seconds) {
        let rule = "the timeout value must be between 1 and 30 seconds";
        found.push(FieldFault::invalid(
            format!("{at}.timeoutSeconds"),
            &seconds.into(),
            rule,
        ));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        selector_faults(&hook[field], &format!("{at}.{field}"), found);
    }
    address_faults(&hook["clientConfig"], &format!("{at}.clientConfig"), found);
    let conditions = hook.get("matchConditions").and_then(Value::as_array);
    for (index, condition) in conditions.into_iter().flatten().enumerate() {
        let path = format!("{at}.matchConditions[{index}].expression");
        let expression = condition.get("expression").cloned().unwrap_or_default();
        if let Err(error) = Condition::read(expression.as_str().unwrap_or_default()) {
            found.push(FieldFault::invalid(path, &expression, &error.to_string()));
        }
    }
    version_faults(hook, at, found);
}

/// Fields that have one of a few words.
fn choice_faults(hook: &Value, at: &str, found: &mut Vec<FieldFault>) {
    let text = |field: &str| hook.get(field).and_then(Value::as_str).unwrap_or_default();
    for (field, allowed) in [
        ("failurePolicy", &["Fail", "Ignore"][..]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
        ("sideEffects", &["None", "NoneOnDryRun"]),
    ] {
        let path = format!("{at}.{field}");
        if field == "sideEffects" && text(field).is_empty() {
            let detail = "must specify one of None, NoneOnDryRun";
            found.push(FieldFault::required(path, detail));
        } else if !text(field).is_empty() && !allowed.contains(&text(field)) {
            let allowed: Vec<_> = allowed
                .iter()
                .map(|allowed| Value::from(*allowed))
                .collect();
            found.push(FieldFault::not_supported(
                path,
                &text(field).into(),
                &allowed,
            ));
        }
    }
}

fn version_faults(hook: &Value, at: &str, found: &mut Vec<FieldFault>) {
    let versions = strings(hook.get("admissionReviewVersions"));
    let path = format!("{at}.admissionReviewVersions");
    if versions.is_empty() {
        found.push(FieldFault::required(
            path,
            "must specify one of v1, v1beta1",
        ));
    } else if !versions.contains(&"v1") {
        let stated = hook["admissionReviewVersions"].clone();
        found.push(FieldFault::invalid(
            path,
            &stated,
            "must include at least one of v1, v1beta1",
        ));
    }
}

fn address_faults(client: &Value, at: &str, found: &mut Vec<FieldFault>) {
    let url = client.get("url").and_then(Value::as_str);
    let service = client.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(_), Some(_)) | (None, None) => {
            found.push(FieldFault::required(
                at,
                "exactly one of url or service is required",
            ));
        }
        (Some(url), None) if !url.starts_with("https://") => {
            let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
            let rule = format!(
                "'https' is the only allowed URL scheme; desired format: https://host[/path], got scheme {scheme:?}"
            );
            found.push(FieldFault::invalid(format!("{at}.url"), &url.into(), &rule));
        }
        _ => {}
    }
}
