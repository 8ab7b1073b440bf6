//! CEL rules of a CRD: what they refuse, and in which words.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    bench::{Bench, assert_refused, causes, refusal},
    own::Own,
};

/// A kind with one rule on its spec, which has the usual fields.
async fn ruled(bench: &Bench, rule: Value) -> Own {
    let mut spec = fields();
    spec["x-kubernetes-validations"] = json!([rule]);
    bench.define(spec).await
}

pub fn fields() -> Value {
    json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "most": {"type": "integer"},
            "weight": {"type": "number"},
            "name": {"type": "string", "maxLength": 40},
            "on": {"type": "boolean"},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 8, "items": {"type": "string", "maxLength": 40}},
            "order": {"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 40}},
            "limits": {"type": "object", "maxProperties": 8, "additionalProperties": {"type": "string", "maxLength": 40}},
            "a-b": {"type": "string"},
            "namespace": {"type": "string"},
            "port": {"x-kubernetes-int-or-string": true},
            "when": {"type": "string", "format": "date-time"},
            "parts": {
                "type": "array", "maxItems": 8, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "count": {"type": "integer"},
                }},
            },
        },
    })
}

/// Specs that a rule lets through and specs that it refuses.
async fn assert_rule(rule: &str, good: &[Value], bad: &[Value]) {
    let bench = Bench::new().await;
    let own = ruled(&bench, json!({"rule": rule, "message": "no"})).await;
    for (index, spec) in good.iter().enumerate() {
        let made = own.make(&format!("good-{index}"), spec.clone()).await;
        assert!(made.is_ok(), "{rule}: {spec}: {made:?}");
    }
    for spec in bad {
        let status = refusal(own.make("bad", spec.clone()).await);
        assert_eq!(
            (status.code, status.reason.as_str()),
            (422, "Invalid"),
            "{rule}: {spec}"
        );
        assert!(
            status
                .message
                .ends_with("is invalid: spec: Invalid value: \"object\": no"),
            "{rule}: {spec}: {:?}",
            status.message
        );
        assert_eq!(
            causes(&status),
            [("FieldValueInvalid".into(), "spec".into())]
        );
    }
}

#[tokio::test]
async fn numbers_are_compared() {
    let rule = "!has(self.most) || self.size <= self.most";
    assert_rule(
        rule,
        &[json!({"size": 1, "most": 1}), json!({"size": 9})],
        &[json!({"size": 2, "most": 1})],
    )
    .await;
}

#[tokio::test]
async fn a_whole_number_counts_as_a_number() {
    assert_rule(
        "self.weight > 0.5",
        &[json!({"weight": 1}), json!({"weight": 0.75})],
        &[json!({"weight": 0})],
    )
    .await;
}

#[tokio::test]
async fn strings_have_their_functions() {
    assert_rule(
        "self.name.startsWith('vm-') && self.name.size() < 6 && self.name.matches('^[a-z-]+$')",
        &[json!({"name": "vm-a"})],
        &[
            json!({"name": "pod"}),
            json!({"name": "vm-abcd"}),
            json!({"name": "vm-1"}),
        ],
    )
    .await;
}

#[tokio::test]
async fn lists_are_searched() {
    assert_rule(
        "self.order.all(o, o.size() > 1) && self.order.exists(o, o == 'ab') && self.order.exists_one(o, o == 'cd')",
        &[json!({"order": ["ab", "cd"]})],
        &[json!({"order": ["ab"]}), json!({"order": ["ab", "cd", "c"]}), json!({"order": ["ab", "cd", "cd"]})],
    )
    .await;
}

#[tokio::test]
async fn lists_are_filtered_and_mapped() {
    assert_rule(
        "self.parts.filter(p, p.count > 1).map(p, p.name) == ['b']",
        &[json!({"parts": [{"name": "a", "count": 1}, {"name": "b", "count": 2}]})],
        &[json!({"parts": [{"name": "a", "count": 2}]})],
    )
    .await;
}

#[tokio::test]
async fn maps_are_searched_by_key() {
    assert_rule(
        "'cpu' in self.limits && self.limits['cpu'] == '1' && self.limits.all(k, k != 'gpu')",
        &[json!({"limits": {"cpu": "1"}})],
        &[
            json!({"limits": {"mem": "1"}}),
            json!({"limits": {"cpu": "2"}}),
            json!({"limits": {"cpu": "1", "gpu": "1"}}),
        ],
    )
    .await;
}

#[tokio::test]
async fn field_names_that_cel_cannot_say_are_escaped() {
    assert_rule(
        "self.a__dash__b == 'x' && self.__namespace__ == 'y'",
        &[json!({"a-b": "x", "namespace": "y"})],
        &[json!({"a-b": "y", "namespace": "y"})],
    )
    .await;
}

