//! The keys that want a pass: an ordered set, so that a run is the same whatever the order of the
//! events that filled it.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// An ordered set of keys that want a pass, now or at a time.
#[derive(Debug)]
pub struct Wakes<K> {
    keys: Mutex<Keys<K>>,
    added: Notify,
}

#[derive(Debug)]
struct Keys<K> {
    now: BTreeSet<K>,
    later: BTreeMap<K, Instant>,
}

impl<K> Default for Wakes<K> {
    fn default() -> Self {
        Self {
            keys: Mutex::new(Keys {
                now: BTreeSet::new(),
                later: BTreeMap::new(),
            }),
            added: Notify::new(),
        }
    }
}

impl<K: Ord + Clone> Wakes<K> {
    /// The key wants a pass now.
    pub fn wake(&self, key: K) {
        self.keys().now.insert(key);
        self.added.notify_one();
    }

    /// The key wants a pass no later than this much from now.
    pub fn wake_after(&self, key: K, wait: Duration) {
        let due = Instant::now() + wait;
        let mut keys = self.keys();
        let slot = keys.later.entry(key).or_insert(due);
        *slot = due.min(*slot);
        drop(keys);
        self.added.notify_one();
    }

    /// The lowest key that is due; waits for one.
    pub async fn next(&self) -> K {
        loop {
            let added = self.added.notified();
            let due = {
                let mut keys = self.keys();
                keys.take_due(Instant::now());
                if let Some(key) = keys.now.pop_first() {
                    return key;
                }
                keys.later.values().min().copied()
            };
            match due {
                Some(due) => tokio::select! {
                    () = added => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => added.await,
            }
        }
    }

    fn keys(&self) -> MutexGuard<'_, Keys<K>> {
        // The set is whole between any two statements: a panic elsewhere does not spoil it.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> Keys<K> {
    fn take_due(&mut self, now: Instant) {
        let due: Vec<K> = self
            .later
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            self.later.remove(&key);
            self.now.insert(key);
        }
    }
}

/// Waits after failures of a key: doubling, with a share that depends on seed, key and count, so
/// that a run can be repeated.
#[derive(Debug)]
pub struct Backoff<K> {
    seed: u64,
    failures: BTreeMap<K, u32>,
}

/// Wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Doublings at the most: 100 ms to 25.6 s.
const DOUBLINGS_MAX: u32 = 8;

impl<K: Ord + Clone + Hash> Backoff<K> {
    /// None has failed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            failures: BTreeMap::new(),
        }
    }

    /// The key failed: wait this long.
    pub fn failed(&mut self, key: &K) -> Duration {
        let count = self.failures.entry(key.clone()).or_insert(0);
        let wait = FIRST_WAIT * 2u32.pow(*count);
        *count = (*count + 1).min(DOUBLINGS_MAX);
        let mut hasher = DefaultHasher::new();
        (self.seed, key, *count).hash(&mut hasher);
        // Between three quarters and all of it.
        let share = u32::try_from(hasher.finish() % 256).unwrap_or(0);
        wait / 1024 * (1024 - share)
    }

    /// The key did well: its next failure is a first one.
    pub fn did_well(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_lowest_key_comes_first_and_only_once() {
        let wakes = Wakes::default();
        for key in [3, 1, 2, 1] {
            wakes.wake(key);
        }
        assert_eq!(wakes.next().await, 1);
        assert_eq!(wakes.next().await, 2);
        assert_eq!(wakes.next().await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timed_key_comes_when_it_is_due_and_no_earlier() {
        let wakes = Wakes::default();
        let start = Instant::now();
        wakes.wake_after("rest", Duration::from_mins(1));
        wakes.wake_after("rest", Duration::from_secs(90));
        assert_eq!(wakes.next().await, "rest");
        assert_eq!(start.elapsed(), Duration::from_mins(1));
    }

    #[test]
    fn waits_double_up_to_a_bound_and_start_again_after_success() {
        let mut backoff = Backoff::new(7);
        let waits: Vec<_> = (0..12).map(|_| backoff.failed(&"a")).collect();
        assert!(waits[0] <= FIRST_WAIT && waits[0] >= FIRST_WAIT * 3 / 4);
        assert!(waits.iter().all(|wait| *wait <= FIRST_WAIT * 256));
        assert!(waits[11] >= FIRST_WAIT * 192);
        backoff.did_well(&"a");
        assert!(backoff.failed(&"a") <= FIRST_WAIT);
        let again: Vec<_> = {
            let mut backoff = Backoff::new(7);
            (0..12).map(|_| backoff.failed(&"a")).collect()
        };
        assert_eq!(waits, again, "the same seed gives the same waits");
    }
}
