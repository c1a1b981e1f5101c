//! The properties of a cluster that runs the scripts of [`crate::client`].
//!
//! They depend on the clients' answers and the final stores only, and not on the protocols. A reader's
//! answer contains the numbers of the writers that it includes. Serializability is checked by trying all
//! serial orders.

use std::collections::BTreeMap;

use anabranch_types::NodeId;

use crate::client::{Client, Item, Phase, Script, quoted, rewritten, seen, value_of};
use crate::cluster::{Scenario, State, Subject};
use crate::explore::Property;
use crate::support::fixture::{ITEM, columns, item_key};

/// The initial items of all partitions. Registers are 0.
#[derive(Clone, Debug)]
pub struct Initial {
    /// The number of partitions, each with one item, 0.
    pub partitions: u16,
    /// The initial value of counters.
    pub count: i64,
}

/// Read atomic isolation (ramp.txt, Definition 3.10), for scripts in which all writers write the same items: a reader
/// includes the same writers in each item that it reads. Also, it reads committed writes only; and, if `recent`, all
/// writes that were acknowledged before it began.
#[derive(Clone, Debug)]
pub struct ReadAtomic {
    /// The initial items.
    pub start: Initial,
    /// Whether transactions of the other coordinators have to end after a coordinator's crash.
    pub unblocked: bool,
    /// Whether participants have to settle the transactions of crashed coordinators.
    pub terminates: bool,
    /// Whether a reader has to include all writes that were acknowledged before it began.
    pub recent: bool,
}

/// Serializability: some serial order of the committed transactions explains their reads and the final stores.
#[derive(Clone, Debug)]
pub struct Serializable {
    /// The initial items.
    pub start: Initial,
}

/// Causality (ramp.txt §4.7): a reader of a reply also sees the comment that it quotes.
#[derive(Clone, Copy, Debug)]
pub struct CausalReplies {
    /// The item with the copy of the comment, which readers read.
    pub comment_copy: Item,
    /// The item with the reply.
    pub reply: Item,
}

