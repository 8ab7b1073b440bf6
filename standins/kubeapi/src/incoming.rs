//! What comes in with a request, before it meets what is there.
//!
//! Called by [`write`](crate::write). Must stay true: what leaves here has the shape of its kind
//! (unknown fields gone, defaults filled in) and stands in the namespace of the request.

use serde_json::Value;

use crate::{
    crd, events,
    kinds::{Kind, Nature},
    object,
    ownership::typed,
    rbac,
    schema::{check, shape},
    status::{Failure, FieldFault},
    write::Target,
};

/// How unknown fields are met (`fieldValidation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Drop,
    Warn,
    Refuse,
}

/// The object must bear the name of the path.
pub(crate) fn check_name(new: &Value, wanted: &str) -> Result<(), Failure> {
    match object::name(new) {
        name if name == wanted => Ok(()),
        "" => Err(Failure::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ))),
        name => Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        ))),
    }
}

/// What is said of fields that a body states twice.
pub(crate) fn doubled(doubles: &[String]) -> Vec<String> {
    let each = doubles.iter();
    each.map(|field| format!("duplicate field {field:?}"))
        .collect()
}

/// What is said of fields that the operations of a JSON patch state twice, or that they do not have.
pub(crate) fn of_operations(patch: &Value, doubles: &[String]) -> Vec<String> {
    let mut said: Vec<_> = doubled(doubles)
        .into_iter()
        .map(|text| format!("json patch {text}"))
        .collect();
    for (index, operation) in patch.as_array().into_iter().flatten().enumerate() {
        for (field, _) in operation.as_object().into_iter().flatten() {
            if !["op", "path", "from", "value"].contains(&field.as_str()) {
                let at = format!("[{index}].{field}");
                said.push(format!("json patch unknown field {at:?}"));
            }
        }
    }
    said
}

/// The warnings about fields that an apply configuration, which counts as YAML, states twice.
pub(crate) fn doubled_in_yaml(
    doubles: &[String],
    unknown: Unknown,
) -> Result<Vec<String>, Failure> {
    // Configurations come as JSON on one line.
    let each = doubles.iter().map(|path| {
        let name = path.rsplit('.').next().unwrap_or_default();
        format!("line 1: key {name:?} already set in map")
    });
    let said: Vec<_> = each.collect();
    match unknown {
        Unknown::Refuse if !said.is_empty() => Err(Failure::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            said.join("\n  ")
        ))),
        Unknown::Warn => Ok(said),
        _ => Ok(Vec::new()),
    }
}

/// Gives an object the shape of its kind, and says which fields it had too many. `strict` is what
/// is wrong with the body already.
pub(crate) fn decode(
    kind: &Kind,
    mut new: Value,
    unknown: Unknown,
    strict: Vec<String>,
    patched: bool,
) -> Result<(Value, Vec<String>), Failure> {
    check_type(kind, &mut new)?;
    events::check_times(kind, &new)?;
    let whole = (patched && unknown == Unknown::Refuse).then(|| new.to_string());
    object::meta_mut(&mut new);
    let mut dropped = shape::prune(&mut new, &kind.schema);
    dropped.sort();
    let mut warnings = Vec::new();
    if unknown != Unknown::Drop {
        warnings = strict;
        warnings.extend(
            dropped
                .iter()
                .map(|field| format!("unknown field {field:?}")),
        );
    }
    if unknown == Unknown::Refuse && !warnings.is_empty() {
        let message = format!("strict decoding error: {}", warnings.join(", "));
        return Err(match whole {
            None => Failure::bad_request(format!(
                "{0} in version {1:?} cannot be handled as a {0}: {message}",
                kind.name, kind.version
            )),
            Some(whole) => {
                let fault = FieldFault::invalid("patch", &whole.into(), &message);
                Failure::invalid("", "", "", &[fault])
            }
        });
    }
    shape::default(&mut new, &kind.schema);
    if let (Some(metadata), Some(schema)) =
        (new.get("metadata"), kind.schema.properties.get("metadata"))
        && let Some(fault) = check::faults(metadata, schema, "metadata")
            .iter()
            .find(|fault| fault.kind == "FieldValueTypeInvalid")
    {
        return Err(Failure::bad_request(format!(
            "{}: {}",
            fault.field, fault.message
        )));
    }
    if kind.nature == Nature::Definition {
        crd::default(&mut new);
    }
    rbac::check::default(kind, &mut new);
    Ok((new, warnings))
}

/// The object must be of the path's kind and version; the server's own kinds need not say so.
fn check_type(kind: &Kind, new: &mut Value) -> Result<(), Failure> {
    let unrecognized = |why: &str| {
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why}",
            kind.name
        ))
    };
    if !new.is_object() {
        return Err(unrecognized(
            "couldn't get version/kind; json parse error: the body is no object",
        ));
    }
    let text = |field: &str| {
        new.get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (version, stated, custom) = (
        text("apiVersion"),
        text("kind"),
        kind.nature == Nature::Custom,
    );
    let wanted = kind.api_version();
    if stated.is_empty() && custom {
        return Err(unrecognized(&format!(
            "Object 'Kind' is missing in '{new}'"
        )));
    }
    if version != wanted && (custom || !version.is_empty()) {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted})"
        )));
    }
    if stated != kind.name && !stated.is_empty() {
        if custom {
            let detail = format!("must be {}", kind.name);
            let fault = FieldFault::invalid("kind", &stated.clone().into(), &detail);
            return Err(Failure::invalid(
                &kind.resource.group,
                &stated,
                object::name(new),
                &[fault],
            ));
        }
        return Err(Failure::bad_request(format!(
            "{stated} in version {:?} cannot be handled as a {}",
            kind.version, kind.name
        )));
    }
    new["apiVersion"] = wanted.into();
    new["kind"] = kind.name.clone().into();
    Ok(())
}

/// Puts the object into the namespace of the request.
pub(crate) fn place(new: &mut Value, target: Target<'_>) -> Result<(), Failure> {
    let wanted = if target.kind.namespaced {
        target.namespace
    } else {
        ""
    };
    let stated = object::namespace(new);
    if stated != wanted && !stated.is_empty() && !wanted.is_empty() {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let value = if wanted.is_empty() {
        Value::Null
    } else {
        wanted.into()
    };
    object::set_meta(new, "namespace", value);
    Ok(())
}

/// What an apply configuration must be before it is merged.
pub(crate) fn check_config(kind: &Kind, config: &Value, name: &str) -> Result<(), Failure> {
    let stated = config
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if stated != kind.api_version() {
        return Err(Failure::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {stated}, expected: {}",
            kind.api_version()
        )));
    }
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    let faults = typed::faults(config, typed::Shape::Known(&kind.schema), "");
    if faults.is_empty() {
        return Ok(());
    }
    let namespace = object::namespace(config);
    let list = match faults.as_slice() {
        [one] => one.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    Err(Failure::internal(format!(
        "failed to create typed patch object ({namespace}/{name}; {stated}, Kind={}): {list}",
        kind.name
    )))
}
