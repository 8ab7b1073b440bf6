//! The tower service: requests in, responses out.
//!
//! Called through `kube::Client`. Must stay true: everything a request does to the store happens
//! under one lock without waiting; only reading the request's body and a watch's stream wait.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::{
    Inner,
    admission::Visit,
    body::Body,
    discovery,
    incoming::{self, Unknown},
    kinds::{Kind, Nature},
    object::Object,
    options::Options,
    patch::PatchKind,
    protobuf,
    rbac::{self, Attributes, review},
    read,
    remove::{self, DeleteOptions},
    request::{self, Call, Route, Verb},
    status::Failure,
    table,
    user::{self, User},
    watching,
    write::{Desk, Part, Target, Written},
};

/// A response's body: one piece, or a watch's stream.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// A request that never becomes one.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Its body broke off.
    #[error("the request's body cannot be read")]
    Body {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The response cannot be put together.
    #[error("the response cannot be made")]
    Response(#[from] http::Error),
    /// The answer is no JSON.
    #[error("the answer cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// One user's way into the API.
#[derive(Clone, Debug)]
pub struct Door {
    inner: Arc<Inner>,
    user: Arc<User>,
    past_webhooks: bool,
}

impl Door {
    pub(crate) fn new(inner: Arc<Inner>, user: User) -> Self {
        Self {
            inner,
            user: Arc::new(user.authenticated()),
            past_webhooks: false,
        }
    }

    /// The same way, but no webhook is asked about what is written.
    pub(crate) fn past_webhooks(self) -> Self {
        Self {
            past_webhooks: true,
            ..self
        }
    }
}

impl<B> tower::Service<Request<B>> for Door
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = DoorError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let door = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| DoorError::Body {
                source: error.into(),
            })?;
            let body = match as_json(&parts.headers, body.to_bytes()) {
                Ok(body) => body,
                Err(failure) => return refusal(&failure, &[]),
            };
            let visit = Visit::new(door.past_webhooks);
            let asked = Asked {
                inner: &door.inner,
                user: &door.user,
                visit: &visit,
                method: &parts.method,
                headers: &parts.headers,
                body: &body,
            };
            let path = parts.uri.path();
            let query = parts.uri.query().unwrap_or_default();
            let mut answer = asked.answer_as_told(path, query);
            for _ in 0..MOST_TRIES {
                if !door.inner.ask_webhooks(&visit).await {
                    break;
                }
                answer = asked.answer_as_told(path, query);
            }
            // Nobody is told what could still be lost.
            let seen = door.inner.lock().revision();
            let settled = door.inner.settled(seen).await;
            match settled.and(answer) {
                Ok(answer) => answer.into_response(),
                Err(failure) => refusal(&failure, &visit.warnings()),
            }
        })
    }
}

/// The body as JSON, whatever form it has.
fn as_json(headers: &HeaderMap, body: Bytes) -> Result<Bytes, Failure> {
    let form = headers.get(header::CONTENT_TYPE);
    let is_protobuf = form.is_some_and(|form| {
        form.as_bytes()
            .starts_with(protobuf::CONTENT_TYPE.as_bytes())
    });
    if !is_protobuf || body.is_empty() {
        return Ok(body);
    }
    Ok(protobuf::read(&body)?.to_string().into())
}

/// Tries of one request. Each answers at least one more question to a webhook; nobody has so many
/// webhooks, but what changes all the time could be asked about for ever.
const MOST_TRIES: usize = 100;

