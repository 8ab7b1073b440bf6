//! Events: the core group and events.k8s.io show the same ones.

use std::time::Duration;

use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
        WatchEvent, WatchParams,
    },
};
use serde_json::{Value, json};

use super::bench::{Bench, assert_refused, causes, object, refusal, revision};

/// Long enough for any server; a case that works never waits for it.
const PATIENCE: Duration = Duration::from_mins(1);

const CORE: &str = "v1";
const OWN: &str = "events.k8s.io/v1";

/// Events of a case by the core group and by the group of their own.
struct Both {
    bench: Bench,
    core: Api<DynamicObject>,
    own: Api<DynamicObject>,
}

async fn both() -> Both {
    let bench = Bench::new().await;
    let api = |group: &str, api_version: &str| {
        let resource = ApiResource {
            group: group.into(),
            version: "v1".into(),
            api_version: api_version.into(),
            kind: "Event".into(),
            plural: "events".into(),
        };
        Api::namespaced_with(bench.client.clone(), &bench.namespace, &resource)
    };
    Both {
        core: api("", CORE),
        own: api("events.k8s.io", OWN),
        bench,
    }
}

impl Both {
    /// An event as the core group has it, as `rest` changes it.
    fn core_event(&self, name: &str, rest: &Value) -> DynamicObject {
        let mut event = json!({
            "apiVersion": CORE, "kind": "Event", "metadata": {"name": name},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": self.bench.namespace,
                "uid": "0-1", "fieldPath": "spec.containers{one}",
            },
            "reason": "Pulled", "message": "Image is there", "type": "Normal", "count": 3,
            "source": {"component": "kubelet", "host": "node1"},
            "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:05:06Z",
        });
        json_patch::merge(&mut event, rest);
        object(&event)
    }

    /// The same of the other group, with what that demands.
    fn own_event(&self, name: &str, rest: &Value) -> DynamicObject {
        let mut event = json!({
            "apiVersion": OWN, "kind": "Event", "metadata": {"name": name},
            "regarding": {
                "apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": self.bench.namespace,
            },
            "reason": "Ready", "note": "All is well", "type": "Normal", "action": "Check",
            "reportingController": "causeway.dev/controller", "reportingInstance": "one",
            "eventTime": "2026-01-02T03:04:05.123456Z",
        });
        json_patch::merge(&mut event, rest);
        object(&event)
    }

    async fn make_core(&self, name: &str, rest: Value) -> DynamicObject {
        let event = self.core_event(name, &rest);
        let made = self.core.create(&PostParams::default(), &event).await;
        made.expect("the event")
    }

    async fn make_own(&self, name: &str, rest: Value) -> DynamicObject {
        let event = self.own_event(name, &rest);
        let made = self.own.create(&PostParams::default(), &event).await;
        made.expect("the event")
    }
}

/// The fields of these names.
fn fields(event: &DynamicObject, names: &[&str]) -> Value {
    let values = names.iter().map(|name| (*name, event.data[*name].clone()));
    json!(values.collect::<std::collections::BTreeMap<_, _>>())
}

fn names(list: impl IntoIterator<Item = DynamicObject>) -> Vec<String> {
    list.into_iter().map(|event| event.name_any()).collect()
}

#[tokio::test]
async fn an_event_of_the_core_group_is_one_of_the_other_with_its_names() {
    let both = both().await;
    let made = both.make_core("one", json!({})).await;
    let shown = both.own.get("one").await.expect("the same event");
    assert_eq!(shown.types.clone().expect("types").api_version, OWN);
    assert_eq!(
        (shown.uid(), revision(&shown)),
        (made.uid(), revision(&made))
    );
    assert_eq!(shown.data["regarding"], made.data["involvedObject"]);
    let expected = json!({
        "note": "Image is there", "reason": "Pulled", "type": "Normal", "deprecatedCount": 3,
        "deprecatedSource": {"component": "kubelet", "host": "node1"},
        "deprecatedFirstTimestamp": "2026-01-02T03:04:05Z",
        "deprecatedLastTimestamp": "2026-01-02T03:05:06Z",
    });
    let own = [
        "note",
        "reason",
        "type",
        "deprecatedCount",
        "deprecatedSource",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
    ];
    assert_eq!(fields(&shown, &own), expected);
    for field in [
        "involvedObject",
        "message",
        "source",
        "firstTimestamp",
        "count",
    ] {
        assert_eq!(shown.data.get(field), None, "{field}");
    }
}

