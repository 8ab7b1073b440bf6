//! A server whose every byte the test decides.

use std::path::PathBuf;

use causeway_ovn::{
    Client, Monitors, Remote,
    codec::{MESSAGE_LIMIT, Message, Splitter},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

use crate::within;

pub const NO_TXN: &str = "00000000-0000-0000-0000-000000000000";

pub struct Peer {
    folder: TempDir,
    listener: UnixListener,
}

impl Peer {
    pub fn listen() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let listener = UnixListener::bind(folder.path().join("socket")).expect("can listen");
        Self { folder, listener }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A client of the table `T` with its columns `name` and `tag`.
    pub fn client(&self) -> Client {
        Client::start(
            Remote::Unix(self.socket()),
            "D",
            Monitors::from([("T".into(), vec!["name".into(), "tag".into()])]),
        )
    }

    pub async fn accept(&self) -> Connection {
        let (stream, _) = within(self.listener.accept()).await.expect("can accept");
        Connection {
            stream,
            splitter: Splitter::new(MESSAGE_LIMIT),
        }
    }

    /// Accepts, and answers as a server does until the client has the rows `initial` of `T`.
    pub async fn greet(&self, initial: &Value) -> Connection {
        let mut connection = self.accept().await;
        for answer in greeting(initial) {
            connection.answer(&answer).await;
        }
        connection
    }
}

/// The schema of `T`, and the answer to the monitor request.
pub fn greeting(initial: &Value) -> [Value; 2] {
    [
        json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {
            "name": {"type": "string"},
            "tag": {"type": {"key": "integer", "min": 0, "max": 1}},
        }}}}),
        json!([false, NO_TXN, { "T": initial }]),
    ]
}

/// A notification that changes the rows of `T`.
pub fn update(rows: &Value) -> Value {
    json!({"id": null, "method": "update3", "params": ["replica", NO_TXN, { "T": rows }]})
}

pub struct Connection {
    pub stream: UnixStream,
    splitter: Splitter,
}

impl Connection {
    pub async fn next(&mut self) -> Message {
        let mut chunk = [0; 4096];
        loop {
            if let Some(message) = self.splitter.next_message().expect("the client is sane") {
                return message;
            }
            let length = within(self.stream.read(&mut chunk))
                .await
                .expect("can read");
            assert_ne!(length, 0, "the client hung up");
            self.splitter.push(&chunk[..length]);
        }
    }

    pub async fn send(&mut self, message: &Value) {
        within(self.stream.write_all(message.to_string().as_bytes()))
            .await
            .expect("can write");
    }

    /// Answers the next call with this result.
    pub async fn answer(&mut self, result: &Value) {
        let id = self.next_call().await;
        self.send(&json!({"id": id, "result": result, "error": null}))
            .await;
    }

    /// The id of the next message, which is a call.
    pub async fn next_call(&mut self) -> Value {
        match self.next().await {
            Message::Request { id, .. } => id,
            message => panic!("{message:?} is no call"),
        }
    }

    /// Waits until the client has hung up.
    pub async fn hung_up(mut self) {
        let mut rest = Vec::new();
        // An end or a reset: both say that the client is gone.
        let _ = within(self.stream.read_to_end(&mut rest)).await;
    }
}
