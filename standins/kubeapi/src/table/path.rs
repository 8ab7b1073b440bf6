//! The part of `JSONPath` that printer columns use: dotted fields, indexes, `[*]` and filters for
//! equality such as `[?(@.type=="Ready")]`.

use serde_json::Value;

enum Step<'a> {
    Field(String),
    Index(usize),
    All,
    /// The elements whose field has this value.
    Filter(Vec<&'a str>, &'a str),
}

/// Every value that the path leads to; none if it leads nowhere or cannot be read.
pub(super) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else {
        return Vec::new();
    };
    steps.iter().fold(vec![object], |values, step| {
        values
            .into_iter()
            .flat_map(|value| step.take(value))
            .collect()
    })
}

impl Step<'_> {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => value.get(index).into_iter().collect(),
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => Vec::new(),
            },
            Self::Filter(field, wanted) => {
                let holds = |item: &&Value| {
                    let found = field.iter().try_fold(*item, |value, name| value.get(name));
                    found.is_some_and(|found| match found {
                        Value::String(text) => text == wanted,
                        other => {
                            serde_json::from_str(wanted).is_ok_and(|wanted: Value| *other == wanted)
                        }
                    })
                };
                value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(holds)
                    .collect()
            }
        }
    }
}

fn parse(path: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}');
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner)?;
            steps.push(bracket(&inner[..end])?);
            rest = &inner[end + 1..];
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (name, length) = field(rest);
            if name == "*" {
                steps.push(Step::All);
            } else if !name.is_empty() {
                steps.push(Step::Field(name));
            } else if length == 0 && !rest.is_empty() && !rest.starts_with('[') {
                return None;
            }
            rest = &rest[length..];
        }
    }
    Some(steps)
}

/// A field's name, in which a backslash escapes a dot, and how much of the text it takes.
fn field(text: &str) -> (String, usize) {
    let mut name = String::new();
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => return (name, at),
            other => {
                name.push(other);
                escaped = false;
            }
        }
    }
    (name, text.len())
}

/// Where the bracket closes, quotes respected.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), close) if open == close => quote = None,
            (None, ']') => return Some(at),
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step<'_>> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = text
        .strip_prefix("?(")
        .and_then(|text| text.strip_suffix(')'))
    {
        let (field, value) = filter.split_once("==")?;
        let field = field.trim().strip_prefix("@.")?.split('.').collect();
        return Some(Step::Filter(field, unquoted(value.trim())));
    }
    if let Ok(index) = text.parse() {
        return Some(Step::Index(index));
    }
    Some(Step::Field(unquoted(text).to_owned()))
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(|letter| letter == '"' || letter == '\'')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns_lead_to_their_values() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "dotted"}},
            "spec": {"list": ["x", "y"], "number": 7},
            "status": {"conditions": [
                {"type": "Synced", "status": "False"},
                {"type": "Ready", "status": "True", "ok": true},
            ]},
        });
        let cases = [
            (".spec.number", vec![json!(7)]),
            ("spec.number", vec![json!(7)]),
            (".spec.list[1]", vec![json!("y")]),
            (".spec.list[*]", vec![json!("x"), json!("y")]),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                vec![json!("True")],
            ),
            (
                ".status.conditions[?(@.type=='Ready')].status",
                vec![json!("True")],
            ),
            (
                ".status.conditions[?(@.ok==true)].type",
                vec![json!("Ready")],
            ),
            (".status.conditions[?(@.type==\"Absent\")].status", vec![]),
            (r".metadata.labels.a\.b/c", vec![json!("dotted")]),
            (".metadata.labels['a.b/c']", vec![json!("dotted")]),
            (".absent.deeper", vec![]),
            (".spec.list[", vec![]),
        ];
        for (path, want) in cases {
            assert_eq!(
                find(&object, path),
                want.iter().collect::<Vec<_>>(),
                "{path}"
            );
        }
    }
}
