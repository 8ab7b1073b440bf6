//! A site's name on this machine: whose it is, its run directory and the record of its namespaces.
//!
//! Called by `Site::start` first and by its `drop` last. Everything that a site makes is a process
//! in one of its namespaces or with its mark, a device in a namespace, or a file in its run
//! directory, so removing these removes the site. Must stay true: a namespace is written to the
//! record before it is made, and none is made after [`Claim::clear`] began; the name is given up
//! only when nothing of the site is left.

use std::{
    fs, io,
    io::Write,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
};

use crate::{
    chain,
    command::{CommandError, Run},
    netns::{Netns, kill_all_in},
    processes::{MARK, is_marked, kill_all},
};

/// Fixed, so that a later site of the same name finds what an earlier one left; root owns `/run`.
const RUN: &str = "/run/causeway";

/// Keeps `/run/causeway/<name>/<node>/<file>` under the 107 bytes of a Unix socket's address.
const LONGEST_NAME: usize = 24;

/// A site's name cannot be had, or what bears it cannot be removed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Not a name.
    #[error(
        "`{0}` is no name for a site: 1 to {LONGEST_NAME} lower-case letters, digits and hyphens"
    )]
    Name(String),
    /// A running process has it.
    #[error("a site named `{0}` is running")]
    Running(String),
    /// A namespace of that name belongs to somebody else.
    #[error("a network namespace `{0}` exists that no site of this name made")]
    Foreign(String),
    /// The site was ended meanwhile.
    #[error("site `{0}` has ended")]
    Ended(String),
    /// The record or run directory failed.
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
    /// Processes of the site do not end.
    #[error("cannot end the processes of site `{name}`")]
    Kill {
        /// Site.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// `ip netns` failed.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// The exclusive right to a site's name, and what was made under it.
#[derive(Debug)]
pub(crate) struct Claim {
    name: String,
    dir: PathBuf,
    /// Held while a namespace is made or removed.
    lock: Mutex<Right>,
}

/// How far the site is.
#[derive(Debug)]
enum Right {
    /// It may make things. The name in the kernel, which frees it when the process dies, however it
    /// dies.
    Makes(UnixListener),
    /// It may not any more, and something of it may still be there.
    Ends(UnixListener),
    /// Nothing is there.
    Ended,
}

impl Right {
    fn may_make(&self) -> bool {
        matches!(self, Self::Makes(_))
    }
}

static LIVE: Mutex<Vec<Weak<Claim>>> = Mutex::new(Vec::new());

impl Claim {
    /// Takes the name and removes what a dead site of that name left.
    pub(crate) fn take(name: &str) -> Result<Arc<Self>, ClaimError> {
        let claim = Arc::new(Self::lock(name)?);
        claim.remove_everything()?;
        fs::create_dir_all(&claim.dir).map_err(|source| claim.file_error("make", source))?;
        let mut live = unpoisoned(&LIVE);
        live.retain(|other| other.strong_count() > 0);
        live.push(Arc::downgrade(&claim));
        drop(live);
        Ok(claim)
    }

    fn lock(name: &str) -> Result<Self, ClaimError> {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(letters) {
            return Err(ClaimError::Name(name.to_owned()));
        }
        let lock = SocketAddr::from_abstract_name(format!("causeway-site-{name}"))
            .and_then(|address| UnixListener::bind_addr(&address));
        match lock {
            Ok(lock) => Ok(Self {
                name: name.to_owned(),
                dir: Path::new(RUN).join(name),
                lock: Mutex::new(Right::Makes(lock)),
            }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(ClaimError::Running(name.to_owned()))
            }
            Err(source) => Err(ClaimError::File {
                action: "lock the name of",
                path: Path::new(RUN).join(name),
                source,
            }),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The namespace `<site>-<suffix>`, whether made or not.
    pub(crate) fn netns(&self, suffix: &str) -> Netns {
        Netns::named(format!("{}-{suffix}", self.name), &self.name)
    }

    /// Makes the namespace `<site>-<suffix>`; fine if this site has it already.
    pub(crate) async fn make_netns(self: &Arc<Self>, suffix: &str) -> Result<Netns, ClaimError> {
        let netns = self.netns(suffix);
        let (claim, made) = (Arc::clone(self), netns.clone());
        let fresh = blocking(move || claim.make(&made)).await?;
        if fresh {
            netns.settle().await?;
        }
        Ok(netns)
    }

    fn make(&self, netns: &Netns) -> Result<bool, ClaimError> {
        let right = unpoisoned(&self.lock);
        if !right.may_make() {
            return Err(ClaimError::Ended(self.name.clone()));
        }
        let known = self.recorded()?.contains(netns);
        match (netns.path().exists(), known) {
            (true, true) => return Ok(false),
            (true, false) => return Err(ClaimError::Foreign(netns.name().to_owned())),
            (false, true) => {}
            (false, false) => self.record(netns)?,
        }
        Run::new("ip")
            .env(MARK, &self.name)
            .args(["netns", "add", netns.name()])
            .stdout_blocking()?;
        Ok(true)
    }

    /// Removes one namespace of this site and what runs in it; fine if there is none.
    pub(crate) async fn remove_netns(self: &Arc<Self>, suffix: &str) -> Result<(), ClaimError> {
        let (claim, netns) = (Arc::clone(self), self.netns(suffix));
        blocking(move || {
            let _lock = unpoisoned(&claim.lock);
            if claim.recorded()?.contains(&netns) {
                claim.remove(std::slice::from_ref(&netns))?;
            }
            Ok(())
        })
        .await
    }

    /// Starts a process that bears this claim's [mark](crate::processes::MARK) and not one of its
    /// namespaces. Must be called within a tokio runtime.
    pub(crate) fn spawn(&self, command: std::process::Command) -> Result<Child, ClaimError> {
        let right = unpoisoned(&self.lock);
        if !right.may_make() {
            return Err(ClaimError::Ended(self.name.clone()));
        }
        let words = command.get_program().to_string_lossy().into_owned();
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn();
        child.map_err(|source| {
            ClaimError::Command(CommandError::Start {
                command: words,
                source,
            })
        })
    }

    /// Ends the site: its processes, its namespaces, its files. Blocks; fine if called again, and
    /// what has failed is tried again then.
    pub(crate) fn clear(&self) -> Result<(), ClaimError> {
        let mut right = unpoisoned(&self.lock);
        match std::mem::replace(&mut *right, Right::Ended) {
            Right::Makes(name) | Right::Ends(name) => *right = Right::Ends(name),
            Right::Ended => return Ok(()),
        }
        self.remove_everything()?;
        *right = Right::Ended;
        Ok(())
    }

    fn remove_everything(&self) -> Result<(), ClaimError> {
        kill_all(|pid| is_marked(pid, &self.name)).map_err(|source| self.not_killed(source))?;
        self.remove(&self.recorded()?)?;
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.file_error("remove", error))
            }
            _ => Ok(()),
        }
    }

    fn remove(&self, namespaces: &[Netns]) -> Result<(), ClaimError> {
        kill_all_in(namespaces).map_err(|source| self.not_killed(source))?;
        for netns in namespaces.iter().filter(|netns| netns.path().exists()) {
            Run::new("ip")
                .env(MARK, &self.name)
                .args(["netns", "delete", netns.name()])
                .stdout_blocking()?;
        }
        Ok(())
    }

    fn not_killed(&self, source: io::Error) -> ClaimError {
        ClaimError::Kill {
            name: self.name.clone(),
            source,
        }
    }

    fn record_path(&self) -> PathBuf {
        self.dir.join("namespaces")
    }

    fn recorded(&self) -> Result<Vec<Netns>, ClaimError> {
        match fs::read_to_string(self.record_path()) {
            Ok(text) => Ok(text
                .lines()
                .map(|line| Netns::named(line, &self.name))
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(self.file_error("read the record in", source)),
        }
    }

    fn record(&self, netns: &Netns) -> Result<(), ClaimError> {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.record_path())
            .and_then(|mut file| writeln!(file, "{}", netns.name()))
            .map_err(|source| self.file_error("write the record in", source))
    }

    fn file_error(&self, action: &'static str, source: io::Error) -> ClaimError {
        ClaimError::File {
            action,
            path: self.dir.clone(),
            source,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            complain(&error);
        }
    }
}