#[tokio::test]
async fn an_event_of_the_other_group_is_one_of_the_core_group() {
    let both = both().await;
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:06:07.000000Z"}});
    let made = both.make_own("one", series).await;
    let shown = both.core.get("one").await.expect("the same event");
    assert_eq!(shown.types.clone().expect("types").api_version, CORE);
    assert_eq!(
        (shown.uid(), revision(&shown)),
        (made.uid(), revision(&made))
    );
    assert_eq!(shown.data["involvedObject"], made.data["regarding"]);
    let expected = json!({
        "message": "All is well", "reason": "Ready", "type": "Normal", "action": "Check",
        "reportingComponent": "causeway.dev/controller", "reportingInstance": "one",
        "eventTime": "2026-01-02T03:04:05.123456Z",
        "series": {"count": 2, "lastObservedTime": "2026-01-02T03:06:07.000000Z"},
    });
    let core = [
        "message",
        "reason",
        "type",
        "action",
        "reportingComponent",
        "reportingInstance",
        "eventTime",
        "series",
    ];
    assert_eq!(fields(&shown, &core), expected);
    for field in ["regarding", "note", "reportingController"] {
        assert_eq!(shown.data.get(field), None, "{field}");
    }
}

#[tokio::test]
async fn the_time_of_an_event_has_exactly_six_digits_of_a_second() {
    let both = both().await;
    for (time, rest, expected) in [
        ("2026-01-02T03:04:05Z", "Z", ".000000"),
        ("2026-01-02T03:04:05.123Z", ".123Z", ".000000"),
        ("2026-01-02T03:04:05.123456789Z", "789Z", "Z07:00"),
    ] {
        let event = both.own_event("one", &json!({"eventTime": time}));
        let made = both.own.create(&PostParams::default(), &event).await;
        let words = format!(
            "Event in version \"v1\" cannot be handled as a Event: parsing time \"{time}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{rest}\" as \"{expected}\""
        );
        assert_refused(made, 400, "BadRequest", &words);
    }
    let rest = json!({"eventTime": "2026-01-02T05:04:05.600000+02:00"});
    let made = both.make_own("one", rest).await;
    assert_eq!(made.data["eventTime"], "2026-01-02T03:04:05.600000Z");
}

#[tokio::test]
async fn both_groups_list_what_either_made() {
    let both = both().await;
    both.make_core("a", json!({})).await;
    both.make_own("b", json!({})).await;
    for api in [&both.core, &both.own] {
        let list = api.list(&ListParams::default()).await.expect("a list");
        assert_eq!(names(list), ["a", "b"]);
    }
}

#[tokio::test]
async fn a_watch_of_one_group_shows_what_the_other_does() {
    let both = both().await;
    for (watched, written) in [(&both.own, &both.core), (&both.core, &both.own)] {
        let list = watched.list(&ListParams::default()).await.expect("a list");
        let from = list.metadata.resource_version.expect("a revision");
        let stream = watched.watch(&WatchParams::default(), &from).await;
        let mut stream = Box::pin(stream.expect("a watch"));
        both.make_core("one", json!({})).await;
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let params = PatchParams::default();
        written
            .patch("one", &params, &patch)
            .await
            .expect("changed");
        written
            .delete("one", &DeleteParams::default())
            .await
            .expect("deleted");
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let next = tokio::time::timeout(PATIENCE, stream.next()).await;
            let next = next.expect("in time").expect("an open stream");
            let (what, event) = match next.expect("an event") {
                WatchEvent::Added(event) => ("added", event),
                WatchEvent::Modified(event) => ("modified", event),
                WatchEvent::Deleted(event) => ("deleted", event),
                _ => continue,
            };
            let words = if event.types.expect("types").api_version == OWN {
                &event.data["note"]
            } else {
                &event.data["message"]
            };
            assert_eq!(words, "Image is there");
            seen.push(what);
        }
        assert_eq!(seen, ["added", "modified", "deleted"]);
    }
}

