//! What a real server does to rows, and what the replica then holds.

use std::collections::{BTreeMap, BTreeSet};

use causeway_ovn::{
    Client, Condition, Datum, Monitors, Mutation, NamedUuid, Operation, Outcome, ReplicaError, Row,
    Table, TransactError, TransactReply, Uuid, monitor, nb, sb,
};

use crate::{connected, northbound, server::Server, when, within};

async fn done(client: &Client, operations: impl Into<Vec<Operation>>) -> TransactReply {
    within(client.transact(operations.into()))
        .await
        .expect("the transaction is done")
}

async fn refused(client: &Client, operations: impl Into<Vec<Operation>>) -> TransactError {
    within(client.transact(operations.into()))
        .await
        .expect_err("the transaction fails")
}

fn named<T: Table>(client: &Client, name: impl Fn(&T) -> bool) -> Option<(Uuid, T)> {
    let rows = client.replica().rows::<T>().expect("is connected");
    rows.into_iter().find(|(_, row)| name(row))
}

fn port(name: &str) -> nb::LogicalSwitchPort {
    nb::LogicalSwitchPort {
        name: name.into(),
        ..Default::default()
    }
}

fn add_switch(name: &str) -> Operation {
    Operation::insert(&nb::LogicalSwitch {
        name: name.into(),
        ..Default::default()
    })
}

fn add_port(switch: &str, port: &nb::LogicalSwitchPort) -> [Operation; 2] {
    Operation::insert_into::<nb::LogicalSwitch, _>(
        Condition::equals("name", switch),
        "ports",
        NamedUuid::of(&port.name),
        port,
    )
}

fn strings<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(key, value)| (key.into(), value.into())).into()
}

/// The replica of `client` is, row for row, that of a client which connects only now.
async fn same_as_fresh(server: &Server, client: &Client) {
    let fresh = connected(&server.client()).await;
    let kept = client.replica();
    for table in northbound().keys() {
        assert_eq!(
            kept.table(table).expect("is monitored"),
            fresh.table(table).expect("is monitored"),
            "{table}"
        );
    }
}

#[tokio::test]
async fn every_kind_of_change_of_a_row_leaves_the_replica_as_a_fresh_one() {
    let server = Server::northbound();
    let writer = server.client();
    let reader = server.client();
    connected(&reader).await;
    connected(&writer).await;
    let row = || Condition::equals("name", "p");
    let set = |column: &str, value: Datum| {
        Operation::update::<nb::LogicalSwitchPort>(row(), Row::from([(column.into(), value)]))
    };
    let change =
        |mutations: Vec<Mutation>| Operation::mutate::<nb::LogicalSwitchPort>(row(), mutations);
    let [insert, attach] = add_port("s", &port("p"));
    let steps = [
        vec![add_switch("s"), insert, attach],
        vec![set("tag", 5.into())],
        vec![set("tag", 6.into())],
        vec![set("tag", Datum::empty_set())],
        vec![set("up", true.into())],
        vec![set("type", "localnet".into())],
        vec![set("type", "".into())],
        vec![set("addresses", Datum::set(["a", "b", "c"]))],
        vec![set("addresses", Datum::set(["b", "d"]))],
        vec![set("addresses", "e".into())],
        vec![change(vec![
            Mutation::insert("addresses", "f"),
            Mutation::delete("addresses", "e"),
        ])],
        vec![set("addresses", Datum::empty_set())],
        vec![set("options", Datum::map([("a", "1"), ("b", "2")]))],
        vec![set("options", Datum::map([("b", "3"), ("c", "4")]))],
        vec![change(Mutation::replace("options", "b", "5").into())],
        vec![change(Mutation::replace("options", "new", "6").into())],
        vec![change(vec![Mutation::delete("options", Datum::set(["b"]))])],
        vec![set("options", Datum::empty_map())],
        // The port goes with the last reference to it.
        vec![Operation::delete::<nb::LogicalSwitch>(Condition::equals(
            "name", "s",
        ))],
    ];
    for step in steps {
        done(&writer, step.clone()).await;
        same_as_fresh(&server, &writer).await;
        let expected = writer.replica();
        when(&reader, |replica| {
            northbound()
                .keys()
                .all(|table| replica.table(table).ok() == expected.table(table).ok())
        })
        .await;
    }
    let left = writer.replica();
    assert_eq!(
        left.rows::<nb::LogicalSwitchPort>(),
        Ok(BTreeMap::default())
    );
}

