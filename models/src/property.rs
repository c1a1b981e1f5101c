//! What must hold of a cluster that runs the scripts of [`crate::client`].
//!
//! Judged from what clients were told and from what the stores hold in the end, by definitions that
//! know nothing of the protocols: a reader's answer names the writers whose effects it includes,
//! and serial orders are tried one after the other.

use std::collections::BTreeMap;

use anabranch_types::NodeId;

use crate::client::{Client, Item, Phase, Script, quoted, rewritten, seen, value_of};
use crate::cluster::{Setting, State, Subject};
use crate::explore::Property;
use crate::support::fixture::{ITEM, columns, item_key};

/// The items of all partitions at the start: registers are 0.
#[derive(Clone, Debug)]
pub struct Start {
    /// How many partitions hold an item 0 each.
    pub partitions: u16,
    /// What counters hold.
    pub count: i64,
}

/// Read atomic isolation (ramp.txt, Definition 3.10), for scripts in which all writers write the
/// same items: a reader includes the same writers in each item that it reads. Also that it reads
/// from committed transactions alone and, where that is promised, from all that had been acknowledged
/// when it began.
#[derive(Clone, Debug)]
pub struct ReadAtomic {
    /// What everything starts from.
    pub start: Start,
    /// Whether those whose coordinator lives come to an end although another one crashes.
    pub unblocked: bool,
    /// Whether what crashed coordinators leave behind is ended by those who have prepared it.
    pub terminates: bool,
    /// Whether a reader has to include all that had been acknowledged when it began.
    pub recent: bool,
}

/// Serializability: some serial order of the committed transactions gives each what it read, and
/// the stores what they hold.
#[derive(Clone, Debug)]
pub struct Serializable {
    /// What everything starts from.
    pub start: Start,
}

/// Causality (ramp.txt §4.7): whoever sees a reply sees the comment that it quotes.
#[derive(Clone, Copy, Debug)]
pub struct Replied {
    /// Where the comment is that readers read.
    pub wall: Item,
    /// Where the reply is.
    pub reply: Item,
}

impl<P: Subject> Property<P> for Replied {
    fn check(&self, state: &State<P>, setting: &Setting) -> Result<(), String> {
        for (number, client, script) in runs(state, setting) {
            let Script::Look { batches } = script else {
                continue;
            };
            let items = batches.iter().flatten();
            let read: BTreeMap<Item, i64> = items
                .copied()
                .zip(client.answers.iter().flatten().map(|row| seen(row).0))
                .collect();
            let (wall, reply) = (read.get(&self.wall), read.get(&self.reply));
            if let (Some(wall), Some(reply)) = (wall, reply)
                && *reply > quoted(*wall)
            {
                return Err(format!(
                    "client {number} has read {reply}, which quotes a comment, and {wall} in its place"
                ));
            }
        }
        Ok(())
    }

    fn check_end(&self, state: &State<P>, setting: &Setting) -> Result<(), String> {
        check_finished(state, setting)
    }
}

/// Quorum operation (ramp.txt §6.2), for writers that each assign all registers: a reader finds one writer's
/// value in all of them; and in the end every copy has the same. A copy that crashes keeps nobody at another
/// node waiting.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// How many copies each partition has: copy *c* of partition *p* is node *p* times that, and *c*.
    pub copies: u16,
}

