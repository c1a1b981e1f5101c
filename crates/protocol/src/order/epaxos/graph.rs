//! The dependency graph: the batches that a site knows, their conflicts, and their delivery, one strongly connected
//! component after the other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use anabranch_types::Ticks;

use crate::order::conflict::ConflictIndex;
use crate::order::{Batch, BatchId, Delivered, Delivery, Payload, Prefix, SITES_MAX, SiteId};

use super::entry::{Decision, Entry, Proposal, Status};

/// The most batches of a site that are not delivered there. Others wait.
pub(super) const WINDOW: u64 = 1 << WINDOW_BITS;

/// The bits of a position for a batch's number within the window, and for its site.
const WINDOW_BITS: u32 = 10;
const SITE_BITS: u32 = SITES_MAX.ilog2() + 1;

/// Positions are below this: certification needs the other bits of a timestamp.
const POSITION_BITS: u32 = 44;

/// The batches that a site knows.
#[derive(Clone, Debug)]
pub(super) struct Graph<P> {
    pub(super) entries: BTreeMap<BatchId, Entry<P>>,
    /// Entries that are not committed.
    pub(super) undecided: BTreeSet<BatchId>,
    /// Batches with proposals that are not no-ops, by class.
    index: ConflictIndex<P>,
    /// What this site has delivered.
    pub(super) delivered: Delivered,
    /// No entry is kept for these, and all sites have delivered them.
    pub(super) pruned: Prefix,
    /// The depths of the delivered batches that are not pruned.
    pub(super) depths: BTreeMap<BatchId, u64>,
    /// The highest depth of a delivered batch.
    pub(super) deepest: u64,
    /// Committed batches that wait, by a batch that is not committed.
    waiting: BTreeMap<BatchId, Vec<BatchId>>,
    /// What [`Graph::check_invariants`] need not look at again.
    checked: RefCell<Checked>,
}

/// Batches that were found right. Neither a decision nor a delivery changes later, so each pair of committed batches is
/// compared once: a run whose steps are all checked would spend its time on comparing the same pairs otherwise.
#[derive(Clone, Debug, Default)]
struct Checked {
    /// Committed ones: each of these was compared with each other.
    committed: BTreeSet<BatchId>,
    /// Delivered ones: all that they depend on is delivered.
    delivered: BTreeSet<BatchId>,
}

/// Without what follows from the rest.
impl<P: Hash> Hash for Graph<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.hash(state);
        self.delivered.hash(state);
        (&self.pruned, &self.depths, self.deepest).hash(state);
    }
}

