//! The delivery queue (the paper's *DQueue*): the batches that a site knows, their conflicts, and their delivery.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use anabranch_types::Ticks;

use crate::order::conflict::ConflictIndex;
use crate::order::{Batch, BatchId, Delivered, Delivery, Payload, Prefix, SiteId};

use super::entry::{Decision, Dependencies, Entry, Order, Pending, Position, Slot, Status};

/// The batches that a site knows.
#[derive(Clone, Debug)]
pub(super) struct DeliveryQueue<P> {
    sites: u8,
    pub(super) entries: BTreeMap<BatchId, Entry<P>>,
    /// Entries that are not STABLE.
    pub(super) undecided: BTreeSet<BatchId>,
    /// Batches with payloads that are not no-ops.
    index: ConflictIndex<P>,
    /// What this site has delivered.
    pub(super) delivered: Delivered,
    /// No entry is kept for these, and all are delivered here.
    pub(super) pruned: Prefix,
    /// The part of `pruned` that another site may not have delivered.
    pub(super) discarded: Prefix,
    /// The highest position of a pruned batch: every later answer is above it.
    pub(super) floor: Position,
    /// STABLE batches that wait, by a dependency that is not delivered.
    waiting: BTreeMap<BatchId, Vec<BatchId>>,
}

/// Without what follows from the rest.
impl<P: Hash> Hash for DeliveryQueue<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.hash(state);
        self.delivered.hash(state);
        (&self.pruned, &self.discarded, self.floor).hash(state);
    }
}

impl<P: Payload> DeliveryQueue<P> {
    pub(super) fn new(sites: u8) -> DeliveryQueue<P> {
        DeliveryQueue {
            sites,
            entries: BTreeMap::new(),
            undecided: BTreeSet::new(),
            index: ConflictIndex::default(),
            delivered: Delivered::none(sites),
            pruned: Prefix::empty(sites),
            discarded: Prefix::empty(sites),
            floor: Position::default(),
            waiting: BTreeMap::new(),
        }
    }

    /// The entry of a batch, which is made if there is none. The batch is not pruned.
    pub(super) fn entry(&mut self, id: BatchId, now: Ticks) -> &mut Entry<P> {
        debug_assert!(!self.pruned.contains(id), "{id} is pruned");
        self.entries.entry(id).or_insert_with(|| {
            self.undecided.insert(id);
            Entry::unknown(now)
        })
    }

    /// The entry of a batch, if it has one.
    pub(super) fn get(&self, id: BatchId) -> Option<&Entry<P>> {
        self.entries.get(&id)
    }

    /// Keeps the payloads of a batch that has an entry.
    pub(super) fn set_batch(&mut self, id: BatchId, batch: &Batch<P>) {
        let entry = self.entries.get_mut(&id).expect("the batch has an entry");
        if entry.batch.is_none() {
            entry.batch = Some(batch.clone());
            self.index.insert(id, batch);
        }
    }

    /// Those of the batches that may precede another one at this position, as far as this site knows.
    fn preceding(
        &self,
        (position, id): Order,
        conflicts: impl IntoIterator<Item = BatchId>,
    ) -> Dependencies {
        let precedes = |other: &BatchId| {
            let positions = self.entries.get(other).and_then(Entry::positions);
            positions.is_some_and(|(least, _)| (least, *other) < (position, id))
        };
        Dependencies {
            ids: conflicts.into_iter().filter(precedes).collect(),
            discarded: self.discarded.clone(),
        }
    }

    /// What may precede a new batch at this position.
    pub(super) fn before_new(
        &self,
        id: BatchId,
        batch: &Batch<P>,
        position: Position,
    ) -> Dependencies {
        self.preceding((position, id), self.index.find(batch))
    }

    /// What may precede a batch with payloads here at this position.
    pub(super) fn before(&self, id: BatchId, position: Position) -> Dependencies {
        self.preceding((position, id), self.index.conflicts(id))
    }

