//! `causeway up`: the embedded mode with an API for kubectl, until it is told to end.
//!
//! `demo --keep` is the same with the demo in it ([`keep_up`]). Must stay true: however it ends, the
//! next `up` or `down` of the same state finds everything that is to be removed.

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use causeway_lab::{
    Held, Progress, Site,
    embedded::{Backend, Embedded},
    end_sites,
    scenarios::usual_site,
};
use causeway_planner::snapshot::Settings;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::state;

/// Run causeway on this machine, with an API server for kubectl, until Ctrl-C.
///
/// Builds a site in network namespaces (three nodes with OVN, two hypervisors), with stand-ins of
/// the Kubernetes API, Kube-OVN and the IPAM provider, and starts the controller. Needs root. The
/// API listens on 127.0.0.1; the kubeconfig is in the state directory and goes on working with every
/// later `up` there. Objects are kept; OVN begins empty each time and is written from them.
///
/// Ends with exit code 0 on Ctrl-C, SIGTERM, SIGHUP or `causeway down`; with 128 + the signal's
/// number if that comes while it is still starting. What a killed one left is removed by the next
/// `up` or `down` of the same state.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    state: state::Place,
}

/// Runs until it is told to end.
///
/// # Errors
/// What kept it from starting, or what stays after it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    crate::log::start();
    let held = args.state.find()?.hold()?;
    let ready = async |embedded: &mut Embedded| {
        embedded.start_controller().await?;
        Ok(ExitCode::SUCCESS)
    };
    keep_up(&held, ready)
}

/// Starts the embedded mode on a state, does `first` to it, and stays until told to end. The exit
/// code is what `first` gives.
pub(crate) fn keep_up(
    held: &Held,
    first: impl AsyncFnOnce(&mut Embedded) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(async {
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let begun = tokio::select! {
            biased;
            number = signals.next() => Err(number),
            begun = begin(held, first) => Ok(begun?),
        };
        match begun {
            // What was being built has been dropped; no part of it may come to be any more.
            Err(number) => {
                end_sites()?;
                Ok(ExitCode::from(128 + number))
            }
            Ok((embedded, code)) => {
                signals.next().await;
                say("… ending");
                embedded.stop().await?;
                Ok(code)
            }
        }
    })
}

async fn begin(
    held: &Held,
    first: impl AsyncFnOnce(&mut Embedded) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<(Embedded, ExitCode)> {
    let state = held.state();
    let progress = Progress::new(|step| say(&format!("… {step}")));
    let mut embedded = Embedded::start_on(
        Backend::Kept(state.objects()),
        &state.site(),
        usual_site(),
        Settings::default(),
        progress,
    )
    .await?;
    let code = first(&mut embedded).await?;
    say(&closing(held, &embedded));
    Ok((embedded, code))
}

/// How to use it and how to end it.
fn closing(held: &Held, embedded: &Embedded) -> String {
    let dir = held.state().dir().display();
    let server = embedded.server();
    let address = server.map_or_else(String::new, |server| format!(" at {}", server.address()));
    let site = &embedded.site;
    format!(
        "\ncauseway is up{address}: {}\n\n  \
           export KUBECONFIG={dir}/kubeconfig\n  \
           kubectl get nodes\n  \
           causeway explain NETWORK --ovn-nb {} --ovn-sb {}\n\n\
         Pods and VMs are network namespaces, `ip netns` lists them. In a pod:\n\n  \
           ip netns exec {}-pod-NAMESPACE.NAME ping ADDRESS\n\n\
         Ctrl-C or `causeway down --state {dir}` ends it; the objects stay for the next time.",
        machines(site),
        site.nb_remote(),
        site.sb_remote(),
        site.name(),
    )
}

fn machines(site: &Site) -> String {
    let nodes: Vec<&str> = site.nodes().collect();
    let hypervisors: Vec<&str> = site.hypervisors().collect();
    format!(
        "nodes {}, hypervisors {}",
        nodes.join(", "),
        hypervisors.join(", ")
    )
}

/// Somebody who reads through a pipe waits for the line.
pub(crate) fn say(line: &str) {
    let mut out = anstream::stdout();
    // A reader who has gone is no reason to end.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// What tells a process to end.
struct Signals([(SignalKind, Signal); 3]);

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let listen = |kind| signal(kind).map(|signal| (kind, signal));
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// The number of the next one.
    async fn next(&mut self) -> u8 {
        let [interrupt, terminate, hangup] = &mut self.0;
        let kind = tokio::select! {
            _ = interrupt.1.recv() => interrupt.0,
            _ = terminate.1.recv() => terminate.0,
            _ = hangup.1.recv() => hangup.0,
        };
        u8::try_from(kind.as_raw_value()).unwrap_or_default()
    }
}
