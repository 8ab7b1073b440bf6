//! Label and field selectors.
//!
//! Parsed once per request, asked for every object of a list and every change of a watch.

use serde_json::Value;

use crate::{
    events,
    kinds::{Kind, Nature},
    status::Failure,
};

/// Which objects a list or a watch is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    /// Field, whether it must differ, value.
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

/// Whether a label selector in its JSON form (`matchLabels`, `matchExpressions`) matches.
pub(crate) fn matches_labels(selector: &Value, object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    let label = |key: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .and_then(Value::as_str)
    };
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let equals = |(key, value): (&String, &Value)| label(key) == value.as_str();
    equal.into_iter().flatten().all(equals)
        && expressions.into_iter().flatten().all(|expression| {
            let text = |field| {
                expression
                    .get(field)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let values = crate::object::strings(expression.get("values"));
            let values = values.into_iter().map(str::to_owned).collect();
            let rule = match text("operator") {
                "In" => Rule::In(values),
                "NotIn" => Rule::NotIn(values),
                "Exists" => Rule::Exists,
                "DoesNotExist" => Rule::Absent,
                _ => return false,
            };
            rule.holds(label(text("key")))
        })
}

impl Selector {
    pub(crate) fn read(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Failure> {
        let labels = split(labels)
            .into_iter()
            .map(|part| requirement(&part))
            .collect::<Result<_, _>>()?;
        let fields = split(fields)
            .into_iter()
            .map(|part| field(kind, &part))
            .collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let label = |key: &str| {
            labels
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str)
        };
        self.labels
            .iter()
            .all(|requirement| requirement.rule.holds(label(&requirement.key)))
            && self
                .fields
                .iter()
                .all(|(field, differs, value)| (field_value(object, field) == value) != *differs)
    }
}

fn field_value<'a>(object: &'a Value, field: &str) -> &'a str {
    if field == "source.component" {
        return events::source(object);
    }
    let pointer = format!("/{}", field.replace('.', "/"));
    object
        .pointer(&pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl Rule {
    fn holds(&self, label: Option<&str>) -> bool {
        let number = || label.and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::Exists => label.is_some(),
            Self::Absent => label.is_none(),
            Self::In(values) => {
                label.is_some_and(|label| values.iter().any(|value| value == label))
            }
            Self::NotIn(values) => {
                label.is_none_or(|label| values.iter().all(|value| value != label))
            }
            Self::Above(than) => number().is_some_and(|number| number > *than),
            Self::Below(than) => number().is_some_and(|number| number < *than),
        }
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts
        .into_iter()
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

fn requirement(part: &str) -> Result<Requirement, Failure> {
    let broken = || {
        Failure::bad_request(format!(
            "unable to parse requirement: found {part:?}, which is no label selector"
        ))
    };
    let of = |key: &str, rule: Rule| {
        let key = key.trim();
        let word = !key.is_empty()
            && !key.contains(|letter: char| letter.is_whitespace() || "()!=<>".contains(letter));
        word.then(|| Requirement {
            key: key.to_owned(),
            rule,
        })
        .ok_or_else(broken)
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = part.split_once("!=") {
        return of(key, Rule::NotIn(one(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return of(key, Rule::In(one(value)));
    }
    if let Some(key) = part.strip_prefix('!') {
        return of(key, Rule::Absent);
    }
    for (sign, rule) in [('>', Rule::Above as fn(i64) -> Rule), ('<', Rule::Below)] {
        if let Some((key, value)) = part.split_once(sign) {
            return of(key, rule(value.trim().parse().map_err(|_| broken())?));
        }
    }
    let Some((head, values)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) else {
        return of(part, Rule::Exists);
    };
    let values = values
        .split(',')
        .map(|value| value.trim().to_owned())
        .collect();
    match head.split_whitespace().collect::<Vec<_>>().as_slice() {
        [key, "in"] => of(key, Rule::In(values)),
        [key, "notin"] => of(key, Rule::NotIn(values)),
        _ => Err(broken()),
    }
}

/// The fields that can be selected by are few, and the real server refuses all others.
fn field(kind: &Kind, part: &str) -> Result<(String, bool, String), Failure> {
    let (field, differs, value) = if let Some((field, value)) = part.split_once("!=") {
        (field, true, value)
    } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (field, false, value)
    } else {
        return Err(Failure::bad_request(format!(
            "invalid selector: '{part}'; can't understand '{part}'"
        )));
    };
    let field = field.trim();
    let of_kind: &[&str] = match kind.nature {
        Nature::Pod => &["spec.nodeName", "status.phase", "status.podIP"],
        Nature::Node => &["spec.unschedulable"],
        Nature::Namespace => &["status.phase"],
        Nature::Secret => &["type"],
        Nature::Custom
        | Nature::Event
        | Nature::Lease
        | Nature::Definition
        | Nature::Webhooks
        | Nature::Plain
        | Nature::Access
        | Nature::Review => &[],
    };
    let of_event = (kind.nature == Nature::Event)
        .then(|| events::selectable(kind, field))
        .flatten();
    if let Some(stored) = of_event {
        return Ok((stored, differs, value.trim().to_owned()));
    }
    let in_namespace = field == "metadata.namespace" && kind.namespaced;
    let known = field == "metadata.name" || in_namespace || of_kind.contains(&field);
    if !known {
        return Err(Failure::bad_request(format!(
            "field label not supported: {field}"
        )));
    }
    Ok((field.to_owned(), differs, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(selector: &str, labels: &Value) -> bool {
        let labels_of = json!({"metadata": {"labels": labels}});
        let parsed = split(selector)
            .iter()
            .map(|part| requirement(part))
            .collect::<Result<_, _>>();
        let labels = parsed.expect("test selectors are well-formed");
        Selector {
            labels,
            fields: Vec::new(),
        }
        .matches(&labels_of)
    }

    #[test]
    fn label_selectors_select_by_equality_by_set_and_by_presence() {
        let cases = [
            ("a=b", true),
            ("a==b", true),
            ("a=c", false),
            ("a!=b", false),
            ("a!=c", true),
            ("z!=c", true),
            ("a in (b,c)", true),
            ("a in (c)", false),
            ("a notin (b)", false),
            ("z notin (b)", true),
            ("a", true),
            ("z", false),
            ("!z", true),
            ("!a", false),
            ("n>4", true),
            ("n<4", false),
            ("a=b,n in (4,5),!z", true),
            ("a=b,z", false),
            ("", true),
        ];
        for (selector, want) in cases {
            assert_eq!(
                holds(selector, &json!({"a": "b", "n": "5"})),
                want,
                "{selector}"
            );
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for selector in ["a in b)", "a like (b)", "=b", "a b"] {
            assert!(requirement(selector).is_err(), "{selector}");
        }
    }
}