#[tokio::test]
async fn addresses_and_networks_are_understood() {
    assert_rule(
        "isCIDR(self.name) && cidr(self.name).prefixLength() == 24 && cidr(self.name).containsIP('10.0.0.1')",
        &[json!({"name": "10.0.0.0/24"})],
        &[json!({"name": "10.0.0.0/25"}), json!({"name": "x"}), json!({"name": "10.0.1.0/24"})],
    )
    .await;
}

#[tokio::test]
async fn quantities_are_understood() {
    assert_rule(
        "quantity(self.name).isLessThan(quantity('1Gi'))",
        &[json!({"name": "512Mi"})],
        &[json!({"name": "2Gi"})],
    )
    .await;
}

#[tokio::test]
async fn what_is_an_int_or_a_string_is_asked_for_its_type() {
    assert_rule(
        "type(self.port) == int ? self.port < 100 : self.port == 'web'",
        &[json!({"port": 80}), json!({"port": "web"})],
        &[json!({"port": 443}), json!({"port": "dns"})],
    )
    .await;
}

#[tokio::test]
async fn times_are_compared() {
    assert_rule(
        "self.when > timestamp('2026-01-01T00:00:00Z')",
        &[json!({"when": "2026-06-01T00:00:00Z"})],
        &[json!({"when": "2025-06-01T00:00:00Z"})],
    )
    .await;
}

#[tokio::test]
async fn either_side_of_an_or_may_be_absent() {
    assert_rule(
        "self.size > 5 || self.on",
        &[json!({"on": true}), json!({"size": 6})],
        &[json!({"size": 5, "on": false})],
    )
    .await;
}

#[tokio::test]
async fn an_absent_field_that_a_rule_asks_for_refuses() {
    let bench = Bench::new().await;
    let own = ruled(
        &bench,
        json!({"rule": "self.size > 1", "message": "too small"}),
    )
    .await;
    assert_refused(
        own.make("one", json!({})).await,
        422,
        "Invalid",
        "spec: Invalid value: \"object\": no such key: size evaluating rule: too small",
    );
}

#[tokio::test]
async fn a_rule_without_a_message_is_shown_itself() {
    let bench = Bench::new().await;
    let own = ruled(&bench, json!({"rule": "self.size > 1"})).await;
    assert_refused(
        own.make("one", json!({"size": 1})).await,
        422,
        "Invalid",
        "spec: Invalid value: \"object\": failed rule: self.size > 1",
    );
}

#[tokio::test]
async fn a_message_can_be_an_expression() {
    let bench = Bench::new().await;
    let rule = json!({
        "rule": "self.size <= 3", "message": "static",
        "messageExpression": "'the size of ' + self.name + ' is more than 3'",
    });
    let own = ruled(&bench, rule).await;
    assert_refused(
        own.make("one", json!({"size": 4, "name": "this"})).await,
        422,
        "Invalid",
        "spec: Invalid value: \"object\": the size of this is more than 3",
    );
}

#[tokio::test]
async fn a_message_that_cannot_be_made_gives_way_to_the_static_one() {
    let bench = Bench::new().await;
    let rule = json!({
        "rule": "self.size <= 3", "message": "static", "messageExpression": "self.name",
    });
    let own = ruled(&bench, rule).await;
    assert_refused(
        own.make("one", json!({"size": 4})).await,
        422,
        "Invalid",
        "spec: Invalid value: \"object\": static",
    );
}

#[tokio::test]
async fn reason_and_field_of_a_refusal_are_the_rules_own() {
    for (reason, message) in [
        ("FieldValueForbidden", "spec.size: Forbidden: no"),
        ("FieldValueRequired", "spec.size: Required value: no"),
        (
            "FieldValueDuplicate",
            "spec.size: Duplicate value: \"object\"",
        ),
        (
            "FieldValueInvalid",
            "spec.size: Invalid value: \"object\": no",
        ),
    ] {
        let bench = Bench::new().await;
        let rule = json!({"rule": "self.size > 1", "message": "no", "reason": reason, "fieldPath": ".size"});
        let own = ruled(&bench, rule).await;
        let status = refusal(own.make("one", json!({"size": 1})).await);
        assert!(status.message.ends_with(message), "{:?}", status.message);
        assert_eq!(causes(&status), [(reason.into(), "spec.size".into())]);
    }
}

