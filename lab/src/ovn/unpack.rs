//! Debian 13's OVN and OVS with their libraries, unpacked into the user's cache folder.
//!
//! Called when the machine has no OVN that is new enough. They run with their own C library, so
//! the machine may be any Debian. Must stay true: a folder under its final name is complete; two
//! that start at once do not disturb each other.

use std::{
    env, fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Ovn, Program, in_folder,
    sources::{Archive, debian_archive},
};
use crate::{
    Progress,
    command::{CommandError, Run},
};

const RELEASE: &str = "trixie";

/// Names the folder. Changed whenever the recipe changes, so that an old folder is not used.
const KEY: &str = "ovn-25.03-debian13-r1";

/// On two slow cores and a slow line the package index and 15 MB of packages take minutes.
const DOWNLOAD: Duration = Duration::from_mins(10);

/// The programs' packages and every library that they load. Found by ldd; apt itself would bring
/// Perl, Python and systemd along.
const PACKAGES: [&str; 21] = [
    "ovn-central",
    "ovn-common",
    "ovn-host",
    "openvswitch-switch",
    "openvswitch-common",
    "libc6",
    "libssl3t64",
    "libunbound8",
    "libcap-ng0",
    "libevent-2.1-7t64",
    "libnettle8t64",
    "libhogweed6t64",
    "libgmp10",
    "libzstd1",
    "zlib1g",
    "libnghttp2-14",
    "libatomic1",
    "libxdp1",
    "libnuma1",
    "libbpf1",
    "libelf1t64",
];

/// Debian's key, where Debian and its derivatives keep it.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The cache could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Not a Debian.
    #[error(
        "the apt sources of this machine name no Debian mirror; install OVN from elsewhere so \
         that its programs are on PATH"
    )]
    NoMirror,
    /// No home.
    #[error("neither XDG_CACHE_HOME nor HOME is set")]
    NoCacheFolder,
    /// apt-get or dpkg failed.
    #[error("apt-get or dpkg failed")]
    Command(#[from] CommandError),
    /// A file failed.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The packages lack something.
    #[error("Debian's packages do not hold {0}")]
    Incomplete(String),
}

/// The cached OVN; downloads it if it is not there yet.
pub(super) async fn cached(progress: &Progress) -> Result<Ovn, UnpackError> {
    let cache = cache_folder()?;
    let folder = cache.join(KEY);
    if let Some(ovn) = in_folder(&folder) {
        return Ok(ovn);
    }
    fs::create_dir_all(&cache).map_err(file("make", &cache))?;
    let _lock = lock(cache.join(format!("{KEY}.lock"))).await?;
    // Another process may have filled it while this one waited for the lock.
    if let Some(ovn) = in_folder(&folder) {
        return Ok(ovn);
    }
    let partial = cache.join(format!("{KEY}.partial"));
    for old in [&partial, &folder] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(file("remove", old))?;
        }
    }
    fill(&partial, progress).await?;
    fs::rename(&partial, &folder).map_err(file("name", &folder))?;
    in_folder(&folder).ok_or_else(|| UnpackError::Incomplete("every program and schema".to_owned()))
}

fn cache_folder() -> Result<PathBuf, UnpackError> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")))
        .ok_or(UnpackError::NoCacheFolder)?;
    Ok(base.join("causeway"))
}

/// The lock ends with the process that holds it.
async fn lock(path: PathBuf) -> Result<fs::File, UnpackError> {
    let lock = path.clone();
    let waited = tokio::task::spawn_blocking(move || {
        let file = fs::File::create(lock)?;
        file.lock()?;
        Ok(file)
    });
    waited
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(file("lock", &path))
}

