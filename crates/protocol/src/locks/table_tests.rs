//! The lock table by examples, and against a reference model with a flat list of locks.

use std::collections::BTreeMap;

use anabranch_types::{DataType, IndexSchema, NodeId, RowLayout, TableSchema, Ticks};

use crate::contract::TransactionId;

use super::*;

use crate::locks::random::Random;
use Mode::{Exclusive, Shared};
use Outcome::{Conflict, Granted, Queued};

fn schema() -> Schema {
    let index = IndexSchema {
        id: IndexId(0),
        name: "i".into(),
        columns: vec![],
        unique: false,
    };
    let table = |id: u16| TableSchema {
        id: TableId(id),
        name: format!("t{id}"),
        columns: Vec::new(),
        primary_key: Vec::new(),
        indexes: if id == 0 { vec![index.clone()] } else { vec![] },
        layout: RowLayout::new(std::iter::empty::<(&DataType, bool)>()),
    };
    Schema {
        tables: vec![table(0).into(), table(1).into()],
    }
}

fn key(n: u8) -> Key {
    Key::from_bytes(&[n])
}

fn span(low: u8, high: u8) -> Span {
    Span {
        low: key(low),
        high: Some(key(high)),
    }
}

fn age(began: u64) -> Age {
    Age {
        began: Ticks(began),
        transaction: TransactionId {
            node: NodeId(0),
            sequence: began,
        },
    }
}

struct Fixture {
    table: LockTable,
    woken: VecDeque<LockOwner>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture {
            table: LockTable::new(&schema()),
            woken: VecDeque::new(),
        }
    }

    fn lock(&mut self, owner: LockOwner, n: u8, mode: Mode) -> Outcome {
        let outcome = self.table.acquire(owner, 1, &key(n), mode, true);
        self.check();
        outcome
    }

    fn lock_now(&mut self, owner: LockOwner, n: u8, mode: Mode) -> Outcome {
        let outcome = self.table.acquire(owner, 1, &key(n), mode, false);
        self.check();
        outcome
    }

    fn lock_span(&mut self, owner: LockOwner, low: u8, high: u8, mode: Mode) -> Outcome {
        let outcome = self
            .table
            .acquire_span(owner, 1, span(low, high), mode, true);
        self.check();
        outcome
    }

    /// Makes these owners undeclared, the first one the oldest.
    fn by_age(&mut self, owners: &[LockOwner]) {
        for (began, owner) in owners.iter().enumerate() {
            self.table.set_age(*owner, age(began as u64));
        }
    }

    fn signals(&mut self) -> Vec<(LockOwner, Signal)> {
        std::iter::from_fn(|| self.table.next_signal()).collect()
    }

    fn release(&mut self, owner: LockOwner) -> VecDeque<LockOwner> {
        self.table.release(owner, &mut self.woken);
        self.check();
        std::mem::take(&mut self.woken)
    }

    fn check(&self) {
        self.table
            .check_invariants()
            .expect("the table's invariants");
    }
}

#[test]
fn a_wait_has_its_place_and_those_that_it_is_for() {
    let mut f = Fixture::new();
    f.by_age(&[0, 1, 2, 3, 4, 5]);
    assert_eq!(f.lock(0, 5, Shared), Granted);
    assert_eq!(f.lock(1, 5, Shared), Granted);
    assert_eq!(f.lock(2, 5, Exclusive), Queued);
    // A reader is blocked by the writer before it alone.
    assert_eq!(f.lock(3, 5, Shared), Queued);
    for (owner, space) in [(0, 2), (1, 0)] {
        let granted = f.table.acquire(owner, space, &key(7), Exclusive, true);
        assert_eq!(granted, Granted);
        let queued = f.table.acquire(owner + 4, space, &key(7), Exclusive, true);
        assert_eq!(queued, Queued);
    }
    let wait = |owner| f.table.wait_of(owner);
    assert_eq!(wait(0), None);
    assert_eq!(wait(2), Some((TableId(0), None, &key(5), vec![0, 1])));
    assert_eq!(wait(3), Some((TableId(0), None, &key(5), vec![2])));
    assert_eq!(wait(4), Some((TableId(1), None, &key(7), vec![0])));
    let of_index = Some(IndexId(0));
    assert_eq!(wait(5), Some((TableId(0), of_index, &key(7), vec![1])));
}

