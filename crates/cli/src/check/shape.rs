//! Whether a document has the shape of its kind: fields that exist, of the right type.
//!
//! Called for each object of a kind that causeway owns, with the schema of its CRD, so that the two
//! cannot differ. Bounds and formats are the rules' business: their messages say more.
//! Must stay true: what comes out can be read into the kind's type whatever went in; in place of a
//! missing or wrong value stands a neutral one, and its path is in [`Shaped::broken`], so that no
//! rule complains of it a second time.

use std::ops::Range;

use causeway_planner::admit::{FieldPath, Violation};
use serde_json::{Map, Value, json};

use super::yaml::{Entry, Kind, Node};

/// How alike two names must be (1 is equal) for one to be a slip of the other.
const ALIKE: f64 = 0.8;

/// A document in the shape of its kind.
#[derive(Debug, Default)]
pub struct Shaped {
    /// The object.
    pub value: Value,
    /// What did not fit, and where it stands.
    pub errors: Vec<(Range<usize>, Violation)>,
    /// What fits, but is not what it looks like.
    pub warnings: Vec<(Range<usize>, Violation)>,
    /// Paths below which neutral values stand.
    pub broken: Vec<FieldPath>,
}

/// The schema of an object: that of its CRD, and what every object has.
pub fn schema(crd: &Value) -> Value {
    let mut schema = crd
        .pointer("/spec/versions/0/schema/openAPIV3Schema")
        .cloned()
        .unwrap_or_default();
    let anything = json!({});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut metadata = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"}, "namespace": {"type": "string"},
            "labels": texts, "annotations": texts,
        },
    });
    // What the API server itself adds; files that were read from a cluster have it.
    for field in [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ] {
        metadata["properties"][field] = anything.clone();
    }
    if crd
        .pointer("/spec/scope")
        .is_some_and(|scope| scope == "Namespaced")
    {
        metadata["required"] = json!(["name", "namespace"]);
    }
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] = metadata;
    schema["properties"]["status"] = anything;
    schema["required"] = json!(["metadata", "spec"]);
    schema
}

/// Fits a document into a schema.
pub fn shape(root: &Node, schema: &Value) -> Shaped {
    let mut shaped = Shaped::default();
    shaped.value = shaped.node(root, schema, &FieldPath::default(), &root.span);
    shaped
}

/// The name of `known` that `word` is probably a slip of.
pub fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| {
            let alike = strsim::jaro_winkler(&word.to_lowercase(), &name.to_lowercase());
            (alike, name)
        })
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

impl Shaped {
    fn error(&mut self, span: &Range<usize>, path: &FieldPath, message: String) {
        self.broken.push(path.clone());
        self.errors.push((
            span.clone(),
            Violation {
                path: path.clone(),
                message,
            },
        ));
    }

    fn node(&mut self, node: &Node, schema: &Value, path: &FieldPath, at: &Range<usize>) -> Value {
        let wanted = schema.get("type").and_then(Value::as_str);
        match (wanted, &node.kind) {
            (Some("object"), Kind::Map(entries)) => self.object(entries, schema, path, at),
            (Some("array"), Kind::List(items)) => {
                let anything = Value::Null;
                let each = schema.get("items").unwrap_or(&anything);
                let fit = items.iter().enumerate();
                fit.map(|(index, item)| self.node(item, each, &path.index(index), &item.span))
                    .collect()
            }
            (None, _) => node.json(),
            (Some(wanted), _) => self.scalar(node, wanted, schema, path, at),
        }
    }

