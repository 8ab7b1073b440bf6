//! Peers that send what they should not, or in pieces: the session ends and the next one is whole.

use causeway_ovn::{
    SessionError, TransactError, Uuid,
    codec::{CodecError, MESSAGE_LIMIT, Message},
    notation::Datum,
    operation::Operation,
    replica::{RowFault, UpdateError},
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    connected,
    peer::{Connection, Peer, greeting, update},
    when, within,
};

const ROW: &str = "7ec644e5-4c34-4cb6-bb4a-d86bbec34165";
const OTHER: &str = "fd7c0289-0216-43d5-9f4b-3373159a760b";

fn uuid(text: &str) -> Uuid {
    text.parse().expect("is a UUID")
}

fn initial(name: &str) -> Value {
    json!({ ROW: {"initial": {"name": name}} })
}

fn comment() -> Vec<Operation> {
    vec![Operation::Comment {
        comment: "hello".into(),
    }]
}

/// Whatever `misbehave` does to a session that has the row `before`: the session ends with the error
/// given back, no row is served, and the next session has the row `after` only.
async fn ended_by(misbehave: impl AsyncFnOnce(&mut Connection)) -> std::sync::Arc<SessionError> {
    let peer = Peer::listen();
    let client = peer.client();
    let mut connection = peer.greet(&initial("before")).await;
    connected(&client).await;
    misbehave(&mut connection).await;
    let replica = when(&client, |replica| !replica.connected).await;
    assert!(replica.table("T").is_err(), "old rows are served");
    connection.hung_up().await;

    let _connection = peer
        .greet(&json!({ OTHER: {"initial": {"name": "after"}} }))
        .await;
    let rebuilt = connected(&client).await;
    let rows = rebuilt.table("T").expect("is monitored");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[&uuid(OTHER)]["name"], Datum::from("after"));
    replica.trouble.clone().expect("says why")
}

#[tokio::test]
async fn a_server_that_writes_byte_by_byte_is_understood() {
    let peer = Peer::listen();
    let client = peer.client();
    let mut connection = peer.accept().await;
    for answer in greeting(&initial("a {\"quoted\"} \\ name")) {
        let id = connection.next_call().await;
        let reply = json!({"id": id, "result": answer, "error": null});
        slowly(&mut connection, &reply).await;
    }
    slowly(
        &mut connection,
        &update(&json!({ROW: {"modify": {"tag": 214}}})),
    )
    .await;
    let replica = when(&client, |replica| {
        replica
            .table("T")
            .is_ok_and(|rows| rows[&uuid(ROW)]["tag"] == Datum::from(214))
    })
    .await;
    let row = &replica.table("T").expect("is monitored")[&uuid(ROW)];
    assert_eq!(row["name"], Datum::from("a {\"quoted\"} \\ name"));
}

