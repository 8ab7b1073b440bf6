//! Ways in: users, HTTPS, and objects that outlast the process.

use std::{path::Path, time::Duration};

use causeway_kubeapi::{KubeApi, Server, User, forget_server};
use futures::StreamExt;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{ConfigMap, Namespace, Node},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::setup::{PATIENCE, api, clock, code, make, make_namespace, serve_kinds, things};

async fn serve(api: &KubeApi, dir: &Path) -> Server {
    let any = "127.0.0.1:0".parse().expect("an address");
    api.serve(any, dir).await.expect("a server")
}

async fn config(text: &str) -> Config {
    let kubeconfig = Kubeconfig::from_yaml(text).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .expect("a configuration")
}

async fn client(text: &str) -> Client {
    Client::try_from(config(text).await).expect("a client")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the kubeconfig")
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}}))
        .expect("an object")
}

#[tokio::test]
async fn who_may_not_impersonate_is_refused() {
    let client = api().client_as(User::new("joe", &[]));
    let request = http::Request::get("/version")
        .header("impersonate-user", "jane")
        .body(Vec::new())
        .expect("a request");
    match client.request::<Value>(request).await.expect_err("refused") {
        kube::Error::Api(status) => assert_eq!(
            status.message,
            "users \"jane\" is forbidden: User \"joe\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        ),
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn the_kubeconfig_lets_its_owner_alone_do_everything_by_https() {
    use std::os::unix::fs::PermissionsExt;
    let api = api();
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(&api, dir.path()).await;
    let mode = std::fs::metadata(server.kubeconfig())
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&read(server.kubeconfig())).await);
    maps.create(&PostParams::default(), &config_map("one"))
        .await
        .expect("made");
    let inside: Api<ConfigMap> = Api::default_namespaced(api.client("test"));
    assert!(inside.get("one").await.is_ok());
    let writes = api.writes();
    assert!(
        writes.contains_key(&("kubernetes-admin".into(), "ConfigMap".into())),
        "{writes:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn certificates_and_tokens_say_who_comes_and_without_them_it_is_nobody() {
    let api = api();
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(&api, dir.path()).await;
    let who = async |config: Config| {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body).expect("JSON"))
            .expect("a request");
        let client = Client::try_from(config).expect("a client");
        client
            .request::<Value>(request)
            .await
            .map(|answer| answer["status"]["userInfo"].clone())
    };
    let user = User::new("jane", &["people"]);
    let text = server.kubeconfig_of(&user).expect("a kubeconfig");
    assert_eq!(
        who(config(&text).await).await.expect("an answer"),
        json!({"username": "jane", "groups": ["people", "system:authenticated"]})
    );
    let mut by_token = config(&text).await;
    by_token.auth_info.client_certificate_data = None;
    by_token.auth_info.client_key_data = None;
    let anonymous = who(by_token.clone()).await;
    assert_eq!(code(anonymous), 403);
    let robot = User::service_account("default", "robot");
    let token = server.token_of(&robot).expect("a token");
    by_token.auth_info.token = Some(token.into());
    assert_eq!(
        who(by_token.clone()).await.expect("an answer")["username"],
        "system:serviceaccount:default:robot"
    );
    by_token.auth_info.token = Some("wrong".to_owned().into());
    assert_eq!(code(who(by_token).await), 401);
    server.stop().await;
}

#[tokio::test]
async fn a_kubeconfig_goes_on_working_with_the_next_server_of_its_directory() {
    let api = api();
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(&api, dir.path()).await;
    // People set a namespace in theirs.
    let mut theirs: Kubeconfig =
        Kubeconfig::read_from(server.kubeconfig()).expect("the kubeconfig");
    for context in &mut theirs.contexts {
        let context = context.context.as_mut().expect("a context");
        context.namespace = Some("kube-public".to_owned());
    }
    let text = serde_json::to_string(&theirs).expect("JSON");
    std::fs::write(server.kubeconfig(), &text).expect("written");
    let address = server.address();
    server.stop().await;

    let server = serve(&api, dir.path()).await;
    assert_eq!(server.address(), address);
    assert_eq!(read(server.kubeconfig()), text);
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&text).await);
    let made = maps
        .create(&PostParams::default(), &config_map("one"))
        .await;
    assert_eq!(
        made.expect("made").namespace().as_deref(),
        Some("kube-public")
    );
    server.stop().await;

    let taken = std::net::TcpListener::bind(address).expect("the port is free");
    let server = serve(&api, dir.path()).await;
    assert_ne!(server.address(), address, "its port is another's now");
    let maps: Api<ConfigMap> =
        Api::namespaced(client(&read(server.kubeconfig())).await, "kube-public");
    maps.get("one").await.expect("the kubeconfig is a new one");
    server.stop().await;
    drop(taken);
}

