//! How webhooks are asked: in this process if they are known by their address, else by HTTPS.
//!
//! Must stay true: a question ends within its `timeoutSeconds`.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::Engine;
use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::visit::{Answer, Question, Visit};
use crate::{Inner, KubeApi};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Reply = Pin<Box<dyn Future<Output = Result<Response<Bytes>, BoxError>> + Send>>;
type Service = Arc<dyn Fn(Request<Full<Bytes>>) -> Reply + Send + Sync>;

/// The webhooks of this process, by address.
#[derive(Default)]
pub(crate) struct Webhooks(Mutex<BTreeMap<String, Service>>);

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Webhooks")
    }
}

impl KubeApi {
    /// From now on `service` is what is at `url`: webhook configurations whose `clientConfig` leads
    /// there are asked without any socket. A configuration that names a Service `name` in
    /// `namespace` leads to `https://<name>.<namespace>.svc:<port><path>`.
    ///
    /// Nothing of TLS is checked on this way; a service that fails counts as one that cannot be
    /// reached.
    pub fn webhook<S, B>(&self, url: &str, service: S)
    where
        S: tower::Service<Request<Full<Bytes>>, Response = Response<B>>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let service: Service = Arc::new(move |request| {
            let service = service.clone();
            Box::pin(async move {
                let response = tower::ServiceExt::oneshot(service, request)
                    .await
                    .map_err(Into::into)?;
                let (parts, body) = response.into_parts();
                let body = body.collect().await.map_err(Into::into)?.to_bytes();
                Ok(Response::from_parts(parts, body))
            })
        });
        let mut all = self
            .inner
            .webhooks
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.insert(url.to_owned(), service);
    }

    /// Nothing of this process is at `url` any more.
    pub fn remove_webhook(&self, url: &str) {
        let mut all = self
            .inner
            .webhooks
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.remove(url);
    }
}

impl Inner {
    /// Puts the questions that a try came to; whether there were any, so that another try is due.
    pub(crate) async fn ask_webhooks(&self, visit: &Visit) -> bool {
        let open = visit.take_open();
        let asked = open.iter().map(|question| self.ask(question));
        let answers = join_all(asked).await;
        let any = !open.is_empty();
        for (question, answer) in open.into_iter().zip(answers) {
            visit.record(question, answer);
        }
        any
    }

    async fn ask(&self, question: &Question) -> Answer {
        let uid = self.clock.uid();
        let address = &question.address;
        let url = format!("{}?timeout={}s", address.url, address.seconds);
        let failed = |why: &str| Err(format!("failed to call webhook: {why}"));
        let body = Bytes::from(question.body(&uid).to_string());
        let request = Request::post(&url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .body(Full::new(body));
        let request = match request {
            Ok(request) => request,
            Err(error) => return failed(&error.to_string()),
        };
        let known = {
            let all = self
                .webhooks
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            all.get(&address.url).cloned()
        };
        let reply: Reply = match known {
            Some(service) => service(request),
            None => Box::pin(by_https(request, address.authority.clone())),
        };
        let limit = Duration::from_secs(address.seconds);
        match tokio::time::timeout(limit, reply).await {
            Err(_) => failed(&format!("Post {url:?}: context deadline exceeded")),
            Ok(Err(error)) => failed(&format!("Post {url:?}: {error}")),
            Ok(Ok(response)) => read(&response, &uid),
        }
    }
}

fn read(response: &Response<Bytes>, uid: &str) -> Answer {
    let text = String::from_utf8_lossy(response.body());
    if response.status() == StatusCode::NOT_FOUND {
        return Err(
            "failed to call webhook: the server could not find the requested resource".into(),
        );
    }
    if !response.status().is_success() {
        return Err(format!(
            "failed to call webhook: an error on the server ({:?}) has prevented the request from succeeding",
            text.trim()
        ));
    }
    let review: Value = serde_json::from_slice(response.body())
        .map_err(|error| format!("failed to call webhook: {error}"))?;
    let invalid = |why: String| Err(format!("received invalid webhook response: {why}"));
    let answered = review.pointer("/response/uid").and_then(Value::as_str);
    if let Some(answered) = answered.filter(|answered| *answered != uid) {
        return invalid(format!("expected response.uid={uid:?}, got {answered:?}"));
    }
    let stated = |field: &str| {
        review
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if (stated("apiVersion"), stated("kind")) != ("admission.k8s.io/v1", "AdmissionReview") {
        return invalid(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {}, Kind={}",
            stated("apiVersion"),
            stated("kind")
        ));
    }
    Ok(review)
}

/// Asks what listens at the address, which must show a certificate of the given authority.
async fn by_https(
    request: Request<Full<Bytes>>,
    authority: Vec<u8>,
) -> Result<Response<Bytes>, BoxError> {
    let (parts, body) = request.into_parts();
    let mut config = kube::Config::new(
        http::Uri::builder()
            .scheme(parts.uri.scheme_str().unwrap_or("https"))
            .authority(
                parts
                    .uri
                    .authority()
                    .map_or("", |authority| authority.as_str()),
            )
            .path_and_query("/")
            .build()?,
    );
    config.root_cert = Some(certificates(&authority));
    let client = kube::Client::try_from(config)?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let body = body.collect().await?.to_bytes();
    let mut request = Request::post(path).body(kube::client::Body::from(body))?;
    *request.headers_mut() = parts.headers;
    let response = client.send(request).await?;
    let (parts, body) = response.into_parts();
    Ok(Response::from_parts(
        parts,
        body.collect().await?.to_bytes(),
    ))
}

/// The certificates of a PEM bundle, as DER.
fn certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(pem);
    text.split("-----BEGIN CERTIFICATE-----")
        .skip(1)
        .filter_map(|part| part.split_once("-----END").map(|(inside, _)| inside))
        .map(|inside| inside.split_whitespace().collect::<String>())
        .filter_map(|inside| {
            base64::engine::general_purpose::STANDARD
                .decode(inside)
                .ok()
        })
        .collect()
}
