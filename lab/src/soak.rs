//! Long repetitions of what must never go wrong, with the built command.
//!
//! Run by `cargo xtask soak NAME`. Must stay true: the same seed draws the same points.

mod picture;
pub mod sigkill;

use causeway_kubeapi::SplitMix64;

/// Shares that look random and are the same for the same seed.
#[derive(Clone, Debug)]
pub struct Draws(SplitMix64);

impl Draws {
    /// The first is next.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next: at least 0, below 1.
    pub fn next_share(&mut self) -> f64 {
        let bits = u32::try_from(self.0.draw() >> 32).unwrap_or_default();
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
