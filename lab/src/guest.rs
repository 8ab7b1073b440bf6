//! A guest: a VM behind a hypervisor's switch or a pod behind a node's, as a namespace with
//! addresses. Pings, neighbours and transfers start from it.
//!
//! Called by scenarios; made by `Site::vm` and by the CNI part.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::{claim::ClaimError, command::CommandError, netns::Netns};

/// A guest cannot be made, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// No such hypervisor or node.
    #[error("this site has no machine named `{0}`")]
    NoMachine(String),
    /// No such pod.
    #[error("pod {namespace}/{name} is not plugged")]
    NoPod {
        /// Kubernetes namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// Its namespace.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A command that builds it.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// A VM to be made: a NIC on a hypervisor's bridge, its VLAN tag, and what the guest configures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Hypervisor, `pve1`.
    pub hypervisor: String,
    /// Name, unique in the site.
    pub name: String,
    /// VLAN number of the port.
    pub tag: u16,
    /// `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
    /// Address and prefix length.
    pub address: Ipv4Net,
    /// Default route.
    pub gateway: Option<Ipv4Addr>,
}

/// An interface of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nic {
    pub(crate) device: String,
    pub(crate) mac: String,
    pub(crate) address: Ipv4Addr,
}

/// A running guest, seen at one of its interfaces (`eth0` unless told otherwise).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    name: String,
    netns: Netns,
    nic: Nic,
    others: Vec<Nic>,
}

impl Guest {
    pub(crate) fn new(name: String, netns: Netns, nic: Nic, others: Vec<Nic>) -> Self {
        Self {
            name,
            netns,
            nic,
            others,
        }
    }

    /// The VM's name, or `<namespace>/<name>` of the pod.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The network namespace that it is.
    pub fn namespace(&self) -> &str {
        self.netns.name()
    }

    /// Address of the interface.
    pub fn address(&self) -> Ipv4Addr {
        self.nic.address
    }

    /// MAC address of the interface.
    pub fn mac(&self) -> &str {
        &self.nic.mac
    }

    /// Name of the interface inside the guest.
    pub fn device(&self) -> &str {
        &self.nic.device
    }

    /// The same guest seen at another of its interfaces.
    pub fn at(&self, device: &str) -> Option<Self> {
        let mut nics = self.others.clone();
        nics.push(self.nic.clone());
        let found = nics.iter().position(|nic| nic.device == device)?;
        let nic = nics.swap_remove(found);
        nics.sort_by(|a, b| a.device.cmp(&b.device));
        Some(Self::new(self.name.clone(), self.netns.clone(), nic, nics))
    }

    /// A command run inside the guest; its standard output.
    ///
    /// # Errors
    /// [`CommandError`] if it fails.
    pub async fn exec(&self, program: &str, args: &[&str]) -> Result<String, CommandError> {
        self.netns.exec(program).args(args).stdout().await
    }

    pub(crate) fn netns(&self) -> &Netns {
        &self.netns
    }
}

/// A device name of at most 15 characters that stands for `what`: the same each time.
pub(crate) fn device_for(kind: char, what: &str) -> String {
    // FNV-1a: short, well spread, and the same in every build.
    let hash = what.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{kind}{:013x}", hash >> 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_fit_the_kernel_and_differ() {
        let one = device_for('p', "db.tenant-example");
        let two = device_for('p', "db.tenant-example.subnet-1a2b3c4d.tenant-example.ovn");
        assert!(one.len() <= 15 && two.len() <= 15);
        assert_ne!(one, two);
        assert_eq!(one, device_for('p', "db.tenant-example"));
    }
}
