//! A mix of procedures over the [`fixture`](super::fixture), and the checker of what they read.
//!
//! Each kind of procedure keeps an invariant that some anomaly would break:
//!
//! * `Write` sets registers on several partitions to one unique value; `Look` reads some of them.
//!   No read may be fractured (ramp.txt, Definition 3.9), aborted or older than what had been
//!   acknowledged before it began.
//! * `Post` adds to a total and inserts entries elsewhere; `Audit` reads both. The entries sum up
//!   to the total in every read, although increments commute. `Move` deletes an entry and inserts
//!   it elsewhere; the range that it looks for one in is a guard.
//! * `Order` draws a number, inserts an entry with it and counts it on another partition;
//!   `Review` reads all three. Numbers are sequential, and each is counted.
//! * `Deposit` and `Withdraw` move one of two guarded counters; a withdrawal looks at both. Their
//!   sum is never negative.

use std::collections::BTreeMap;

use anabranch_protocol::{PartitionEffects, PartitionRead, Request};
use anabranch_types::{Effect, Fetched, NodeId, PartitionId, SlotId, Timestamp, Value};

use super::fixture::*;
use super::random::Random;
use super::schedule::{Client, Outcome, Procedure, Run};

/// Items `0..REGISTERS` of each partition are registers.
const REGISTERS: i64 = 3;
/// The total that posts add to.
const TOTAL: i64 = 4;
/// The counter that orders draw from.
const DRAWN: i64 = 5;
/// The counter of orders drawn elsewhere that name this partition.
const COUNTED: i64 = 6;
/// The guarded counter, on partitions 0 and 1.
const GUARDED: i64 = 7;

/// One procedure of the mix.
#[derive(Clone, Debug)]
pub enum Job {
    /// Sets registers to a value that no other sets.
    Write { value: i64, items: Vec<(u16, i64)> },
    /// Reads registers in batches, each partition's by range or by key.
    Look {
        batches: Vec<Vec<(u16, i64)>>,
        ranges: bool,
    },
    /// Adds to the total of one partition and inserts entries of it on others.
    Post {
        total: u16,
        entries: Vec<(u16, i64, i64)>,
    },
    /// Reads a total and its entries on all partitions, in one batch or in two.
    Audit {
        total: u16,
        partitions: u16,
        batches: Split,
    },
    /// Draws a number at home for an entry there, and counts it away.
    Order { home: u16, away: u16 },
    /// Reads all that orders write, in one batch or in two.
    Review { partitions: u16, batches: Split },
    /// Moves the first entry of a total from one partition to another, under a new id.
    Move {
        total: u16,
        from: u16,
        to: u16,
        id: i64,
    },
    /// Adds to a guarded counter.
    Deposit { part: u16, amount: i64 },
    /// Takes from one of the guarded counters if both together have enough.
    Withdraw { part: u16, amount: i64 },
}

/// How two sets of reads are requested.
#[derive(Clone, Copy, Debug)]
pub enum Split {
    /// In one batch.
    Together,
    /// The first set, then the second.
    FirstThenSecond,
    /// The second set, then the first.
    SecondThenFirst,
}

/// The parameters of a mix.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Partitions, one a node.
    pub partitions: u16,
    /// Clients, spread over the nodes.
    pub clients: u16,
    /// Procedures a client.
    pub procedures: u16,
    /// Whether guarded procedures take part.
    pub guards: bool,
}

/// Draws the clients of a mix.
pub fn clients(recipe: Recipe, random: &mut Random) -> Vec<Client<Job>> {
    let mut unique = 1_000_000;
    (0..recipe.clients)
        .map(|client| Client {
            node: NodeId(client % recipe.partitions),
            procedures: (0..recipe.procedures)
                .map(|_| {
                    unique += 10;
                    job(recipe, unique, random)
                })
                .collect(),
        })
        .collect()
}