/// What answers a request.
enum Answer {
    Json(StatusCode, Value),
    Object(StatusCode, Object, Vec<String>),
    List(Value, Vec<Object>),
    /// Aggregated discovery, which clients know by its content type.
    Discovery(Value),
    Text(&'static str),
    Stream(ResponseBody),
}

impl Answer {
    fn into_response(self) -> Result<Response<ResponseBody>, DoorError> {
        match self {
            Self::Json(code, value) => json_response(code, &value, &[]),
            Self::Object(code, object, warnings) => json_response(code, &*object, &warnings),
            Self::List(head, items) => json_response(
                StatusCode::OK,
                &WholeList {
                    head: &head,
                    items: &items,
                },
                &[],
            ),
            Self::Discovery(document) => {
                let mut response = json_response(StatusCode::OK, &document, &[])?;
                let form = HeaderValue::from_static(discovery::AGGREGATED);
                response.headers_mut().insert(header::CONTENT_TYPE, form);
                Ok(response)
            }
            Self::Text(text) => Ok(Response::builder()
                .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
                .body(Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync())?),
            Self::Stream(body) => Ok(Response::builder()
                .header(header::CONTENT_TYPE, "application/json")
                .body(body)?),
        }
    }
}

/// A list and its items, written without copying them.
struct WholeList<'a> {
    head: &'a Value,
    items: &'a [Object],
}

impl Serialize for WholeList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.head.as_object().into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        let items: Vec<&Value> = self.items.iter().map(|item| &**item).collect();
        map.serialize_entry("items", &items)?;
        map.end()
    }
}

fn json_response<T: Serialize>(
    code: StatusCode,
    value: &T,
    warnings: &[String],
) -> Result<Response<ResponseBody>, DoorError> {
    let mut response = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "application/json");
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        response = response.header(header::WARNING, format!("299 - \"{quoted}\""));
    }
    Ok(response.body(Full::new(Bytes::from(serde_json::to_vec(value)?)).boxed_unsync())?)
}

pub(crate) fn refusal(
    failure: &Failure,
    warnings: &[String],
) -> Result<Response<ResponseBody>, DoorError> {
    if !failure.is_plain() {
        return json_response(failure.code, &failure.to_value(), warnings);
    }
    let text = Bytes::from(format!("{}\n", failure.message));
    Ok(Response::builder()
        .status(failure.code)
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(Full::new(text).boxed_unsync())?)
}

/// A request with its body.
struct Asked<'a> {
    inner: &'a Arc<Inner>,
    user: &'a User,
    visit: &'a Visit,
    method: &'a Method,
    headers: &'a HeaderMap,
    body: &'a [u8],
}

