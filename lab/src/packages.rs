//! What a site needs of the distribution, and what of it is missing.
//!
//! Called first by `Site::start`; `cargo xtask` reads the same list to install what is missing.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// A program that the lab runs and the Debian package that brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// Debian package.
    pub name: &'static str,
    /// The program that the lab calls.
    pub program: &'static str,
}

/// Everything that the lab calls, OVN and OVS aside.
pub const PACKAGES: [Package; 5] = [
    Package {
        name: "iproute2",
        program: "ip",
    },
    Package {
        name: "ethtool",
        program: "ethtool",
    },
    Package {
        name: "iputils-ping",
        program: "ping",
    },
    Package {
        name: "iputils-arping",
        program: "arping",
    },
    Package {
        name: "tcpdump",
        program: "tcpdump",
    },
];

/// Programs are missing; the message names their packages.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct PackagesMissing(Vec<Package>);

impl fmt::Display for PackagesMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs: Vec<_> = self.0.iter().map(|package| package.program).collect();
        let names: Vec<_> = self.0.iter().map(|package| package.name).collect();
        write!(
            f,
            "not found: {}; install the packages {}",
            programs.join(", "),
            names.join(" ")
        )
    }
}

/// All of [`PACKAGES`] are there.
///
/// # Errors
/// [`PackagesMissing`] with those that are not.
pub(crate) fn check() -> Result<(), PackagesMissing> {
    missing_of(&PACKAGES, find_program)
}

fn missing_of(
    packages: &[Package],
    find: impl Fn(&str) -> Option<PathBuf>,
) -> Result<(), PackagesMissing> {
    let missing: Vec<_> = packages
        .iter()
        .filter(|package| find(package.program).is_none())
        .copied()
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(PackagesMissing(missing))
    }
}

/// Looks `program` up where commands will find it.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    env::split_paths(&search_path())
        .map(|dir| dir.join(program))
        .find(|candidate| is_program(candidate))
}

/// PATH and where system programs live: an ordinary user's PATH, kept by sudo, often lacks the
/// sbin directories.
pub(crate) fn search_path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_each_missing_package_and_no_other() {
        let found = |program: &str| (program != "tcpdump" && program != "ping").then(PathBuf::new);
        let error = missing_of(&PACKAGES, found).expect_err("two are missing");
        assert_eq!(
            error.to_string(),
            "not found: ping, tcpdump; install the packages iputils-ping tcpdump"
        );
        assert_eq!(missing_of(&PACKAGES, |_| Some(PathBuf::new())), Ok(()));
    }
}
