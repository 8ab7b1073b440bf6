//! What a reason means, as text: `causeway explain --reason`, and docs/reference/conditions.md.

use anyhow::bail;
use causeway_planner::conditions::{ConditionType, Reason, Whose};

use crate::check::similar;

/// The reason that a word means.
///
/// # Errors
/// There is none; names those that the word may be a slip of.
pub fn find(word: &str) -> anyhow::Result<Reason> {
    let exact = Reason::ALL
        .iter()
        .find(|reason| reason.as_str().eq_ignore_ascii_case(word));
    if let Some(reason) = exact {
        return Ok(*reason);
    }
    let names: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    if let Some(name) = similar(word, names.iter().copied()) {
        bail!("{word:?} is no reason; did you mean {name}?");
    }
    bail!("{word:?} is no reason; there are: {}", names.join(", "))
}

/// Name and title, where it stands, what it means, what the controller does, and who can do what.
/// Plain text that Markdown shows as it is.
pub fn text(reason: Reason) -> String {
    let text = reason.text();
    let at: Vec<String> = text
        .at
        .iter()
        .map(|(whose, kind)| format!("{} {kind}", whose.kind()))
        .collect();
    let mut paragraphs = vec![
        format!("{reason}: {}", text.title),
        format!("Stands at: {}", at.join(", ")),
        text.means.to_owned(),
        text.meanwhile.to_owned(),
    ];
    let remedies = text.remedies.iter();
    paragraphs.extend(remedies.map(|remedy| format!("The {} can {}.", remedy.who, remedy.what)));
    paragraphs.join("\n\n") + "\n"
}

/// docs/reference/conditions.md.
pub fn page() -> String {
    let section = |reason: &Reason| format!("\n## {reason}\n\n{}", text(*reason));
    let sections: String = Reason::ALL.iter().map(section).collect();
    format!("{HEAD}{}{sections}", index())
}

/// Which reasons each condition can have.
fn index() -> String {
    let places = [Whose::Network, Whose::Vpc, Whose::Zone]
        .into_iter()
        .flat_map(|whose| ConditionType::ALL.iter().map(move |kind| (whose, *kind)));
    let row = |(whose, kind): (Whose, ConditionType)| {
        let reasons: Vec<String> = Reason::ALL
            .iter()
            .filter(|reason| reason.text().at.contains(&(whose, kind)))
            .map(|reason| format!("[{reason}](#{})", reason.as_str().to_lowercase()))
            .collect();
        let kind_of = whose.kind();
        (!reasons.is_empty()).then(|| format!("| {kind_of} | {kind} | {} |\n", reasons.join(", ")))
    };
    places.filter_map(row).collect()
}

const HEAD: &str = "\
# Conditions and their reasons

Generated from the planner by `UPDATE=1 cargo test -p causeway-cli --test reference`; each section is
what `causeway explain --reason REASON` prints.

A condition states what was observed: True is good everywhere, and what cannot be looked at yet is
Unknown. A network's Ready takes status, reason and message of the first condition that is not True, in
the order of this table.

| kind | condition | reasons |
|---|---|---|
";