async fn slowly(connection: &mut Connection, message: &Value) {
    for byte in message.to_string().bytes() {
        connection
            .stream
            .write_all(&[byte])
            .await
            .expect("can write");
        // Lets the client's task read this byte alone.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_probe_is_answered_with_its_own_words() {
    let peer = Peer::listen();
    let client = peer.client();
    let mut connection = peer.greet(&initial("before")).await;
    connected(&client).await;
    connection
        .send(&json!({"id": "echo", "method": "echo", "params": ["are", 1]}))
        .await;
    assert_eq!(
        connection.next().await,
        Message::Reply {
            id: json!("echo"),
            result: Ok(json!(["are", 1])),
        }
    );
}

#[tokio::test]
async fn malformed_json_ends_the_session_and_the_next_is_whole() {
    let trouble = ended_by(async |connection| {
        let garbage = b"{\"id\": nonsense}";
        connection
            .stream
            .write_all(garbage)
            .await
            .expect("can write");
    })
    .await;
    assert!(matches!(
        *trouble,
        SessionError::Codec(CodecError::Malformed(_))
    ));
}

#[tokio::test]
async fn a_message_too_long_ends_the_session_and_not_the_process() {
    let trouble = ended_by(async |connection| {
        let piece = vec![b'x'; 1 << 20];
        connection
            .stream
            .write_all(b"{\"")
            .await
            .expect("can write");
        for _ in 0..=MESSAGE_LIMIT / piece.len() {
            if within(connection.stream.write_all(&piece)).await.is_err() {
                // The client has heard enough.
                return;
            }
        }
    })
    .await;
    assert!(matches!(
        *trouble,
        SessionError::Codec(CodecError::TooLong {
            limit: MESSAGE_LIMIT
        })
    ));
}

#[tokio::test]
async fn an_update_that_does_not_fit_the_rows_ends_the_session() {
    let misfits = [
        (json!({OTHER: {"modify": {"name": "x"}}}), RowFault::Absent),
        (json!({ OTHER: {"delete": null} }), RowFault::Absent),
        (json!({ROW: {"insert": {"name": "x"}}}), RowFault::Twice),
        (
            json!({ROW: {"modify": {"colour": "x"}}}),
            RowFault::Column {
                column: "colour".into(),
            },
        ),
    ];
    for (rows, expected) in misfits {
        let trouble = ended_by(async |connection| connection.send(&update(&rows)).await).await;
        match &*trouble {
            SessionError::Update(UpdateError::Row { fault, .. }) => assert_eq!(*fault, expected),
            other => panic!("{rows}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn messages_that_mean_nothing_here_end_the_session() {
    for message in [
        json!({"id": null, "method": "monitor_canceled", "params": ["replica"]}),
        json!({"id": 7, "result": {}, "error": null}),
        json!({"id": "x", "method": "steal", "params": []}),
    ] {
        let trouble = ended_by(async |connection| connection.send(&message).await).await;
        assert!(
            matches!(&*trouble, SessionError::Unexpected { .. }),
            "{message}: {trouble:?}"
        );
    }
}

#[tokio::test]
async fn a_transaction_that_was_sent_and_not_answered_is_unknown_and_never_sent_again() {
    let peer = Peer::listen();
    let client = peer.client();
    let mut connection = peer.greet(&initial("before")).await;
    connected(&client).await;
    let sender = client.clone();
    let sent = tokio::spawn(async move {
        let result = sender.transact(comment()).await;
        (result, sender.replica().connected)
    });
    connection.next_call().await;
    drop(connection);
    let (result, still_connected) = within(sent).await.expect("does not panic");
    assert!(matches!(result, Err(TransactError::OutcomeUnknown)));
    assert!(!still_connected, "the old rows were still served");

    let mut connection = peer.greet(&initial("after")).await;
    connected(&client).await;
    // The next call is the next transaction, not the lost one.
    let sender = client.clone();
    let next = tokio::spawn(async move {
        let wait = Operation::Comment {
            comment: "second".into(),
        };
        sender.transact(vec![wait]).await
    });
    match connection.next().await {
        Message::Request { id, params, .. } => {
            assert_eq!(params, json!(["D", {"op": "comment", "comment": "second"}]));
            connection
                .send(&json!({"id": id, "result": [{}], "error": null}))
                .await;
        }
        message => panic!("{message:?} is no call"),
    }
    assert!(within(next).await.expect("does not panic").is_ok());
}

#[tokio::test]
async fn a_call_that_the_server_refuses_carries_its_words() {
    let peer = Peer::listen();
    let client = peer.client();
    let mut connection = peer.greet(&initial("before")).await;
    connected(&client).await;
    let sender = client.clone();
    let sent = tokio::spawn(async move { sender.transact(comment()).await });
    let id = connection.next_call().await;
    let error = json!({"error": "unknown database", "details": "D"});
    connection
        .send(&json!({"id": id, "result": null, "error": error}))
        .await;
    let refused = within(sent).await.expect("does not panic");
    let refused = refused.expect_err("was refused");
    assert!(
        refused.to_string().contains("unknown database"),
        "{refused}"
    );
    assert!(client.replica().connected);
}
