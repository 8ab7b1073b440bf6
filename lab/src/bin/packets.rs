//! The packet scenarios, one line each with what was sent and seen.
//!
//! Run by `cargo xtask packets [FILTER] [--times N]`.

use std::{process::ExitCode, sync::Arc, time::Instant};

use causeway_lab::{
    Progress, end_sites_on_signals,
    scenarios::{ALL, Checks, Scenario},
};

const USAGE: &str = "usage: packets [FILTER] [--times N]";

struct Arguments {
    filter: String,
    times: u32,
}

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments {
        filter: String::new(),
        times: 1,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--times" => parsed.times = arguments.next()?.parse().ok()?,
            flag if flag.starts_with('-') => return None,
            filter => filter.clone_into(&mut parsed.filter),
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
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let chosen: Vec<&Scenario> = ALL
        .iter()
        .filter(|scenario| scenario.name.contains(&arguments.filter))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        eprintln!(
            "no scenario {:?}; there are {}",
            arguments.filter,
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
            run(scenario, &mut checks).await;
        }
    }
    println!("{} passed, {} failed", checks.passed, checks.failed);
    if checks.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run(scenario: &Scenario, checks: &mut Checks) {
    checks.say(format!("{}: {}", scenario.name, scenario.about));
    let start = Instant::now();
    let site = format!("p-{}", scenario.name);
    if let Err(error) = scenario.run(&site, Progress::silent(), checks).await {
        checks.line(false, scenario.name, chain(&error));
    }
    checks.say(format!("  {:.1} s", start.elapsed().as_secs_f64()));
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
