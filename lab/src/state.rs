//! A directory with what outlasts `causeway up`: the objects, the kubeconfig and the authority's key.
//! One process at a time holds it.
//!
//! Called by `causeway up`, `demo --keep` and `down`. Must stay true: the kernel's lock on the file
//! `lock` says whether somebody holds the directory, the file's text only who, if it may be ended
//! (`down` writes no number); a process is ended through a handle, and only if it is the one that
//! the file means, so a reused number is not hit.

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    str::FromStr,
    time::{Duration, Instant},
};

use causeway_kubeapi::{forget_server, remove_unfinished};
use hmac_sha256::Hash;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal},
};

use crate::{
    claim::{ClaimError, clear_leftovers},
    processes::{DEATH, ends_within, started},
};

/// Everything in the API.
const OBJECTS: &str = "api.redb";
const LOCK: &str = "lock";
/// What stays when nothing runs; `forget` removes it, except for a kubeconfig of others.
const KEPT: [&str; 3] = [OBJECTS, "kubeconfig", "authority.key"];

/// Longest that a process may take to end by itself. Ordinary is half a second; one that is being
/// started ends after the command under way.
const END: Duration = Duration::from_secs(30);

/// How often the lock of somebody who is not to be ended is tried.
const LOOK: Duration = Duration::from_millis(5);

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Somebody else holds it.
    #[error("causeway runs already with state {}: {holder}; `causeway down --state {}` ends it", dir.display(), dir.display())]
    Held {
        /// The directory.
        dir: PathBuf,
        /// Who.
        holder: Holder,
    },
    /// A file.
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
    /// Who holds it does not end.
    #[error("cannot end {holder}")]
    Stays {
        /// Who.
        holder: Holder,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What a killed one left.
    #[error("cannot remove what an earlier run left")]
    Leftovers(#[from] ClaimError),
}

/// Who holds a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This process.
    Process {
        /// Its number.
        pid: i32,
        /// When it started, in the kernel's ticks: tells it from a later process of that number.
        started: u64,
    },
    /// It has not written its number yet, or is a `down`, which is not to be ended.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, .. } => write!(f, "process {pid}"),
            Self::Unknown => f.write_str("a process that is just starting or ending"),
        }
    }
}

impl FromStr for Holder {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        Ok(Self::Process {
            pid: words.next().unwrap_or_default().parse()?,
            started: words.next().unwrap_or_default().parse()?,
        })
    }
}

/// What [`State::end`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// This one ran and has ended; `killed` if it did not by itself.
    Running {
        /// Who.
        holder: Holder,
        /// SIGKILL was needed.
        killed: bool,
    },
    /// An earlier one had been killed; what it left is gone.
    Leftovers,
    /// There was nothing to end.
    Nothing,
}

/// A state directory, whether it exists or not.
#[derive(Clone, Debug)]
pub struct State {
    dir: PathBuf,
}

