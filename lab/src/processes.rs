//! Ending processes for certain: by what they are, never by their number alone.
//!
//! Called by [`crate::claim`], [`crate::netns`] and [`crate::state`]. Must stay true: a process is
//! looked at again through the handle that is signalled, so a reused number cannot be hit.

use std::{
    ffi::OsStr,
    fs, io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal},
};

/// Longest that killed processes may take to be gone. Ordinary is under 50 ms.
pub(crate) const DEATH: Duration = Duration::from_secs(10);

/// In the environment of every process that belongs to a claim without being in one of its
/// namespaces; the value is the claim's name.
pub(crate) const MARK: &str = "CAUSEWAY_CLAIM";

/// Kills every process that is such, and waits until none is left. One that dies loses its memory and
/// with it what it is known by, but still holds files and ports: so its end itself is waited for.
pub(crate) fn kill_all(such: impl Fn(Pid) -> bool) -> io::Result<()> {
    let deadline = Instant::now() + DEATH;
    loop {
        let found = all(&such)?;
        if found.is_empty() {
            return Ok(());
        }
        let killed = found.iter().map(|pid| kill_if(*pid, &such));
        let killed: Vec<OwnedFd> = killed
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?;
        for handle in &killed {
            let left = deadline.saturating_duration_since(Instant::now());
            if !ends_within(handle, left)? {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("processes {found:?} do not end"),
                ));
            }
        }
    }
}

/// Kills a process if it is such, and gives the handle by which its end is seen.
pub(crate) fn kill_if(pid: Pid, such: impl Fn(Pid) -> bool) -> io::Result<Option<OwnedFd>> {
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if !such(pid) {
        return Ok(None);
    }
    match pidfd_send_signal(&handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(Some(handle)),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether it ends in time. Its parent need not have waited for it.
pub(crate) fn ends_within(handle: &OwnedFd, bound: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + bound;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Was it started with the mark of a claim of this name? A dead process that nobody has waited for
/// yet has no environment any more, and one that may not be looked at is not ours.
pub(crate) fn is_marked(pid: Pid, claim: &str) -> bool {
    let mark = format!("{MARK}={claim}");
    pid != getpid()
        && fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).is_ok_and(|text| {
            text.split(|byte| *byte == 0)
                .any(|it| it == mark.as_bytes())
        })
}

/// When a process started, in ticks since the machine did; nothing of one that has ended, waited for
/// or not.
pub(crate) fn started(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name, which may have spaces and parentheses, ends at the last one.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    // Field 22 of proc(5); the state is field 3.
    let ticks = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(ticks)
}

fn all(such: impl Fn(Pid) -> bool) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = number(&entry?.file_name())
            && such(pid)
        {
            found.push(pid);
        }
    }
    Ok(found)
}

fn number(name: &OsStr) -> Option<Pid> {
    Pid::from_raw(name.to_str()?.parse().ok()?)
}
