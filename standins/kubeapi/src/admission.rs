//! Admission webhooks: who is asked about a write, and what follows from the answers.
//!
//! Called by [`write`](crate::write) and [`remove`](crate::remove) at the places where the real
//! server's handlers do. Everything that happens to the store happens under its lock, and nobody
//! waits there; so a write that comes to a question breaks off, changes nothing, and is tried again
//! from its beginning once the answer is here ([`Visit`]). If meanwhile the object has become
//! another, so has the question, and it is put again. Must stay true: no try that lacks an answer
//! changes anything; a decision stands on the very object that is stored.

mod hooks;
mod rules;
mod transport;
mod visit;

pub(crate) use hooks::faults;
pub(crate) use transport::Webhooks;
pub(crate) use visit::Visit;

use http::StatusCode;
use serde_json::{Value, json};

use self::{
    hooks::{Hook, Phase},
    visit::{Answer, Question},
};
use crate::{
    object,
    options::Options,
    patch,
    rbac::review,
    schema::shape,
    status::Failure,
    write::{Desk, Part, Target},
};

/// What is being done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Delete => "DeleteOptions",
        }
    }
}

/// What webhooks are asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) operation: Operation,
    /// The object's name if the request states it.
    pub(crate) name: &'a str,
    pub(crate) object: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) dry_run: bool,
    pub(crate) options: &'a Value,
}

impl<'a> Attributes<'a> {
    pub(crate) fn of_write(
        target: Target<'a>,
        operation: Operation,
        object: &'a Value,
        old: &'a Value,
        options: &'a Options,
    ) -> Self {
        let name = if target.name.is_empty() {
            object::name(object)
        } else {
            target.name
        };
        Self {
            target,
            operation,
            name,
            object,
            old,
            dry_run: options.dry_run,
            options: &options.stated,
        }
    }

    /// The namespace of the request; a Namespace is in itself.
    fn namespace(&self) -> &'a str {
        if self.target.kind.nature == crate::kinds::Nature::Namespace {
            self.name
        } else {
            self.target.namespace
        }
    }

    /// The body of the question, without its uid, for a webhook that wants `version`.
    fn review(&self, version: &str, user: &Value) -> Value {
        let kind = self.target.kind;
        let group = &kind.resource.group;
        let (kind_name, kind_group, kind_version) = match self.target.part {
            Part::Scale => ("Scale", "autoscaling", "v1"),
            _ => (kind.name.as_str(), group.as_str(), version),
        };
        let of_kind =
            |version: &str| json!({"group": kind_group, "version": version, "kind": kind_name});
        let of_resource = |version: &str| json!({"group": group, "version": version, "resource": kind.resource.plural});
        let request_version = match self.target.part {
            Part::Scale => "v1",
            _ => &kind.version,
        };
        let mut options = self.options.clone();
        options["kind"] = self.operation.options().into();
        options["apiVersion"] = "meta.k8s.io/v1".into();
        let mut request = json!({
            "kind": of_kind(kind_version),
            "resource": of_resource(version),
            "requestKind": of_kind(request_version),
            "requestResource": of_resource(&kind.version),
            "operation": self.operation.name(),
            "userInfo": user,
            "object": in_version(self.object, kind_group, kind_version),
            "oldObject": in_version(self.old, kind_group, kind_version),
            "dryRun": self.dry_run,
            "options": options,
        });
        let texts = [
            ("name", self.name),
            ("namespace", self.namespace()),
            ("subResource", self.target.part.name()),
            ("requestSubResource", self.target.part.name()),
        ];
        for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            request[field] = text.into();
        }
        request
    }
}

/// The object as readers of another version of its kind see it.
fn in_version(object: &Value, group: &str, version: &str) -> Value {
    let mut object = object.clone();
    if object.is_object() && object.get("apiVersion").is_some() {
        object["apiVersion"] = if group.is_empty() {
            version.into()
        } else {
            format!("{group}/{version}").into()
        };
    }
    object
}