impl State {
    /// The directory at this path.
    ///
    /// # Errors
    /// [`StateError::File`] if the path means nothing.
    pub fn at(path: &Path) -> Result<Self, StateError> {
        let dir = whole(path).map_err(|source| file_error("find", path, source))?;
        Ok(Self { dir })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name of its site: every directory has its own, so that several can run side by side.
    pub fn site(&self) -> String {
        let hash = Hash::hash(self.dir.as_os_str().as_encoded_bytes());
        let digits = hash.iter().take(4).map(|byte| format!("{byte:02x}"));
        digits.fold("up-".to_owned(), |name, two| name + &two)
    }

    /// Whether objects of an earlier run are in it.
    pub fn has_objects(&self) -> bool {
        self.dir.join(OBJECTS).exists()
    }

    /// The file of the objects.
    pub fn objects(&self) -> PathBuf {
        self.dir.join(OBJECTS)
    }

    /// Whether a file of this name is to stay when nothing runs.
    pub fn keeps(name: &str) -> bool {
        KEPT.contains(&name)
    }

    /// Makes the directory if need be and holds it until the value is dropped.
    ///
    /// # Errors
    /// [`StateError::Held`] if another process does.
    pub fn hold(self) -> Result<Held, StateError> {
        let mut maker = DirBuilder::new();
        let made = maker.recursive(true).mode(0o700).create(&self.dir);
        made.map_err(|source| file_error("make", &self.dir, source))?;
        // Its path can be told whole only now.
        let mut held = Self::at(&self.dir)?.lock()?;
        let pid = getpid();
        let since = started(pid).unwrap_or_default();
        let written = writeln!(held.file, "{} {since}", pid.as_raw_nonzero());
        written.map_err(|source| file_error("write", &held.state.dir.join(LOCK), source))?;
        Ok(held)
    }

    /// Ends who holds the directory and removes what a killed holder left. Waits, within a bound,
    /// and kills who does not end by himself. Blocks.
    ///
    /// # Errors
    /// [`StateError`] with who or what stays.
    pub fn end(&self) -> Result<Ended, StateError> {
        if !self.dir.exists() {
            let found = clear_leftovers(&self.site())?;
            return Ok(if found {
                Ended::Leftovers
            } else {
                Ended::Nothing
            });
        }
        let deadline = Instant::now() + END + DEATH;
        let mut ended = None;
        let held = loop {
            match self.lock() {
                Ok(held) => break held,
                Err(StateError::Held { holder, dir }) => {
                    if Instant::now() > deadline {
                        return Err(StateError::Held { holder, dir });
                    }
                    match end_holder(holder) {
                        Ok(None) => std::thread::sleep(LOOK),
                        Ok(Some(killed)) => ended = Some(Ended::Running { holder, killed }),
                        Err(source) => return Err(StateError::Stays { holder, source }),
                    }
                }
                Err(error) => return Err(error),
            }
        };
        let found = clear_leftovers(&held.state.site())?;
        remove_unfinished(&self.dir, &[OBJECTS]).map_err(stays)?;
        Ok(match ended {
            Some(ended) => ended,
            None if found => Ended::Leftovers,
            None => Ended::Nothing,
        })
    }

    /// Removes what is kept. Says whether there was anything.
    ///
    /// # Errors
    /// [`StateError::Held`] if somebody holds the directory, [`StateError::File`] if something stays.
    pub fn forget(self) -> Result<bool, StateError> {
        if !self.dir.exists() {
            return Ok(false);
        }
        let held = self.lock()?;
        let dir = self.dir;
        let mut found = remove_file(&dir.join(OBJECTS))?;
        remove_unfinished(&dir, &[OBJECTS]).map_err(stays)?;
        found |= forget_server(&dir).map_err(stays)?;
        drop(held);
        match fs::remove_dir(&dir) {
            // What else is in there is not ours.
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(file_error("remove", &dir, error))
            }
            _ => Ok(found),
        }
    }

    /// Holds it for the moment, if it is there, and says nothing of this process.
    fn lock(&self) -> Result<Held, StateError> {
        let path = self.dir.join(LOCK);
        let failed = |source| file_error("lock", &path, source);
        // Again for as long as those who had it remove it between our opening and our locking.
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = options.mode(0o600).open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    file.read_to_string(&mut text).map_err(failed)?;
                    return Err(StateError::Held {
                        dir: self.dir.clone(),
                        holder: text.parse().unwrap_or(Holder::Unknown),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            let ours = file.metadata().map_err(failed)?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                // What a killed one wrote.
                file.set_len(0).map_err(failed)?;
                return Ok(Held {
                    state: self.clone(),
                    file,
                });
            }
        }
    }
}

/// The right to a state directory. Dropping it gives it up.
#[derive(Debug)]
pub struct Held {
    state: State,
    file: File,
}

impl Held {
    /// The directory.
    pub fn state(&self) -> &State {
        &self.state
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Before the lock goes; the next holder makes a file of its own.
        if let Err(error) = remove_file(&self.state.dir.join(LOCK)) {
            tracing::error!(error = &error as &dyn std::error::Error, "the lock stays");
        }
        if let Err(error) = self.file.unlock() {
            tracing::error!(error = &error as &dyn std::error::Error, "the lock stays");
        }
    }
}

