//! Evaluating the rules of a schema on an object.
//!
//! As `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go` does it, ratcheting
//! included: what a rule without `oldSelf` says of a part that is unchanged is a warning.

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::{Rule, evaluate, optional, value};
use crate::{
    schema::{ListKind, Schema, Type},
    status::FieldFault,
};

/// Longest message that a `messageExpression` may give.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// What the rules say.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) faults: Vec<FieldFault>,
    /// Faults that were there before.
    pub(crate) warnings: Vec<String>,
}

/// Evaluates every rule on a whole object; `old` is what it is stored over.
pub(crate) fn run(schema: &Schema, new: &Value, old: Option<&Value>) -> Outcome {
    let mut outcome = Outcome::default();
    let node = Node {
        schema,
        new,
        old,
        same: None,
        root: true,
        path: String::new(),
    };
    node.walk(&mut outcome);
    outcome
}

/// One value and its schema.
struct Node<'a> {
    schema: &'a Schema,
    new: &'a Value,
    /// What the value was, if that can be told.
    old: Option<&'a Value>,
    /// Whether the nearest value above of which that can be told is unchanged.
    same: Option<bool>,
    root: bool,
    path: String,
}

impl Node<'_> {
    fn walk(&self, outcome: &mut Outcome) {
        if self.new.is_null() || !self.schema.ruled {
            return;
        }
        if !self.schema.validations.is_empty() {
            self.evaluate_rules(outcome);
        }
        for part in &self.schema.rules.all_of {
            Node {
                schema: part,
                old: self.old,
                path: self.path.clone(),
                ..*self
            }
            .walk(outcome);
        }
        match self.new {
            Value::Array(items) => self.walk_items(items, outcome),
            Value::Object(map) => {
                for (field, child) in map {
                    let (schema, path) = match self.schema.properties.get(field) {
                        Some(schema) => (Some(schema), join(&self.path, field)),
                        None => (
                            self.schema.additional.as_deref(),
                            format!("{}[{field}]", self.path),
                        ),
                    };
                    // The full metadata is no part of a CRD's schema.
                    if self.root && matches!(field.as_str(), "metadata" | "apiVersion" | "kind") {
                        continue;
                    }
                    if let Some(schema) = schema {
                        let old = self.old.and_then(|old| old.get(field));
                        self.child(schema, child, old, path).walk(outcome);
                    }
                }
            }
            _ => {}
        }
    }

    fn walk_items(&self, items: &[Value], outcome: &mut Outcome) {
        let Some(schema) = self.schema.items.as_deref() else {
            return;
        };
        let before = self.old.and_then(Value::as_array);
        for (index, item) in items.iter().enumerate() {
            let old = match self.schema.list {
                ListKind::Map(_) => before
                    .into_iter()
                    .flatten()
                    .find(|other| value::same_element(other, item, self.schema)),
                _ => None,
            };
            let path = format!("{}[{index}]", self.path);
            self.child(schema, item, old, path).walk(outcome);
        }
    }

    fn child<'a>(
        &self,
        schema: &'a Schema,
        new: &'a Value,
        old: Option<&'a Value>,
        path: String,
    ) -> Node<'a> {
        Node {
            schema,
            new,
            old,
            same: self.is_same(),
            root: false,
            path,
        }
    }

    /// The path as faults name it.
    fn place(&self) -> String {
        if self.path.is_empty() {
            "<nil>".into()
        } else {
            self.path.clone()
        }
    }

    fn is_same(&self) -> Option<bool> {
        match self.old {
            Some(old) => Some(old == self.new),
            None => self.same,
        }
    }

    fn evaluate_rules(&self, outcome: &mut Outcome) {
        let new = value::typed(self.new, self.schema, self.root);
        let old = self.old.filter(|old| !old.is_null()).map(|old| {
            let old = value::aligned(old, self.new, self.schema);
            value::typed(&old, self.schema, self.root)
        });
        for rule in &self.schema.validations {
            if rule.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            let variables = || {
                let mut variables = vec![("self", new.clone())];
                if rule.optional_old {
                    variables.push(("oldSelf", optional(old.clone())));
                } else if let Some(old) = &old {
                    variables.push(("oldSelf", old.clone()));
                }
                variables
            };
            match evaluate(&rule.expression, variables()) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => self.broken(rule, variables(), outcome),
                Err(why) => outcome.faults.push(self.fault(&failed(rule, &why))),
            }
        }
    }

    fn broken(&self, rule: &Rule, variables: Vec<(&str, Cel)>, outcome: &mut Outcome) {
        let message = rule
            .message_expression
            .as_ref()
            .and_then(|expression| evaluate(expression, variables).ok())
            .and_then(|value| match value {
                Cel::String(text) => Some(text.trim().to_owned()),
                _ => None,
            })
            .filter(|text| {
                !text.is_empty() && !text.contains('\n') && text.len() <= LONGEST_MESSAGE
            })
            .unwrap_or_else(|| match rule.message.as_str() {
                "" => format!("failed rule: {}", rule.text),
                message => message.to_owned(),
            });
        let path = match rule.field.as_str() {
            "" => self.place(),
            // A whole path becomes one child of the rule's own (seen).
            field => join(&self.path, field.trim_start_matches('.')),
        };
        let shown = Value::from(type_name(self.schema));
        let fault = match rule.reason.as_str() {
            "FieldValueForbidden" => FieldFault::forbidden(path, &message),
            "FieldValueRequired" => FieldFault::required(path, &message),
            "FieldValueDuplicate" => FieldFault::duplicate(path, &shown),
            _ => FieldFault::invalid(path, &shown, &message),
        };
        if !rule.uses_old && self.is_same() == Some(true) {
            outcome
                .warnings
                .push(format!("{}: {}", fault.field, fault.message));
        } else {
            outcome.faults.push(fault);
        }
    }

    fn fault(&self, detail: &str) -> FieldFault {
        FieldFault::invalid(self.place(), &type_name(self.schema).into(), detail)
    }
}

/// What is said of a rule that fails while it is evaluated.
fn failed(rule: &Rule, why: &str) -> String {
    let shown = if rule.message.is_empty() {
        &rule.text
    } else {
        &rule.message
    };
    if why.starts_with("no such overload") {
        return format!(
            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
        );
    }
    format!("{why} evaluating rule: {shown}")
}

fn type_name(schema: &Schema) -> &'static str {
    match schema.kind {
        Type::Any | Type::IntOrString => "",
        other => other.name(),
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}