impl Asked<'_> {
    /// Answers as the user whom the headers name, if they name one.
    fn answer_as_told(&self, path: &str, query: &str) -> Result<Answer, Failure> {
        let other = user::impersonated(&self.inner.lock(), self.user, self.headers)?;
        match &other {
            None => self.answer(path, query),
            Some(user) => Asked { user, ..*self }.answer(path, query),
        }
    }

    /// Refuses what the user may not do, whether it exists or not.
    fn authorize(&self, route: Option<&Route>, path: &str) -> Result<(), Failure> {
        let verb = self.method.as_str().to_lowercase();
        let asked = match route {
            Some(Route::Objects(call)) => call.attributes(self.method),
            _ => Attributes::Path { verb: &verb, path },
        };
        rbac::authorize(&self.inner.lock(), self.user, &asked)
    }

    fn answer(&self, path: &str, query: &str) -> Result<Answer, Failure> {
        let route = request::route(path, query);
        self.authorize(route.as_ref().ok(), path)?;
        let call = match route? {
            Route::Objects(call) => call,
            Route::Health => return Ok(Answer::Text("ok")),
            other => {
                let accept = self.header(header::ACCEPT);
                let store = self.inner.lock();
                let document = discovery::document(&store, &other, accept)?;
                return Ok(if document["kind"] == "APIGroupDiscoveryList" {
                    Answer::Discovery(document)
                } else {
                    Answer::Json(StatusCode::OK, document)
                });
            }
        };
        let verb = request::verb(self.method, &call)?;
        let kind = self
            .inner
            .lock()
            .kinds
            .find(&call.group, &call.version, &call.plural);
        let kind = kind.ok_or_else(Failure::no_such_path)?;
        check_path(&kind, &call, verb)?;
        if kind.nature == Nature::Review {
            return self.review(&kind, &call, verb);
        }
        match verb {
            Verb::Get | Verb::List => self.read(&kind, &call, verb),
            Verb::Watch => {
                let store = self.inner.lock();
                let metadata_only = self
                    .header(header::ACCEPT)
                    .contains("as=PartialObjectMetadata");
                let stream = watching::open(self.inner, &store, &kind, &call, metadata_only)?;
                Ok(Answer::Stream(BodyExt::boxed_unsync(StreamBody::new(
                    stream,
                ))))
            }
            Verb::Create | Verb::Update | Verb::Patch => {
                let written = self.write(&kind, &call, verb)?;
                let object = match Part::read(&call.subresource) {
                    Part::Scale => written.object,
                    _ => kind.present(&written.object),
                };
                Ok(Answer::Object(written.code, object, written.warnings))
            }
            Verb::Delete => {
                let options = DeleteOptions::read(&call.query, self.body)?;
                let mut store = self.inner.lock();
                let target = target(&kind, &call);
                let removed = self.desk(&mut store).delete(target, &options)?;
                let (code, object) = remove::answer(target, removed);
                Ok(Answer::Object(code, object, self.visit.warnings()))
            }
            Verb::DeleteCollection => self.delete_collection(&kind, &call),
        }
    }

    fn header(&self, name: header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    fn desk<'a>(&'a self, store: &'a mut crate::store::Store) -> Desk<'a> {
        Desk {
            store,
            clock: &self.inner.clock,
            user: self.user,
            visit: self.visit,
        }
    }

    fn read(&self, kind: &Arc<Kind>, call: &Call, verb: Verb) -> Result<Answer, Failure> {
        let accept = self.header(header::ACCEPT);
        let as_table = accept.contains("as=Table");
        let partial = accept.contains("as=PartialObjectMetadata");
        let include = table::Include::read(call.query.text("includeObject"))?;
        let now = self.inner.clock.now();
        if verb == Verb::Get {
            let object = read::get(&self.inner.lock(), kind, call)?;
            if let (Part::Scale, Some(scale)) = (Part::read(&call.subresource), &kind.scale) {
                return Ok(Answer::Json(StatusCode::OK, scale.show(&object)?));
            }
            return Ok(match (as_table, partial) {
                (true, _) => {
                    let meta = serde_json::json!({"resourceVersion": crate::object::meta_str(&object, "resourceVersion")});
                    Answer::Json(
                        StatusCode::OK,
                        table::make(kind, &[object], &meta, include, now),
                    )
                }
                (_, true) => Answer::Object(StatusCode::OK, read::partial(&object), Vec::new()),
                _ => Answer::Object(StatusCode::OK, object, Vec::new()),
            });
        }
        let page = read::list(&self.inner.lock(), kind, call)?;
        if as_table {
            let made = table::make(kind, &page.items, &read::list_meta(&page), include, now);
            return Ok(Answer::Json(StatusCode::OK, made));
        }
        let mut head = read::list_object(kind, &page);
        if partial {
            head["kind"] = "PartialObjectMetadataList".into();
            head["apiVersion"] = "meta.k8s.io/v1".into();
            return Ok(Answer::List(
                head,
                page.items.iter().map(read::partial).collect(),
            ));
        }
        Ok(Answer::List(head, page.items))
    }

    fn write(&self, kind: &Arc<Kind>, call: &Call, verb: Verb) -> Result<Written, Failure> {
        let mut options = Options::read(&call.query, self.manager(), verb)?;
        let content_type = self.header(header::CONTENT_TYPE);
        let patch = (verb == Verb::Patch)
            .then(|| PatchKind::read(content_type, kind.nature))
            .transpose()?;
        let Body {
            json: body,
            doubles,
        } = Body::read(self.body)?;
        options.doubles = doubles;
        let mut store = self.inner.lock();
        let mut desk = self.desk(&mut store);
        let target = target(kind, call);
        if target.part == Part::Scale {
            return desk.rescale(target, patch, &body, &options);
        }
        // Who makes an object by applying or putting it must be allowed to make it.
        if verb != Verb::Create && call.subresource.is_empty() && desk.live(target).is_none() {
            let makes = patch == Some(PatchKind::Apply)
                || (verb == Verb::Update && kind.nature.creates_on_update());
            let asked = call.attributes(&Method::POST);
            if makes {
                rbac::authorize(desk.store, self.user, &asked)?;
            }
        }
        match (verb, patch) {
            (Verb::Create, _) => desk.create(target, body, &options),
            (_, Some(PatchKind::Apply)) => {
                desk.apply(target, &body, &options, call.query.text("fieldManager"))
            }
            (_, Some(patch)) => desk.patch(target, patch, &body, &options),
            _ => desk.update(target, body, &options),
        }
    }

    /// Who owns what a request sets, if it names nobody: the program, or else the user.
    fn manager(&self) -> &str {
        let program = self.header(header::USER_AGENT).split('/').next();
        match program.unwrap_or_default() {
            "" => &self.user.name,
            program => program,
        }
    }

    fn review(&self, kind: &Kind, call: &Call, verb: Verb) -> Result<Answer, Failure> {
        if verb != Verb::Create {
            return Err(Failure::method_not_allowed(
                "the server does not allow this method on the requested resource",
            ));
        }
        let (review, warnings) = incoming::decode(
            kind,
            Body::read(self.body)?.json,
            Unknown::Warn,
            Vec::new(),
            false,
        )?;
        let store = self.inner.lock();
        let answer = review::answer(&store, self.user, kind, &call.namespace, review)?;
        Ok(Answer::Object(StatusCode::CREATED, answer.into(), warnings))
    }

    fn delete_collection(&self, kind: &Arc<Kind>, call: &Call) -> Result<Answer, Failure> {
        let options = DeleteOptions::read(&call.query, self.body)?;
        let mut store = self.inner.lock();
        let page = read::list(&store, kind, call)?;
        let mut desk = self.desk(&mut store);
        for object in &page.items {
            let (namespace, name) = (
                crate::object::namespace(object),
                crate::object::name(object),
            );
            let target = Target {
                kind,
                namespace,
                name,
                part: Part::Whole,
            };
            desk.delete(target, &options)?;
        }
        Ok(Answer::List(read::list_object(kind, &page), page.items))
    }
}

