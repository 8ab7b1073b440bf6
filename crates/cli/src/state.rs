//! The option `--state`, and which directory it means if it is not given.
//!
//! Used by `up`, `demo --keep` and `down`, which must mean the same.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Context;
use causeway_lab::State;

/// Which state.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// Directory of what is kept: objects and kubeconfig [default: $XDG_STATE_HOME/causeway, or
    /// ~/.local/state/causeway].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl Place {
    /// The directory, whether it exists or not.
    pub fn find(&self) -> anyhow::Result<State> {
        find(self.state.as_deref())
    }
}

/// The directory of the option's value, whether it exists or not.
pub fn find(given: Option<&Path>) -> anyhow::Result<State> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => usual().context("no home directory: say where with --state")?,
    };
    Ok(State::at(&path)?)
}

/// As the XDG Base Directory Specification has it: a relative path counts as none.
fn usual() -> Option<PathBuf> {
    let absolute = |key| {
        let path = PathBuf::from(env::var_os(key)?);
        path.is_absolute().then_some(path)
    };
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let base = absolute("XDG_STATE_HOME").or_else(home)?;
    Some(base.join("causeway"))
}
