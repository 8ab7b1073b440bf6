//! One rule of a role (`PolicyRule`): what it allows, and whether rules cover another.

use serde_json::{Value, json};

use super::Attributes;
use crate::object::strings;

/// Whether a rule allows what is asked.
pub(crate) fn allows(rule: &Value, asked: &Attributes<'_>) -> bool {
    let has = |field: &str, wanted: &str| {
        strings(rule.get(field))
            .iter()
            .any(|&one| one == "*" || one == wanted)
    };
    match *asked {
        Attributes::Path { verb, path } => {
            has("verbs", verb)
                && strings(rule.get("nonResourceURLs"))
                    .iter()
                    .any(|url| url_covers(url, path))
        }
        Attributes::Resource {
            verb,
            group,
            resource,
            subresource,
            name,
            ..
        } => {
            let names = strings(rule.get("resourceNames"));
            has("verbs", verb)
                && has("apiGroups", group)
                && strings(rule.get("resources"))
                    .iter()
                    .any(|one| resource_covers(one, resource, subresource))
                && (names.is_empty() || names.contains(&name))
        }
    }
}

fn url_covers(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(start) => path.starts_with(start.trim_end_matches('*')),
        None => rule == path,
    }
}

fn resource_covers(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    match rule.split_once('/') {
        Some((of, part)) => part == subresource && (of == "*" || of == resource),
        None => false,
    }
}

/// The parts of a rule that `owned` rules do not cover, as `k8s.io/component-helpers`'s
/// `rule.Covers` breaks them down: one verb on one resource of one group each.
pub(crate) fn uncovered(rule: &Value, owned: &[Value]) -> Vec<Value> {
    let mut missing = Vec::new();
    for part in parts(rule) {
        if !owned.iter().any(|own| covers(own, &part)) {
            missing.push(part);
        }
    }
    missing
}

fn parts(rule: &Value) -> Vec<Value> {
    let list = |field: &str| strings(rule.get(field));
    let mut all = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            for verb in list("verbs") {
                let part = json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
                let names = list("resourceNames");
                if names.is_empty() {
                    all.push(part);
                    continue;
                }
                for name in names {
                    let mut part = part.clone();
                    part["resourceNames"] = json!([name]);
                    all.push(part);
                }
            }
        }
    }
    for url in list("nonResourceURLs") {
        for verb in list("verbs") {
            all.push(json!({"nonResourceURLs": [url], "verbs": [verb]}));
        }
    }
    all
}

fn covers(own: &Value, part: &Value) -> bool {
    let first = |field: &str| {
        strings(part.get(field))
            .first()
            .copied()
            .unwrap_or_default()
    };
    if let Some(url) = strings(part.get("nonResourceURLs")).first().copied() {
        let asked = Attributes::Path {
            verb: first("verbs"),
            path: url,
        };
        return allows(own, &asked);
    }
    let (resource, subresource) = first("resources")
        .split_once('/')
        .unwrap_or((first("resources"), ""));
    let asked = Attributes::Resource {
        verb: first("verbs"),
        group: first("apiGroups"),
        resource,
        subresource,
        namespace: "",
        name: first("resourceNames"),
    };
    // A rule for some names does not cover one for all.
    let for_all = part.get("resourceNames").is_none();
    allows(own, &asked) && (!for_all || strings(own.get("resourceNames")).is_empty())
}

/// Parts of one resource as one rule with several verbs.
pub(crate) fn merged(parts: Vec<Value>) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for part in parts {
        let whose = |rule: &Value| {
            ["apiGroups", "resources", "resourceNames", "nonResourceURLs"]
                .map(|field| rule.get(field).cloned())
        };
        let same = rules.iter_mut().find(|rule| {
            whose(rule) == whose(&part)
                && rule.get("resourceNames").is_none()
                && rule.get("resources").is_some()
        });
        match same.and_then(|rule| rule["verbs"].as_array_mut()) {
            Some(verbs) => verbs.extend(part["verbs"].as_array().into_iter().flatten().cloned()),
            None => rules.push(part),
        }
    }
    rules
}

/// A rule in one line, as messages show it.
pub(crate) fn compact(rule: &Value) -> String {
    let shown: Vec<String> = [
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    ]
    .iter()
    .filter_map(|(label, field)| {
        let list = strings(rule.get(*field));
        let quoted: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
        (!list.is_empty()).then(|| format!("{label}:[{}]", quoted.join(" ")))
    })
    .collect();
    format!("{{{}}}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<'a>(
        verb: &'a str,
        resource: &'a str,
        subresource: &'a str,
        name: &'a str,
    ) -> Attributes<'a> {
        Attributes::Resource {
            verb,
            group: "x.io",
            resource,
            subresource,
            namespace: "n",
            name,
        }
    }

    #[test]
    fn rules_allow_what_their_verbs_groups_resources_and_names_say() {
        let rule = json!({
            "verbs": ["get"], "apiGroups": ["x.io"], "resources": ["things", "*/scale", "others/status"],
        });
        let cases = [
            ("get", "things", "", true),
            ("list", "things", "", false),
            ("get", "things", "status", false),
            ("get", "others", "status", true),
            ("get", "others", "", false),
            ("get", "things", "scale", true),
        ];
        for (verb, resource, subresource, want) in cases {
            let found = allows(&rule, &asked(verb, resource, subresource, "a"));
            assert_eq!(found, want, "{verb} {resource}/{subresource}");
        }
        let named = json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"],
        });
        assert!(allows(&named, &asked("get", "things", "status", "a")));
        assert!(!allows(&named, &asked("get", "things", "", "b")));
        assert!(!allows(&named, &asked("list", "things", "", "")));
    }

    #[test]
    fn paths_are_allowed_whole_or_by_their_beginning() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/version", "/api/*"]});
        let path = |path| Attributes::Path { verb: "get", path };
        assert!(allows(&rule, &path("/version")));
        assert!(allows(&rule, &path("/api/v1")));
        assert!(!allows(&rule, &path("/api")));
        assert!(!allows(&rule, &path("/versions")));
    }

    #[test]
    fn what_a_rule_gives_beyond_others_is_found_part_by_part() {
        let own =
            [json!({"verbs": ["get", "list"], "apiGroups": ["x.io"], "resources": ["things"]})];
        let wanted = json!({
            "verbs": ["get", "delete"], "apiGroups": ["x.io"], "resources": ["things"],
        });
        let missing: Vec<_> = uncovered(&wanted, &own).iter().map(compact).collect();
        assert_eq!(
            missing,
            ["{APIGroups:[\"x.io\"], Resources:[\"things\"], Verbs:[\"delete\"]}"]
        );
    }
}
