//! What is answered to a write: `tests/writes/<what>.yaml`.
//!
//! A file is an observed state, as in `tests/cases`, and under `writes` what somebody asks for: `vpc`
//! or `zone` names the object, `spec` is a merge patch over the spec that it has (none: it is
//! deleted), `refused` holds every refusal. Without `refused` the write is accepted, and each file
//! has as many of those as of the others.

use std::{collections::BTreeSet, fs, path::Path};

use causeway_planner::{
    admit::{Verdict, VpcInput, Write, ZoneInput, decide},
    model::VpcKey,
    snapshot::{Meta, Seen, Snapshot},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{cases, value::lay_over};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    vpc: Option<VpcKey>,
    zone: Option<String>,
    spec: Option<Value>,
    #[serde(default)]
    deleting: bool,
    #[serde(default)]
    refused: BTreeSet<String>,
}

/// The object as it would be.
fn after<T: DeserializeOwned, S>(
    old: Option<&Seen<T, S>>,
    was: Option<&Value>,
    asked: &Asked,
) -> Option<Seen<T, S>> {
    let patch = asked.spec.clone()?;
    let mut spec = was.and_then(|was| was.get("spec")).cloned();
    let spec = spec.get_or_insert(Value::Object(serde_json::Map::new()));
    lay_over(spec, patch);
    let fresh = || Meta {
        version: causeway_planner::snapshot::Version {
            uid: "new".into(),
            resource_version: String::new(),
        },
        generation: 1,
        created: causeway_planner::snapshot::Moment(i64::MAX),
        deleting: false,
        held: false,
        labels: std::collections::BTreeMap::new(),
        annotations: std::collections::BTreeMap::new(),
    };
    let mut meta = old.map_or_else(fresh, |old| old.meta.clone());
    meta.deleting |= asked.deleting;
    Some(Seen {
        meta,
        spec: serde_json::from_value(spec.clone()).expect("a spec"),
        status: None,
    })
}

fn answer(asked: &Asked, world: &Value, snapshot: &Snapshot) -> Verdict {
    let was = |kind: &str, name: &str| world.get(kind).and_then(|all| all.get(name)).cloned();
    match (&asked.vpc, &asked.zone) {
        (Some(key), None) => {
            let old = snapshot.vpcs.get(key);
            let was = was("vpcs", &key.to_string());
            let new = after::<VpcInput, _>(old, was.as_ref(), asked);
            let new = new.as_ref();
            decide(Write::Vpc { key, old, new }, snapshot)
        }
        (None, Some(name)) => {
            let was = was("zones", name);
            let name = &name.as_str().into();
            let old = snapshot.zones.get(name);
            let new = after::<ZoneInput, _>(old, was.as_ref(), asked);
            let new = new.as_ref();
            decide(Write::Zone { name, old, new }, snapshot)
        }
        _ => panic!("a write is of a vpc or of a zone"),
    }
}

fn run(path: &Path) -> Result<(), String> {
    let mut world = cases::state_in(path)?;
    let all = world.as_object_mut().expect("a map");
    let asked = all.remove("writes").expect("what is asked for");
    let asked: Vec<Asked> = serde_json::from_value(asked).map_err(|e| e.to_string())?;
    let snapshot: Snapshot =
        serde_json::from_value(world.clone()).map_err(|error| error.to_string())?;
    let refused = asked.iter().filter(|one| !one.refused.is_empty()).count();
    if refused * 2 != asked.len() {
        return Err(format!("{refused} of {} are refused", asked.len()));
    }
    for (index, one) in asked.iter().enumerate() {
        let said: BTreeSet<String> = match answer(one, &world, &snapshot) {
            Verdict::Allow { .. } => BTreeSet::new(),
            Verdict::Deny(broken) => broken.iter().map(ToString::to_string).collect(),
            Verdict::Need(what) => return Err(format!("write {index}: needs {what:?}")),
        };
        if said != one.refused {
            return Err(format!(
                "write {index}: answered {said:#?}, not {:#?}",
                one.refused
            ));
        }
    }
    Ok(())
}

#[test]
fn every_write_is_answered_as_stands_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/writes");
    let entries = fs::read_dir(folder).expect("the folder of writes");
    let files: BTreeSet<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    assert!(files.len() >= 10, "only {} files", files.len());
    let failing: Vec<String> = files
        .iter()
        .filter_map(|path| Some(format!("{}: {}", path.display(), run(path).err()?)))
        .collect();
    assert!(failing.is_empty(), "{}", failing.join("\n"));
}
