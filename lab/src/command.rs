//! One command of the machine, run to its end within a bound.
//!
//! Called by everything in the lab. Must stay true: no command runs for ever, and a failure says
//! which command, how it ended and what it wrote; a Ctrl-C in the terminal is for this process to
//! act on and hits no command, least of all one that removes something.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use crate::packages::search_path;
use tokio::{io::AsyncWriteExt, process::Child, time};

/// Longest that any command may take. Ordinary ones end in milliseconds; waits for a condition
/// (`wait-until`) and downloads state bounds of their own below or above it.
const PATIENCE: Duration = Duration::from_mins(3);

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started or fed.
    #[error("cannot run `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended with another status than expected.
    #[error("`{command}` failed ({status}): {stderr}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it wrote.
        stderr: String,
    },
    /// It did not end.
    #[error("`{command}` did not end within {} s", bound.as_secs())]
    TooLong {
        /// The command line.
        command: String,
        /// The bound.
        bound: Duration,
    },
}

/// A command being put together.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    input: Option<String>,
    dir: Option<PathBuf>,
    bound: Duration,
    own_group: bool,
}

impl Run {
    pub(crate) fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            input: None,
            dir: None,
            bound: PATIENCE,
            own_group: true,
        }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, key: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((key, value.into()));
        self
    }

    pub(crate) fn input(mut self, input: String) -> Self {
        self.input = Some(input);
        self
    }

    pub(crate) fn within(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }

    pub(crate) fn bound(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    /// Ctrl-C ends it after all: a download that belongs to no site, which nothing else would end.
    pub(crate) fn ended_by_terminal(mut self) -> Self {
        self.own_group = false;
        self
    }

    /// Runs it to its end; whatever the exit status.
    pub(crate) async fn output(self) -> Result<Output, CommandError> {
        let command = self.words();
        let bound = self.bound;
        let mut tool = tokio::process::Command::from(self.std());
        tool.kill_on_drop(true);
        let end = async {
            let mut child = tool.spawn()?;
            if let (Some(input), Some(mut stdin)) = (self.input, child.stdin.take()) {
                stdin.write_all(input.as_bytes()).await?;
            }
            child.wait_with_output().await
        };
        match time::timeout(bound, end).await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(source)) => Err(CommandError::Start { command, source }),
            Err(_) => Err(CommandError::TooLong { command, bound }),
        }
    }

    /// Runs it to its end; its standard output if it succeeded.
    pub(crate) async fn stdout(self) -> Result<String, CommandError> {
        let command = self.words();
        succeeded(command, &self.output().await?)
    }

    /// The same, blocking: for clean-up, which must work in `drop`. Takes no input.
    pub(crate) fn stdout_blocking(self) -> Result<String, CommandError> {
        let command = self.words();
        let output = self.std().output().map_err(|source| CommandError::Start {
            command: command.clone(),
            source,
        })?;
        succeeded(command, &output)
    }

    /// Starts it and leaves it running, its output piped; it is killed when the child is dropped.
    pub(crate) fn spawn(self) -> Result<Child, CommandError> {
        let command = self.words();
        let mut tool = tokio::process::Command::from(self.std());
        tool.kill_on_drop(true)
            .spawn()
            .map_err(|source| CommandError::Start { command, source })
    }

    /// The command line, for messages.
    pub(crate) fn words(&self) -> String {
        let mut words = vec![self.program.to_string_lossy()];
        words.extend(self.args.iter().map(|arg| arg.to_string_lossy()));
        words.join(" ")
    }

    fn std(&self) -> std::process::Command {
        let mut tool = std::process::Command::new(&self.program);
        tool.args(&self.args)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .env("LC_ALL", "C")
            .env("PATH", search_path())
            .stdin(if self.input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(dir) = &self.dir {
            tool.current_dir(dir);
        }
        if self.own_group {
            tool.process_group(0);
        }
        tool
    }
}

/// The output as text, or the failure in words.
pub(crate) fn succeeded(command: String, output: &Output) -> Result<String, CommandError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(CommandError::Failed {
        command,
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
