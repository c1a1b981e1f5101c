//! A node with replicas: one of them, with its log and its disk.
//!
//! A [`ReplicaNode`] joins the state machine of a group ([`anabranch_protocol::replication`]) with a
//! [`Node`] that keeps records and a log. As the primary it runs the node: each batch's records become
//! an entry, and what the batch has said leaves when a majority has it and has confirmed the primary
//! (`docs/protocols/replication.md`, REPL-I4). As a backup it keeps the log, and a state that follows
//! it. What [`crate::durable`] is for a node that is alone, this is for one of several, and it is
//! driven alike:
//!
//! 1. [`ReplicaNode::open`] makes a replica of a new group, or one that comes back;
//! 2. any number of [`ReplicaNode::step`]s, then [`ReplicaNode::flush`];
//! 3. when [`ReplicaNode::begin_sync`] says that something waits: sync, and
//!    [`ReplicaNode::end_sync`];
//! 4. between batches, [`ReplicaNode::checkpoint_if_due`];
//! 5. a tick when [`ReplicaNode::next_alarm`] has come.
//!
//! What comes out are messages to other replicas and [events](ReplicaEvent). The driver gives a node
//! that rises its links, and takes them from one that falls.
//!
//! An error of the disk is final: the replica has to be dropped, as if it had crashed.

mod record;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_protocol::Durable;
use anabranch_protocol::link::Incarnation;
use anabranch_protocol::replication::{
    Entry, Event, Message, Out, Place, Replica, ReplicaId, ReplicaOptions, Restored, View,
};
use anabranch_storage::log::Sink;
use anabranch_storage::{Log, LogError, LogPosition, Media, Opened};
use anabranch_types::Ticks;

use self::record::ReplicaRecord;
use crate::durable::{Beginning, DurableError, DurableOptions, NodeRecord};
use crate::image::{self, Image};
use crate::node::{Node, NodeInput, NodeOutbox};
use crate::sequence::SequenceStarts;
use crate::withheld::Withheld;

/// The records of one batch of steps: what an entry of a node's log says.
pub type Batch = Arc<Vec<NodeRecord>>;

/// How the replicas of a node behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// Which replica this is.
    pub id: ReplicaId,
    /// How many there are.
    pub count: u8,
    /// Its log.
    pub durable: DurableOptions,
    /// Its group.
    pub replica: ReplicaOptions,
    /// How many records of a checkpoint go to a backup in one message.
    pub part_records: usize,
}

/// Makes what a replica is made of, whenever it has to be made anew.
pub struct Maker<P: Durable> {
    /// A protocol: with what was loaded, or with an empty store.
    pub protocol: Box<dyn FnMut(Beginning) -> P>,
    /// The node over it, in this life.
    pub node: Box<dyn Fn(P, Incarnation) -> Node<P>>,
}

/// What a replica is given.
#[derive(Clone, Debug)]
pub enum ReplicaInput<M> {
    /// For the node, if it serves here; dropped if it does not. Of [`NodeInput::Tick`]s the others
    /// are enough.
    Node(NodeInput<M>),
    /// From another replica of the node.
    Replica {
        /// Which.
        from: ReplicaId,
        /// What it says.
        message: Message<Batch>,
    },
    /// Time has passed.
    Tick,
}

/// What a driver has to see to, in order.
pub enum ReplicaEvent<P: Durable> {
    /// The node lives here from now on, in this life: it needs links, which greet its peers.
    Rose(Incarnation),
    /// The node has said this.
    Said(NodeOutbox<P::Message>),
    /// The node lives here no more. What it had not said is never said: its links are to be dropped,
    /// and who has called it is told nothing.
    Fell(Box<Node<P>>),
}

/// What follows from one or more inputs. The driver empties it after each batch.
pub struct ReplicaOutbox<P: Durable> {
    /// To other replicas of the node.
    pub replicas: Vec<(ReplicaId, Message<Batch>)>,
    /// To be seen to.
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

/// What a replica has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaNodeCounters {
    /// Checkpoints of its own.
    pub checkpoints: u64,
    /// States taken over from a primary.
    pub installed: u64,
}

