//! Requests: what a method, a path, a query and a body ask for.
//!
//! The first thing that happens to a request; everything after works on [`Call`]. Must stay true:
//! nothing below this module looks at URLs or headers.

use std::collections::BTreeMap;

use http::Method;
use serde_json::Value;

use crate::{
    rbac::Attributes,
    status::{Failure, FieldFault},
};

/// A request for objects.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// Empty: all namespaces, or a cluster-scoped kind.
    pub(crate) namespace: String,
    /// Empty: the collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: Query,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Route {
    /// `/version`.
    Version,
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/<version>` and `/apis/<group>/<version>`.
    Resources { group: String, version: String },
    /// Objects.
    Objects(Call),
    /// `/healthz`, `/livez`, `/readyz`.
    Health,
    /// `/openapi/v3` and what is below it: group and version, if any.
    OpenApi(Option<(String, String)>),
}

impl Call {
    /// What the authorizer is asked.
    pub(crate) fn attributes<'a>(&'a self, method: &Method) -> Attributes<'a> {
        // A list of one name is about that name.
        let name = if self.name.is_empty() {
            let fields = self.query.text("fieldSelector").split(',');
            let named = fields.filter_map(|part| part.strip_prefix("metadata.name="));
            named
                .map(|name| name.trim_start_matches('='))
                .next()
                .unwrap_or_default()
        } else {
            self.name.as_str()
        };
        let collection = self.name.is_empty();
        let verb = match method.as_str() {
            "GET" | "HEAD" if collection && self.query.flag("watch") => "watch",
            "GET" | "HEAD" if collection => "list",
            "GET" | "HEAD" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if collection => "deletecollection",
            "DELETE" => "delete",
            _ => "",
        };
        let is_namespace = self.group.is_empty() && self.plural == "namespaces";
        Attributes::Resource {
            verb,
            group: &self.group,
            resource: &self.plural,
            subresource: &self.subresource,
            namespace: if is_namespace {
                &self.name
            } else {
                &self.namespace
            },
            name,
        }
    }
}

/// The query, decoded; of repeated keys the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn read(query: &str) -> Self {
        let mut pairs = BTreeMap::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            pairs
                .entry(unescape(key))
                .or_insert_with(|| unescape(value));
        }
        Self(pairs)
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.text(key), "true" | "1")
    }

    /// A number, or nothing if the key is absent.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Failure> {
        let text = self.text(key);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            Failure::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))
        })
    }
}

/// `All` is the only dry run there is.
pub(crate) fn dry_run(text: &str) -> Result<bool, FieldFault> {
    match text {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            let stated = Value::Array(vec![other.into()]);
            Err(FieldFault::not_supported(
                "dryRun",
                &stated,
                &["All".into()],
            ))
        }
    }
}

/// Undoes `%XX` and `+`.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], escaped) {
            (_, Some(byte)) => {
                out.push(byte);
                at += 3;
                continue;
            }
            (b'+', None) => out.push(b' '),
            (byte, None) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads a path.
pub(crate) fn route(path: &str, query: &str) -> Result<Route, Failure> {
    let parts: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(unescape)
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["version"] => return Ok(Route::Version),
        ["healthz" | "livez" | "readyz", ..] => return Ok(Route::Health),
        ["openapi", "v3"] => return Ok(Route::OpenApi(None)),
        ["openapi", "v3", "api", version] => {
            return Ok(Route::OpenApi(Some((String::new(), (*version).to_owned()))));
        }
        ["openapi", "v3", "apis", group, version] => {
            let both = ((*group).to_owned(), (*version).to_owned());
            return Ok(Route::OpenApi(Some(both)));
        }
        ["api"] => return Ok(Route::Core),
        ["apis"] => return Ok(Route::Groups),
        ["apis", group] => return Ok(Route::Group((*group).to_owned())),
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Err(Failure::no_such_path()),
    };
    let (namespace, rest) = match rest {
        [] => {
            return Ok(Route::Resources {
                group: group.into(),
                version: version.into(),
            });
        }
        // `namespaces/<name>/<subresource>` is the namespace itself.
        ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        _ => return Err(Failure::no_such_path()),
    };
    Ok(Route::Objects(Call {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: subresource.into(),
        query: Query::read(query),
    }))
}

/// What is to be done with objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// The verb of a call.
pub(crate) fn verb(method: &Method, call: &Call) -> Result<Verb, Failure> {
    let collection = call.name.is_empty();
    match (method.as_str(), collection) {
        ("GET", true) if call.query.flag("watch") => Ok(Verb::Watch),
        ("GET", true) => Ok(Verb::List),
        ("GET", false) => Ok(Verb::Get),
        ("POST", true) => Ok(Verb::Create),
        ("PUT", false) => Ok(Verb::Update),
        ("PATCH", false) => Ok(Verb::Patch),
        ("DELETE", false) => Ok(Verb::Delete),
        ("DELETE", true) => Ok(Verb::DeleteCollection),
        ("PUT" | "PATCH", true) => Err(Failure::bad_request("name must be provided")),
        _ => Err(Failure::method_not_allowed(
            "the server does not allow this method on the requested resource",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(path: &str) -> (String, String, String, String, String) {
        match route(path, "") {
            Ok(Route::Objects(call)) => (
                call.group,
                call.plural,
                call.namespace,
                call.name,
                call.subresource,
            ),
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn paths_lead_to_objects_of_a_namespace_or_of_the_cluster() {
        let cases = [
            ("/api/v1/nodes/n", ("", "nodes", "", "n", "")),
            ("/api/v1/namespaces", ("", "namespaces", "", "", "")),
            ("/api/v1/namespaces/a", ("", "namespaces", "", "a", "")),
            (
                "/api/v1/namespaces/a/status",
                ("", "namespaces", "", "a", "status"),
            ),
            ("/api/v1/namespaces/a/pods", ("", "pods", "a", "", "")),
            (
                "/apis/x.io/v1/things/t/status",
                ("x.io", "things", "", "t", "status"),
            ),
            (
                "/apis/x.io/v1/namespaces/a/things/t/status",
                ("x.io", "things", "a", "t", "status"),
            ),
        ];
        for (path, want) in cases {
            let (group, plural, namespace, name, subresource) = objects(path);
            assert_eq!(
                (&*group, &*plural, &*namespace, &*name, &*subresource),
                want,
                "{path}"
            );
        }
    }

    #[test]
    fn escaped_characters_of_a_query_are_read() {
        let query = Query::read("labelSelector=a%3Db%2Cc+in+%28d%29&watch=true&limit=5");
        assert_eq!(query.text("labelSelector"), "a=b,c in (d)");
        assert!(query.flag("watch"));
        assert_eq!(query.number("limit").expect("a number"), Some(5));
        assert!(query.number("labelSelector").is_err());
    }
}
