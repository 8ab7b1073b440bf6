//! Tasks of this repository: `cargo xtask demo`, `test`, `packets`, `conformance`, `soak`, `peers`.
//!
//! Links no crate of the workspace, so that it builds in a second and can build the rest. Must stay
//! true: the last line of each task is its verdict, and the exit code agrees with it.

mod packages;
mod peers;
mod run;
mod steps;
mod suites;

#[cfg(test)]
mod dependencies;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
Tasks of this repository.

Usage: cargo xtask <TASK>

Tasks:
  demo [ARG…]                   install what is missing, build, and run `causeway demo`
  test                          everything that CI runs
  packets [FILTER…] [--times N] [--against standin|real]
                                packet scenarios on real OVN, one line each
  conformance [SUITE] --against standin|real
                                what a stand-in must do, also run against the real system
  soak sigkill [--times N] [--seed S]
                                `causeway up` killed at N random points, started again each time
  peers                         build the real systems from their Go modules, once
  real-api                      the path and the suites on the real API server; needs Go
  packages                      install the distribution packages that demo and tests need
  help                          this text";

fn main() -> ExitCode {
    match task() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn task() -> Result<bool> {
    // Wherever it was called from, paths are relative to the workspace.
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))?;
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    match task.as_str() {
        "demo" => steps::demo(&rest),
        "packets" => steps::packets(&rest),
        "conformance" => suites::conformance(&rest),
        "soak" => steps::soak(&rest),
        "peers" if rest.is_empty() => steps::peers(),
        "test" if rest.is_empty() => steps::test(),
        "real-api" if rest.is_empty() => steps::real_api(),
        "packages" if rest.is_empty() => packages::install().map(|()| true),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => bail!("no task {task:?} with these arguments\n\n{USAGE}"),
    }
}
