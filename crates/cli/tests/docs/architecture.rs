//! ARCHITECTURE.md: its graph is that of the manifests, and what it names is in the code.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value;

use crate::{blocks, read, root};

const PAGE: &str = "ARCHITECTURE.md";

/// A crate's name without the workspace's prefix.
fn short(name: &str) -> String {
    name.strip_prefix("causeway-").unwrap_or(name).to_owned()
}

/// Who declares whom, within the workspace.
fn declared() -> BTreeSet<(String, String)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let mut edges = BTreeSet::new();
    for package in packages {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let on = name(dependency);
            if dependency["kind"].is_null() && ours.contains(&on) {
                edges.insert((short(&name(package)), short(&on)));
            }
        }
    }
    edges
}

#[test]
fn the_crate_graph_is_that_of_the_manifests() {
    let page = read(PAGE);
    let [graph] = blocks(&page, "mermaid")[..] else {
        panic!("one graph");
    };
    let edge = |line: &str| {
        let (from, to) = line.trim().split_once(" --> ")?;
        Some((from.to_owned(), to.to_owned()))
    };
    let drawn: BTreeSet<(String, String)> = graph.lines().filter_map(edge).collect();
    let declared = declared();
    let missing: Vec<_> = declared.difference(&drawn).collect();
    let wrong: Vec<_> = drawn.difference(&declared).collect();
    assert!(missing.is_empty(), "not drawn: {missing:?}");
    assert!(wrong.is_empty(), "drawn, not declared: {wrong:?}");
}

/// Where a path of the page is in the repository.
fn place(path: &str) -> String {
    let top = ["crates/", "standins/", "lab/", "xtask/", "docs/"];
    if top.iter().any(|folder| path.starts_with(folder)) {
        path.to_owned()
    } else {
        format!("crates/{path}")
    }
}

/// Whether the source defines the name.
fn defines(source: &str, name: &str) -> bool {
    ["fn ", "const ", "struct ", "enum ", "macro_rules! "]
        .iter()
        .flat_map(|word| ["(", "<", ":", " "].map(|end| format!("{word}{name}{end}")))
        .any(|definition| source.contains(&definition))
}

#[test]
fn every_file_and_function_that_is_named_exists() {
    let page = read(PAGE);
    let mut named = 0;
    let mut wrong = Vec::new();
    for text in page.split('`').skip(1).step_by(2) {
        let (path, name) = match text.split_once("::") {
            Some((path, name)) if is_file(path) => (path, Some(name)),
            None if is_file(text) => (text, None),
            _ => continue,
        };
        named += 1;
        let place = place(path);
        if !root().join(&place).is_file() {
            wrong.push(format!("{text}: no file {place}"));
        } else if let Some(name) = name.filter(|name| !defines(&read(&place), name)) {
            wrong.push(format!("{text}: {place} defines no {name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(named > 30, "names have been found: {named}");
}

/// Whether the text is a source file with its folder, and not a file's name alone.
fn is_file(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|end| end == "rs")
        && text.contains('/')
        && !text.contains(' ')
}