#[tokio::test]
async fn what_a_transaction_wrote_can_be_read_as_soon_as_it_returns() {
    let server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    done(&client, [Operation::insert(&nb::NbGlobal::default())]).await;
    for round in 1..=200 {
        let count = Operation::mutate::<nb::NbGlobal>([], [Mutation::add("nb_cfg", 1)]);
        let reply = done(&client, [count]).await;
        assert_eq!(reply.outcomes(), [Outcome::Matched(1)]);
        let (_, global) = named(&client, |_: &nb::NbGlobal| true).expect("is there");
        assert_eq!(global.nb_cfg, round);
    }
}

#[tokio::test]
async fn writers_at_once_each_read_their_own_writes() {
    let server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    let writers: Vec<_> = (0..20)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let name = format!("s{number}");
                let reply = done(&client, [add_switch(&name)]).await;
                let uuid = reply.inserted().next().expect("was inserted");
                let replica = client.replica();
                let row = replica.row::<nb::LogicalSwitch>(uuid);
                assert_eq!(row.expect("is connected").map(|row| row.name), Some(name));
            })
        })
        .collect();
    for writer in writers {
        within(writer).await.expect("read its write");
    }
}

fn router_port() -> nb::LogicalRouterPort {
    nb::LogicalRouterPort {
        name: "vpc-1a2b3c-subnet-1a2b3c4d".into(),
        mac: "2e:8f:db:f3:0b:51".into(),
        networks: BTreeSet::from(["172.20.10.1/24".into()]),
        ..Default::default()
    }
}

fn policy() -> nb::LogicalRouterPolicy {
    nb::LogicalRouterPolicy {
        priority: 31000,
        matches: "ip4.dst == 172.20.10.0/24".into(),
        action: "allow".into(),
        external_ids: strings([("subnet", "subnet-1a2b3c4d")]),
        ..Default::default()
    }
}

fn route() -> nb::LogicalRouterStaticRoute {
    nb::LogicalRouterStaticRoute {
        ip_prefix: "172.20.10.0/24".into(),
        policy: Some("src-ip".into()),
        nexthop: "172.20.10.1".into(),
        ..Default::default()
    }
}

fn gateway_chassis() -> nb::GatewayChassis {
    nb::GatewayChassis {
        name: "vpc-1a2b3c-subnet-1a2b3c4d-node1".into(),
        chassis_name: "node1".into(),
        priority: 100,
        ..Default::default()
    }
}

/// Adds `row` to the router that the same transaction adds.
fn part<T: Table>(column: &str, row: &T) -> [Operation; 2] {
    let at = Condition::is(NamedUuid::of("vpc-1a2b3c"));
    Operation::insert_into::<nb::LogicalRouter, T>(at, column, NamedUuid::of(column), row)
}

#[tokio::test]
async fn a_router_with_all_its_parts_is_read_as_it_was_written() {
    let server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    let router = nb::LogicalRouter {
        name: "vpc-1a2b3c".into(),
        options: strings([("mac_binding_age_threshold", "300")]),
        external_ids: strings([("vendor", "kube-ovn")]),
        ..Default::default()
    };
    let add_router = Operation::insert_as(NamedUuid::of("vpc-1a2b3c"), &router);
    let add_chassis = Operation::insert_into::<nb::LogicalRouterPort, _>(
        Condition::equals("name", router_port().name),
        "gateway_chassis",
        NamedUuid::of("chassis"),
        &gateway_chassis(),
    );
    let operations = [
        vec![add_router],
        part("ports", &router_port()).into(),
        part("policies", &policy()).into(),
        part("static_routes", &route()).into(),
        add_chassis.into(),
    ];
    let ids: Vec<_> = done(&client, operations.concat())
        .await
        .inserted()
        .collect();

    let replica = client.replica();
    let read = nb::LogicalRouter {
        ports: BTreeSet::from([ids[1]]),
        policies: BTreeSet::from([ids[2]]),
        static_routes: BTreeSet::from([ids[3]]),
        ..router
    };
    assert_eq!(replica.row(ids[0]), Ok(Some(read)));
    let read = nb::LogicalRouterPort {
        gateway_chassis: BTreeSet::from([ids[4]]),
        ..router_port()
    };
    assert_eq!(replica.row(ids[1]), Ok(Some(read)));
    assert_eq!(replica.row(ids[2]), Ok(Some(policy())));
    assert_eq!(replica.row(ids[3]), Ok(Some(route())));
    assert_eq!(replica.row(ids[4]), Ok(Some(gateway_chassis())));
}

fn localnet() -> nb::LogicalSwitchPort {
    nb::LogicalSwitchPort {
        name: "localnet.subnet-1a2b3c4d".into(),
        kind: "localnet".into(),
        addresses: BTreeSet::from(["unknown".into()]),
        options: strings([("network_name", "pve")]),
        tag: Some(214),
        ..Default::default()
    }
}

