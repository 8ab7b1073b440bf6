//! docs/reference/conditions.md and admission.md are what the code says:
//! `UPDATE=1 cargo test -p causeway-cli --test reference` writes them.
//!
//! The conditions come from the planner's reasons, the rules from the cases that the planner, the
//! webhook and `causeway check` are tested with.

#![allow(clippy::expect_used)] // functions that tests share are tests, too

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use causeway_cli::explain::reason;
use causeway_planner::conditions::Reason;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page is what is generated; or it is written so.
fn is_generated(name: &str, page: &str) {
    let path = root().join("docs/reference").join(name);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, page).expect("written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(page.lines()).position(|(a, b)| a != b);
    assert!(
        kept == page,
        "docs/reference/{name} is not what the code says, from line {}: UPDATE=1 cargo test -p \
         causeway-cli --test reference",
        differs.unwrap_or(kept.lines().count().min(page.lines().count())) + 1
    );
}

#[test]
fn the_page_of_conditions_has_every_reason_as_explain_prints_it() {
    let page = reason::page();
    for reason in Reason::ALL {
        let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
            .args(["explain", "--reason", reason.as_str()])
            .output()
            .expect("the command runs");
        assert!(output.status.success(), "{reason}");
        let printed = String::from_utf8(output.stdout).expect("text");
        let section = format!("\n## {reason}\n\n{printed}");
        assert!(page.contains(&section), "{section} is not on the page");
    }
    is_generated("conditions.md", &page);
}

#[test]
fn the_page_of_rules_has_every_rule_with_its_words() {
    let mut page = String::from(HEAD);
    let rules = rules(&root().join("crates/planner/tests/cases-admit"));
    let shapes = rules_of_files();
    assert!(
        rules.len() > 35 && shapes.len() > 5,
        "rules have been found"
    );
    for rule in &rules {
        page.push_str(&rule.section());
    }
    page.push_str(FILES);
    for rule in &shapes {
        page.push_str(&rule.section());
    }
    is_generated("admission.md", &page);
}

const HEAD: &str = "\
# What is refused

Generated from the cases that every rule is tested with, by
`UPDATE=1 cargo test -p causeway-cli --test reference`. `causeway check`, the admission webhook and the
controller say the same words. Each rule has documents that break it and as many legal neighbours, in
`crates/planner/tests/cases-admit`.
";

const FILES: &str = "
# What only files can get wrong

`causeway check` says these too, and `causeway plan`; the API server refuses most of them itself. Cases
are in `crates/cli/tests/rules`.
";

fn rules_of_files() -> Vec<Rule> {
    rules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules"))
}

/// A rule, with the first thing that is said where it is broken.
struct Rule {
    name: String,
    sentence: String,
    /// `error`, `warning`, `unchecked` or `idle`.
    word: String,
    said: String,
}

impl Rule {
    /// Of a folder of cases.
    fn of(folder: &Path) -> Self {
        let name = folder.file_name().expect("a name").display().to_string();
        let first = sorted(folder).into_iter().find(|file| {
            let name = file.file_name().expect("a name");
            name.to_string_lossy().starts_with("refused")
        });
        let text = fs::read_to_string(first.expect("a refused case")).expect("a case");
        let comments = || {
            text.lines()
                .filter_map(|line| line.trim_start().strip_prefix("# "))
        };
        let is_said = |line: &&str| {
            let words = ["error ", "warning ", "unchecked ", "idle "];
            words.iter().any(|word| line.starts_with(word))
        };
        let sentence = comments().next().expect("a rule in words");
        let line = comments().find(is_said).expect("something is said");
        let (word, said) = line.split_once(' ').expect("a message");
        Self {
            name,
            sentence: sentence.to_owned(),
            word: word.to_owned(),
            said: said.to_owned(),
        }
    }

    fn section(&self) -> String {
        let what = match self.word.as_str() {
            "error" => "Refused",
            "warning" | "idle" => "Accepted with a warning",
            _ => "Listed as not checked by `causeway check` on files alone",
        };
        let Self {
            name,
            sentence,
            said,
            ..
        } = self;
        format!("\n## {name}\n\n{sentence}\n\n{what}, for example:\n\n```text\n{said}\n```\n")
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of cases");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn rules(folder: &Path) -> Vec<Rule> {
    sorted(folder)
        .iter()
        .map(|folder| Rule::of(folder))
        .collect()
}