    fn scalar(
        &mut self,
        node: &Node,
        wanted: &str,
        schema: &Value,
        path: &FieldPath,
        at: &Range<usize>,
    ) -> Value {
        let value = node.json();
        let fits = match wanted {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            _ => false,
        };
        if !fits {
            let message = mismatch(node, &value, wanted, path);
            self.error(at, path, message);
            return neutral(schema);
        }
        let choices = schema.get("enum").and_then(Value::as_array);
        if let Some(choices) = choices.filter(|choices| !choices.contains(&value)) {
            let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
            let hint = similar(node.text().unwrap_or_default(), choices.iter().copied());
            let hint = hint.map_or_else(String::new, |name| format!("; did you mean {name}?"));
            self.error(
                at,
                path,
                format!("{value} is none of {}{hint}", choices.join(", ")),
            );
            return neutral(schema);
        }
        if value.as_i64().is_some_and(|number| number < 0) {
            self.error(at, path, format!("{value} is below 0"));
            return neutral(schema);
        }
        if value
            .as_u64()
            .is_some_and(|number| number > u64::from(u32::MAX))
        {
            self.error(at, path, format!("{value} is far too large"));
            return neutral(schema);
        }
        value
    }

    fn object(
        &mut self,
        entries: &[Entry],
        schema: &Value,
        path: &FieldPath,
        at: &Range<usize>,
    ) -> Value {
        let empty = Map::new();
        let known = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let any = schema.get("additionalProperties");
        let mut fitted = Map::new();
        for entry in entries {
            let path = path.field(&entry.key);
            let Some(schema) = known.get(&entry.key).or(any) else {
                let message = unknown(&entry.key, known);
                self.error(&entry.span, &path, message);
                continue;
            };
            if entry.value.json().is_null() {
                self.null(entry, schema, &path);
                continue;
            }
            let span = if entry.value.stands_alone() {
                &entry.value.span
            } else {
                &entry.span
            };
            let value = self.node(&entry.value, schema, &path, span);
            fitted.insert(entry.key.clone(), value);
        }
        for name in required(schema) {
            if !fitted.contains_key(name) {
                self.error(
                    at,
                    &path.field(name),
                    format!("the required field {name:?} is missing"),
                );
                let schema = known.get(name).cloned().unwrap_or_default();
                fitted.insert(name.to_owned(), neutral(&schema));
            }
        }
        Value::Object(fitted)
    }

    /// The API server drops a null, which is not what `proxmox:` looks like.
    fn null(&mut self, entry: &Entry, schema: &Value, path: &FieldPath) {
        if schema.get("type").is_some_and(|wanted| wanted == "object") {
            let message = format!(
                "{} has no value, which is as if it were not there; write `{}: {{}}` to have it with its defaults",
                entry.key, entry.key
            );
            self.warnings.push((
                entry.span.clone(),
                Violation {
                    path: path.clone(),
                    message,
                },
            ));
        }
    }
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn unknown(key: &str, known: &Map<String, Value>) -> String {
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let hint = similar(key, names.iter().copied()).map_or_else(
        || format!("possible here: {}", names.join(", ")),
        |name| format!("did you mean {name:?}?"),
    );
    format!("unknown field {key:?}; {hint}")
}

fn mismatch(node: &Node, value: &Value, wanted: &str, path: &FieldPath) -> String {
    let name = match path.0.last() {
        Some(causeway_planner::admit::PathStep::Field(name)) => name.clone(),
        _ => path.to_string(),
    };
    let wanted_words = match wanted {
        "object" => "an object",
        "array" => "a list",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        _ => "text",
    };
    let found = match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) if wanted == "integer" => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let message = format!("{name} must be {wanted_words}, not {found}");
    match (wanted, node.text()) {
        ("string", Some(text)) if !text.is_empty() => {
            format!("{message}; write it in quotes: {text:?}")
        }
        ("integer" | "boolean", Some(text)) if value.is_string() => {
            format!("{message}: {text:?}")
        }
        ("array", Some(text)) if value.is_string() => {
            format!("{message}; write [{text}] for a list of one")
        }
        _ => message,
    }
}

/// What stands for a value that is missing or wrong.
fn neutral(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {
            let property = |name: &str| schema.get("properties").and_then(|all| all.get(name));
            required(schema)
                .filter_map(|name| Some((name.to_owned(), neutral(property(name)?))))
                .collect::<Map<_, _>>()
                .into()
        }
        Some("array") => json!([]),
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(0),
        _ => schema
            .pointer("/enum/0")
            .cloned()
            .unwrap_or_else(|| json!("")),
    }
}
