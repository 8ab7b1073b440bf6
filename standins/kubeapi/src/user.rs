//! Who asks: a name and groups, as authentication finds them.
//!
//! Made by whoever opens a door ([`KubeApi::client_as`](crate::KubeApi::client_as), the HTTPS
//! server) and by impersonation headers; judged by [`crate::rbac`]. Must stay true: a user
//! that is not anonymous is in `system:authenticated` once it has come through a door.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::{
    rbac::{self, Attributes},
    status::Failure,
    store::Store,
};

/// Its members may do everything.
pub(crate) const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Somebody who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// What role bindings and messages name.
    pub name: String,
    /// What role bindings may name instead.
    pub groups: Vec<String>,
    /// Tells apart users that had the same name; mostly empty.
    pub uid: String,
    /// What else authentication found out.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user with groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// A user who may do everything.
    pub fn master(name: &str) -> Self {
        Self::new(name, &[MASTERS])
    }

    /// What a pod under this service account is.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let mut user = Self::new(&format!("system:serviceaccount:{namespace}:{name}"), &[]);
        user.groups = service_account_groups(namespace);
        user
    }

    /// Who shows neither a certificate nor a token.
    pub(crate) fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// The user as the server sees it.
    pub(crate) fn authenticated(mut self) -> Self {
        let told = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if !self.groups.iter().any(told) {
            let group = if self.name == ANONYMOUS {
                UNAUTHENTICATED
            } else {
                AUTHENTICATED
            };
            self.groups.push(group.to_owned());
        }
        self
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        SERVICE_ACCOUNTS.to_owned(),
        format!("{SERVICE_ACCOUNTS}:{namespace}"),
    ]
}

/// Namespace and name of a service account, by the user that it is.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

const EXTRA: &str = "impersonate-extra-";

/// The user whom a request's headers name, if the one who sends it may be that user. Nothing
/// without such headers.
pub(crate) fn impersonated(
    store: &Store,
    user: &User,
    headers: &HeaderMap,
) -> Result<Option<User>, Failure> {
    let texts = |name: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let one = |name: &str| texts(name).into_iter().next().unwrap_or_default();
    let mut wanted = User::new(&one("impersonate-user"), &[]);
    wanted.groups = texts("impersonate-group");
    wanted.uid = one("impersonate-uid");
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            wanted.extra.insert(key.to_owned(), texts(name.as_str()));
        }
    }
    if wanted.name.is_empty() {
        if wanted == User::default() {
            return Ok(None);
        }
        return Err(Failure::internal(format!(
            "requested {} without impersonating a user",
            [&wanted.groups.join(" "), &wanted.uid]
                .iter()
                .find(|text| !text.is_empty())
                .map_or("extra", |text| text.as_str()),
        )));
    }
    check(store, user, &wanted)?;
    if let Some((namespace, _)) = split_service_account(&wanted.name)
        && wanted.groups.is_empty()
    {
        wanted.groups = service_account_groups(namespace);
    }
    Ok(Some(wanted.authenticated()))
}

/// Every part of the wanted user is something of its own to be allowed.
fn check(store: &Store, user: &User, wanted: &User) -> Result<(), Failure> {
    let may = |resource, name, namespace, group, subresource| {
        let asked = Attributes::Resource {
            verb: "impersonate",
            group,
            resource,
            subresource,
            namespace,
            name,
        };
        rbac::authorize(store, user, &asked)
    };
    match split_service_account(&wanted.name) {
        Some((namespace, name)) => may("serviceaccounts", name, namespace, "", "")?,
        None => may("users", &wanted.name, "", "", "")?,
    }
    for group in &wanted.groups {
        may("groups", group, "", "", "")?;
    }
    let identity = "authentication.k8s.io";
    if !wanted.uid.is_empty() {
        may("uids", &wanted.uid, "", identity, "")?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            may("userextras", value, "", identity, key)?;
        }
    }
    Ok(())
}
