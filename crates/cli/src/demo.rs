//! `causeway demo`: the whole path on this machine, shown with real packets.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, bail};
use causeway_lab::{
    Progress,
    embedded::Embedded,
    end_sites_on_signals,
    scenarios::{Checks, DEMO, ScenarioError},
};

use crate::{
    state,
    up::{self, say},
};

/// Show the whole path on this machine: a tenant's YAML goes in, real packets flow.
///
/// Builds a site in network namespaces (three nodes with OVN, two hypervisors), applies a zone and
/// the VPCs of two tenants, and sends pings between VMs and pods. Needs root. Everything is taken
/// away at the end, also after Ctrl-C. The exit code is 0 if every line is as it should be.
///
/// With --keep everything stays up after the last line, VMs and pods too, as with `causeway up`,
/// until Ctrl-C or `causeway down`; the exit code then is that of the lines.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the site; two of different names can run side by side.
    #[arg(long, default_value = "demo", conflicts_with = "keep")]
    name: String,
    /// Leave everything running, for kubectl.
    #[arg(long)]
    keep: bool,
    /// With --keep: directory of what is kept [default: as of `causeway up`].
    #[arg(long, value_name = "DIR", requires = "keep")]
    state: Option<PathBuf>,
}

/// Runs the demo.
///
/// # Errors
/// What kept it from starting.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    crate::log::start();
    if args.keep {
        return keep(args.state.as_deref());
    }
    end_sites_on_signals().context("cannot listen for signals")?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let mut show = Show::new();
    let progress = Progress::new(|step| say(&format!("… {step}")));
    let ended = runtime.block_on(DEMO.run(&args.name, progress, &mut show.checks));
    Ok(show.verdict(ended))
}

/// The demo inside an `up`.
fn keep(path: Option<&Path>) -> anyhow::Result<ExitCode> {
    let held = state::find(path)?.hold()?;
    // Its lines are of a cluster in which nobody has done anything yet.
    if held.state().has_objects() {
        let dir = held.state().dir().display();
        bail!(
            "there are objects in {dir}: `causeway up --state {dir}` goes on with them, \
             `causeway down --forget --state {dir}` removes them"
        );
    }
    up::keep_up(&held, async |embedded: &mut Embedded| {
        let mut show = Show::new();
        let ended = DEMO.show(embedded, &mut show.checks).await;
        let code = show.verdict(ended);
        say(&format!("\nVMs: {}", vms(embedded)));
        Ok(code)
    })
}

/// How to get into each VM.
fn vms(embedded: &Embedded) -> String {
    let vms = embedded.site.vms().into_iter();
    let lines = vms.map(|vm| format!("\n  {}: ip netns exec {} …", vm.name(), vm.namespace()));
    lines.collect()
}

/// The lines, and the first that is not as it should be.
struct Show {
    checks: Checks,
    first_failure: Arc<Mutex<Option<String>>>,
}

impl Show {
    fn new() -> Self {
        let first_failure = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&first_failure);
        let checks = Checks::new(Arc::new(move |line: &str| {
            say(line);
            if line.trim_start().starts_with("FAIL") {
                let mut first = seen.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| line.trim().to_owned());
            }
        }));
        Self {
            checks,
            first_failure,
        }
    }

    /// The closing lines.
    fn verdict(mut self, ended: Result<(), ScenarioError>) -> ExitCode {
        if let Err(error) = ended {
            let error = anyhow::Error::new(error);
            self.checks
                .line(false, "the demo goes on", format!("{error:#}"));
        }
        let first = self.first_failure.lock();
        if let Some(first) = first.unwrap_or_else(PoisonError::into_inner).as_ref() {
            say(&format!("\nfirst failure: {first}"));
        }
        let Checks { passed, failed, .. } = self.checks;
        say(&format!("\ndemo: {passed} passed, {failed} failed"));
        ExitCode::from(u8::from(failed > 0))
    }
}