#[test]
fn shared_locks_share_and_exclusive_ones_wait_in_order() {
    let mut f = Fixture::new();
    assert_eq!(f.lock(0, 5, Shared), Granted);
    assert_eq!(f.lock(1, 5, Shared), Granted);
    assert_eq!(f.lock(2, 5, Exclusive), Queued);
    assert_eq!(
        f.lock(3, 5, Shared),
        Queued,
        "a reader does not overtake a waiting writer"
    );
    assert_eq!(f.release(0), [0; 0]);
    assert_eq!(f.release(1), [2]);
    assert_eq!(f.release(2), [3]);
    assert_eq!(f.release(3), [0; 0]);
    assert!(f.table.spaces.iter().all(|space| space.entries.is_empty()));
}

#[test]
fn waiting_out_of_order_is_refused() {
    let mut f = Fixture::new();
    assert_eq!(f.lock(0, 5, Exclusive), Granted);
    assert_eq!(f.lock(1, 7, Exclusive), Granted);
    assert_eq!(f.lock(0, 7, Exclusive), Queued);
    assert_eq!(
        f.lock(1, 5, Exclusive),
        Conflict,
        "this would be the deadlock"
    );
    assert_eq!(f.release(1), [0]);
}

#[test]
fn the_order_of_indexes_is_secondary_before_primary() {
    let f = Fixture::new();
    let secondary = f.table.space(TableId(0), Some(IndexId(0)));
    let primary = f.table.space(TableId(0), None);
    assert!(secondary < primary);
    assert!(primary < f.table.space(TableId(1), None));
}

#[test]
fn what_is_held_is_granted_again_and_upgraded_by_its_sole_holder() {
    let mut f = Fixture::new();
    assert_eq!(f.lock(0, 5, Shared), Granted);
    assert_eq!(f.lock(0, 5, Shared), Granted);
    assert_eq!(f.lock(0, 5, Exclusive), Granted);
    assert_eq!(f.lock(1, 5, Shared), Queued);
    assert_eq!(f.lock(0, 5, Shared), Granted);
    assert_eq!(f.release(0), [1]);
    assert_eq!(f.lock(2, 5, Shared), Granted);
    assert_eq!(f.lock(1, 5, Exclusive), Conflict, "not while another reads");
}

#[test]
fn a_span_keeps_new_keys_out_and_lets_them_in_when_released() {
    let mut f = Fixture::new();
    assert_eq!(f.lock_span(0, 3, 9, Shared), Granted);
    assert_eq!(f.lock_now(1, 5, Exclusive), Conflict);
    assert_eq!(f.lock_now(1, 9, Exclusive), Granted);
    assert_eq!(f.lock(2, 5, Shared), Granted);
    assert_eq!(f.lock(3, 6, Exclusive), Queued);
    assert_eq!(f.lock(4, 6, Shared), Queued);
    assert_eq!(f.release(0), [3]);
    assert_eq!(f.release(3), [4]);
}

#[test]
fn a_waiting_span_moves_from_one_obstacle_to_the_next() {
    let mut f = Fixture::new();
    assert_eq!(f.lock(0, 4, Exclusive), Granted);
    assert_eq!(f.lock(1, 6, Exclusive), Granted);
    assert_eq!(f.lock_span(2, 3, 9, Shared), Queued);
    assert_eq!(f.release(0), [0; 0]);
    assert_eq!(
        f.lock_span(3, 5, 8, Exclusive),
        Queued,
        "behind the other at 6"
    );
    assert_eq!(f.release(1), [2]);
    assert_eq!(f.release(2), [3]);
    assert_eq!(f.release(3), [0; 0]);
    assert!(f.table.spaces[1].entries.is_empty());
}

#[test]
fn exclusive_spans_wait_for_each_other_only_where_they_overlap() {
    let mut f = Fixture::new();
    assert_eq!(f.lock_span(0, 3, 6, Exclusive), Granted);
    assert_eq!(f.lock_span(1, 6, 9, Exclusive), Granted);
    assert_eq!(f.lock_span(2, 4, 8, Shared), Queued);
    assert_eq!(f.release(0), [0; 0]);
    assert_eq!(f.release(1), [2]);
}