impl Desk<'_> {
    /// Asks the mutating webhooks and returns the object as they leave it.
    pub(crate) fn mutate(&mut self, asked: Attributes<'_>) -> Result<Value, Failure> {
        if self.visit.past_webhooks {
            return Ok(asked.object.clone());
        }
        let hooks = hooks::read(self.store, Phase::Mutating, &asked);
        let mut object = asked.object.clone();
        // Whom a change by another brings back, and who is to be asked again.
        let (mut called, mut again) = (Vec::new(), Vec::new());
        for round in 0..2 {
            for (index, hook) in hooks.iter().enumerate() {
                if round == 1 && !again.contains(&index) {
                    continue;
                }
                if self.mutate_by(hook, round, asked, &mut object)? {
                    again.append(&mut called);
                }
                if hook.is_called_again && self.visit.has_asked(hook, round) {
                    called.push(index);
                }
            }
        }
        Ok(object)
    }

    /// Asks one webhook; whether it changed the object.
    fn mutate_by(
        &mut self,
        hook: &Hook,
        round: u8,
        asked: Attributes<'_>,
        object: &mut Value,
    ) -> Result<bool, Failure> {
        let before = object.clone();
        let asked = Attributes {
            object: &before,
            ..asked
        };
        let Some(version) = rules::version_to_ask(self.store, hook, asked, &self.user())? else {
            return Ok(false);
        };
        let question = Question::new(hook, round, asked.review(&version, &self.user()));
        let Some(answer) = self.visit.answer(question) else {
            return Err(Failure::internal("a webhook has not answered yet"));
        };
        let patch = self.verdict(hook, answer)?;
        let Value::Array(operations) = &patch else {
            return Ok(false);
        };
        if operations.is_empty() {
            return Ok(false);
        }
        if object.is_null() {
            return Err(Failure::internal_error(&format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                hook.name
            )));
        }
        let mut patched = patch::patched(
            patch::PatchKind::Json,
            object,
            &patch,
            &asked.target.kind.schema,
        )
        .map_err(|failure| Failure::internal_error(&failure.message))?;
        patched["apiVersion"] = before["apiVersion"].clone();
        if asked.target.part != Part::Scale {
            let schema = &asked.target.kind.schema;
            shape::prune(&mut patched, schema);
            shape::default(&mut patched, schema);
        }
        *object = patched;
        Ok(*object != before)
    }

    /// Asks the validating webhooks.
    pub(crate) fn validate(&mut self, asked: Attributes<'_>) -> Result<(), Failure> {
        if self.visit.past_webhooks {
            return Ok(());
        }
        let hooks = hooks::read(self.store, Phase::Validating, &asked);
        let mut refused = None;
        let mut open = false;
        for hook in &hooks {
            let Some(version) = rules::version_to_ask(self.store, hook, asked, &self.user())?
            else {
                continue;
            };
            let question = Question::new(hook, 0, asked.review(&version, &self.user()));
            match self.visit.answer(question) {
                None => open = true,
                Some(answer) => {
                    if let Err(failure) = self.verdict(hook, answer) {
                        refused.get_or_insert(failure);
                    }
                }
            }
        }
        if open {
            return Err(Failure::internal("a webhook has not answered yet"));
        }
        refused.map_or(Ok(()), Err)
    }

    /// What an answer means; of one that allows, its patch.
    fn verdict(&mut self, hook: &Hook, answer: Answer) -> Result<Value, Failure> {
        let answered = match answer {
            Ok(review) => hooks::verify(hook, &review),
            Err(why) => Err(why),
        };
        let response = match answered {
            Ok(response) => response,
            Err(_) if hook.is_ignored_on_failure => return Ok(Value::Null),
            Err(why) => {
                return Err(Failure::internal_error(&format!(
                    "failed calling webhook {:?}: {why}",
                    hook.name
                )));
            }
        };
        for warning in response.warnings {
            self.visit.warn(warning);
        }
        match response.denial {
            Some(status) => Err(denial(&hook.name, &status)),
            None => Ok(response.patch),
        }
    }

    /// Who writes, as webhooks see it.
    fn user(&self) -> Value {
        review::info(self.user)
    }
}

/// The refusal that a webhook's `status` makes.
fn denial(hook: &str, status: &Value) -> Failure {
    let text = |field: &str| {
        status
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let code = status
        .get("code")
        .and_then(Value::as_u64)
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| *code >= 400)
        .and_then(|code| StatusCode::from_u16(code).ok())
        .unwrap_or(StatusCode::BAD_REQUEST);
    let why = match (text("message"), text("reason")) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    let message = format!("admission webhook {hook:?} denied the request{why}");
    let mut failure = Failure::new(code, text("reason").to_owned(), message);
    failure.details = status.get("details").cloned().unwrap_or_default();
    failure
}
