//! OVN 25.03 or later with its OVS: where their programs are on this machine.
//!
//! Called by `Site::start`, and by tests that need a real ovsdb-server. The machine's own packages
//! are used if they are new enough, else Debian 13's, unpacked into a cache folder. Must stay true:
//! nothing is installed and no service is started.
//!
//! Older OVN is not supported: the real Kube-OVN refuses 23.03's NB schema.

mod sources;
mod unpack;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

pub use unpack::UnpackError;

use crate::{
    Progress,
    command::{CommandError, Run},
    packages::find_program,
};

/// The oldest release that will do.
const OLDEST: Version = Version {
    major: 25,
    minor: 3,
};

/// A program of OVN or OVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Compiles NB to SB.
    OvnNorthd,
    /// Makes a machine a chassis.
    OvnController,
    /// Writes NB.
    OvnNbctl,
    /// Reads SB.
    OvnSbctl,
    /// Asks what OVN would do with a packet.
    OvnTrace,
    /// Talks to OVN's daemons.
    OvnAppctl,
    /// The switch.
    OvsVswitchd,
    /// Configures the switch.
    OvsVsctl,
    /// Shows flows.
    OvsOfctl,
    /// Talks to the switch's daemons.
    OvsAppctl,
    /// The database server.
    OvsdbServer,
    /// Makes database files.
    OvsdbTool,
    /// Reads any database.
    OvsdbClient,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::OvnNorthd,
        Self::OvnController,
        Self::OvnNbctl,
        Self::OvnSbctl,
        Self::OvnTrace,
        Self::OvnAppctl,
        Self::OvsVswitchd,
        Self::OvsVsctl,
        Self::OvsOfctl,
        Self::OvsAppctl,
        Self::OvsdbServer,
        Self::OvsdbTool,
        Self::OvsdbClient,
    ];

    /// Its file name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::OvnNorthd => "ovn-northd",
            Self::OvnController => "ovn-controller",
            Self::OvnNbctl => "ovn-nbctl",
            Self::OvnSbctl => "ovn-sbctl",
            Self::OvnTrace => "ovn-trace",
            Self::OvnAppctl => "ovn-appctl",
            Self::OvsVswitchd => "ovs-vswitchd",
            Self::OvsVsctl => "ovs-vsctl",
            Self::OvsOfctl => "ovs-ofctl",
            Self::OvsAppctl => "ovs-appctl",
            Self::OvsdbServer => "ovsdb-server",
            Self::OvsdbTool => "ovsdb-tool",
            Self::OvsdbClient => "ovsdb-client",
        }
    }
}

/// A database schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schema {
    /// `OVN_Northbound`.
    Northbound,
    /// `OVN_Southbound`.
    Southbound,
    /// `Open_vSwitch`.
    OpenVswitch,
}

impl Schema {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Northbound, Self::Southbound, Self::OpenVswitch];

    /// Where the distribution's packages put it.
    fn packaged(self) -> &'static str {
        match self {
            Self::Northbound => "/usr/share/ovn/ovn-nb.ovsschema",
            Self::Southbound => "/usr/share/ovn/ovn-sb.ovsschema",
            Self::OpenVswitch => "/usr/share/openvswitch/vswitch.ovsschema",
        }
    }
}

/// The programs and schemas of one OVN.
#[derive(Clone, Debug)]
pub struct Ovn {
    programs: BTreeMap<Program, PathBuf>,
    root: PathBuf,
}

impl Ovn {
    /// Full path of a program.
    pub fn program(&self, program: Program) -> PathBuf {
        let named = || PathBuf::from(program.file_name());
        self.programs.get(&program).cloned().unwrap_or_else(named)
    }

    /// Full path of a schema file.
    pub fn schema(&self, schema: Schema) -> PathBuf {
        beneath(&self.root, schema.packaged())
    }

    fn complete(programs: BTreeMap<Program, PathBuf>, root: PathBuf) -> Option<Self> {
        let ovn = Self { programs, root };
        let whole = ovn.programs.len() == Program::ALL.len()
            && Schema::ALL
                .iter()
                .all(|schema| ovn.schema(*schema).is_file());
        whole.then_some(ovn)
    }
}

fn beneath(root: &Path, absolute: &str) -> PathBuf {
    root.join(absolute.trim_start_matches('/'))
}

/// OVN cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ObtainError {
    /// The machine's own OVN does not even say its version.
    #[error("the machine's own OVN does not run")]
    Own(#[source] CommandError),
    /// The machine has none that is new enough, and Debian's cannot be unpacked.
    #[error("no OVN {OLDEST} or later on PATH, and Debian 13's cannot be unpacked")]
    Unpack(#[from] UnpackError),
}

/// The machine's own OVN, the cached one, or the one that is now downloaded into the cache.
///
/// # Errors
/// [`ObtainError`] if there is none and none can be downloaded.
pub async fn obtain(progress: &Progress) -> Result<Ovn, ObtainError> {
    if let Some(own) = own().await.map_err(ObtainError::Own)? {
        return Ok(own);
    }
    Ok(unpack::cached(progress).await?)
}

async fn own() -> Result<Option<Ovn>, CommandError> {
    let programs: BTreeMap<_, _> = Program::ALL
        .into_iter()
        .filter_map(|program| Some((program, find_program(program.file_name())?)))
        .collect();
    let Some(ovn) = Ovn::complete(programs, PathBuf::from("/")) else {
        return Ok(None);
    };
    let said = Run::new(ovn.program(Program::OvnNorthd))
        .args(["--version"])
        .stdout()
        .await?;
    Ok(Version::said(&said)
        .is_some_and(|version| version >= OLDEST)
        .then_some(ovn))
}

/// The cached programs are wrappers in `bin`, the schemas stay where the packages have them.
fn in_folder(folder: &Path) -> Option<Ovn> {
    let programs = Program::ALL
        .into_iter()
        .map(|program| (program, folder.join("bin").join(program.file_name())))
        .filter(|(_, path)| fs::metadata(path).is_ok_and(|meta| meta.is_file()))
        .collect();
    Ovn::complete(programs, folder.join("root"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// Reads `ovn-northd 25.03.0` and what follows.
    fn said(text: &str) -> Option<Self> {
        let mut numbers = text.lines().next()?.split_whitespace().last()?.split('.');
        Some(Self {
            major: numbers.next()?.parse().ok()?,
            minor: numbers.next()?.parse().ok()?,
        })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_new_enough_by_number_not_by_letter() {
        let said = |text: &str| Version::said(text).expect("a version");
        assert!(said("ovn-northd 25.03.0\nOpen vSwitch Library 3.5.0\n") >= OLDEST);
        assert!(said("ovn-northd 25.09.1") >= OLDEST);
        assert!(said("ovn-northd 100.01.0") >= OLDEST);
        assert!(said("ovn-northd 24.09.2") < OLDEST);
        assert!(said("ovn-northd 9.12") < OLDEST);
        assert_eq!(Version::said("garbage"), None);
        assert_eq!(OLDEST.to_string(), "25.03");
    }
}
