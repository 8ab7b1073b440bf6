//! Roles, bindings, refusals and access reviews.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::bench::{
    API_VERSION, Bench, GROUP, User, assert_refused, client_as, config, object, refusal,
    widget_resource,
};

const RBAC: &str = "rbac.authorization.k8s.io";

fn access_kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: RBAC.into(),
        version: "v1".into(),
        api_version: format!("{RBAC}/v1"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// A user that no other case has.
fn somebody(bench: &Bench) -> User {
    User::new(&format!("user-{}", bench.namespace), &[])
}

fn widgets_of(client: &Client, bench: &Bench) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &bench.namespace, &widget_resource())
}

/// Makes a role and binds it to a subject, both in the case's namespace.
async fn allow(bench: &Bench, rules: Value, subject: Value) {
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": "some"}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "some"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "some"}, "subjects": [subject],
    });
    for (kind, plural, made) in [
        ("Role", "roles", role),
        ("RoleBinding", "rolebindings", binding),
    ] {
        let api: Api<DynamicObject> = Api::namespaced_with(
            bench.client.clone(),
            &bench.namespace,
            &access_kind(kind, plural),
        );
        api.create(&PostParams::default(), &object(&made))
            .await
            .expect("made");
    }
}

fn user_subject(user: &User) -> Value {
    json!({"apiGroup": RBAC, "kind": "User", "name": user.name})
}

fn rule(verbs: &[&str], resource: &str) -> Value {
    json!({"verbs": verbs, "apiGroups": [GROUP], "resources": [resource]})
}

/// Repeats until it is true: a real server's authorizer hears of a new role a moment later.
async fn until(mut is_true: impl AsyncFnMut() -> bool) {
    let limit = std::time::Duration::from_secs(30);
    tokio::time::timeout(limit, async {
        while !is_true().await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("allowed in time");
}

#[tokio::test]
async fn who_has_no_role_is_told_verb_resource_group_and_namespace() {
    let bench = Bench::new().await;
    let user = somebody(&bench);
    let client = client_as(&bench, &user);
    let refused = refusal(
        widgets_of(&client, &bench)
            .list(&ListParams::default())
            .await,
    );
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        refused.message,
        format!(
            "widgets.{GROUP} is forbidden: User {:?} cannot list resource \"widgets\" in API group {GROUP:?} in the namespace {:?}",
            user.name, bench.namespace
        )
    );
    let details = refused.details.expect("details");
    assert_eq!(
        (details.group.as_str(), details.kind.as_str()),
        (GROUP, "widgets")
    );
    assert_eq!(details.name, "");
}

#[tokio::test]
async fn a_refusal_about_one_object_names_it() {
    let bench = Bench::new().await;
    let user = somebody(&bench);
    let client = client_as(&bench, &user);
    let place = format!(
        "in API group {GROUP:?} in the namespace {:?}",
        bench.namespace
    );
    let widgets = widgets_of(&client, &bench);
    let message = format!(
        "widgets.{GROUP} \"one\" is forbidden: User {:?} cannot get resource \"widgets\" {place}",
        user.name
    );
    assert_refused(widgets.get("one").await, 403, "Forbidden", &message);
    let patch = Patch::Merge(json!({"status": {}}));
    let message = format!(
        "widgets.{GROUP} \"one\" is forbidden: User {:?} cannot patch resource \"widgets/status\" {place}",
        user.name
    );
    let answer = widgets
        .patch_status("one", &PatchParams::default(), &patch)
        .await;
    assert_refused(answer, 403, "Forbidden", &message);
}

#[tokio::test]
async fn a_refusal_in_the_whole_cluster_says_so_even_of_kinds_that_are_unknown() {
    let bench = Bench::new().await;
    let user = somebody(&bench);
    let client = client_as(&bench, &user);
    let racks: Api<DynamicObject> = Api::all_with(client.clone(), &super::bench::rack_resource());
    let message = format!(
        "racks.{GROUP} is forbidden: User {:?} cannot list resource \"racks\" in API group {GROUP:?} at the cluster scope",
        user.name
    );
    assert_refused(
        racks.list(&ListParams::default()).await,
        403,
        "Forbidden",
        &message,
    );
    let unknown = ApiResource {
        plural: "unknowns".into(),
        kind: "Unknown".into(),
        ..widget_resource()
    };
    let unknowns: Api<DynamicObject> = Api::all_with(client, &unknown);
    let message = format!(
        "unknowns.{GROUP} is forbidden: User {:?} cannot list",
        user.name
    );
    assert_refused(
        unknowns.list(&ListParams::default()).await,
        403,
        "Forbidden",
        &message,
    );
}

#[tokio::test]
async fn a_namespace_is_in_itself() {
    let bench = Bench::new().await;
    let user = somebody(&bench);
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client_as(&bench, &user));
    let name = &bench.namespace;
    let message = format!(
        "namespaces {name:?} is forbidden: User {:?} cannot get resource \"namespaces\" in API group \"\" in the namespace {name:?}",
        user.name
    );
    assert_refused(namespaces.get(name).await, 403, "Forbidden", &message);
}