#[test]
fn leaving_a_queue_grants_the_next_in_line() {
    let mut f = Fixture::new();
    assert_eq!(f.lock(0, 5, Shared), Granted);
    assert_eq!(f.lock(1, 5, Exclusive), Queued);
    assert_eq!(f.lock(2, 5, Shared), Queued);
    assert_eq!(f.release(1), [2]);
}

#[test]
fn shared_locks_can_go_before_the_exclusive_ones() {
    let mut f = Fixture::new();
    assert_eq!(f.lock(0, 4, Shared), Granted);
    assert_eq!(f.lock(0, 5, Exclusive), Granted);
    assert_eq!(f.lock_span(0, 6, 8, Shared), Granted);
    assert_eq!(f.lock(1, 4, Exclusive), Queued);
    assert_eq!(f.lock(2, 7, Exclusive), Queued);
    assert_eq!(f.lock(3, 5, Shared), Queued);
    f.table.release_shared(0, &mut f.woken);
    f.check();
    assert_eq!(std::mem::take(&mut f.woken), [1, 2]);
    assert_eq!(f.release(0), [3]);
}

#[test]
fn a_unique_key_is_locked_by_its_prefix() {
    let mut f = Fixture::new();
    let entry = Key::from_bytes(&[7, 1]);
    assert_eq!(f.table.acquire(0, 0, &entry, Exclusive, false), Granted);
    assert!(f.table.is_prefix_held(1, 0, key(7)));
    assert!(
        !f.table.is_prefix_held(0, 0, key(7)),
        "the owner does not block itself"
    );
    assert!(!f.table.is_prefix_held(1, 0, key(8)));
}

#[test]
fn by_age_the_older_wounds_and_the_younger_waits() {
    let mut f = Fixture::new();
    f.by_age(&[0, 1, 2]);
    assert_eq!(f.lock(1, 5, Exclusive), Granted);
    assert_eq!(f.lock(2, 5, Shared), Queued);
    assert_eq!(f.signals(), []);
    assert_eq!(f.lock(0, 5, Exclusive), Queued);
    assert_eq!(f.signals(), [(1, Signal::Wound)]);
    assert_eq!(f.lock(1, 6, Exclusive), Granted, "what is free is granted");
    assert_eq!(f.release(1), [0], "the older goes first");
    assert_eq!(f.release(0), [2]);
    assert_eq!(f.signals(), []);
}

#[test]
fn a_wound_is_sent_once_and_forgotten_at_the_end() {
    let mut f = Fixture::new();
    f.by_age(&[0, 1, 2]);
    assert_eq!(f.lock_span(2, 3, 9, Shared), Granted);
    assert_eq!(f.lock(0, 5, Exclusive), Queued);
    assert_eq!(f.lock(1, 7, Exclusive), Queued);
    assert_eq!(f.signals(), [(2, Signal::Wound)]);
    assert_eq!(f.lock(2, 20, Exclusive), Granted);
    f.by_age(&[3]);
    assert_eq!(f.lock(3, 20, Exclusive), Queued);
    assert_eq!(f.signals(), []);
    assert_eq!(f.release(2).len(), 3);
    assert_eq!(f.table.signal_of(2), None);
}

#[test]
fn by_age_upgrades_wait_and_the_older_of_two_wounds() {
    let mut f = Fixture::new();
    f.by_age(&[0, 1]);
    assert_eq!(f.lock(0, 5, Shared), Granted);
    assert_eq!(f.lock(1, 5, Shared), Granted);
    assert_eq!(f.lock(1, 5, Exclusive), Queued, "it keeps its shared lock");
    assert_eq!(f.signals(), []);
    assert_eq!(f.lock(0, 5, Exclusive), Queued);
    assert_eq!(f.signals(), [(1, Signal::Wound)]);
    assert_eq!(f.release(1), [0]);
    assert!(f.table.holds(0, 1, &key(5), Exclusive));
    assert_eq!(f.release(0), [0; 0]);
    assert!(f.table.spaces[1].entries.is_empty());
}