impl<P: Payload> Graph<P> {
    pub(super) fn new(sites: u8) -> Graph<P> {
        Graph {
            entries: BTreeMap::new(),
            undecided: BTreeSet::new(),
            index: ConflictIndex::default(),
            delivered: Delivered::none(sites),
            pruned: Prefix::empty(sites),
            depths: BTreeMap::new(),
            deepest: 0,
            waiting: BTreeMap::new(),
            checked: RefCell::default(),
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

    /// Keeps the proposal of a batch that has an entry. Returns whether it was new.
    pub(super) fn set_proposal(&mut self, id: BatchId, proposal: &Proposal<P>) -> bool {
        let entry = self.entries.get_mut(&id).expect("the batch has an entry");
        let is_new = entry.proposal.is_none();
        if is_new {
            entry.proposal = Some(proposal.clone());
            self.index.insert(id, &proposal.batch);
        }
        is_new
    }

    /// The batches that conflict with a new one, whose proposals are known here and that are not decided as no-ops.
    pub(super) fn conflicts_of_new(&self, batch: &Batch<P>) -> BTreeSet<BatchId> {
        self.index.find(batch)
    }

    /// The answer to a proposal that is kept here: its dependencies, and the conflicting batches that are known here. What
    /// the batch's site had pruned precedes it without being named.
    pub(super) fn answer(&self, id: BatchId, proposal: &Proposal<P>) -> BTreeSet<BatchId> {
        let conflicts = self.index.conflicts(id);
        let mut dependencies: BTreeSet<BatchId> = conflicts
            .filter(|other| !proposal.pruned.contains(*other))
            .collect();
        dependencies.extend(&proposal.dependencies);
        dependencies
    }

    /// Conflicting batches that are no dependencies of a proposal that is kept here, and do not depend on the batch as far as this site
    /// knows; and whether they are committed here.
    pub(super) fn contradictions(
        &self,
        id: BatchId,
        proposal: &Proposal<P>,
    ) -> Vec<(BatchId, bool)> {
        let others = self.index.conflicts(id).filter(|other| {
            !proposal.dependencies.contains(other) && !proposal.pruned.contains(*other)
        });
        let contradicts = |other: BatchId| {
            let entry = &self.entries[&other];
            let (depends, is_committed) = match entry.committed() {
                Some(decision) => (decision.dependencies()?.contains(&id), true),
                None => (entry.proposal.as_ref()?.dependencies.contains(&id), false),
            };
            (!depends).then_some((other, is_committed))
        };
        others.filter_map(contradicts).collect()
    }

    /// Commits a batch. Adds what can be delivered now to `deliveries`.
    pub(super) fn commit(
        &mut self,
        id: BatchId,
        decision: Decision,
        now: Ticks,
        deliveries: &mut Vec<Delivery<P>>,
    ) {
        for dependency in decision.dependencies().into_iter().flatten() {
            // Its payloads may be lost: only a recovery ends the wait for it.
            if !self.delivered.contains(*dependency) {
                self.entry(*dependency, now);
            }
        }
        let is_no_op = decision == Decision::NoOp;
        let entry = self.entries.get_mut(&id).expect("the batch has an entry");
        assert!(entry.committed().is_none(), "{id} is committed once");
        entry.status = Status::Committed { decision };
        if is_no_op && entry.proposal.take().is_some() {
            self.index.remove(id);
        }
        self.undecided.remove(&id);
        if is_no_op {
            self.delivered.insert(id);
        }
        let mut roots: BTreeSet<BatchId> = [id].into();
        roots.extend(self.waiting.remove(&id).unwrap_or_default());
        self.execute(roots, deliveries);
    }

    /// Delivers all that waits for nothing any more.
    pub(super) fn execute_all(&mut self, deliveries: &mut Vec<Delivery<P>>) {
        self.waiting.clear();
        self.execute(self.entries.keys().copied().collect(), deliveries);
    }

    /// Delivers those of the committed batches `roots` of which all that they depend on, directly or not, is committed;
    /// and all of that. In order of their ids, so that a replay makes the same deliveries in the same order.
    fn execute(&mut self, roots: BTreeSet<BatchId>, deliveries: &mut Vec<Delivery<P>>) {
        for root in roots {
            let is_committed = |entry: &Entry<P>| entry.committed().is_some();
            if self.delivered.contains(root) || !self.get(root).is_some_and(is_committed) {
                continue;
            }
            if let Err(blocking) = self.visit(root, deliveries) {
                self.waiting.entry(blocking).or_default().push(root);
            }
        }
    }

    /// Tarjan's algorithm from a committed batch: delivers each strongly connected component after those that it
    /// depends on.
    ///
    /// # Errors
    /// A batch that is not committed, if the root depends on one.
    fn visit(&mut self, root: BatchId, deliveries: &mut Vec<Delivery<P>>) -> Result<(), BatchId> {
        // The number of each batch in the order of discovery, and the least number that it reaches.
        let mut numbers: BTreeMap<BatchId, (usize, usize)> = BTreeMap::new();
        let mut stack: Vec<BatchId> = Vec::new();
        let mut path: Vec<(BatchId, Vec<BatchId>)> = Vec::new();
        let mut next = Some(root);
        loop {
            if let Some(id) = next.take() {
                let number = numbers.len();
                numbers.insert(id, (number, number));
                stack.push(id);
                let entry = self.get(id).ok_or(id)?;
                let dependencies = entry.committed().ok_or(id)?.dependencies();
                let left = dependencies.into_iter().flatten().copied();
                path.push((id, left.collect()));
            }
            let Some((id, left)) = path.last_mut() else {
                return Ok(());
            };
            let id = *id;
            if let Some(dependency) = left.pop() {
                if self.delivered.contains(dependency) {
                    continue;
                }
                match numbers.get(&dependency) {
                    None => next = Some(dependency),
                    // It is on the stack: what has left the stack is delivered.
                    Some((number, _)) => {
                        let number = *number;
                        let (_, least) = numbers.get_mut(&id).expect("visited");
                        *least = number.min(*least);
                    }
                }
                continue;
            }
            path.pop();
            let (number, least) = numbers[&id];
            if let Some((above, _)) = path.last() {
                let (_, reached) = numbers.get_mut(above).expect("visited");
                *reached = least.min(*reached);
            }
            if number == least {
                let at = stack.iter().position(|it| *it == id).expect("on the stack");
                let component = stack.split_off(at);
                self.deliver(component, deliveries);
            }
        }
    }

    /// Delivers a strongly connected component: by the depth at which each batch was proposed, then by id.
    fn deliver(&mut self, component: Vec<BatchId>, deliveries: &mut Vec<Delivery<P>>) {
        let order = |id: BatchId| {
            let proposal = self.entries[&id].proposal.as_ref();
            let proposal = proposal.expect("a batch that is not a no-op has a proposal");
            (proposal.depth, id)
        };
        let ordered: BTreeSet<(u64, BatchId)> = component.into_iter().map(order).collect();
        let mut before: Vec<BatchId> = Vec::new();
        let mut depth = 0;
        for (proposed, id) in ordered {
            let entry = &self.entries[&id];
            let (Some(Decision::Deliver(named)), Some(proposal)) =
                (entry.committed(), &entry.proposal)
            else {
                unreachable!("{id} is committed, with its proposal");
            };
            // Not later ones of the component, nor no-ops.
            let precedes = |it: &BatchId| self.depths.contains_key(it) || self.pruned.contains(*it);
            let named = named.iter().copied();
            let mut precede: BTreeSet<BatchId> = named.filter(precedes).collect();
            let conflicts = |other: &BatchId| {
                let other = self.entries[other].proposal.as_ref();
                other.is_some_and(|other| other.batch.conflicts_with(&proposal.batch))
            };
            precede.extend(before.iter().copied().filter(conflicts));
            // A dependency that is pruned here has no greater depth than the proposed one (EP-I6).
            let deepest = precede.iter().filter_map(|it| self.depths.get(it)).max();
            let deepest = deepest.copied().unwrap_or(0);
            depth = proposed.max(deepest).max(depth) + 1;
            deliveries.push(Delivery {
                id,
                batch: proposal.batch.clone(),
                position: position(depth, id),
                dependencies: precede.into_iter().collect(),
            });
            self.depths.insert(id, depth);
            self.deepest = self.deepest.max(depth);
            self.delivered.insert(id);
            before.push(id);
        }
    }

    /// Drops the entries of a prefix, which all sites have delivered.
    pub(super) fn prune(&mut self, prefix: &Prefix) {
        for (site, last) in prefix.iter() {
            for sequence in self.pruned.last(site) + 1..=last {
                let id = BatchId { site, sequence };
                self.depths.remove(&id);
                if self.entries.remove(&id).is_some() {
                    self.undecided.remove(&id);
                    self.index.remove(id);
                }
            }
            self.pruned.extend(site, last);
        }
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
        let committed = self.entries.iter().filter_map(|(id, entry)| {
            let dependencies = entry.committed()?.dependencies()?;
            Some((*id, dependencies, entry.proposal.as_ref()))
        });
        let committed: Vec<_> = committed.collect();
        let mut checked = self.checked.borrow_mut();
        let Checked {
            committed: compared,
            delivered,
        } = &mut *checked;
        compared.retain(|id| self.entries.contains_key(id));
        delivered.retain(|id| self.entries.contains_key(id));
        for (id, dependencies, proposal) in &committed {
            let Some(proposal) = proposal else {
                return Err(format!("EP-I1: {id} is committed without its proposal"));
            };
            if self.delivered.contains(*id) && delivered.insert(*id) {
                let mut dependencies = dependencies.iter();
                if let Some(missing) = dependencies.find(|it| !self.delivered.contains(**it)) {
                    return Err(format!("EP-I5: {id} is delivered, and {missing} is not"));
                }
            }
            if !compared.insert(*id) {
                continue;
            }
            for (other, others, other_proposal) in &committed {
                let Some(other_proposal) = other_proposal.filter(|_| other != id) else {
                    continue;
                };
                let named = dependencies.contains(other) || others.contains(id);
                let pruned =
                    proposal.pruned.contains(*other) || other_proposal.pruned.contains(*id);
                if !named && !pruned && proposal.batch.conflicts_with(&other_proposal.batch) {
                    return Err(format!(
                        "EP-I4: neither {id} nor {other} depends on the other"
                    ));
                }
            }
        }
        for (id, entry) in &self.entries {
            let is_undecided = entry.committed().is_none();
            if is_undecided != self.undecided.contains(id) {
                return Err(format!("{id} is counted wrongly as undecided"));
            }
            if is_undecided && self.delivered.contains(*id) {
                return Err(format!("EP-I5: {id} is delivered and not committed"));
            }
            if let Status::Accepted { ballot, .. } = &entry.status
                && *ballot > entry.promised
            {
                return Err(format!(
                    "EP-I3: {id} is accepted in {ballot} and {} is promised",
                    entry.promised
                ));
            }
        }
        Ok(())
    }
}

/// The position of a batch that is delivered at a depth: unique, since a site has at most [`WINDOW`] batches that it has
/// not delivered, and batches of one site and one depth are among these together.
fn position(depth: u64, id: BatchId) -> u64 {
    let numbered = (depth << WINDOW_BITS) | (id.sequence % WINDOW);
    let position = (numbered << SITE_BITS) | u64::from(id.site.0);
    assert!(
        position < 1 << POSITION_BITS,
        "{id} is delivered at depth {depth}: a group orders chains of at most 2^{} conflicting batches \
         (docs/protocols/epaxos.md, Limits)",
        POSITION_BITS - WINDOW_BITS - SITE_BITS
    );
    position
}
