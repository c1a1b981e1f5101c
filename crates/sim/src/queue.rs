//! The event queue: by time, ties broken by the seed.
//!
//! Time does not go back, so events can be sorted no further than needed (a radix heap: R. K. Ahuja,
//! K. Mehlhorn, J. B. Orlin, R. E. Tarjan, "Faster algorithms for the shortest path problem", JACM
//! 37(2), 1990): what comes later lies in a bucket by the highest bit in which its time differs
//! from now, and only the first bucket is looked through when its turn comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_types::Ticks;
use anabranch_types::random::mix;

/// Events in the order of their times. What is due at the same time comes in an order that the
/// seed gives, not in the order in which it was put in.
#[derive(Debug)]
pub struct Queue<E> {
    /// The time of the event that was taken out last, or later.
    now: u64,
    /// Of each event that is due by then its time, its tie-break and its place, from the highest
    /// bits to the lowest: one number is compared faster than three.
    due: BinaryHeap<Reverse<u128>>,
    /// The same of later events, by the highest bit in which their times differ from `now`.
    later: [Vec<u128>; BUCKETS],
    /// Which buckets hold some: a bit for each.
    filled: u64,
    /// Events by place; all else holds places alone, so that it moves little.
    events: Vec<Option<E>>,
    free: Vec<u32>,
    seed: u64,
    count: u64,
}

/// One for each bit of a time.
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

    /// Puts an event in. One whose time is over is due at once.
    pub fn push(&mut self, at: Ticks, event: E) {
        self.count += 1;
        let tie = mix(self.seed ^ self.count) as u32;
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = Some(event);
                place
            }
            None => {
                self.events.push(Some(event));
                (self.events.len() - 1) as u32
            }
        };
        let key = u128::from(at.0) << 64 | u128::from(tie) << 32 | u128::from(place);
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

    /// Takes the next event out.
    pub fn pop(&mut self) -> Option<(Ticks, E)> {
        let key = match self.due.pop() {
            Some(Reverse(key)) => key,
            None => self.go_on()?,
        };
        let (at, place) = (Ticks(time(key)), key as u32);
        self.free.push(place);
        let event = self.events[place as usize].take();
        Some((at, event.expect("a place in the queue holds an event")))
    }

    /// Goes on to the time of the next event, and takes it out. All buckets after the first hold what
    /// is later than all that is in the first, and stay as they are: from them `now` differs in the
    /// same bit as before.
    fn go_on(&mut self) -> Option<u128> {
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

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.events.len() - self.free.len()
    }

    /// Whether none waits.
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
    fn events_come_by_time_and_ties_as_the_seed_says() {
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

    /// Like a heap: whatever is put in, early, late or too late, and however it is taken out between.
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
