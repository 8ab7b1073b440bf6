//! Who may depend on what (ARCHITECTURE.md, "Crates"): a test over `cargo metadata` for declared
//! dependencies and `cargo tree` for what comes with them.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

/// The crates of the workspace that each crate may declare as normal dependencies.
const MAY_DECLARE: &[(&str, &[&str])] = &[
    ("causeway-planner", &[]),
    ("causeway-api", &["causeway-planner"]),
    ("causeway-ovn", &[]),
    ("causeway-drive", &[]),
    (
        "causeway-observe",
        &[
            "causeway-api",
            "causeway-drive",
            "causeway-ovn",
            "causeway-planner",
        ],
    ),
    (
        "causeway-controller",
        &[
            "causeway-api",
            "causeway-drive",
            "causeway-observe",
            "causeway-ovn",
            "causeway-planner",
        ],
    ),
    (
        "causeway-admission",
        &[
            "causeway-api",
            "causeway-drive",
            "causeway-observe",
            "causeway-planner",
        ],
    ),
    ("causeway-kubeapi", &[]),
    (
        "causeway-kubeovn",
        &["causeway-api", "causeway-drive", "causeway-ovn"],
    ),
    ("causeway-ipam", &["causeway-api", "causeway-drive"]),
    (
        "causeway-lab",
        &[
            "causeway-api",
            "causeway-controller",
            "causeway-drive",
            "causeway-ipam",
            "causeway-kubeapi",
            "causeway-kubeovn",
            "causeway-observe",
            "causeway-ovn",
            "causeway-planner",
        ],
    ),
    (
        "causeway-cli",
        &[
            "causeway-admission",
            "causeway-api",
            "causeway-lab",
            "causeway-observe",
            "causeway-ovn",
            "causeway-planner",
        ],
    ),
    ("xtask", &[]),
];

/// Crates that must not come along, however far away.
const MUST_NOT_LINK: &[(&str, &[&str])] = &[
    ("causeway-planner", &["tokio", "kube", "k8s-openapi"]),
    ("causeway-api", &["tokio", "causeway-ovn"]),
    ("causeway-ovn", &["kube", "k8s-openapi"]),
    ("causeway-kubeapi", &["causeway-controller", "causeway-lab"]),
    ("causeway-kubeovn", &["causeway-controller", "causeway-lab"]),
    ("causeway-ipam", &["causeway-controller", "causeway-lab"]),
    ("xtask", &["causeway-planner", "tokio"]),
];

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

#[test]
fn every_crate_declares_only_what_it_may_know() {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1", "--locked"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("metadata is JSON");
    let rules: BTreeMap<&str, &[&str]> = MAY_DECLARE.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some(allowed) = rules.get(name) else {
            wrong.push(format!("{name} has no rule"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let normal = dependency["kind"].is_null();
            let on = dependency["name"].as_str().expect("a name");
            if normal && rules.contains_key(on) && !allowed.contains(&on) {
                wrong.push(format!("{name} must not know {on}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_must_not_be_linked_does_not_come_along() {
    let mut wrong = Vec::new();
    for (package, banned) in MUST_NOT_LINK {
        let tree = cargo(&[
            "tree",
            "--package",
            package,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--locked",
        ]);
        let linked: Vec<&str> = tree
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert!(
            linked.contains(package),
            "the tree of {package} names itself"
        );
        for crate_name in *banned {
            if linked.contains(crate_name) {
                wrong.push(format!("{package} links {crate_name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
