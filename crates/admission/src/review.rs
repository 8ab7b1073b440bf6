//! AdmissionReview v1, as the API server sends it and as it wants the answer.
//!
//! Called by the judge. Must stay true: a field stated twice, trailing bytes and wrong types are
//! errors that name the place; what is not looked at (user, options, managedFields) is not parsed.

use causeway_planner::admit::Violation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json};

/// The one version that is spoken.
const VERSION: &str = "admission.k8s.io/v1";

/// The API server shortens longer warnings, and may drop those beyond the total.
const WARNING_MAX: usize = 256;
const WARNINGS_MAX: usize = 4096;

/// A body that is no review.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// No JSON, or not this shape.
    #[error("not an AdmissionReview")]
    Json(#[source] serde_json::Error),
    /// Another version, another kind.
    #[error("{kind} of {api_version}: only AdmissionReview of {VERSION} is answered here")]
    Version {
        /// What it says it is.
        kind: String,
        /// In which version.
        api_version: String,
    },
    /// An answer.
    #[error("the AdmissionReview asks nothing: it has no request")]
    NoRequest,
}

/// What is asked, without the objects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// To be repeated in the answer.
    pub uid: String,
    /// The kind that is written.
    pub kind: Kind,
    /// Empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// What is done.
    pub operation: Operation,
    /// Name in the request.
    #[serde(default)]
    pub name: String,
    /// Empty for cluster-scoped kinds.
    #[serde(default)]
    pub namespace: String,
}

/// A kind with group and version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Kind {
    /// Group.
    pub group: String,
    /// Version.
    pub version: String,
    /// What the field `kind` says.
    #[serde(rename = "kind")]
    pub name: String,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// A subresource is used; never asked about.
    Connect,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<R> {
    api_version: String,
    kind: String,
    request: Option<R>,
    #[serde(default, rename = "response")]
    _response: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "K: DeserializeOwned")]
struct Objects<K> {
    object: Option<K>,
    old_object: Option<K>,
}

/// What a body asks.
///
/// # Errors
/// [`Malformed`].
pub fn question(body: &[u8]) -> Result<Question, Malformed> {
    let review: Review<Question> = serde_json::from_slice(body).map_err(Malformed::Json)?;
    if (review.api_version.as_str(), review.kind.as_str()) != (VERSION, "AdmissionReview") {
        return Err(Malformed::Version {
            kind: review.kind,
            api_version: review.api_version,
        });
    }
    review.request.ok_or(Malformed::NoRequest)
}

/// The object as it is, and as it would be.
///
/// # Errors
/// If one of them is not of this type.
pub fn objects<K: DeserializeOwned>(
    body: &[u8],
) -> Result<(Option<K>, Option<K>), serde_json::Error> {
    let review: Review<Objects<K>> = serde_json::from_slice(body)?;
    let both = review.request.map(|it| (it.old_object, it.object));
    Ok(both.unwrap_or_default())
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It may happen; warnings go to whoever writes.
    Allow(Vec<Violation>),
    /// It breaks rules.
    Deny(Vec<Violation>),
    /// It cannot be decided, for this reason, which has this HTTP code and reason.
    Undecided(u16, &'static str, String),
}

impl Answer {
    /// The body to send.
    pub fn body(&self, question: &Question) -> String {
        let mut response = json!({"uid": question.uid, "allowed": matches!(self, Self::Allow(_))});
        match self {
            Self::Allow(warnings) if warnings.is_empty() => {}
            Self::Allow(warnings) => response["warnings"] = shorten(warnings).into(),
            Self::Deny(broken) => response["status"] = status(&denial(question, broken)),
            Self::Undecided(code, reason, message) => {
                response["status"] = status(&Status {
                    code: Some(i32::from(*code)),
                    reason: Some((*reason).to_owned()),
                    message: Some(message.clone()),
                    ..failure()
                });
            }
        }
        json!({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response}).to_string()
    }
}

fn failure() -> Status {
    Status {
        status: Some("Failure".to_owned()),
        ..Status::default()
    }
}

/// The type writes `apiVersion` and `kind`, which have no place in a review.
fn status(status: &Status) -> Value {
    let mut value = json!(status);
    if let Value::Object(fields) = &mut value {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    value
}

/// Forbidden, because kubectl prints the message of that as it is; that of an Invalid it would replace by
/// its causes.
fn denial(question: &Question, broken: &[Violation]) -> Status {
    let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
    let causes = broken.iter().map(|one| StatusCause {
        field: Some(one.path.to_string()),
        message: Some(one.message.clone()),
        reason: Some("FieldValueInvalid".to_owned()),
    });
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Status {
        code: Some(403),
        reason: Some("Forbidden".to_owned()),
        message: Some(lines.join("\n")),
        details: Some(StatusDetails {
            group: text(&question.kind.group),
            kind: text(&question.kind.name),
            name: text(&question.name),
            causes: Some(causes.collect()),
            ..StatusDetails::default()
        }),
        ..failure()
    }
}

/// Warnings as far as the API server passes them on.
fn shorten(warnings: &[Violation]) -> Vec<String> {
    let mut total = 0;
    let short = warnings.iter().map(|warning| {
        let text = warning.to_string();
        if text.len() <= WARNING_MAX {
            return text;
        }
        let cut = text.floor_char_boundary(WARNING_MAX - '…'.len_utf8());
        format!("{}…", &text[..cut])
    });
    short
        .take_while(|text| {
            total += text.len();
            total <= WARNINGS_MAX
        })
        .collect()
}
