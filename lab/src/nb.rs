//! The northbound database as text that can be compared: before and after, here and elsewhere.
//!
//! Called through `Site::dump_nb`. Two dumps are equal if the databases say the same: uuids are
//! replaced by what they point at, rows are sorted, and what changes by itself is left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

use crate::{
    command::{CommandError, Run},
    ovn::{Ovn, Program},
};

/// Left out: counters, options and connections of the database itself.
const NOT_CONTENT: [&str; 3] = ["NB_Global", "Connection", "SSL"];

/// Rows without a name are shown inside the rows that point at them; NB nests them two deep.
const DEEPEST: usize = 4;

/// The database cannot be dumped.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// ovsdb-client failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Its output is no dump.
    #[error("cannot read the dump of the northbound database")]
    Json(#[from] serde_json::Error),
    /// Its output is JSON of another shape.
    #[error("the dump of the northbound database has a table without {0}")]
    Shape(&'static str),
}

/// All content of NB, one line a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NbDump(BTreeSet<(String, usize)>);

impl NbDump {
    /// All that the database at this remote holds.
    ///
    /// # Errors
    /// [`DumpError`] if it cannot be dumped or read.
    pub async fn of(ovn: &Ovn, remote: &str) -> Result<Self, DumpError> {
        let text = Run::new(ovn.program(Program::OvsdbClient))
            .args(["--format=json", "dump", remote, "OVN_Northbound"])
            .stdout()
            .await?;
        Self::read(&text)
    }

    /// Reads what `ovsdb-client --format=json dump` writes: one JSON object a table.
    fn read(text: &str) -> Result<Self, DumpError> {
        let mut rows = Rows::default();
        for table in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            rows.add(&table?)?;
        }
        // Equal rows are told apart by number, so that a missing one of two is seen.
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        let lines = rows.0.values().map(|row| {
            let line = format!("{} {}", row.table, rows.columns(row, 0));
            let time = times.entry(line.clone()).or_default();
            *time += 1;
            (line, *time)
        });
        Ok(Self(lines.collect()))
    }

    /// Rows that only `self` has with `-`, rows that only `after` has with `+`.
    pub fn difference(&self, after: &Self) -> Vec<String> {
        let gone = self
            .0
            .difference(&after.0)
            .map(|(line, _)| format!("- {line}"));
        let come = after
            .0
            .difference(&self.0)
            .map(|(line, _)| format!("+ {line}"));
        gone.chain(come).collect()
    }
}

impl fmt::Display for NbDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(line, _)| writeln!(f, "{line}"))
    }
}

#[derive(Default)]
struct Rows(BTreeMap<String, Row>);

struct Row {
    table: String,
    columns: BTreeMap<String, Value>,
}

impl Rows {
    fn add(&mut self, table: &Value) -> Result<(), DumpError> {
        let list = |key: &'static str| table[key].as_array().ok_or(DumpError::Shape(key));
        let caption = table["caption"]
            .as_str()
            .ok_or(DumpError::Shape("caption"))?;
        let name = caption.trim_end_matches(" table");
        if NOT_CONTENT.contains(&name) {
            return Ok(());
        }
        for row in list("data")? {
            let cells = row.as_array().ok_or(DumpError::Shape("rows"))?;
            let headings = list("headings")?.iter().filter_map(Value::as_str);
            let mut columns: BTreeMap<_, _> = headings
                .map(str::to_owned)
                .zip(cells.iter().cloned())
                .collect();
            let id = columns.remove("_uuid").unwrap_or_default();
            let id = id[1].as_str().ok_or(DumpError::Shape("_uuid"))?.to_owned();
            columns.remove("_version");
            let table = name.to_owned();
            self.0.insert(id, Row { table, columns });
        }
        Ok(())
    }

    fn columns(&self, row: &Row, depth: usize) -> String {
        let written = row
            .columns
            .iter()
            .filter(|(_, value)| !is_empty(value))
            .map(|(name, value)| format!("{name}={}", self.value(value, depth)));
        written.collect::<Vec<_>>().join(" ")
    }

    fn value(&self, value: &Value, depth: usize) -> String {
        let Some([kind, content]) = value.as_array().map(Vec::as_slice) else {
            return value.to_string();
        };
        match (kind.as_str(), content) {
            (Some("uuid"), Value::String(id)) => self.reference(id, depth),
            (Some("set"), Value::Array(members)) => {
                let mut members: Vec<_> = members
                    .iter()
                    .map(|member| self.value(member, depth))
                    .collect();
                members.sort();
                format!("[{}]", members.join(", "))
            }
            (Some("map"), Value::Array(pairs)) => {
                let mut pairs: Vec<_> = pairs
                    .iter()
                    .map(|pair| {
                        let (key, value) = (&pair[0], &pair[1]);
                        format!("{}={}", self.value(key, depth), self.value(value, depth))
                    })
                    .collect();
                pairs.sort();
                format!("{{{}}}", pairs.join(", "))
            }
            _ => value.to_string(),
        }
    }

    /// By name if the row has one, else by content.
    fn reference(&self, id: &str, depth: usize) -> String {
        let Some(row) = self.0.get(id) else {
            return "dangling".to_owned();
        };
        match row.columns.get("name").and_then(Value::as_str) {
            Some(name) if !name.is_empty() => format!("{}:{name}", row.table),
            _ if depth < DEEPEST => format!("{}({})", row.table, self.columns(row, depth + 1)),
            _ => row.table.clone(),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(pair) => pair
            .get(1)
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(switch: &str, acl: &str, priority: u32) -> String {
        format!(
            r#"{{"caption":"ACL table","headings":["_uuid","action","name","priority"],
                "data":[[["uuid","{acl}"],"drop",["set",[]],{priority}]]}}
               {{"caption":"Logical_Switch table","headings":["_uuid","acls","name"],
                "data":[[["uuid","{switch}"],["uuid","{acl}"],"s"]]}}
               {{"caption":"NB_Global table","headings":["_uuid","nb_cfg"],
                "data":[[["uuid","{acl}{priority}"],{priority}]]}}"#
        )
    }

    #[test]
    fn dumps_that_differ_in_uuids_and_counters_only_are_equal() {
        let one = NbDump::read(&switch("a", "b", 5)).expect("a dump");
        let two = NbDump::read(&switch("c", "d", 5)).expect("a dump");
        assert_eq!(one, two);
        assert_eq!(
            one.to_string(),
            "ACL action=\"drop\" priority=5\n\
             Logical_Switch acls=ACL(action=\"drop\" priority=5) name=\"s\"\n"
        );
    }

    #[test]
    fn a_changed_row_and_the_rows_that_hold_it_are_told() {
        let one = NbDump::read(&switch("a", "b", 5)).expect("a dump");
        let two = NbDump::read(&switch("a", "b", 6)).expect("a dump");
        let told = one.difference(&two);
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(told[0], "- ACL action=\"drop\" priority=5");
        assert_eq!(told[2], "+ ACL action=\"drop\" priority=6");
    }

    #[test]
    fn one_of_two_equal_rows_missing_is_a_difference() {
        let both = r#"{"caption":"ACL table","headings":["_uuid","priority"],
            "data":[[["uuid","a"],5],[["uuid","b"],5]]}"#;
        let one = r#"{"caption":"ACL table","headings":["_uuid","priority"],
            "data":[[["uuid","a"],5]]}"#;
        let both = NbDump::read(both).expect("a dump");
        let one = NbDump::read(one).expect("a dump");
        assert_eq!(both.difference(&one), ["- ACL priority=5"]);
    }
}
