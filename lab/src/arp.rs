//! What a guest knows of its neighbours, and who answers when it asks.
//!
//! Called through `Guest` by scenarios about gateways.

use std::net::Ipv4Addr;

use serde_json::Value;

use crate::{
    command::{CommandError, succeeded},
    guest::Guest,
};

/// The neighbour table cannot be read or nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub enum ArpError {
    /// `ip` or `arping` failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// `ip` wrote something else than expected.
    #[error("cannot read the neighbours that ip listed")]
    Unreadable(#[from] serde_json::Error),
}

/// An entry of a guest's neighbour table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// `aa:bb:cc:dd:ee:ff`, if it was ever resolved.
    pub mac: Option<String>,
    /// The kernel's word: `REACHABLE`, `STALE`, `FAILED`, …
    pub state: String,
}

impl Guest {
    /// The entry for `ip`, if there is one.
    ///
    /// # Errors
    /// [`ArpError`] if the table cannot be read.
    pub async fn neighbour(&self, ip: Ipv4Addr) -> Result<Option<Neighbour>, ArpError> {
        let ip = ip.to_string();
        let listed = self
            .netns()
            .ip_command(&["-json", "neigh", "show", "to", &ip])
            .stdout()
            .await?;
        let entries: Vec<Value> = match listed.trim() {
            "" => Vec::new(),
            json => serde_json::from_str(json)?,
        };
        Ok(entries.first().map(|entry| Neighbour {
            mac: entry["lladdr"].as_str().map(str::to_owned),
            state: entry["state"][0].as_str().unwrap_or_default().to_owned(),
        }))
    }

    /// Forgets all neighbours, so that the next packet asks again.
    ///
    /// # Errors
    /// [`ArpError`] if the table cannot be changed.
    pub async fn flush_neighbours(&self) -> Result<(), ArpError> {
        self.netns()
            .ip_command(&["neigh", "flush", "all"])
            .stdout()
            .await?;
        Ok(())
    }

    /// Asks once for `ip` and returns the MAC address of who answers within a second.
    ///
    /// # Errors
    /// [`ArpError`] if it cannot be asked; no answer is no error.
    pub async fn arp_probe(&self, ip: Ipv4Addr) -> Result<Option<String>, ArpError> {
        let ip = ip.to_string();
        let run = self.netns().exec("arping");
        let run = run.args(["-f", "-c", "1", "-w", "1", "-I", self.device(), &ip]);
        let words = run.words();
        let output = run.output().await?;
        let answer = answered(&String::from_utf8_lossy(&output.stdout));
        if answer.is_none() && output.status.code() != Some(1) {
            succeeded(words, &output)?;
        }
        Ok(answer)
    }
}

/// `Unicast reply from 172.20.10.1 [2E:8F:DB:F3:0B:51]  0.812ms`
fn answered(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains(" reply from "))?;
    let (_, rest) = line.split_once('[')?;
    let (mac, _) = rest.split_once(']')?;
    Some(mac.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_gives_the_address() {
        let text = "ARPING 172.20.10.1 from 172.20.10.70 eth0\n\
                    Unicast reply from 172.20.10.1 [2E:8F:DB:F3:0B:51]  0.812ms\n\
                    Sent 1 probes (1 broadcast(s))\nReceived 1 response(s)\n";
        assert_eq!(answered(text).as_deref(), Some("2e:8f:db:f3:0b:51"));
        assert_eq!(answered("Sent 1 probes (1 broadcast(s))\n"), None);
    }
}