/// Another cluster's kubeconfig, and the same merged with one of ours behind it.
fn merged(own: &Kubeconfig) -> (String, String) {
    let theirs = Kubeconfig::from_yaml(
        "{clusters: [{name: real, cluster: {server: 'https://10.0.0.1:6443'}}], \
         users: [{name: me, user: {token: secret}}], current-context: real, \
         contexts: [{name: real, context: {cluster: real, user: me}}]}",
    );
    let theirs = theirs.expect("a kubeconfig");
    let text = |config: &Kubeconfig| serde_json::to_string(config).expect("JSON");
    let both = theirs.clone().merge(own.clone()).expect("merged");
    (text(&theirs), text(&both))
}

#[tokio::test]
async fn a_kubeconfig_of_others_is_neither_replaced_nor_removed() {
    let (api, dir) = (api(), tempfile::tempdir().expect("a directory"));
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = serve(&api, dir.path()).await;
    let (path, address) = (server.kubeconfig().to_owned(), server.address());
    let own = Kubeconfig::read_from(&path).expect("the kubeconfig");
    server.stop().await;
    let (theirs, both) = merged(&own);

    std::fs::write(&path, &both).expect("written");
    let server = serve(&api, dir.path()).await;
    assert_eq!((server.address(), read(&path)), (address, both.clone()));
    server.stop().await;
    let taken = std::net::TcpListener::bind(address).expect("the port is free");
    let refused = api.serve(any, dir.path()).await.expect_err("refused");
    assert!(refused.to_string().contains("move it away"), "{refused}");
    drop(taken);
    assert!(forget_server(dir.path()).expect("the key is removed"));
    assert_eq!(read(&path), both);

    // Now there is no key, then nothing of ours in it, then nothing that can be read.
    for text in [&both, &theirs, "clusters: ["] {
        std::fs::write(&path, text).expect("written");
        api.serve(any, dir.path()).await.expect_err("refused");
        assert!(!forget_server(dir.path()).expect("nothing is removed"));
        assert_eq!(read(&path), *text);
    }
}

#[tokio::test]
async fn keys_that_a_killed_server_had_half_written_are_removed_by_the_next() {
    let (api, dir) = (api(), tempfile::tempdir().expect("a directory"));
    let halves = ["authority.new", "kubeconfig.new"].map(|name| dir.path().join(name));
    for half in &halves {
        std::fs::write(half, "half a key").expect("written");
    }
    serve(&api, dir.path()).await.stop().await;
    assert!(halves.iter().all(|half| !half.exists()));
}

#[tokio::test]
async fn who_comes_past_webhooks_can_write_where_a_webhook_is_gone() {
    let api = api();
    let gone = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gone"},
        "webhooks": [{
            "name": "gone.causeway.dev",
            "clientConfig": {"url": "https://127.0.0.1:1/gone"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
                "resources": ["configmaps"]}],
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    });
    let gone = serde_json::from_value(gone).expect("an object");
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(api.client("test"));
    hooks
        .create(&PostParams::default(), &gone)
        .await
        .expect("made");
    let maps = |client| -> Api<ConfigMap> { Api::default_namespaced(client) };
    let (params, one) = (PostParams::default(), config_map("one"));
    let asked = maps(api.client("test"));
    assert_eq!(code(asked.create(&params, &one).await), 500);
    let past = maps(api.client_past_webhooks("test"));
    past.create(&params, &one).await.expect("nobody is asked");
}

#[tokio::test]
async fn watches_by_https_show_changes_at_once_and_end_with_the_server() {
    let api = api();
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(&api, dir.path()).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&read(server.kubeconfig())).await);
    let from = api.revision().to_string();
    let mut watch = Box::pin(
        maps.watch(&WatchParams::default(), &from)
            .await
            .expect("a watch"),
    );
    let inside: Api<ConfigMap> = Api::default_namespaced(api.client("test"));
    for name in ["one", "two"] {
        inside
            .create(&PostParams::default(), &config_map(name))
            .await
            .expect("made");
        let event = tokio::time::timeout(PATIENCE, watch.next())
            .await
            .expect("in time");
        match event.expect("an event").expect("no error") {
            WatchEvent::Added(map) => assert_eq!(map.name_any(), name),
            other => unreachable!("{other:?}"),
        }
    }
    let before = std::time::Instant::now();
    server.stop().await;
    assert!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
    let end = tokio::time::timeout(PATIENCE, watch.next())
        .await
        .expect("in time");
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
}

