//! What answers HTTP requests: reviews, health, readiness, metrics.
//!
//! Called by the server for every request, and by tests in process. Must stay true: a body is read no
//! further than [`LARGEST_REVIEW`]; what is no review is answered with an HTTP error that says so,
//! what is one with an AdmissionReview, always.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};

use crate::{
    judge::Judge,
    metrics::Metrics,
    review::{self, Answer},
};

/// The largest body that is read, in bytes: twice what etcd stores of one object, so an update has
/// room for both (design 9.3).
pub const LARGEST_REVIEW: usize = 3 * 1024 * 1024;

/// How long a body may take: the API server gives up after 5 s.
const PATIENCE: Duration = Duration::from_secs(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Who answers, or why nobody does yet.
#[derive(Clone)]
enum Judging {
    Not(String),
    By(Judge),
}

/// The service; clones are the same one.
#[derive(Clone)]
pub(crate) struct Service {
    judging: Arc<RwLock<Judging>>,
    metrics: Arc<Metrics>,
}

impl Service {
    /// One that does not judge yet.
    pub(crate) fn new() -> Self {
        let why = "the watches are not synced yet".to_owned();
        Self {
            judging: Arc::new(RwLock::new(Judging::Not(why))),
            metrics: Arc::new(Metrics::new()),
        }
    }

    /// From now on reviews are answered by `judge`.
    pub(crate) fn judge_by(&self, judge: Judge) {
        self.set(Judging::By(judge));
    }

    /// Why there is no judge.
    pub(crate) fn waits_for(&self, why: String) {
        self.set(Judging::Not(why));
    }

    fn set(&self, judging: Judging) {
        *self.judging.write().unwrap_or_else(PoisonError::into_inner) = judging;
    }

    fn judging(&self) -> Judging {
        let judging = self.judging.read().unwrap_or_else(PoisonError::into_inner);
        judging.clone()
    }

    /// Why this replica should not be asked, if there is a reason.
    pub(crate) fn unready(&self) -> Option<String> {
        match self.judging() {
            Judging::Not(why) => Some(why),
            Judging::By(judge) => judge.unready(),
        }
    }

    async fn answer<B>(self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        match (&parts.method, parts.uri.path()) {
            (&Method::POST, "/validate") => self.review(body).await,
            (&Method::GET, "/healthz") => text(StatusCode::OK, "ok"),
            (&Method::GET, "/readyz") => match self.unready() {
                None => text(StatusCode::OK, "ok"),
                Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, &why),
            },
            (&Method::GET, "/metrics") => match self.metrics.text() {
                Ok(metrics) => {
                    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                    respond(StatusCode::OK, kind, metrics)
                }
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            },
            (_, "/validate" | "/healthz" | "/readyz" | "/metrics") => text(
                StatusCode::METHOD_NOT_ALLOWED,
                &format!("{} {} is not done here", parts.method, parts.uri.path()),
            ),
            (_, path) => text(
                StatusCode::NOT_FOUND,
                &format!("{path} is nothing; there are /validate, /healthz, /readyz and /metrics"),
            ),
        }
    }

    async fn review<B>(&self, body: B) -> Response<Full<Bytes>>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let whole = Limited::new(body, LARGEST_REVIEW).collect();
        let body = match tokio::time::timeout(PATIENCE, whole).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => {
                self.metrics.malformed();
                return unread(&*error);
            }
            Err(_) => {
                self.metrics.malformed();
                return text(StatusCode::REQUEST_TIMEOUT, "the body does not come");
            }
        };
        let begun = Instant::now();
        let question = match review::question(&body) {
            Ok(question) => question,
            Err(malformed) => {
                self.metrics.malformed();
                return text(StatusCode::BAD_REQUEST, &chain(&malformed));
            }
        };
        let answer = match self.judging() {
            Judging::By(judge) => judge.answer(&question, &body).await,
            Judging::Not(why) => {
                let message = format!("causeway cannot decide yet: {why}");
                Answer::Undecided(503, "ServiceUnavailable", message)
            }
        };
        self.metrics.answered(&question, &answer, begun.elapsed());
        respond(StatusCode::OK, "application/json", answer.body(&question))
    }
}

fn unread(error: &(dyn std::error::Error + 'static)) -> Response<Full<Bytes>> {
    if error.is::<LengthLimitError>() {
        let message = format!("the review is larger than {LARGEST_REVIEW} bytes");
        return text(StatusCode::PAYLOAD_TOO_LARGE, &message);
    }
    text(
        StatusCode::BAD_REQUEST,
        &format!("the body breaks off: {error}"),
    )
}

/// An error with what it comes from.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn respond(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

type Reply = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>>;

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Reply;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Reply {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}
