//! Long repetitions of what must never go wrong, with the built command.
//!
//! Run by `cargo xtask soak NAME`. Must stay true: the same seed draws the same points.

mod picture;
pub mod sigkill;

/// Numbers that look random and are the same for the same seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The first is next.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// At least 0, below 1.
    pub fn next_share(&mut self) -> f64 {
        let bits = u32::try_from(self.next_number() >> 32).unwrap_or_default();
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_shares_all_over_the_range() {
        let draw = |seed| {
            let mut draws = Draws::new(seed);
            (0..100).map(|_| draws.next_share()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for tenth in 0..10 {
            let from = f64::from(tenth) / 10.0;
            let inside = draw(7).iter().any(|it| (from..from + 0.1).contains(it));
            assert!(inside, "{from}");
        }
    }
}