    /// The answer to a proposal of a batch with payloads here: the least position of the leader that is not below the
    /// proposed one and above all conflicting batches known here or pruned; and what precedes it.
    pub(super) fn answer(&self, id: BatchId, proposed: Slot) -> Pending {
        let positions = |other| self.entries.get(&other).and_then(Entry::positions);
        let known = self.index.conflicts(id).filter_map(positions);
        let known = known.map(|(_, highest)| highest).max();
        let above = self.floor.max(known.unwrap_or_default());
        let position = proposed.position.max(above.next_of(id.site, self.sites));
        let mut dependencies = proposed.dependencies.clone();
        dependencies.merge(&self.before(id, position));
        Pending {
            proposed,
            answered: Slot {
                position,
                dependencies,
            },
        }
    }

    /// Makes a batch STABLE. Adds what can be delivered now to `deliveries`.
    pub(super) fn make_stable(
        &mut self,
        id: BatchId,
        decision: Decision,
        now: Ticks,
        deliveries: &mut Vec<Delivery<P>>,
    ) {
        let is_no_op = decision == Decision::NoOp;
        let dependencies: Vec<BatchId> = match &decision {
            Decision::Deliver(slot) => slot.dependencies.ids.iter().copied().collect(),
            Decision::NoOp => Vec::new(),
        };
        for dependency in dependencies {
            // Its payloads may be lost: only a recovery ends the wait for it.
            if !self.delivered.contains(dependency) {
                self.entry(dependency, now);
            }
        }
        let entry = self.entries.get_mut(&id).expect("the batch has an entry");
        assert!(entry.stable().is_none(), "{id} is decided once");
        entry.status = Status::Stable { decision };
        if is_no_op && entry.batch.take().is_some() {
            self.index.remove(id);
        }
        self.undecided.remove(&id);
        if is_no_op {
            self.delivered.insert(id);
        }
        let mut due = BTreeSet::new();
        self.wake([id], &mut due);
        let waiting = self.waiting.remove(&id);
        self.wake(waiting.unwrap_or_default(), &mut due);
        self.deliver(due, deliveries);
    }

    /// Delivers all STABLE batches that wait for nothing any more.
    pub(super) fn deliver_all(&mut self, deliveries: &mut Vec<Delivery<P>>) {
        self.waiting.clear();
        let mut due = BTreeSet::new();
        self.wake(self.entries.keys().copied(), &mut due);
        self.deliver(due, deliveries);
    }

    /// Adds those of the batches to `due` that are STABLE and not delivered.
    fn wake(&self, ids: impl IntoIterator<Item = BatchId>, due: &mut BTreeSet<Order>) {
        let order = |id: BatchId| {
            let slot = self.get(id)?.stable()?.slot()?;
            (!self.delivered.contains(id)).then_some((slot.position, id))
        };
        due.extend(ids.into_iter().filter_map(order));
    }

    /// Delivers those of the batches `due` that wait for nothing, and then what waits for them: the least in order
    /// first, so that a replay makes the same deliveries in the same order.
    fn deliver(&mut self, mut due: BTreeSet<Order>, deliveries: &mut Vec<Delivery<P>>) {
        while let Some((_, id)) = due.pop_first() {
            let Some(Decision::Deliver(slot)) = self.get(id).and_then(Entry::stable) else {
                unreachable!("{id} is due");
            };
            if let Some(blocking) = self.blocking(id, slot) {
                self.waiting.entry(blocking).or_default().push(id);
                continue;
            }
            let precedes =
                |dependency: &BatchId| !self.is_removed(*dependency, (slot.position, id));
            let dependencies = slot.dependencies.ids.iter().copied();
            let dependencies = dependencies.filter(precedes).collect();
            let batch = self.entries[&id].batch.clone();
            deliveries.push(Delivery {
                id,
                batch: batch.expect("a batch that is not a no-op has payloads"),
                position: slot.position.0,
                dependencies,
            });
            self.delivered.insert(id);
            let waiting = self.waiting.remove(&id);
            self.wake(waiting.unwrap_or_default(), &mut due);
        }
    }