/// The upgrade of a sole holder does not wait behind the queue, so readers in it may wait for the upgraded lock.
#[test]
fn an_upgrade_in_front_of_an_older_reader_is_wounded() {
    let mut f = Fixture::new();
    f.by_age(&[0, 1]);
    assert_eq!(f.lock_now(1, 5, Shared), Granted);
    assert_eq!(f.lock(2, 5, Exclusive), Queued);
    assert_eq!(f.lock(0, 5, Shared), Queued, "behind the declared one");
    assert_eq!(f.signals(), [(1, Signal::Yield)]);
    assert_eq!(f.lock(1, 5, Exclusive), Granted);
    assert_eq!(f.signals(), [(1, Signal::Wound)]);
    assert_eq!(f.release(1), [2]);
    assert_eq!(f.release(2), [0]);
}

#[test]
fn declared_owners_come_first_and_holders_yield_to_them() {
    let mut f = Fixture::new();
    f.by_age(&[0, 1, 2]);
    assert_eq!(f.lock(0, 5, Exclusive), Granted);
    assert_eq!(f.lock(2, 5, Exclusive), Queued);
    assert_eq!(f.lock(1, 5, Exclusive), Queued);
    assert_eq!(f.signals(), []);
    assert_eq!(f.lock(7, 5, Exclusive), Queued);
    assert_eq!(f.lock(8, 5, Exclusive), Queued);
    assert_eq!(f.signals(), [(0, Signal::Yield)]);
    assert_eq!(f.lock(9, 6, Exclusive), Granted);
    assert_eq!(f.lock(0, 6, Shared), Conflict, "it would wait");
    assert_eq!(f.release(0), [7]);
    assert_eq!(f.release(7), [8]);
    assert_eq!(f.release(8), [1]);
    assert_eq!(f.release(1), [2]);
}

#[test]
fn a_holder_that_waits_is_wounded_by_a_declared_owner() {
    let mut f = Fixture::new();
    f.by_age(&[0]);
    assert_eq!(f.lock(0, 5, Exclusive), Granted);
    assert_eq!(f.lock(8, 7, Exclusive), Granted);
    assert_eq!(f.lock(0, 7, Shared), Queued);
    assert_eq!(f.lock(9, 5, Shared), Queued);
    assert_eq!(f.signals(), [(0, Signal::Wound)]);
}

#[test]
fn a_declared_owner_out_of_order_is_refused_by_undeclared_ones_too() {
    let mut f = Fixture::new();
    f.by_age(&[0]);
    assert_eq!(f.lock(0, 5, Exclusive), Granted);
    assert_eq!(f.lock(9, 7, Exclusive), Granted);
    assert_eq!(f.lock(9, 5, Shared), Conflict);
    assert_eq!(f.signals(), []);
}

/// A declared reader does not wait behind an undeclared writer at a place where the holders share with it.
#[test]
fn declared_owners_pass_undeclared_waiters() {
    let mut f = Fixture::new();
    f.by_age(&[0, 1]);
    assert_eq!(f.lock(0, 5, Shared), Granted);
    assert_eq!(f.lock(1, 5, Exclusive), Queued);
    assert_eq!(f.lock(8, 5, Shared), Granted);
    assert_eq!(f.lock_span(9, 3, 8, Shared), Granted);
    assert_eq!(f.signals(), []);
}

#[test]
fn a_span_that_moves_wounds_at_its_new_place() {
    let mut f = Fixture::new();
    f.by_age(&[0, 1, 2]);
    assert_eq!(f.lock(0, 4, Exclusive), Granted);
    assert_eq!(f.lock_span(1, 3, 9, Shared), Queued);
    assert_eq!(f.lock(2, 6, Exclusive), Granted, "not where it waits");
    assert_eq!(f.signals(), []);
    assert_eq!(f.release(0), [0; 0]);
    assert_eq!(f.signals(), [(2, Signal::Wound)]);
    assert_eq!(f.release(2), [1]);
}

/// The reference model: the held locks as a flat list (owner, keys, mode).
#[derive(Default)]
struct Model {
    held: Vec<(LockOwner, LockTarget, Mode)>,
    waiting: BTreeMap<LockOwner, (LockTarget, Mode)>,
}

#[derive(Clone, Debug, PartialEq)]
struct LockTarget {
    space: SpaceId,
    span: Span,
    is_key: bool,
}

impl LockTarget {
    fn overlaps(&self, other: &LockTarget) -> bool {
        self.space == other.space && self.span.overlaps(&other.span)
    }
}

