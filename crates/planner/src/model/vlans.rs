//! 802.1Q VLAN numbers and the ranges that an administrator gives a zone.

use std::{fmt, num::ParseIntError};

use serde::{Deserialize, Serialize};

/// A VLAN number that a zone may hand out: 2 to 4094. 1 is the native VLAN of most switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Vid(u16);

impl TryFrom<u16> for Vid {
    type Error = VidError;

    fn try_from(number: u16) -> Result<Self, VidError> {
        match number {
            2..=4094 => Ok(Self(number)),
            _ => Err(VidError::Outside { number }),
        }
    }
}

impl From<Vid> for u16 {
    fn from(vid: Vid) -> Self {
        vid.0
    }
}

impl fmt::Display for Vid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Not a VLAN number or not a range of them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum VidError {
    /// A number outside 2 to 4094.
    #[error("VLAN {number} is outside 2-4094")]
    Outside {
        /// The number.
        number: u16,
    },
    /// No number and no `first-last`.
    #[error("{text:?} is neither a VLAN number nor a range such as \"200-299\"")]
    Unreadable {
        /// The text.
        text: String,
        /// Why.
        #[source]
        source: ParseIntError,
    },
    /// A range whose end lies before its start.
    #[error("VLAN range {text:?} ends before it starts")]
    Reversed {
        /// The text.
        text: String,
    },
}

/// A set of VLAN numbers, written as ranges: `["200-299", "310"]`.
///
/// One bit a number: a pass asks for whole sets again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VidRanges([u64; WORDS]);

const WORDS: usize = 4096 / 64;

impl Default for VidRanges {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl VidRanges {
    /// One entry of a range list: `"310"` or `"200-299"`.
    ///
    /// # Errors
    /// [`VidError`] with the entry.
    pub fn parse_entry(text: &str) -> Result<Self, VidError> {
        let number = |part: &str| {
            part.parse::<u16>()
                .map_err(|source| VidError::Unreadable {
                    text: text.to_owned(),
                    source,
                })
                .and_then(Vid::try_from)
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(text)?, number(text)?),
        };
        if last < first {
            return Err(VidError::Reversed {
                text: text.to_owned(),
            });
        }
        let mut entry = Self::default();
        for number in first.0..=last.0 {
            entry.0[usize::from(number / 64)] |= 1 << (number % 64);
        }
        Ok(entry)
    }

    /// All numbers of both.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine |= theirs;
        }
    }

    /// Whether the number is in the set.
    pub fn contains(&self, vid: Vid) -> bool {
        self.0[usize::from(vid.0 / 64)] & (1 << (vid.0 % 64)) != 0
    }

    /// The numbers, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Vid> + '_ {
        (0..).step_by(64).zip(self.0).flat_map(|(start, word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = u16::try_from(left.trailing_zeros()).ok()?;
                left &= left.checked_sub(1)?;
                Some(Vid(start + bit))
            })
        })
    }

    /// The lowest number that both have.
    pub fn first_shared(&self, other: &Self) -> Option<Vid> {
        let mut shared = self.clone();
        for (mine, theirs) in shared.0.iter_mut().zip(other.0) {
            *mine &= theirs;
        }
        shared.iter().next()
    }

    /// The numbers of `self` that `other` has not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        for (mine, theirs) in rest.0.iter_mut().zip(other.0) {
            *mine &= !theirs;
        }
        rest
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}
