//! What each task runs, in order.

use std::{process::Command, time::Instant};

use anyhow::{Result, bail};

use crate::{
    packages, peers,
    run::{Tally, cargo, step},
};

/// A program that cargo has built: run directly, because it runs as root where cargo may not.
fn built(program: &str) -> String {
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

/// A stand-in's suite: its name, and the crate whose test `conformance` it is.
const SUITES: [(&str, &str); 1] = [("kubeapi", "causeway-kubeapi")];

/// The stand-ins' suites, against the stand-ins or against what they stand for.
pub fn conformance(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (chosen, against) = match words[..] {
        ["--against", against] => (None, against),
        [suite, "--against", against] | ["--against", against, suite] => (Some(suite), against),
        _ => bail!("usage: cargo xtask conformance [SUITE] --against standin|real"),
    };
    let suites: Vec<_> = SUITES
        .iter()
        .filter(|(name, _)| chosen.is_none_or(|chosen| chosen == *name))
        .collect();
    if suites.is_empty() {
        bail!(
            "no such suite; there are {}",
            SUITES.map(|it| it.0).join(", ")
        );
    }
    let mut total = Tally::default();
    for (name, package) in suites {
        let command = match against {
            "standin" => suite(package),
            "real" => {
                if peers::build()?.is_none() {
                    bail!("Go is not installed: the real systems are built from their Go modules");
                }
                build("causeway-lab")?;
                on_the_real_api(&suite(package))
            }
            other => bail!("there is no {other:?} to run against: standin or real"),
        };
        total.add(step(&format!("{name}, {against}"), command)?);
    }
    println!("\n{}", total.line());
    Ok(total.failed == 0)
}

fn suite(package: &str) -> Command {
    cargo(&[
        "test",
        "--locked",
        "--package",
        package,
        "--test",
        "conformance",
    ])
}

/// The command with a real API server beside it.
fn on_the_real_api(command: &Command) -> Command {
    let mut with = packages::as_root(&built("with-real-api"));
    with.arg(command.get_program()).args(command.get_args());
    with
}

fn build(package: &str) -> Result<()> {
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
    let denied = |mut command: Command| {
        // Private items are documented too, so that links to them do lead somewhere.
        command.env(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private_intra_doc_links",
        );
        command
    };
    let root = |program: &str, arguments: &[&str]| {
        let mut command = packages::as_root(&built(program));
        command.args(arguments);
        command
    };
    let steps = vec![
        ("format", cargo(&["fmt", "--all", "--check"])),
        (
            "build",
            cargo(&["build", "--workspace", "--all-targets", "--locked"]),
        ),
        (
            "tests",
            cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]),
        ),
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
        (
            "docs",
            denied(cargo(&[
                "doc",
                "--workspace",
                "--no-deps",
                "--locked",
                "--document-private-items",
            ])),
        ),
    ];
    run_all(steps)
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

/// What runs on the real API; needs Go. Not part of `test` yet: it takes its peers' time to build.
pub fn real_api() -> Result<bool> {
    if peers::build()?.is_none() {
        bail!("{}", peers::NO_GO);
    }
    packages::install()?;
    build("causeway-lab")?;
    run_all(real_api_steps())
}

fn real_api_steps() -> Vec<(&'static str, Command)> {
    let mut packets = packages::as_root(&built("packets"));
    packets.args(["demo", "removal", "--against", "real"]);
    vec![
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
        (
            "conformance of kubeapi, real API",
            on_the_real_api(&suite("causeway-kubeapi")),
        ),
        ("packets, real API", packets),
    ]
}
