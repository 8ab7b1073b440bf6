//! What is planned in one observed state: `tests/cases/<name>/{observed,plan}.yaml`.
//!
//! `observed.yaml` is a snapshot, or says `like: <case>` and how it differs from that one, as a
//! merge patch. `plan.yaml` is what every key plans; `UPDATE=1 cargo test -p causeway-planner`
//! writes it anew, and the diff is read by whoever changed the planner.

use std::{
    fs,
    path::{Path, PathBuf},
};

use causeway_planner::snapshot::Snapshot;
use serde_json::Value;

use crate::{value::lay_over, view::Plans};

/// Set: plans are written, not compared.
const UPDATE: &str = "UPDATE";
/// Key of an observed state that differs from another one.
const LIKE: &str = "like";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The observed state of a case.
fn observed(case: &str) -> Result<Value, String> {
    state_in(&folder().join(case).join("observed.yaml"))
}

/// The observed state in a file, with the case that it is like underneath.
pub fn state_in(path: &Path) -> Result<Value, String> {
    let failed = |what: &str| format!("{}: {what}", path.display());
    let value = serde_saphyr::from_str(&read(path)?).map_err(|error| failed(&error.to_string()))?;
    let Value::Object(mut over) = value else {
        return Err(failed("not a map"));
    };
    match over.remove(LIKE) {
        Some(Value::String(other)) => {
            let mut under = observed(&other)?;
            lay_over(&mut under, Value::Object(over));
            Ok(under)
        }
        _ => Ok(Value::Object(over)),
    }
}

fn run(case: &str) -> Result<(), String> {
    let value = observed(case)?;
    let snapshot: Snapshot =
        serde_json::from_value(value).map_err(|error| format!("not a snapshot: {error}"))?;
    let plans = serde_saphyr::to_string(&Plans::of(&snapshot)).map_err(|e| e.to_string())?;
    let path = folder().join(case).join("plan.yaml");
    if std::env::var_os(UPDATE).is_some() {
        return fs::write(&path, plans).map_err(|error| error.to_string());
    }
    let expected = read(&path)?;
    let differs = plans
        .lines()
        .zip(expected.lines())
        .find(|(is, should)| is != should);
    match differs {
        Some((is, should)) => Err(format!("plans {is:?} where {should:?} is expected")),
        None if plans.lines().count() != expected.lines().count() => {
            Err("plans more or less than is expected".to_owned())
        }
        None => Ok(()),
    }
}

#[test]
fn every_case_plans_what_stands_beside_it() {
    let entries = fs::read_dir(folder()).expect("the folder of cases");
    let mut cases: Vec<String> = entries
        .map(|entry| entry.expect("a readable folder").file_name())
        .map(|name| name.into_string().expect("a plain name"))
        .collect();
    cases.sort_unstable();
    assert!(cases.len() >= 40, "only {} cases", cases.len());
    let failing: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{case}: {}", run(case).err()?)))
        .collect();
    assert!(
        failing.is_empty(),
        "{} of {} cases:\n{}",
        failing.len(),
        cases.len(),
        failing.join("\n")
    );
}
