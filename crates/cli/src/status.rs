//! `causeway status`: zones with their figures, and what is not Ready.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use causeway_planner::{
    conditions::{Condition, ConditionType, Truth},
    explain::Sight,
    snapshot::{Snapshot, ZoneStatus},
};

use crate::live;

/// Show the zones with their figures, and the networks and VPCs that are not Ready.
///
/// Shows what the controller has written; `causeway explain NETWORK` looks behind it. Only reads.
///
/// Exit code: 0 if it could be read, whatever it says, 2 if not.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Networks and VPCs of this namespace only.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    cluster: live::Cluster,
}

/// Runs the command.
///
/// # Errors
/// The cluster cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let namespace = args.namespace.as_deref();
    let mut sight = live::run(async { args.cluster.reader(namespace).await?.own().await })?;
    if let Some(only) = namespace {
        let snapshot = &mut sight.snapshot;
        snapshot
            .networks
            .retain(|key, _| key.namespace.as_str() == only);
        snapshot
            .vpcs
            .retain(|key, _| key.namespace.as_str() == only);
    }
    write_down(&sight, &mut anstream::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

fn write_down(sight: &Sight, out: &mut impl Write) -> io::Result<()> {
    for kind in &sight.hidden {
        writeln!(out, "{kind}: not readable with these rights\n")?;
    }
    if !sight.hidden.contains("ProxmoxNetworkZone") {
        table(&zones(&sight.snapshot), "no zones", out)?;
    }
    let (networks, ready_networks) = networks(&sight.snapshot);
    let (vpcs, ready_vpcs) = vpcs(&sight.snapshot);
    for rows in [&networks, &vpcs] {
        if rows.len() > 1 {
            writeln!(out)?;
            table(rows, "", out)?;
        }
    }
    writeln!(
        out,
        "\n{ready_networks} of {} networks Ready, {ready_vpcs} of {} VPCs Ready",
        sight.snapshot.networks.len(),
        sight.snapshot.vpcs.len()
    )
}

type Row = Vec<String>;

fn heads(names: &[&str]) -> Row {
    names.iter().map(ToString::to_string).collect()
}

fn zones(snapshot: &Snapshot) -> Vec<Row> {
    let mut rows = vec![heads(&[
        "ZONE", "BRIDGE", "VLANS", "FREE", "TRUNK", "NETWORKS", "READY", "REASON",
    ])];
    for (name, zone) in &snapshot.zones {
        let ZoneStatus {
            vlans_total,
            vlans_used,
            vlans_free,
            trunk_nodes_total,
            trunk_nodes_ready,
            networks,
            conditions,
            ..
        } = zone.status.clone().unwrap_or_default();
        let (ready, reason, _) = ready(&conditions);
        rows.push(vec![
            name.to_string(),
            zone.spec.bridge.clone(),
            format!("{vlans_used}/{vlans_total}"),
            vlans_free.to_string(),
            format!("{trunk_nodes_ready}/{trunk_nodes_total}"),
            networks.to_string(),
            ready,
            reason,
        ]);
    }
    rows
}

/// The networks that are not Ready, and how many are.
fn networks(snapshot: &Snapshot) -> (Vec<Row>, usize) {
    let all = snapshot.networks.iter().map(|(key, seen)| {
        let record = seen.spec.as_ref();
        let subnet = record.map_or_else(String::new, |it| format!("{}/{}", it.vpc, it.subnet));
        let status = seen.status.clone().unwrap_or_default();
        (vec![key.to_string(), subnet], status.conditions)
    });
    not_ready(&["NETWORK", "SUBNET"], all)
}

/// The VPCs that are not Ready, and how many are.
fn vpcs(snapshot: &Snapshot) -> (Vec<Row>, usize) {
    let all = snapshot.vpcs.iter().map(|(key, seen)| {
        let status = seen.status.clone().unwrap_or_default();
        (vec![key.to_string()], status.conditions)
    });
    not_ready(&["VPC"], all)
}

fn not_ready(
    names: &[&str],
    all: impl Iterator<Item = (Row, Vec<Condition>)>,
) -> (Vec<Row>, usize) {
    let mut rows = vec![heads(&[names, &["READY", "REASON", "MESSAGE"]].concat())];
    let mut good = 0;
    for (mut row, conditions) in all {
        let (ready, reason, message) = ready(&conditions);
        if ready == Truth::True.to_string() {
            good += 1;
        } else {
            row.extend([ready, reason, message]);
            rows.push(row);
        }
    }
    (rows, good)
}

/// Status, reason and message of Ready.
fn ready(conditions: &[Condition]) -> (String, String, String) {
    let ready = conditions
        .iter()
        .find(|one| one.kind == ConditionType::Ready);
    ready.map_or_else(
        || {
            (
                Truth::Unknown.to_string(),
                "no status yet".to_owned(),
                String::new(),
            )
        },
        |one| {
            let (status, reason) = (one.status.to_string(), one.reason.to_string());
            (status, reason, one.message.clone())
        },
    )
}

/// Columns as kubectl prints them; `none` where there is only the head.
fn table(rows: &[Row], none: &str, out: &mut impl Write) -> io::Result<()> {
    if rows.len() == 1 {
        return writeln!(out, "{none}");
    }
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        writeln!(out, "{}", cells.join("   ").trim_end())?;
    }
    Ok(())
}