fn job(recipe: Recipe, unique: i64, random: &mut Random) -> Job {
    let partitions = recipe.partitions;
    let part = |random: &mut Random| random.below(u64::from(partitions)) as u16;
    let registers = |count, random: &mut Random| {
        let mut items: Vec<_> = (0..count)
            .map(|_| (part(random), random.below(REGISTERS as u64) as i64))
            .collect();
        items.sort_unstable();
        items.dedup();
        items
    };
    let split = |random: &mut Random| match random.below(4) {
        0 => Split::FirstThenSecond,
        1 => Split::SecondThenFirst,
        _ => Split::Together,
    };
    match random.below(if recipe.guards { 13 } else { 10 }) {
        0 | 1 => Job::Write {
            value: unique,
            items: registers(1 + random.below(4), random),
        },
        2..=4 => Job::Look {
            batches: (0..1 + random.below(2))
                .map(|_| registers(1 + random.below(4), random))
                .collect(),
            ranges: random.percent(50),
        },
        5 => Job::Post {
            total: part(random),
            entries: (0..1 + random.below(2) as i64)
                .map(|at| (part(random), unique + at, 1 + random.below(9) as i64))
                .collect(),
        },
        6 | 7 => Job::Audit {
            total: part(random),
            partitions,
            batches: split(random),
        },
        8 => Job::Order {
            home: part(random),
            away: part(random),
        },
        9 => Job::Review {
            partitions,
            batches: split(random),
        },
        12 => Job::Move {
            total: part(random),
            from: part(random),
            to: part(random),
            id: unique,
        },
        10 => Job::Deposit {
            part: random.below(2) as u16,
            amount: 1 + random.below(5) as i64,
        },
        _ => Job::Withdraw {
            part: random.below(2) as u16,
            amount: 1 + random.below(9) as i64,
        },
    }
}

impl Split {
    fn batches(
        self,
        first: Vec<PartitionRead>,
        second: Vec<PartitionRead>,
    ) -> Vec<Vec<PartitionRead>> {
        match self {
            Split::FirstThenSecond => vec![first, second],
            Split::SecondThenFirst => vec![second, first],
            Split::Together => {
                let mut both = first;
                both.extend(second);
                both.sort_by_key(|read| read.partition);
                vec![both]
            }
        }
    }
}

impl Job {
    /// The batches of reads; a later batch does not depend on an earlier one.
    pub fn reads(&self) -> Vec<Vec<PartitionRead>> {
        match self {
            Job::Look { batches, ranges } => batches
                .iter()
                .map(|batch| match ranges {
                    false => batch
                        .iter()
                        .map(|(part, id)| read_item(*part, *id))
                        .collect(),
                    true => batch
                        .chunk_by(|left, right| left.0 == right.0)
                        .map(|items| read_items(items[0].0, 0, REGISTERS - 1))
                        .collect(),
                })
                .collect(),
            Job::Audit {
                total,
                partitions,
                batches,
            } => {
                let owner = i64::from(*total) + 100;
                let entries = (0..*partitions)
                    .map(|part| read_entries_of(part, owner))
                    .collect();
                batches.batches(vec![read_item(*total, TOTAL)], entries)
            }
            Job::Review {
                partitions,
                batches,
            } => {
                let home =
                    (0..*partitions).flat_map(|p| [read_item(p, DRAWN), read_entries_of(p, 1)]);
                let away = (0..*partitions).map(|part| read_item(part, COUNTED));
                batches.batches(home.collect(), away.collect())
            }
            Job::Move { total, from, .. } => {
                vec![vec![guarded(read_entries_of(
                    *from,
                    i64::from(*total) + 100,
                ))]]
            }
            Job::Withdraw { .. } => {
                vec![vec![
                    guarded(read_item(0, GUARDED)),
                    guarded(read_item(1, GUARDED)),
                ]]
            }
            _ => Vec::new(),
        }
    }