#[tokio::test]
async fn a_role_gives_its_verbs_in_its_namespace_and_no_others() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let user = somebody(&bench);
    allow(
        &bench,
        json!([rule(&["get", "list"], "widgets")]),
        user_subject(&user),
    )
    .await;
    let client = client_as(&bench, &user);
    let widgets = widgets_of(&client, &bench);
    until(async || widgets.get("one").await.is_ok()).await;
    widgets.list(&ListParams::default()).await.expect("listed");
    let refused = widgets
        .delete("one", &kube::api::DeleteParams::default())
        .await;
    assert_refused(
        refused,
        403,
        "Forbidden",
        "cannot delete resource \"widgets\"",
    );
    let elsewhere: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &widget_resource());
    assert_refused(
        elsewhere.get("one").await,
        403,
        "Forbidden",
        "in the namespace \"default\"",
    );
    let status = widgets.get_status("one").await;
    assert_refused(
        status,
        403,
        "Forbidden",
        "cannot get resource \"widgets/status\"",
    );
}

#[tokio::test]
async fn a_role_for_names_gives_only_these_and_no_lists_but_of_one_name() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    bench.make("two", &json!({})).await;
    let user = somebody(&bench);
    let mut named = rule(&["get", "list"], "widgets");
    named["resourceNames"] = json!(["one"]);
    allow(&bench, json!([named]), user_subject(&user)).await;
    let widgets = widgets_of(&client_as(&bench, &user), &bench);
    until(async || widgets.get("one").await.is_ok()).await;
    assert_refused(
        widgets.get("two").await,
        403,
        "Forbidden",
        "\"two\" is forbidden",
    );
    assert_refused(
        widgets.list(&ListParams::default()).await,
        403,
        "Forbidden",
        "cannot list",
    );
    let one = ListParams::default().fields("metadata.name=one");
    assert_eq!(widgets.list(&one).await.expect("listed").items.len(), 1);
}

#[tokio::test]
async fn groups_and_service_accounts_are_subjects_too() {
    let bench = Bench::new().await;
    let group = format!("group-{}", bench.namespace);
    allow(
        &bench,
        json!([rule(&["list"], "widgets")]),
        json!({"apiGroup": RBAC, "kind": "Group", "name": group}),
    )
    .await;
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "account"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "some"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": bench.namespace}],
    });
    let bindings: Api<DynamicObject> = Api::namespaced_with(
        bench.client.clone(),
        &bench.namespace,
        &access_kind("RoleBinding", "rolebindings"),
    );
    bindings
        .create(&PostParams::default(), &object(&binding))
        .await
        .expect("bound");
    let member = User::new(&somebody(&bench).name, &[group.as_str()]);
    let robot = User::service_account(&bench.namespace, "robot");
    for user in [member, robot] {
        let widgets = widgets_of(&client_as(&bench, &user), &bench);
        until(async || widgets.list(&ListParams::default()).await.is_ok()).await;
    }
    let other = User::service_account(&bench.namespace, "other");
    let widgets = widgets_of(&client_as(&bench, &other), &bench);
    let message = format!(
        "User \"system:serviceaccount:{}:other\" cannot",
        bench.namespace
    );
    assert_refused(
        widgets.list(&ListParams::default()).await,
        403,
        "Forbidden",
        &message,
    );
}

#[tokio::test]
async fn applying_what_is_absent_takes_the_right_to_create() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let user = somebody(&bench);
    allow(
        &bench,
        json!([rule(&["patch"], "widgets")]),
        user_subject(&user),
    )
    .await;
    let widgets = widgets_of(&client_as(&bench, &user), &bench);
    let params = PatchParams::apply("someone");
    let patch = |name: &str| Patch::Apply(config(name, json!({"spec": {"size": 1}})));
    until(async || widgets.patch("one", &params, &patch("one")).await.is_ok()).await;
    let answer = widgets.patch("two", &params, &patch("two")).await;
    let message = format!(
        "widgets.{GROUP} \"two\" is forbidden: User {:?} cannot create resource \"widgets\"",
        user.name
    );
    assert_refused(answer, 403, "Forbidden", &message);
}

#[tokio::test]
async fn nobody_gives_what_they_do_not_have() {
    let bench = Bench::new().await;
    let user = somebody(&bench);
    let own = json!({"verbs": ["create", "patch"], "apiGroups": [RBAC], "resources": ["roles"]});
    allow(
        &bench,
        json!([own, rule(&["get"], "widgets")]),
        user_subject(&user),
    )
    .await;
    let roles: Api<DynamicObject> = Api::namespaced_with(
        client_as(&bench, &user),
        &bench.namespace,
        &access_kind("Role", "roles"),
    );
    let role = |name: &str, verbs: &[&str]| {
        object(&json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": name},
            "rules": [rule(verbs, "widgets")],
        }))
    };
    until(async || {
        roles
            .create(&PostParams::default(), &role("less", &["get"]))
            .await
            .is_ok()
    })
    .await;
    let refused = roles
        .create(
            &PostParams::default(),
            &role("more", &["get", "delete", "list"]),
        )
        .await;
    let message = format!(
        "roles.{RBAC} \"more\" is forbidden: user {:?} (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{{APIGroups:[{GROUP:?}], Resources:[\"widgets\"], Verbs:[\"delete\" \"list\"]}}",
        user.name
    );
    assert_refused(refused, 403, "Forbidden", &message);
}

