//! `causeway demo`: the whole path on this machine, shown with real packets.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use causeway_lab::{
    Progress, end_sites_on_signals,
    scenarios::{Checks, DEMO},
};

/// Show the whole path on this machine: a tenant's YAML goes in, real packets flow.
///
/// Builds a site in network namespaces (three nodes with OVN, two hypervisors), applies a zone and
/// the VPCs of two tenants, and sends pings between VMs and pods. Needs root. Everything is taken
/// away at the end, also after Ctrl-C. The exit code is 0 if every line is as it should be.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the site; two of different names can run side by side.
    #[arg(long, default_value = "demo")]
    name: String,
}

/// Runs the demo.
///
/// # Errors
/// What kept it from starting.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    end_sites_on_signals().context("cannot listen for signals")?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let first_failure = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&first_failure);
    let mut checks = Checks::new(Arc::new(move |line: &str| {
        anstream::println!("{line}");
        if line.trim_start().starts_with("FAIL") {
            let mut first = seen.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| line.trim().to_owned());
        }
    }));
    let progress = Progress::new(|step| anstream::println!("… {step}"));
    let ended = runtime.block_on(DEMO.run(&args.name, progress, &mut checks));
    if let Err(error) = ended {
        let error = anyhow::Error::new(error);
        checks.line(false, "the demo goes on", format!("{error:#}"));
    }
    let first = first_failure.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(first) = first.as_ref() {
        anstream::println!("\nfirst failure: {first}");
    }
    anstream::println!("\ndemo: {} passed, {} failed", checks.passed, checks.failed);
    Ok(ExitCode::from(u8::from(checks.failed > 0)))
}
