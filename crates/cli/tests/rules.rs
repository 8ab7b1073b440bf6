//! `causeway check` says what the rules say, at the line where it is wrong.
//!
//! Runs through the cases of admission (crates/planner/tests/cases-admit), and through the cases of
//! shape and syntax beside this file, which only files can get wrong. The markers are explained in
//! `crates/planner/tests/admit/cases.rs`.

#![allow(clippy::expect_used)] // functions that tests share are tests, too

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use causeway_cli::check::{File, Finding, check};
use causeway_planner::admit::Weight;

const WORDS: [&str; 5] = ["error", "warning", "unchecked", "idle", "fine"];

/// A line, counted from 1, and what is said of it.
type Said = (usize, String);

fn marker(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("# ")?;
    let word = text.split(' ').next()?;
    WORDS.contains(&word).then_some(text)
}

/// A case without its markers, and the markers.
fn read(path: &Path) -> (File, Vec<Said>) {
    let text = fs::read_to_string(path).expect("a case");
    let (mut kept, mut said) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(marker) = marker(line) {
            said.push((kept.lines().count(), marker.to_owned()));
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    let name = path.file_name().expect("a name").display().to_string();
    (File { name, text: kept }, said)
}

fn word(finding: &Finding) -> String {
    match finding.weight {
        Weight::Warning if finding.message.contains("has no effect in this release") => {
            "idle".to_owned()
        }
        weight => weight.to_string(),
    }
}

fn found(file: &File) -> Vec<Said> {
    let report = check(std::slice::from_ref(file), false);
    let said = report.findings.iter().map(|finding| {
        let message = finding
            .message
            .strip_prefix("not checked: needs a zone (")
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap_or(&finding.message);
        let place = match finding.field.as_str() {
            "" => String::new(),
            field => format!("{field}: "),
        };
        let line = file.line(finding.span.start);
        (line, format!("{} {place}{message}", word(finding)))
    });
    said.collect()
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of cases");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

/// How many lines have something of these words said of them.
fn lines(said: &[Said], words: &[&str]) -> usize {
    let lines: BTreeSet<usize> = said
        .iter()
        .filter(|(_, text)| {
            text.split(' ')
                .next()
                .is_some_and(|word| words.contains(&word))
        })
        .map(|(line, _)| *line)
        .collect();
    lines.len()
}

fn failures(rules: &Path) -> Vec<String> {
    let mut failures = Vec::new();
    for rule in sorted(rules) {
        let (mut refused, mut accepted) = (0, 0);
        let words: &[&str] = if rule.ends_with("without-effect") {
            &["idle"]
        } else {
            &["error", "warning", "unchecked"]
        };
        for path in sorted(&rule) {
            let (file, mut said) = read(&path);
            if file.name.starts_with("refused") {
                refused += lines(&said, words);
            } else {
                accepted += lines(&said, &["fine"]);
            }
            // What needs a zone is said of nearly every case; only where it is the rule it counts.
            let unchecked = said.iter().any(|(_, text)| text.starts_with("unchecked"));
            said.retain(|(_, text)| text != "fine");
            let mut found = found(&file);
            found.retain(|(_, text)| unchecked || !text.starts_with("unchecked"));
            for (line, text) in found.iter().filter(|one| !said.contains(one)) {
                let place = format!("{}:{line}", path.display());
                failures.push(format!("{place}: unexpected: {text}"));
            }
            for (line, text) in said.iter().filter(|one| !found.contains(one)) {
                let place = format!("{}:{line}", path.display());
                failures.push(format!("{place}: not said: {text}"));
            }
        }
        if refused != accepted || accepted == 0 {
            failures.push(format!(
                "{}: {refused} refused, {accepted} fine",
                rule.display()
            ));
        }
    }
    failures
}

#[test]
fn every_rule_is_told_at_the_line_that_breaks_it() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../planner/tests/cases-admit");
    let failures = failures(&rules);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_mistake_of_shape_and_syntax_is_told_at_its_line() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let failures = failures(&rules);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_order_of_the_files_is_the_order_of_creation() {
    let zone = |name: &str| File {
        name: format!("{name}.yaml"),
        text: format!(
            "apiVersion: proxmox.cozystack.io/v1alpha1\n\
             kind: ProxmoxNetworkZone\n\
             metadata: {{name: {name}}}\n\
             spec:\n  bridge: vmbr1\n  vlans: {{ranges: [\"200-299\"]}}\n  trunk: {{interface: eth1}}\n"
        ),
    };
    for (first, second) in [("a", "b"), ("b", "a")] {
        let report = check(&[zone(first), zone(second)], false);
        let [finding] = &report.findings[..] else {
            panic!("one error: {report:?}");
        };
        assert_eq!(finding.file, 1);
        let (later, earlier) = (
            format!("zone \"{second}\" has VLAN 200"),
            format!("earlier zone \"{first}\""),
        );
        assert!(finding.message.contains(&later), "{}", finding.message);
        assert!(finding.message.contains(&earlier), "{}", finding.message);
    }
}

#[test]
fn strict_refuses_what_needs_a_zone_and_nothing_else() {
    let text = "apiVersion: apps.cozystack.io/v1alpha1\n\
                kind: VirtualPrivateCloud\n\
                metadata: {name: main, namespace: tenant-a}\n\
                spec:\n  subnets:\n    - {name: pods, cidr: 172.20.20.0/24}\n    - {name: workers, cidr: 172.20.10.0/24, proxmox: {}}\n";
    let file = File {
        name: "vpc.yaml".to_owned(),
        text: text.to_owned(),
    };
    let counts = |strict| {
        let report = check(std::slice::from_ref(&file), strict);
        let places: Vec<usize> = report
            .findings
            .iter()
            .map(|finding| file.line(finding.span.start))
            .collect();
        (
            report.count(Weight::Error),
            report.count(Weight::Unchecked),
            places,
        )
    };
    assert_eq!(counts(false), (0, 1, vec![7]));
    assert_eq!(counts(true), (1, 0, vec![7]));
}

#[test]
fn a_file_cut_off_anywhere_is_answered_with_places_inside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for path in sorted(&folder) {
        let text = fs::read_to_string(&path).expect("an example");
        for (end, _) in text.char_indices() {
            let file = File {
                name: String::new(),
                text: text[..end].to_owned(),
            };
            for finding in check(std::slice::from_ref(&file), true).findings {
                assert!(finding.span.end <= end, "{end}: {finding:?}");
                assert!(finding.span.start <= finding.span.end, "{end}: {finding:?}");
            }
        }
    }
}
