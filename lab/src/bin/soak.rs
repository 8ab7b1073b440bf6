//! Long repetitions with the built command, one line each.
//!
//! Run by `cargo xtask soak NAME [--times N] [--seed S]`.

use std::{
    collections::hash_map::RandomState, error::Error, hash::BuildHasher, path::PathBuf,
    process::ExitCode, sync::Arc, time::Instant,
};

use causeway_lab::{
    chain,
    scenarios::Checks,
    soak::{
        Draws,
        sigkill::{Soak, SoakError},
    },
};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "\
Long repetitions with the built command, one line each. Needs root.

Usage: soak sigkill [--times N] [--seed S]

  sigkill    `causeway up` killed at N random points and started again each time
  --times N  how many points; default: 50
  --seed S   points at the same shares of a run as the run that printed this seed";

struct Arguments {
    times: u32,
    seed: u64,
}

fn arguments() -> Option<Arguments> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != "sigkill" {
        return None;
    }
    let mut parsed = Arguments {
        times: 50,
        seed: RandomState::new().hash_one(0),
    };
    while let Some(argument) = arguments.next() {
        let value = arguments.next()?;
        match argument.as_str() {
            "--times" => parsed.times = value.parse().ok()?,
            "--seed" => parsed.seed = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(parsed)
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut checks = Checks::new(Arc::new(|line| println!("{line}")));
    if let Err(error) = sigkill(&arguments, &mut checks).await {
        checks.line(false, "the run goes on", chain(&*error));
    }
    println!("{} passed, {} failed", checks.passed, checks.failed);
    if checks.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn sigkill(arguments: &Arguments, checks: &mut Checks) -> Result<(), Box<dyn Error>> {
    checks.say(format!(
        "sigkill: {} points, --seed {}",
        arguments.times, arguments.seed
    ));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let begun = Instant::now();
    let soak = Soak::new(&program()?).await?;
    let run = async {
        let reference = soak.undisturbed(checks).await?;
        let mut draws = Draws::new(arguments.seed);
        for number in 0..arguments.times {
            let point = reference.point(number, arguments.times, &mut draws);
            soak.kill_at(&reference, &point, checks).await;
        }
        Ok::<_, SoakError>(())
    };
    let ended = tokio::select! {
        ended = run => ended.map_err(Into::into),
        _ = terminate.recv() => Err("SIGTERM".into()),
        _ = interrupt.recv() => Err("SIGINT".into()),
    };
    soak.clear()?;
    checks.say(format!("  {:.1} s", begun.elapsed().as_secs_f64()));
    ended
}

/// The command that was built beside this one.
fn program() -> Result<PathBuf, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name("causeway");
    if program.is_file() {
        Ok(program)
    } else {
        Err(format!("{} is not built", program.display()).into())
    }
}
