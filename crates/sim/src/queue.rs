//! The event queue: by time, ties broken by the seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_types::Ticks;
use anabranch_types::random::mix;

/// Events in the order of their times. What is due at the same time comes in an order that the
/// seed gives, not in the order in which it was put in.
#[derive(Debug)]
pub struct Queue<E> {
    /// Of each event its time, its tie-break and its place, from the highest bits to the lowest: one
    /// number is compared faster than three.
    heap: BinaryHeap<Reverse<u128>>,
    /// Events by place; the heap holds places alone, so that it moves little.
    events: Vec<Option<E>>,
    free: Vec<u32>,
    seed: u64,
    count: u64,
}

impl<E> Queue<E> {
    /// An empty queue.
    pub fn new(seed: u64) -> Queue<E> {
        Queue {
            heap: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            seed: mix(seed),
            count: 0,
        }
    }

    /// Puts an event in.
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
        self.heap.push(Reverse(key));
    }

    /// Takes the next event out.
    pub fn pop(&mut self) -> Option<(Ticks, E)> {
        let Reverse(key) = self.heap.pop()?;
        let (at, place) = (Ticks((key >> 64) as u64), key as u32);
        self.free.push(place);
        let event = self.events[place as usize].take();
        Some((at, event.expect("a place in the heap holds an event")))
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
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
}
