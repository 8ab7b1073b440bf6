//! `causeway explain`: why a network is as it is, and what a reason means.
//!
//! What is said of a network is decided in `causeway_planner::explain`; here it is found by name and
//! written down.

pub mod reason;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::bail;
use causeway_planner::{
    conditions::{Reason, Truth},
    explain::{Explained, Explanation, Sight, Verb, explain, vpc_of},
    model::SubnetKey,
    snapshot::Snapshot,
};

use crate::live;

/// Say why each condition of a network is what it is, with the objects and rows behind it.
///
/// Shows each condition as written, then what it goes by, and who can do what where it is not True.
/// Where the written status is older than what is there, it shows what is found now, too. Only reads;
/// what the kubeconfig's user may not read is named.
///
/// With --reason it says what a reason means; no cluster is asked.
///
/// Exit code: 0 if the network could be explained, whatever its state, 2 if not.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The network: its ProxmoxNetwork's name (subnet-7bb6e3ad), NAMESPACE/NAME, VPC/SUBNET or
    /// NAMESPACE/VPC/SUBNET.
    #[arg(
        value_name = "NETWORK",
        required_unless_present = "reason",
        conflicts_with = "reason"
    )]
    network: Option<String>,

    /// What this reason of a condition means, such as ZoneExhausted.
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,

    /// Look for the network in this namespace only.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    cluster: live::Cluster,

    #[command(flatten)]
    databases: live::Databases,
}