/// SIGTERM, and SIGKILL in the end. None: it is not there (any more) or not to be told; else
/// whether it had to be killed.
fn end_holder(holder: Holder) -> io::Result<Option<bool>> {
    let Holder::Process {
        pid,
        started: since,
    } = holder
    else {
        return Ok(None);
    };
    let Some(pid) = Pid::from_raw(pid) else {
        return Ok(None);
    };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    // Looked at through the number after the handle was opened: the handle is this one's, then.
    if started(pid) != Some(since) {
        return Ok(None);
    }
    for (signal, bound, killed) in [(Signal::TERM, END, false), (Signal::KILL, DEATH, true)] {
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => {}
            Err(Errno::SRCH) => return Ok(Some(killed)),
            Err(errno) => return Err(errno.into()),
        }
        if ends_within(&handle, bound)? {
            return Ok(Some(killed));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "it was sent SIGKILL and is still there",
    ))
}

/// The path without links, as far as it is there: what is not there yet must have the same name as
/// when it is.
fn whole(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for there in path.ancestors() {
        match fs::canonicalize(there) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(found) => {
                let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
                return Ok(found.components().chain(rest.components()).collect());
            }
        }
    }
    Ok(path)
}

fn stays((path, source): (PathBuf, io::Error)) -> StateError {
    file_error("remove", &path, source)
}

fn remove_file(path: &Path) -> Result<bool, StateError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(file_error("remove", path, source)),
    }
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> StateError {
    StateError::File {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bystander() -> (std::process::Child, Pid) {
        let child = std::process::Command::new("sleep").arg("60").spawn();
        let child = child.expect("sleep starts");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        (child, pid.expect("a number"))
    }

    #[test]
    fn a_process_that_has_another_start_than_the_lock_says_is_not_hit() {
        let (mut child, pid) = bystander();
        let since = started(pid).expect("it runs");
        let holder = |started| Holder::Process {
            pid: pid.as_raw_nonzero().get(),
            started,
        };
        let done = end_holder(holder(since + 1)).expect("looked at");
        assert_eq!(done, None);
        assert!(child.try_wait().expect("looked at").is_none());

        let done = end_holder(holder(since)).expect("ended");
        assert_eq!(done, Some(false), "SIGTERM is enough");
        child.wait().expect("it has ended");
    }

    #[test]
    fn one_process_at_a_time_holds_a_state_and_the_next_has_a_lock_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::at(&folder.path().join("state")).expect("a path");
        let held = state.clone().hold().expect("it is free");
        let refused = state.clone().hold().expect_err("it is held");
        let own = getpid();
        let expected = Holder::Process {
            pid: own.as_raw_nonzero().get(),
            started: started(own).expect("it runs"),
        };
        assert!(
            matches!(&refused, StateError::Held { holder, .. } if *holder == expected),
            "{refused}"
        );
        drop(held);
        assert!(!state.dir().join(LOCK).exists());
        state.hold().expect("it is free again");
    }

    #[test]
    fn a_down_says_of_itself_nothing_by_which_another_could_end_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::at(folder.path()).expect("a path");
        fs::write(state.dir().join(LOCK), "1 1").expect("what a killed one left");
        let _down = state.lock().expect("it is free");
        let refused = state.clone().hold().expect_err("it is locked");
        let StateError::Held { holder, .. } = refused else {
            unreachable!("{refused}");
        };
        assert_eq!(holder, Holder::Unknown);
        assert_eq!(end_holder(holder).expect("looked at"), None);
    }

    #[test]
    fn a_state_has_the_same_site_before_it_is_there_though_its_parent_is_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("real");
        let link = folder.path().join("link");
        fs::create_dir(&real).expect("made");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        let at = |path: PathBuf| State::at(&path).expect("a path");
        let before = at(link.join("a/b"));
        assert_eq!(before.dir(), at(real.join("a/b")).dir());
        fs::create_dir_all(before.dir()).expect("made");
        assert_eq!(before.site(), at(link.join("a/b")).site());
    }

    #[test]
    fn two_states_have_sites_of_different_names() {
        let site = |path: &str| State::at(Path::new(path)).expect("a path").site();
        assert_ne!(site("/var/lib/one"), site("/var/lib/two"));
        assert_eq!(site("/var/lib/one"), site("/var/lib/one"));
    }
}
