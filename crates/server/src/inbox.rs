//! The queue on which a thread sleeps.
//!
//! Many threads put items in; one takes all of them out at once. An item wakes the owner only if it
//! sleeps, so that a busy thread is never interrupted and takes its input in batches. The owner sleeps on
//! the queue itself, or, if it has sockets as well, in its own poll: then a waker that it has set wakes it.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A queue with one reader and no limit of its own. The limits on calls in flight
/// ([`crate::ClusterOptions::calls_max`]) and on messages of a call bound its length.
pub struct Inbox<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    waker: OnceLock<Waker>,
}

/// Wakes an owner that sleeps elsewhere than on the queue.
type Waker = Box<dyn Fn() + Send + Sync>;

impl<T> std::fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State<T> {
    items: Vec<T>,
    sleeping: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox {
            state: Mutex::new(State {
                items: Vec::new(),
                sleeping: false,
            }),
            filled: Condvar::new(),
            waker: OnceLock::new(),
        }
    }
}

impl<T> Inbox<T> {
    /// Wakes the owner by this function from now on: it sleeps between [`Inbox::fall_asleep`] and
    /// [`Inbox::wake_up`], and no longer in [`Inbox::wait`]. Only the first waker counts.
    pub fn wake_by(&self, waker: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(waker));
    }

    fn wake(&self) {
        match self.waker.get() {
            Some(waker) => waker(),
            None => self.filled.notify_one(),
        }
    }

    /// Announces that the owner is about to sleep elsewhere, if nothing is here. Returns whether it may: from
    /// then on, the next item wakes it.
    pub fn fall_asleep(&self) -> bool {
        let mut state = self.lock();
        state.sleeping = state.items.is_empty();
        state.sleeping
    }

    /// Takes everything out into `taken` (which has to be empty) after the owner has slept elsewhere.
    pub fn wake_up(&self, taken: &mut Vec<T>) {
        debug_assert!(taken.is_empty());
        let mut state = self.lock();
        state.sleeping = false;
        std::mem::swap(&mut state.items, taken);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A thread that panicked while it pushed to a Vec has left a valid Vec.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one item in.
    pub fn put(&self, item: T) {
        let mut state = self.lock();
        state.items.push(item);
        // One waking is enough: the owner takes everything.
        let wake = std::mem::take(&mut state.sleeping);
        drop(state);
        if wake {
            self.wake();
        }
    }

    /// Puts several items in at once, leaving `items` empty.
    pub fn put_all(&self, items: &mut Vec<T>) {
        if items.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.items.append(items);
        // One waking is enough: the owner takes everything.
        let wake = std::mem::take(&mut state.sleeping);
        drop(state);
        if wake {
            self.wake();
        }
    }

    /// Takes everything out into `taken` (which has to be empty), without waiting.
    pub fn take(&self, taken: &mut Vec<T>) {
        debug_assert!(taken.is_empty());
        std::mem::swap(&mut self.lock().items, taken);
    }

    /// Takes everything out, sleeping until there is something or `until` has come.
    pub fn wait(&self, until: Option<Instant>, taken: &mut Vec<T>) {
        debug_assert!(taken.is_empty());
        let mut state = self.lock();
        while state.items.is_empty() {
            state.sleeping = true;
            state = match until {
                None => self
                    .filled
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left == Duration::ZERO {
                        break;
                    }
                    let woken = self.filled.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.sleeping = false;
        std::mem::swap(&mut state.items, taken);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn nothing_is_lost_and_each_sender_keeps_its_order() {
        let inbox = Arc::new(Inbox::default());
        let senders: Vec<_> = (0..4u64)
            .map(|sender| {
                let inbox = Arc::clone(&inbox);
                std::thread::spawn(move || {
                    for number in 0..10_000u64 {
                        inbox.put((sender, number));
                    }
                })
            })
            .collect();
        let mut next = [0u64; 4];
        let mut taken = Vec::new();
        while next.iter().sum::<u64>() < 40_000 {
            inbox.wait(None, &mut taken);
            for (sender, number) in taken.drain(..) {
                assert_eq!(number, next[sender as usize]);
                next[sender as usize] += 1;
            }
        }
        for sender in senders {
            sender.join().expect("a sender does not panic");
        }
    }

    #[test]
    fn an_owner_that_sleeps_elsewhere_is_woken_once_for_what_comes() {
        let inbox: Inbox<u8> = Inbox::default();
        let woken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = Arc::clone(&woken);
        inbox.wake_by(move || {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let count = || woken.load(std::sync::atomic::Ordering::Relaxed);
        inbox.put(1);
        assert_eq!(count(), 0, "it does not sleep yet");
        assert!(!inbox.fall_asleep(), "something is here");
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert!(inbox.fall_asleep());
        inbox.put(2);
        inbox.put_all(&mut vec![3, 4]);
        assert_eq!(count(), 1);
        taken.clear();
        inbox.wake_up(&mut taken);
        assert_eq!(taken, [2, 3, 4]);
        inbox.put(5);
        assert_eq!(count(), 1, "it is awake");
    }

    #[test]
    fn waiting_ends_at_its_time() {
        let inbox: Inbox<u8> = Inbox::default();
        let mut taken = Vec::new();
        inbox.wait(Some(Instant::now() + Duration::from_millis(5)), &mut taken);
        assert!(taken.is_empty());
        inbox.put(1);
        inbox.wait(Some(Instant::now()), &mut taken);
        assert_eq!(taken, [1]);
    }
}
