//! A webhook of a case's own: in this process for the stand-in, by HTTPS on loopback for a real
//! server.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::{
    Api, Error,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio_rustls::{TlsAcceptor, rustls};

use super::bench::{Bench, object};

/// What a webhook does with a question.
pub enum Does {
    /// Answers with this `response`; the uid is added if it states none.
    Answer(Value),
    /// Answers with this status and text.
    Fail(u16, &'static str),
    /// Never answers.
    Nothing,
}

/// Lets everything through.
pub fn allow() -> Does {
    Does::Answer(json!({"allowed": true}))
}

/// Changes the object.
pub fn patch(operations: Value) -> Does {
    Does::Answer(json!({
        "allowed": true, "patchType": "JSONPatch", "patch": base64(operations.to_string().as_bytes()),
    }))
}

pub fn base64(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()))
        .expect("text")
        .as_str()
        .expect("text")
        .to_owned()
}

type Behaviour = Arc<dyn Fn(&Value) -> Does + Send + Sync>;

/// The webhooks of one case, by path.
#[derive(Clone, Default)]
struct Paths(Arc<Mutex<BTreeMap<String, Path>>>);

/// What it does, and what it has been asked.
type Path = (Behaviour, Vec<Value>);

impl Paths {
    async fn serve<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: http_body::Body,
        B::Error: std::fmt::Debug,
    {
        let path = request.uri().path().to_owned();
        let body = request
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        let review: Value = serde_json::from_slice(&body).expect("a review");
        let does = {
            let mut all = self.0.lock().expect("no panic");
            let (behaviour, seen) = all.get_mut(&path).expect("a known path");
            seen.push(review["request"].clone());
            Arc::clone(behaviour)(&review["request"])
        };
        match does {
            Does::Answer(mut response) => {
                if response.is_object() && response.get("uid").is_none() {
                    response["uid"] = review["request"]["uid"].clone();
                }
                let answer = json!({
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
                });
                Response::builder()
                    .header("content-type", "application/json")
                    .body(Full::from(answer.to_string()))
                    .expect("a response")
            }
            Does::Fail(code, text) => Response::builder()
                .status(code)
                .body(Full::from(text))
                .expect("a response"),
            Does::Nothing => std::future::pending().await,
        }
    }
}

/// The webhooks of one case.
pub struct Hooks {
    paths: Paths,
    root: String,
    bundle: String,
    server: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Hooks {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

impl Hooks {
    /// In this process for the stand-in, else by HTTPS.
    pub async fn new(bench: &Bench) -> Self {
        if bench.stand_in.is_some() {
            return Self {
                paths: Paths::default(),
                root: "https://hooks.case.svc:443".into(),
                bundle: String::new(),
                server: None,
            };
        }
        Self::by_https().await
    }

    /// By HTTPS with a certificate of an authority of its own.
    pub async fn by_https() -> Self {
        let made =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let bundle = base64(made.cert.pem().as_bytes());
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der())
            .expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a configuration");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let root = format!("https://{}", listener.local_addr().expect("an address"));
        let paths = Paths::default();
        let known = paths.clone();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, known) = (acceptor.clone(), known.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = hyper_util::service::TowerToHyperService::new(tower::service_fn(
                        move |request| {
                            let known = known.clone();
                            async move { Ok::<_, Infallible>(known.serve(request).await) }
                        },
                    ));
                    // A client that goes away in the middle is none of the case's business.
                    let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            paths,
            root,
            bundle,
            server: Some(server),
        }
    }

    /// Serves a webhook at a path and returns its `clientConfig`.
    pub fn serve(
        &self,
        bench: &Bench,
        path: &str,
        behaviour: impl Fn(&Value) -> Does + Send + Sync + 'static,
    ) -> Value {
        let mut all = self.paths.0.lock().expect("no panic");
        all.insert(path.to_owned(), (Arc::new(behaviour), Vec::new()));
        drop(all);
        let url = format!("{}{path}", self.root);
        if let (Some(api), None) = (&bench.stand_in, &self.server) {
            let paths = self.paths.clone();
            api.webhook(
                &url,
                tower::service_fn(move |request: Request<Full<Bytes>>| {
                    let paths = paths.clone();
                    async move { Ok::<_, Infallible>(paths.serve(request).await) }
                }),
            );
        }
        let mut config = json!({"url": url});
        if !self.bundle.is_empty() {
            config["caBundle"] = self.bundle.clone().into();
        }
        config
    }

