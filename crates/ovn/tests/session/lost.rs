//! A real server that goes away, at the worst moments.

use causeway_ovn::{
    Client, Condition, Mutation, Operation, Remote, ReplicaError, Row, TransactError, nb,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

use crate::{connected, northbound, server::Server, when, within};

fn switch(name: &str) -> Operation {
    Operation::insert(&nb::LogicalSwitch {
        name: name.into(),
        ..Default::default()
    })
}

fn switches(replica: &causeway_ovn::Replica) -> Vec<String> {
    let rows = replica.rows::<nb::LogicalSwitch>().expect("is connected");
    let mut names: Vec<_> = rows.into_values().map(|row| row.name).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_server_killed_while_it_holds_a_transaction_leaves_it_unknown_and_the_replica_is_rebuilt()
{
    let mut server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    within(client.transact(vec![switch("first"), switch("second")]))
        .await
        .expect("is written");

    // The server holds this one: no switch has that name for an hour.
    let until_named = Operation::Wait {
        timeout: 3_600_000,
        table: "Logical_Switch".into(),
        at: vec![Condition::equals("name", "never")],
        columns: vec!["name".into()],
        until: causeway_ovn::operation::Until::Equal,
        rows: vec![Row::from([("name".into(), "never".into())])],
    };
    let sender = client.clone();
    let held =
        tokio::spawn(async move { sender.transact(vec![until_named, switch("held")]).await });
    tokio::task::yield_now().await;
    // Calls reach the server in their order, so after this one it has the held one too.
    within(client.transact(vec![switch("third")]))
        .await
        .expect("is written");
    assert!(!held.is_finished());
    server.kill();

    let outcome = within(held).await.expect("does not panic");
    assert!(matches!(outcome, Err(TransactError::OutcomeUnknown)));
    let away = client.replica();
    assert_eq!(
        away.rows::<nb::LogicalSwitch>(),
        Err(ReplicaError::NotConnected)
    );
    assert!(matches!(
        within(client.transact(vec![switch("nobody there")])).await,
        Err(TransactError::NotConnected)
    ));

    server.start_again();
    let rebuilt = connected(&client).await;
    assert_eq!(switches(&rebuilt), ["first", "second", "third"]);
    assert!(rebuilt.version > away.version);
    within(client.transact(vec![switch("fourth")]))
        .await
        .expect("is written");
    assert_eq!(
        switches(&client.replica()),
        ["first", "fourth", "second", "third"]
    );
}

#[tokio::test]
async fn a_committed_transaction_whose_answer_is_lost_is_unknown_and_there_after_reconnecting() {
    let server = Server::northbound();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).expect("can listen");
    let client = Client::start(Remote::Unix(socket), "OVN_Northbound", northbound());

    let Remote::Unix(behind) = server.remote();
    let witness = server.client();
    connected(&witness).await;
    let relay = tokio::spawn(async move {
        let (front, _) = listener.accept().await.expect("can accept");
        let back = UnixStream::connect(&behind).await.expect("can connect");
        relay_until(front, back, "\"update3\"").await;
        let (mut front, _) = listener.accept().await.expect("can accept");
        let mut back = UnixStream::connect(&behind).await.expect("can connect");
        // Ends when the test does; how does not matter.
        let _ = tokio::io::copy_bidirectional(&mut front, &mut back).await;
    });

    connected(&client).await;
    let outcome = within(client.transact(vec![switch("committed")])).await;
    assert!(matches!(outcome, Err(TransactError::OutcomeUnknown)));
    let rebuilt = connected(&client).await;
    assert_eq!(switches(&rebuilt), ["committed"]);
    when(&witness, |replica| switches(replica) == ["committed"]).await;
    relay.abort();
}

/// Passes bytes both ways until the server says `word`, which is kept back with all that follows.
async fn relay_until(mut front: UnixStream, mut back: UnixStream, word: &str) {
    let (mut from_client, mut from_server) = (vec![0; 65536], vec![0; 65536]);
    loop {
        tokio::select! {
            read = front.read(&mut from_client) => {
                let length = read.expect("can read");
                back.write_all(&from_client[..length]).await.expect("can write");
            }
            read = back.read(&mut from_server) => {
                let length = read.expect("can read");
                let text = String::from_utf8_lossy(&from_server[..length]);
                if text.contains(word) {
                    return;
                }
                front.write_all(&from_server[..length]).await.expect("can write");
            }
        }
    }
}

#[tokio::test]
async fn nothing_of_the_old_database_survives_in_the_replica_of_a_new_one() {
    let mut server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    within(client.transact(vec![switch("old")]))
        .await
        .expect("is written");
    server.kill();
    when(&client, |replica| !replica.connected).await;
    server.start_empty("northbound");
    let rebuilt = connected(&client).await;
    assert!(switches(&rebuilt).is_empty());
}

#[tokio::test]
async fn a_client_may_be_there_before_its_server() {
    let mut server = Server::northbound();
    server.kill();
    let client = server.client();
    let away = when(&client, |replica| replica.trouble.is_some()).await;
    let trouble = away.trouble.as_ref().expect("says why").to_string();
    assert!(trouble.starts_with("cannot connect to "), "{trouble}");
    server.start_again();
    let there = connected(&client).await;
    assert!(there.trouble.is_none());
}

#[tokio::test]
async fn a_session_that_is_lost_again_and_again_is_whole_each_time() {
    let mut server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    within(client.transact(vec![Operation::insert(&nb::NbGlobal::default())]))
        .await
        .expect("is written");
    for round in 1..=5 {
        let count = Operation::mutate::<nb::NbGlobal>([], [Mutation::add("nb_cfg", 1)]);
        within(client.transact(vec![count]))
            .await
            .expect("is written");
        server.kill();
        when(&client, |replica| !replica.connected).await;
        server.start_again();
        let replica = connected(&client).await;
        let rows = replica.rows::<nb::NbGlobal>().expect("is connected");
        let counts: Vec<_> = rows.into_values().map(|row| row.nb_cfg).collect();
        assert_eq!(counts, [round]);
    }
}