/// Runs the command.
///
/// # Errors
/// The cluster cannot be asked, or there is no such network or reason.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(word) = &args.reason {
        anstream::print!("{}", reason::text(reason::find(word)?));
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.network.as_deref().unwrap_or_default();
    let (sight, with_rows) = live::run(async {
        let namespace = args.namespace.as_deref().or_else(|| namespace_in(name));
        let reader = args.cluster.reader(namespace).await?;
        let mut sight = reader.everything().await?;
        let with_rows = args.databases.read(&mut sight.snapshot).await?;
        Ok((sight, with_rows))
    })?;
    let key = find(name, args.namespace.as_deref(), &sight.snapshot)?;
    let Some(explanation) = explain(&key, &sight) else {
        bail!("ProxmoxNetwork {key} is gone");
    };
    write_down(
        &explanation,
        &sight,
        with_rows,
        &mut anstream::stdout().lock(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The namespace that a name begins with, if it does.
fn namespace_in(name: &str) -> Option<&str> {
    match name.split('/').collect::<Vec<_>>()[..] {
        [namespace, _, _] => Some(namespace),
        [namespace, id] if id.starts_with("subnet-") => Some(namespace),
        _ => None,
    }
}

/// The one network that is meant.
fn find(name: &str, namespace: Option<&str>, snapshot: &Snapshot) -> anyhow::Result<SubnetKey> {
    let within = |key: &&SubnetKey| namespace.is_none_or(|it| key.namespace.as_str() == it);
    let all: Vec<&SubnetKey> = snapshot.networks.keys().filter(within).collect();
    let meant: Vec<&SubnetKey> = all
        .iter()
        .copied()
        .filter(|key| names(key, snapshot).iter().any(|one| one == name))
        .collect();
    match meant[..] {
        [key] => Ok(key.clone()),
        [] => bail!("{}", no_such(name, namespace, &all, snapshot)),
        _ => bail!(
            "{name:?} is the name of several networks:{}",
            listed(&meant, snapshot)
        ),
    }
}

/// What a network can be called.
fn names(key: &SubnetKey, snapshot: &Snapshot) -> Vec<String> {
    let mut names = vec![key.id.to_string(), key.to_string()];
    let seen = snapshot.networks.get(key);
    if let Some(record) = seen.and_then(|seen| seen.spec.as_ref()) {
        let short = format!("{}/{}", record.vpc, record.subnet);
        names.extend([format!("{}/{short}", key.namespace), short]);
    }
    names
}

fn no_such(name: &str, namespace: Option<&str>, all: &[&SubnetKey], snapshot: &Snapshot) -> String {
    let place = namespace.map_or_else(String::new, |it| format!(" in namespace {it}"));
    // Overlay subnets have no ProxmoxNetwork.
    let overlay = snapshot.vpcs.iter().find_map(|(key, vpc)| {
        let subnets = &vpc.status.as_ref()?.subnets;
        let subnet = subnets.iter().find(|subnet| {
            let short = format!("{}/{}", key.name, subnet.name);
            !subnet.proxmox
                && [&short, &format!("{}/{short}", key.namespace), &subnet.id]
                    .contains(&&name.to_owned())
        })?;
        let ready = if subnet.ready { "ready" } else { "not ready" };
        Some(format!(
            "; it is an overlay subnet of VPC {key}, {ready}: {}",
            subnet.reason
        ))
    });
    let there = match all {
        [] => "; there is none".to_owned(),
        _ => format!("; there are:{}", listed(all, snapshot)),
    };
    format!(
        "no ProxmoxNetwork {name:?}{place}{}",
        overlay.unwrap_or(there)
    )
}

fn listed(keys: &[&SubnetKey], snapshot: &Snapshot) -> String {
    let line = |key: &&SubnetKey| {
        let names = names(key, snapshot);
        let long = names
            .get(2)
            .map_or_else(String::new, |it| format!("  {it}"));
        format!("\n  {key}{long}")
    };
    keys.iter().map(line).collect()
}

fn write_down(
    explanation: &Explanation,
    sight: &Sight,
    with_rows: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    head(explanation, out)?;
    for one in &explanation.conditions {
        condition(one, out)?;
    }
    if explanation.conditions.iter().any(|one| one.now.is_some()) {
        writeln!(
            out,
            "\nThe status is from an earlier pass: what is found now differs where it says so."
        )?;
    }
    if !explanation.to_do.is_empty() {
        writeln!(out, "\nThe controller has still to write:")?;
        for deed in &explanation.to_do {
            writeln!(out, "  {} {}", sign(deed.verb), deed.target)?;
        }
    }
    if !with_rows {
        writeln!(
            out,
            "\nRows of OVN were not looked at: give --ovn-nb and --ovn-sb. What depends on them is \
             shown as written."
        )?;
    }
    if !sight.is_whole() {
        writeln!(
            out,
            "\nNot everything may be read with these rights: conditions are shown as written."
        )?;
    }
    Ok(())
}

fn head(explanation: &Explanation, out: &mut impl Write) -> io::Result<()> {
    let going = if explanation.deleting {
        " (being removed)"
    } else {
        ""
    };
    writeln!(out, "ProxmoxNetwork {}{going}", explanation.key)?;
    let Some(record) = &explanation.record else {
        return writeln!(out, "  its spec cannot be read");
    };
    let vpc = vpc_of(&explanation.key, record);
    writeln!(out, "  subnet {} of VPC {vpc}", record.subnet)?;
    writeln!(
        out,
        "  {}, gateway {}, VMs {}",
        record.cidr, record.gateway, record.vm_range
    )?;
    let status = &explanation.status;
    let zone = record
        .zone
        .as_ref()
        .map_or("none yet", |zone| zone.as_str());
    let vlan = status
        .vlan
        .map_or("none yet".to_owned(), |vid| vid.to_string());
    let bridge = status.bridge.as_deref().unwrap_or("none yet");
    writeln!(out, "  zone {zone}, VLAN {vlan}, bridge {bridge}")?;
    if !status.gateway_chassis.is_empty() {
        let nodes = status.gateway_chassis.iter().map(|one| {
            let active = if one.active { " (active)" } else { "" };
            format!("{}{active}", one.node)
        });
        let nodes: Vec<String> = nodes.collect();
        writeln!(out, "  gateway on {}", nodes.join(", "))?;
    }
    Ok(())
}

fn condition(one: &Explained, out: &mut impl Write) -> io::Result<()> {
    let line = |status: Truth, reason: Reason, message: &str| {
        let colon = if message.is_empty() { "" } else { ": " };
        format!("{status}, {reason}{colon}{message}")
    };
    match &one.written {
        Some(written) => {
            let text = line(written.status, written.reason, &written.message);
            writeln!(out, "\n{}: {text}", one.kind)?;
        }
        None => writeln!(out, "\n{}: not written yet", one.kind)?,
    }
    if let Some(now) = &one.now {
        let text = line(now.status, now.reason, &now.message);
        writeln!(out, "  found now: {text}")?;
    }
    for fact in &one.behind {
        writeln!(out, "  {}: {}", fact.object, fact.says)?;
    }
    if let Some((status, reason)) = one.state()
        && status != Truth::True
    {
        for remedy in reason.text().remedies {
            writeln!(out, "  The {} can {}.", remedy.who, remedy.what)?;
        }
    }
    Ok(())
}

/// The sign of what happens to an object.
pub(crate) fn sign(verb: Verb) -> char {
    match verb {
        Verb::Make => '+',
        Verb::Change => '~',
        Verb::Remove => '-',
    }
}