    /// The first dependency that a STABLE batch waits for.
    fn blocking(&self, id: BatchId, slot: &Slot) -> Option<BatchId> {
        let own: Order = (slot.position, id);
        let discarded = slot.dependencies.discarded.iter().find_map(|(site, last)| {
            let missing = self.delivered.first_missing(site);
            (missing.sequence <= last).then_some(missing)
        });
        let ids = || {
            let ids = slot.dependencies.ids.iter().copied();
            ids.into_iter().find(|dependency| {
                !self.delivered.contains(*dependency) && !self.is_removed(*dependency, own)
            })
        };
        discarded.or_else(ids)
    }

    /// The removal rule, evaluated at delivery: a dependency does not count if it is STABLE and a no-op, or STABLE and
    /// ordered after.
    fn is_removed(&self, dependency: BatchId, own: Order) -> bool {
        match self.get(dependency).and_then(Entry::stable) {
            Some(Decision::Deliver(slot)) => (slot.position, dependency) > own,
            Some(Decision::NoOp) => true,
            None => false,
        }
    }

    /// Drops the entries of a prefix, all of which are delivered here.
    pub(super) fn prune(&mut self, prefix: &Prefix) {
        for (site, last) in prefix.iter() {
            for sequence in self.pruned.last(site) + 1..=last {
                let id = BatchId { site, sequence };
                let Some(entry) = self.entries.remove(&id) else {
                    continue;
                };
                self.undecided.remove(&id);
                if let Some((_, position)) = entry.positions() {
                    self.floor = self.floor.max(position);
                }
                self.index.remove(id);
            }
            self.pruned.extend(site, last);
        }
    }

    /// Whether a batch is pruned.
    pub(super) fn is_pruned(&self, id: BatchId) -> bool {
        self.pruned.contains(id)
    }

    /// The number of entries of delivered batches.
    pub(super) fn retained(&self) -> usize {
        self.entries.len() - self.undecided.len()
    }

    /// The last batch of a site that is known here.
    pub(super) fn last_known(&self, site: SiteId) -> u64 {
        let first = BatchId { site, sequence: 0 };
        let last = BatchId {
            site,
            sequence: u64::MAX,
        };
        let known = self.entries.range(first..=last).next_back();
        let known = known.map_or(0, |(id, _)| id.sequence);
        known.max(self.delivered.prefix().last(site))
    }

    /// Checks the invariants that the entries show.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let stable = self.entries.iter().filter_map(|(id, entry)| {
            let slot = entry.stable()?.slot()?;
            Some((*id, slot, entry.batch.as_ref()))
        });
        let stable: Vec<_> = stable.collect();
        if let Some((id, ..)) = stable.iter().find(|(.., batch)| batch.is_none()) {
            return Err(format!("POB-I1: {id} is STABLE without its payloads"));
        }
        // What is delivered here may precede anything: only what is not can be missed. That is few, so it is the outer loop.
        let open = stable
            .iter()
            .filter(|(id, ..)| !self.delivered.contains(*id));
        for (earlier, other, conflicting) in open {
            for (id, slot, batch) in &stable {
                if (other.position, *earlier) >= (slot.position, *id)
                    || !batch
                        .zip(*conflicting)
                        .is_some_and(|(batch, other)| batch.conflicts_with(other))
                {
                    continue;
                }
                if !slot.dependencies.ids.contains(earlier)
                    && !slot.dependencies.discarded.contains(*earlier)
                {
                    return Err(format!(
                        "POB-I4: {id} at {} does not depend on {earlier} at {}",
                        slot.position, other.position
                    ));
                }
                if self.delivered.contains(*id) {
                    return Err(format!("POB-I5: {id} is delivered before {earlier}"));
                }
            }
        }
        for (id, entry) in &self.entries {
            let is_undecided = entry.stable().is_none();
            if is_undecided != self.undecided.contains(id) {
                return Err(format!("{id} is counted wrongly as undecided"));
            }
            if is_undecided && self.delivered.contains(*id) {
                return Err(format!("POB-I5: {id} is delivered and not STABLE"));
            }
            if let Status::Accepted { epoch, .. } = &entry.status
                && *epoch > entry.promised
            {
                return Err(format!(
                    "POB-I2: {id} is accepted in {epoch} and promised {}",
                    entry.promised
                ));
            }
        }
        Ok(())
    }
}
