//! Sessions against the distribution's ovsdb-server, and against a peer that misbehaves on purpose.
#![allow(clippy::expect_used, clippy::panic)]

mod broken;
mod live;
mod lost;
mod peer;
mod server;

use std::{sync::Arc, time::Duration};

use causeway_ovn::{Client, Monitors, Replica, monitor, nb};

/// What anything may take before it counts as never happening.
const BOUND: Duration = Duration::from_secs(30);

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, work)
        .await
        .expect("it happens in time")
}

async fn connected(client: &Client) -> Arc<Replica> {
    within(client.connected()).await
}

async fn when(client: &Client, such: impl Fn(&Replica) -> bool) -> Arc<Replica> {
    within(client.when(such)).await
}

fn northbound() -> Monitors {
    Monitors::from([
        monitor::<nb::NbGlobal>(),
        monitor::<nb::LogicalSwitch>(),
        monitor::<nb::LogicalSwitchPort>(),
        monitor::<nb::LogicalRouter>(),
        monitor::<nb::LogicalRouterPort>(),
        monitor::<nb::LogicalRouterPolicy>(),
        monitor::<nb::LogicalRouterStaticRoute>(),
        monitor::<nb::GatewayChassis>(),
        monitor::<nb::Acl>(),
        monitor::<nb::AddressSet>(),
        monitor::<nb::PortGroup>(),
    ])
}