#[tokio::test]
async fn every_broken_rule_is_told() {
    let bench = Bench::new().await;
    let mut spec = fields();
    spec["x-kubernetes-validations"] = json!([
        {"rule": "self.size > 1", "message": "one"}, {"rule": "self.size > 2", "message": "two"},
    ]);
    spec["properties"]["size"]["x-kubernetes-validations"] =
        json!([{"rule": "self > 3", "message": "three"}]);
    let own = bench.define(spec).await;
    let status = refusal(own.make("one", json!({"size": 1})).await);
    assert!(
        status.message.ends_with("[spec: Invalid value: \"object\": one, spec: Invalid value: \"object\": two, spec.size: Invalid value: \"integer\": three]"),
        "{:?}",
        status.message
    );
}

#[tokio::test]
async fn rules_stand_at_elements_and_at_map_values() {
    let bench = Bench::new().await;
    let mut spec = fields();
    let properties = &mut spec["properties"];
    properties["order"]["items"]["x-kubernetes-validations"] =
        json!([{"rule": "self != 'x'", "message": "no x"}]);
    properties["parts"]["items"]["x-kubernetes-validations"] =
        json!([{"rule": "!has(self.count) || self.count > 0", "message": "none"}]);
    properties["limits"]["additionalProperties"]["x-kubernetes-validations"] =
        json!([{"rule": "self.size() < 3", "message": "long"}]);
    let own = bench.define(spec).await;
    for (spec, message) in [
        (
            json!({"order": ["a", "x"]}),
            "spec.order[1]: Invalid value: \"string\": no x",
        ),
        (
            json!({"parts": [{"name": "a", "count": 0}]}),
            "spec.parts[0]: Invalid value: \"object\": none",
        ),
        (
            json!({"limits": {"k": "abc"}}),
            "spec.limits[k]: Invalid value: \"string\": long",
        ),
    ] {
        assert_refused(own.make("one", spec).await, 422, "Invalid", message);
    }
    own.make(
        "good",
        json!({"order": ["a"], "parts": [{"name": "a"}], "limits": {"k": "a"}}),
    )
    .await
    .expect("nothing is wrong");
}

#[tokio::test]
async fn a_rule_at_the_root_sees_the_objects_name() {
    let bench = Bench::new().await;
    let schema = json!({
        "type": "object",
        "properties": {"spec": fields()},
        "x-kubernetes-validations": [{"rule": "self.metadata.name.size() <= 5", "message": "name too long"}],
    });
    let own = bench.define_whole(schema, json!({})).await;
    own.make("short", json!({})).await.expect("short enough");
    let status = refusal(own.make("longer", json!({})).await);
    assert!(
        status
            .message
            .ends_with("is invalid: <nil>: Invalid value: \"object\": name too long"),
        "{:?}",
        status.message
    );
}

#[tokio::test]
async fn rules_are_asked_after_defaults() {
    let bench = Bench::new().await;
    let mut spec = fields();
    spec["properties"]["size"]["default"] = json!(7);
    spec["x-kubernetes-validations"] = json!([{"rule": "self.size < 7", "message": "no"}]);
    let own = bench.define(spec).await;
    assert_refused(
        own.make("one", json!({})).await,
        422,
        "Invalid",
        "spec: Invalid value: \"object\": no",
    );
}

#[tokio::test]
async fn rules_are_not_asked_where_the_shape_is_wrong() {
    let bench = Bench::new().await;
    let own = ruled(&bench, json!({"rule": "self.size > 1", "message": "no"})).await;
    let status = refusal(own.make("one", json!({"size": "x"})).await);
    assert!(
        status.message.contains("spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"")
            && status.message.ends_with("<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"),
        "{:?}",
        status.message
    );
}

async fn changed(own: &Own, patch: Value) -> Result<kube::api::DynamicObject, kube::Error> {
    own.api
        .patch("one", &PatchParams::default(), &Patch::Merge(&patch))
        .await
}

#[tokio::test]
async fn a_rule_about_the_old_value_is_asked_on_updates_only() {
    let bench = Bench::new().await;
    let own = ruled(
        &bench,
        json!({"rule": "self.size >= oldSelf.size", "message": "only up"}),
    )
    .await;
    own.make("one", json!({"size": 3}))
        .await
        .expect("there is no old value");
    changed(&own, json!({"spec": {"size": 4}}))
        .await
        .expect("up");
    assert_refused(
        changed(&own, json!({"spec": {"size": 2}})).await,
        422,
        "Invalid",
        "spec: Invalid value: \"object\": only up",
    );
}

#[tokio::test]
async fn an_immutable_field_can_be_set_once() {
    let bench = Bench::new().await;
    let mut spec = fields();
    spec["properties"]["name"]["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf", "message": "immutable"}]);
    let own = bench.define(spec).await;
    own.make("one", json!({})).await.expect("made");
    changed(&own, json!({"spec": {"name": "a"}}))
        .await
        .expect("set once");
    assert_refused(
        changed(&own, json!({"spec": {"name": "b"}})).await,
        422,
        "Invalid",
        "spec.name: Invalid value: \"string\": immutable",
    );
    changed(&own, json!({"spec": {"name": null}}))
        .await
        .expect("nothing to be asked about");
}