impl Model {
    fn conflict(&self, owner: LockOwner, wanted: &LockTarget, mode: Mode) -> bool {
        self.held.iter().any(|(other, held, held_mode)| {
            *other != owner && held.overlaps(wanted) && held_mode.conflicts(mode)
        })
    }

    /// Whether the owner's locks cover the target together. A key does not count for a span.
    fn has(&self, owner: LockOwner, wanted: &LockTarget, mode: Mode) -> bool {
        let covers = |number: u8| {
            self.held.iter().any(|(other, held, held_mode)| {
                *other == owner
                    && held.space == wanted.space
                    && held.span.contains(&key(number))
                    && (!held.is_key || wanted.is_key)
                    && *held_mode >= mode
            })
        };
        (0..16)
            .filter(|number| wanted.span.contains(&key(*number)))
            .all(covers)
    }

    /// Removes the ends of a span that the owner has locked already.
    fn trim(&self, table: &LockTable, owner: LockOwner, wanted: &mut LockTarget, mode: Mode) {
        let whole = wanted.span.clone();
        let nothing = Span {
            low: key(0),
            high: Some(key(0)),
        };
        let spans = &table.spaces[wanted.space as usize].spans;
        let left = spans
            .uncovered(owner, whole.clone(), mode)
            .unwrap_or(nothing);
        for n in (0..16).filter(|&n| whole.contains(&key(n)) && !left.contains(&key(n))) {
            let span = span(n, n + 1);
            let one = LockTarget {
                space: wanted.space,
                span,
                is_key: false,
            };
            assert!(
                self.has(owner, &one, mode),
                "{owner} has no lock on {n} of {whole:?}"
            );
        }
        wanted.span = left;
    }

    fn is_in_order(&self, owner: LockOwner, wanted: &LockTarget) -> bool {
        self.held
            .iter()
            .filter(|(other, ..)| *other == owner)
            .all(|(_, held, _)| {
                held.space < wanted.space
                    || (held.space == wanted.space
                        && held
                            .span
                            .high
                            .as_ref()
                            .is_some_and(|high| *high <= wanted.span.low))
            })
    }

    fn grant(&mut self, owner: LockOwner) {
        let (wanted, mode) = self.waiting.remove(&owner).expect("only a waiter is woken");
        assert!(
            !self.conflict(owner, &wanted, mode),
            "{owner} is granted {wanted:?} {mode:?}"
        );
        self.held.push((owner, wanted, mode));
    }

    /// Checks that every waiter is blocked by a lock or by another waiter.
    fn check_no_lost_wake_up(&self) {
        for (owner, (wanted, mode)) in &self.waiting {
            let others = self
                .waiting
                .iter()
                .any(|(other, (its, _))| other != owner && its.overlaps(wanted));
            assert!(
                others || self.conflict(*owner, wanted, *mode),
                "{owner} waits for {wanted:?}, which is free"
            );
        }
    }
}

fn check_no_cycle(table: &LockTable) {
    check_no_cycle_among(&table.waits_for());
}

fn check_no_cycle_among(edges: &[(LockOwner, LockOwner)]) {
    let mut left: Vec<LockOwner> = edges.iter().map(|(waiter, _)| *waiter).collect();
    // A waiter that waits only for owners that do not wait can finish; a cycle cannot.
    while !left.is_empty() {
        let stuck: Vec<LockOwner> = left
            .iter()
            .copied()
            .filter(|owner| edges.iter().any(|(w, on)| w == owner && left.contains(on)))
            .collect();
        assert!(
            stuck.len() < left.len(),
            "a cycle among {stuck:?}: {edges:?}"
        );
        left = stuck;
    }
}

fn wanted(random: &mut Random) -> LockTarget {
    let low = random.below(8) as u8;
    let is_key = random.percent(70);
    let span = match is_key {
        true => Span {
            low: key(low),
            high: Some(crate::span::just_above(&key(low))),
        },
        false => span(low, low + 1 + random.below(4) as u8),
    };
    LockTarget {
        space: random.below(3) as SpaceId,
        span,
        is_key,
    }
}