#[tokio::test]
async fn what_one_group_deletes_is_gone_from_both() {
    let both = both().await;
    for (made, api) in [("a", &both.core), ("b", &both.own)] {
        both.make_core(made, json!({})).await;
        let deleted = api.delete(made, &DeleteParams::default()).await;
        let status = deleted.expect("deleted").right().expect("a status");
        assert!(status.is_success());
        for api in [&both.core, &both.own] {
            assert_refused(api.get(made).await, 404, "NotFound", "not found");
        }
    }
    both.make_core("a", json!({})).await;
    both.make_own("b", json!({})).await;
    let all = both
        .own
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await;
    all.expect("deleted");
    let left = both.core.list(&ListParams::default()).await;
    assert_eq!(names(left.expect("a list")), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_one_group_has_used_is_taken_in_both() {
    let both = both().await;
    both.make_core("one", json!({})).await;
    let again = both.own_event("one", &json!({}));
    assert_refused(
        both.own.create(&PostParams::default(), &again).await,
        409,
        "AlreadyExists",
        "events.events.k8s.io \"one\" already exists",
    );
    both.make_own("two", json!({})).await;
    let again = both.core_event("two", &json!({}));
    assert_refused(
        both.core.create(&PostParams::default(), &again).await,
        409,
        "AlreadyExists",
        "events \"two\" already exists",
    );
}

#[tokio::test]
async fn what_one_group_changes_shows_in_both() {
    let both = both().await;
    both.make_core("core", json!({})).await;
    both.make_own("own", json!({})).await;
    let series = json!({"series": {"count": 5, "lastObservedTime": "2026-01-02T03:06:07.000000Z"}});
    let params = PatchParams::default();
    let patch = Patch::Merge(&series);
    let changed = both.own.patch("own", &params, &patch).await;
    changed.expect("changed");
    let shown = both.core.get("own").await.expect("the event");
    assert_eq!(shown.data["series"], series["series"]);
    let more = Patch::Merge(json!({"count": 4, "message": "Image is there still"}));
    both.core
        .patch("core", &params, &more)
        .await
        .expect("changed");
    let shown = both.own.get("core").await.expect("the event");
    assert_eq!(
        fields(&shown, &["deprecatedCount", "note"]),
        json!({"deprecatedCount": 4, "note": "Image is there still"})
    );
    // Nothing but what changed was written.
    let again = both
        .core
        .patch("core", &params, &more)
        .await
        .expect("not changed");
    assert_eq!(revision(&again), revision(&shown));
}

#[tokio::test]
async fn a_put_replaces_what_the_other_group_made_and_makes_what_is_absent() {
    let both = both().await;
    let made = both.make_own("one", json!({})).await;
    let mut event = both.core.get("one").await.expect("the event");
    event.data["message"] = json!("All is better");
    let put = both
        .core
        .replace("one", &PostParams::default(), &event)
        .await;
    assert_eq!(put.expect("replaced").uid(), made.uid());
    let shown = both.own.get("one").await.expect("the event");
    assert_eq!(shown.data["note"], "All is better");
    let new = both.own_event("two", &json!({}));
    let put = both.own.replace("two", &PostParams::default(), &new).await;
    put.expect("made");
    let shown = both.core.get("two").await.expect("the event");
    assert_eq!(shown.data["message"], "All is well");
}

#[tokio::test]
async fn each_group_selects_by_its_own_names() {
    let both = both().await;
    both.make_core("a", json!({})).await;
    both.make_own("b", json!({"regarding": {"name": "db"}, "type": "Warning"}))
        .await;
    for (api, selector, found) in [
        (&both.core, "involvedObject.name=web", &["a"][..]),
        (&both.own, "regarding.name=web", &["a"]),
        (
            &both.core,
            "involvedObject.name=db,involvedObject.kind=Pod",
            &["b"],
        ),
        (&both.own, "regarding.name!=web", &["b"]),
        (&both.core, "involvedObject.uid=0-1", &["a"]),
        (
            &both.own,
            "regarding.fieldPath=spec.containers{one}",
            &["a"],
        ),
        (&both.core, "type=Warning", &["b"]),
        (&both.own, "reason=Pulled", &["a"]),
        (
            &both.core,
            "reportingComponent=causeway.dev/controller",
            &["b"],
        ),
        (
            &both.own,
            "reportingController=causeway.dev/controller",
            &["b"],
        ),
        (&both.core, "source=kubelet", &["a"]),
        (&both.core, "source=causeway.dev/controller", &["b"]),
        (&both.own, "metadata.name=a", &["a"]),
    ] {
        let params = ListParams::default().fields(selector);
        let list = api.list(&params).await.expect(selector);
        assert_eq!(names(list), found, "{selector}");
    }
}

#[tokio::test]
async fn names_of_the_other_group_are_not_selected_by() {
    let both = both().await;
    for (api, label) in [
        (&both.core, "regarding.name"),
        (&both.core, "reportingController"),
        (&both.core, "involvedObject.color"),
        (&both.own, "involvedObject.name"),
        (&both.own, "reportingComponent"),
        (&both.own, "source"),
    ] {
        let params = ListParams::default().fields(&format!("{label}=x"));
        let words = format!("field label not supported: {label}");
        assert_refused(api.list(&params).await, 400, "BadRequest", &words);
    }
}

#[tokio::test]
async fn the_newer_group_refuses_what_is_incomplete_or_deprecated() {
    let both = both().await;
    for (rest, fields) in [
        (json!({"eventTime": null}), &["eventTime"][..]),
        (json!({"type": null}), &["type"]),
        (json!({"type": "Odd"}), &["type"]),
        (json!({"action": null}), &["action"]),
        (json!({"reason": null}), &["reason"]),
        (json!({"reason": "r".repeat(129)}), &["reason"]),
        (json!({"note": "n".repeat(1025)}), &["message"]),
        (json!({"reportingInstance": null}), &["reportingInstance"]),
        (
            json!({"reportingController": "a b"}),
            &["reportingController"],
        ),
        (
            json!({"regarding": {"namespace": null}}),
            &["involvedObject.namespace"],
        ),
        (json!({"deprecatedCount": 1}), &["count"]),
        (json!({"deprecatedSource": {"component": "a"}}), &["source"]),
        (
            json!({"deprecatedFirstTimestamp": "2026-01-02T03:04:05Z"}),
            &["firstTimestamp"],
        ),
        (
            json!({"deprecatedLastTimestamp": "2026-01-02T03:04:05Z"}),
            &["lastTimestamp"],
        ),
        (
            json!({"series": {"count": 1, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}}),
            &["series.count"],
        ),
        (
            json!({"series": {"count": 2, "lastObservedTime": null}}),
            &["series.lastObservedTime"],
        ),
    ] {
        let event = both.own_event("one", &rest);
        let status = refusal(both.own.create(&PostParams::default(), &event).await);
        assert_eq!(
            (status.code, status.reason.as_str()),
            (422, "Invalid"),
            "{rest}"
        );
        let told: Vec<String> = causes(&status).into_iter().map(|it| it.1).collect();
        assert_eq!(told, fields, "{rest}");
    }
}

#[tokio::test]
async fn the_core_group_wants_an_event_where_its_object_is() {
    let both = both().await;
    for namespace in [json!("elsewhere"), Value::Null] {
        let event = both.core_event("one", &json!({"involvedObject": {"namespace": namespace}}));
        let status = refusal(both.core.create(&PostParams::default(), &event).await);
        assert_eq!(
            causes(&status),
            [(
                "FieldValueInvalid".into(),
                "involvedObject.namespace".into()
            )]
        );
        assert!(
            status.message.ends_with("does not match event.namespace"),
            "{}",
            status.message
        );
    }
    let event = json!({"eventTime": "2026-01-02T03:04:05.000000Z", "message": "m".repeat(1025)});
    let event = both.core_event("one", &event);
    let status = refusal(both.core.create(&PostParams::default(), &event).await);
    let fields: Vec<String> = causes(&status).into_iter().map(|it| it.1).collect();
    assert_eq!(
        fields,
        [
            "reportingComponent",
            "reportingComponent",
            "reportingComponent",
            "reportingInstance",
            "action",
            "message"
        ]
    );
}

#[tokio::test]
async fn by_the_newer_group_an_event_that_has_happened_stays_as_it_is() {
    let both = both().await;
    both.make_own("one", json!({})).await;
    let params = PatchParams::default();
    for (patch, field) in [
        (json!({"note": "other"}), "message"),
        (json!({"reason": "Other"}), "reason"),
        (json!({"type": "Warning"}), "type"),
        (json!({"action": "Other"}), "action"),
        (json!({"regarding": {"name": "other"}}), "involvedObject"),
        (
            json!({"reportingController": "other"}),
            "reportingController",
        ),
        (json!({"reportingInstance": "other"}), "reportingInstance"),
        (
            json!({"eventTime": "2027-01-02T03:04:05.000000Z"}),
            "eventTime",
        ),
    ] {
        let status = refusal(both.own.patch("one", &params, &Patch::Merge(&patch)).await);
        assert_eq!(status.code, 422, "{patch}");
        assert!(
            status.message.contains("field is immutable"),
            "{}",
            status.message
        );
        // The real server looks at the reason twice.
        assert!(
            causes(&status).iter().all(|cause| cause.1 == field),
            "{patch}: {status:?}"
        );
    }
}

#[tokio::test]
async fn tables_of_both_groups_show_an_event_alike() {
    let both = both().await;
    both.make_core("a", json!({})).await;
    both.make_own(
        "b",
        json!({"series": {"count": 7, "lastObservedTime": "2026-01-02T03:06:07.000000Z"}}),
    )
    .await;
    let mut tables = Vec::new();
    for path in ["/api/v1", "/apis/events.k8s.io/v1"] {
        let path = format!("{path}/namespaces/{}/events", both.bench.namespace);
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = both.bench.raw(&path, accept).await;
        let rows = table["rows"].as_array().expect("rows").clone();
        // Last and first seen pass by while it is looked at.
        let cells = rows.iter().map(|row| {
            let mut cells = row["cells"].as_array().expect("cells").clone();
            cells[0] = Value::Null;
            cells[7] = Value::Null;
            cells
        });
        tables.push(cells.collect::<Vec<_>>());
    }
    assert_eq!(tables[0], tables[1]);
    assert_eq!(tables[0].len(), 2);
    assert_eq!(tables[0][0][3], "pod/web");
    assert_eq!(tables[0][0][4], "spec.containers{one}");
    assert_eq!((&tables[0][0][8], &tables[0][1][8]), (&json!(3), &json!(7)));
}
