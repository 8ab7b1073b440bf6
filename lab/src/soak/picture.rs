//! What a state looks like from outside: objects and northbound rows, without what no two runs share.
//!
//! Taken by the soak runs to compare a disturbed run with an undisturbed one.

use std::{collections::BTreeSet, path::Path};

use kube::Client;
use regex::{Captures, Regex};

use super::sigkill::SoakError;
use crate::{NbDump, State, embedded::ApiDump, ovn::Ovn, up::names};

/// Addresses that Kube-OVN draws, ids and times of the API.
const DRAWN: [(&str, &str); 3] = [
    ("(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", "MAC"),
    (
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "UID",
    ),
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
];

/// Chassis have ids that the site gives.
const GIVEN: &str = "00000000-";

/// Everything, one line a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture(BTreeSet<String>);

impl Picture {
    /// What it is now.
    pub(super) async fn take(state: &State, client: &Client, ovn: &Ovn) -> Result<Self, SoakError> {
        let objects = ApiDump::of(client).await?;
        let remote = format!("unix:/run/causeway/{}/central/nb.sock", state.site());
        let rows = NbDump::of(ovn, &remote).await?;
        let mut lines: Vec<String> = objects.lines().collect();
        lines.extend(rows.to_string().lines().map(|row| format!("row {row}")));
        let guests = names(Path::new("/run/netns"))?.into_iter();
        let guests = guests.filter(|name| name.starts_with(&format!("{}-", state.site())));
        lines.extend(guests.map(|name| format!("namespace {name}")));
        for (pattern, word) in DRAWN {
            let pattern = Regex::new(pattern)?;
            for line in &mut lines {
                let kept = |found: &Captures<'_>| {
                    let found = &found[0];
                    let given = found.starts_with(GIVEN);
                    if given { found } else { word }.to_owned()
                };
                *line = pattern.replace_all(line, kept).into_owned();
            }
        }
        // The name of the site is the state's.
        let lines = lines.iter().map(|line| line.replace(&state.site(), "SITE"));
        Ok(Self(lines.collect()))
    }

    /// Whether there is an object of this kind, namespace and name.
    pub(super) fn has(&self, object: &str) -> bool {
        let start = format!("{object} ");
        self.0.iter().any(|line| line.starts_with(&start))
    }

    /// What only this one has, and what only the other.
    pub(super) fn difference(&self, other: &Self) -> Vec<String> {
        let gone = self.0.difference(&other.0).map(|line| format!("- {line}"));
        let come = other.0.difference(&self.0).map(|line| format!("+ {line}"));
        gone.chain(come).collect()
    }
}
