//! How often each operation of an application is called, from how often its pages are visited.

use fastrand::Rng;

use crate::workload::ClientPlacement;

/// What clients call, and how the data looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Calls of all kinds over few rows, so that they conflict often: for the simulator.
    Conflicts,
    /// The benchmark's mix and data. Clients use keys of their own server.
    Benchmark,
}

/// How many residues a key has in a ring (`slots` of its file): a key belongs to the server whose place is its residue
/// modulo the number of servers.
pub const SLOTS: i64 = 16;

/// A key from 1 to `keys` that belongs to the server of a client; any, if there is none.
pub(crate) fn own_key(rng: &mut Rng, place: ClientPlacement, keys: i64) -> i64 {
    let nodes = i64::from(place.nodes.max(1));
    let slots: Vec<i64> = (0..SLOTS)
        .filter(|slot| slot % nodes == i64::from(place.node))
        .collect();
    let slot = slots[rng.usize(0..slots.len())];
    // Keys with this residue: slot, slot + SLOTS, …, without 0.
    let first = if slot == 0 { SLOTS } else { slot };
    match (keys - first) / SLOTS {
        _ if keys < first => rng.i64(1..=keys),
        more => first + SLOTS * rng.i64(0..=more),
    }
}

/// The share of each operation among all calls.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationMix {
    /// By the index in [`Workload::procedures`](crate::Workload::procedures). They add up to 1.
    shares: Vec<f64>,
}

/// A page: how often it is visited relative to the others, and how often it calls which operations.
pub(crate) type Page = (f64, &'static [(usize, f64)]);

impl OperationMix {
    /// The mix of an application of so many operations whose pages are visited as often.
    pub(crate) fn of_pages(operations: usize, pages: &[Page]) -> OperationMix {
        let mut shares = vec![0.0; operations];
        for (visits, calls) in pages {
            for (operation, times) in *calls {
                shares[*operation] += visits * times;
            }
        }
        OperationMix { shares }.scaled()
    }

    fn scaled(mut self) -> OperationMix {
        let all: f64 = self.shares.iter().sum();
        for share in &mut self.shares {
            *share /= all;
        }
        self
    }

    /// The same mix with given shares of groups: within a group, operations keep their proportions. `group_of` gives
    /// the group of an operation, an index into `shares`.
    ///
    /// # Panics
    /// When a group is not in `shares`, or has a share and no operation.
    #[must_use]
    pub fn with_shares(&self, group_of: impl Fn(usize) -> usize, shares: &[f64]) -> OperationMix {
        let mut found = vec![0.0; shares.len()];
        for (operation, share) in self.shares.iter().enumerate() {
            found[group_of(operation)] += share;
        }
        for (wanted, found) in shares.iter().zip(&found) {
            assert!(*wanted == 0.0 || *found > 0.0, "a group has no operation");
        }
        let scaled = self.shares.iter().enumerate().map(|(operation, share)| {
            let group = group_of(operation);
            match *share > 0.0 {
                true => share * shares[group] / found[group],
                false => 0.0,
            }
        });
        let mix = OperationMix {
            shares: scaled.collect(),
        };
        mix.scaled()
    }

    /// The share of each operation, by its index; they add up to 1.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The share of the operations for which `counts` says so.
    pub fn share_of(&self, counts: impl Fn(usize) -> bool) -> f64 {
        let counted = self.shares.iter().enumerate();
        let counted = counted.filter(|(operation, _)| counts(*operation));
        counted.fold(0.0, |all, (_, share)| all + share)
    }

    /// The operation that a random number from 0 to 1 (excluded) stands for.
    pub fn draw(&self, number: f64) -> usize {
        let mut left = number;
        for (operation, share) in self.shares.iter().enumerate() {
            left -= share;
            if left < 0.0 {
                return operation;
            }
        }
        // Rounding: the last one that occurs.
        let last = self.shares.iter().rposition(|share| *share > 0.0);
        last.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_drawn_as_often_as_their_pages_call_them() {
        let pages: [Page; 2] = [(3.0, &[(0, 1.0), (2, 2.0)]), (1.0, &[(2, 1.0)])];
        let mix = OperationMix::of_pages(3, &pages);
        assert_eq!(mix.shares(), [0.3, 0.0, 0.7]);
        assert_eq!([0.0, 0.29, 0.31, 0.999].map(|n| mix.draw(n)), [0, 0, 2, 2]);
        assert_eq!(mix.draw(1.0), 2);
        assert_eq!(mix.share_of(|operation| operation == 2), 0.7);
    }

    #[test]
    fn own_keys_belong_to_the_server_of_the_client() {
        let mut rng = Rng::with_seed(1);
        for node in 0..5 {
            let place = ClientPlacement {
                client: 0,
                node,
                nodes: 5,
            };
            for _ in 0..200 {
                let key = own_key(&mut rng, place, 100);
                assert!((1..=100).contains(&key), "{key}");
                assert_eq!(key % SLOTS % 5, i64::from(node));
            }
            assert_eq!(own_key(&mut rng, place, 1).clamp(1, 1), 1);
        }
    }

    #[test]
    fn groups_get_their_shares_and_keep_proportions() {
        let pages: [Page; 1] = [(1.0, &[(0, 1.0), (1, 3.0), (2, 4.0)])];
        let mix = OperationMix::of_pages(3, &pages);
        let changed = mix.with_shares(|operation| usize::from(operation == 2), &[0.2, 0.8]);
        for (share, wanted) in changed.shares().iter().zip([0.05, 0.15, 0.8]) {
            assert!((share - wanted).abs() < 1e-12, "{changed:?}");
        }
    }
}
