//! Structural schemas: what a kind's objects look like.
//!
//! Read from a CRD's `openAPIV3Schema`, or for the kinds that the server itself has from the
//! tables beside [`builtin`](crate::builtin). Used for pruning and defaulting ([`shape`]),
//! validation ([`check`]) and field ownership ([`crate::ownership`]). Must stay true: a schema is
//! read once and never changes; a changed CRD makes a new one.

pub(crate) mod check;
pub(crate) mod shape;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// What a value may be, and how it merges.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one keyword of the schema language"
)]
pub(crate) struct Schema {
    pub(crate) kind: Type,
    pub(crate) nullable: bool,
    pub(crate) properties: BTreeMap<String, Schema>,
    /// The schema of map values (`additionalProperties`).
    pub(crate) additional: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    /// Unknown fields stay (`x-kubernetes-preserve-unknown-fields`).
    pub(crate) preserve_unknown: bool,
    /// A whole object with its own apiVersion, kind and metadata.
    pub(crate) embedded: bool,
    pub(crate) list: ListKind,
    /// A map that has one owner as a whole (`x-kubernetes-map-type: atomic`).
    pub(crate) atomic_map: bool,
    pub(crate) default: Option<Value>,
    pub(crate) rules: Rules,
    /// `x-kubernetes-validations`.
    pub(crate) validations: Vec<crate::cel::Rule>,
    /// Whether there are such rules here or below.
    pub(crate) ruled: bool,
}

/// JSON types, as far as a schema tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Type {
    /// Anything: no `type` given.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Type {
    fn read(path: &str, json: &Value) -> Result<Self, SchemaError> {
        let int_or_string = json.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
        match json.get("type").and_then(Value::as_str) {
            None if int_or_string => Ok(Self::IntOrString),
            None => Ok(Self::Any),
            Some("object") => Ok(Self::Object),
            Some("array") => Ok(Self::Array),
            Some("string") => Ok(Self::String),
            Some("integer") => Ok(Self::Integer),
            Some("number") => Ok(Self::Number),
            Some("boolean") => Ok(Self::Boolean),
            Some(kind) => Err(SchemaError::Type {
                path: path.into(),
                kind: kind.into(),
            }),
        }
    }

    /// The name that messages use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }

    /// Whether values of this type have no parts.
    pub(crate) fn is_scalar(self) -> bool {
        matches!(
            self,
            Self::String | Self::Integer | Self::Number | Self::Boolean | Self::IntOrString
        )
    }
}

/// How a list's elements are told apart (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Not at all: the list has one owner as a whole.
    #[default]
    Atomic,
    /// By their value.
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

impl ListKind {
    pub(crate) fn read(path: &str, json: &Value) -> Result<Self, SchemaError> {
        match json.get("x-kubernetes-list-type").and_then(Value::as_str) {
            None | Some("atomic") => Ok(Self::Atomic),
            Some("set") => Ok(Self::Set),
            Some("map") => {
                let keys = crate::object::strings(json.get("x-kubernetes-list-map-keys"));
                Ok(Self::Map(keys.into_iter().map(str::to_owned).collect()))
            }
            Some(list) => Err(SchemaError::List {
                path: path.into(),
                list: list.into(),
            }),
        }
    }
}

/// The value rules of a schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) required: Vec<String>,
    pub(crate) allowed: Vec<Value>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) format: Option<String>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}

/// An end of a number range.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) value: serde_json::Number,
    pub(crate) exclusive: bool,
}

/// A schema that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// A pattern that is no regular expression.
    #[error("{path}.pattern: {pattern:?} is no regular expression")]
    Pattern {
        path: String,
        pattern: String,
        source: regex::Error,
    },
    /// A `type` that JSON schema does not have.
    #[error("{path}.type: {kind:?} is no JSON type")]
    Type { path: String, kind: String },
    /// A list-type that Kubernetes does not have.
    #[error("{path}.x-kubernetes-list-type: {list:?} is none of atomic, set, map")]
    List { path: String, list: String },
    /// A rule that cannot be evaluated.
    #[error("{path}.x-kubernetes-validations[{index}]")]
    Rule {
        path: String,
        index: usize,
        source: crate::cel::CelError,
    },
}

impl Schema {
    /// Reads the whole schema of a CRD's version, which stands at `path` (for messages).
    pub(crate) fn read(path: &str, json: &Value) -> Result<Self, SchemaError> {
        let mut schema = Self::read_shape(path, json)?;
        schema.read_validations(path, json, true)?;
        Ok(schema)
    }

