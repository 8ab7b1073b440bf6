//! JSON bodies, with the fields that they state twice.
//!
//! Called by [`service`](crate::service). Of a field that is stated twice the last counts, as in
//! Go; whether that is refused is the write's affair ([`crate::incoming`]).

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{object, status::Failure};

/// What came.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) json: Value,
    /// The paths of the fields that are there twice.
    pub(crate) doubles: Vec<String>,
}

impl Body {
    /// Reads a body.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Failure> {
        let doubles = RefCell::new(Vec::new());
        let reader = Reader {
            path: String::new(),
            doubles: &doubles,
        };
        let mut source = serde_json::Deserializer::from_slice(bytes);
        let read = reader
            .deserialize(&mut source)
            .and_then(|json| source.end().map(|()| json));
        let mut json = read.map_err(|error| {
            Failure::bad_request(format!(
                "the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
            ))
        })?;
        object::normalize_numbers(&mut json);
        Ok(Self {
            json,
            doubles: doubles.into_inner(),
        })
    }
}

/// Reads the value at a path.
struct Reader<'a> {
    path: String,
    doubles: &'a RefCell<Vec<String>>,
}

impl Reader<'_> {
    fn at(&self, path: String) -> Self {
        Reader {
            path,
            doubles: self.doubles,
        }
    }

    fn field(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("no JSON number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) =
            source.next_element_seed(self.at(format!("{}[{}]", self.path, items.len())))?
        {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = source.next_key::<String>()? {
            let path = self.field(&name);
            if map.contains_key(&name) {
                self.doubles.borrow_mut().push(path.clone());
            }
            let value = source.next_value_seed(self.at(path))?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_equal_fields_counts_and_both_are_told() {
        let text = br#"{"a": {"b": 1, "b": 2}, "c": [{"d": 1.0}, {"d": 1, "d": 2.5}], "e": null}"#;
        let body = Body::read(text).expect("JSON");
        assert_eq!(
            body.json,
            serde_json::json!({"a": {"b": 2}, "c": [{"d": 1}, {"d": 2.5}], "e": null})
        );
        assert_eq!(body.doubles, ["a.b", "c[1].d"]);
        assert!(Body::read(b"{} x").is_err());
    }
}