async fn fill(folder: &Path, progress: &Progress) -> Result<(), UnpackError> {
    let apt = folder.join("apt");
    let debs = apt.join("debs");
    let root = folder.join("root");
    for dir in ["lists/partial", "cache/archives/partial", "debs"].map(|dir| apt.join(dir)) {
        fs::create_dir_all(&dir).map_err(file("make", &dir))?;
    }
    fs::create_dir_all(&root).map_err(file("make", &root))?;

    let etc = Path::new("/etc/apt");
    let archive = debian_archive(etc)
        .map_err(file("read", etc))?
        .ok_or(UnpackError::NoMirror)?;
    let list = apt.join("sources.list");
    fs::write(&list, source_line(&archive)).map_err(file("write", &list))?;

    progress.step("reading Debian 13's package index");
    apt_get(&apt).args(["update"]).stdout().await?;
    progress.step("downloading OVN 25.03 and its libraries");
    let wanted = PACKAGES.map(|package| format!("{package}/{RELEASE}"));
    apt_get(&apt)
        .args(["download"])
        .args(wanted)
        .within(&debs)
        .stdout()
        .await?;
    progress.step("unpacking OVN 25.03");
    for deb in files(&debs)? {
        Run::new("dpkg")
            .args(["--extract".as_ref(), deb.as_os_str(), root.as_os_str()])
            .ended_by_terminal()
            .stdout()
            .await?;
    }
    fs::remove_dir_all(&apt).map_err(file("remove", &apt))?;
    write_wrappers(folder, &root)
}

fn source_line(archive: &Archive) -> String {
    let debian = Path::new(KEYRING);
    let keyring = Some(debian)
        .filter(|path| path.is_file())
        .or(archive.signed_by.as_deref());
    let option = keyring.map_or_else(String::new, |path| {
        format!("[signed-by={}] ", path.display())
    });
    format!("deb {option}{} {RELEASE} main\n", archive.uri)
}

/// apt-get with state of its own: the machine's lists and sources are neither read nor written,
/// its proxies and other transport settings are used.
fn apt_get(apt: &Path) -> Run {
    let option = |name: &str, value: &Path| format!("{name}={}", value.display());
    let options = [
        option("Dir::Etc::sourcelist", &apt.join("sources.list")),
        option("Dir::Etc::sourceparts", Path::new("-")),
        option("Dir::State::lists", &apt.join("lists")),
        option("Dir::Cache", &apt.join("cache")),
        format!("APT::Default-Release={RELEASE}"),
        "APT::Sandbox::User=root".to_owned(),
        "Acquire::Retries=3".to_owned(),
        "Acquire::Languages=none".to_owned(),
    ];
    let options = options
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option]);
    Run::new("apt-get")
        .args(["-q"])
        .args(options)
        .bound(DOWNLOAD)
        .ended_by_terminal()
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, UnpackError> {
    fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(file("list", dir))
}

/// Each program as a shell wrapper that starts it with the unpacked loader and libraries.
fn write_wrappers(folder: &Path, root: &Path) -> Result<(), UnpackError> {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).map_err(file("make", &bin))?;
    let lib = files(&root.join("usr/lib"))?
        .into_iter()
        .find(|dir| dir.to_string_lossy().ends_with("-linux-gnu"))
        .ok_or_else(|| UnpackError::Incomplete("a library folder".to_owned()))?;
    let loader = files(&lib)?
        .into_iter()
        .find(|path| name(path).starts_with("ld-linux"))
        .ok_or_else(|| UnpackError::Incomplete("a loader".to_owned()))?;
    for program in Program::ALL {
        let found = packaged(root, &lib, program)?;
        let inside = |path: &Path| {
            let relative = path.strip_prefix(root).unwrap_or(path);
            format!("\"$root\"/{}", relative.display())
        };
        let script = format!(
            "#!/bin/sh\nroot=${{0%/*}}/../root\nexec {} --argv0 {} --library-path {} {} \"$@\"\n",
            inside(&loader),
            program.file_name(),
            inside(&lib),
            inside(&found),
        );
        let path = bin.join(program.file_name());
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o755)
            .open(&path)
            .and_then(|mut wrapper| wrapper.write_all(script.as_bytes()))
            .map_err(file("write", &path))?;
    }
    Ok(())
}

/// Debian keeps ovs-vswitchd, and on some releases ovsdb-server, beside the libraries and links to
/// it by its alternatives system.
fn packaged(root: &Path, lib: &Path, program: Program) -> Result<PathBuf, UnpackError> {
    let mut dirs = vec![root.join("usr/bin"), root.join("usr/sbin")];
    for base in [&root.join("usr/lib"), lib] {
        dirs.extend(
            files(base)?
                .into_iter()
                .filter(|dir| name(dir).starts_with("openvswitch")),
        );
    }
    dirs.into_iter()
        .map(|dir| dir.join(program.file_name()))
        .find(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()))
        .ok_or_else(|| UnpackError::Incomplete(program.file_name().to_owned()))
}

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> UnpackError + use<> {
    let path = path.to_owned();
    move |source| UnpackError::File {
        action,
        path,
        source,
    }
}
