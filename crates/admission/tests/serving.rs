//! The webhook as a process of its own: what it says while it waits, when its watches break, and
//! how it ends.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot go on has failed, and says why"
)]

use std::{sync::Arc, time::Duration};

use causeway_admission::{Options, SECRET, Webhook, configuration::Places};
use causeway_api::{VirtualPrivateCloud, VirtualPrivateCloudSpec, apps_crds, crds};
use causeway_kubeapi::{Clock, KubeApi};
use causeway_planner::snapshot::{Moment, Settings};
use k8s_openapi::{
    api::core::v1::{Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const PATIENCE: Duration = Duration::from_mins(1);

async fn within(what: &str, such: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !such().await {
        assert!(Instant::now() < deadline, "not so: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn start(client: Client) -> Webhook {
    let options = Options {
        listen: ([127, 0, 0, 1], 0).into(),
        places: Places::default(),
        names: vec!["127.0.0.1".to_owned()],
        settings: Settings::default(),
        clock: Arc::new(|| {
            let now = std::time::SystemTime::now();
            let since = now
                .duration_since(std::time::UNIX_EPOCH)
                .expect("after 1970");
            Moment(i64::try_from(since.as_millis()).expect("not that late"))
        }),
    };
    Webhook::start(client, options).await.expect("it starts")
}

async fn define(client: &Client, definitions: Vec<CustomResourceDefinition>) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let made = api.create(&PostParams::default(), &definition).await;
        made.expect("the definition");
    }
}

async fn api() -> KubeApi {
    let api = KubeApi::new(Clock::machine()).expect("the API starts");
    let namespaces: Api<Namespace> = Api::all(api.client("admin"));
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(Places::default().namespace),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.expect("the namespace");
    api
}

/// Who has signed the webhook's certificate.
async fn authority(client: &Client) -> CertificateDer<'static> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &Places::default().namespace);
    let secret = secrets.get(SECRET).await.expect("the Secret");
    let data = secret.data.expect("data");
    CertificateDer::from_pem_slice(&data["ca.crt"].0).expect("PEM")
}

/// A connection on which a request can be sent by halves.
async fn connection(client: &Client, webhook: &Webhook) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(authority(client).await).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(webhook.address())
        .await
        .expect("a connection");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.expect("a handshake")
}

/// One request, as it is: kube's client would ask again after a 503.
async fn ask(client: &Client, webhook: &Webhook, head: &str, body: &str) -> (u16, String) {
    let mut connection = connection(client, webhook).await;
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: webhook\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    connection
        .write_all(request.as_bytes())
        .await
        .expect("sent");
    let mut answer = String::new();
    // Not every end of TLS is announced; what has come by then is what counts.
    let _ = connection.read_to_string(&mut answer).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).expect("a code");
    (code.parse().expect("a number"), body.to_owned())
}

fn review() -> String {
    let object = json!({
        "apiVersion": "apps.cozystack.io/v1alpha1", "kind": "VirtualPrivateCloud",
        "metadata": {"name": "main", "namespace": "tenant-a"}, "spec": {},
    });
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "name": "main", "namespace": "tenant-a",
            "kind": {"group": "apps.cozystack.io", "version": "v1alpha1", "kind": "VirtualPrivateCloud"},
            "object": object,
        },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_the_kinds_is_waited_for_and_readyz_says_which_are_missing() {
    let api = api().await;
    let client = api.client("admin");
    let webhook = start(client.clone()).await;
    let readyz = async || ask(&client, &webhook, "GET /readyz", "").await;
    let waits =
        |kind: &str| format!("the {kind} API is not installed; apply what `causeway crd` prints\n");
    within("zones are missing", async || {
        readyz().await == (503, waits("ProxmoxNetworkZone"))
    })
    .await;
    let (code, body) = ask(&client, &webhook, "POST /validate", &review()).await;
    let body: Value = serde_json::from_str(&body).expect("a review");
    assert_eq!((code, &body["response"]["allowed"]), (200, &json!(false)));
    let status = &body["response"]["status"];
    assert_eq!(status["code"], 503);
    let message = status["message"].as_str().expect("a message");
    assert!(
        message.starts_with("causeway cannot decide yet: the ProxmoxNetworkZone API"),
        "{message}"
    );

    define(&client, crds()).await;
    within("VPCs are missing", async || {
        readyz().await == (503, waits("VirtualPrivateCloud"))
    })
    .await;
    define(&client, apps_crds()).await;
    within("it is ready", async || {
        readyz().await == (200, "ok\n".to_owned())
    })
    .await;
    webhook.stop().await;
}

/// One thread, so that time can be turned on.
#[tokio::test]
async fn watches_that_have_been_broken_for_half_a_minute_make_it_unready_until_they_are_whole() {
    let api = api().await;
    define(&api.client("admin"), [crds(), apps_crds()].concat()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let server = api.serve(([127, 0, 0, 1], 0).into(), folder.path()).await;
    let server = server.expect("a server");
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let webhook = start(Client::try_from(config.expect("usable")).expect("a client")).await;
    within("it is ready", async || webhook.unready().is_none()).await;

    let address = server.address();
    server.stop().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(webhook.unready(), None, "half a minute is borne");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    let why = webhook.unready().expect("a reason");
    let words = "watches have been broken for more than 30 s: ProxmoxNetworkZone, ProxmoxNetwork, ";
    assert!(why.starts_with(words), "{why}");
    assert!(why.contains("VirtualPrivateCloud"), "{why}");

    let server = api.serve(address, folder.path()).await.expect("it is back");
    let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(api.client("admin"), "default");
    let vpc = VirtualPrivateCloud::new("meanwhile", VirtualPrivateCloudSpec::default());
    vpcs.create(&PostParams::default(), &vpc)
        .await
        .expect("a VPC");
    within("it is ready again", async || webhook.unready().is_none()).await;
    within("what came meanwhile is known", async || {
        webhook.with_snapshot(|snapshot| snapshot.vpcs.len()) == Some(1)
    })
    .await;
    webhook.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_that_is_under_way_is_answered_when_it_is_told_to_end() {
    let api = api().await;
    let client = api.client("admin");
    define(&client, [crds(), apps_crds()].concat()).await;
    let webhook = start(client.clone()).await;
    within("it is ready", async || webhook.unready().is_none()).await;
    let address = webhook.address();
    let mut connection = connection(&client, &webhook).await;
    let whole = review();
    let (first, second) = whole.split_at(whole.len() / 2);
    let length = whole.len();
    // Once the server asks for the body, the request is under way.
    let head = format!(
        "POST /validate HTTP/1.1\r\nhost: webhook\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.expect("sent");
    let mut asked = [0; 25];
    connection.read_exact(&mut asked).await.expect("an answer");
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write_all(first.as_bytes()).await.expect("sent");

    let ending = tokio::spawn(webhook.stop());
    within("nobody else gets in", async || {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    connection.write_all(second.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    // Not every end of TLS is announced; what has come by then is what counts.
    let _ = connection.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    ending.await.expect("it ends");
}
