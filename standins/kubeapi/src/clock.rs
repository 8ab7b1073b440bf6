//! Where a stand-in's times, uids and generated names come from.
//!
//! Given by whoever makes the [`KubeApi`](crate::KubeApi): tests give one that stands still until
//! it is moved, the demo gives the machine's. Must stay true: two stand-ins made with equal clocks
//! and asked the same questions in the same order give the same answers, byte for byte.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use crate::SplitMix64;

/// The letters of generated names: no vowels, so that no words come out, as in
/// `k8s.io/apimachinery/pkg/util/rand`.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many letters follow a `generateName`.
const NAME_SUFFIX: usize = 5;

/// Time, uids and name suffixes. Clones share one state.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    time: Time,
    numbers: SplitMix64,
}

#[derive(Debug)]
enum Time {
    Machine,
    Given(Timestamp),
}

impl Clock {
    /// The machine's time; uids and names differ from run to run.
    pub fn machine() -> Self {
        let now = Timestamp::now();
        let seed = now.as_nanosecond().unsigned_abs() ^ (u128::from(std::process::id()) << 64);
        // Folding both halves keeps what differs between two processes started together.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the halves are folded on purpose"
        )]
        let seed = (seed as u64) ^ ((seed >> 64) as u64).rotate_left(32);
        Self::with(Time::Machine, seed)
    }

    /// A time that stands still until [`advance`](Self::advance) moves it; uids and names follow
    /// from `seed` alone.
    pub fn given(start: Timestamp, seed: u64) -> Self {
        Self::with(Time::Given(start), seed)
    }

    fn with(time: Time, seed: u64) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                time,
                numbers: SplitMix64::new(seed),
            })),
        }
    }

    /// Moves a given time forward. The machine's time moves by itself: then nothing happens.
    pub fn advance(&self, by: Duration) {
        if let Time::Given(time) = &mut self.lock().time
            && let Ok(later) = time.checked_add(by)
        {
            *time = later;
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        match self.lock().time {
            Time::Machine => Timestamp::now(),
            Time::Given(time) => time,
        }
    }

    /// Now as API objects say it: RFC 3339 in UTC, whole seconds.
    pub(crate) fn stamp(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// A fresh uid in the form of a version 4 UUID.
    pub(crate) fn uid(&self) -> String {
        let numbers = &mut self.lock().numbers;
        let (high, low) = (numbers.draw(), numbers.draw());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            ((low >> 48) & 0x3fff) | 0x8000,
            low & 0xffff_ffff_ffff,
        )
    }

    /// The letters that complete a `generateName`.
    pub(crate) fn name_suffix(&self) -> String {
        let mut bits = self.lock().numbers.draw();
        (0..NAME_SUFFIX)
            .map(|_| {
                let letters = NAME_LETTERS.len() as u64;
                let letter = usize::try_from(bits % letters).unwrap_or_default();
                bits /= letters;
                char::from(NAME_LETTERS[letter])
            })
            .collect()
    }

    /// Leaves out what an earlier run with the same seed has drawn up to a revision.
    pub(crate) fn skip(&self, revision: u64) {
        if revision != 0 {
            let numbers = &mut self.lock().numbers;
            numbers.turn(revision.rotate_left(32));
            numbers.draw();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_clocks_give_equal_uids_and_names_and_never_one_twice() {
        let (one, two) = (
            Clock::given(Timestamp::UNIX_EPOCH, 7),
            Clock::given(Timestamp::UNIX_EPOCH, 7),
        );
        let uids: Vec<_> = (0..1000).map(|_| one.uid()).collect();
        assert_eq!(uids, (0..1000).map(|_| two.uid()).collect::<Vec<_>>());
        let distinct: std::collections::BTreeSet<_> = uids.iter().collect();
        assert_eq!(distinct.len(), uids.len());
        assert_eq!(one.name_suffix(), two.name_suffix());
        assert_eq!(one.name_suffix().len(), NAME_SUFFIX);
    }

    #[test]
    fn a_uid_has_the_form_of_a_version_4_uuid() {
        let uid = Clock::given(Timestamp::UNIX_EPOCH, 1).uid();
        let lengths: Vec<_> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
        assert_eq!(uid.as_bytes()[14], b'4', "{uid}");
        assert!(b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
    }

    #[test]
    fn a_given_time_moves_only_when_it_is_moved() {
        let clock = Clock::given(Timestamp::UNIX_EPOCH, 1);
        assert_eq!(clock.stamp(), "1970-01-01T00:00:00Z");
        clock.clone().advance(Duration::from_secs(61));
        assert_eq!(clock.stamp(), "1970-01-01T00:01:01Z");
    }
}
