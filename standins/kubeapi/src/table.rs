//! Objects as tables, as the server makes them (`as=Table`), and tables as text, as kubectl
//! prints them.
//!
//! [`make`] answers requests; [`print()`] is for the demo and for tests that compare with
//! kubectl's output. Must stay true: the columns are those of the CRD and nothing else; a cell
//! never takes the rest of the table with it.

mod age;
mod own;
mod path;
mod print;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use print::{PrintError, fetch, print};

use crate::{
    kinds::{Column, Kind, Nature},
    object::{self, Object},
    read,
    status::Failure,
};

/// What a table's rows carry of their objects (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Metadata,
    None,
    Object,
}

impl Include {
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Failure::bad_request(format!(
                "unrecognized includeObject value: {other:?}"
            ))),
        }
    }
}

/// The name column, always the first.
const NAME_HELP: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// The table of some objects.
pub(crate) fn make(
    kind: &Kind,
    objects: &[Object],
    meta: &Value,
    include: Include,
    now: Timestamp,
) -> Value {
    // Events are told by their time, not by their name.
    let named = kind.nature != Nature::Event;
    let name = json!({
        "name": "Name", "type": "string", "format": "name", "description": NAME_HELP, "priority": 0,
    });
    let mut columns: Vec<Value> = named.then_some(name).into_iter().collect();
    columns.extend(kind.columns.iter().map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    }));
    let rows: Vec<_> = objects
        .iter()
        .map(|object| {
            let name = named.then(|| Value::from(object::name(object)));
            let mut cells: Vec<Value> = name.into_iter().collect();
            cells.extend(kind.columns.iter().map(|column| {
                own::cell(kind, column, object, now).unwrap_or_else(|| cell(column, object, now))
            }));
            let shown = match include {
                Include::Metadata => (*read::partial(object)).clone(),
                Include::None => Value::Null,
                Include::Object => Value::clone(object),
            };
            json!({"cells": cells, "object": shown})
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
        "columnDefinitions": columns, "rows": rows,
    })
}

/// A cell: the first value that the path finds, in the form that the column's type wants.
fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let found = path::find(object, &column.path);
    let Some(first) = found.first().copied() else {
        // Absent dates are unknown, other absent values are nothing at all.
        return if column.kind == "date" {
            "<unknown>".into()
        } else {
            Value::Null
        };
    };
    match column.kind.as_str() {
        "integer" => first.as_i64().map_or(Value::Null, Value::from),
        "number" => first.as_f64().map_or(Value::Null, Value::from),
        "boolean" => first.as_bool().map_or(Value::Null, Value::from),
        "date" => first
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
            .map_or_else(
                || "<invalid>".into(),
                |then| age::human(now.duration_since(then)).into(),
            ),
        _ => match first {
            Value::Null => Value::Null,
            Value::String(text) => text.clone().into(),
            other => other.to_string().into(),
        },
    }
}
