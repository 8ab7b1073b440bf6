//! Where the built peers are. `cargo xtask peers` fills the folder and the lab runs what is in it;
//! neither links the other, so both include this file.
//!
//! Must stay true: a folder under its final name is complete, and another set of versions or another
//! recipe has another name.

use std::{
    env,
    path::{Path, PathBuf},
};

use hmac_sha256::Hash;

/// Changed whenever what is built or copied changes although the versions do not.
const RECIPE: &str = "r1";

/// The modules as they are committed: every version, and the hash of every source.
const MODULES: [&str; 4] = [
    include_str!("go.mod"),
    include_str!("go.sum"),
    include_str!("ipam/go.mod"),
    include_str!("ipam/go.sum"),
];

/// The user's cache folder of causeway; `None` if neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")))?;
    Some(base.join("causeway"))
}

/// The folder's name within the cache.
pub fn name() -> String {
    let mut hash = Hash::new();
    for text in MODULES {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    let hash = hash.finalize();
    let bytes = hash.iter().take(6);
    let short = bytes.fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    format!("peers-{RECIPE}-{short:012x}")
}