fn acl() -> nb::Acl {
    nb::Acl {
        name: Some("subnet-1a2b3c4d".into()),
        tier: 2,
        priority: 1000,
        direction: "to-lport".into(),
        matches: "ip".into(),
        action: "drop".into(),
        log: true,
        severity: Some("warning".into()),
        external_ids: strings([("parent", "subnet-1a2b3c4d")]),
    }
}

#[tokio::test]
async fn a_switch_with_its_rules_sets_and_groups_is_read_as_it_was_written() {
    let server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    let set = nb::AddressSet {
        name: "causeway_site".into(),
        addresses: BTreeSet::from(["172.20.10.0/24".into(), "172.20.11.0/24".into()]),
        external_ids: strings([("causeway", "site")]),
    };
    let mut operations = vec![add_switch("subnet-1a2b3c4d")];
    operations.extend(add_port("subnet-1a2b3c4d", &localnet()));
    operations.extend(Operation::insert_into::<nb::LogicalSwitch, _>(
        Condition::equals("name", "subnet-1a2b3c4d"),
        "acls",
        NamedUuid::of("acl"),
        &acl(),
    ));
    operations.push(Operation::insert(&set));
    let reply = done(&client, operations).await;
    let ids: Vec<_> = reply.inserted().collect();
    let group = nb::PortGroup {
        name: "node.node1".into(),
        ports: BTreeSet::from([ids[1]]),
        ..Default::default()
    };
    let group_id = done(&client, [Operation::insert(&group)])
        .await
        .inserted()
        .next()
        .expect("was inserted");
    let replica = client.replica();
    assert_eq!(replica.row(ids[1]), Ok(Some(localnet())));
    assert_eq!(replica.row(ids[2]), Ok(Some(acl())));
    assert_eq!(replica.row(ids[3]), Ok(Some(set)));
    assert_eq!(replica.row(group_id), Ok(Some(group)));
}

#[tokio::test]
async fn southbound_rows_are_read() {
    let server = Server::start("southbound");
    let client = server.client_of(
        "OVN_Southbound",
        Monitors::from([
            monitor::<sb::Chassis>(),
            monitor::<sb::ChassisPrivate>(),
            monitor::<sb::PortBinding>(),
        ]),
    );
    connected(&client).await;
    let chassis = sb::Chassis {
        name: "node1-id".into(),
        hostname: "node1".into(),
        other_config: strings([("datapath-type", "netdev")]),
    };
    let private = sb::ChassisPrivate {
        name: "node1-id".into(),
        nb_cfg: 3,
        nb_cfg_timestamp: 1_700_000_000_000,
    };
    let datapath = Operation::Insert {
        table: "Datapath_Binding".into(),
        row: Row::from([("tunnel_key".into(), 1.into())]),
        name: None,
    };
    let operations = [
        Operation::insert(&chassis),
        Operation::insert(&private),
        datapath,
    ];
    let ids: Vec<_> = done(&client, operations).await.inserted().collect();
    let binding = sb::PortBinding {
        logical_port: "cr-vpc-1a2b3c-subnet-1a2b3c4d".into(),
        kind: "chassisredirect".into(),
        datapath: ids[2],
        chassis: Some(ids[0]),
        up: Some(true),
        ..Default::default()
    };
    let reply = done(&client, [Operation::insert(&binding)]).await;
    let binding_id = reply.inserted().next().expect("was inserted");
    let replica = client.replica();
    assert_eq!(replica.row(ids[0]), Ok(Some(chassis)));
    assert_eq!(replica.row(ids[1]), Ok(Some(private)));
    assert_eq!(replica.row(binding_id), Ok(Some(binding)));
}

#[tokio::test]
async fn a_failed_operation_is_named_though_inserts_before_it_have_uuids() {
    let server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    let bad_priority = Operation::insert(&nb::GatewayChassis {
        priority: 40_000,
        ..Default::default()
    });
    match refused(&client, [add_switch("s"), bad_priority, add_switch("t")]).await {
        TransactError::Operation {
            index: 1,
            operation: "insert",
            refusal,
        } => assert_eq!(refusal.error, "constraint violation"),
        other => panic!("{other:?}"),
    }
    let requirement = Operation::require::<nb::LogicalSwitch>(
        Condition::equals("name", "s"),
        Row::from([("name".into(), "s".into())]),
    );
    match refused(
        &client,
        [add_switch("u"), add_switch("v"), requirement.clone()],
    )
    .await
    {
        TransactError::Operation {
            index: 2,
            operation: "wait",
            refusal,
        } => assert_eq!(refusal.error, "timed out"),
        other => panic!("{other:?}"),
    }
    let rows = client.replica().rows::<nb::LogicalSwitch>();
    assert_eq!(rows, Ok(BTreeMap::default()), "nothing was done");

    done(&client, [add_switch("s")]).await;
    let reply = done(&client, [requirement]).await;
    assert_eq!(reply.outcomes(), [Outcome::Done]);
}

