//! One program of the cluster: started with the claim's mark, its output in a log.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tokio::process::Child;

use super::ClusterError;
use crate::{claim::Claim, processes::MARK};

/// Lines of a log that an error shows.
const SHOWN: usize = 12;

/// It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

impl Program {
    pub(super) fn start(
        claim: &Claim,
        name: &'static str,
        path: &Path,
        arguments: &[String],
        log: PathBuf,
    ) -> Result<Self, ClusterError> {
        let file = fs::File::create(&log).map_err(ClusterError::file(&log))?;
        let errors = file.try_clone().map_err(ClusterError::file(&log))?;
        let mut command = Command::new(path);
        command
            .args(arguments)
            .current_dir(claim.dir())
            .env(MARK, claim.name())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors);
        let child = claim.spawn(command)?;
        Ok(Self { name, log, child })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// It still runs, or how it ended.
    pub(super) fn check(&mut self) -> Result<(), ClusterError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(status.to_string())),
            Err(error) => Err(self.ended(error.to_string())),
        }
    }

    fn ended(&self, status: String) -> ClusterError {
        ClusterError::Ended {
            program: self.name,
            status,
            log: self.log_end(),
        }
    }

    /// Its last lines.
    pub(super) fn log_end(&self) -> String {
        let text = match fs::read(&self.log) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => return error.to_string(),
        };
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }
}
