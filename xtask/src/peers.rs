//! The real programs that the stand-ins are held to: built from their Go modules, once per version.
//!
//! `cargo xtask peers`, and `test` and `conformance` before they need them. Must stay true: what is
//! built is what `tools/peers` pins; nothing is built twice; a folder under its final name is complete.

#[path = "../../tools/peers/folder.rs"]
mod folder;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, bail};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/peers");

/// One program.
struct Peer {
    name: &'static str,
    /// Folder of the Go module below `tools/peers`.
    within: &'static str,
    /// Main package.
    package: &'static str,
    /// The module it is of, for the version.
    of: &'static str,
}

const KUBERNETES: &str = "k8s.io/kubernetes";
const IPAM: &str = "sigs.k8s.io/cluster-api-ipam-provider-in-cluster";
const CLUSTER_API: &str = "sigs.k8s.io/cluster-api";

const PEERS: [Peer; 5] = [
    Peer {
        name: "etcd",
        within: ".",
        package: "go.etcd.io/etcd/server/v3",
        of: "go.etcd.io/etcd/server/v3",
    },
    Peer {
        name: "kube-apiserver",
        within: ".",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        of: KUBERNETES,
    },
    Peer {
        name: "kube-controller-manager",
        within: ".",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        of: KUBERNETES,
    },
    Peer {
        name: "kubectl",
        within: ".",
        package: "k8s.io/kubernetes/cmd/kubectl",
        of: KUBERNETES,
    },
    Peer {
        name: "ipam-in-cluster",
        within: "ipam",
        package: IPAM,
        of: IPAM,
    },
];

/// Definitions and roles that the IPAM manager comes with: module, file, and name in the folder.
const IPAM_FILES: [(&str, &str); 6] = [
    (
        IPAM,
        "config/crd/bases/ipam.cluster.x-k8s.io_inclusterippools.yaml",
    ),
    (
        IPAM,
        "config/crd/bases/ipam.cluster.x-k8s.io_globalinclusterippools.yaml",
    ),
    (IPAM, "config/rbac/role.yaml"),
    (
        CLUSTER_API,
        "config/crd/bases/ipam.cluster.x-k8s.io_ipaddresses.yaml",
    ),
    (
        CLUSTER_API,
        "config/crd/bases/ipam.cluster.x-k8s.io_ipaddressclaims.yaml",
    ),
    (
        CLUSTER_API,
        "config/crd/bases/cluster.x-k8s.io_clusters.yaml",
    ),
];

/// The line where there is no Go: what is left out, and why.
pub const NO_GO: &str = "left out, not counted as passed: Go is not installed, and without it there is no real API server";

/// Whether there is Go to build with.
pub fn has_go() -> bool {
    Command::new("go").arg("version").output().is_ok()
}

/// Builds what is not built yet; the folder, or `None` where Go is absent.
pub fn build() -> Result<Option<PathBuf>> {
    if let Some(done) = built()? {
        return Ok(Some(done));
    }
    if !has_go() {
        return Ok(None);
    }
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let done = place()?;
    let lock = done.with_extension("lock");
    let lock =
        fs::File::create(&lock).with_context(|| format!("cannot make {}", lock.display()))?;
    lock.lock().context("cannot lock the cache")?;
    // Another process may have filled it while this one waited for the lock.
    if done.is_dir() {
        return Ok(Some(done));
    }
    let partial = done.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)
            .with_context(|| format!("cannot remove {}", partial.display()))?;
    }
    fill(&partial)?;
    fs::rename(&partial, &done).with_context(|| format!("cannot name {}", done.display()))?;
    Ok(Some(done))
}

/// The folder, if it has been built.
pub fn built() -> Result<Option<PathBuf>> {
    Ok(Some(place()?).filter(|folder| folder.is_dir()))
}

