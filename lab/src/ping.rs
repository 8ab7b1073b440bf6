//! Pings: how many answers, how long until the first, how long none came.
//!
//! Called through `Guest` by every packet scenario. Times are those of the `ping` program's own
//! clock, so a busy test does not lengthen a gap.

use std::{
    fmt,
    net::Ipv4Addr,
    process::Output,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::Child,
    sync::mpsc,
    time,
};

use crate::{
    command::{CommandError, Run, succeeded},
    guest::Guest,
};

/// Between two packets of any ping here.
const INTERVAL: Duration = Duration::from_millis(100);

/// A ping says nothing that counts.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// `ping` itself failed: no route, no such guest.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// `ping` wrote something else than expected.
    #[error("cannot read what ping wrote: {0}")]
    Unreadable(String),
    /// No answer at all.
    #[error("no answer from {dst} within {:.1} s", within.as_secs_f64())]
    Silent {
        /// Whom.
        dst: Ipv4Addr,
        /// How long it was waited.
        within: Duration,
    },
    /// Answers came all the time although a pause was waited for.
    #[error(
        "{dst} went on answering: no pause over {:.1} s within {:.1} s",
        pause.as_secs_f64(), within.as_secs_f64()
    )]
    NoPause {
        /// Whom.
        dst: Ipv4Addr,
        /// The pause waited for.
        pause: Duration,
        /// How long it was waited.
        within: Duration,
    },
    /// `ping` ended by itself.
    #[error("ping of {dst} ended: {stderr}")]
    Ended {
        /// Whom.
        dst: Ipv4Addr,
        /// What it wrote.
        stderr: String,
    },
}

/// What came of a counted ping.
#[derive(Clone, Debug, PartialEq)]
pub struct PingReport {
    /// Packets sent.
    pub sent: u32,
    /// Answers.
    pub received: u32,
    /// Hop limit of the last answer: 64 on the same network, 63 behind one router.
    pub ttl: Option<u8>,
    /// Mean round trip.
    pub rtt: Option<Duration>,
}

impl PingReport {
    /// Every packet was answered.
    pub fn complete(&self) -> bool {
        self.sent > 0 && self.received == self.sent
    }

    /// No packet was answered.
    pub fn silent(&self) -> bool {
        self.sent > 0 && self.received == 0
    }
}

impl fmt::Display for PingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sent, {} received", self.sent, self.received)?;
        if let Some(ttl) = self.ttl {
            write!(f, ", ttl {ttl}")?;
        }
        if let Some(rtt) = self.rtt {
            write!(f, ", {:.1} ms", rtt.as_secs_f64() * 1e3)?;
        }
        Ok(())
    }
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reply {
    /// Sequence number, from 1.
    pub seq: u32,
    /// When it came, since the Unix epoch.
    pub at: Duration,
    /// Hop limit.
    pub ttl: u8,
}

/// A ping that goes on until it is dropped.
#[derive(Debug)]
pub struct Pinger {
    dst: Ipv4Addr,
    replies: mpsc::UnboundedReceiver<Line>,
    last: Option<Reply>,
    _child: Child,
}

#[derive(Debug)]
enum Line {
    Reply(Reply),
    Ended(String),
}

impl Guest {
    /// Pings `count` times, ten times a second, and waits up to a second for the last answer.
    ///
    /// # Errors
    /// If `ping` cannot work at all; packets without an answer are no error.
    pub async fn ping(&self, dst: Ipv4Addr, count: u32) -> Result<PingReport, PingError> {
        let run = ping(self, dst).args(["-W", "1", "-c", &count.to_string()]);
        let run = run.bound(INTERVAL * count + Duration::from_secs(20));
        let words = run.words();
        report(words, &run.output().await?)
    }

    /// How long it takes until `dst` answers for the first time.
    ///
    /// # Errors
    /// [`PingError::Silent`] if it does not within `within`.
    pub async fn ping_until(&self, dst: Ipv4Addr, within: Duration) -> Result<Duration, PingError> {
        let begun = Instant::now();
        self.pinger(dst)?.reply(within).await?;
        Ok(begun.elapsed())
    }

    /// Starts a ping that goes on, ten times a second.
    ///
    /// # Errors
    /// If `ping` cannot be started.
    pub fn pinger(&self, dst: Ipv4Addr) -> Result<Pinger, PingError> {
        let mut child = ping(self, dst).args(["-D"]).spawn()?;
        let (line, replies) = mpsc::unbounded_channel();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        tokio::spawn(async move {
            if let Some(stdout) = stdout {
                let mut lines = BufReader::new(stdout).lines();
                while let Ok(Some(text)) = lines.next_line().await {
                    if let Some(reply) = reply(&text)
                        && line.send(Line::Reply(reply)).is_err()
                    {
                        return;
                    }
                }
            }
            let mut text = String::new();
            if let Some(mut stderr) = stderr
                && let Err(error) = stderr.read_to_string(&mut text).await
            {
                text = error.to_string();
            }
            // Nobody listens any more: then nobody wants to know why it ended either.
            drop(line.send(Line::Ended(text.trim().to_owned())));
        });
        Ok(Pinger {
            dst,
            replies,
            last: None,
            _child: child,
        })
    }
}

