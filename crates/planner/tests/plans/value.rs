//! One observed state laid over another: a case says how it differs from another case.

use serde_json::{Map, Value};

/// Lays `over` on top of `under`, as a JSON merge patch (RFC 7386): null takes a key away.
pub fn lay_over(under: &mut Value, over: Value) {
    let Value::Object(over) = over else {
        *under = over;
        return;
    };
    if !under.is_object() {
        *under = Value::Object(Map::new());
    }
    let Value::Object(under) = under else { return };
    for (key, value) in over {
        if value.is_null() {
            under.remove(&key);
        } else {
            lay_over(under.entry(key).or_insert(Value::Null), value);
        }
    }
}
