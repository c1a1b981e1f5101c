//! One replica of a node, with its log and its disk.
//!
//! A [`ReplicaNode`] joins the state machine of a group ([`anabranch_protocol::replication`]) with a
//! [`Node`] that keeps records and a log. As the primary it runs the node: each batch's records become
//! an entry, and the batch's output leaves when a majority has the entry and has confirmed the primary
//! (`docs/protocols/replication.md`, REPL-I4). As a backup it keeps the log and applies committed
//! entries to its state. It does for a replicated node what [`crate::durable`] does for a single one,
//! and is driven alike:
//!
//! 1. [`ReplicaNode::open`] makes a replica of a new group, or recovers one from its log;
//! 2. any number of [`ReplicaNode::step`]s, then [`ReplicaNode::flush`];
//! 3. when [`ReplicaNode::begin_sync`] returns a position: sync, then [`ReplicaNode::end_sync`];
//! 4. between batches, [`ReplicaNode::checkpoint_if_due`];
//! 5. a tick when [`ReplicaNode::next_alarm`] has come.
//!
//! Output is messages to other replicas and [events](ReplicaEvent). The driver makes the links of a
//! promoted node, and drops those of a demoted one.
//!
//! A disk error is final: drop the replica, as if it had crashed.

mod record;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_protocol::Durable;
use anabranch_protocol::link::Incarnation;
use anabranch_protocol::replication::{
    Entry, Event, GroupOutbox, LogId, Message, PersistedState, Replica, ReplicaId, ReplicaOptions,
    View,
};
use anabranch_storage::log::Sink;
use anabranch_storage::{Log, LogError, LogPosition, Media, Opened};
use anabranch_types::Ticks;

use self::record::ReplicaRecord;
use crate::durable::{DurableError, DurableOptions, NodeStart};
use crate::log_record::NodeRecord;
use crate::node::{Node, NodeInput, NodeOutbox};
use crate::output_commit::HeldOutput;
use crate::sequence::SequenceStarts;
use crate::state::{self, NodeState};

/// The records of one batch of steps: the payload of an entry.
pub type Batch = Arc<Vec<NodeRecord>>;

/// Options of a node's replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// The replica's number.
    pub id: ReplicaId,
    /// The number of replicas.
    pub count: u8,
    /// Options of its log.
    pub durable: DurableOptions,
    /// Options of its group.
    pub replica: ReplicaOptions,
    /// Records of a checkpoint in one message to a backup.
    pub part_records: usize,
}

/// Makes a replica's protocol and node, at each start and promotion.
pub struct NodeFactory<P: Durable> {
    /// Makes the protocol, with the loaded rows or with an empty store.
    pub protocol: Box<dyn FnMut(NodeStart) -> P>,
    /// Makes the node over the protocol, in this incarnation.
    pub node: Box<dyn Fn(P, Incarnation) -> Node<P>>,
}

/// An input of a replica.
#[derive(Clone, Debug)]
pub enum ReplicaInput<M> {
    /// An input for the node; dropped unless the node runs here. Ticks need not be passed on this way.
    Node(NodeInput<M>),
    /// A message from another replica of the node.
    Replica {
        /// The sender.
        from: ReplicaId,
        /// The message.
        message: Message<Batch>,
    },
    /// Time has passed: timers that are due run.
    Tick,
}

/// An event that the driver has to handle, in order.
pub enum ReplicaEvent<P: Durable> {
    /// The node runs here from now on, in this incarnation: make its links, which greet its peers.
    Promoted(Incarnation),
    /// The node's output.
    Output(NodeOutbox<P::Message>),
    /// The node no longer runs here. Its held output is dropped; drop its links, and give its clients no
    /// answer.
    Demoted(Box<Node<P>>),
}

/// The output of one or more inputs. The driver empties it after each batch.
pub struct ReplicaOutbox<P: Durable> {
    /// Messages to other replicas of the node.
    pub replicas: Vec<(ReplicaId, Message<Batch>)>,
    /// Events for the driver, in order.
    pub events: Vec<ReplicaEvent<P>>,
}