impl<P: Subject> Property<P> for CausalReplies {
    fn check(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String> {
        for (number, client, script) in runs(state, scenario) {
            let Script::Read { batches } = script else {
                continue;
            };
            let items = batches.iter().flatten();
            let read: BTreeMap<Item, i64> = items
                .copied()
                .zip(client.answers.iter().flatten().map(|row| seen(row).0))
                .collect();
            let (comment_copy, reply) = (read.get(&self.comment_copy), read.get(&self.reply));
            if let (Some(comment_copy), Some(reply)) = (comment_copy, reply)
                && *reply > quoted(*comment_copy)
            {
                return Err(format!(
                    "client {number} has read {reply}, which quotes a comment, and {comment_copy} in its place"
                ));
            }
        }
        Ok(())
    }

    fn check_end(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String> {
        check_finished(state, scenario)
    }
}

/// Quorum operation (ramp.txt §6.2), for writers that assign all registers: a reader finds one writer's value in all
/// registers, and at the end all copies are equal. After the crash of a copy no client of another node waits.
#[derive(Clone, Copy, Debug)]
pub struct ConsistentCopies {
    /// The number of copies of each partition. Copy *c* of partition *p* is node *p* · `copies` + *c*.
    pub copies: u16,
}

impl<P: Subject> Property<P> for ConsistentCopies {
    fn check(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String> {
        for (number, client, script) in runs(state, scenario) {
            if let Script::Read { .. } = script {
                let values = client.answers.iter().flatten().map(|row| seen(row).0);
                let mut values: Vec<i64> = values.collect();
                values.dedup();
                if values.len() > 1 {
                    return Err(format!("client {number} has read {values:?} side by side"));
                }
            }
        }
        Ok(())
    }

    fn check_end(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String> {
        if state.has_crashed() {
            let mut clients = runs(state, scenario);
            let waits = |client: &Client| {
                state.node(client.transaction.node).is_some() && !client.has_ended()
            };
            return match clients.find(|(_, client, _)| waits(client)) {
                Some((number, ..)) => Err(format!("client {number} waits for a crashed copy")),
                None => Ok(()),
            };
        }
        check_finished(state, scenario)?;
        let nodes = (0..2 * self.copies).map(NodeId);
        let registers = nodes.filter_map(|node| {
            let item = item_key(node.0 / self.copies, 0);
            let version = state.node(node)?.store().item(ITEM, &item)?.latest();
            Some(columns(ITEM, version.row()?)[2])
        });
        let mut registers: Vec<i64> = registers.collect();
        let count = registers.len();
        registers.dedup();
        if count != usize::from(2 * self.copies) || registers.len() != 1 {
            return Err(format!("at the end the {count} copies have {registers:?}"));
        }
        let mut all = runs(state, scenario);
        let wrote = all
            .any(|(_, client, script)| script.writes() && matches!(client.phase, Phase::Committed));
        match wrote && registers == [0] {
            true => Err("nothing is left of what was acknowledged".to_owned()),
            false => Ok(()),
        }
    }
}

/// Withdrawals under guards: the sum of the counters is never negative.
#[derive(Clone, Debug)]
pub struct GuardedSum {
    /// The initial items.
    pub start: Initial,
}

/// The clients with their scripts.
fn runs<'s, P: Subject>(
    state: &'s State<P>,
    scenario: &'s Scenario,
) -> impl Iterator<Item = (usize, &'s Client, &'s Script)> {
    let scripts = scenario.scripts.iter();
    let both = state.clients().zip(scripts).enumerate();
    both.map(|(number, (client, (_, script)))| (number, client, script))
}

/// The register and the counter of an item, in the newest version.
fn newest<P: Subject>(state: &State<P>, item: Item) -> Option<(i64, i64)> {
    let store = state.node(NodeId(item.0))?.store();
    let version = store.item(ITEM, &item_key(item.0, item.1))?.latest();
    let [_, _, register, count] = columns(ITEM, version.row()?);
    Some((register, count))
}

/// If no node has crashed: all clients have ended, and all nodes are idle.
fn check_finished<P: Subject>(state: &State<P>, scenario: &Scenario) -> Result<(), String> {
    if state.has_crashed() {
        return Ok(());
    }
    for (number, client, _) in runs(state, scenario) {
        if !client.has_ended() {
            return Err(format!(
                "client {number} waits for ever: {:?}",
                client.phase
            ));
        }
    }
    for (id, node) in state.nodes() {
        if !node.is_idle() {
            return Err(format!("{id} is not idle at the end"));
        }
    }
    Ok(())
}

/// The writers that a counter includes, one bit each.
fn writers(count: i64, start: i64) -> u64 {
    (count - start) as u64
}

/// A writer's client and its phase.
fn writer_of<P: Subject>(
    state: &State<P>,
    scenario: &Scenario,
    writer: u32,
) -> Option<(usize, Phase)> {
    let mut found = runs(state, scenario).filter(
        |(_, _, script)| matches!(script, Script::Write { writer: other, .. } if *other == writer),
    );
    found
        .next()
        .map(|(number, client, _)| (number, client.phase.clone()))
}

impl ReadAtomic {
    /// One item's row: its register is one of the writers that its counter includes.
    fn check_row(&self, (register, count): (i64, i64)) -> Result<(), String> {
        let included = writers(count, self.start.count);
        let named = match register {
            0 => included == 0,
            value => included & 1 << (value - 1) != 0,
        };
        match named {
            true => Ok(()),
            false => Err(format!(
                "the register is {register} and the counter has writers {included:#b}"
            )),
        }
    }

    /// After the crash of a coordinator that owned no partition its transaction is installed, removed or prepared at
    /// all participants alike. Every writer writes on all partitions.
    fn check_terminated<P: Subject>(&self, state: &State<P>) -> Result<(), String> {
        let parts = (0..self.start.partitions).map(NodeId);
        let knows = |node: NodeId| {
            let prepared = state.node(node).map(Subject::prepared);
            (newest(state, (node.0, 0)), prepared)
        };
        let known: Vec<_> = parts.map(knows).collect();
        match known.iter().all(|one| *one == known[0]) {
            true => Ok(()),
            false => Err(format!(
                "the coordinator has crashed, and its participants (rows, prepared) do not agree: \
                 {known:?}"
            )),
        }
    }

    fn check_reader<P: Subject>(
        &self,
        state: &State<P>,
        scenario: &Scenario,
        reader: (usize, &Client),
    ) -> Result<(), String> {
        let (number, client) = reader;
        let rows: Vec<(i64, i64)> = client.answers.iter().flatten().map(seen).collect();
        for row in &rows {
            self.check_row(*row)?;
            if *row != rows[0] {
                return Err(format!(
                    "fractured: client {number} has read (register, counter) {rows:?}"
                ));
            }
        }
        let Some(row) = rows.first() else {
            return Ok(());
        };
        let included = writers(row.1, self.start.count);
        for writer in 0..u64::BITS {
            let Some((of, phase)) = writer_of(state, scenario, writer) else {
                continue;
            };
            let is_included = included & 1 << writer != 0;
            if is_included && matches!(phase, Phase::Aborted(_) | Phase::NotStarted) {
                return Err(format!(
                    "client {number} has read what client {of} wrote, which is {phase:?}"
                ));
            }
            if self.recent && !is_included && client.acknowledged & 1 << of != 0 {
                return Err(format!(
                    "client {number} has not read what client {of} wrote, which had been \
                     acknowledged before it began"
                ));
            }
        }
        Ok(())
    }
}

impl<P: Subject> Property<P> for ReadAtomic {
    fn check(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String> {
        for (number, client, script) in runs(state, scenario) {
            let is_reader = matches!(script, Script::Read { .. });
            // A procedure's reads count even if it is aborted later.
            if is_reader && !client.answers.is_empty() {
                self.check_reader(state, scenario, (number, client))?;
            }
        }
        Ok(())
    }

    fn check_end(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String> {
        check_finished(state, scenario)?;
        if state.has_crashed() {
            let live = |client: &Client| state.node(client.transaction.node).is_some();
            let stuck =
                runs(state, scenario).find(|(_, client, _)| live(client) && !client.has_ended());
            return match stuck {
                Some((number, client, _)) if self.unblocked => Err(format!(
                    "client {number} waits for a crashed node: {:?}",
                    client.phase
                )),
                _ if self.terminates => self.check_terminated(state),
                _ => Ok(()),
            };
        }
        let sum = |phase: Phase| -> i64 {
            let of_phase = runs(state, scenario).filter(|run| run.1.phase == phase);
            let each = of_phase.filter_map(|(_, _, script)| match script {
                Script::Write { writer, .. } => Some(1 << writer),
                _ => None,
            });
            each.sum()
        };
        let (committed, lost) = (sum(Phase::Committed), sum(Phase::Lost));
        let rows = (0..self.start.partitions).map(|part| newest(state, (part, 0)));
        let rows: Vec<_> = rows.collect();
        // Each transaction with an unknown outcome has committed at all partitions, or at none.
        let is = |row: &Option<(i64, i64)>| {
            let included = row.map(|row| row.1 - self.start.count);
            *row == rows[0] && included.is_some_and(|included| included & !lost == committed)
        };
        if !rows.iter().all(is) {
            return Err(format!(
                "writers {committed:#b} have committed, and the stores hold {rows:?}"
            ));
        }
        Ok(())
    }
}

impl Serializable {
    /// Runs one transaction on the items. Returns whether it reads there what it has read.
    fn replay(
        &self,
        items: &mut BTreeMap<Item, (i64, i64)>,
        client: &Client,
        script: &Script,
    ) -> bool {
        let start = (0, self.start.count);
        let get = |items: &BTreeMap<Item, (i64, i64)>, item: &Item| {
            items.get(item).copied().unwrap_or(start)
        };
        let mut answers = client.answers.iter().flatten();
        let mut reads = |items: &BTreeMap<Item, (i64, i64)>, item: &Item| {
            answers
                .next()
                .is_none_or(|row| seen(row) == get(items, item))
        };
        match script {
            Script::Read { batches } => batches.iter().flatten().all(|item| reads(items, item)),
            Script::Write {
                writer,
                items: written,
            } => {
                for item in written {
                    let row = (value_of(*writer), get(items, item).1 + (1 << writer));
                    items.insert(*item, row);
                }
                true
            }
            Script::Assign {
                writer,
                items: written,
            } => {
                for item in written {
                    let row = (value_of(*writer), get(items, item).1);
                    items.insert(*item, row);
                }
                true
            }
            Script::Rewrite {
                writer,
                items: written,
                in_turn: _,
            } => {
                let same = written.iter().all(|item| reads(items, item));
                let new = rewritten(*writer, client.answers.iter().flatten());
                for item in written {
                    let row = (new, get(items, item).1);
                    items.insert(*item, row);
                }
                same
            }
            Script::Reply { to, at } => {
                let same = reads(items, to);
                let quote = quoted(get(items, to).0);
                let row = (quote, get(items, at).1);
                items.insert(*at, row);
                same
            }
            Script::Withdraw { from, at, amount } => {
                let same = from.iter().all(|item| reads(items, item));
                let row = get(items, at);
                items.insert(*at, (row.0, row.1 - amount));
                same
            }
        }
    }

    /// Whether some order of `left`, after the transactions that gave `items`, explains all reads and the stores.
    fn explain<P: Subject>(
        &self,
        state: &State<P>,
        items: &BTreeMap<Item, (i64, i64)>,
        left: &[(usize, &Client, &Script)],
    ) -> bool {
        if left.is_empty() {
            let start = (0, self.start.count);
            return (0..self.start.partitions).all(|part| {
                let expected = items.get(&(part, 0)).copied().unwrap_or(start);
                // A crashed node's store is unknown.
                state.node(NodeId(part)).is_none() || newest(state, (part, 0)) == Some(expected)
            });
        }
        (0..left.len()).any(|next| {
            let mut after = items.clone();
            let (_, client, script) = left[next];
            let mut rest = left.to_vec();
            rest.remove(next);
            self.replay(&mut after, client, script) && self.explain(state, &after, &rest)
        })
    }
}

impl<P: Subject> Property<P> for Serializable {
    fn check(&self, _: &State<P>, _: &Scenario) -> Result<(), String> {
        Ok(())
    }

    fn check_end(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String> {
        check_finished(state, scenario)?;
        if state.has_crashed() {
            // Only a recovery could settle the transactions that are in doubt.
            return Ok(());
        }
        let committed = runs(state, scenario).filter(|run| run.1.phase == Phase::Committed);
        let committed: Vec<_> = committed.collect();
        // A transaction with an unknown outcome may have committed.
        let lost = runs(state, scenario).filter(|run| run.1.phase == Phase::Lost);
        let lost = lost.filter(|(_, client, script)| script.writes() && !client.answers.is_empty());
        let lost: Vec<_> = lost.collect();
        let explained = (0..1u32 << lost.len()).any(|chosen| {
            let chosen = (0..lost.len()).filter(|at| chosen & 1 << at != 0);
            let mut all = committed.clone();
            all.extend(chosen.map(|at| lost[at]));
            self.explain(state, &BTreeMap::new(), &all)
        });
        match explained {
            true => Ok(()),
            false => {
                let reads = committed.iter().map(|(number, client, _)| {
                    let rows: Vec<_> = client.answers.iter().flatten().map(seen).collect();
                    format!("client {number} read {rows:?}")
                });
                let reads: Vec<_> = reads.collect();
                let rows = (0..self.start.partitions).map(|part| newest(state, (part, 0)));
                let rows: Vec<_> = rows.flatten().collect();
                Err(format!(
                    "no serial order explains that {} and the stores hold {rows:?}",
                    reads.join(", ")
                ))
            }
        }
    }
}

impl<P: Subject> Property<P> for GuardedSum {
    fn check(&self, _: &State<P>, _: &Scenario) -> Result<(), String> {
        Ok(())
    }

    fn check_end(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String> {
        check_finished(state, scenario)?;
        let rows = (0..self.start.partitions).filter_map(|part| newest(state, (part, 0)));
        let sum: i64 = rows.map(|row| row.1).sum();
        match sum >= 0 {
            true => Ok(()),
            false => Err(format!("the guarded sum is {sum}")),
        }
    }
}
