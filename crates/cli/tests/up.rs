//! `causeway up` and `down` from outside: used by its kubeconfig, ended, killed, started again.
//!
//! Needs root, like every site. Each test has a state of its own, and so a site of its own.

#![cfg(feature = "embedded")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed, and says why"
)]

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Output};

use causeway_lab::{
    State,
    embedded::apply_documents,
    up::{Up, client, traces},
};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{ConfigMap, Node},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

const CAUSEWAY: &str = env!("CARGO_BIN_EXE_causeway");

/// A state that is not there yet. Nothing of it stays, however the test ends.
struct Place {
    state: State,
    _folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            state: State::at(&folder.path().join("state")).expect("a path"),
            _folder: folder,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = self.state.end() {
            eprintln!("{}: {error}", self.state.dir().display());
        }
    }
}

fn start(state: &State) -> Up {
    Up::start(Path::new(CAUSEWAY), state).expect("started")
}

/// The command, run to its end.
fn causeway(words: &[&str], state: &State) -> Output {
    let mut command = std::process::Command::new(CAUSEWAY);
    command.args(words).arg("--state").arg(state.dir());
    command.output().expect("the command runs")
}

/// What `down` says.
fn down(state: &State, more: &[&str]) -> String {
    let words: Vec<&str> = ["down"].iter().chain(more).copied().collect();
    let output = causeway(&words, state);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn assert_nothing_is_left(state: &State) {
    let left = traces(state).expect("the machine can be looked at");
    assert!(left.is_empty(), "{left:?}");
}

/// Names of what is in the directory.
fn names(state: &State) -> Vec<String> {
    let entries = fs::read_dir(state.dir()).expect("it is there");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Whoever writes nodes or definitions must ask somebody who is not there.
fn gone_webhook() -> ValidatingWebhookConfiguration {
    let rule = |group, resource| {
        json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"],
            "resources": [resource]})
    };
    let webhook = json!({
        "name": "gone.causeway.dev",
        "clientConfig": {"url": "https://127.0.0.1:1/gone"},
        "rules": [rule("", "nodes/*"), rule("", "nodes"),
            rule("apiextensions.k8s.io", "customresourcedefinitions")],
        "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    let gone = json!({"metadata": {"name": "gone"}, "webhooks": [webhook]});
    serde_json::from_value(gone).expect("an object")
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("an object")
}

#[tokio::test]
async fn what_is_made_through_the_kubeconfig_is_there_again_and_down_leaves_nothing_else() {
    let place = Place::new();
    let state = &place.state;
    let mut up = start(state);
    up.ready().await.expect("up");
    let kubeconfig = state.dir().join("kubeconfig");
    let mode = fs::metadata(&kubeconfig)
        .expect("it is there")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let kept = fs::read(&kubeconfig).expect("it can be read");
    let through = client(state).await.expect("a client");
    let nodes: Api<Node> = Api::all(through.clone());
    let nodes = nodes.list(&ListParams::default()).await.expect("nodes");
    let nodes: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    assert_eq!(nodes, ["node1", "node2", "node3"]);
    let maps: Api<ConfigMap> = Api::namespaced(through, "default");
    let written = maps
        .create(&PostParams::default(), &config_map("mine"))
        .await;
    written.expect("made");

    let pid = up.pid().expect("it runs");
    let refused = causeway(&["up"], state);
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains(&format!("process {pid};")), "{words}");

    let said = down(state, &[]);
    assert!(
        said.starts_with(&format!("ended: process {pid},")),
        "{said}"
    );
    let status = up.ended().await.expect("ended");
    assert!(status.success(), "{status}");
    assert_nothing_is_left(state);

    let mut up = start(state);
    up.ready().await.expect("up again");
    assert_eq!(fs::read(&kubeconfig).expect("it is there"), kept);
    let through = client(state).await.expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(through, "default");
    maps.get("mine").await.expect("it has been kept");
    let status = up.end(Signal::INT).await.expect("ended");
    assert!(status.success(), "Ctrl-C: {status}");
    assert_nothing_is_left(state);
    assert!(state.has_objects());
    down(state, &["--forget"]);
    assert!(!state.dir().exists());
}

#[tokio::test]
async fn a_kept_webhook_that_is_gone_can_be_removed_through_the_next_up() {
    let place = Place::new();
    let state = &place.state;
    let mut up = start(state);
    up.ready().await.expect("up");
    let hooks = |client| -> Api<ValidatingWebhookConfiguration> { Api::all(client) };
    let through = hooks(client(state).await.expect("a client"));
    let (params, gone) = (PostParams::default(), gone_webhook());
    let made = through.create(&params, &gone);
    made.await.expect("made");
    up.end(Signal::KILL).await.expect("killed");

    let mut up = start(state);
    up.ready().await.expect("up again");
    let through = hooks(client(state).await.expect("a client"));
    let params = DeleteParams::default();
    let removed = through.delete("gone", &params);
    removed.await.expect("removed");
    up.end(Signal::TERM).await.expect("ended");
    assert_nothing_is_left(state);
}

#[tokio::test]
async fn a_killed_up_is_cleared_away_by_the_next_and_by_down() {
    let place = Place::new();
    let state = &place.state;
    let mut up = start(state);
    up.ready().await.expect("up");
    up.end(Signal::KILL).await.expect("killed");
    let left = traces(state).expect("the machine can be looked at");
    assert!(
        left.iter().any(|it| it.starts_with("namespace ")),
        "{left:?}"
    );
    assert!(left.iter().any(|it| it.starts_with("process ")), "{left:?}");

    let mut up = start(state);
    up.ready().await.expect("up again");
    let client = client(state).await.expect("a client");
    let zone = include_str!("../../../examples/zone.yaml");
    apply_documents(&client, zone).await.expect("applied");
    up.end(Signal::KILL).await.expect("killed");
    let said = down(state, &[]);
    assert!(said.starts_with("removed: "), "{said}");
    assert_nothing_is_left(state);
}

#[tokio::test]
async fn an_up_that_is_still_starting_ends_cleanly_too() {
    let place = Place::new();
    let state = &place.state;
    let mut up = start(state);
    up.building().await.expect("it begins");
    let status = up.end(Signal::TERM).await.expect("ended");
    assert_eq!(status.code(), Some(128 + 15), "{status}");
    assert_nothing_is_left(state);
}

#[test]
fn down_where_nothing_runs_says_so_and_forgets_only_when_told() {
    let place = Place::new();
    let state = &place.state;
    let said = down(state, &[]);
    assert!(said.starts_with("nothing runs"), "{said}");
    assert!(!state.dir().exists(), "nothing was made");

    fs::create_dir(state.dir()).expect("made");
    for name in ["api.redb", "kubeconfig", "authority.key", "notes.txt"] {
        fs::write(state.dir().join(name), "").expect("written");
    }
    down(state, &[]);
    assert!(state.has_objects());
    let said = down(state, &["--forget"]);
    assert!(said.contains("forgotten"), "{said}");
    // None that an `up` here has written.
    assert_eq!(names(state), ["kubeconfig", "notes.txt"]);
}

#[test]
fn up_does_not_begin_where_there_is_a_kubeconfig_of_others_and_makes_nothing_there() {
    let place = Place::new();
    let state = &place.state;
    fs::create_dir(state.dir()).expect("made");
    let theirs = "{clusters: [{name: real, cluster: {server: 'https://10.0.0.1:6443'}}]}";
    let path = state.dir().join("kubeconfig");
    fs::write(&path, theirs).expect("written");
    let refused = causeway(&["up"], state);
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("kubeconfig is left as it is"), "{words}");
    down(state, &["--forget"]);
    assert_eq!(fs::read_to_string(&path).expect("it is there"), theirs);
    assert_eq!(names(state), ["kubeconfig"]);
}

#[test]
fn the_demo_does_not_begin_where_there_are_objects() {
    let place = Place::new();
    let state = &place.state;
    fs::create_dir(state.dir()).expect("made");
    fs::write(state.dir().join("api.redb"), "").expect("written");
    let refused = causeway(&["demo", "--keep"], state);
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("causeway down --forget"), "{words}");
}