/// What a replica is to its node.
enum Seat<P: Durable> {
    /// It keeps a state that follows the log.
    Backup {
        image: Box<Image<P>>,
        /// The entries up to here are in it.
        applied: u64,
        /// The primary's state, as far as it has come.
        coming: Option<Box<Image<P>>>,
    },
    /// The node runs here.
    Primary(Box<Seated<P>>),
}

/// A node that runs.
struct Seated<P: Durable> {
    node: Node<P>,
    numbers: SequenceStarts,
    life: Incarnation,
    /// The entry that says its life, until that is committed.
    rising: Option<u64>,
    /// Of the current batch.
    out: NodeOutbox<P::Message>,
    /// What waits: for this entry to be committed, and for this round to be confirmed.
    withheld: Withheld<(u64, u64), P::Message>,
    /// The last entry with a forced record.
    forced: u64,
}

/// One replica of a node. See the module.
pub struct ReplicaNode<P: Durable, D> {
    options: GroupOptions,
    maker: Maker<P>,
    group: Replica<Batch>,
    group_out: Out<Batch>,
    log: Log<D>,
    seat: Seat<P>,
    /// The ends of frames that are not durable: how many of the group's writes they make durable.
    frames: VecDeque<(LogPosition, u64)>,
    /// A checkpoint that is written, of what is not committed yet.
    prepared: Option<Place>,
    syncing: bool,
    opened: Opened,
    counters: ReplicaNodeCounters,
}

