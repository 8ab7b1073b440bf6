//! The options of a write, as a query states them.
//!
//! Read by [`service`](crate::service) before anything else happens to the request.

use serde_json::{Value, json};

use crate::{
    incoming::Unknown,
    request::{self, Query, Verb},
    status::{Failure, FieldFault},
};

/// The options of a write.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) dry_run: bool,
    /// As they came, for webhooks.
    pub(crate) stated: Value,
    pub(crate) manager: String,
    pub(crate) force: Option<bool>,
    pub(crate) unknown: Unknown,
    /// Fields that the body states twice.
    pub(crate) doubles: Vec<String>,
}

impl Options {
    /// Reads the query; `manager` is who owns fields if it names nobody.
    pub(crate) fn read(query: &Query, manager: &str, verb: Verb) -> Result<Self, Failure> {
        let manager = match query.text("fieldManager") {
            "" => manager,
            stated => stated,
        };
        let mut faults = Vec::new();
        let dry_run = request::dry_run(query.text("dryRun")).unwrap_or_else(|fault| {
            faults.push(fault);
            false
        });
        let unknown = match query.text("fieldValidation") {
            "" | "Warn" => Unknown::Warn,
            "Ignore" => Unknown::Drop,
            "Strict" => Unknown::Refuse,
            other => {
                let allowed = ["", "Ignore", "Strict", "Warn"].map(Value::from);
                let other = Value::from(other);
                faults.push(FieldFault::not_supported(
                    "fieldValidation",
                    &other,
                    &allowed,
                ));
                Unknown::Warn
            }
        };
        if !faults.is_empty() {
            let kind = match verb {
                Verb::Update => "UpdateOptions",
                Verb::Patch => "PatchOptions",
                _ => "CreateOptions",
            };
            return Err(Failure::invalid("meta.k8s.io", kind, "", &faults));
        }
        let force = query.text("force");
        let mut stated = json!({});
        for option in ["fieldManager", "fieldValidation"] {
            if !query.text(option).is_empty() {
                stated[option] = query.text(option).into();
            }
        }
        if dry_run {
            stated["dryRun"] = json!(["All"]);
        }
        if !force.is_empty() {
            stated["force"] = query.flag("force").into();
        }
        Ok(Self {
            dry_run,
            stated,
            manager: manager.to_owned(),
            force: (!force.is_empty()).then(|| query.flag("force")),
            unknown,
            doubles: Vec::new(),
        })
    }
}