/// The kubectl that is built, or will be by the step before: wherever there is Go.
pub fn kubectl() -> Result<Option<PathBuf>> {
    if !has_go() {
        return Ok(None);
    }
    Ok(Some(place()?.join("kubectl")))
}

/// Where the folder is once it has been built.
fn place() -> Result<PathBuf> {
    Ok(cache()?.join(folder::name()))
}

fn cache() -> Result<PathBuf> {
    folder::cache().context("neither XDG_CACHE_HOME nor HOME is set")
}

/// What is in the folder, a line each.
pub fn list() -> Result<Vec<String>> {
    PEERS
        .iter()
        .map(|peer| Ok(format!("{} {}", peer.name, version(peer.within, peer.of)?)))
        .collect()
}

fn fill(partial: &Path) -> Result<()> {
    fs::create_dir_all(partial).with_context(|| format!("cannot make {}", partial.display()))?;
    let all = Instant::now();
    println!("building the real peers from their Go modules, once (minutes on two cores)");
    for peer in &PEERS {
        let version = version(peer.within, peer.of)?;
        println!("building {} {version}", peer.name);
        let start = Instant::now();
        let output = partial.join(peer.name);
        let mut build = go(peer.within);
        build
            .args(["build", "-ldflags"])
            .arg(linker_flags(&version))
            .arg("-o")
            .arg(&output)
            .arg(peer.package);
        let status = build.status().context("cannot run go")?;
        if !status.success() {
            bail!("{} does not build", peer.name);
        }
        println!("  {:.1} s", start.elapsed().as_secs_f64());
    }
    for (module, file) in IPAM_FILES {
        let from = source(module)?.join(file);
        let name = Path::new(file).file_name().unwrap_or_default();
        // The module cache is read-only, and so would be a plain copy.
        let text = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        fs::write(partial.join(name), text).context("cannot write a definition")?;
    }
    println!(
        "built in {:.1} s, kept in the cache",
        all.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Symbols are left out, and a program of Kubernetes knows its version only by the linker.
fn linker_flags(version: &str) -> String {
    let numbers: Vec<&str> = version.trim_start_matches('v').split('.').collect();
    let (major, minor) = match numbers[..] {
        [major, minor, ..] => (major, minor),
        _ => ("0", "0"),
    };
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
}

/// The version of a module, as its go.mod pins it.
fn version(within: &str, module: &str) -> Result<String> {
    let file = Path::new(ROOT).join(within).join("go.mod");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut words = text.lines().map(|line| line.split_whitespace());
    words
        .find_map(|mut line| (line.next() == Some(module)).then(|| line.next())?)
        .map(str::to_owned)
        .with_context(|| format!("{} pins no version of {module}", file.display()))
}

/// Where Go keeps a module's files.
fn source(module: &str) -> Result<PathBuf> {
    let output = go("ipam")
        .args(["list", "-m", "-f", "{{.Dir}}", module])
        .output()
        .context("cannot run go")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

fn go(within: &str) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(Path::new(ROOT).join(within))
        .env("GOWORK", "off");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_a_pinned_version_of_three_numbers() {
        for line in list().expect("versions") {
            let (_, version) = line.split_once(" v").expect("name and version");
            let numbers: Vec<u32> = version
                .split('.')
                .map(|n| n.parse().expect("a number"))
                .collect();
            assert_eq!(numbers.len(), 3, "{line}");
        }
    }

    #[test]
    fn every_staging_module_of_kubernetes_is_replaced_by_its_own_release() {
        let text = fs::read_to_string(Path::new(ROOT).join("go.mod")).expect("go.mod");
        let release = version(".", KUBERNETES).expect("a version");
        let staging = release.replacen("v1.", "v0.", 1);
        let replaced: Vec<&str> = text.lines().filter(|line| line.contains("=>")).collect();
        assert!(replaced.len() > 25, "{replaced:?}");
        for line in replaced {
            assert!(line.ends_with(&staging), "{line} is not {staging}");
        }
    }
}