impl<P: Subject> Property<P> for Copied {
    fn check(&self, state: &State<P>, setting: &Setting) -> Result<(), String> {
        for (number, client, script) in runs(state, setting) {
            if let Script::Look { .. } = script {
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

    fn check_end(&self, state: &State<P>, setting: &Setting) -> Result<(), String> {
        if state.has_crashed() {
            let mut clients = runs(state, setting);
            let waits = |client: &Client| {
                state.node(client.transaction.node).is_some() && !client.has_ended()
            };
            return match clients.find(|(_, client, _)| waits(client)) {
                Some((number, ..)) => Err(format!("client {number} waits for a crashed copy")),
                None => Ok(()),
            };
        }
        check_finished(state, setting)?;
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
            return Err(format!("in the end the {count} copies show {registers:?}"));
        }
        let mut all = runs(state, setting);
        let wrote = all
            .any(|(_, client, script)| script.writes() && matches!(client.phase, Phase::Committed));
        match wrote && registers == [0] {
            true => Err("nothing is left of what was acknowledged".to_owned()),
            false => Ok(()),
        }
    }
}

/// What withdrawals leave: no sum below zero.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// What everything starts from.
    pub start: Start,
}

/// The clients with their scripts.
fn runs<'s, P: Subject>(
    state: &'s State<P>,
    setting: &'s Setting,
) -> impl Iterator<Item = (usize, &'s Client, &'s Script)> {
    let scripts = setting.scripts.iter();
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

/// All have ended and have left nothing behind, if nobody crashed.
fn check_finished<P: Subject>(state: &State<P>, setting: &Setting) -> Result<(), String> {
    if state.has_crashed() {
        return Ok(());
    }
    for (number, client, _) in runs(state, setting) {
        if !client.has_ended() {
            return Err(format!(
                "client {number} waits for ever: {:?}",
                client.phase
            ));
        }
    }
    for (id, node) in state.nodes() {
        if !node.is_idle() {
            return Err(format!("{id} still knows of a transaction in the end"));
        }
    }
    Ok(())
}

/// The writers that a count names, one bit each; an error if some writer is counted twice.
fn writers(count: i64, start: i64) -> u64 {
    (count - start) as u64
}

/// A writer's client and how it stands.
fn writer_of<P: Subject>(
    state: &State<P>,
    setting: &Setting,
    writer: u32,
) -> Option<(usize, Phase)> {
    let mut found = runs(state, setting).filter(
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

    /// What a coordinator has left behind that is gone, and owned nothing: shown everywhere, forgotten
    /// everywhere, or prepared everywhere. Every writer writes on all partitions.
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
                "the coordinator is gone, and its participants (rows, prepared) do not agree: \
                 {known:?}"
            )),
        }
    }

    fn check_reader<P: Subject>(
        &self,
        state: &State<P>,
        setting: &Setting,
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
            let Some((of, phase)) = writer_of(state, setting, writer) else {
                continue;
            };
            let is_included = included & 1 << writer != 0;
            if is_included && matches!(phase, Phase::Aborted(_) | Phase::Waiting) {
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
    fn check(&self, state: &State<P>, setting: &Setting) -> Result<(), String> {
        for (number, client, script) in runs(state, setting) {
            let is_reader = matches!(script, Script::Look { .. });
            // What a procedure has been given counts even if it is aborted later.
            if is_reader && !client.answers.is_empty() {
                self.check_reader(state, setting, (number, client))?;
            }
        }
        Ok(())
    }

    fn check_end(&self, state: &State<P>, setting: &Setting) -> Result<(), String> {
        check_finished(state, setting)?;
        if state.has_crashed() {
            let live = |client: &Client| state.node(client.transaction.node).is_some();
            let stuck =
                runs(state, setting).find(|(_, client, _)| live(client) && !client.has_ended());
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
            let of_phase = runs(state, setting).filter(|run| run.1.phase == phase);
            let each = of_phase.filter_map(|(_, _, script)| match script {
                Script::Write { writer, .. } => Some(1 << writer),
                _ => None,
            });
            each.sum()
        };
        let (committed, lost) = (sum(Phase::Committed), sum(Phase::Lost));
        let rows = (0..self.start.partitions).map(|part| newest(state, (part, 0)));
        let rows: Vec<_> = rows.collect();
        // Of those that nobody was told of each has committed, everywhere, or not.
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
    /// Runs one transaction on the items; false if it has not read what it then would read.
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
            Script::Look { batches } => batches.iter().flatten().all(|item| reads(items, item)),
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

    /// Whether some order of `left`, after what has been run, explains everything.
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
                // What a crashed node held is not known.
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
    fn check(&self, _: &State<P>, _: &Setting) -> Result<(), String> {
        Ok(())
    }

    fn check_end(&self, state: &State<P>, setting: &Setting) -> Result<(), String> {
        check_finished(state, setting)?;
        if state.has_crashed() {
            // Which transactions in doubt have committed somewhere only a recovery could say.
            return Ok(());
        }
        let committed = runs(state, setting).filter(|run| run.1.phase == Phase::Committed);
        let committed: Vec<_> = committed.collect();
        // Who had read and nobody was told of: it has committed or not.
        let lost = runs(state, setting).filter(|run| run.1.phase == Phase::Lost);
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
                let told = committed.iter().map(|(number, client, _)| {
                    let rows: Vec<_> = client.answers.iter().flatten().map(seen).collect();
                    format!("client {number} read {rows:?}")
                });
                let told: Vec<_> = told.collect();
                let rows = (0..self.start.partitions).map(|part| newest(state, (part, 0)));
                let rows: Vec<_> = rows.flatten().collect();
                Err(format!(
                    "no serial order explains that {} and the stores hold {rows:?}",
                    told.join(", ")
                ))
            }
        }
    }
}

impl<P: Subject> Property<P> for Guarded {
    fn check(&self, _: &State<P>, _: &Setting) -> Result<(), String> {
        Ok(())
    }

    fn check_end(&self, state: &State<P>, setting: &Setting) -> Result<(), String> {
        check_finished(state, setting)?;
        let rows = (0..self.start.partitions).filter_map(|part| newest(state, (part, 0)));
        let sum: i64 = rows.map(|row| row.1).sum();
        match sum >= 0 {
            true => Ok(()),
            false => Err(format!("the guarded sum is {sum}")),
        }
    }
}
