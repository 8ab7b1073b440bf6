//! The configuration that is shipped is the one that the code means, and it keeps its distance from
//! everything else in a cluster.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use causeway_admission::configuration::{Places, configuration, to_yaml};

#[test]
fn the_shipped_configuration_is_what_the_code_generates() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/webhook/validatingwebhookconfiguration.yaml");
    let generated = to_yaml(&Places::default()).expect("YAML");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &generated).expect("the file can be written");
    }
    let committed = fs::read_to_string(&path).expect("the file");
    assert_eq!(
        committed, generated,
        "run UPDATE=1 cargo test -p causeway-admission --test configuration"
    );
}

#[test]
fn only_kinds_of_our_own_are_asked_about_and_no_subresource_and_no_upkeep() {
    let places = Places {
        namespace: "elsewhere".to_owned(),
        kube_ovn_namespace: "cozy-kubeovn".to_owned(),
        ..Places::default()
    };
    let mut kinds = BTreeSet::new();
    for webhook in configuration(&places).webhooks.expect("webhooks") {
        assert_eq!(webhook.failure_policy.as_deref(), Some("Fail"));
        assert_eq!(webhook.timeout_seconds, Some(5));
        assert_eq!(webhook.side_effects, "None");
        assert_eq!(webhook.client_config.ca_bundle, None);
        let conditions = webhook.match_conditions.expect("conditions");
        for user in [
            "system:serviceaccount:elsewhere:causeway-controller",
            "system:serviceaccount:cozy-kubeovn:ovn",
            "system:serviceaccount:kube-system:generic-garbage-collector",
            "system:serviceaccount:kube-system:namespace-controller",
        ] {
            let named = format!("\"{user}\"");
            assert!(conditions[0].expression.contains(&named), "{user}");
        }
        for rule in webhook.rules.expect("rules") {
            let groups = rule.api_groups.expect("groups");
            for resource in rule.resources.expect("resources") {
                kinds.insert(format!("{resource}.{}", groups.join(",")));
            }
        }
    }
    assert_eq!(
        kinds.iter().map(String::as_str).collect::<Vec<_>>(),
        [
            "proxmoxnetworks.proxmox.cozystack.io",
            "proxmoxnetworkzones.proxmox.cozystack.io",
            "virtualprivateclouds.apps.cozystack.io",
        ]
    );
}
