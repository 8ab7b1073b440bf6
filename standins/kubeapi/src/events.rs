//! Events: one store that two groups show, each with names of its own for the same fields.
//!
//! Stored as the core group has them. The store asks where a resource's objects are, a kind how to show
//! them; writes come through here to be stored and to be checked. Must stay true: what is stored can be
//! read by both groups, and nothing is lost on the way from one to the other.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{Kind, Nature, Resource},
    metadata, object,
    status::{Failure, FieldFault},
};

const GROUP: &str = "events.k8s.io";

/// Fields by their name in the core group and in [`GROUP`].
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// What the reporting instance, the action and the reason may have at most, in bytes.
const SHORT: usize = 128;

/// The same for the message.
const LONG: usize = 1024;

/// Whether the objects of a resource are those of another one.
pub(crate) fn are_elsewhere(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural == "events"
}

/// Where the objects of events are.
pub(crate) fn place() -> Resource {
    Resource {
        group: String::new(),
        plural: "events".to_owned(),
    }
}

/// An event of either group as it is stored.
pub(crate) fn as_stored(mut event: Value) -> Value {
    rename(&mut event, |(core, own)| (own, core));
    event["apiVersion"] = "v1".into();
    for pointer in TIMES {
        if let Some(time) = event.pointer_mut(pointer) {
            to_microseconds(time);
        }
    }
    event
}

/// A stored event as a group shows it.
pub(crate) fn shown(stored: &Value, kind: &Kind) -> Value {
    let mut event = stored.clone();
    if kind.resource.group == GROUP {
        rename(&mut event, |(core, own)| (core, own));
    }
    event["apiVersion"] = kind.api_version().into();
    event
}

fn rename(
    event: &mut Value,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Value::Object(fields) = event else { return };
    for (from, to) in FIELDS.map(direction) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

/// As the server writes it, whatever the zone that was stated.
fn to_microseconds(time: &mut Value) {
    let parsed = time
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    if let Some(parsed) = parsed {
        *time = parsed.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into();
    }
}

/// Times that need exactly six digits of a second.
const TIMES: [&str; 2] = ["/eventTime", "/series/lastObservedTime"];

/// Refuses a time of an event that is not as exact as it must be.
pub(crate) fn check_times(kind: &Kind, event: &Value) -> Result<(), Failure> {
    if kind.nature != Nature::Event {
        return Ok(());
    }
    let times = TIMES.iter().map(|pointer| text(event, pointer));
    for time in times.filter(|time| !time.is_empty()) {
        let Some((what, expected)) = unexpected(time) else {
            continue;
        };
        return Err(Failure::bad_request(format!(
            "{0} in version {1:?} cannot be handled as a {0}: parsing time {time:?} as \"{LAYOUT}\": cannot parse {what:?} as {expected:?}",
            kind.name, kind.version
        )));
    }
    Ok(())
}

const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The rest of a time from where it is wrong, and what would have to stand there.
fn unexpected(time: &str) -> Option<(&str, &'static str)> {
    let seconds = "2006-01-02T15:04:05".len();
    let Some((start, rest)) = time.split_at_checked(seconds) else {
        return Some((time, LAYOUT));
    };
    let fraction = rest.strip_prefix('.').and_then(|rest| rest.get(..6));
    if !fraction.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit())) {
        return Some((rest, ".000000"));
    }
    let zone = &rest[7..];
    if format!("{start}{zone}").parse::<Timestamp>().is_err() {
        return Some((zone, "Z07:00"));
    }
    None
}

/// The stored field that a field selector names; nothing if there is none.
pub(crate) fn selectable(kind: &Kind, field: &str) -> Option<String> {
    let core = kind.resource.group != GROUP;
    let (object, reporter) = if core {
        ("involvedObject", "reportingComponent")
    } else {
        ("regarding", "reportingController")
    };
    if let Some((of, part)) = field.split_once('.') {
        let parts = [
            "kind",
            "namespace",
            "name",
            "uid",
            "apiVersion",
            "resourceVersion",
            "fieldPath",
        ];
        let known = of == object && parts.contains(&part);
        return known.then(|| format!("involvedObject.{part}"));
    }
    match field {
        "reason" | "type" => Some(field.to_owned()),
        "source" if core => Some("source.component".to_owned()),
        field if field == reporter => Some("reportingComponent".to_owned()),
        _ => None,
    }
}

