//! MAC addresses: drawn once for each port, locally administered.
//!
//! Asked by the Subnet and Pod passes. Must stay true: a port that is made again gets another one.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Draws MAC addresses.
#[derive(Debug)]
pub(crate) struct Macs {
    seed: u64,
    drawn: u64,
}

impl Macs {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// One for this port.
    pub(crate) fn draw(&mut self, port: &str) -> String {
        self.drawn += 1;
        let mut hasher = DefaultHasher::new();
        (self.seed, self.drawn, port).hash(&mut hasher);
        let [first, rest @ ..] = hasher.finish().to_be_bytes();
        let first = (first | 0x02) & 0xfe;
        let rest = rest.iter().take(5).map(|byte| format!(":{byte:02x}"));
        rest.fold(format!("{first:02x}"), |mac, byte| mac + &byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_made_again_gets_another_mac_that_is_local_and_unicast() {
        let mut macs = Macs::new(1);
        let (first, second) = (macs.draw("a"), macs.draw("a"));
        assert_ne!(first, second);
        for mac in [first, second] {
            let bytes: Vec<_> = mac
                .split(':')
                .map(|byte| u8::from_str_radix(byte, 16))
                .collect();
            assert_eq!(bytes.len(), 6, "{mac}");
            assert_eq!(
                bytes[0].as_ref().expect("hexadecimal") & 0x03,
                0x02,
                "{mac}"
            );
        }
    }
}
