//! `causeway webhook` as a process beside an API server.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot go on has failed, and says why"
)]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use causeway_api::VirtualPrivateCloud;
use causeway_kubeapi::{Clock, KubeApi};
use k8s_openapi::{
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Client, api::PostParams};
use serde_json::{Value, json};

fn causeway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(arguments);
    command
}

#[test]
fn it_prints_the_committed_configuration() {
    let output = causeway(&["webhook", "--print-configuration"]).output();
    let output = output.expect("the command runs");
    assert!(output.status.success());
    let path = "../../deploy/webhook/validatingwebhookconfiguration.yaml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let committed = std::fs::read_to_string(path).expect("the file");
    assert_eq!(String::from_utf8(output.stdout).expect("text"), committed);
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    let arguments = [
        "webhook",
        "--kubeconfig",
        "nowhere",
        "--listen",
        "127.0.0.1:0",
    ];
    let output = causeway(&arguments).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).expect("text");
    assert!(
        errors.starts_with("error: cannot use nowhere: "),
        "{errors}"
    );
}

async fn create<K>(client: &Client, namespace: Option<&str>, object: Value) -> kube::Result<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(object).expect("an object");
    let path = K::url_path(&(), namespace);
    let request = kube::core::Request::new(path).create(
        &PostParams::default(),
        serde_json::to_vec(&object).expect("JSON"),
    );
    client.request(request.expect("a request")).await
}

/// The process, and where it says that it listens.
fn started(kubeconfig: &Path) -> (Child, String) {
    let kubeconfig = kubeconfig.display().to_string();
    let mut child = causeway(&[
        "webhook",
        "--kubeconfig",
        &kubeconfig,
        "--listen",
        "127.0.0.1:0",
        "--also-for",
        "127.0.0.1",
    ])
    .stdout(Stdio::piped())
    .spawn()
    .expect("the command runs");
    let mut line = String::new();
    let out = child.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("causeway webhook listens on ");
    let address = address.expect("where it listens").to_owned();
    (child, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_reviews_until_it_is_told_to_end() {
    let api = KubeApi::new(Clock::machine()).expect("the API starts");
    let client = api.client("admin");
    for definition in [causeway_api::crds(), causeway_api::apps_crds()].concat() {
        let made = create::<CustomResourceDefinition>(&client, None, json!(definition)).await;
        made.expect("the definition");
    }
    for name in ["causeway-system", "tenant-a"] {
        let made = create::<Namespace>(&client, None, json!({"metadata": {"name": name}})).await;
        made.expect("the namespace");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let address = ([127, 0, 0, 1], 0).into();
    let server = api.serve(address, folder.path()).await.expect("a server");
    let (mut child, address) = started(server.kubeconfig());

    let places = causeway_admission::configuration::Places::default();
    let mut shipped = json!(causeway_admission::configuration::configuration(&places));
    for webhook in shipped["webhooks"].as_array_mut().expect("webhooks") {
        webhook["clientConfig"] = json!({"url": format!("https://{address}/validate")});
    }
    let made = create::<ValidatingWebhookConfiguration>(&client, None, shipped).await;
    made.expect("the configuration");
    // Until it has seen the configuration and its watches are synced, writes fail.
    let peer = json!({"peers": [{"tenantNamespace": "tenant-a", "vpcName": "main"}]});
    let vpc =
        |spec: Value| json!({"metadata": {"name": "main", "namespace": "tenant-a"}, "spec": spec});
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    let refused = loop {
        let answer = create::<VirtualPrivateCloud>(&client, Some("tenant-a"), vpc(peer.clone()));
        match answer.await {
            Err(kube::Error::Api(status)) if status.code == 403 => break status.message,
            other => assert!(tokio::time::Instant::now() < deadline, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let words =
        "admission webhook \"rules.proxmox.cozystack.io\" denied the request: spec.peers[0]";
    assert!(refused.starts_with(words), "{refused}");
    let made = create::<VirtualPrivateCloud>(&client, Some("tenant-a"), vpc(json!({}))).await;
    made.expect("a legal one");

    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let told = rustix::process::kill_process(pid.expect("a pid"), rustix::process::Signal::TERM);
    told.expect("a signal");
    let status = tokio::task::spawn_blocking(move || child.wait()).await;
    let status = status.expect("no panic").expect("a status");
    assert_eq!(status.code(), Some(0));
    server.stop().await;
}
