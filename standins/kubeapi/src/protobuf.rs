//! Bodies in Kubernetes' protobuf form, which kubectl sends for some of the server's own kinds
//! (`create namespace`, `auth can-i`), whatever it has been told to accept.
//!
//! Read by [`service`](crate::service) into the JSON that everything else works on; answers are
//! always JSON. The messages are a table beside this file, taken from the `.proto` files of
//! Kubernetes 1.34. Must stay true: what the table does not know is left out, never guessed.

use std::{collections::BTreeMap, sync::LazyLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::status::Failure;

/// The content type.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Deeper than any object of the table.
const DEEPEST: usize = 32;

#[derive(Debug, Deserialize)]
struct Field {
    name: String,
    /// A scalar or a message of the table.
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    many: bool,
    /// Of strings to values of `type`.
    #[serde(default)]
    map: bool,
}

/// Fields by number, by message.
type Messages = BTreeMap<String, BTreeMap<u64, Field>>;

static MESSAGES: LazyLock<Option<Messages>> =
    LazyLock::new(|| serde_json::from_str(include_str!("protobuf.json")).ok());

/// One field as it comes over the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order; nothing if it is broken off.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        let value = match tag & 7 {
            0 => Wire::Number(number(&mut bytes)?),
            2 => {
                let length = usize::try_from(number(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Wire::Bytes(value)
            }
            _ => return None,
        };
        found.push((tag >> 3, value));
    }
    Some(found)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads a body into JSON.
pub(crate) fn read(body: &[u8]) -> Result<Value, Failure> {
    let broken = || Failure::bad_request("the body of the request is no message in protobuf form");
    let envelope = body
        .strip_prefix(MAGIC)
        .and_then(fields)
        .ok_or_else(broken)?;
    let part = |wanted: u64| {
        envelope.iter().find_map(|(number, value)| match value {
            Wire::Bytes(bytes) if *number == wanted => Some(*bytes),
            _ => None,
        })
    };
    let types = fields(part(1).unwrap_or_default()).ok_or_else(broken)?;
    let text = |wanted: u64| {
        let found = types.iter().find_map(|(number, value)| match value {
            Wire::Bytes(bytes) if *number == wanted => std::str::from_utf8(bytes).ok(),
            _ => None,
        });
        found.unwrap_or_default()
    };
    let (api_version, kind) = (text(1), text(2));
    let known = MESSAGES
        .as_ref()
        .is_some_and(|messages| messages.contains_key(kind));
    if !known {
        return Err(Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            format!("the stand-in reads no {kind} of {api_version} in protobuf form"),
        ));
    }
    let mut object = message(kind, part(2).unwrap_or_default(), 0).ok_or_else(broken)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(Value::Object(object))
}

fn message(kind: &str, bytes: &[u8], depth: usize) -> Option<Map<String, Value>> {
    let table = MESSAGES.as_ref()?.get(kind)?;
    let mut object = Map::new();
    for (number, wire) in fields(bytes)? {
        let Some(field) = table.get(&number) else {
            continue;
        };
        if field.map {
            let Wire::Bytes(entry) = wire else {
                return None;
            };
            let (mut key, mut value) = (String::new(), Value::String(String::new()));
            for (number, wire) in fields(entry)? {
                match (number, wire) {
                    (1, Wire::Bytes(bytes)) => key = String::from_utf8(bytes.to_vec()).ok()?,
                    (_, wire) => value = self::value(&field.kind, &wire, depth)?,
                }
            }
            crate::object::map_in(&mut object, &field.name).insert(key, value);
            continue;
        }
        let value = value(&field.kind, &wire, depth)?;
        if field.many {
            let list = object
                .entry(field.name.clone())
                .or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut()?.push(value);
        } else if !matches!(&value, Value::Null) && value != Value::String(String::new()) {
            // Go leaves empty texts out of JSON, but writes them in this form.
            object.insert(field.name.clone(), value);
        }
    }
    Some(object)
}

fn value(kind: &str, wire: &Wire<'_>, depth: usize) -> Option<Value> {
    if depth > DEEPEST {
        return None;
    }
    Some(match (kind, wire) {
        ("string", Wire::Bytes(bytes)) => std::str::from_utf8(bytes).ok()?.into(),
        ("bytes", Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        ("bool", Wire::Number(number)) => (*number != 0).into(),
        // Negative numbers come as their two's complement.
        ("int32" | "int64", Wire::Number(number)) => number.cast_signed().into(),
        ("Time", Wire::Bytes(bytes)) => {
            let seconds = fields(bytes)?
                .into_iter()
                .find_map(|(number, wire)| match wire {
                    Wire::Number(seconds) if number == 1 => Some(seconds.cast_signed()),
                    _ => None,
                });
            match seconds {
                None => Value::Null,
                Some(seconds) => Timestamp::from_second(seconds).ok()?.to_string().into(),
            }
        }
        (kind, Wire::Bytes(bytes)) => Value::Object(message(kind, bytes, depth + 1)?),
        (_, Wire::Number(_)) => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What kubectl 1.32 sends for `create namespace tenant-a`.
    const NAMESPACE: &[u8] = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x20\x0a\x18\x0a\x08tenant-a\x12\0\x1a\0\"\0*\x002\x008\x00B\0\x12\0\x1a\x02\x0a\0\x1a\0\"\0";

    #[test]
    fn a_namespace_is_read_as_kubectl_sends_it() {
        assert_eq!(
            read(NAMESPACE).expect("an object"),
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "tenant-a", "generation": 0}, "spec": {}, "status": {},
            })
        );
    }

    #[test]
    fn what_is_broken_off_or_unknown_is_refused() {
        for cut in [2, 10, NAMESPACE.len() - 5] {
            assert!(read(&NAMESPACE[..cut]).is_err(), "{cut}");
        }
        let unknown = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Thing";
        assert_eq!(
            read(unknown).expect_err("refused").code,
            StatusCode::UNSUPPORTED_MEDIA_TYPE
        );
    }
}
