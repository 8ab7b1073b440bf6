//! Numbers that look random and that a seed fixes.
//!
//! Drawn by [`Clock`](crate::Clock) for uids and names, and by the lab where a long run draws what
//! it does next. Must stay true: the same seed gives the same numbers in every version, so that a
//! seed that was once printed can be run again.

/// The generator of that name: well mixed, and its whole state is one number.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Goes on elsewhere, as `bits` say.
    pub(crate) fn turn(&mut self, bits: u64) {
        self.0 ^= bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut numbers = SplitMix64::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| numbers.draw()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
            ]
        );
    }
}
