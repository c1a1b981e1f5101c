//! The clients of a model, and their scripts.
//!
//! A script is a function from the answers so far to the next request, so it can be evaluated in any
//! state. Writer *n* sets registers to *n* + 1 and adds the *n*-th power of two to counters, so a reader's
//! answer identifies the writers that it includes.

use anabranch_protocol::{
    AbortReason, PartitionEffects, PartitionRead, Reply, Request, TransactionId,
};
use anabranch_types::{Effect, Fetched, NodeId};

use crate::support::fixture::{self, ADD, SET};

/// An item: its partition, and its id there.
pub type Item = (u16, i64);

/// The script of a client, which runs once.
#[derive(Clone, Debug)]
pub enum Script {
    /// Writes items without reading them: each register, and each counter.
    Write {
        /// The writer's number.
        writer: u32,
        /// The items that it writes.
        items: Vec<Item>,
    },
    /// Sets the register of each item only.
    Assign {
        /// The writer's number.
        writer: u32,
        /// The items that it writes.
        items: Vec<Item>,
    },
    /// Reads items, one batch after the other.
    Read {
        /// The batches.
        batches: Vec<Vec<Item>>,
    },
    /// Reads items and sets the register of each to a value computed from all reads. Different orders of such
    /// transactions have different results.
    Rewrite {
        /// The writer's number.
        writer: u32,
        /// The items that it reads and writes.
        items: Vec<Item>,
        /// Whether it reads one after the other, in this order.
        in_turn: bool,
    },
    /// Reads an item, and sets the register of another to a quotation of it ([`quoted`]).
    Reply {
        /// The item that it reads.
        to: Item,
        /// The item that it writes.
        at: Item,
    },
    /// Takes an amount from one counter if the sum of several counters suffices. All reads are guards.
    Withdraw {
        /// The counters in the sum.
        from: Vec<Item>,
        /// The counter from which it takes.
        at: Item,
        /// The amount.
        amount: i64,
    },
}

impl Script {
    /// Whether the script writes.
    pub fn writes(&self) -> bool {
        !matches!(self, Script::Read { .. })
    }

    /// The accesses that it declares first, if the protocol requires that.
    pub fn declare(&self) -> Vec<PartitionRead> {
        let write = |item: &Item| fixture::for_write(fixture::read_item(item.0, item.1));
        match self {
            Script::Write { items, .. }
            | Script::Assign { items, .. }
            | Script::Rewrite { items, .. } => sorted(items.iter().map(write).collect()),
            Script::Read { batches } => sorted(batches.iter().flatten().map(read).collect()),
            Script::Reply { to, at } => sorted(vec![read(to), write(at)]),
            Script::Withdraw { from, at, .. } => sorted(
                from.iter()
                    .map(|item| if item == at { write(item) } else { read(item) })
                    .collect(),
            ),
        }
    }

    /// The next request, given the answer to each batch so far.
    pub fn next(&self, answers: &[Vec<Fetched>]) -> Request {
        match self {
            Script::Write { writer, items } => {
                let effects = |(part, id): &Item| {
                    let set = fixture::update(SET, *part, *id, value_of(*writer));
                    (
                        *part,
                        vec![set, fixture::update(ADD, *part, *id, 1 << writer)],
                    )
                };
                commit(items.iter().map(effects), false)
            }
            Script::Assign { writer, items } => {
                let effects = |(part, id): &Item| {
                    let set = fixture::update(SET, *part, *id, value_of(*writer));
                    (*part, vec![set])
                };
                commit(items.iter().map(effects), false)
            }
            Script::Read { batches } => match batches.get(answers.len()) {
                Some(batch) => Request::Read(sorted(batch.iter().map(read).collect())),
                None => Request::Commit(Vec::new()),
            },
            Script::Rewrite { items, in_turn, .. } if answers.len() < batches(items, *in_turn) => {
                let each = items.iter().map(|item| {
                    fixture::guarded(fixture::for_write(fixture::read_item(item.0, item.1)))
                });
                Request::Read(match in_turn {
                    true => each.skip(answers.len()).take(1).collect(),
                    false => sorted(each.collect()),
                })
            }
            Script::Rewrite { writer, items, .. } => {
                let new = rewritten(*writer, answers.iter().flatten());
                let effects =
                    |(part, id): &Item| (*part, vec![fixture::update(SET, *part, *id, new)]);
                commit(items.iter().map(effects), true)
            }
            Script::Reply { to, .. } if answers.is_empty() => Request::Read(vec![read(to)]),
            Script::Reply { at: (part, id), .. } => {
                let comment = answers.iter().flatten().map(|seen| self::seen(seen).0);
                let quote = quoted(comment.sum());
                let set = fixture::update(SET, *part, *id, quote);
                commit(std::iter::once((*part, vec![set])), false)
            }
            Script::Withdraw { from, .. } if answers.is_empty() => {
                let each = from.iter().map(read).map(fixture::guarded);
                Request::Read(sorted(each.collect()))
            }
            Script::Withdraw { at, amount, .. } => {
                let count = |fetched: &Fetched| seen(fetched).1;
                if answers.iter().flatten().map(count).sum::<i64>() < *amount {
                    return Request::Abort;
                }
                let take = fixture::update(ADD, at.0, at.1, -amount);
                commit([(at.0, vec![take])].into_iter(), true)
            }
        }
    }
}

