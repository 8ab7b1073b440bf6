//! `causeway plan`: what files would make of a cluster, before anything is written.
//!
//! Files are read and judged as `causeway check` does; what becomes of them is decided in
//! `causeway_planner::preview`.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use causeway_planner::{
    admit::{Subject, Weight},
    conditions::{ConditionType, Finding, Truth},
    explain::{Deed, Verb},
    model::AddrRange,
    preview::{
        Addresses, Number, SubnetPreview, VpcPreview, ZonePreview, preview_vpcs, preview_zones,
    },
};

use crate::{
    check::{self, Judged, counted, judge},
    explain::sign,
    live,
};

/// Show what files would make, change and remove, with VLANs and addresses, without writing.
///
/// The files are one world, judged as by `causeway check`; with --live they are laid over what the
/// cluster has, as if they had been applied, and VPCs that are not among them stay as they are. What
/// is refused is shown with its rule, and the rest planned without it. VLANs are proposed: the API
/// server decides, and somebody else may be quicker.
///
/// Exit code: 0 if nothing is refused, 1 if something is, 2 if a file or the cluster cannot be read
/// or the arguments are wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// YAML or JSON files, folders of them, or - for the standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    live: live::Live,
}

/// Runs the command.
///
/// # Errors
/// The cluster cannot be read, or the output not written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(files) = check::read_all(&args.files) else {
        return Ok(ExitCode::from(2));
    };
    let live = args.live.snapshot()?;
    let judged = judge(&files, false, live);
    let mut out = anstream::stdout().lock();
    check::show(&judged.report, &files, &mut out)?;
    let errors = write_down(&judged, args.live.live, &mut out)?;
    Ok(if errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes the previews. How many errors there are.
fn write_down(judged: &Judged, live: bool, out: &mut impl Write) -> io::Result<usize> {
    let (mut zones, mut vpcs) = (Vec::new(), Vec::new());
    for subject in &judged.accepted {
        match subject {
            Subject::Zone(name) => zones.push(name.clone()),
            Subject::Vpc(key) => vpcs.push(key.clone()),
        }
    }
    let mut counts = Counts::default();
    for preview in preview_zones(&zones, &judged.world) {
        zone(&preview, live, out)?;
        counts.add(preview.deeds.iter().map(|deed| deed.verb));
    }
    let mut errors = judged.report.count(Weight::Error);
    for preview in preview_vpcs(&vpcs, &judged.world) {
        vpc(&preview, out)?;
        errors += usize::from(preview.refused.is_some());
        counts.add(preview.router);
        for subnet in &preview.subnets {
            counts.add(subnet.deeds.iter().map(|deed| deed.verb));
        }
    }
    let number = |verb| counts.0.get(&verb).copied().unwrap_or(0);
    let (make, change, remove) = (
        number(Verb::Make),
        number(Verb::Change),
        number(Verb::Remove),
    );
    let errors_found = counted(errors, "error");
    writeln!(
        out,
        "{make} to make, {change} to change, {remove} to remove, {errors_found}; nothing was written"
    )?;
    Ok(errors)
}

/// How many objects something happens to.
#[derive(Default)]
struct Counts(BTreeMap<Verb, usize>);

impl Counts {
    fn add(&mut self, verbs: impl IntoIterator<Item = Verb>) {
        for verb in verbs {
            *self.0.entry(verb).or_insert(0) += 1;
        }
    }
}

fn deeds(deeds: &[Deed], out: &mut impl Write) -> io::Result<()> {
    for deed in deeds {
        writeln!(out, "    {} {}", sign(deed.verb), deed.target)?;
    }
    Ok(())
}

fn zone(preview: &ZonePreview, live: bool, out: &mut impl Write) -> io::Result<()> {
    let (status, name) = (&preview.status, &preview.name);
    writeln!(out, "ProxmoxNetworkZone {name}: bridge {}", preview.bridge)?;
    let (total, used, free) = (status.vlans_total, status.vlans_used, status.vlans_free);
    writeln!(out, "    VLANs: {total}, {used} used, {free} free")?;
    if live {
        let (nodes, ready) = (status.trunk_nodes_total, status.trunk_nodes_ready);
        writeln!(out, "    nodes with the trunk: {nodes}, {ready} ready")?;
    }
    deeds(&preview.deeds, out)?;
    let ready = status
        .conditions
        .iter()
        .find(|one| one.kind == ConditionType::Ready);
    // What is to be made is not missed.
    if let Some(ready) = ready.filter(|one| one.status != Truth::True && preview.deeds.is_empty()) {
        writeln!(out, "    not Ready: {}: {}", ready.reason, ready.message)?;
    }
    writeln!(out)
}

fn vpc(preview: &VpcPreview, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "VirtualPrivateCloud {}", preview.key)?;
    if let Some(Finding {
        reason, message, ..
    }) = &preview.refused
    {
        return writeln!(out, "    refused: {reason}: {message}\n");
    }
    if let Some(verb) = preview.router {
        writeln!(out, "    {} Vpc {}", sign(verb), preview.id)?;
    }
    for one in &preview.subnets {
        subnet(one, out)?;
    }
    writeln!(out)
}

fn subnet(preview: &SubnetPreview, out: &mut impl Write) -> io::Result<()> {
    let on = match &preview.network {
        None => "overlay".to_owned(),
        Some(network) => match &network.vlan {
            Number::Held(vid) => format!("VLAN {vid}"),
            Number::Proposed(vid) => format!("VLAN {vid} (proposed)"),
            Number::Waits(why) => format!("no VLAN yet: {}: {}", why.reason, why.message),
        },
    };
    let goes = match (preview.goes, &preview.held_by) {
        (false, _) => String::new(),
        (true, None) => "removed; ".to_owned(),
        (true, Some(who)) => format!("removed, once it is no longer used by {who}; "),
    };
    writeln!(out, "  {} ({}): {goes}{on}", preview.name, preview.id)?;
    if let Some(network) = preview.network.as_ref().filter(|_| !preview.goes) {
        let zone = network.zone.as_ref().map(|zone| format!("zone {zone}"));
        let bridge = network
            .bridge
            .as_ref()
            .map(|bridge| format!("bridge {bridge}"));
        let mtu = network.mtu.map(|mtu| format!("MTU {mtu}"));
        let parts: Vec<String> = [zone, bridge, mtu].into_iter().flatten().collect();
        if !parts.is_empty() {
            writeln!(out, "    {}", parts.join(", "))?;
        }
    }
    if let Some(all) = preview.addresses.as_ref().filter(|_| !preview.goes) {
        addresses(all, out)?;
        if let Some(network) = &preview.network {
            let excluded = network.excluded.join(", ");
            writeln!(out, "    kept from pods: {excluded}")?;
        }
    }
    deeds(&preview.deeds, out)
}

fn addresses(all: &Addresses, out: &mut impl Write) -> io::Result<()> {
    let machines = all.machines.map_or_else(String::new, |range| {
        format!(", VMs {range} ({})", range.len())
    });
    let pods: Vec<String> = all.pods.iter().map(AddrRange::to_string).collect();
    writeln!(
        out,
        "    {}: gateway {}{machines}, pods {}",
        all.cidr,
        all.gateway,
        pods.join(", ")
    )
}
