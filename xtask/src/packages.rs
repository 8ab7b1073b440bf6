//! The distribution packages that demo and tests need, installed where they are missing.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// Package and the program by which its presence is known. The lab's own list is
/// `lab/src/packages.rs` (a test compares them); `openvswitch-common` has the ovsdb-server that
/// the OVSDB client is tested against.
pub const PACKAGES: [(&str, &str); 6] = [
    ("iproute2", "ip"),
    ("ethtool", "ethtool"),
    ("iputils-ping", "ping"),
    ("iputils-arping", "arping"),
    ("tcpdump", "tcpdump"),
    ("openvswitch-common", "ovsdb-server"),
];

/// Installs what is missing, and says so.
pub fn install() -> Result<()> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(_, program)| !is_there(program))
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing missing packages: {}", missing.join(" "));
    apt_get(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&missing);
    apt_get(&arguments)?;
    match PACKAGES.iter().find(|(_, program)| !is_there(program)) {
        Some((package, program)) => bail!("{program} is still missing after installing {package}"),
        None => Ok(()),
    }
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = as_root("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status().context("cannot run apt-get")?;
    if !status.success() {
        bail!("apt-get {} failed: {status}", arguments.join(" "));
    }
    Ok(())
}

/// The program, by sudo where we are not root.
pub fn as_root(program: &str) -> Command {
    if is_root() {
        return Command::new(program);
    }
    println!("not root: using sudo for {program}");
    let mut command = Command::new("sudo");
    command.arg("--preserve-env").arg(program);
    command
}

fn is_root() -> bool {
    // /proc/self belongs to the effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(system)
        .any(|folder| Path::new(&folder).join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_the_lab_needs_is_installed() {
        let lab = include_str!("../../lab/src/packages.rs");
        let named = |line: &str, field: &str| {
            let rest = line.trim().strip_prefix(field)?.trim().strip_prefix('"')?;
            rest.strip_suffix("\",").map(str::to_owned)
        };
        let needed: Vec<String> = lab
            .lines()
            .filter_map(|line| named(line, "name:"))
            .collect();
        assert!(needed.len() >= 5, "the list has been found: {needed:?}");
        for package in needed {
            assert!(
                PACKAGES.iter().any(|(name, _)| *name == package),
                "{package} is not installed by xtask"
            );
        }
    }
}
