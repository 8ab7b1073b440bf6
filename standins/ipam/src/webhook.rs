//! The provider's validating webhook.
//!
//! Given by [`webhook`](crate::webhook()) to whoever serves the API, who asks it about each pool that is
//! written or deleted. Must stay true: it decides by the question and by the addresses given out,
//! never by what the stand-in itself remembers, so it answers whether or not the stand-in runs.

use std::{convert::Infallible, future::Future, pin::Pin};

use bytes::Bytes;
use causeway_api::ipam::{IPAddress, InClusterIPPool};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use k8s_openapi::{
    api::admissionregistration::v1::{
        RuleWithOperations, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    checks::{Wrong, check},
    pool::{PoolError, gave, in_use, to_give},
    ranges::Ranges,
};

/// On a pool, deletion is not looked at.
const SKIP: &str = "ipam.cluster.x-k8s.io/skip-validate-delete-webhook";

/// The question.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    request: Question,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    uid: String,
    operation: String,
    object: Option<InClusterIPPool>,
    old_object: Option<InClusterIPPool>,
}

/// Why not.
enum Refusal {
    Spec(String, Vec<Wrong>),
    InUse(&'static str, Ranges),
    Unknown(String),
}

impl From<PoolError> for Refusal {
    fn from(error: PoolError) -> Self {
        Self::Unknown(error.to_string())
    }
}

impl Refusal {
    fn status(self) -> Value {
        match self {
            Self::Spec(name, all) => invalid(&name, &all),
            Self::InUse(words, ranges) => {
                let message = if ranges.is_empty() {
                    words.to_owned()
                } else {
                    format!("{words}{ranges}")
                };
                json!({"status": "Failure", "message": message, "reason": "BadRequest", "code": 400})
            }
            Self::Unknown(why) => json!({
                "status": "Failure", "reason": "InternalError", "code": 500,
                "message": format!("Internal error occurred: {why}"),
                "details": {"causes": [{"message": why}]},
            }),
        }
    }
}

fn invalid(name: &str, all: &[Wrong]) -> Value {
    let mut texts: Vec<String> = Vec::new();
    for wrong in all {
        let text = format!("{}: {}", wrong.field, wrong.message);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let told = match &texts[..] {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    let causes: Vec<Value> = all
        .iter()
        .map(|wrong| {
            json!({"reason": "FieldValueInvalid", "message": wrong.message, "field": wrong.field})
        })
        .collect();
    json!({
        "status": "Failure", "reason": "Invalid", "code": 422,
        "message": format!("InClusterIPPool.ipam.cluster.x-k8s.io {name:?} is invalid: {told}"),
        "details": {
            "group": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": name,
            "causes": causes,
        },
    })
}

/// The webhook as a service.
#[derive(Clone)]
pub(crate) struct Webhook {
    pub(crate) client: Client,
}

impl Webhook {
    pub(crate) async fn answer(&self, body: &[u8]) -> Response<Full<Bytes>> {
        let review: Review = match serde_json::from_slice(body) {
            Ok(review) => review,
            Err(error) => {
                let mut response = Response::new(Full::from(error.to_string()));
                *response.status_mut() = StatusCode::BAD_REQUEST;
                return response;
            }
        };
        let uid = review.request.uid.clone();
        let response = match self.decide(review.request).await {
            Ok(()) => json!({"uid": uid, "allowed": true}),
            Err(refusal) => json!({"uid": uid, "allowed": false, "status": refusal.status()}),
        };
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        Response::new(Full::from(answer.to_string()))
    }

    async fn decide(&self, question: Question) -> Result<(), Refusal> {
        if let Some(pool) = &question.object {
            let wrong = check(&pool.spec);
            if !wrong.is_empty() {
                let name = pool.metadata.name.clone().unwrap_or_default();
                return Err(Refusal::Spec(name, wrong));
            }
        }
        let Some(old) = &question.old_object else {
            return Ok(());
        };
        match (question.operation.as_str(), &question.object) {
            ("DELETE", _) if old.annotations().contains_key(SKIP) => Ok(()),
            ("DELETE", _) if self.given(old).await?.is_empty() => Ok(()),
            ("DELETE", _) => Err(Refusal::InUse(
                "Pool has IPAddresses allocated. Cannot delete Pool until all IPAddresses have been removed.",
                Ranges::default(),
            )),
            (_, Some(new)) => {
                let outside = in_use(&self.given(old).await?).without(&to_give(&new.spec)?);
                if outside.is_empty() {
                    return Ok(());
                }
                let words = "pool addresses do not contain allocated addresses: ";
                Err(Refusal::InUse(words, outside))
            }
            (_, None) => Ok(()),
        }
    }

    /// The addresses of the pool that are given out.
    async fn given(&self, pool: &InClusterIPPool) -> Result<Vec<IPAddress>, Refusal> {
        let namespace = pool.namespace().unwrap_or_default();
        let api: Api<IPAddress> = Api::namespaced(self.client.clone(), &namespace);
        let listed = api.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| Refusal::Unknown(error.to_string()))?;
        let given = listed.into_iter().filter(|address| gave(pool, address));
        Ok(given.collect())
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>>;

impl tower::Service<Request<Full<Bytes>>> for Webhook {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Answer {
        let webhook = self.clone();
        Box::pin(async move {
            let body = request.into_body().collect().await?.to_bytes();
            Ok(webhook.answer(&body).await)
        })
    }
}

/// The configuration that has it asked, at this URL.
pub(crate) fn configuration(url: &str) -> ValidatingWebhookConfiguration {
    let some = |texts: &[&str]| Some(texts.iter().map(ToString::to_string).collect());
    let rule = RuleWithOperations {
        api_groups: some(&["ipam.cluster.x-k8s.io"]),
        api_versions: some(&["v1alpha2"]),
        operations: some(&["CREATE", "UPDATE", "DELETE"]),
        resources: some(&["inclusterippools"]),
        scope: None,
    };
    let hook = ValidatingWebhook {
        name: "validation.inclusterippool.ipam.cluster.x-k8s.io".to_owned(),
        client_config: WebhookClientConfig {
            url: Some(url.to_owned()),
            ..WebhookClientConfig::default()
        },
        rules: Some(vec![rule]),
        failure_policy: Some("Fail".to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        side_effects: "None".to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        ..ValidatingWebhook::default()
    };
    let name = "capi-ipam-in-cluster-validating-webhook-configuration";
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        webhooks: Some(vec![hook]),
    }
}
