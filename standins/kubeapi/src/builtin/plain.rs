//! Kinds that are only stored: of configuration, of access control, and the reviews that are not
//! even that.

use super::{AGE, Entry};
use crate::kinds::Nature;

const RBAC: &str = crate::rbac::GROUP;
const REVIEW: &str = include_str!("review.json");

/// What most of these kinds have in common.
const PLAIN: Entry = Entry {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    short: &[],
    namespaced: true,
    has_status: false,
    nature: Nature::Plain,
    table: "",
    columns: &[AGE],
};

const CREATED: (&str, &str, i64, &str) = ("Created At", "date", 0, ".metadata.creationTimestamp");

const BINDING: &[(&str, &str, i64, &str)] = &[
    ("Role", "string", 0, ""),
    AGE,
    ("Users", "string", 1, ""),
    ("Groups", "string", 1, ""),
    ("ServiceAccounts", "string", 1, ""),
];

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        kind: "ConfigMap",
        plural: "configmaps",
        short: &["cm"],
        table: include_str!("config_map.json"),
        columns: &[("Data", "string", 0, ""), AGE],
        ..PLAIN
    },
    Entry {
        kind: "Secret",
        plural: "secrets",
        nature: Nature::Secret,
        table: include_str!("secret.json"),
        columns: &[
            ("Type", "string", 0, ".type"),
            ("Data", "string", 0, ""),
            AGE,
        ],
        ..PLAIN
    },
    Entry {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        short: &["sa"],
        table: include_str!("service_account.json"),
        columns: &[("Secrets", "string", 0, ""), AGE],
        ..PLAIN
    },
    Entry {
        group: RBAC,
        kind: "Role",
        plural: "roles",
        nature: Nature::Access,
        table: include_str!("role.json"),
        columns: &[CREATED],
        ..PLAIN
    },
    Entry {
        group: RBAC,
        kind: "RoleBinding",
        plural: "rolebindings",
        nature: Nature::Access,
        table: include_str!("role_binding.json"),
        columns: BINDING,
        ..PLAIN
    },
    Entry {
        group: RBAC,
        kind: "ClusterRole",
        plural: "clusterroles",
        namespaced: false,
        nature: Nature::Access,
        table: include_str!("cluster_role.json"),
        columns: &[CREATED],
        ..PLAIN
    },
    Entry {
        group: RBAC,
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        namespaced: false,
        nature: Nature::Access,
        table: include_str!("cluster_role_binding.json"),
        columns: BINDING,
        ..PLAIN
    },
    review(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
    ),
    review(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
    ),
    review(
        "authorization.k8s.io",
        "SubjectAccessReview",
        "subjectaccessreviews",
    ),
    Entry {
        namespaced: true,
        ..review(
            "authorization.k8s.io",
            "LocalSubjectAccessReview",
            "localsubjectaccessreviews",
        )
    },
    review(
        "authentication.k8s.io",
        "SelfSubjectReview",
        "selfsubjectreviews",
    ),
];

const fn review(group: &'static str, kind: &'static str, plural: &'static str) -> Entry {
    Entry {
        group,
        kind,
        plural,
        namespaced: false,
        nature: Nature::Review,
        table: REVIEW,
        columns: &[],
        ..PLAIN
    }
}