fn target<'a>(kind: &'a Kind, call: &'a Call) -> Target<'a> {
    Target {
        kind,
        namespace: &call.namespace,
        name: &call.name,
        part: Part::read(&call.subresource),
    }
}

/// Paths that the kind does not have: a namespace of a cluster-scoped kind, a subresource that is
/// none, a write to all namespaces at once.
fn check_path(kind: &Kind, call: &Call, verb: Verb) -> Result<(), Failure> {
    let writes = !matches!(verb, Verb::Get | Verb::List | Verb::Watch);
    let whole_cluster = kind.namespaced && call.namespace.is_empty();
    let wrong_scope = !kind.namespaced && !call.namespace.is_empty();
    if wrong_scope || (whole_cluster && (writes || !call.name.is_empty())) {
        return Err(Failure::no_such_path());
    }
    let subresource = match call.subresource.as_str() {
        "" => true,
        "status" => kind.has_status && matches!(verb, Verb::Get | Verb::Update | Verb::Patch),
        "scale" => kind.scale.is_some() && matches!(verb, Verb::Get | Verb::Update | Verb::Patch),
        _ => false,
    };
    match (subresource, kind.nature) {
        (true, _) => Ok(()),
        (false, Nature::Custom) => Err(target(kind, call).not_found()),
        (false, _) => Err(Failure::no_such_path()),
    }
}
