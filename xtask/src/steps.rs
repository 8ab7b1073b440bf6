//! What each task runs, in order.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    packages,
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
        let mut command = packages::as_root(&built(program));
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
