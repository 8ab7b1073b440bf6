//! The packet scenarios, one line each with what was sent and seen.
//!
//! Run by `cargo xtask packets [FILTER…] [--times N] [--against standin|real]`.

use std::{process::ExitCode, sync::Arc, time::Instant};

use causeway_lab::{
    Progress, chain,
    embedded::Backend,
    end_sites_on_signals,
    scenarios::{ALL, Checks, DEMO, Scenario},
};

const USAGE: &str = "\
Packet scenarios on real OVN, one line each with what was sent and seen. Needs root.

Usage: packets [FILTER…] [--times N] [--against standin|real]

  FILTER          run the scenarios whose names contain one of these; default: all
  --times N       run each N times
  --against WHAT  with the stand-in of the API (default) or with the real one";

struct Arguments {
    filters: Vec<String>,
    times: u32,
    backend: Backend,
}

impl Arguments {
    /// On the stand-in, `causeway demo` shows the main job.
    fn chosen(&self) -> Vec<&'static Scenario> {
        let demo = (self.backend == Backend::Real).then_some(&DEMO);
        let wanted = |scenario: &Scenario| {
            let mut filters = self.filters.iter();
            self.filters.is_empty() || filters.any(|filter| scenario.name.contains(filter))
        };
        let all = demo.into_iter().chain(ALL);
        all.filter(|scenario| wanted(scenario)).collect()
    }
}

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments {
        filters: Vec::new(),
        times: 1,
        backend: Backend::StandIn,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--times" => parsed.times = arguments.next()?.parse().ok()?,
            "--against" => {
                parsed.backend = match arguments.next()?.as_str() {
                    "standin" => Backend::StandIn,
                    "real" => Backend::Real,
                    _ => return None,
                }
            }
            flag if flag.starts_with('-') => return None,
            filter => parsed.filters.push(filter.to_owned()),
        }
    }
    Some(parsed)
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    if std::env::args().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let chosen = arguments.chosen();
    if chosen.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        eprintln!(
            "no scenario {:?}; there are {}",
            arguments.filters,
            names.join(", ")
        );
        return ExitCode::from(2);
    }
    if let Err(error) = end_sites_on_signals() {
        eprintln!("cannot listen for signals: {error}");
        return ExitCode::from(2);
    }
    let mut checks = Checks::new(Arc::new(|line| println!("{line}")));
    for time in 1..=arguments.times {
        for scenario in &chosen {
            if arguments.times > 1 {
                checks.say(format!("{}, {time} of {}", scenario.name, arguments.times));
            }
            run(scenario, arguments.backend.clone(), &mut checks).await;
        }
    }
    println!("{} passed, {} failed", checks.passed, checks.failed);
    if checks.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run(scenario: &Scenario, backend: Backend, checks: &mut Checks) {
    checks.say(format!("{}: {}", scenario.name, scenario.about));
    let start = Instant::now();
    let site = format!("p-{}", scenario.name);
    let ran = scenario.run_on(backend, &site, progress(), checks).await;
    if let Err(error) = ran {
        checks.line(false, scenario.name, chain(&error));
    }
    checks.say(format!("  {:.1} s", start.elapsed().as_secs_f64()));
}

/// What the site does while there is nothing else to see.
fn progress() -> Progress {
    Progress::new(|step| println!("  … {step}"))
}