#[tokio::test]
async fn a_failure_of_the_commit_is_found_behind_the_results_of_all_operations() {
    let server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    let nobody: Uuid = "7ec644e5-4c34-4cb6-bb4a-d86bbec34165"
        .parse()
        .expect("is a UUID");
    let dangling = Operation::insert(&nb::LogicalSwitch {
        name: "s".into(),
        ports: BTreeSet::from([nobody]),
        ..Default::default()
    });
    match refused(&client, [dangling]).await {
        TransactError::Commit { refusal } => {
            assert_eq!(refusal.error, "referential integrity violation");
            assert!(refusal.to_string().contains(&nobody.to_string()));
        }
        other => panic!("{other:?}"),
    }
    let mut twice = vec![add_switch("s"), add_switch("t")];
    twice.extend(add_port("s", &port("p")));
    let [insert, attach] = Operation::insert_into::<nb::LogicalSwitch, _>(
        Condition::equals("name", "t"),
        "ports",
        NamedUuid::of("again"),
        &port("p"),
    );
    twice.extend([insert, attach]);
    match refused(&client, twice).await {
        TransactError::Commit { refusal } => assert_eq!(refusal.error, "constraint violation"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        client.replica().rows::<nb::LogicalSwitch>(),
        Ok(BTreeMap::default())
    );
}

#[tokio::test]
async fn a_select_gives_the_rows_that_meet_its_conditions() {
    let server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    done(&client, [add_switch("s"), add_switch("t")]).await;
    let select = Operation::Select {
        table: "Logical_Switch".into(),
        at: vec![Condition::equals("name", "t")],
        columns: vec!["name".into()],
    };
    let reply = done(&client, [select]).await;
    let row = Row::from([("name".into(), "t".into())]);
    assert_eq!(reply.outcomes(), [Outcome::Selected(vec![row])]);
}

#[tokio::test]
async fn a_replica_that_someone_holds_never_changes() {
    let server = Server::northbound();
    let client = server.client();
    let held = connected(&client).await;
    done(&client, [add_switch("s")]).await;
    assert_eq!(held.rows::<nb::LogicalSwitch>(), Ok(BTreeMap::default()));
    let now = client.replica();
    assert_eq!(
        now.rows::<nb::LogicalSwitch>().expect("is connected").len(),
        1
    );
    assert_eq!(now.version, held.version + 1);
}

#[tokio::test]
async fn a_table_that_is_not_monitored_is_an_error_and_not_an_empty_table() {
    let server = Server::northbound();
    let monitors = Monitors::from([monitor::<nb::LogicalSwitch>()]);
    let client = server.client_of("OVN_Northbound", monitors);
    let replica = connected(&client).await;
    assert_eq!(replica.rows::<nb::LogicalSwitch>(), Ok(BTreeMap::default()));
    let table = "NB_Global".into();
    assert_eq!(
        replica.rows::<nb::NbGlobal>(),
        Err(ReplicaError::NotMonitored { table })
    );
}

#[tokio::test]
async fn what_the_database_lacks_is_told_as_the_trouble() {
    let server = Server::northbound();
    let monitors = Monitors::from([("Logical_Switch".into(), vec!["colour".into()])]);
    for (database, monitors, expected) in [
        (
            "OVN_Northbound",
            monitors,
            "table Logical_Switch has no column colour",
        ),
        ("Elsewhere", northbound(), "the server refused get_schema"),
    ] {
        let client = server.client_of(database, monitors);
        when(&client, |replica| {
            let error: Option<&dyn std::error::Error> =
                replica.trouble.as_deref().map(|trouble| trouble as _);
            std::iter::successors(error, |error| error.source())
                .any(|error| error.to_string().starts_with(expected))
        })
        .await;
    }
}

#[tokio::test]
async fn the_session_ends_with_the_last_handle() {
    let server = Server::northbound();
    let client = server.client();
    connected(&client).await;
    let other = client.clone();
    let mut replica = client.subscribe();
    replica.mark_unchanged();
    drop(client);
    done(&other, [add_switch("s")]).await;
    within(replica.changed()).await.expect("one handle is left");
    drop(other);
    within(replica.changed())
        .await
        .expect_err("the session has ended");
}
