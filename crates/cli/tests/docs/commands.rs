//! `sh` blocks, and commands within sentences: each exists, and CI runs what takes long.

use std::collections::BTreeSet;

use causeway_lab::scenarios::ALL;

use crate::{blocks, pages, read, root};

/// Commands of one page that are told to be typed.
fn commands(page: &str) -> BTreeSet<&str> {
    let typed = blocks(page, "sh").into_iter().flat_map(str::lines);
    let quoted = page.split('`').skip(1).step_by(2);
    let quoted = quoted.filter(|text| text.contains("cargo ") && !text.contains('\n'));
    typed
        .chain(quoted)
        .filter(|line| !line.is_empty())
        .collect()
}

/// The tasks that `cargo xtask` offers.
fn tasks() -> BTreeSet<String> {
    let source = read("xtask/src/main.rs");
    let (_, usage) = source.split_once("Tasks:\n").expect("a usage text");
    let (list, _) = usage.split_once("\";").expect("its end");
    let words = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words.map(str::to_owned).collect()
}

/// What is wrong with a command, if anything.
fn fault(command: &str) -> Option<String> {
    let words: Vec<&str> = command
        .split_whitespace()
        .skip_while(|word| word.contains('='))
        .collect();
    match words.as_slice() {
        ["cargo", "build" | "xtask"] => None,
        ["cargo", "xtask", "packets", rest @ ..] => {
            let filter = rest.first().filter(|word| !word.starts_with('-'))?;
            let known = ALL.iter().any(|scenario| scenario.name.contains(*filter));
            (!known).then(|| format!("no scenario has {filter} in its name"))
        }
        ["cargo", "xtask", task, ..] => {
            (!tasks().contains(*task)).then(|| format!("no task {task}"))
        }
        ["cargo", "test", "-p", package, "--test", test, rest @ ..] => {
            test_fault(package, test, rest)
        }
        _ => Some("not known to any test".to_owned()),
    }
}

fn test_fault(package: &str, test: &str, rest: &[&str]) -> Option<String> {
    let name = package.strip_prefix("causeway-")?;
    let folders = [
        format!("crates/{name}"),
        format!("standins/{name}"),
        name.to_owned(),
    ];
    let files = folders
        .iter()
        .flat_map(|folder| ["", "/main"].map(|end| format!("{folder}/tests/{test}{end}.rs")));
    let Some(file) = files.into_iter().find(|file| root().join(file).is_file()) else {
        return Some(format!("{package} has no test {test}"));
    };
    let filter = rest.first().filter(|word| !word.starts_with('-'))?;
    let known = read(&file).contains(*filter);
    (!known).then(|| format!("{file} has no {filter}"))
}

#[test]
fn every_command_that_is_told_exists() {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        for command in commands(&page) {
            seen.insert(command.to_owned());
            if let Some(fault) = fault(command) {
                wrong.push(format!("{path}: {command}: {fault}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.contains("cargo xtask packets failover"), "{seen:?}");
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    for command in [
        "cargo xtask nonsense",
        "cargo xtask packets nonsense",
        "cargo test -p causeway-lab --test nonsense",
        "cargo test -p causeway-lab --test site nonsense",
        "cargo nonsense",
    ] {
        assert!(fault(command).is_some(), "{command}");
    }
}

#[test]
fn the_readme_has_two_commands_and_ci_runs_both() {
    let page = read("README.md");
    let typed: Vec<&str> = blocks(&page, "sh")
        .into_iter()
        .flat_map(str::lines)
        .collect();
    assert_eq!(typed, ["cargo xtask demo", "cargo xtask test"]);
    let ci = read(".ci/run");
    let runs = ci.lines().last().unwrap_or_default();
    assert_eq!(runs.strip_prefix("exec "), Some(typed[1]));
    // The test task has the demo and the packet scenarios as steps of their own.
    let steps = read("xtask/src/steps.rs");
    for step in ["(\"demo\", ", "(\"packets\", "] {
        assert!(steps.contains(step), "{step}");
    }
}