/// In how many batches items are read.
fn batches(items: &[Item], in_turn: bool) -> usize {
    if in_turn { items.len() } else { 1 }
}

/// The value that a writer gives to registers.
pub fn value_of(writer: u32) -> i64 {
    i64::from(writer) + 1
}

/// What [`Script::Reply`] makes of a register that it has read.
pub fn quoted(register: i64) -> i64 {
    register + 10
}

/// What [`Script::Rewrite`] makes of what it has read.
pub fn rewritten<'f>(writer: u32, answers: impl Iterator<Item = &'f Fetched>) -> i64 {
    answers.fold(value_of(writer), |sum, fetched| {
        (sum * 7 + seen(fetched).0) % 999_983
    })
}

/// The register and the counter of an item that was read.
///
/// # Panics
/// When there is no such item.
pub fn seen(fetched: &Fetched) -> (i64, i64) {
    fixture::item(fetched).expect("no script deletes items")
}

fn read(item: &Item) -> PartitionRead {
    fixture::read_item(item.0, item.1)
}

fn sorted(mut reads: Vec<PartitionRead>) -> Vec<PartitionRead> {
    reads.sort_by_key(|read| read.partition);
    reads
}

/// A commit request with one entry for each partition, sorted.
fn commit(effects: impl Iterator<Item = (u16, Vec<Effect>)>, guards: bool) -> Request {
    let mut parts: Vec<PartitionEffects> = Vec::new();
    for (part, effects) in effects {
        let on = match guards {
            true => fixture::guarding(part, effects),
            false => fixture::on(part, effects),
        };
        match parts
            .iter_mut()
            .find(|other| other.partition == on.partition)
        {
            Some(other) => {
                let shift = other.effects.len() as u32;
                other.effects.extend(on.effects);
                other
                    .guards
                    .extend(on.guards.iter().map(|guard| guard + shift));
            }
            None => parts.push(on),
        }
    }
    parts.sort_by_key(|on| on.partition);
    Request::Commit(parts)
}

/// A client in some state of the cluster.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its one transaction.
    pub transaction: TransactionId,
    /// Its phase.
    pub phase: Phase,
    /// The answers to its reads.
    pub answers: Vec<Vec<Fetched>>,
    /// The clients with commits that were acknowledged before it began, one bit each.
    pub acknowledged: u32,
}

/// The phase of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has sent no request.
    NotStarted,
    /// It waits for an answer.
    Waiting,
    /// It has an answer, and has not sent its next request.
    Answered,
    /// Its transaction has committed.
    Committed,
    /// Its transaction was aborted.
    Aborted(AbortReason),
    /// It aborted its transaction.
    GaveUp,
    /// Its node crashed, or another node that had to decide: the outcome is unknown.
    Lost,
}

impl Client {
    /// A client before its first request.
    pub fn new(node: NodeId, number: usize) -> Client {
        let sequence = number as u64;
        Client {
            transaction: TransactionId { node, sequence },
            phase: Phase::NotStarted,
            answers: Vec::new(),
            acknowledged: 0,
        }
    }

    /// Receives a reply of the protocol.
    ///
    /// # Errors
    /// If it is not waiting for one.
    pub fn take(&mut self, reply: Reply) -> Result<(), String> {
        if self.phase != Phase::Waiting {
            return Err(format!(
                "{:?} received a reply without a request: {reply:?}",
                self.transaction
            ));
        }
        self.phase = match reply {
            Reply::Declared => Phase::Answered,
            Reply::Fetched(rows) => {
                self.answers.push(rows);
                Phase::Answered
            }
            Reply::Committed { .. } => Phase::Committed,
            Reply::Aborted(AbortReason::InDoubt) => Phase::Lost,
            Reply::Aborted(reason) => Phase::Aborted(reason),
            other => return Err(format!("an unknown reply {other:?}")),
        };
        Ok(())
    }

    /// Whether its transaction has ended.
    pub fn has_ended(&self) -> bool {
        matches!(
            self.phase,
            Phase::Committed | Phase::Aborted(_) | Phase::GaveUp | Phase::Lost
        )
    }

    /// Whether its transaction is running.
    pub fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Answered)
    }
}
