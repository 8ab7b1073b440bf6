//! Certificates: shared by replicas, renewed while reviews go on, published where they must be.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use causeway_admission::{SECRET, configuration};
use http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, client::Body};
use serde_json::json;

use super::bench::{Bench, collection, now, send, vpc, within};

const DAY: i64 = 24 * 60 * 60 * 1000;

/// Reviews that go on until they are told to end.
struct Load {
    end: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Load {
    /// By the API server: dry runs of creates that are legal.
    fn start(bench: &Bench) -> Self {
        let (end, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let task = |number: usize| {
            let (end, done, client) = (Arc::clone(&end), Arc::clone(&done), bench.client.clone());
            let object = vpc("tenant-first", &format!("load-{number}"), json!({}));
            tokio::spawn(async move {
                let mut failed = Vec::new();
                while !end.load(Ordering::SeqCst) {
                    let request = Request::post(format!("{}?dryRun=All", collection(&object)))
                        .header("content-type", "application/json")
                        .body(Body::from(object.to_string().into_bytes()));
                    let answer = send(&client, request.expect("a request")).await;
                    if answer.code != 201 {
                        failed.push(format!("{answer:?}"));
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
                failed
            })
        };
        let tasks = (0..4).map(task).collect();
        Self { end, done, tasks }
    }

    /// Until so many more have been answered.
    async fn more(&self, count: usize) {
        let wanted = self.done.load(Ordering::SeqCst) + count;
        within("reviews go on", async || {
            self.done.load(Ordering::SeqCst) >= wanted
        })
        .await;
    }

    /// How many there were, and what failed.
    async fn stop(self) -> (usize, Vec<String>) {
        self.end.store(true, Ordering::SeqCst);
        let mut failed = Vec::new();
        for task in self.tasks {
            failed.extend(task.await.expect("no panic"));
        }
        (self.done.load(Ordering::SeqCst), failed)
    }
}

async fn secret(bench: &Bench) -> Secret {
    let namespace = configuration::Places::default().namespace;
    let secrets: Api<Secret> = Api::namespaced(bench.client.clone(), &namespace);
    secrets.get(SECRET).await.expect("the Secret")
}

fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().expect("data");
    String::from_utf8(data[key].0.clone()).expect("PEM")
}

/// The caBundle of every webhook, which is the same.
async fn bundle(bench: &Bench) -> String {
    let published = bench.published().await;
    let bundles = published.webhooks.iter().flatten().map(|webhook| {
        let bundle = webhook.client_config.ca_bundle.clone();
        String::from_utf8(bundle.expect("a bundle").0).expect("PEM")
    });
    let bundles: Vec<String> = bundles.collect();
    assert!(bundles.iter().all(|one| *one == bundles[0]));
    bundles[0].clone()
}

/// A client that trusts a bundle and shakes hands anew.
pub fn client_of(webhook: std::net::SocketAddr, bundle: &str) -> Client {
    let mut config = kube::Config::new(format!("https://{webhook}").parse().expect("a URL"));
    let ends = bundle.split_inclusive("-----END CERTIFICATE-----\n");
    let der = ends.map(|pem| {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        let one = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        one.to_vec()
    });
    config.root_cert = Some(der.collect());
    Client::try_from(config).expect("a client")
}

/// What a client that trusts a bundle hears at a path, after a handshake of its own.
async fn heard(bench: &Bench, bundle: &str, path: &str) -> u16 {
    let client = client_of(bench.webhook().address(), bundle);
    let request = Request::get(path).body(Body::empty());
    send(&client, request.expect("a request")).await.code
}

/// Time goes on to so many days, and the webhook looks at its certificates: how many authorities
/// there are then, and whether the leaf is another.
async fn renew(bench: &Bench, days: i64, start: i64) -> (usize, bool) {
    let before = secret(bench).await;
    bench.set_clock(start + days * DAY);
    let kept = bench.webhook().keep_certificates().await;
    kept.expect("certificates can be kept");
    let after = secret(bench).await;
    let authorities = text(&after, "ca.crt");
    assert_eq!(bundle(bench).await, authorities, "after {days} days");
    let code = heard(bench, &authorities, "/readyz").await;
    assert_eq!(code, 200, "after {days} days");
    let count = authorities.matches("BEGIN CERTIFICATE").count();
    (count, text(&after, "tls.crt") != text(&before, "tls.crt"))
}

#[tokio::test(flavor = "multi_thread")]
async fn leaf_and_authority_are_renewed_under_load_without_a_failed_review() {
    let mut bench = Bench::without_webhook().await;
    // Real clients know only the real time, so the webhook begins long ago: its authority grows old
    // 70 days ago, its twelfth leaf 20 days ago.
    let start = now() - 800 * DAY;
    for days in (0..720).step_by(60) {
        bench.set_clock(start + days * DAY);
        bench.another().await.stop().await;
    }
    bench.start(start + 720 * DAY).await;
    let old = text(&secret(&bench).await, "ca.crt");
    assert_eq!(bundle(&bench).await, old);

    let load = Load::start(&bench);
    load.more(50).await;
    for (days, authorities, leaf_is_new) in [(730, 2, false), (780, 2, true), (800, 2, false)] {
        let renewed = renew(&bench, days, start).await;
        assert_eq!(renewed, (authorities, leaf_is_new), "after {days} days");
        load.more(50).await;
    }
    let (count, failed) = load.stop().await;
    let failures = failed.len();
    println!("{count} reviews while leaf and authority were renewed, {failures} failed");
    assert!(failed.is_empty(), "{}", failed.join("\n"));

    // The latest leaf is trusted by the new authority alone.
    let both = text(&secret(&bench).await, "ca.crt");
    let new = both
        .strip_suffix(&old)
        .expect("the new one, and the old one");
    assert_eq!(heard(&bench, new, "/healthz").await, 200);
    let request = Request::get("/healthz").body(Body::empty());
    let distrusted = client_of(bench.webhook().address(), &old);
    let answer = distrusted.send(request.expect("a request")).await;
    answer.expect_err("another authority's leaf");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_start_at_once_share_one_secret_and_a_spoilt_one_becomes_what_it_was() {
    let bench = Bench::without_webhook().await;
    let (one, two, three) = tokio::join!(bench.another(), bench.another(), bench.another());
    let made = secret(&bench).await;
    for replica in [&one, &two, &three] {
        let client = client_of(replica.address(), &text(&made, "ca.crt"));
        let request = Request::get("/healthz").body(Body::empty());
        let answer = send(&client, request.expect("a request")).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        replica.keep_certificates().await.expect("kept");
    }
    let kept = secret(&bench).await;
    assert_eq!(
        kept.resource_version(),
        made.resource_version(),
        "written once"
    );

    let namespace = configuration::Places::default().namespace;
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{SECRET}");
    let change = json!({"stringData": {"tls.key": "nonsense"}});
    let spoilt = bench.merge(&bench.client, &path, &change).await;
    assert_eq!(spoilt.code, 200, "{spoilt:?}");
    // Nobody asks them to: they see it.
    within("the Secret is as it was", async || {
        secret(&bench).await.data == made.data
    })
    .await;
    // One that is gone comes back too, before the watches tell of it.
    let gone = bench.delete(&bench.client, &path).await;
    assert_eq!(gone.code, 200, "{gone:?}");
    two.keep_certificates().await.expect("kept");
    assert_eq!(secret(&bench).await.data, made.data);
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_somebody_takes_away_comes_back_by_itself() {
    let bench = Bench::new().await;
    let before = bundle(&bench).await;
    // As a fresh install does, which knows of no bundle.
    let name = configuration::NAME;
    let path =
        format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}");
    let mut published = json!(bench.published().await);
    for webhook in published["webhooks"].as_array_mut().expect("webhooks") {
        webhook["clientConfig"]
            .as_object_mut()
            .expect("an object")
            .remove("caBundle");
    }
    let request = Request::put(&path)
        .header("content-type", "application/json")
        .body(Body::from(published.to_string().into_bytes()));
    let replaced = bench.send(request.expect("a request")).await;
    assert_eq!(replaced.code, 200, "{replaced:?}");
    within("the bundle is back", async || {
        let published = bench.published().await;
        let mut webhooks = published.webhooks.iter().flatten();
        webhooks.all(|webhook| webhook.client_config.ca_bundle.is_some())
    })
    .await;
    assert_eq!(bundle(&bench).await, before);
}