    /// Reads the CEL rules of this schema and of all below it.
    fn read_validations(
        &mut self,
        path: &str,
        json: &Value,
        root: bool,
    ) -> Result<(), SchemaError> {
        let rules = json
            .get("x-kubernetes-validations")
            .and_then(Value::as_array);
        for (index, rule) in rules.into_iter().flatten().enumerate() {
            let rule =
                crate::cel::Rule::read(rule, self, root).map_err(|source| SchemaError::Rule {
                    path: path.into(),
                    index,
                    source,
                })?;
            self.validations.push(rule);
        }
        for (name, property) in &mut self.properties {
            let json = &json["properties"][name];
            property.read_validations(&format!("{path}.properties[{name}]"), json, false)?;
        }
        for (field, child) in [
            ("items", &mut self.items),
            ("additionalProperties", &mut self.additional),
        ] {
            if let Some(child) = child {
                child.read_validations(&format!("{path}.{field}"), &json[field], false)?;
            }
        }
        let all_of = json.get("allOf").and_then(Value::as_array);
        for (part, json) in self
            .rules
            .all_of
            .iter_mut()
            .zip(all_of.into_iter().flatten())
        {
            part.read_validations(&format!("{path}.allOf"), json, false)?;
        }
        let children = self.properties.values();
        let boxed = [self.items.as_deref(), self.additional.as_deref()];
        self.ruled = !self.validations.is_empty()
            || children
                .chain(boxed.into_iter().flatten())
                .chain(&self.rules.all_of)
                .any(|child| child.ruled);
        Ok(())
    }

    /// Reads a schema without its CEL rules.
    pub(crate) fn read_shape(path: &str, json: &Value) -> Result<Self, SchemaError> {
        let text = |field: &str| json.get(field).and_then(Value::as_str);
        let flag = |field: &str| json.get(field).and_then(Value::as_bool) == Some(true);
        let mut properties = BTreeMap::new();
        for (name, property) in json
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            properties.insert(
                name.clone(),
                Self::read_shape(&format!("{path}.properties[{name}]"), property)?,
            );
        }
        Ok(Self {
            kind: Type::read(path, json)?,
            nullable: flag("nullable"),
            properties,
            additional: Self::read_additional(path, json)?,
            items: Self::read_boxed(path, json, "items")?,
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            list: ListKind::read(path, json)?,
            atomic_map: text("x-kubernetes-map-type") == Some("atomic"),
            default: json.get("default").cloned(),
            rules: Rules::read(path, json)?,
            validations: Vec::new(),
            ruled: false,
        })
    }

    fn read_boxed(path: &str, json: &Value, field: &str) -> Result<Option<Box<Self>>, SchemaError> {
        json.get(field)
            .filter(|schema| schema.is_object())
            .map(|schema| Self::read_shape(&format!("{path}.{field}"), schema).map(Box::new))
            .transpose()
    }

    /// `additionalProperties: true` allows anything.
    fn read_additional(path: &str, json: &Value) -> Result<Option<Box<Self>>, SchemaError> {
        if json.get("additionalProperties") == Some(&Value::Bool(true)) {
            let anything = Self {
                preserve_unknown: true,
                ..Self::default()
            };
            return Ok(Some(Box::new(anything)));
        }
        Self::read_boxed(path, json, "additionalProperties")
    }

    /// The schema of a field, or nothing for fields that the schema does not know.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional.as_deref())
    }
}

impl Rules {
    fn read(path: &str, json: &Value) -> Result<Self, SchemaError> {
        let count = |field: &str| json.get(field).and_then(Value::as_u64);
        let bound = |field: &str, exclusive: &str| {
            json.get(field)
                .and_then(Value::as_number)
                .map(|value| Bound {
                    value: value.clone(),
                    exclusive: json.get(exclusive).and_then(Value::as_bool) == Some(true),
                })
        };
        let each = |field: &str| -> Result<Vec<Schema>, SchemaError> {
            let schemas = json
                .get(field)
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            schemas
                .map(|schema| Schema::read_shape(&format!("{path}.{field}"), schema))
                .collect()
        };
        let pattern = json.get("pattern").and_then(Value::as_str).map(|pattern| {
            Regex::new(pattern).map_err(|source| SchemaError::Pattern {
                path: path.into(),
                pattern: pattern.into(),
                source,
            })
        });
        Ok(Self {
            required: crate::object::strings(json.get("required"))
                .into_iter()
                .map(str::to_owned)
                .collect(),
            allowed: json
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            pattern: pattern.transpose()?,
            format: json
                .get("format")
                .and_then(Value::as_str)
                .map(str::to_owned),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: json.get("multipleOf").and_then(Value::as_f64),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: each("allOf")?,
            any_of: each("anyOf")?,
            one_of: each("oneOf")?,
            not: Schema::read_boxed(path, json, "not")?,
        })
    }
}
