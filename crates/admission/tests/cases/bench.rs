//! What every case starts from: an API with causeway's kinds, the shipped configuration, and the
//! webhook beside it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

use causeway_admission::{Options, SECRET, Webhook, configuration};
use causeway_api::{ProxmoxNetworkZone, VirtualPrivateCloud, apps_crds, crds};
use causeway_kubeapi::{Clock, KubeApi};
use causeway_planner::snapshot::{Moment, Settings, Snapshot};
use http::{Request, header};
use http_body_util::BodyExt;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams},
    client::Body,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

/// Longest wait for what takes milliseconds.
pub const PATIENCE: Duration = Duration::from_mins(1);

static TURN: Mutex<()> = Mutex::const_new(());

/// Where a case works.
pub struct Bench {
    pub client: Client,
    api: Against,
    clock: Arc<AtomicI64>,
    webhook: Option<Webhook>,
    _turn: MutexGuard<'static, ()>,
}

enum Against {
    StandIn(KubeApi),
    Real(Box<kube::Config>),
}

/// An answer of the API.
#[derive(Debug)]
pub struct Written {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Written {
    /// What a refusal says.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.expect("after 1970").as_millis()).expect("not that late")
}

impl Bench {
    /// With a webhook that answers.
    pub async fn new() -> Self {
        let mut bench = Self::without_webhook().await;
        bench.start(now()).await;
        bench
    }

    /// With the configuration, and nobody at its other end.
    pub async fn without_webhook() -> Self {
        let turn = TURN.lock().await;
        let (api, client) = if let Ok(url) = std::env::var("CAUSEWAY_KUBEAPI_URL") {
            let config = kube::Config::new(url.parse().expect("a URL"));
            let client = Client::try_from(config.clone()).expect("a client");
            (Against::Real(Box::new(config)), client)
        } else {
            let api = KubeApi::new(Clock::machine()).expect("the API starts");
            let client = api.client("admin");
            (Against::StandIn(api), client)
        };
        let bench = Self {
            client,
            api,
            clock: Arc::new(AtomicI64::new(now())),
            webhook: None,
            _turn: turn,
        };
        bench.make_world().await;
        bench
    }

    /// causeway's kinds and namespace, and nothing of an earlier case.
    async fn make_world(&self) {
        let hooks: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let gone = hooks
            .delete(configuration::NAME, &DeleteParams::default())
            .await;
        assert!(gone.is_ok() || is_absent(&gone), "{gone:?}");
        for definition in crds().into_iter().chain(apps_crds()) {
            let answer = self.apply(&json!(definition)).await;
            assert!(answer.code < 300, "{answer:?}");
        }
        for path in [path_of_zones(), path_of_vpcs(""), path_of_networks("")] {
            within("a kind that is served", async || {
                let request = Request::get(&path).body(Body::empty());
                self.send(request.expect("a request")).await.code == 200
            })
            .await;
        }
        let namespace = configuration::Places::default().namespace;
        self.namespace(&namespace, &json!({})).await;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        let gone = secrets.delete(SECRET, &DeleteParams::default()).await;
        assert!(gone.is_ok() || is_absent(&gone), "{gone:?}");
        self.clear().await;
    }

    /// Starts the webhook at this time, and waits until it can be asked.
    pub async fn start(&mut self, at: i64) {
        self.clock.store(at, Ordering::SeqCst);
        let webhook = self.another().await;
        self.configure(&format!("https://{}/validate", webhook.address()))
            .await;
        webhook.keep_certificates().await.expect("a caBundle");
        within("the webhook is ready", async || webhook.unready().is_none()).await;
        self.webhook = Some(webhook);
        self.until_asked().await;
    }

    /// Another replica.
    pub async fn another(&self) -> Webhook {
        let clock = Arc::clone(&self.clock);
        let options = Options {
            listen: ([127, 0, 0, 1], 0).into(),
            places: configuration::Places::default(),
            names: vec!["127.0.0.1".to_owned()],
            settings: Settings::default(),
            clock: Arc::new(move || Moment(clock.load(Ordering::SeqCst))),
        };
        Webhook::start(self.client.clone(), options)
            .await
            .expect("the webhook starts")
    }

