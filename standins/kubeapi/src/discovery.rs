//! Discovery: which groups, versions and resources there are.
//!
//! Asked by kubectl and by `kube::discovery`, in the old form (one document per group) and in the
//! aggregated one (`as=APIGroupDiscoveryList`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    kinds::{Kind, Kinds},
    openapi,
    request::Route,
    status::Failure,
    store::Store,
};

const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The content type of aggregated discovery.
pub(crate) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The document behind a path.
pub(crate) fn document(store: &Store, route: &Route, accept: &str) -> Result<Value, Failure> {
    let kinds = &store.kinds;
    let aggregated = accept.contains("as=APIGroupDiscoveryList");
    match route {
        Route::Version => Ok(version()),
        Route::Core if aggregated => Ok(aggregate(kinds, true)),
        Route::Groups if aggregated => Ok(aggregate(kinds, false)),
        Route::Core => Ok(json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
        })),
        Route::Groups => {
            let groups: Vec<_> = groups(kinds)
                .iter()
                .filter(|(group, _)| !group.is_empty())
                .map(|(group, versions)| group_document(group, versions))
                .collect();
            Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Route::Group(group) => {
            let groups = groups(kinds);
            let versions = groups.get(group.as_str()).filter(|_| !group.is_empty());
            let mut document = group_document(group, versions.ok_or_else(Failure::no_such_path)?);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            Ok(document)
        }
        Route::OpenApi(of) => openapi::document(kinds, of.as_ref()),
        Route::Resources { group, version } => resources(kinds, group, version),
        Route::Objects(_) | Route::Health => Err(Failure::no_such_path()),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.4+causeway", "gitCommit": "", "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": "linux/amd64", "emulationMajor": "1", "emulationMinor": "34",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "33",
    })
}

/// The versions of each group, in the order their kinds list them.
fn groups(kinds: &Kinds) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds.all() {
        let versions = groups.entry(&kind.resource.group).or_default();
        if !versions.contains(&kind.version.as_str()) {
            versions.push(&kind.version);
        }
    }
    groups
}

fn group_document(group: &str, versions: &[&str]) -> Value {
    let of =
        |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    json!({
        "name": group,
        "versions": versions.iter().map(of).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(of),
    })
}

fn in_version<'a>(
    kinds: &'a Kinds,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Kind> {
    kinds
        .all()
        .filter(move |kind| kind.resource.group == group && kind.version == version)
        .map(|kind| &**kind)
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Result<Value, Failure> {
    let mut list = Vec::new();
    for kind in in_version(kinds, group, version) {
        let mut main = json!({
            "name": kind.resource.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.name, "verbs": kind.nature.verbs(),
        });
        if !kind.short_names.is_empty() {
            main["shortNames"] = kind.short_names.clone().into();
        }
        if !kind.categories.is_empty() {
            main["categories"] = kind.categories.clone().into();
        }
        list.push(main);
        if kind.has_status {
            list.push(json!({
                "name": format!("{}/status", kind.resource.plural), "singularName": "",
                "namespaced": kind.namespaced, "kind": kind.name, "verbs": STATUS_VERBS,
            }));
        }
        if kind.scale.is_some() {
            list.push(json!({
                "name": format!("{}/scale", kind.resource.plural), "singularName": "",
                "namespaced": kind.namespaced, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": STATUS_VERBS,
            }));
        }
    }
    if list.is_empty() {
        return Err(Failure::no_such_path());
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list,
    }))
}

fn aggregate(kinds: &Kinds, core: bool) -> Value {
    let groups = groups(kinds);
    let items: Vec<_> = groups
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<_> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<_> = in_version(kinds, group, version)
                        .map(aggregated_resource)
                        .collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if group.is_empty() {
                json!({})
            } else {
                json!({"name": group})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response =
        json!({"group": kind.resource.group, "version": kind.version, "kind": kind.name});
    let mut resource = json!({
        "resource": kind.resource.plural,
        "responseKind": response,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.nature.verbs(),
        "shortNames": kind.short_names,
        "categories": kind.categories,
    });
    let mut parts = Vec::new();
    if kind.has_status {
        parts.push(
            json!({"subresource": "status", "responseKind": response, "verbs": STATUS_VERBS}),
        );
    }
    if kind.scale.is_some() {
        let response = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        parts
            .push(json!({"subresource": "scale", "responseKind": response, "verbs": STATUS_VERBS}));
    }
    if !parts.is_empty() {
        resource["subresources"] = parts.into();
    }
    resource
}