/// Who an event is from, for a selector: whoever reports it, if no source is named.
pub(crate) fn source(event: &Value) -> &str {
    let component = text(event, "/source/component");
    if component.is_empty() {
        text(event, "/reportingComponent")
    } else {
        component
    }
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    let found = event.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// What is wrong with an event that is written.
pub(crate) fn faults(kind: &Kind, event: &Value) -> Vec<FieldFault> {
    if kind.nature != Nature::Event {
        return Vec::new();
    }
    let strict = kind.resource.group == GROUP;
    let event = as_stored(event.clone());
    let mut found = if text(&event, "/eventTime").is_empty() {
        of_another_namespace(&event).into_iter().collect()
    } else {
        new_faults(&event, strict)
    };
    if strict {
        found.extend(strict_faults(&event));
    }
    found
}

/// Without `eventTime`, an event is where its object is.
fn of_another_namespace(event: &Value) -> Option<FieldFault> {
    let (own, of) = (
        object::namespace(event),
        text(event, "/involvedObject/namespace"),
    );
    let fits = own == of || (of.is_empty() && own == "default");
    (!fits).then(|| no_match(of))
}

fn no_match(of: &str) -> FieldFault {
    let why = "does not match event.namespace";
    FieldFault::invalid("involvedObject.namespace", &json!(of), why)
}

/// With it, it says who reports what.
fn new_faults(event: &Value, strict: bool) -> Vec<FieldFault> {
    let mut found = Vec::new();
    let of = text(event, "/involvedObject/namespace");
    if of.is_empty() && !["default", "kube-system"].contains(&object::namespace(event)) {
        found.push(no_match(of));
    }
    let reporter = if strict {
        "reportingController"
    } else {
        "reportingComponent"
    };
    let name = text(event, "/reportingComponent");
    if name.is_empty() {
        found.push(FieldFault::required(reporter, ""));
    }
    found.extend(metadata::qualified_name(reporter, name));
    for (field, required, most) in [
        ("reportingInstance", true, SHORT),
        ("action", true, SHORT),
        ("reason", true, SHORT),
        ("message", false, LONG),
    ] {
        let value = text(event, &format!("/{field}"));
        if required && value.is_empty() {
            found.push(FieldFault::required(field, ""));
        }
        if value.len() > most {
            let why = format!("can have at most {most} characters");
            found.push(FieldFault::invalid(field, &json!(""), &why));
        }
    }
    found
}

/// What the newer group minds besides.
fn strict_faults(event: &Value) -> Vec<FieldFault> {
    let mut found = Vec::new();
    let series = event.get("series").filter(|series| !series.is_null());
    if let Some(series) = series {
        if series
            .get("count")
            .and_then(Value::as_i64)
            .unwrap_or_default()
            < 2
        {
            let why = "should be at least 2";
            found.push(FieldFault::invalid("series.count", &json!(""), why));
        }
        if text(series, "/lastObservedTime").is_empty() {
            found.push(FieldFault::required("series.lastObservedTime", ""));
        }
    }
    if text(event, "/eventTime").is_empty() {
        found.push(FieldFault::required("eventTime", ""));
    }
    let of_type = text(event, "/type");
    if !["Normal", "Warning"].contains(&of_type) {
        let why = format!("has invalid value: {of_type}");
        found.push(FieldFault::invalid("type", &json!(""), &why));
    }
    let set = [
        ("firstTimestamp", !text(event, "/firstTimestamp").is_empty()),
        ("lastTimestamp", !text(event, "/lastTimestamp").is_empty()),
        (
            "count",
            event
                .get("count")
                .and_then(Value::as_i64)
                .unwrap_or_default()
                != 0,
        ),
        (
            "source",
            ["/source/component", "/source/host"]
                .iter()
                .any(|it| !text(event, it).is_empty()),
        ),
    ];
    for (field, _) in set.iter().filter(|(_, set)| *set) {
        found.push(FieldFault::invalid(*field, &json!(""), "needs to be unset"));
    }
    found
}

/// What the newer group lets nobody change: an event has happened.
pub(crate) fn update_faults(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldFault> {
    if kind.nature != Nature::Event || kind.resource.group != GROUP {
        return Vec::new();
    }
    let (new, old) = (as_stored(new.clone()), as_stored(old.clone()));
    let fixed = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    let value = |event: &Value, field: &str| match event.get(field) {
        Some(Value::Object(fields)) if fields.is_empty() => Value::Null,
        Some(value) => value.clone(),
        None => Value::Null,
    };
    let changed = |(field, _): &(&str, &str)| value(&new, field) != value(&old, field);
    let faults = fixed.into_iter().filter(changed);
    faults
        .map(|(field, told)| FieldFault::invalid(told, &value(&new, field), "field is immutable"))
        .collect()
}
