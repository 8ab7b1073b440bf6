//! `causeway crd` prints what is committed in `deploy/crds`.
//!
//! That the files are what the types generate is tested in crates/api; here it is the command.

use std::{fs, path::Path, process::Command};

#[test]
fn crd_prints_the_committed_definitions_and_apps_and_foreign_kinds_only_when_asked() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let committed = |name: &str| fs::read_to_string(folder.join(name)).expect("a definition");
    let ours = [
        committed("proxmox.cozystack.io_proxmoxnetworkzones.yaml"),
        committed("proxmox.cozystack.io_proxmoxnetworks.yaml"),
    ];
    let apps = committed("apps/apps.cozystack.io_virtualprivateclouds.yaml");
    let with_apps = [ours.to_vec(), vec![apps]].concat();
    let foreign = causeway_api::foreign_crds();
    let foreign = foreign
        .iter()
        .map(|one| causeway_api::to_yaml(one).expect("YAML"));
    let with_all: Vec<String> = with_apps.iter().cloned().chain(foreign).collect();
    assert!(
        with_all[3..]
            .iter()
            .all(|text| text.contains("-- crd --foreign\n"))
    );
    for (arguments, files) in [
        (vec!["crd"], ours.to_vec()),
        (vec!["crd", "--apps"], with_apps),
        (vec!["crd", "--apps", "--foreign"], with_all),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
            .args(&arguments)
            .output()
            .expect("the command runs");
        assert!(output.status.success(), "{arguments:?}");
        let printed = String::from_utf8(output.stdout).expect("text");
        let documents: Vec<&str> = printed
            .split("---\n")
            .filter(|one| !one.is_empty())
            .collect();
        assert_eq!(documents, files, "{arguments:?}");
    }
}
