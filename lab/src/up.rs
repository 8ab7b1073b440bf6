//! `causeway up` as others see it: a process that is started, used through its kubeconfig, ended or
//! killed; and what it leaves on the machine.
//!
//! Used by tests of the command and by the soak runs, with the built command. Must stay true: the
//! process is killed when this is dropped; whoever asks is told of everything that bears the site's
//! name.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{State, processes::is_marked};

/// Longest that it may take to start or end. Ordinary are 3 s and half a second.
const PATIENCE: Duration = Duration::from_mins(1);

/// Longest that it may take before, where OVN has to be downloaded first.
const DOWNLOAD: Duration = Duration::from_mins(15);

/// How the last line begins that it writes once it is ready.
const READY: &str = "Ctrl-C or `causeway down";

/// How the line begins after which there is something to take away.
const BUILDING: &str = "… building site";

/// It does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The process.
    #[error("cannot {0} `causeway up`")]
    Process(&'static str, #[source] io::Error),
    /// It said something else.
    #[error("`causeway up` ended before it was ready ({status}): {said}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// What it wrote.
        said: String,
    },
    /// It hangs.
    #[error("`causeway up` does not {0} within {within} s", within = .1.as_secs())]
    TooLong(&'static str, Duration),
    /// The kubeconfig.
    #[error("the kubeconfig {} cannot be used", path.display())]
    Kubeconfig {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A running `causeway up`, or one that is starting.
#[derive(Debug)]
pub struct Up {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// It has begun to build its site, and what it wrote until then.
    begun: Option<Vec<String>>,
    /// Read all the time, so that it never waits for a reader.
    errors: JoinHandle<io::Result<String>>,
}

impl Up {
    /// Starts it. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`UpError::Process`] if the program cannot be run.
    pub fn start(program: &Path, state: &State) -> Result<Self, UpError> {
        Self::start_with(program, &["up"], state)
    }

    /// The same with other words than `up`.
    ///
    /// # Errors
    /// [`UpError::Process`] if the program cannot be run.
    pub fn start_with(program: &Path, words: &[&str], state: &State) -> Result<Self, UpError> {
        let failed = |source| UpError::Process("start", source);
        let mut child = Command::new(program)
            .args(words)
            .arg("--state")
            .arg(state.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(output), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(io::Error::other("it has no output")));
        };
        let errors = tokio::spawn(async move {
            let mut text = String::new();
            errors.read_to_string(&mut text).await.map(|_| text)
        });
        Ok(Self {
            child,
            lines: BufReader::new(output).lines(),
            begun: None,
            errors,
        })
    }

    /// Waits until it says that it is up; what it wrote until then.
    ///
    /// # Errors
    /// [`UpError`] if it ends or hangs instead.
    pub async fn ready(&mut self) -> Result<Vec<String>, UpError> {
        self.building().await?;
        let mut said = self.begun.take().unwrap_or_default();
        said.extend(self.until(READY, PATIENCE).await?);
        Ok(said)
    }

    /// Waits until its site is being built.
    ///
    /// # Errors
    /// [`UpError`] if it ends or hangs instead.
    pub async fn building(&mut self) -> Result<(), UpError> {
        if self.begun.is_none() {
            self.begun = Some(self.until(BUILDING, DOWNLOAD).await?);
        }
        Ok(())
    }

    /// Lines up to the first that begins so, with it.
    async fn until(&mut self, start: &str, within: Duration) -> Result<Vec<String>, UpError> {
        let mut said = Vec::new();
        let lines = async {
            while let Some(line) = self.lines.next_line().await? {
                let found = line.starts_with(start);
                said.push(line);
                if found {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match timeout(within, lines).await {
            Err(_) => Err(UpError::TooLong("get ready", within)),
            Ok(Err(source)) => Err(UpError::Process("read from", source)),
            Ok(Ok(true)) => Ok(said),
            Ok(Ok(false)) => Err(self.why_ended(&said).await?),
        }
    }

    async fn why_ended(&mut self, said: &[String]) -> Result<UpError, UpError> {
        let status = self.ended().await?;
        let failed = |source| UpError::Process("read from", source);
        let errors = match timeout(PATIENCE, &mut self.errors).await {
            Err(_) => return Err(UpError::TooLong("close its output", PATIENCE)),
            Ok(Err(error)) => return Err(failed(error.into())),
            Ok(Ok(read)) => read.map_err(failed)?,
        };
        Ok(UpError::Ended {
            status,
            said: format!("{}\n{errors}", said.join("\n")),
        })
    }

    /// Its process.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends it a signal and waits for its end.
    ///
    /// # Errors
    /// [`UpError`] if it does not end.
    pub async fn end(&mut self, signal: Signal) -> Result<ExitStatus, UpError> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        // It has not been waited for, so the number is its own still.
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            kill_process(pid, signal).map_err(|errno| UpError::Process("end", errno.into()))?;
        }
        self.ended().await
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`UpError`] if it does not end.
    pub async fn ended(&mut self) -> Result<ExitStatus, UpError> {
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => status.map_err(|source| UpError::Process("wait for", source)),
            Err(_) => Err(UpError::TooLong("end", PATIENCE)),
        }
    }
}

/// A client of the kubeconfig in a state.
///
/// # Errors
/// [`UpError::Kubeconfig`].
pub async fn client(state: &State) -> Result<Client, UpError> {
    let path = state.dir().join("kubeconfig");
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| UpError::Kubeconfig {
        path: path.clone(),
        source,
    };
    let file = Kubeconfig::read_from(&path).map_err(|error| failed(error.into()))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(file, &options).await;
    let config = config.map_err(|error| failed(error.into()))?;
    Client::try_from(config).map_err(|error| failed(error.into()))
}

/// Namespaces, processes and files that a state's site has on this machine, and files of the state
/// that are not to stay.
///
/// # Errors
/// If the machine cannot be looked at.
pub fn traces(state: &State) -> io::Result<Vec<String>> {
    let site = state.site();
    let mut found = Vec::new();
    let dir = Path::new("/run/causeway").join(&site);
    if dir.exists() {
        found.push(format!("folder {}", dir.display()));
    }
    for name in names(Path::new("/run/netns"))? {
        if name.starts_with(&format!("{site}-")) {
            found.push(format!("namespace {name}"));
        }
    }
    let daemons = format!("{}/", dir.display());
    for name in names(Path::new("/proc"))? {
        let Some(pid) = name.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        // One that has ended meanwhile is none.
        let line = fs::read(format!("/proc/{name}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&daemons) || is_marked(pid, &site) {
            found.push(format!("process {name} {line}"));
        }
    }
    let stray = names(state.dir())?;
    let stray = stray.iter().filter(|name| !State::keeps(name));
    found.extend(stray.map(|name| format!("file {name} in the state")));
    Ok(found)
}

/// Names of what is in a folder; none if there is no such folder.
pub(crate) fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}