impl<P: Durable> Default for ReplicaOutbox<P> {
    fn default() -> Self {
        ReplicaOutbox {
            replicas: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// Counters of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaNodeCounters {
    /// Checkpoints of its own state.
    pub checkpoints: u64,
    /// States installed from a primary.
    pub installed: u64,
}

/// A replica's role.
enum Role<P: Durable> {
    /// It applies committed entries to a state.
    Backup {
        state: Box<NodeState<P>>,
        /// The state includes the entries up to here.
        applied: u64,
        /// The primary's state, as far as it has arrived.
        incoming: Option<Box<NodeState<P>>>,
    },
    /// It runs the node.
    Primary(Box<RunningNode<P>>),
}

/// A running node.
struct RunningNode<P: Durable> {
    node: Node<P>,
    numbers: SequenceStarts,
    incarnation: Incarnation,
    /// The entry of its incarnation, until that is committed.
    promoting: Option<u64>,
    /// The output of the current batch.
    out: NodeOutbox<P::Message>,
    /// Output that waits for an entry to be committed and a round to be confirmed.
    held: HeldOutput<(u64, u64), P::Message>,
    /// The last entry with a forced record.
    forced: u64,
}

/// One replica of a node. See the module.
pub struct ReplicaNode<P: Durable, D> {
    options: GroupOptions,
    factory: NodeFactory<P>,
    group: Replica<Batch>,
    group_out: GroupOutbox<Batch>,
    log: Log<D>,
    role: Role<P>,
    /// Frames that are not durable: their ends, and how many of the group's writes they complete.
    frames: VecDeque<(LogPosition, u64)>,
    /// A written checkpoint that includes entries that are not committed yet.
    prepared: Option<LogId>,
    syncing: bool,
    opened: Opened,
    counters: ReplicaNodeCounters,
}

impl<P: Durable, D: Media> ReplicaNode<P, D> {
    /// Opens the log on a disk: recovers the replica, or makes one of a new group if the disk is empty.
    /// Replica 0 of a new group runs the node at once; all replicas have to be loaded with the same rows.
    ///
    /// # Errors
    /// When the protocol keeps no records, the disk fails, or its files are damaged.
    pub fn open(
        media: D,
        options: GroupOptions,
        now: Ticks,
        mut factory: NodeFactory<P>,
    ) -> Result<ReplicaNode<P, D>, DurableError> {
        let mut state = NodeState::new((factory.protocol)(NodeStart::Recovered))
            .map_err(DurableError::NoRecords)?;
        let (mut view, mut voted, mut base) = (View::default(), None, LogId::default());
        let mut entries: Vec<Entry<Batch>> = Vec::new();
        let (log, opened) = Log::open(media, options.durable.log, &mut |record| {
            match record {
                ReplicaRecord::View { view: v, voted: f } => (view, voted) = (v, f),
                ReplicaRecord::State { base: id } => base = id,
                ReplicaRecord::Node(record) => state.replay(record)?,
                ReplicaRecord::Entry { id, batch } => {
                    let before = id.index.checked_sub(base.index + 1);
                    let before = before.ok_or("an entry is below the checkpoint's state")?;
                    entries.truncate(before as usize);
                    entries.push(Entry { id, payload: batch });
                }
            }
            Ok(())
        })?;
        let GroupOptions {
            id, count, replica, ..
        } = options;
        let applied = base.index;
        let mut opened_node = ReplicaNode {
            options,
            factory,
            group: match opened.is_new {
                true => Replica::new(id, count, replica, now),
                false => {
                    let restored = PersistedState {
                        view,
                        voted,
                        base,
                        entries,
                    };
                    Replica::restored(id, count, replica, now, restored)
                }
            },
            group_out: GroupOutbox::default(),
            log,
            role: Role::Backup {
                state: Box::new(state),
                applied,
                incoming: None,
            },
            frames: VecDeque::new(),
            prepared: None,
            syncing: false,
            opened,
            counters: ReplicaNodeCounters::default(),
        };
        if opened.is_new {
            opened_node.begin()?;
        }
        Ok(opened_node)
    }

    /// Begins a new group: writes the first checkpoint, and runs the node at replica 0.
    fn begin(&mut self) -> Result<(), DurableError> {
        let made = NodeState::new((self.factory.protocol)(NodeStart::New));
        let state = made.map_err(DurableError::NoRecords)?;
        let incarnation = Incarnation::FIRST;
        let node = (self.factory.node)(state.protocol, incarnation);
        let mut numbers = SequenceStarts::default();
        for (sequence, bound) in node.passed_bounds() {
            numbers.include_point(sequence, bound);
        }
        let (view, voted) = (self.group.view(), self.group.voted());
        let base = self.group.base();
        self.log.checkpoint(&mut |sink| {
            sink(ReplicaRecord::View { view, voted });
            sink(ReplicaRecord::State { base });
            state::write_checkpoint(incarnation, &numbers, node.protocol(), &mut |record| {
                sink(ReplicaRecord::Node(record));
            });
        })?;
        self.role = if self.group.is_primary() {
            Role::Primary(Box::new(RunningNode {
                node,
                numbers,
                incarnation,
                promoting: None,
                out: NodeOutbox::default(),
                held: HeldOutput::default(),
                forced: base.index,
            }))
        } else {
            let state = NodeState {
                protocol: node.into_protocol(),
                numbers,
                incarnation: incarnation.0,
            };
            Role::Backup {
                state: Box::new(state),
                applied: base.index,
                incoming: None,
            }
        };
        Ok(())
    }

    /// The node, if this replica takes itself for the primary. Output is confirmed before it leaves.
    pub fn serving(&self) -> Option<(&Node<P>, Incarnation)> {
        match &self.role {
            Role::Primary(running) if running.promoting.is_none() => {
                Some((&running.node, running.incarnation))
            }
            _ => None,
        }
    }

    /// Requests a round that confirms that the node still runs here, and returns its number; `None` if
    /// this is not the primary. The round begins with the next flush at the earliest.
    pub fn want_confirmation(&mut self) -> Option<u64> {
        let serves = self.group.is_primary() && self.serving().is_some();
        serves.then(|| self.group.want_confirmation())
    }

    /// The last round that a majority has confirmed; none if this is not the primary.
    pub fn confirmed(&self) -> Option<u64> {
        self.group.confirmed()
    }

    /// The node's protocol: of the node that runs here, or of the backup's state.
    pub fn protocol(&self) -> &P {
        match &self.role {
            Role::Backup { state, .. } => &state.protocol,
            Role::Primary(running) => running.node.protocol(),
        }
    }

    /// The group's state machine.
    pub fn group(&self) -> &Replica<Batch> {
        &self.group
    }

    /// The last entry that this replica's state includes.
    pub fn applied(&self) -> u64 {
        match &self.role {
            Role::Backup { applied, .. } => *applied,
            Role::Primary(_) => self.group.last().index,
        }
    }

    /// What opening the log found.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// Its counters.
    pub fn counters(&self) -> ReplicaNodeCounters {
        self.counters
    }

    /// Whether output of the node is held.
    pub fn holds_output(&self) -> bool {
        match &self.role {
            Role::Backup { .. } => false,
            Role::Primary(running) => !running.held.is_empty(),
        }
    }

    /// Its disk, for injecting faults.
    pub fn media_mut(&mut self) -> &mut D {
        self.log.media_mut()
    }

    /// The disk that a crash leaves, and the node if it ran here.
    pub fn into_parts(self) -> (D, Option<Node<P>>) {
        let node = match self.role {
            Role::Primary(running) if running.promoting.is_none() => Some(running.node),
            _ => None,
        };
        (self.log.into_media(), node)
    }

    /// When the next tick is due.
    pub fn next_alarm(&self) -> Ticks {
        let group = self.group.next_alarm();
        let node = self.serving().and_then(|(node, _)| node.next_alarm());
        node.map_or(group, |node| node.min(group))
    }

    /// Takes one input. Its output comes out of [`ReplicaNode::flush`] or later.
    pub fn step(&mut self, now: Ticks, input: ReplicaInput<P::Message>) {
        let input = match input {
            ReplicaInput::Replica { from, message } => {
                return self.group.receive(now, from, message, &mut self.group_out);
            }
            ReplicaInput::Tick => {
                self.group.tick(now, &mut self.group_out);
                NodeInput::Tick
            }
            ReplicaInput::Node(input) => input,
        };
        // A primary that was deposed in this batch is demoted at its end.
        let Role::Primary(running) = &mut self.role else {
            return;
        };
        if running.promoting.is_some() || !self.group.is_primary() {
            return;
        }
        if let NodeInput::Restarted { node } = &input {
            // Held messages are addressed to the former incarnation.
            running.held.forget(*node);
            running.out.messages.retain(|(to, _)| to != node);
        }
        running.node.step(now, input, &mut running.out);
    }

    /// Ends a batch: logs its records, and releases output that does not have to wait.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn flush(&mut self, now: Ticks, out: &mut ReplicaOutbox<P>) -> Result<(), LogError> {
        self.settle(now, out)
    }

    /// Begins a sync and returns the position that it makes durable. `None` while another is under way,
    /// or if nothing waits.
    pub fn begin_sync(&mut self) -> Option<LogPosition> {
        if self.syncing || self.log.end() <= self.log.durable() {
            return None;
        }
        self.syncing = true;
        Some(self.log.begin_sync())
    }

    /// Ends a sync, and continues what waited for it.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn end_sync(
        &mut self,
        now: Ticks,
        until: LogPosition,
        out: &mut ReplicaOutbox<P>,
    ) -> Result<(), LogError> {
        self.syncing = false;
        self.log.end_sync(until)?;
        self.settle(now, out)
    }

