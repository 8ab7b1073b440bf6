//! What the API was asked to write, from its audit log: how many writes an object takes.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// The audit log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file.
    #[error("cannot read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line of it.
    #[error("the audit log has a line that is no event: {line}")]
    Event {
        /// Which.
        line: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// One kind of write to one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Who asked.
    pub user: String,
    /// Plural of the kind, with `/status` if that was meant.
    pub resource: String,
    /// Namespace and name, or the name alone.
    pub object: String,
    /// create, update, patch, delete or deletecollection.
    pub verb: String,
    /// How the API answered.
    pub code: u16,
}

/// Writes and how often each was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests(pub BTreeMap<Request, usize>);

impl Requests {
    /// Those of one user.
    #[must_use]
    pub fn by(&self, user: &str) -> Self {
        let own = self.0.iter().filter(|(request, _)| request.user == user);
        Self(
            own.map(|(request, count)| (request.clone(), *count))
                .collect(),
        )
    }

    /// Those that are here and were not yet in `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let more = self.0.iter().filter_map(|(request, count)| {
            let before = earlier.0.get(request).copied().unwrap_or_default();
            (*count > before).then(|| (request.clone(), count - before))
        });
        Self(more.collect())
    }

    /// How many all together.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// How many each object took.
    pub fn per_object(&self) -> BTreeMap<(String, String), usize> {
        let mut counts = BTreeMap::new();
        for (request, count) in &self.0 {
            let resource = request.resource.split('/').next().unwrap_or_default();
            *counts
                .entry((resource.to_owned(), request.object.clone()))
                .or_default() += count;
        }
        counts
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (request, count) in &self.0 {
            let Request {
                user,
                resource,
                object,
                verb,
                code,
            } = request;
            writeln!(f, "{count} × {user} {verb} {resource} {object} ({code})")?;
        }
        Ok(())
    }
}

pub(super) fn read(path: &Path) -> Result<Requests, AuditError> {
    let text = fs::read_to_string(path).map_err(|source| AuditError::File {
        path: path.to_owned(),
        source,
    })?;
    let mut requests = Requests::default();
    // The last line may still be under way.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.lines() {
        let event: Event = serde_json::from_str(line).map_err(|source| AuditError::Event {
            line: line.to_owned(),
            source,
        })?;
        if let Some(request) = event.request() {
            *requests.0.entry(request).or_default() += 1;
        }
    }
    Ok(requests)
}

/// An event of `audit.k8s.io/v1`, as far as it is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct ObjectRef {
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl Event {
    fn request(self) -> Option<Request> {
        if self.stage != "ResponseComplete" {
            return None;
        }
        let object = self.object_ref?;
        let resource = object.resource.unwrap_or_default();
        let name = object.name.unwrap_or_default();
        Some(Request {
            user: self.user.username,
            resource: match object.subresource {
                Some(part) => format!("{resource}/{part}"),
                None => resource,
            },
            object: match object.namespace {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            },
            verb: self.verb,
            code: self
                .response_status
                .and_then(|it| it.code)
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(user: &str, verb: &str, part: &str) -> String {
        format!(
            r#"{{"stage":"ResponseComplete","verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{{"resource":"vlans","subresource":{part},"name":"a"}},"responseStatus":{{"code":200}}}}"#
        )
    }

    #[test]
    fn writes_are_counted_by_user_and_object_and_a_line_under_way_is_left_for_later() {
        let path = std::env::temp_dir().join(format!("causeway-audit-{}", std::process::id()));
        let lines = [
            event("causeway", "patch", "null"),
            event("causeway", "patch", "\"status\""),
            event("admin", "delete", "null"),
        ];
        fs::write(&path, format!("{}\n{{\"stage\":", lines.join("\n"))).expect("a log");
        let read = read(&path);
        fs::remove_file(&path).expect("removed");
        let all = read.expect("requests");
        let own = all.by("causeway");
        assert_eq!((all.total(), own.total()), (3, 2));
        let vlan = ("vlans".to_owned(), "a".to_owned());
        assert_eq!(own.per_object(), BTreeMap::from([(vlan, 2)]));
        assert_eq!(all.since(&own).by("admin").total(), 1);
        assert_eq!(all.since(&all), Requests::default());
    }
}