impl Pinger {
    /// The next answer not yet read.
    ///
    /// # Errors
    /// [`PingError::Silent`] if none comes within `within`.
    pub async fn reply(&mut self, within: Duration) -> Result<Reply, PingError> {
        let dst = self.dst;
        match time::timeout(within, self.replies.recv()).await {
            Ok(Some(Line::Reply(reply))) => {
                self.last = Some(reply);
                Ok(reply)
            }
            Ok(Some(Line::Ended(stderr))) => Err(PingError::Ended { dst, stderr }),
            Ok(None) => Err(PingError::Ended {
                dst,
                stderr: String::new(),
            }),
            Err(_) => Err(PingError::Silent { dst, within }),
        }
    }

    /// Waits until answers paused for longer than `pause` and came back; how long the pause was,
    /// from the last answer before it to the first one after it.
    ///
    /// # Errors
    /// [`PingError::NoPause`] if they never paused, [`PingError::Silent`] if they did not come
    /// back within `within`.
    pub async fn outage(
        &mut self,
        pause: Duration,
        within: Duration,
    ) -> Result<Duration, PingError> {
        let deadline = Instant::now() + within;
        let dst = self.dst;
        loop {
            let before = self.last;
            let asked = Instant::now();
            let left = deadline.saturating_duration_since(asked);
            let after = match self.reply(left).await {
                Err(PingError::Silent { .. }) if asked.elapsed() <= pause => {
                    Err(PingError::NoPause { dst, pause, within })
                }
                Err(PingError::Silent { .. }) => Err(PingError::Silent { dst, within }),
                other => other,
            }?;
            let gap = before.map(|before| after.at.saturating_sub(before.at));
            if let Some(gap) = gap.filter(|gap| *gap > pause) {
                return Ok(gap);
            }
        }
    }
}

fn ping(guest: &Guest, dst: Ipv4Addr) -> Run {
    let interval = format!("{:.1}", INTERVAL.as_secs_f64());
    guest
        .netns()
        .exec("ping")
        .args(["-n", "-i", &interval, &dst.to_string()])
}

/// Exit status 0: answers; 1: none; else `ping` could not work.
fn report(command: String, output: &Output) -> Result<PingReport, PingError> {
    if !matches!(output.status.code(), Some(0 | 1)) {
        succeeded(command, output)?;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    read_report(&text).ok_or_else(|| PingError::Unreadable(text.into_owned()))
}

fn read_report(text: &str) -> Option<PingReport> {
    let summary = text
        .lines()
        .find(|line| line.contains(" packets transmitted, "))?;
    let mut counts = summary.split(", ").map(|part| part.split(' ').next());
    let (sent, received) = (counts.next()??, counts.next()??);
    // rtt min/avg/max/mdev = 0.040/0.050/0.061/0.010 ms
    let rtt = text
        .lines()
        .find(|line| line.starts_with("rtt "))
        .and_then(|line| line.split('/').nth(4)?.parse::<f64>().ok())
        .map(|ms| Duration::from_secs_f64(ms / 1e3));
    Some(PingReport {
        sent: sent.parse().ok()?,
        received: received.parse().ok()?,
        ttl: text.lines().rev().find_map(|line| word(line, "ttl=")),
        rtt,
    })
}

/// `[1756000000.123456] 64 bytes from 172.20.10.1: icmp_seq=5 ttl=64 time=0.412 ms`
fn reply(line: &str) -> Option<Reply> {
    let (at, _) = line.strip_prefix('[')?.split_once(']')?;
    Some(Reply {
        seq: word(line, "icmp_seq=")?,
        at: Duration::try_from_secs_f64(at.parse().ok()?).ok()?,
        ttl: word(line, "ttl=")?,
    })
}

fn word<T: std::str::FromStr>(line: &str, key: &str) -> Option<T> {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(key))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_losses_and_errors_are_counted() {
        let text = "64 bytes from 10.0.0.1: icmp_seq=1 ttl=63 time=0.250 ms\n\n\
                    --- 10.0.0.1 ping statistics ---\n\
                    3 packets transmitted, 1 received, 66.6667% packet loss, time 201ms\n\
                    rtt min/avg/max/mdev = 0.250/0.500/0.250/0.000 ms\n";
        let seen = read_report(text).expect("readable");
        assert_eq!(seen.to_string(), "3 sent, 1 received, ttl 63, 0.5 ms");
        assert!(!seen.complete() && !seen.silent());

        let text = "From 10.0.0.2 icmp_seq=1 Destination Host Unreachable\n\
                    2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 100ms\n";
        let seen = read_report(text).expect("readable");
        assert_eq!(seen.to_string(), "2 sent, 0 received");
        assert!(seen.silent());
    }

    #[test]
    fn only_an_answer_is_a_reply() {
        let line = "[1756000000.500000] 64 bytes from 10.0.0.1: icmp_seq=7 ttl=64 time=0.4 ms";
        let seen = reply(line).expect("an answer");
        assert_eq!((seen.seq, seen.ttl), (7, 64));
        assert_eq!(seen.at, Duration::from_millis(1_756_000_000_500));
        assert_eq!(
            reply("[1756000000.5] From 10.0.0.2 icmp_seq=7 Destination Host Unreachable"),
            None
        );
    }
}
