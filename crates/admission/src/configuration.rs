//! The webhook configuration: what the API server asks causeway about.
//!
//! Generated for `deploy/webhook` and `causeway webhook --print-configuration`; its caBundle is
//! kept by [`publish_bundle`]. Must stay true: nothing else in the cluster depends on the
//! webhook (only kinds of our own are asked about, no subresources), and neither does what keeps
//! and removes networks (the users who do that are exempt here, not in code).

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MatchCondition, RuleWithOperations, ServiceReference, ValidatingWebhook,
        ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use causeway_api::keys;

/// Name of the configuration.
pub const NAME: &str = "causeway";

/// What is asked about writes by rules that tenants and administrators keep; kubectl prints it
/// before a refusal.
pub const RULES: &str = "rules.proxmox.cozystack.io";

/// What is asked about writes of what only causeway writes.
pub const GUARD: &str = "guard.proxmox.cozystack.io";

/// Seconds (design 9.3).
const TIMEOUT: i32 = 5;

/// Where things are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// causeway's namespace.
    pub namespace: String,
    /// Name of the webhook's Service there.
    pub service: String,
    /// Kube-OVN's namespace.
    pub kube_ovn_namespace: String,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            namespace: "causeway-system".to_owned(),
            service: "causeway-webhook".to_owned(),
            kube_ovn_namespace: "kube-system".to_owned(),
        }
    }
}

impl Places {
    /// The users who build, keep and remove networks: they are never asked about.
    fn exempt(&self) -> Vec<String> {
        let account =
            |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
        let mut exempt = vec![account(&self.namespace, "causeway-controller")];
        exempt.extend(["ovn", "kube-ovn-cni"].map(|name| account(&self.kube_ovn_namespace, name)));
        exempt.extend(
            ["generic-garbage-collector", "namespace-controller"]
                .map(|name| account("kube-system", name)),
        );
        // Where controllers have no accounts of their own.
        exempt.push("system:kube-controller-manager".to_owned());
        exempt
    }

    /// DNS names of the Service.
    pub fn names(&self) -> Vec<String> {
        let host = format!("{}.{}.svc", self.service, self.namespace);
        vec![format!("{host}.cluster.local"), host]
    }
}

/// The configuration, without a caBundle.
pub fn configuration(places: &Places) -> ValidatingWebhookConfiguration {
    let webhooks = vec![
        // Nothing is asked about deletes: a zone or VPC that is needed is held by its finalizer, and
        // removal goes on without the webhook.
        webhook(
            RULES,
            vec![
                rule(
                    "apps.cozystack.io",
                    "virtualprivateclouds",
                    "Namespaced",
                    &["CREATE", "UPDATE"],
                ),
                rule(
                    "proxmox.cozystack.io",
                    "proxmoxnetworkzones",
                    "Cluster",
                    &["CREATE", "UPDATE"],
                ),
            ],
            places,
        ),
        webhook(
            GUARD,
            vec![rule(
                "proxmox.cozystack.io",
                "proxmoxnetworks",
                "Namespaced",
                &["CREATE", "UPDATE", "DELETE"],
            )],
            places,
        ),
    ];
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some([(keys::MANAGED_BY.to_owned(), keys::MANAGER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        webhooks: Some(webhooks),
    }
}

fn rule(group: &str, plural: &str, scope: &str, operations: &[&str]) -> RuleWithOperations {
    let list = |one: &str| Some(vec![one.to_owned()]);
    RuleWithOperations {
        api_groups: list(group),
        api_versions: list("v1alpha1"),
        resources: list(plural),
        operations: Some(operations.iter().map(ToString::to_string).collect()),
        scope: Some(scope.to_owned()),
    }
}

fn webhook(name: &str, rules: Vec<RuleWithOperations>, places: &Places) -> ValidatingWebhook {
    let exempt: Vec<String> = places
        .exempt()
        .iter()
        .map(|user| format!("\"{user}\""))
        .collect();
    ValidatingWebhook {
        name: name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: WebhookClientConfig {
            service: Some(ServiceReference {
                namespace: places.namespace.clone(),
                name: places.service.clone(),
                path: Some("/validate".to_owned()),
                port: Some(443),
            }),
            ..WebhookClientConfig::default()
        },
        rules: Some(rules),
        failure_policy: Some("Fail".to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT),
        match_conditions: Some(vec![MatchCondition {
            name: "not-the-platform".to_owned(),
            expression: format!("!(request.userInfo.username in [{}])", exempt.join(", ")),
        }]),
        ..ValidatingWebhook::default()
    }
}

/// The configuration as a file.
///
/// # Errors
/// If it cannot be written as YAML.
pub fn to_yaml(places: &Places) -> Result<String, serde_saphyr::SerializeError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let body = serde_saphyr::to_string_with_options(&configuration(places), options)?;
    Ok(format!(
        "# Generated by `causeway webhook --print-configuration`; caBundle is written by the webhook itself.\n{}\n",
        body.trim_end()
    ))
}

/// Writes the bundle into every webhook of the configuration that has another one. Nothing is
/// written where there is no configuration.
///
/// # Errors
/// What the API answers.
pub async fn publish_bundle(client: &Client, bundle: &[u8]) -> Result<(), kube::Error> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let Some(found) = api.get_opt(NAME).await? else {
        return Ok(());
    };
    let bundle = ByteString(bundle.to_vec());
    let outdated: Vec<_> = found
        .webhooks
        .iter()
        .flatten()
        .filter(|webhook| webhook.client_config.ca_bundle.as_ref() != Some(&bundle))
        .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    if outdated.is_empty() {
        return Ok(());
    }
    let patch = json!({
        // Of a configuration that has changed meanwhile nothing is known.
        "metadata": {"resourceVersion": found.metadata.resource_version},
        "webhooks": outdated,
    });
    let params = PatchParams {
        field_manager: Some("causeway-webhook".to_owned()),
        ..PatchParams::default()
    };
    match api.patch(NAME, &params, &Patch::Strategic(patch)).await {
        Ok(_) => Ok(()),
        // Another replica has written it, or somebody has: the change wakes whoever keeps it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}
