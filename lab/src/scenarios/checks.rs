//! Lines of what was sent and seen, and their count.

use std::{fmt, net::Ipv4Addr, sync::Arc, time::Instant};

use super::ScenarioError;
use crate::{Guest, PingReport, embedded::PATIENCE};

/// Shows a line.
pub type Show = Arc<dyn Fn(&str) + Send + Sync>;

/// Pings of a check.
const PINGS: u32 = 3;

/// Counts lines as it shows them.
pub struct Checks {
    show: Show,
    /// Lines that are as they should be.
    pub passed: u32,
    /// The others.
    pub failed: u32,
}

impl Checks {
    /// None yet.
    pub fn new(show: Show) -> Self {
        Self {
            show,
            passed: 0,
            failed: 0,
        }
    }

    /// Shows a line that is no check.
    pub fn say(&self, text: impl fmt::Display) {
        (self.show)(&text.to_string());
    }

    /// Shows and counts a check.
    pub fn line(&mut self, good: bool, what: impl fmt::Display, seen: impl fmt::Display) {
        let mark = if good { "ok  " } else { "FAIL" };
        (self.show)(&format!("  {mark} {what:<58} {seen}"));
        if good {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// `from` must reach `to`; gives whether it did.
    ///
    /// # Errors
    /// [`ScenarioError::Ping`] if ping cannot be run.
    pub async fn reaches(
        &mut self,
        what: impl fmt::Display,
        from: &Guest,
        to: Ipv4Addr,
    ) -> Result<bool, ScenarioError> {
        let settled = settled(from, to).await?;
        let good = settled.is_some();
        match settled {
            Some(settled) => self.line(true, what, settled.report),
            None => self.line(false, what, format!("not within {} s", PATIENCE.as_secs())),
        }
        Ok(good)
    }

    /// `from` must reach `to` again; says how long after `since` it did for the first time.
    ///
    /// # Errors
    /// [`ScenarioError::Ping`] if ping cannot be run.
    pub async fn reaches_again(
        &mut self,
        what: impl fmt::Display,
        from: &Guest,
        to: Ipv4Addr,
        since: Instant,
    ) -> Result<(), ScenarioError> {
        match settled(from, to).await? {
            Some(settled) => {
                let first = settled.first.duration_since(since).as_secs_f64();
                self.line(
                    true,
                    what,
                    format!("after {first:.2} s; {}", settled.report),
                );
            }
            None => self.line(false, what, format!("not within {} s", PATIENCE.as_secs())),
        }
        Ok(())
    }

    /// `from` must not reach `to`.
    ///
    /// # Errors
    /// [`ScenarioError::Ping`] if ping cannot be run.
    pub async fn never_reaches(
        &mut self,
        what: impl fmt::Display,
        from: &Guest,
        to: Ipv4Addr,
    ) -> Result<bool, ScenarioError> {
        let report = from.ping(to, PINGS).await?;
        let silent = report.silent();
        let verdict = if silent {
            "nothing passes"
        } else {
            "must not pass"
        };
        self.line(silent, what, format!("{verdict}: {report}"));
        Ok(silent)
    }
}

/// A path that answers without a gap.
struct Settled {
    first: Instant,
    report: PingReport,
}

/// Pings until a whole series is answered. In the first second after gateway rows are written two
/// chassis may hold the port, until BFD between them is up: a reply may be lost then (seen on the
/// real system too).
async fn settled(from: &Guest, to: Ipv4Addr) -> Result<Option<Settled>, ScenarioError> {
    let deadline = Instant::now() + PATIENCE;
    let mut first = None;
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        if from.ping_until(to, left).await.is_err() {
            return Ok(None);
        }
        let first = *first.get_or_insert_with(Instant::now);
        let report = from.ping(to, PINGS).await?;
        if report.complete() {
            return Ok(Some(Settled { first, report }));
        }
    }
    Ok(None)
}
