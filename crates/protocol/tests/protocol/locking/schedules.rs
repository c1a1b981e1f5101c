//! Seeded random schedules: every transaction ends, and those that commit are serializable.

use std::collections::VecDeque;

use anabranch_protocol::locking::{LockingNode, ReadLocks};
use anabranch_protocol::{AbortReason, PartitionEffects, PartitionRead, Request};
use anabranch_types::{Effect, Fetched, NodeId, Read, Ticks};

use crate::locking::history::{Model, check_serializable};
use crate::locking::{assert_idle, cluster, empty, node};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;
use crate::support::random::Random;
use crate::support::schedule::{Client, Outcome, Pace, Procedure, Run, run_with_restarts};

/// Items that are moved, chased and counted in.
const ITEMS: i64 = 3;
/// The item whose counter orders draw their ids from.
const ORDERS: i64 = ITEMS;

/// The procedure that a client runs. Items are (partition, id).
#[derive(Clone, Debug)]
enum Work {
    /// Moves an amount from one counter to another, if there is as much.
    Transfer {
        from: (u16, i64),
        to: (u16, i64),
        amount: i64,
        for_write: bool,
    },
    /// Reads all counters as ranges.
    Audit { parts: u16 },
    /// Reads an item, then another that the first one's register points to, and sets a third.
    Chase {
        first: (u16, i64),
        second: (u16, i64),
        target: (u16, i64),
    },
    /// Draws an id, inserts an entry with it, and counts it on another partition.
    Order {
        part: u16,
        owner: i64,
        also: Option<(u16, i64)>,
    },
    /// Reads one owner's entries, and the partition's last one.
    Census { part: u16, owner: i64 },
    /// Deletes the partition's first entry, or an owner's by index.
    Reap { part: u16, owner: Option<i64> },
    /// Deletes all entries of an owner on two partitions, by index.
    Purge { parts: [u16; 2], owner: i64 },
}

fn limited(mut read: PartitionRead, backwards: bool) -> PartitionRead {
    if let Read::Range { reverse, limit, .. } = &mut read.read {
        *reverse = backwards;
        *limit = Some(1);
    }
    read
}

fn sorted(mut reads: Vec<PartitionRead>) -> Vec<PartitionRead> {
    reads.sort_by_key(|read| read.partition);
    reads
}

/// One entry a partition, sorted.
fn commit(effects: Vec<(u16, Effect)>) -> Request {
    let mut parts: Vec<PartitionEffects> = Vec::new();
    for part in 0..3 {
        let here = effects.iter().filter(|(of, _)| *of == part);
        let here: Vec<Effect> = here.map(|(_, effect)| effect.clone()).collect();
        if !here.is_empty() {
            parts.push(on(part, here));
        }
    }
    Request::Commit(parts)
}

impl Work {
    fn draw(random: &mut Random, parts: u16) -> Work {
        let part = random.below(u64::from(parts)) as u16;
        let mut any = || {
            (
                random.below(u64::from(parts)) as u16,
                random.below(ITEMS as u64) as i64,
            )
        };
        let (a, b, c) = (any(), any(), any());
        let owner = random.below(3) as i64;
        match random.below(10) {
            0..=2 if a != b => Work::Transfer {
                from: a,
                to: b,
                amount: 1 + random.below(60) as i64,
                for_write: random.percent(70),
            },
            3 => Work::Audit { parts },
            4 | 0..=2 => Work::Chase {
                first: a,
                second: b,
                target: c,
            },
            5 | 6 => Work::Order {
                part,
                owner,
                also: random.percent(60).then_some(a),
            },
            7 => Work::Census { part, owner },
            8 => Work::Reap {
                part,
                owner: random.percent(50).then_some(owner),
            },
            _ => Work::Purge {
                parts: [0, parts - 1],
                owner,
            },
        }
    }

    fn first_reads(&self) -> Vec<PartitionRead> {
        match *self {
            Work::Transfer {
                from,
                to,
                for_write: write,
                ..
            } => {
                let read = |(part, id)| match write {
                    true => for_write(read_item(part, id)),
                    false => read_item(part, id),
                };
                sorted(vec![read(from), read(to)])
            }
            Work::Audit { parts } => (0..parts).map(|part| read_items(part, 0, 99)).collect(),
            Work::Chase {
                first: (part, id), ..
            } => vec![read_item(part, id)],
            Work::Order { .. } => Vec::new(),
            Work::Census { part, owner } => {
                vec![
                    read_entries_of(part, owner),
                    limited(read_entries(part), true),
                ]
            }
            Work::Reap { part, owner } => {
                let entries = match owner {
                    Some(owner) => read_entries_of(part, owner),
                    None => read_entries(part),
                };
                vec![for_write(limited(entries, false))]
            }
            Work::Purge { parts, owner } => {
                let mut parts = parts.to_vec();
                parts.dedup();
                parts
                    .into_iter()
                    .map(|part| for_write(read_entries_of(part, owner)))
                    .collect()
            }
        }
    }