    /// Writes a checkpoint if one is due; call it after a flush. Returns whether a checkpoint has replaced
    /// the log before it.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn checkpoint_if_due(
        &mut self,
        now: Ticks,
        out: &mut ReplicaOutbox<P>,
    ) -> Result<bool, LogError> {
        // A state transfer reads the checkpoint at the base.
        if self.group.is_installing() {
            return Ok(false);
        }
        if let Some(id) = self.prepared {
            if self.group.committed() < id.index {
                return Ok(false);
            }
            self.log.adopt_checkpoint()?;
            return Ok(self.compacted(id));
        }
        let base = self.group.base().index;
        let is_due = self.log.since_checkpoint() >= self.options.durable.checkpoint_bytes;
        if !is_due || self.applied() <= base {
            return Ok(false);
        }
        let (view, voted) = (self.group.view(), self.group.voted());
        let group = &self.group;
        match &self.role {
            Role::Backup { state, applied, .. } => {
                let entry = group.entry(*applied);
                let id = entry.expect("the log holds the last applied entry").id;
                let later = *applied + 1..=group.last().index;
                self.log.checkpoint(&mut |sink| {
                    write_state(view, voted, id, state, sink);
                    for entry in later.clone().filter_map(|index| group.entry(index)) {
                        sink(ReplicaRecord::Entry {
                            id: entry.id,
                            batch: Arc::clone(&entry.payload),
                        });
                    }
                })?;
                self.compacted(id);
            }
            Role::Primary(running) => {
                debug_assert!(
                    running.out.records.is_empty(),
                    "a checkpoint follows a flush"
                );
                let id = group.last();
                self.log.prepare_checkpoint(&mut |sink| {
                    sink(ReplicaRecord::View { view, voted });
                    sink(ReplicaRecord::State { base: id });
                    let protocol = running.node.protocol();
                    state::write_checkpoint(
                        running.incarnation,
                        &running.numbers,
                        protocol,
                        &mut |record| {
                            sink(ReplicaRecord::Node(record));
                        },
                    );
                })?;
                self.prepared = Some(id);
            }
        }
        // Writing a checkpoint has synced the log.
        self.settle(now, out)?;
        Ok(self.prepared.is_none())
    }

    fn compacted(&mut self, id: LogId) -> bool {
        self.prepared = None;
        self.group.compacted(id);
        self.counters.checkpoints += 1;
        true
    }

    /// Logs, releases and handles events until the last steps have no further effect.
    fn settle(&mut self, now: Ticks, out: &mut ReplicaOutbox<P>) -> Result<(), LogError> {
        loop {
            self.hand_to_group();
            self.group.flush(&mut self.group_out);
            self.write()?;
            let durable = self.log.durable();
            let mut persisted = None;
            while let Some(&(end, writes)) = self.frames.front()
                && end <= durable
            {
                self.frames.pop_front();
                persisted = Some(writes);
            }
            if let Some(writes) = persisted {
                self.group.persisted(writes, &mut self.group_out);
            }
            out.replicas.append(&mut self.group_out.messages);
            self.release(out);
            let events = std::mem::take(&mut self.group_out.events);
            if events.is_empty() && self.group_out.writes.is_empty() {
                break;
            }
            for event in events {
                self.write()?;
                self.event(now, event, out)?;
            }
        }
        self.apply(self.group.committed())?;
        Ok(())
    }

    /// Appends the batch's records as an entry, and holds its output.
    fn hand_to_group(&mut self) {
        let Role::Primary(running) = &mut self.role else {
            return;
        };
        if !self.group.is_primary() {
            return;
        }
        let taken = state::take_records(&running.node, &mut running.numbers, &mut running.out);
        if let Some((records, forced)) = taken {
            let index = self.group.append(Arc::new(records), &mut self.group_out);
            if forced {
                running.forced = index;
            }
        }
        if running.out.has_output() {
            let round = self.group.want_confirmation();
            running.held.push((running.forced, round), &mut running.out);
        }
    }

    /// Logs the group's writes as one frame.
    fn write(&mut self) -> Result<(), LogError> {
        if self.group_out.writes.is_empty() {
            return Ok(());
        }
        let writes = self.group_out.writes.drain(..);
        let records: Vec<ReplicaRecord> = writes.map(ReplicaRecord::from).collect();
        self.log.append(&records)?;
        let frame = (self.log.end(), self.group.written());
        self.frames.push_back(frame);
        Ok(())
    }

    /// Releases output whose entry is committed and whose round is confirmed.
    fn release(&mut self, out: &mut ReplicaOutbox<P>) {
        let (Role::Primary(running), Some(confirmed)) = (&mut self.role, self.group.confirmed())
        else {
            return;
        };
        let committed = self.group.committed();
        if running.promoting.is_some_and(|entry| entry <= committed) {
            running.promoting = None;
            out.events.push(ReplicaEvent::Promoted(running.incarnation));
        }
        let mut output = NodeOutbox::default();
        let is_met = |(entry, round): &(u64, u64)| *entry <= committed && *round <= confirmed;
        running.held.release(is_met, &mut output);
        if output.has_output() {
            out.events.push(ReplicaEvent::Output(output));
        }
    }

    fn event(
        &mut self,
        now: Ticks,
        event: Event<Batch>,
        out: &mut ReplicaOutbox<P>,
    ) -> Result<(), LogError> {
        match event {
            // A later event of the same batch may have revoked this one.
            Event::Elected if self.group.is_primary() => self.promote(now),
            Event::Elected => Ok(()),
            Event::Deposed if matches!(self.role, Role::Primary(_)) => self.demote(out),
            Event::Deposed => Ok(()),
            Event::NeedsState => self.send_state(),
            Event::StatePart {
                base,
                part,
                is_last,
                payload,
            } => self.install_part(base, part == 0, is_last, &payload),
        }
    }

    /// After an election: runs the node from the log, in its next incarnation.
    fn promote(&mut self, now: Ticks) -> Result<(), LogError> {
        self.apply(self.group.last().index)?;
        let empty = self.empty_state()?;
        let Role::Backup { state, .. } = &mut self.role else {
            unreachable!("a backup is elected");
        };
        let NodeState {
            protocol,
            numbers,
            incarnation,
        } = std::mem::replace(&mut **state, empty);
        let incarnation = Incarnation(incarnation).next();
        let node = (self.factory.node)(protocol, incarnation).with_sequence_starts(&numbers);
        let batch = Arc::new(vec![NodeRecord::Incarnation(incarnation.0)]);
        let index = self.group.append(batch, &mut self.group_out);
        let mut running = Box::new(RunningNode {
            node,
            numbers,
            incarnation,
            promoting: Some(index),
            out: NodeOutbox::default(),
            held: HeldOutput::default(),
            forced: index,
        });
        running.node.recover(now, &mut running.out);
        self.role = Role::Primary(running);
        Ok(())
    }

    /// After a deposition: drops the node and its held output, and reads the committed state again from
    /// the disk.
    fn demote(&mut self, out: &mut ReplicaOutbox<P>) -> Result<(), LogError> {
        let mut state = self.empty_state()?;
        self.log
            .read_newest_checkpoint(&mut |record| match record {
                ReplicaRecord::Node(record) => state.replay(record),
                _ => Ok(()),
            })?;
        self.prepared = None;
        let backup = Role::Backup {
            state: Box::new(state),
            applied: self.group.base().index,
            incoming: None,
        };
        // A node whose promotion was not committed has had no output.
        if let Role::Primary(running) = std::mem::replace(&mut self.role, backup)
            && running.promoting.is_none()
        {
            out.events
                .push(ReplicaEvent::Demoted(Box::new(running.node)));
        }
        Ok(())
    }

    /// Passes the newest checkpoint to the group, for a backup that lacks compacted entries.
    fn send_state(&mut self) -> Result<(), LogError> {
        let mut parts: Vec<Vec<NodeRecord>> = vec![Vec::new()];
        let most = self.options.part_records.max(1);
        self.log.read_newest_checkpoint(&mut |record| {
            if let ReplicaRecord::Node(record) = record {
                match parts.last_mut() {
                    Some(part) if part.len() < most => part.push(record),
                    _ => parts.push(vec![record]),
                }
            }
            Ok(())
        })?;
        let parts = parts.into_iter().map(Arc::new).collect();
        self.group.offer(parts, &mut self.group_out);
        Ok(())
    }

    /// Installs a part of the primary's state, and makes the state durable after the last one.
    fn install_part(
        &mut self,
        base: LogId,
        is_first: bool,
        is_last: bool,
        part: &Batch,
    ) -> Result<(), LogError> {
        let empty = match is_first {
            true => Some(Box::new(self.empty_state()?)),
            false => None,
        };
        let Role::Backup {
            state,
            applied,
            incoming,
        } = &mut self.role
        else {
            return Ok(());
        };
        if let Some(empty) = empty {
            *incoming = Some(empty);
        }
        let Some(filling) = incoming else {
            return Ok(());
        };
        for record in part.iter() {
            replay(filling, record)?;
        }
        if !is_last {
            return Ok(());
        }
        if let Some(filled) = incoming.take() {
            *state = filled;
            *applied = base.index;
        }
        let (view, voted) = (self.group.view(), self.group.voted());
        self.log
            .checkpoint(&mut |sink| write_state(view, voted, base, state, sink))?;
        self.counters.installed += 1;
        self.group.installed(base, &mut self.group_out);
        Ok(())
    }

    /// Applies entries to a backup's state, up to `until`.
    fn apply(&mut self, until: u64) -> Result<(), LogError> {
        let Role::Backup { state, applied, .. } = &mut self.role else {
            return Ok(());
        };
        while *applied < until {
            let entry = self.group.entry(*applied + 1);
            let entry = entry.expect("the log holds the entries after the state");
            for record in entry.payload.iter() {
                replay(state, record)?;
            }
            *applied += 1;
        }
        Ok(())
    }

    fn empty_state(&mut self) -> Result<NodeState<P>, LogError> {
        let made = NodeState::new((self.factory.protocol)(NodeStart::Recovered));
        made.map_err(|error| LogError::Unreplayable {
            reason: error.to_string(),
        })
    }
}

fn replay<P: Durable>(state: &mut NodeState<P>, record: &NodeRecord) -> Result<(), LogError> {
    let replayed = state.replay(record.clone());
    replayed.map_err(|reason| LogError::Unreplayable { reason })
}

fn write_state<P: Durable>(
    view: View,
    voted: Option<ReplicaId>,
    base: LogId,
    state: &NodeState<P>,
    sink: &mut Sink<'_, ReplicaRecord>,
) {
    sink(ReplicaRecord::View { view, voted });
    sink(ReplicaRecord::State { base });
    state.write(&mut |record| sink(ReplicaRecord::Node(record)));
}
