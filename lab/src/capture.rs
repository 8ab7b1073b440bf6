//! What passes at a place of the site, as tcpdump prints it.
//!
//! Called through `Site::capture` by scenarios that must see a frame on the wire, not only its
//! effect.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
    time,
};

use crate::{command::CommandError, guest::Guest, netns::Netns};

/// Longest that tcpdump may take to listen.
const READY: Duration = Duration::from_secs(10);

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The trunk NIC of a node or hypervisor; frames carry their tags.
    Trunk(String),
    /// The tunnel NIC of a node.
    Tunnels(String),
    /// A guest's interface.
    Guest(Guest),
}

/// A capture cannot be made or does not show what is waited for.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// tcpdump cannot be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// No such machine.
    #[error("this site has no machine named `{0}`")]
    NoMachine(String),
    /// tcpdump does not listen.
    #[error("tcpdump does not listen: {0}")]
    Deaf(String),
    /// Its output cannot be read.
    #[error("cannot read what tcpdump writes")]
    Read(#[from] io::Error),
    /// Nothing fitting passed.
    #[error("nothing like it passed within {:.1} s; seen: {seen:?}", within.as_secs_f64())]
    NotSeen {
        /// How long it was waited.
        within: Duration,
        /// What passed instead.
        seen: Vec<String>,
    },
}

/// A running capture; it ends when dropped.
#[derive(Debug)]
pub struct Capture {
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
    _child: Child,
}

impl Capture {
    /// Listens; what passes after it returns is seen.
    pub(crate) async fn start(
        netns: &Netns,
        device: &str,
        filter: &str,
    ) -> Result<Self, CaptureError> {
        let mut child = netns
            .exec("tcpdump")
            .args([
                "-l",
                "-n",
                "-e",
                "-Z",
                "root",
                "--immediate-mode",
                "-i",
                device,
            ])
            .args([filter])
            .spawn()?;
        let deaf = || CaptureError::Deaf(String::new());
        let stdout = child.stdout.take().ok_or_else(deaf)?;
        let mut words = BufReader::new(child.stderr.take().ok_or_else(deaf)?).lines();
        let ready = async {
            let mut said = String::new();
            while let Some(line) = words.next_line().await? {
                if line.contains("listening on") {
                    return Ok(());
                }
                said = format!("{said}{line} ");
            }
            Err(CaptureError::Deaf(said))
        };
        time::timeout(READY, ready)
            .await
            .unwrap_or_else(|_| Err(CaptureError::Deaf("no word from it".to_owned())))?;
        // Its last words at the end must find a reader, or it dies of a broken pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = words.next_line().await {} });
        Ok(Self {
            lines: BufReader::new(stdout).lines(),
            seen: Vec::new(),
            _child: child,
        })
    }

    /// The first frame, from the last one waited for on, whose line has all of `words` in it.
    ///
    /// # Errors
    /// [`CaptureError::NotSeen`] with what passed instead.
    pub async fn wait_for(
        &mut self,
        words: &[&str],
        within: Duration,
    ) -> Result<String, CaptureError> {
        let fits = |line: &str| words.iter().all(|word| line.contains(word));
        self.read_until(fits, within)
            .await?
            .ok_or_else(|| CaptureError::NotSeen {
                within,
                seen: self.seen.clone(),
            })
    }

    /// Every frame until `time` from now.
    ///
    /// # Errors
    /// [`CaptureError::Read`] if tcpdump's output breaks.
    pub async fn all_within(mut self, time: Duration) -> Result<Vec<String>, CaptureError> {
        self.read_until(|_| false, time).await?;
        Ok(self.seen)
    }

    async fn read_until(
        &mut self,
        fits: impl Fn(&str) -> bool,
        within: Duration,
    ) -> Result<Option<String>, CaptureError> {
        let search = async {
            while let Some(line) = self.lines.next_line().await? {
                self.seen.push(line.clone());
                if fits(&line) {
                    return Ok(Some(line));
                }
            }
            Ok(None)
        };
        time::timeout(within, search).await.unwrap_or(Ok(None))
    }
}