    fn second_read(&self, answers: &[Vec<Fetched>]) -> Option<PartitionRead> {
        let Work::Chase {
            second: (part, id), ..
        } = *self
        else {
            return None;
        };
        let (register, _) = item(&answers[0][0]).expect("items are never deleted");
        Some(read_item(part, (id + register).rem_euclid(ITEMS)))
    }

    fn effects(&self, answers: &[Vec<Fetched>]) -> Option<Vec<(u16, Effect)>> {
        let entries = |fetched: &Fetched| -> Vec<(u16, Effect)> {
            let rows = rows(ENTRY, fetched);
            rows.iter()
                .map(|[part, id, ..]| (*part as u16, delete(*part as u16, *id)))
                .collect()
        };
        Some(match *self {
            Work::Transfer {
                from, to, amount, ..
            } => {
                let at = usize::from(to.0 < from.0);
                let (_, count) = item(&answers[0][at]).expect("items are never deleted");
                if count < amount {
                    return None;
                }
                vec![
                    (from.0, update(TAKE, from.0, from.1, amount)),
                    (to.0, update(ADD, to.0, to.1, amount)),
                ]
            }
            Work::Audit { .. } | Work::Census { .. } => Vec::new(),
            Work::Chase {
                target: (part, id), ..
            } => {
                let register = |fetched| item(fetched).expect("items are never deleted").0;
                let sum = register(&answers[0][0]) + register(&answers[1][0]) + 1;
                vec![(part, update(SET, part, id, sum % 97))]
            }
            Work::Order { part, owner, also } => {
                let mut effects = vec![
                    (part, draw(part, ORDERS, 0)),
                    (part, insert_drawn(part, 0, 0, owner, 1)),
                ];
                effects.extend(also.map(|(part, id)| (part, update(SET, part, id, owner))));
                effects
            }
            Work::Reap { .. } => entries(&answers[0][0]),
            Work::Purge { .. } => answers[0].iter().flat_map(entries).collect(),
        })
    }
}

impl Procedure for Work {
    fn declare(&self) -> Vec<PartitionRead> {
        match *self {
            Work::Order { part, also, .. } => {
                let counters = [Some((part, ORDERS)), also].into_iter().flatten();
                let mut reads: Vec<(u16, i64)> = counters.collect();
                reads.sort();
                reads.dedup();
                reads
                    .into_iter()
                    .map(|(part, id)| for_write(read_item(part, id)))
                    .collect()
            }
            _ => self.first_reads(),
        }
    }

    fn next(&self, answers: &[Vec<Fetched>]) -> Request {
        let reads = match answers.len() {
            0 => self.first_reads(),
            1 => self.second_read(answers).into_iter().collect(),
            _ => Vec::new(),
        };
        if !reads.is_empty() {
            return Request::Read(reads);
        }
        match self {
            Work::Audit { .. } => Request::CommitReads,
            _ => self.effects(answers).map_or(Request::Abort, commit),
        }
    }
}

struct Tally {
    runs: Vec<Run>,
    waits: u64,
    result: Result<(), String>,
}

/// What differs between the tests.
#[derive(Clone, Copy)]
struct Variant {
    read_locks: ReadLocks,
    /// Whether some of the procedures wait by age.
    by_age: bool,
    /// How often a node restarts from its log.
    restarts: u32,
}

const PLAIN: Variant = Variant {
    read_locks: ReadLocks::Long,
    by_age: false,
    restarts: 0,
};

