use std::sync::atomic::{AtomicUsize, Ordering};

use causeway_api::{apps_crds, crds};
use causeway_drive::Wakes;
use causeway_kubeapi::{Clock, KubeApi};
use causeway_planner::snapshot::Settings;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::PostParams};
use serde_json::json;

use super::*;

async fn world() -> (KubeApi, Judge) {
    let api = KubeApi::new(Clock::machine()).expect("the API starts");
    let client = api.client("webhook");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crds().into_iter().chain(apps_crds()) {
        let made = definitions
            .create(&PostParams::default(), &definition)
            .await;
        made.expect("the definition");
    }
    let observer = Observer::start(
        client,
        None,
        Settings::default(),
        Arc::new(|| Moment(0)),
        Arc::new(Wakes::default()),
    );
    let judge = Judge::new(Arc::new(observer.await.expect("the watches sync")));
    (api, judge)
}

fn zones() -> Verdict {
    Verdict::Need([Reference::Zone("gold".into()), Reference::Zones].into())
}

fn allow() -> Verdict {
    Verdict::Allow {
        warnings: Vec::new(),
    }
}

#[tokio::test]
async fn what_is_missing_is_looked_for_twice_and_then_the_answer_is_no_with_what_is_missing() {
    let (_api, judge) = world().await;
    let asked = AtomicUsize::new(0);
    let answer = judge.decide(None, |_| {
        asked.fetch_add(1, Ordering::SeqCst);
        zones()
    });
    let message = "causeway cannot decide without ProxmoxNetworkZone \"gold\", every \
                   ProxmoxNetworkZone, which it does not find";
    let refused = Answer::Undecided(403, "Forbidden", message.to_owned());
    assert_eq!(answer.await, refused);
    assert_eq!(asked.load(Ordering::SeqCst), 3, "once, and after two looks");

    let asked = AtomicUsize::new(0);
    let answer = judge.decide(None, |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => zones(),
        _ => allow(),
    });
    assert_eq!(
        answer.await,
        Answer::Allow(Vec::new()),
        "found by the second"
    );
}

#[tokio::test]
async fn a_look_brings_in_the_zones_and_the_namespace_that_are_there_now() {
    let (api, judge) = world().await;
    let client = api.client("admin");
    let zones: Api<ProxmoxNetworkZone> = Api::all(client.clone());
    let zone = serde_json::from_value(json!({
        "metadata": {"name": "gold"},
        "spec": {"bridge": "vmbr1", "vlans": {"ranges": ["200-299"]}, "trunk": {"interface": "eth1"}},
    }));
    let asked = AtomicUsize::new(0);
    let made = zones
        .create(&PostParams::default(), &zone.expect("a zone"))
        .await;
    made.expect("is created");
    // Nobody else runs here between the create and the answer: the watches have not been heard.
    let answer = judge.decide(Some("kube-system"), |snapshot| {
        asked.fetch_add(1, Ordering::SeqCst);
        if snapshot.zones.contains_key(&"gold".into()) {
            allow()
        } else {
            Verdict::Deny(Vec::new())
        }
    });
    assert_eq!(answer.await, Answer::Allow(Vec::new()));
    assert!(asked.load(Ordering::SeqCst) <= 2, "one look was enough");
}

#[tokio::test]
async fn a_refusal_is_looked_at_once_more_and_stays_one() {
    let (_api, judge) = world().await;
    let asked = AtomicUsize::new(0);
    let answer = judge.decide(None, |_| {
        asked.fetch_add(1, Ordering::SeqCst);
        Verdict::Deny(Vec::new())
    });
    assert_eq!(answer.await, Answer::Deny(Vec::new()));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