#[test]
fn random_requests_agree_with_a_flat_list() {
    let (mut queued, mut refused, mut woke) = (0, 0, 0);
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let mut table = LockTable::new(&schema());
        let mut model = Model::default();
        for _ in 0..200 {
            let owner = random.below(8) as LockOwner;
            let mut woken = VecDeque::new();
            if model.waiting.contains_key(&owner) || random.percent(25) {
                if model.waiting.contains_key(&owner) && random.percent(80) {
                    continue;
                }
                table.release(owner, &mut woken);
                model.held.retain(|(other, ..)| *other != owner);
                model.waiting.remove(&owner);
            } else if random.percent(5) {
                table.release_shared(owner, &mut woken);
                model
                    .held
                    .retain(|(other, _, mode)| *other != owner || *mode == Exclusive);
            } else {
                let mut wanted = wanted(random);
                let mode = if random.percent(50) {
                    Shared
                } else {
                    Exclusive
                };
                if !wanted.is_key {
                    model.trim(&table, owner, &mut wanted, mode);
                }
                let wait = random.percent(80);
                let (space, span) = (wanted.space, wanted.span.clone());
                let outcome = match wanted.is_key {
                    true => table.acquire(owner, space, &span.low, mode, wait),
                    false => table.acquire_span(owner, space, span, mode, wait),
                };
                let conflict = model.conflict(owner, &wanted, mode);
                let may_wait = wait && model.is_in_order(owner, &wanted);
                match outcome {
                    Granted => {
                        assert!(!conflict, "seed {seed}: {wanted:?} {mode:?} is granted");
                        if !wanted.span.is_empty() && !model.has(owner, &wanted, mode) {
                            model
                                .held
                                .retain(|(other, its, _)| *other != owner || *its != wanted);
                            model.held.push((owner, wanted, mode));
                        }
                    }
                    Queued => {
                        assert!(may_wait, "seed {seed}: {owner} waits out of order");
                        model.waiting.insert(owner, (wanted, mode));
                        queued += 1;
                    }
                    Conflict => {
                        assert!(
                            conflict && !may_wait,
                            "seed {seed}: {wanted:?} {mode:?} refused"
                        );
                        refused += 1;
                    }
                }
            }
            woke += woken.len();
            for owner in woken {
                model.grant(owner);
            }
            table
                .check_invariants()
                .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            model.check_no_lost_wake_up();
            check_no_cycle(&table);
        }
        for owner in 0..8 {
            table.release(owner, &mut VecDeque::new());
        }
        let empty = |space: &Space| space.entries.is_empty() && space.spans.is_empty();
        assert!(
            table.spaces.iter().all(empty),
            "seed {seed}: the table is not empty"
        );
    }
    assert!(
        queued > 1_000 && refused > 1_000 && woke > 1_000,
        "{queued} {refused} {woke}"
    );
}

/// A transaction of [`Cluster`], whose number is its lock owner at both partitions.
#[derive(Clone, Default)]
struct Transaction {
    is_known: bool,
    /// Kept by the next attempt.
    age: Option<Age>,
    yields: bool,
}

/// The lock tables of two partitions, and transactions that declare or wait by age. Signals are under way for a while.
#[derive(Clone)]
struct Cluster {
    tables: [LockTable; 2],
    transactions: Vec<Transaction>,
    under_way: VecDeque<(LockOwner, Signal)>,
    begun: u64,
    wounds: u64,
    yields: u64,
}

impl Cluster {
    fn new(transactions: usize) -> Cluster {
        Cluster {
            tables: [(); 2].map(|()| LockTable::new(&schema())),
            transactions: vec![Transaction::default(); transactions],
            under_way: VecDeque::new(),
            begun: 0,
            wounds: 0,
            yields: 0,
        }
    }

    fn is_waiting(&self, owner: LockOwner) -> bool {
        self.tables.iter().any(|table| table.is_waiting(owner))
    }

    fn begin(&mut self, owner: LockOwner, random: &mut Random) {
        let transaction = &mut self.transactions[owner as usize];
        transaction.is_known = true;
        transaction.yields = false;
        if transaction.age.is_none() && random.percent(60) {
            self.begun += 1;
            transaction.age = Some(age(self.begun));
        }
        if let Some(age) = transaction.age {
            for table in &mut self.tables {
                table.set_age(owner, age);
            }
        }
    }