#[tokio::test]
async fn an_immutable_set_may_change_its_order() {
    let bench = Bench::new().await;
    let own = ruled(
        &bench,
        json!({"rule": "self.tags == oldSelf.tags", "message": "immutable"}),
    )
    .await;
    own.make("one", json!({"tags": ["a", "b"]}))
        .await
        .expect("made");
    changed(&own, json!({"spec": {"tags": ["b", "a"]}}))
        .await
        .expect("the same set");
    assert_refused(
        changed(&own, json!({"spec": {"tags": ["b"]}})).await,
        422,
        "Invalid",
        "immutable",
    );
}

#[tokio::test]
async fn an_optional_old_value_is_asked_about_on_creation_too() {
    let bench = Bench::new().await;
    let rule = json!({
        "rule": "oldSelf.hasValue() ? self.size >= oldSelf.value().size : self.size == 0",
        "message": "from zero up", "optionalOldSelf": true,
    });
    let own = ruled(&bench, rule).await;
    assert_refused(
        own.make("one", json!({"size": 1})).await,
        422,
        "Invalid",
        "from zero up",
    );
    own.make("one", json!({"size": 0})).await.expect("zero");
    changed(&own, json!({"spec": {"size": 1}}))
        .await
        .expect("up");
    assert_refused(
        changed(&own, json!({"spec": {"size": 0}})).await,
        422,
        "Invalid",
        "from zero up",
    );
}

#[tokio::test]
async fn optional_fields_are_chained() {
    assert_rule(
        "self.?limits[?'cpu'].orValue('0') == '0' && self.?size.orValue(1) == 1",
        &[json!({}), json!({"size": 1, "limits": {"mem": "2"}})],
        &[json!({"size": 2}), json!({"limits": {"cpu": "1"}})],
    )
    .await;
}

#[tokio::test]
async fn elements_of_a_list_map_have_their_old_value() {
    let bench = Bench::new().await;
    let mut spec = fields();
    spec["properties"]["parts"]["items"]["x-kubernetes-validations"] =
        json!([{"rule": "self.count == oldSelf.count", "message": "count is fixed"}]);
    let own = bench.define(spec).await;
    own.make("one", json!({"parts": [{"name": "a", "count": 1}]}))
        .await
        .expect("made");
    changed(
        &own,
        json!({"spec": {"parts": [{"name": "b", "count": 2}, {"name": "a", "count": 1}]}}),
    )
    .await
    .expect("a new one and a moved one");
    assert_refused(
        changed(
            &own,
            json!({"spec": {"parts": [{"name": "b", "count": 2}, {"name": "a", "count": 2}]}}),
        )
        .await,
        422,
        "Invalid",
        "spec.parts[1]: Invalid value: \"object\": count is fixed",
    );
}

#[tokio::test]
async fn what_was_wrong_before_a_rule_came_may_stay_while_it_is_unchanged() {
    let bench = Bench::new().await;
    let own = bench.define(fields()).await;
    own.make("one", json!({"size": 9, "most": 1}))
        .await
        .expect("no rule yet");
    let mut definition = json!({"spec": {"versions": [{
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": fields()}}},
    }]}});
    let spec =
        &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["size"]["x-kubernetes-validations"] =
        json!([{"rule": "self < 5", "message": "too big"}]);
    let definitions: kube::Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
        kube::Api::all(bench.client.clone());
    let name = format!("{}.{}", own.resource.plural, own.resource.group);
    definitions
        .patch(&name, &PatchParams::default(), &Patch::Merge(&definition))
        .await
        .expect("the rule");
    // The real server takes the new rule a moment later.
    let limit = std::time::Duration::from_secs(30);
    tokio::time::timeout(limit, async {
        while own.make("probe", json!({"size": 9})).await.is_ok() {
            own.api
                .delete("probe", &kube::api::DeleteParams::default())
                .await
                .expect("removed");
        }
    })
    .await
    .expect("the rule is in force in time");
    changed(&own, json!({"spec": {"most": 2}}))
        .await
        .expect("the size is as it was");
    assert_refused(
        changed(&own, json!({"spec": {"size": 8}})).await,
        422,
        "Invalid",
        "too big",
    );
    changed(&own, json!({"spec": {"size": 4}}))
        .await
        .expect("mended");
}