    /// The shipped configuration, led to `url` instead of a Service: there is no network of
    /// Services here.
    pub async fn configure(&self, url: &str) {
        let mut shipped = json!(configuration::configuration(
            &configuration::Places::default()
        ));
        for webhook in shipped["webhooks"].as_array_mut().expect("webhooks") {
            webhook["clientConfig"] = json!({"url": url});
        }
        let answer = self.apply(&shipped).await;
        assert!(answer.code < 300, "{answer:?}");
    }

    /// The API server learns of a configuration some time after it was written.
    async fn until_asked(&self) {
        self.namespace("tenant-first", &json!({})).await;
        let broken = vpc(
            "tenant-first",
            "first",
            json!({"peers": [
                {"tenantNamespace": "tenant-first", "vpcName": "first"},
            ]}),
        );
        within("the webhook is asked", async || {
            let answer = self.try_create(&self.client, &broken).await;
            answer.code == 403
        })
        .await;
    }

    pub fn webhook(&self) -> &Webhook {
        self.webhook.as_ref().expect("a webhook")
    }

    pub fn take_webhook(&mut self) -> Webhook {
        self.webhook.take().expect("a webhook")
    }

    pub fn set_clock(&self, now: i64) {
        self.clock.store(now, Ordering::SeqCst);
    }

    /// A client of somebody else, who may do everything.
    pub fn client_of(&self, user: &str) -> Client {
        match &self.api {
            Against::StandIn(api) => api.client(user),
            Against::Real(config) => {
                let mut config = kube::Config::clone(config);
                config.auth_info.impersonate = Some(user.to_owned());
                config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
                Client::try_from(config).expect("a client")
            }
        }
    }

    /// Whether a refusal is only for addresses that a real cluster uses itself; the stand-in has no
    /// Services.
    pub fn is_of_the_site(&self, said: &BTreeSet<String>) -> bool {
        let services = "the cluster's ServiceCIDR \"kubernetes\"; choose another CIDR";
        matches!(self.api, Against::Real(_)) && said.iter().all(|line| line.ends_with(services))
    }

    /// Until what the webhook has seen is so.
    pub async fn until(&self, what: &str, such: impl Fn(&Snapshot) -> bool) {
        within(what, async || {
            self.webhook().with_snapshot(&such).is_some_and(|such| such)
        })
        .await;
    }

    pub async fn send(&self, request: Request<Body>) -> Written {
        send(&self.client, request).await
    }

    async fn apply(&self, object: &Value) -> Written {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let path = format!("{}/{name}?fieldManager=case&force=true", collection(object));
        let request = Request::patch(path)
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
            .body(Body::from(stated(object).to_string().into_bytes()));
        self.send(request.expect("a request")).await
    }

    /// The namespace with exactly these labels.
    pub async fn namespace(&self, name: &str, labels: &Value) {
        let answer = self.try_namespace(name, labels).await;
        assert!(answer.code < 300, "{name}: {answer:?}");
    }

    /// The same for a name that may be none.
    pub async fn try_namespace(&self, name: &str, labels: &Value) -> Written {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
        });
        self.apply(&object).await
    }

    /// Creates an object as somebody, and as a dry run.
    pub async fn try_create(&self, client: &Client, object: &Value) -> Written {
        create(client, object, "?dryRun=All").await
    }

    pub async fn create(&self, object: &Value) -> Written {
        create(&self.client, object, "").await
    }

    pub async fn create_as(&self, user: &str, object: &Value) -> Written {
        create(&self.client_of(user), object, "").await
    }

    /// Merges a patch into the object at a path.
    pub async fn merge(&self, client: &Client, path: &str, change: &Value) -> Written {
        let request = Request::patch(path)
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(change.to_string().into_bytes()));
        send(client, request.expect("a request")).await
    }

    pub async fn delete(&self, client: &Client, path: &str) -> Written {
        let request = Request::delete(path).body(Body::empty());
        send(client, request.expect("a request")).await
    }

    /// No zones and VPCs are left. No controller runs that would hold them.
    pub async fn clear(&self) {
        let zones: Api<ProxmoxNetworkZone> = Api::all(self.client.clone());
        for zone in zones.list(&ListParams::default()).await.expect("a list") {
            let deleted = zones
                .delete(&zone.name_any(), &DeleteParams::default())
                .await;
            deleted.expect("deleted");
        }
        let vpcs: Api<VirtualPrivateCloud> = Api::all(self.client.clone());
        for vpc in vpcs.list(&ListParams::default()).await.expect("a list") {
            let namespace = vpc.namespace().expect("a namespace");
            let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(self.client.clone(), &namespace);
            let deleted = vpcs.delete(&vpc.name_any(), &DeleteParams::default()).await;
            deleted.expect("deleted");
        }
        let gone = |snapshot: &Snapshot| snapshot.zones.is_empty() && snapshot.vpcs.is_empty();
        if self.webhook.is_some() {
            self.until("all is gone", gone).await;
        }
    }

    pub async fn published(&self) -> ValidatingWebhookConfiguration {
        let hooks: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        hooks.get(configuration::NAME).await.expect("it is there")
    }
}