/// Ends what a dead site of that name left: processes, namespaces, files. Says whether there was
/// anything.
///
/// # Errors
/// [`ClaimError::Running`] if it is not dead, or the reason why something stays.
pub fn clear_leftovers(name: &str) -> Result<bool, ClaimError> {
    let claim = Claim::lock(name)?;
    let found = claim.dir.exists();
    claim.clear()?;
    Ok(found)
}

/// Ends all sites of this process, also those that are being built.
///
/// # Errors
/// The first that cannot be ended; the others are.
pub fn end_sites() -> Result<(), ClaimError> {
    // Not while the list is locked: a claim that ends now leaves it.
    let live: Vec<_> = unpoisoned(&LIVE).iter().filter_map(Weak::upgrade).collect();
    let ended: Vec<_> = live.iter().map(|claim| claim.clear()).collect();
    ended.into_iter().collect()
}

/// From now on SIGINT, SIGTERM and SIGHUP end all sites of this process and then the process, with
/// 128 + the signal's number. For the CLI and for tests; a library's user may want otherwise.
///
/// # Errors
/// If the signals cannot be watched.
pub fn end_sites_on_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let entered = runtime.enter();
    let [mut interrupt, mut terminate, mut hangup] =
        [signal(kinds[0])?, signal(kinds[1])?, signal(kinds[2])?];
    drop(entered);
    std::thread::Builder::new()
        .name("end-sites".to_owned())
        .spawn(move || {
            let kind = runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => kinds[0],
                    _ = terminate.recv() => kinds[1],
                    _ = hangup.recv() => kinds[2],
                }
            });
            if let Err(error) = end_sites() {
                complain(&error);
            }
            std::process::exit(128 + kind.as_raw_value());
        })
        .map(drop)
}

/// Nobody is left to return an error to; what stays must still be told.
pub(crate) fn complain(error: &ClaimError) {
    eprintln!("not all of a site was removed: {}", chain(error));
}

/// A panic elsewhere must not keep a site from being removed.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ClaimError> + Send + 'static,
) -> Result<T, ClaimError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ClaimError::File {
            action: "work on",
            path: PathBuf::from(RUN),
            source: io::Error::other(error),
        }),
    }
}