#[tokio::test]
async fn only_loopback_is_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let everywhere = "0.0.0.0:0".parse().expect("an address");
    let refused = api()
        .serve(everywhere, dir.path())
        .await
        .expect_err("refused");
    assert_eq!(refused.to_string(), "0.0.0.0:0 is no loopback address");
    assert!(!dir.path().join("kubeconfig").exists());
}

#[tokio::test]
async fn objects_kinds_and_revisions_outlast_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("api.redb");
    let first = KubeApi::open(&path, clock()).expect("a stand-in");
    let client = first.client("test");
    serve_kinds(&client).await;
    make_namespace(&client, "tenant").await;
    let old = things(&client, "tenant");
    let early = make(&old, "Thing", json!({"name": "a"})).await;
    make(&old, "Thing", json!({"name": "b"})).await;
    old.delete("b", &kube::api::DeleteParams::default())
        .await
        .expect("deleted");
    let revision = first.revision();
    first.close();
    let late = json!({"apiVersion": "test.causeway.dev/v1", "kind": "Thing", "metadata": {"name": "late"}});
    let late = serde_json::from_value(late).expect("an object");
    assert_eq!(code(old.create(&PostParams::default(), &late).await), 500);

    let again = KubeApi::open(&path, clock()).expect("opened again");
    assert_eq!(again.revision(), revision);
    let client = again.client("test");
    let things = things(&client, "tenant");
    let list = things.list(&ListParams::default()).await.expect("a list");
    assert_eq!(list.items, std::slice::from_ref(&early));
    let later = make(&things, "Thing", json!({"name": "c"})).await;
    assert!(later.resource_version() > early.resource_version());
    assert_ne!(later.uid(), early.uid());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert_eq!(
        namespaces
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .len(),
        5
    );
    let nodes: Api<Node> = Api::all(client);
    assert!(
        nodes
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart_or_gets_410() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("api.redb");
    let first = KubeApi::open(&path, clock()).expect("a stand-in");
    let client = first.client("test");
    serve_kinds(&client).await;
    let early = make(&things(&client, "default"), "Thing", json!({"name": "a"})).await;
    make(&things(&client, "default"), "Thing", json!({"name": "b"})).await;
    let last = first.revision().to_string();
    first.close();

    let again = KubeApi::open(&path, clock()).expect("opened again");
    let things = things(&again.client("test"), "default");
    let params = WatchParams::default();
    let mut goes_on = Box::pin(things.watch(&params, &last).await.expect("a watch"));
    let from = early.resource_version().expect("a revision");
    let mut behind = Box::pin(things.watch(&params, &from).await.expect("a watch"));
    make(&things, "Thing", json!({"name": "c"})).await;
    let event = tokio::time::timeout(PATIENCE, goes_on.next())
        .await
        .expect("in time");
    match event.expect("an event").expect("no error") {
        WatchEvent::Added(thing) => assert_eq!(thing.name_any(), "c"),
        other => unreachable!("{other:?}"),
    }
    let event = tokio::time::timeout(PATIENCE, behind.next())
        .await
        .expect("in time");
    assert!(matches!(event, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
}

#[tokio::test]
async fn a_file_is_one_processs_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("api.redb");
    let _first = KubeApi::open(&path, clock()).expect("a stand-in");
    assert!(KubeApi::open(&path, clock()).is_err());
}

#[tokio::test]
async fn a_file_whose_making_was_cut_off_is_made_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("api.redb");
    std::fs::write(dir.path().join("api.new"), [0; 4096]).expect("written");
    drop(KubeApi::open(&path, clock()).expect("a stand-in"));
    assert!(path.exists() && !dir.path().join("api.new").exists());
}

#[tokio::test]
async fn a_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("api.redb");
    let _api = KubeApi::open(&path, clock()).expect("a stand-in");
    let mode = std::fs::metadata(&path).expect("it").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_share_their_flushes_to_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let api = KubeApi::open(&dir.path().join("api.redb"), clock()).expect("a stand-in");
    // Prints what it takes; disks differ too much for a bound.
    for writers in [1_usize, 16] {
        let before = std::time::Instant::now();
        let each = (0..writers).map(|writer| {
            let maps: Api<ConfigMap> = Api::default_namespaced(api.client("test"));
            async move {
                for index in 0..160 / writers {
                    let name = format!("m-{writers}-{writer}-{index}");
                    maps.create(&PostParams::default(), &config_map(&name))
                        .await
                        .expect("made");
                }
            }
        });
        futures::future::join_all(each).await;
        println!(
            "160 durable writes of {writers} writers in {:?}",
            before.elapsed()
        );
    }
    let maps: Api<ConfigMap> = Api::default_namespaced(api.client("test"));
    assert_eq!(
        maps.list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .len(),
        320
    );
}
