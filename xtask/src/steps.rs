//! What each task runs, in order.

use std::{process::Command, time::Instant};

use anyhow::{Result, bail};

use crate::{
    packages, peers,
    run::{Tally, cargo, step},
    suites,
};

/// A program that cargo has built: run directly, because it runs as root where cargo may not.
pub fn built(program: &str) -> String {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    format!("{target}/debug/{program}")
}

/// `causeway demo` on whatever machine this is.
pub fn demo(arguments: &[String]) -> Result<bool> {
    packages::install()?;
    build("causeway-cli")?;
    let mut command = packages::as_root(&built("causeway"));
    command.arg("demo").args(arguments);
    Ok(command.status()?.success())
}

/// The packet scenarios.
pub fn packets(arguments: &[String]) -> Result<bool> {
    packages::install()?;
    build("causeway-lab")?;
    let mut command = packages::as_root(&built("packets"));
    command.args(arguments);
    Ok(command.status()?.success())
}

/// The long repetitions; they run the command that is built beside them.
pub fn soak(arguments: &[String]) -> Result<bool> {
    packages::install()?;
    build("causeway-cli")?;
    build("causeway-lab")?;
    let mut command = packages::as_root(&built("soak"));
    command.args(arguments);
    Ok(command.status()?.success())
}

/// The real systems that stand-ins are held to.
pub fn peers() -> Result<bool> {
    let start = Instant::now();
    match peers::build()? {
        Some(folder) => {
            for line in peers::list()? {
                println!("{line}");
            }
            println!(
                "in {}, after {:.1} s",
                folder.display(),
                start.elapsed().as_secs_f64()
            );
            Ok(true)
        }
        None => bail!("Go is not installed: the real systems are built from their Go modules"),
    }
}

/// Builds a crate's libraries and programs.
pub fn build(package: &str) -> Result<()> {
    println!("building {package}; the first time takes some minutes");
    let status = cargo(&["build", "--locked", "--package", package]).status()?;
    if !status.success() {
        bail!("{package} does not build");
    }
    Ok(())
}

/// Everything that CI runs; later steps run although an earlier one failed.
pub fn test() -> Result<bool> {
    packages::install()?;
    let mut steps = vec![("format", cargo(&["fmt", "--all", "--check"]))];
    if peers::has_go() {
        // Before the tests: some run the kubectl that it builds.
        steps.push(("peers", cargo(&["xtask", "peers"])));
        steps.extend(own_steps()?);
        steps.extend(real_api_steps());
    } else {
        println!("{}", peers::NO_GO);
        steps.extend(own_steps()?);
    }
    run_all(steps)
}

/// What needs nothing but the distribution's packages.
fn own_steps() -> Result<Vec<(&'static str, Command)>> {
    let root = |program: &str, arguments: &[&str]| {
        let mut command = packages::as_root(&built(program));
        command.args(arguments);
        command
    };
    let mut tests = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    if let Some(kubectl) = peers::kubectl()? {
        tests.env("CAUSEWAY_KUBECTL", kubectl);
    }
    let mut docs = cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--locked",
        "--document-private-items",
    ]);
    // Private items are documented too, so that links to them do lead somewhere.
    docs.env(
        "RUSTDOCFLAGS",
        "-D warnings -A rustdoc::private_intra_doc_links",
    );
    Ok(vec![
        (
            "build",
            cargo(&["build", "--workspace", "--all-targets", "--locked"]),
        ),
        ("tests", tests),
        ("packets", root("packets", &[])),
        ("demo", root("causeway", &["demo"])),
        (
            "clippy",
            cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ]),
        ),
        ("docs", docs),
    ])
}

/// Runs the steps in order, each although an earlier one failed.
fn run_all(steps: Vec<(&'static str, Command)>) -> Result<bool> {
    let mut total = Tally::default();
    let mut failed = Vec::new();
    for (name, command) in steps {
        let tally = step(name, command)?;
        if tally.failed > 0 {
            failed.push(name);
        }
        total.add(tally);
    }
    if !failed.is_empty() {
        println!("\nfailed: {}", failed.join(", "));
    }
    println!("\n{}", total.line());
    Ok(total.failed == 0)
}

/// What runs on the real API; needs Go.
pub fn real_api() -> Result<bool> {
    if peers::build()?.is_none() {
        bail!("{}", peers::NO_GO);
    }
    packages::install()?;
    suites::build_all()?;
    run_all(real_api_steps())
}

fn real_api_steps() -> Vec<(&'static str, Command)> {
    let mut packets = packages::as_root(&built("packets"));
    packets.args(["demo", "removal", "--against", "real"]);
    let mut steps = vec![
        (
            // Not among all targets, since it is no test by default.
            "clippy, real API",
            cargo(&[
                "clippy",
                "--locked",
                "--package",
                "causeway-lab",
                "--test",
                "real_api",
                "--",
                "-D",
                "warnings",
            ]),
        ),
        (
            "real API",
            cargo(&[
                "test",
                "--locked",
                "--package",
                "causeway-lab",
                "--test",
                "real_api",
            ]),
        ),
    ];
    steps.extend(suites::on_the_real_systems());
    steps.push(("packets, real API", packets));
    steps
}