    /// The questions put at a path so far; forgets them.
    pub fn seen(&self, path: &str) -> Vec<Value> {
        let mut all = self.paths.0.lock().expect("no panic");
        let (_, seen) = all.get_mut(path).expect("a known path");
        let mut seen = std::mem::take(seen);
        // A real server whose cache is behind asks again with what is stored.
        seen.dedup_by_key(|request| {
            let object = &request["object"];
            let part = |value: &Value| value.clone();
            (
                part(&request["operation"]),
                part(&request["oldObject"]["metadata"]["name"]),
                part(&object["spec"]),
                part(&object["metadata"]["labels"]),
            )
        });
        seen
    }
}

/// A configuration's kind.
#[derive(Clone, Copy)]
pub enum Phase {
    Mutating,
    Validating,
}

impl Phase {
    pub fn api(self, bench: &Bench) -> Api<DynamicObject> {
        let (kind, plural) = match self {
            Self::Mutating => (
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
            ),
            Self::Validating => (
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            ),
        };
        Api::all_with(
            bench.client.clone(),
            &ApiResource {
                group: "admissionregistration.k8s.io".into(),
                version: "v1".into(),
                api_version: "admissionregistration.k8s.io/v1".into(),
                kind: kind.into(),
                plural: plural.into(),
            },
        )
    }

    pub fn object(self, name: &str, hooks: &Value) -> DynamicObject {
        let kind = match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        };
        object(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}, "webhooks": hooks,
        }))
    }
}

/// A webhook that is asked about all that is done to widgets of the case, changed by `rest`.
pub fn webhook(bench: &Bench, name: &str, client: &Value, rest: Value) -> Value {
    let mut hook = json!({
        "name": format!("{name}.conformance.causeway.dev"),
        "clientConfig": client,
        "rules": [{
            "apiGroups": ["conformance.causeway.dev"], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["widgets"],
        }],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bench.namespace}},
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
    });
    json_patch::merge(&mut hook, &rest);
    hook
}

/// Stores a configuration and waits until it is in force.
pub async fn configure(bench: &Bench, hooks: &Hooks, phase: Phase, name: &str, list: Vec<Value>) {
    let path = format!("/ready/{name}");
    let client = hooks.serve(bench, &path, |_| allow());
    let full = format!("{}-{name}", bench.namespace);
    let selector = json!({
        "objectSelector": {"matchLabels": {"probe": full}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    });
    let mut all = vec![webhook(bench, "ready", &client, selector)];
    all.extend(list);
    phase
        .api(bench)
        .create(&PostParams::default(), &phase.object(&full, &json!(all)))
        .await
        .expect("the configuration");
    let mut probe = Bench::widget("probe", &json!({}));
    probe.metadata.labels = Some([("probe".to_owned(), full)].into());
    let elsewhere: Api<DynamicObject> = Api::namespaced_with(
        bench.client.clone(),
        "default",
        &super::bench::widget_resource(),
    );
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    tokio::time::timeout(Duration::from_secs(30), async {
        while hooks.seen(&path).is_empty() {
            elsewhere.create(&dry, &probe).await.expect("nobody minds");
        }
    })
    .await
    .expect("the configuration is in force in time");
}

/// A case with one webhook that is asked about its widgets.
pub async fn asked(
    phase: Phase,
    rest: Value,
    behaviour: impl Fn(&Value) -> Does + Send + Sync + 'static,
) -> (Bench, Hooks) {
    let bench = Bench::new().await;
    let hooks = Hooks::new(&bench).await;
    let client = hooks.serve(&bench, "/hook", behaviour);
    let hook = webhook(&bench, "hook", &client, rest);
    configure(&bench, &hooks, phase, "one", vec![hook]).await;
    (bench, hooks)
}

/// Makes a widget, which must work.
pub async fn make(bench: &Bench, name: &str) -> Result<DynamicObject, Error> {
    let widget = Bench::widget(name, &json!({"size": 1}));
    bench.widgets.create(&PostParams::default(), &widget).await
}

/// Changes a widget's size.
pub async fn resize(bench: &Bench, name: &str, size: i64) -> Result<DynamicObject, Error> {
    let patch = json!({"spec": {"size": size}});
    bench
        .widgets
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
}
