//! The programs that `cargo xtask peers` has built.

#[path = "../../../tools/peers/folder.rs"]
mod built;

use std::path::PathBuf;

/// The peers are not built, or for other versions than this lab was built with.
#[derive(Debug, thiserror::Error)]
#[error("the real programs are not built: run `cargo xtask peers` (needs Go); looked in {}", .0.display())]
pub struct PeersMissing(PathBuf);

/// The folder of the built programs.
#[derive(Clone, Debug)]
pub struct Peers(PathBuf);

impl Peers {
    /// Those of the versions that this lab was built with.
    ///
    /// # Errors
    /// [`PeersMissing`].
    pub fn find() -> Result<Self, PeersMissing> {
        let folder = built::cache().unwrap_or_default().join(built::name());
        if folder.is_dir() {
            Ok(Self(folder))
        } else {
            Err(PeersMissing(folder))
        }
    }

    /// kubectl, for whoever has none.
    pub fn kubectl(&self) -> PathBuf {
        self.program("kubectl")
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Definitions and role of the IPAM manager, as its modules have them.
    pub(super) fn documents(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "yaml") {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }
}