fn is_absent<T>(result: &Result<T, kube::Error>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 404)
}

/// Waits for a condition that takes a moment.
pub async fn within(what: &str, such: impl AsyncFn() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !such().await {
        assert!(tokio::time::Instant::now() < deadline, "not so: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Without what the type writes as null.
fn stated(object: &Value) -> Value {
    match object {
        Value::Object(fields) => {
            let stated = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                stated
                    .map(|(key, value)| (key.clone(), stated_value(value)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

fn stated_value(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(stated).collect(),
        other => stated(other),
    }
}

pub fn path_of_zones() -> String {
    "/apis/proxmox.cozystack.io/v1alpha1/proxmoxnetworkzones".to_owned()
}

/// Of a namespace, or of all.
pub fn path_of_vpcs(namespace: &str) -> String {
    namespaced("apps.cozystack.io", namespace, "virtualprivateclouds")
}

/// Of a namespace, or of all.
pub fn path_of_networks(namespace: &str) -> String {
    namespaced("proxmox.cozystack.io", namespace, "proxmoxnetworks")
}

fn namespaced(group: &str, namespace: &str, plural: &str) -> String {
    if namespace.is_empty() {
        format!("/apis/{group}/v1alpha1/{plural}")
    } else {
        format!("/apis/{group}/v1alpha1/namespaces/{namespace}/{plural}")
    }
}

/// Where objects of this one's kind are.
pub fn collection(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    match object["kind"].as_str().expect("a kind") {
        "ProxmoxNetworkZone" => path_of_zones(),
        "VirtualPrivateCloud" => path_of_vpcs(namespace),
        "ProxmoxNetwork" => path_of_networks(namespace),
        "Namespace" => "/api/v1/namespaces".to_owned(),
        "CustomResourceDefinition" => {
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned()
        }
        "ValidatingWebhookConfiguration" => {
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".to_owned()
        }
        other => panic!("unexpected kind {other}"),
    }
}

async fn create(client: &Client, object: &Value, query: &str) -> Written {
    let request = Request::post(format!("{}{query}", collection(object)))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(object.to_string().into_bytes()));
    send(client, request.expect("a request")).await
}

pub async fn send(client: &Client, request: Request<Body>) -> Written {
    let answer = client.send(request).await.expect("an answer");
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let warnings = parts.headers.get_all(header::WARNING).iter();
    Written {
        code: parts.status.as_u16(),
        body: serde_json::from_slice(&body)
            .unwrap_or_else(|_| json!({"message": String::from_utf8_lossy(&body)})),
        warnings: warnings
            .map(|value| text_of_warning(value.to_str().expect("ASCII")))
            .collect(),
    }
}

/// `299 - "text"`.
fn text_of_warning(header: &str) -> String {
    let text = header.split_once('"').map_or("", |(_, text)| text);
    let text = text.strip_suffix('"').unwrap_or(text);
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

pub fn vpc(namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "apps.cozystack.io/v1alpha1", "kind": "VirtualPrivateCloud",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

pub fn zone(name: &str, bridge: &str, wire: &str) -> Value {
    json!({
        "apiVersion": "proxmox.cozystack.io/v1alpha1", "kind": "ProxmoxNetworkZone",
        "metadata": {"name": name},
        "spec": {
            "bridge": bridge, "wire": wire, "vlans": {"ranges": ["200-299"]},
            "trunk": {"interface": "eth1"},
        },
    })
}