    /// Ends a transaction at both partitions; a committed one gives up its age.
    fn end(&mut self, owner: LockOwner, committed: bool) {
        let transaction = &mut self.transactions[owner as usize];
        transaction.is_known = false;
        if committed {
            transaction.age = None;
        }
        for table in &mut self.tables {
            table.release(owner, &mut VecDeque::new());
        }
        // What is still under way is for an attempt that has ended.
        self.under_way.retain(|(to, _)| *to != owner);
        self.collect();
    }

    /// Requests locks: at one partition, or by age also at both at once.
    fn request(&mut self, owner: LockOwner, random: &mut Random) {
        let Transaction { age, yields, .. } = self.transactions[owner as usize];
        let first = random.below(2) as usize;
        let both = age.is_some() && random.percent(40);
        for at in (first..2).take(1 + usize::from(both)) {
            let wait = match age {
                Some(_) => !yields,
                None => at == 1 || self.tables[1].is_free(owner),
            };
            let wanted = wanted(random);
            let mode = [Shared, Exclusive][random.below(2) as usize];
            let table = &mut self.tables[at];
            let outcome = match wanted.is_key {
                true => table.acquire(owner, wanted.space, &wanted.span.low, mode, wait),
                false => table.acquire_span(owner, wanted.space, wanted.span, mode, wait),
            };
            if outcome == Conflict {
                return self.end(owner, false);
            }
        }
        self.collect();
    }

    fn collect(&mut self) {
        for table in &mut self.tables {
            self.under_way
                .extend(std::iter::from_fn(|| table.next_signal()));
        }
    }

    /// Delivers a signal to its coordinator.
    fn deliver(&mut self) {
        let Some((owner, signal)) = self.under_way.pop_front() else {
            return;
        };
        match signal {
            Signal::Wound => self.wounds += 1,
            Signal::Yield => self.yields += 1,
        }
        self.transactions[owner as usize].yields = true;
        if signal == Signal::Wound || self.is_waiting(owner) {
            self.end(owner, false);
        }
    }

    /// Once all signals are delivered there is no deadlock: if those that do not wait end, one after the other, all do.
    fn check_ends(mut self) {
        loop {
            while !self.under_way.is_empty() {
                self.deliver();
                self.check();
            }
            let edges = self.tables.iter().flat_map(LockTable::waits_for);
            check_no_cycle_among(&edges.collect::<Vec<_>>());
            let owners = 0..self.transactions.len() as LockOwner;
            let known = owners.filter(|owner| self.transactions[*owner as usize].is_known);
            let known: Vec<LockOwner> = known.collect();
            if known.is_empty() {
                break;
            }
            let runs = known.iter().find(|owner| !self.is_waiting(**owner));
            let runs = runs.unwrap_or_else(|| panic!("all of {known:?} wait"));
            self.end(*runs, true);
            self.check();
        }
        let empty = |space: &Space| space.entries.is_empty() && space.spans.is_empty();
        let mut spaces = self.tables.iter().flat_map(|table| &table.spaces);
        assert!(spaces.all(empty), "the tables are not empty");
        assert!(self.tables.iter().all(|table| table.with_age == 0));
    }

    fn check(&self) {
        for table in &self.tables {
            if let Err(broken) = table.check_invariants() {
                panic!("{broken}");
            }
        }
    }
}

#[test]
fn random_declared_and_undeclared_requests_end() {
    let (mut wounds, mut yields) = (0, 0);
    for seed in 0..400 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let mut cluster = Cluster::new(3 + random.below(5) as usize);
        let delay = 20 + random.below(80);
        for turn in 0..150 {
            if random.percent(delay) {
                cluster.deliver();
            }
            let owner = random.below(cluster.transactions.len() as u64) as LockOwner;
            let is_waiting = cluster.is_waiting(owner);
            if !cluster.transactions[owner as usize].is_known {
                cluster.begin(owner, random);
            } else if !is_waiting && random.percent(15) {
                cluster.end(owner, true);
            } else if !is_waiting {
                cluster.request(owner, random);
            }
            cluster.check();
            if turn % 10 == 0 {
                cluster.clone().check_ends();
            }
        }
        wounds += cluster.wounds;
        yields += cluster.yields;
        cluster.check_ends();
    }
    assert!(wounds > 500 && yields > 500, "{wounds} {yields}");
}