impl<P: Durable, D: Media> ReplicaNode<P, D> {
    /// Opens the log on a disk: a replica of a new group if there is none, else one that comes back.
    /// Replica 0 of a new group serves at once; all others are to be made of the same rows.
    ///
    /// # Errors
    /// When the protocol keeps no records, the disk fails, or what is on it is damaged.
    pub fn open(
        media: D,
        options: GroupOptions,
        now: Ticks,
        mut maker: Maker<P>,
    ) -> Result<ReplicaNode<P, D>, DurableError> {
        let mut image =
            Image::new((maker.protocol)(Beginning::Recovered)).map_err(DurableError::NoRecords)?;
        let (mut view, mut voted, mut base) = (View::default(), None, Place::default());
        let mut entries: Vec<Entry<Batch>> = Vec::new();
        let (log, opened) = Log::open(media, options.durable.log, &mut |record| {
            match record {
                ReplicaRecord::View { view: v, voted: f } => (view, voted) = (v, f),
                ReplicaRecord::State { base: place } => base = place,
                ReplicaRecord::Node(record) => image.replay(record)?,
                ReplicaRecord::Entry { place, batch } => {
                    let before = place.index.checked_sub(base.index + 1);
                    let before = before.ok_or("an entry stands below the state")?;
                    entries.truncate(before as usize);
                    entries.push(Entry {
                        place,
                        payload: batch,
                    });
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
            maker,
            group: match opened.is_new {
                true => Replica::new(id, count, replica, now),
                false => {
                    let restored = Restored {
                        view,
                        voted,
                        base,
                        entries,
                    };
                    Replica::restored(id, count, replica, now, restored)
                }
            },
            group_out: Out::default(),
            log,
            seat: Seat::Backup {
                image: Box::new(image),
                applied,
                coming: None,
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

    /// A new group: its first state becomes durable, and replica 0 serves.
    fn begin(&mut self) -> Result<(), DurableError> {
        let made = Image::new((self.maker.protocol)(Beginning::New));
        let image = made.map_err(DurableError::NoRecords)?;
        let life = Incarnation::FIRST;
        let node = (self.maker.node)(image.protocol, life);
        let mut numbers = SequenceStarts::default();
        for (table, column, bound) in node.passed_bounds() {
            numbers.include(table, column, bound);
        }
        let (view, voted) = (self.group.view(), self.group.voted());
        let base = self.group.base();
        self.log.checkpoint(&mut |sink| {
            sink(ReplicaRecord::View { view, voted });
            sink(ReplicaRecord::State { base });
            image::write(life, &numbers, node.protocol(), &mut |record| {
                sink(ReplicaRecord::Node(record));
            });
        })?;
        self.seat = if self.group.is_primary() {
            Seat::Primary(Box::new(Seated {
                node,
                numbers,
                life,
                rising: None,
                out: NodeOutbox::default(),
                withheld: Withheld::default(),
                forced: base.index,
            }))
        } else {
            let image = Image {
                protocol: node.into_protocol(),
                numbers,
                life: life.0,
            };
            Seat::Backup {
                image: Box::new(image),
                applied: base.index,
                coming: None,
            }
        };
        Ok(())
    }

    /// The node, if it serves here: as far as this replica knows. What it says is confirmed before
    /// it leaves.
    pub fn serving(&self) -> Option<(&Node<P>, Incarnation)> {
        match &self.seat {
            Seat::Primary(seated) if seated.rising.is_none() => Some((&seated.node, seated.life)),
            _ => None,
        }
    }

    /// Asks for a round that shows that the node still serves here; which one it is, if it serves as
    /// far as this replica knows. It begins with the next flush at the earliest.
    pub fn want_confirmation(&mut self) -> Option<u64> {
        let serves = self.group.is_primary() && self.serving().is_some();
        serves.then(|| self.group.want_confirmation())
    }

    /// The last round that a majority has confirmed; none if this is not the primary.
    pub fn confirmed(&self) -> Option<u64> {
        self.group.confirmed()
    }

    /// The node's protocol: that of the node that runs here, or the one that follows its log.
    pub fn protocol(&self) -> &P {
        match &self.seat {
            Seat::Backup { image, .. } => &image.protocol,
            Seat::Primary(seated) => seated.node.protocol(),
        }
    }

    /// The group's state machine, to look at.
    pub fn group(&self) -> &Replica<Batch> {
        &self.group
    }

    /// Up to which entry this replica's state has come.
    pub fn applied(&self) -> u64 {
        match &self.seat {
            Seat::Backup { applied, .. } => *applied,
            Seat::Primary(_) => self.group.last().index,
        }
    }

    /// What opening the log has found.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// What has been counted.
    pub fn counters(&self) -> ReplicaNodeCounters {
        self.counters
    }

    /// Whether something that the node has said has not left.
    pub fn is_withholding(&self) -> bool {
        match &self.seat {
            Seat::Backup { .. } => false,
            Seat::Primary(seated) => !seated.withheld.is_empty(),
        }
    }

    /// Its disk, to order its faults.
    pub fn media_mut(&mut self) -> &mut D {
        self.log.media_mut()
    }

    /// What a crash leaves: the disk, and the node if it served here.
    pub fn into_parts(self) -> (D, Option<Node<P>>) {
        let node = match self.seat {
            Seat::Primary(seated) if seated.rising.is_none() => Some(seated.node),
            _ => None,
        };
        (self.log.into_media(), node)
    }

    /// When time has something to do here next.
    pub fn next_alarm(&self) -> Ticks {
        let group = self.group.next_alarm();
        let node = self.serving().and_then(|(node, _)| node.next_alarm());
        node.map_or(group, |node| node.min(group))
    }

    /// Takes one input; what follows from it comes out of [`ReplicaNode::flush`] or later.
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
        // Who has been deposed in this batch falls at its end.
        let Seat::Primary(seated) = &mut self.seat else {
            return;
        };
        if seated.rising.is_some() || !self.group.is_primary() {
            return;
        }
        if let NodeInput::Restarted { node } = &input {
            // What waits was meant for the dead.
            seated.withheld.forget(*node);
            seated.out.messages.retain(|(to, _)| to != node);
        }
        seated.node.step(now, input, &mut seated.out);
    }

    /// Ends a batch: writes what has to be written, and lets out what has nothing to wait for.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn flush(&mut self, now: Ticks, out: &mut ReplicaOutbox<P>) -> Result<(), LogError> {
        self.settle(now, out)
    }

    /// Whether a sync has to begin: what it will have made durable when it ends. None while
    /// another is under way, or nothing waits.
    pub fn begin_sync(&mut self) -> Option<LogPosition> {
        if self.syncing || self.log.end() <= self.log.durable() {
            return None;
        }
        self.syncing = true;
        Some(self.log.begin_sync())
    }

    /// A sync ends: what waited for it goes on.
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

    /// Writes a checkpoint if so much has been logged since the last one. After a flush. True if
    /// one stands from now on for the log before it.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn checkpoint_if_due(
        &mut self,
        now: Ticks,
        out: &mut ReplicaOutbox<P>,
    ) -> Result<bool, LogError> {
        // The state that is on its way to a backup is the one at the base.
        if self.group.is_installing() {
            return Ok(false);
        }
        if let Some(place) = self.prepared {
            if self.group.committed() < place.index {
                return Ok(false);
            }
            self.log.adopt_checkpoint()?;
            return Ok(self.compacted(place));
        }
        let base = self.group.base().index;
        let is_due = self.log.since_checkpoint() >= self.options.durable.checkpoint_bytes;
        if !is_due || self.applied() <= base {
            return Ok(false);
        }
        let (view, voted) = (self.group.view(), self.group.voted());
        let group = &self.group;
        match &self.seat {
            Seat::Backup { image, applied, .. } => {
                let entry = group.entry(*applied);
                let place = entry.expect("what was applied is kept").place;
                let later = *applied + 1..=group.last().index;
                self.log.checkpoint(&mut |sink| {
                    write_state(view, voted, place, image, sink);
                    for entry in later.clone().filter_map(|index| group.entry(index)) {
                        sink(ReplicaRecord::Entry {
                            place: entry.place,
                            batch: Arc::clone(&entry.payload),
                        });
                    }
                })?;
                self.compacted(place);
            }
            Seat::Primary(seated) => {
                debug_assert!(
                    seated.out.records.is_empty(),
                    "a checkpoint follows a flush"
                );
                let place = group.last();
                self.log.prepare_checkpoint(&mut |sink| {
                    sink(ReplicaRecord::View { view, voted });
                    sink(ReplicaRecord::State { base: place });
                    let protocol = seated.node.protocol();
                    image::write(seated.life, &seated.numbers, protocol, &mut |record| {
                        sink(ReplicaRecord::Node(record));
                    });
                })?;
                self.prepared = Some(place);
            }
        }
        // Writing one makes durable what was appended.
        self.settle(now, out)?;
        Ok(self.prepared.is_none())
    }

    fn compacted(&mut self, place: Place) -> bool {
        self.prepared = None;
        self.group.compacted(place);
        self.counters.checkpoints += 1;
        true
    }

    /// Sees to what follows from the last steps, until nothing does.
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

    /// The records of the batch become an entry, and what it has said waits.
    fn hand_to_group(&mut self) {
        let Seat::Primary(seated) = &mut self.seat else {
            return;
        };
        if !self.group.is_primary() {
            return;
        }
        let taken = image::take_records(&seated.node, &mut seated.numbers, &mut seated.out);
        if let Some((records, forced)) = taken {
            let index = self.group.append(Arc::new(records), &mut self.group_out);
            if forced {
                seated.forced = index;
            }
        }
        if seated.out.says_something() {
            let round = self.group.want_confirmation();
            seated
                .withheld
                .push((seated.forced, round), &mut seated.out);
        }
    }

    /// Writes what the group wants written, as one frame.
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

    /// Lets out what is committed and confirmed.
    fn release(&mut self, out: &mut ReplicaOutbox<P>) {
        let (Seat::Primary(seated), Some(confirmed)) = (&mut self.seat, self.group.confirmed())
        else {
            return;
        };
        let committed = self.group.committed();
        if seated.rising.is_some_and(|entry| entry <= committed) {
            seated.rising = None;
            out.events.push(ReplicaEvent::Rose(seated.life));
        }
        let mut said = NodeOutbox::default();
        let free = |(entry, round): &(u64, u64)| *entry <= committed && *round <= confirmed;
        seated.withheld.release(free, &mut said);
        if said.says_something() {
            out.events.push(ReplicaEvent::Said(said));
        }
    }

    fn event(
        &mut self,
        now: Ticks,
        event: Event<Batch>,
        out: &mut ReplicaOutbox<P>,
    ) -> Result<(), LogError> {
        match event {
            // A later event of the same batch may have taken back what this one says.
            Event::Elected if self.group.is_primary() => self.rise(now),
            Event::Elected => Ok(()),
            Event::Deposed if matches!(self.seat, Seat::Primary(_)) => self.fall(out),
            Event::Deposed => Ok(()),
            Event::NeedsState => self.offer(),
            Event::Part {
                base,
                part,
                is_last,
                payload,
            } => self.take_part(base, part == 0, is_last, &payload),
        }
    }

    /// Elected: the log becomes a node, in its next life.
    fn rise(&mut self, now: Ticks) -> Result<(), LogError> {
        self.apply(self.group.last().index)?;
        let empty = self.empty_image()?;
        let Seat::Backup { image, .. } = &mut self.seat else {
            unreachable!("a backup is elected");
        };
        let Image {
            protocol,
            numbers,
            life,
        } = std::mem::replace(&mut **image, empty);
        let life = Incarnation(life).next();
        let node = (self.maker.node)(protocol, life).numbering_after(&numbers);
        let batch = Arc::new(vec![NodeRecord::Life(life.0)]);
        let index = self.group.append(batch, &mut self.group_out);
        let mut seated = Box::new(Seated {
            node,
            numbers,
            life,
            rising: Some(index),
            out: NodeOutbox::default(),
            withheld: Withheld::default(),
            forced: index,
        });
        seated.node.recover(now, &mut seated.out);
        self.seat = Seat::Primary(seated);
        Ok(())
    }

    /// Deposed: the node is gone, and with it all that it has not said; its committed past is read
    /// again from the disk.
    fn fall(&mut self, out: &mut ReplicaOutbox<P>) -> Result<(), LogError> {
        let mut image = self.empty_image()?;
        self.log
            .read_newest_checkpoint(&mut |record| match record {
                ReplicaRecord::Node(record) => image.replay(record),
                _ => Ok(()),
            })?;
        self.prepared = None;
        let backup = Seat::Backup {
            image: Box::new(image),
            applied: self.group.base().index,
            coming: None,
        };
        // One that has not risen has said nothing to anybody.
        if let Seat::Primary(seated) = std::mem::replace(&mut self.seat, backup)
            && seated.rising.is_none()
        {
            out.events.push(ReplicaEvent::Fell(Box::new(seated.node)));
        }
        Ok(())
    }

    /// A backup lacks what is kept no longer: it is sent the newest checkpoint's state.
    fn offer(&mut self) -> Result<(), LogError> {
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

    /// A part of the primary's state has come.
    fn take_part(
        &mut self,
        base: Place,
        is_first: bool,
        is_last: bool,
        part: &Batch,
    ) -> Result<(), LogError> {
        let empty = match is_first {
            true => Some(Box::new(self.empty_image()?)),
            false => None,
        };
        let Seat::Backup {
            image,
            applied,
            coming,
        } = &mut self.seat
        else {
            return Ok(());
        };
        if let Some(empty) = empty {
            *coming = Some(empty);
        }
        let Some(filling) = coming else {
            return Ok(());
        };
        for record in part.iter() {
            replay(filling, record)?;
        }
        if !is_last {
            return Ok(());
        }
        if let Some(filled) = coming.take() {
            *image = filled;
            *applied = base.index;
        }
        let (view, voted) = (self.group.view(), self.group.voted());
        self.log
            .checkpoint(&mut |sink| write_state(view, voted, base, image, sink))?;
        self.counters.installed += 1;
        self.group.installed(base, &mut self.group_out);
        Ok(())
    }

    /// Brings a backup's state up to an entry.
    fn apply(&mut self, until: u64) -> Result<(), LogError> {
        let Seat::Backup { image, applied, .. } = &mut self.seat else {
            return Ok(());
        };
        while *applied < until {
            let entry = self.group.entry(*applied + 1);
            let entry = entry.expect("what follows the state is kept");
            for record in entry.payload.iter() {
                replay(image, record)?;
            }
            *applied += 1;
        }
        Ok(())
    }

    fn empty_image(&mut self) -> Result<Image<P>, LogError> {
        let made = Image::new((self.maker.protocol)(Beginning::Recovered));
        made.map_err(|error| LogError::Unreplayable {
            reason: error.to_string(),
        })
    }
}

fn replay<P: Durable>(image: &mut Image<P>, record: &NodeRecord) -> Result<(), LogError> {
    let replayed = image.replay(record.clone());
    replayed.map_err(|reason| LogError::Unreplayable { reason })
}

fn write_state<P: Durable>(
    view: View,
    voted: Option<ReplicaId>,
    base: Place,
    image: &Image<P>,
    sink: &mut Sink<'_, ReplicaRecord>,
) {
    sink(ReplicaRecord::View { view, voted });
    sink(ReplicaRecord::State { base });
    image.write(&mut |record| sink(ReplicaRecord::Node(record)));
}
