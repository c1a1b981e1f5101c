//! The event queue, ordered by time; the seed breaks ties.
//!
//! Time does not go back, so a radix heap sorts events no further than needed ( R. K. Ahuja,
//! K. Mehlhorn, J. B. Orlin, R. E. Tarjan, "Faster algorithms for the shortest path problem", JACM
//! 37(2), 1990). A later event is in the bucket of the highest bit in which its time differs from
//! the current time, and only the first bucket is searched when its turn comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_types::Ticks;
use anabranch_types::random::mix;

/// Events in the order of their times. The seed, and not the order of insertion, decides the order of events with the
/// same time.
#[derive(Debug)]
pub struct Queue<E> {
    /// The time of the last event that was removed, or later.
    now: u64,
    /// The keys of events that are due by then: time, tie-break and slot, from the highest bits to the lowest. One
    /// number is compared faster than three.
    due: BinaryHeap<Reverse<u128>>,
    /// The keys of later events, by the highest bit in which their times differ from `now`.
    later: [Vec<u128>; BUCKETS],
    /// The buckets that are not empty, one bit each.
    filled: u64,
    /// Events by slot. Keys refer to slots, so that events do not move.
    events: Vec<Option<E>>,
    free: Vec<u32>,
    seed: u64,
    count: u64,
}

/// One bucket for each bit of a time.
const BUCKETS: usize = u64::BITS as usize;

impl<E> Queue<E> {
    /// An empty queue.
    pub fn new(seed: u64) -> Queue<E> {
        Queue {
            now: 0,
            due: BinaryHeap::new(),
            later: [const { Vec::new() }; BUCKETS],
            filled: 0,
            events: Vec::new(),
            free: Vec::new(),
            seed: mix(seed),
            count: 0,
        }
    }

    /// Inserts an event. An event in the past is due at once.
    pub fn push(&mut self, at: Ticks, event: E) {
        self.count += 1;
        let tie = mix(self.seed ^ self.count) as u32;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot as usize] = Some(event);
                slot
            }
            None => {
                self.events.push(Some(event));
                (self.events.len() - 1) as u32
            }
        };
        let key = u128::from(at.0) << 64 | u128::from(tie) << 32 | u128::from(slot);
        self.sort_in(key);
    }

    fn sort_in(&mut self, key: u128) {
        let at = time(key);
        if at <= self.now {
            self.due.push(Reverse(key));
            return;
        }
        let bucket = (at ^ self.now).ilog2() as usize;
        self.later[bucket].push(key);
        self.filled |= 1 << bucket;
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<(Ticks, E)> {
        let key = match self.due.pop() {
            Some(Reverse(key)) => key,
            None => self.advance()?,
        };
        let (at, slot) = (Ticks(time(key)), key as u32);
        self.free.push(slot);
        let event = self.events[slot as usize].take();
        Some((at, event.expect("a slot in the queue holds an event")))
    }

    /// Advances to the time of the next event, and removes it. All events of later buckets come after those of the
    /// first bucket, and stay where they are: `now` differs from their times in the same bit as before.
    fn advance(&mut self) -> Option<u128> {
        if self.filled == 0 {
            return None;
        }
        let first = self.filled.trailing_zeros() as usize;
        self.filled &= !(1 << first);
        if let [_] = self.later[first][..] {
            let key = self.later[first].pop()?;
            self.now = time(key);
            return Some(key);
        }
        let mut keys = std::mem::take(&mut self.later[first]);
        let next = keys.iter().min().copied()?;
        self.now = time(next);
        for key in keys.drain(..) {
            if key != next {
                self.sort_in(key);
            }
        }
        self.later[first] = keys;
        Some(next)
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events.len() - self.free.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn time(key: u128) -> u64 {
    (key >> 64) as u64
}

#[cfg(test)]
mod tests {
    use anabranch_types::random::SplitMix64;

    use super::*;

    #[test]
    fn events_come_by_time_and_the_seed_breaks_ties() {
        let order = |seed| {
            let mut queue = Queue::new(seed);
            for event in 0..8 {
                queue.push(Ticks(10 - event % 2), event);
            }
            let mut order = Vec::new();
            while let Some((at, event)) = queue.pop() {
                assert_eq!(at, Ticks(10 - event % 2));
                order.push(event);
            }
            order
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert!(order(3)[..4].iter().all(|event| event % 2 == 1));
    }

    /// The queue agrees with a heap, for insertions of early, late and past events, interleaved with removals.
    #[test]
    fn events_come_as_they_would_from_a_heap() {
        let mut random = SplitMix64::stream(7, "queue", 0);
        for spread in [1, 3, 1_000, 1 << 40] {
            let mut queue = Queue::new(5);
            let mut heap = BinaryHeap::new();
            let mut now = 0;
            for event in 0..5_000u64 {
                let at = match random.below(20) {
                    0 => now - random.below(now.min(spread) + 1),
                    1 => now,
                    _ => now + random.below(spread),
                };
                queue.push(Ticks(at), event);
                let tie = mix(mix(5) ^ (event + 1)) as u32;
                heap.push(Reverse((at, tie, event)));
                for _ in 0..random.below(3) {
                    let next = heap.pop().map(|Reverse((at, _, event))| (Ticks(at), event));
                    assert_eq!(queue.pop(), next);
                    now = next.map_or(now, |(at, _)| at.0.max(now));
                }
                assert_eq!(queue.len(), heap.len());
            }
            while let Some(Reverse((at, _, event))) = heap.pop() {
                assert_eq!(queue.pop(), Some((Ticks(at), event)));
            }
            assert!(queue.is_empty() && queue.pop().is_none());
        }
    }
}
