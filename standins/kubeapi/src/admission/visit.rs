//! What one request carries through its tries.
//!
//! Made by [`service`](crate::service) for every request. Must stay true: what is drawn for a
//! request (time, uid, name) is drawn once, so that a try repeats the one before.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::hooks::{Address, Hook};
use crate::clock::Clock;

/// A webhook's AdmissionReview, or why there is none.
pub(super) type Answer = Result<Value, String>;

/// A question to a webhook.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(super) hook: String,
    pub(super) address: Address,
    pub(super) round: u8,
    /// The `request` of the AdmissionReview, without its uid.
    pub(super) request: Value,
}

impl Question {
    pub(super) fn new(hook: &Hook, round: u8, request: Value) -> Self {
        Self {
            hook: hook.id(),
            address: hook.address.clone(),
            round,
            request,
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.hook == other.hook && self.round == other.round && self.request == other.request
    }

    /// The body that is sent.
    pub(super) fn body(&self, uid: &str) -> Value {
        let mut request = self.request.clone();
        request["uid"] = uid.into();
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
    }
}

/// One request.
#[derive(Debug, Default)]
pub(crate) struct Visit {
    /// No webhook is asked.
    pub(super) past_webhooks: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    answers: Vec<(Question, Answer)>,
    open: Vec<Question>,
    warnings: Vec<String>,
    stamp: Option<String>,
    uid: Option<String>,
    suffix: Option<String>,
}

impl Visit {
    /// Of one who comes past the webhooks or not.
    pub(crate) fn new(past_webhooks: bool) -> Self {
        Self {
            past_webhooks,
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Now, for the whole request.
    pub(crate) fn stamp(&self, clock: &Clock) -> String {
        self.lock()
            .stamp
            .get_or_insert_with(|| clock.stamp())
            .clone()
    }

    /// The uid of the object that the request makes.
    pub(crate) fn uid(&self, clock: &Clock) -> String {
        self.lock().uid.get_or_insert_with(|| clock.uid()).clone()
    }

    /// The letters that complete its name.
    pub(crate) fn name_suffix(&self, clock: &Clock) -> String {
        let mut inner = self.lock();
        inner
            .suffix
            .get_or_insert_with(|| clock.name_suffix())
            .clone()
    }

    /// Adds a warning to the answer.
    pub(crate) fn warn(&self, warning: String) {
        let mut inner = self.lock();
        if !inner.warnings.contains(&warning) {
            inner.warnings.push(warning);
        }
    }

    /// The warnings of the last try.
    pub(crate) fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().warnings)
    }

    /// The answer to a question; without one the question is open.
    pub(super) fn answer(&self, question: Question) -> Option<Answer> {
        let mut inner = self.lock();
        let known = inner.answers.iter().find(|(known, _)| known.is(&question));
        if let Some((_, answer)) = known {
            return Some(answer.clone());
        }
        inner.open.push(question);
        None
    }

    /// Whether a webhook has been asked in a round.
    pub(super) fn has_asked(&self, hook: &Hook, round: u8) -> bool {
        let (inner, id) = (self.lock(), hook.id());
        let mut answers = inner.answers.iter();
        answers.any(|(question, _)| question.hook == id && question.round == round)
    }

    /// The questions that the last try came to, with a uid for each; the next try starts afresh.
    pub(super) fn take_open(&self) -> Vec<Question> {
        let mut inner = self.lock();
        let open = std::mem::take(&mut inner.open);
        if !open.is_empty() {
            inner.warnings.clear();
        }
        open
    }

    pub(super) fn record(&self, question: Question, answer: Answer) {
        self.lock().answers.push((question, answer));
    }
}
