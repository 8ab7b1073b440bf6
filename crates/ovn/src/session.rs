//! One session with a server, from connecting to its end.
//!
//! Run by the client's task, which begins a new one when this one ends.
//! Must stay true: messages are handled strictly in their order. A server sends the updates that a
//! transaction caused before the answer to it, so whoever got the answer finds them in the replica.
//! Whatever is not understood ends the session; nothing is skipped.

use std::{collections::BTreeMap, io, mem, path::PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::oneshot,
};

use crate::{
    Remote,
    codec::{CodecError, MESSAGE_LIMIT, Message, Splitter},
    notation::Uuid,
    operation::TransactError,
    replica::{TableUpdates, UpdateError},
    schema::{self, Schema, SchemaError},
    table::Monitors,
};

/// How much is read at a time, in bytes: what a unix socket holds is of this size.
const CHUNK: usize = 64 << 10;

/// The end of a session, or why none began.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Nobody listens at the socket.
    #[error("cannot connect to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Reading or writing failed.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// The server ended the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server sends something else than messages.
    #[error("the server sent no JSON-RPC")]
    Codec(#[from] CodecError),
    /// The database has not what is to be monitored.
    #[error("the schema does not fit")]
    Schema(#[from] SchemaError),
    /// The server refused a call that the session needs.
    #[error("the server refused {method}: {error}")]
    Refused {
        /// The call.
        method: &'static str,
        /// The server's words.
        error: Value,
    },
    /// The server sent an update that cannot be read.
    #[error("an update cannot be read")]
    Malformed(#[from] serde_json::Error),
    /// The server sent an update that does not fit the rows.
    #[error("the replica is out of step")]
    Update(#[from] UpdateError),
    /// The server sent a message that means nothing here.
    #[error("the server sent {what}")]
    Unexpected {
        /// What it sent.
        what: String,
    },
}

/// Where the answer to a transaction goes.
pub(crate) type Answer = oneshot::Sender<Result<Value, TransactError>>;

/// What a message of the server means to the client.
pub(crate) enum Event {
    /// Rows changed.
    Update(Uuid, TableUpdates),
    /// A transaction was answered.
    Answered(Answer, Result<Value, TransactError>),
}

/// A session that monitors.
pub(crate) struct Session {
    wire: Wire,
    database: String,
    /// The transactions sent and not answered. Dropping the session drops these, and so tells those
    /// who wait that no answer will come.
    unanswered: BTreeMap<u64, Answer>,
}

impl Session {
    /// Connects, reads the schema and begins to monitor: the session, the schema of what it
    /// monitors, and the rows at the beginning.
    pub(crate) async fn begin(
        remote: &Remote,
        database: &str,
        monitors: &Monitors,
    ) -> Result<(Self, Schema, (Uuid, TableUpdates)), SessionError> {
        let mut wire = Wire::connect(remote).await?;
        let answer = wire.call("get_schema", json!([database])).await?;
        let schema = schema::read(answer, monitors)?;

        let requests: BTreeMap<_, _> = monitors
            .iter()
            .map(|(table, columns)| (table, json!([{ "columns": columns }])))
            .collect();
        let answer = wire
            .call(
                "monitor_cond_since",
                json!([database, MONITOR, requests, Uuid::default()]),
            )
            .await?;
        let (_found, last_txn_id, initial): (bool, _, _) = serde_json::from_value(answer)?;

        let session = Self {
            wire,
            database: database.into(),
            unanswered: BTreeMap::new(),
        };
        Ok((session, schema, (last_txn_id, initial)))
    }

    /// Sends a transaction of these operations, a list in OVSDB's notation.
    pub(crate) fn transact(&mut self, operations: Vec<Value>, answer: Answer) {
        let params: Vec<_> = [Value::from(self.database.as_str())]
            .into_iter()
            .chain(operations)
            .collect();
        let id = self.wire.request("transact", &params.into());
        self.unanswered.insert(id, answer);
    }

    /// The next message that means something to the client. Meanwhile sends what is to be sent.
    /// Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Event, SessionError> {
        match self.wire.next().await? {
            Message::Notification { method, params } if method == "update3" => {
                let (monitor, last_txn_id, updates) =
                    <(String, Uuid, TableUpdates)>::deserialize(params)?;
                if monitor != MONITOR {
                    return Err(unexpected(&method, "of another monitor"));
                }
                Ok(Event::Update(last_txn_id, updates))
            }
            Message::Notification { method, .. } | Message::Request { method, .. } => {
                Err(unexpected(&method, ""))
            }
            Message::Reply { id, result } => id
                .as_u64()
                .and_then(|id| self.unanswered.remove(&id))
                .map(|answer| {
                    let result = result.map_err(|error| TransactError::call(&error));
                    Event::Answered(answer, result)
                })
                .ok_or_else(|| unexpected("an answer to", &id.to_string())),
        }
    }
}

/// The session's name for its one monitor.
const MONITOR: &str = "replica";

fn unexpected(what: &str, more: &str) -> SessionError {
    SessionError::Unexpected {
        what: format!("{what} {more}").trim_end().into(),
    }
}

/// A connection that carries messages, and answers the server's probes.
struct Wire {
    stream: UnixStream,
    splitter: Splitter,
    chunk: Box<[u8]>,
    /// Bytes not yet written.
    outgoing: Vec<u8>,
    last_id: u64,
}

impl Wire {
    async fn connect(remote: &Remote) -> Result<Self, SessionError> {
        let Remote::Unix(path) = remote;
        let stream = UnixStream::connect(path)
            .await
            .map_err(|source| SessionError::Connect {
                path: path.clone(),
                source,
            })?;
        Ok(Self {
            stream,
            splitter: Splitter::new(MESSAGE_LIMIT),
            chunk: vec![0; CHUNK].into(),
            outgoing: Vec::new(),
            last_id: 0,
        })
    }

    fn send(&mut self, message: &Value) {
        self.outgoing.extend(message.to_string().bytes());
    }

    fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        self.send(&json!({ "id": self.last_id, "method": method, "params": params }));
        self.last_id
    }

    /// Calls and waits for the answer, before which nothing else may come.
    async fn call(&mut self, method: &'static str, params: Value) -> Result<Value, SessionError> {
        let sent = self.request(method, &params);
        match self.next().await? {
            Message::Reply { id, result } if id == sent => {
                result.map_err(|error| SessionError::Refused { method, error })
            }
            Message::Reply { id, .. } => Err(unexpected("an answer to", &id.to_string())),
            Message::Request { method, .. } | Message::Notification { method, .. } => {
                Err(unexpected(&method, "before it was asked"))
            }
        }
    }

    /// The next message that is no probe.
    async fn next(&mut self) -> Result<Message, SessionError> {
        loop {
            match self.splitter.next_message()? {
                None => self.exchange().await?,
                Some(Message::Request { id, method, params }) if method == "echo" => {
                    self.send(&json!({ "id": id, "result": params, "error": null }));
                }
                Some(message) => return Ok(message),
            }
        }
    }

    /// Reads or writes once, whichever can be done first: neither side ever waits for the other to
    /// make room.
    async fn exchange(&mut self) -> Result<(), SessionError> {
        let (mut reader, mut writer) = self.stream.split();
        tokio::select! {
            read = reader.read(&mut self.chunk) => match read.map_err(SessionError::Broken)? {
                0 => return Err(SessionError::Closed),
                length => self.splitter.push(&self.chunk[..length]),
            },
            written = writer.write(&self.outgoing), if !self.outgoing.is_empty() => {
                let length = written.map_err(SessionError::Broken)?;
                self.outgoing.drain(..length);
                if self.outgoing.is_empty() {
                    // The room of a large transaction is given back.
                    mem::take(&mut self.outgoing);
                }
            }
        }
        Ok(())
    }
}
