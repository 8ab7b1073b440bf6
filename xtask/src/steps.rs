//! What each task runs, in order.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    packages,
    run::{Tally, cargo, step},
};

/// Built once and then run as root, where cargo itself may not be.
const PROGRAM: &str = "target/debug/causeway";
const PACKETS: &str = "target/debug/packets";

/// `causeway demo` on whatever machine this is.
pub fn demo(arguments: &[String]) -> Result<bool> {
    packages::install()?;
    build("causeway-cli")?;
    let mut command = packages::as_root(PROGRAM);
    command.arg("demo").args(arguments);
    Ok(command.status()?.success())
}

/// The packet scenarios.
pub fn packets(arguments: &[String]) -> Result<bool> {
    packages::install()?;
    build("causeway-lab")?;
    let mut command = packages::as_root(PACKETS);
    command.args(arguments);
    Ok(command.status()?.success())
}

fn build(package: &str) -> Result<()> {
    println!("building {package}");
    let status = cargo(&["build", "--quiet", "--locked", "--package", package]).status()?;
    if !status.success() {
        bail!("{package} does not build");
    }
    Ok(())
}

/// Everything that CI runs; later steps run although an earlier one failed.
pub fn test() -> Result<bool> {
    packages::install()?;
    let denied = |mut command: Command| {
        command.env("RUSTDOCFLAGS", "-D warnings");
        command
    };
    let root = |program: &str, arguments: &[&str]| {
        let mut command = packages::as_root(program);
        command.args(arguments);
        command
    };
    let steps = [
        ("format", cargo(&["fmt", "--all", "--check"])),
        (
            "build",
            cargo(&["build", "--workspace", "--all-targets", "--locked"]),
        ),
        (
            "tests",
            cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]),
        ),
        ("packets", root(PACKETS, &[])),
        ("demo", root(PROGRAM, &["demo"])),
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