#[tokio::test]
async fn roles_and_bindings_are_checked() {
    let bench = Bench::new().await;
    let roles: Api<DynamicObject> = Api::namespaced_with(
        bench.client.clone(),
        &bench.namespace,
        &access_kind("Role", "roles"),
    );
    let wrong = object(&json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": "wrong"},
        "rules": [{"verbs": [], "apiGroups": [""], "resources": []}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}],
    }));
    let refused = refusal(roles.create(&PostParams::default(), &wrong).await);
    assert_eq!(
        super::bench::causes(&refused),
        [
            ("FieldValueRequired".into(), "rules[0].verbs".into()),
            ("FieldValueRequired".into(), "rules[0].resources".into()),
            (
                "FieldValueInvalid".into(),
                "rules[1].nonResourceURLs".into()
            ),
        ]
    );
    let user = somebody(&bench);
    allow(
        &bench,
        json!([rule(&["get"], "widgets")]),
        user_subject(&user),
    )
    .await;
    let bindings: Api<DynamicObject> = Api::namespaced_with(
        bench.client.clone(),
        &bench.namespace,
        &access_kind("RoleBinding", "rolebindings"),
    );
    let patch = Patch::Merge(json!({"roleRef": {"kind": "ClusterRole"}}));
    let refused = bindings
        .patch("some", &PatchParams::default(), &patch)
        .await;
    assert_refused(refused, 422, "Invalid", "roleRef: Invalid value");
}

async fn review(client: &Client, kind: &str, spec: Value) -> Value {
    let (group, plural) = match kind {
        "SelfSubjectReview" => ("authentication.k8s.io", "selfsubjectreviews"),
        "SubjectAccessReview" => ("authorization.k8s.io", "subjectaccessreviews"),
        _ => ("authorization.k8s.io", "selfsubjectaccessreviews"),
    };
    let body = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
    let request = http::Request::post(format!("/apis/{group}/v1/{plural}"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&body).expect("JSON"))
        .expect("a request");
    let answer: Value = client.request(request).await.expect("an answer");
    answer["status"].clone()
}

#[tokio::test]
async fn reviews_say_who_asks_and_what_is_allowed_and_why() {
    let bench = Bench::new().await;
    let user = User::new(&somebody(&bench).name, &["some-group"]);
    allow(
        &bench,
        json!([rule(&["get"], "widgets")]),
        user_subject(&user),
    )
    .await;
    let client = client_as(&bench, &user);
    let me = review(&client, "SelfSubjectReview", json!({})).await;
    assert_eq!(
        (&me["userInfo"]["username"], &me["userInfo"]["groups"]),
        (
            &json!(user.name),
            &json!(["some-group", "system:authenticated"])
        )
    );
    let asked = |verb: &str| {
        json!({"resourceAttributes": {
            "verb": verb, "group": GROUP, "resource": "widgets", "namespace": bench.namespace,
        }})
    };
    let may_get = asked("get");
    until(async || {
        review(&client, "SelfSubjectAccessReview", may_get.clone()).await["allowed"] == json!(true)
    })
    .await;
    assert_eq!(
        review(&client, "SelfSubjectAccessReview", may_get).await["reason"],
        format!(
            "RBAC: allowed by RoleBinding \"some/{}\" of Role \"some\" to User {:?}",
            bench.namespace, user.name
        )
    );
    let not = review(&client, "SelfSubjectAccessReview", asked("delete")).await;
    assert_eq!(not["allowed"], json!(false));
    let mut about = asked("get");
    about["user"] = user.name.clone().into();
    let other = review(&bench.client, "SubjectAccessReview", about).await;
    assert_eq!(other["allowed"], json!(true));
}

#[tokio::test]
async fn everybody_may_discover_and_paths_are_refused_in_words_of_their_own() {
    let bench = Bench::new().await;
    let client = client_as(&bench, &somebody(&bench));
    client.apiserver_version().await.expect("the version");
    client
        .list_api_group_resources(API_VERSION)
        .await
        .expect("the resources");
    let request = http::Request::get("/nowhere")
        .body(Vec::new())
        .expect("a request");
    let message = format!(
        "forbidden: User {:?} cannot get path \"/nowhere\"",
        somebody(&bench).name
    );
    assert_refused(
        client.request::<Value>(request).await,
        403,
        "Forbidden",
        &message,
    );
}

#[tokio::test]
async fn a_secrets_plain_text_is_stored_encoded() {
    let bench = Bench::new().await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(bench.client.clone(), &bench.namespace);
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}});
    let secret = serde_json::from_value(secret).expect("a secret");
    let made = secrets
        .create(&PostParams::default(), &secret)
        .await
        .expect("made");
    assert_eq!(made.type_.as_deref(), Some("Opaque"));
    assert_eq!(made.data.expect("data")["a"].0, b"b");
    assert!(made.string_data.is_none());
}