    fn effects(&self, answers: &[Vec<Fetched>]) -> Option<Vec<PartitionEffects>> {
        let mut by_partition: BTreeMap<u16, Vec<Effect>> = BTreeMap::new();
        let mut add = |part, effect| by_partition.entry(part).or_default().push(effect);
        match self {
            Job::Write { value, items } => {
                items
                    .iter()
                    .for_each(|(part, id)| add(*part, update(SET, *part, *id, *value)));
            }
            Job::Post { total, entries } => {
                let sum = entries.iter().map(|(_, _, amount)| amount).sum();
                add(*total, update(ADD, *total, TOTAL, sum));
                for (part, id, amount) in entries {
                    add(*part, insert(*part, *id, i64::from(*total) + 100, *amount));
                }
            }
            Job::Order { home, away } => {
                add(*home, draw(*home, DRAWN, 0));
                add(*home, insert_drawn(*home, 0, 0, 1, i64::from(*away)));
                add(*away, update(ADD, *away, COUNTED, 1));
            }
            Job::Move {
                total,
                from,
                to,
                id,
            } => {
                let Some([_, old, owner, amount]) = rows(ENTRY, &answers[0][0]).first().copied()
                else {
                    return Some(Vec::new());
                };
                assert_eq!(
                    owner,
                    i64::from(*total) + 100,
                    "the index finds its owner's"
                );
                let insert = insert(*to, *id, owner, amount);
                if from == to {
                    return Some(vec![guarding(*from, vec![delete(*from, old), insert])]);
                }
                let mut both = vec![
                    guarding(*from, vec![delete(*from, old)]),
                    guarding(*to, vec![insert]),
                ];
                both.sort_by_key(|on| on.partition);
                return Some(both);
            }
            Job::Deposit { part, amount } => {
                return Some(vec![guarding(
                    *part,
                    vec![update(ADD, *part, GUARDED, *amount)],
                )]);
            }
            Job::Withdraw { part, amount } => {
                let has = |row: &Fetched| item(row).expect("guarded items stay").1;
                if answers[0].iter().map(has).sum::<i64>() < *amount {
                    return None;
                }
                return Some(vec![guarding(
                    *part,
                    vec![update(ADD, *part, GUARDED, -*amount)],
                )]);
            }
            Job::Look { .. } | Job::Audit { .. } | Job::Review { .. } => {}
        }
        let on = |(part, effects)| on(part, effects);
        Some(by_partition.into_iter().map(on).collect())
    }

    /// The registers that were read, with their values.
    fn seen(&self, answers: &[Vec<Fetched>]) -> Vec<((u16, i64), i64)> {
        let mut seen = Vec::new();
        let reads = self.reads();
        for (read, fetched) in reads.iter().flatten().zip(answers.iter().flatten()) {
            match fetched.answer() {
                Fetched::Point(_) => {
                    let row = fetched_columns(fetched);
                    seen.push(((row[0] as u16, row[1]), row[2]));
                }
                Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => {
                    let rows = rows(ITEM, fetched);
                    assert_eq!(
                        rows.len(),
                        REGISTERS as usize,
                        "{read:?} finds all registers"
                    );
                    seen.extend(rows.iter().map(|row| ((row[0] as u16, row[1]), row[2])));
                }
            }
        }
        seen
    }
}

fn fetched_columns(fetched: &Fetched) -> [i64; 4] {
    match fetched.answer() {
        Fetched::Point(Some(row)) => columns(ITEM, row),
        _ => panic!("a register stays"),
    }
}

impl Procedure for Job {
    /// What is read, and what is updated in place.
    fn declare(&self) -> Vec<PartitionRead> {
        let mut declared: Vec<PartitionRead> = self.reads().into_iter().flatten().collect();
        let none = [vec![Fetched::Point(None); 2]];
        let effects = match self {
            Job::Withdraw { part, .. } => {
                let own = PartitionId(*part);
                declared
                    .iter_mut()
                    .for_each(|d| d.access.for_write = d.partition == own);
                None
            }
            // Its deletes depend on its reads, and so cannot be declared.
            Job::Move { .. } => {
                declared.iter_mut().for_each(|d| d.access.for_write = true);
                None
            }
            _ => self.effects(&none),
        };
        for on in effects.into_iter().flatten() {
            for effect in &on.effects {
                if let Effect::Update { table, key, .. } = effect {
                    let read = anabranch_types::Read::Point {
                        table: *table,
                        key: key.clone(),
                    };
                    declared.push(for_write(PartitionRead {
                        partition: on.partition,
                        read,
                        access: Default::default(),
                    }));
                }
            }
        }
        declared.sort_by_key(|read| read.partition);
        declared
    }

