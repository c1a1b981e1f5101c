//! The lock table by examples, and against a reference model with a flat list of locks.

use std::collections::BTreeMap;

use anabranch_types::{DataType, IndexSchema, RowLayout, TableSchema};

use super::*;

#[allow(dead_code, unreachable_pub)]
#[path = "../../tests/support/random.rs"]
mod random;

use Mode::{Exclusive, Shared};
use Outcome::{Conflict, Granted, Queued};
use random::Random;

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

    /// Whether one lock of the owner covers the target. Several locks of one owner are not joined.
    fn has(&self, owner: LockOwner, wanted: &LockTarget, mode: Mode) -> bool {
        self.held.iter().any(|(other, held, held_mode)| {
            *other == owner
                && held.space == wanted.space
                && held.span.covers(&wanted.span)
                && (!held.is_key || wanted.is_key)
                && *held_mode >= mode
        })
    }

    /// Removes the ends of a span that the owner has locked already.
    fn trim(&self, table: &LockTable, owner: LockOwner, wanted: &mut LockTarget, mode: Mode) {
        let whole = wanted.span.clone();
        let nothing = Span {
            low: key(0),
            high: Some(key(0)),
        };
        let left = table
            .uncovered(owner, wanted.space, whole.clone(), mode)
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
    let edges = table.waits_for();
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
            high: Some(super::super::span::just_above(&key(low))),
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