/// One seed's run: a cluster of 2 or 3 nodes, some clients at each, few items.
fn run_seed(seed: u64, variant: Variant) -> Tally {
    let random = &mut Random::new(seed);
    let parts = 2 + random.below(2) as u16;
    let read_locks = variant.read_locks;
    let mut cluster = cluster(parts, ITEMS + 1, read_locks);
    if variant.restarts > 0 {
        cluster.keep_logs();
    }
    let clients = (0..3 + random.below(6)).map(|_| Client {
        node: NodeId(random.below(u64::from(parts)) as u16),
        procedures: (0..12)
            .map(|_| Box::new(Work::draw(random, parts)) as Box<dyn Procedure>)
            .collect::<VecDeque<_>>(),
    });
    let clients = clients.collect();
    // Without passing time, clocks advance only by messages.
    let ticks_max = Ticks(if random.percent(50) { 0 } else { 50_000 });
    let pace = Pace {
        declare: random.percent(50),
        by_age: match variant.by_age {
            true => [50, 80, 100][random.below(3) as usize],
            false => 0,
        },
        ticks_max,
        ..Pace::default()
    };
    let mut restarts = variant.restarts;
    let restart = |cluster: &mut Cluster<LockingNode>, random: &mut Random| {
        if restarts == 0 || !random.percent(1) {
            return None;
        }
        restarts -= 1;
        let id = NodeId(random.below(u64::from(parts)) as u16);
        cluster.restart(id, node(id, parts, empty(), read_locks));
        Some(id)
    };
    let runs = run_with_restarts(&mut cluster, clients, pace, random, restart);
    cluster.deliver_all();
    assert_idle(&cluster);
    let mut model = Model::loaded(parts, ITEMS + 1);
    let before = model.total();
    let result = check_serializable(&mut model, &runs);
    if result.is_ok() {
        let drawn = runs.iter().map(|run| match &run.outcome {
            Outcome::Committed(_, slots) => slots.len() as i64,
            _ => 0,
        });
        assert_eq!(
            model.total(),
            before + drawn.sum::<i64>(),
            "seed {seed}: money is made"
        );
    }
    Tally {
        runs,
        waits: cluster.counters().waits,
        result,
    }
}

#[test]
fn random_transactions_end_and_are_serializable() {
    let (mut committed, mut conflicts, mut waits) = (0, 0, 0);
    for seed in 0..400 {
        let tally = run_seed(seed, PLAIN);
        tally
            .result
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        committed += tally.runs.iter().filter(|run| run.committed()).count();
        for run in &tally.runs {
            assert!(
                !matches!(run.outcome, Outcome::Aborted(_)),
                "seed {seed}: {:?} must not fail",
                run.transaction
            );
            assert!(
                run.retries
                    .iter()
                    .all(|reason| *reason == AbortReason::Conflict)
            );
            conflicts += run.retries.len();
        }
        waits += tally.waits;
    }
    // Reachability: the schedules cause conflicts and waits.
    assert!(committed > 10_000, "{committed}");
    assert!(conflicts > 1_000, "{conflicts}");
    assert!(waits > 1_000, "{waits}");
}

/// Transactions that declare and transactions that wait by age, beside each other: all end, and no deadlock stops them.
#[test]
fn random_transactions_of_both_kinds_end_and_are_serializable() {
    let variant = Variant {
        by_age: true,
        ..PLAIN
    };
    check_variant(400, variant, |reason| *reason == AbortReason::Conflict);
}

#[test]
fn random_transactions_end_and_are_serializable_when_nodes_restart() {
    let variant = Variant {
        restarts: 4,
        ..PLAIN
    };
    check_variant(150, variant, is_transient);
}

#[test]
fn random_transactions_of_both_kinds_end_and_are_serializable_when_nodes_restart() {
    let variant = Variant {
        by_age: true,
        restarts: 4,
        ..PLAIN
    };
    check_variant(300, variant, is_transient);
}

#[test]
fn random_transactions_of_both_kinds_end_with_fewer_read_locks() {
    for read_locks in [ReadLocks::Short, ReadLocks::None] {
        let variant = Variant {
            read_locks,
            by_age: true,
            ..PLAIN
        };
        for seed in 0..100 {
            run_seed(seed, variant);
        }
    }
}

fn is_transient(reason: &AbortReason) -> bool {
    matches!(reason, AbortReason::Conflict | AbortReason::Restarted)
}

fn check_variant(seeds: u64, variant: Variant, expected: impl Fn(&AbortReason) -> bool) {
    let (mut committed, mut conflicts, mut waits) = (0, 0, 0);
    for seed in 0..seeds {
        let tally = run_seed(seed, variant);
        tally
            .result
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        committed += tally.runs.iter().filter(|run| run.committed()).count();
        for run in &tally.runs {
            assert!(
                !matches!(run.outcome, Outcome::Aborted(_)),
                "seed {seed}: {:?} must not fail",
                run.transaction
            );
            assert!(run.retries.iter().all(&expected), "seed {seed}");
            conflicts += run.retries.len();
        }
        waits += tally.waits;
    }
    assert!(committed > 20 * seeds as usize, "{committed}");
    assert!(conflicts > 1_000, "{conflicts}");
    assert!(waits > 1_000, "{waits}");
}

#[test]
fn with_fewer_read_locks_transactions_end_and_some_are_not_serializable() {
    for read_locks in [ReadLocks::Short, ReadLocks::None] {
        let variant = Variant {
            read_locks,
            ..PLAIN
        };
        let broken = (0..100).filter(|&seed| run_seed(seed, variant).result.is_err());
        assert!(
            broken.count() > 10,
            "{read_locks:?}: the check would not find a broken history"
        );
    }
}