    fn next(&self, answers: &[Vec<Fetched>]) -> Request {
        match self.reads().into_iter().nth(answers.len()) {
            Some(batch) => Request::Read(batch),
            None => match self.effects(answers) {
                Some(effects) => Request::Commit(effects),
                None => Request::Abort,
            },
        }
    }
}

/// The checker of a whole mix.
pub struct Checker<'r> {
    runs: &'r [Run<Job>],
    /// By value.
    writes: BTreeMap<i64, Written<'r>>,
}

/// A committed write: its timestamp, its items, the turns in which it began and ended.
type Written<'r> = (Timestamp, &'r [(u16, i64)], (u64, u64));

impl<'r> Checker<'r> {
    /// A checker of these runs.
    pub fn new(runs: &'r [Run<Job>]) -> Checker<'r> {
        let mut writes = BTreeMap::new();
        for run in runs {
            if let (Job::Write { value, items }, Outcome::Committed(at, _)) =
                (&run.procedure, &run.outcome)
            {
                writes.insert(*value, (*at, items.as_slice(), run.turns));
            }
        }
        Checker { runs, writes }
    }

    /// Checks every run.
    ///
    /// # Errors
    /// The first anomaly.
    pub fn check(&self) -> Result<(), String> {
        let mut numbers = Vec::new();
        for run in self.runs.iter().filter(|run| run.committed()) {
            let checked = match &run.procedure {
                Job::Look { .. } => self.check_look(run),
                Job::Audit { total, .. } => self.check_audit(run, *total),
                Job::Review { partitions, .. } => self.check_review(run, *partitions),
                Job::Order { home, .. } => {
                    let Outcome::Committed(_, slots) = &run.outcome else {
                        unreachable!()
                    };
                    match slots.as_slice() {
                        [(SlotId(0), Value::Int(number))] => numbers.push((*home, *number)),
                        other => return Err(format!("an order drew {other:?}")),
                    }
                    Ok(())
                }
                _ => Ok(()),
            };
            checked.map_err(|error| format!("{error}, in {:?}", run.procedure))?;
        }
        numbers.sort_unstable();
        let mut next = (0, 1);
        for (home, number) in numbers {
            next = if home == next.0 { next } else { (home, 1) };
            if number != next.1 {
                return Err(format!(
                    "order {number} of {home} comes where {} should",
                    next.1
                ));
            }
            next.1 += 1;
        }
        for run in self.runs {
            if let Outcome::Aborted(reason) = &run.outcome {
                let (procedure, reason) = (&run.procedure, reason.name());
                return Err(format!("{procedure:?} is refused for ever: {reason}"));
            }
        }
        Ok(())
    }

    fn check_look(&self, run: &Run<Job>) -> Result<(), String> {
        let seen = run.procedure.seen(&run.answers);
        let at = |value: i64| match value {
            0 => Ok(Timestamp::ZERO),
            _ => match self.writes.get(&value) {
                Some((at, _, _)) => Ok(*at),
                None => Err(format!("{value} is read and was never committed")),
            },
        };
        for (item, value) in &seen {
            let shown = at(*value)?;
            if let Some((other, _)) = seen.iter().find(|(other, v)| other == item && v != value) {
                return Err(format!("{other:?} is read twice and has changed"));
            }
            for (_, other) in &seen {
                let written = self
                    .writes
                    .get(other)
                    .is_some_and(|(_, items, _)| items.contains(item));
                if written && shown < at(*other)? {
                    return Err(format!(
                        "fractured: {item:?} is {value}, but {other} is seen"
                    ));
                }
            }
            for (other, (at, items, turns)) in &self.writes {
                if turns.1 < run.turns.0 && items.contains(item) && shown < *at {
                    return Err(format!(
                        "{item:?} is {value}, though {other} had been committed"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_audit(&self, run: &Run<Job>, total: u16) -> Result<(), String> {
        let (mut count, mut sum) = (0, 0);
        for fetched in run.answers.iter().flatten() {
            match fetched.answer() {
                Fetched::Point(_) => count = fetched_columns(fetched)[3],
                Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => {
                    sum += rows(ENTRY, fetched).iter().map(|e| e[3]).sum::<i64>()
                }
            }
        }
        if count != sum {
            return Err(format!(
                "the total is {count}, but the entries sum up to {sum}"
            ));
        }
        let posted = |run: &Run<Job>| match &run.procedure {
            Job::Post { total: to, entries } if *to == total && run.committed() => {
                entries.iter().map(|(_, _, amount)| amount).sum()
            }
            _ => 0,
        };
        let before = self.runs.iter().filter(|other| other.turns.1 < run.turns.0);
        let acknowledged: i64 = before.map(posted).sum();
        if count < acknowledged {
            return Err(format!(
                "the total is {count}, though {acknowledged} had been posted"
            ));
        }
        Ok(())
    }

    fn check_review(&self, run: &Run<Job>, partitions: u16) -> Result<(), String> {
        let mut counted = BTreeMap::new();
        let mut drawn = BTreeMap::new();
        let mut entries = Vec::new();
        let reads = run.procedure.reads();
        for (read, fetched) in reads.iter().flatten().zip(run.answers.iter().flatten()) {
            match fetched.answer() {
                Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => {
                    entries.extend(rows(ENTRY, fetched))
                }
                Fetched::Point(_) => {
                    let [_, id, _, count] = fetched_columns(fetched);
                    let into = if id == DRAWN {
                        &mut drawn
                    } else {
                        &mut counted
                    };
                    into.insert(read.partition.0, count);
                }
            }
        }
        for part in 0..partitions {
            let mut ids: Vec<_> = entries
                .iter()
                .filter(|e| e[0] == i64::from(part))
                .map(|e| e[1])
                .collect();
            ids.sort_unstable();
            if !ids.iter().copied().eq(1..=drawn[&part]) {
                return Err(format!(
                    "{} are drawn on {part}, the orders are {ids:?}",
                    drawn[&part]
                ));
            }
            let naming = entries.iter().filter(|e| e[3] == i64::from(part)).count() as i64;
            if naming != counted[&part] {
                return Err(format!(
                    "{naming} orders name {part}, {} are counted",
                    counted[&part]
                ));
            }
        }
        Ok(())
    }

    /// The deposits less the withdrawals.
    pub fn guarded_sum(&self) -> i64 {
        let moved = |run: &Run<Job>| match run.procedure {
            Job::Deposit { amount, .. } if run.committed() => amount,
            Job::Withdraw { amount, .. } if run.committed() => -amount,
            _ => 0,
        };
        self.runs.iter().map(moved).sum()
    }

    /// Checks that the guarded counters, read at the end, equal the deposits less the withdrawals and are not
    /// negative.
    ///
    /// # Errors
    /// Their values.
    pub fn check_guarded(&self, ends: &[Fetched]) -> Result<(), String> {
        let sum: i64 = ends.iter().map(|fetched| fetched_columns(fetched)[3]).sum();
        if sum < 0 || sum != self.guarded_sum() {
            return Err(format!(
                "the guarded sum is {sum}, moved were {}",
                self.guarded_sum()
            ));
        }
        Ok(())
    }
}

/// Reads the guarded counters.
pub fn read_guarded() -> Vec<PartitionRead> {
    vec![read_item(0, GUARDED), read_item(1, GUARDED)]
}

/// One procedure of each reading kind over all items, for the final check of a run.
pub fn last_look(partitions: u16) -> Vec<Job> {
    let all = (0..partitions)
        .flat_map(|part| (0..REGISTERS).map(move |id| (part, id)))
        .collect();
    let mut jobs = vec![
        Job::Look {
            batches: vec![all],
            ranges: false,
        },
        Job::Review {
            partitions,
            batches: Split::Together,
        },
    ];
    jobs.extend((0..partitions).map(|total| Job::Audit {
        total,
        partitions,
        batches: Split::Together,
    }));
    jobs
}
