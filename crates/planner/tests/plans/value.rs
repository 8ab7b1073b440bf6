//! YAML without a type, and one laid over another: a case says how it differs from another case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Any YAML value that cases need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// Lays `over` on top, as a JSON merge patch (RFC 7386): null takes a key away.
    pub fn lay_over(&mut self, over: Value) {
        let Value::Map(over) = over else {
            *self = over;
            return;
        };
        if !matches!(self, Value::Map(_)) {
            *self = Value::Map(BTreeMap::new());
        }
        let Value::Map(under) = self else { return };
        for (key, value) in over {
            if value == Value::Null {
                under.remove(&key);
            } else {
                under.entry(key).or_insert(Value::Null).lay_over(value);
            }
        }
    }
}
