//! Random schedules in which owners refuse: clocks are set further ahead than others accept, and back, while nodes
//! crash and restart. Readers see each write whole or not at all, and none that was aborted. When all clocks agree,
//! nothing is left prepared, and all replicas are equal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{
    AbortReason, Durable, PartitionEffects, PartitionRead, Reply, Request, Session, Topology,
    TransactionId,
};
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::ramp::prepare_f::{AFTER, TOO_FAR, WINDOW, every};
use crate::ramp::quorum::PATIENCE;
use crate::ramp::scenarios::registers;
use crate::support::cluster::Cluster;
use crate::support::fixture::*;
use crate::support::random::Random;

const TURNS: u64 = 600;

/// How many replicas and partitions there are, and under which options.
#[derive(Clone, Copy, Debug)]
struct Shape {
    replicas: u16,
    partitions: u16,
    options: RampOptions,
}

impl Shape {
    fn node(&self, number: u16, rows: i64) -> RampNode {
        let topology = Topology::clusters(self.replicas, self.partitions, number % self.replicas);
        let store = store(number / self.replicas, rows, WINDOW);
        RampNode::new(
            NodeId(number),
            Arc::new(topology),
            store,
            programs(),
            self.options,
        )
    }

    fn nodes(&self) -> u16 {
        self.replicas * self.partitions
    }
}

/// The outcomes of writes, by the value that each of them alone has written everywhere.
#[derive(Debug, Default)]
struct Fates {
    committed: BTreeMap<i64, Timestamp>,
    aborted: BTreeSet<i64>,
    read: u64,
    crashes: u64,
}

struct Schedule {
    shape: Shape,
    cluster: Cluster<RampNode>,
    random: Random,
    /// How far ahead a wrong clock may be set. It grows, so that owners that have caught up refuse again.
    epoch: u64,
    /// The next value to be written.
    next: i64,
    /// The session of the client that has committed last.
    session: Session,
    writers: BTreeMap<TransactionId, i64>,
    /// The values that each reader has got so far.
    readers: BTreeMap<TransactionId, Vec<i64>>,
    fates: Fates,
    what: String,
}

impl Schedule {
    fn new(shape: Shape, seed: u64) -> Schedule {
        let nodes = (0..shape.nodes()).map(|number| shape.node(number, 2));
        let mut cluster = Cluster::new(nodes.collect());
        cluster.keep_logs();
        Schedule {
            shape,
            cluster,
            random: Random::new(seed),
            epoch: 1,
            next: (seed * 10_000) as i64,
            session: Session::default(),
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            fates: Fates::default(),
            what: format!("seed {seed} of {shape:?}"),
        }
    }

    fn any(&mut self) -> NodeId {
        NodeId(self.random.below(u64::from(self.shape.nodes())) as u16)
    }

    fn turn(&mut self) {
        match self.random.below(100) {
            0..6 => self.write(),
            6..14 => {
                let node = self.any();
                let reader = self.cluster.begin(node);
                self.readers.insert(reader, Vec::new());
                if self.random.percent(50) {
                    let follow = Request::Follow(self.session.clone());
                    self.cluster.request(reader, follow);
                }
                self.read(reader);
            }
            14..24 => {
                let time = Ticks(self.random.below(AFTER.0 / 3));
                self.cluster.advance(time);
            }
            24..29 => {
                let node = self.any();
                let ahead = self.random.below(self.epoch + 1);
                self.cluster.skew[node.index()] = Ticks(TOO_FAR.0 * ahead);
            }
            29 => self.epoch += 1,
            30 if self.random.percent(40) => self.restart(),
            31 => self.checkpoint(),
            _ => {
                let busy = self.cluster.busy_links();
                if !busy.is_empty() {
                    let (from, to) = busy[self.random.below(busy.len() as u64) as usize];
                    // Some links are slower than others.
                    if (from.0 + 3 * to.0) % 4 > 0 || self.random.percent(10) {
                        self.cluster.deliver(from, to);
                    }
                }
            }
        }
        self.take_replies();
    }

    /// Writes one value on all partitions, or another row of some.
    fn write(&mut self) {
        let node = self.any();
        let writer = self.cluster.begin(node);
        if self.random.percent(75) {
            return self.write_all(writer);
        }
        let partitions = self.shape.partitions;
        let parts = self.random.below(u64::from(partitions)) as u16..partitions;
        let effects = parts.map(|part| on(part, vec![update(SET, part, 1, self.next)]));
        let effects = effects.collect();
        self.next += 1;
        self.cluster.request(writer, Request::Commit(effects));
        self.cluster.take_reply(writer);
    }

    fn write_all(&mut self, writer: TransactionId) {
        let value = self.next;
        self.next += 1;
        let parts = 0..self.shape.partitions;
        let effects = parts.map(|part| on(part, vec![update(SET, part, 0, value)]));
        let effects: Vec<PartitionEffects> = effects.collect();
        self.writers.insert(writer, value);
        self.cluster.request(writer, Request::Commit(effects));
    }

    /// Reads some of the partitions that are left.
    fn read(&mut self, reader: TransactionId) {
        let from = self.readers[&reader].len() as u16;
        let left = u64::from(self.shape.partitions - from);
        let count = 1 + self.random.below(left) as u16;
        let reads: Vec<PartitionRead> = (from..from + count).map(|p| read_item(p, 0)).collect();
        self.cluster.request(reader, Request::Read(reads));
    }

    /// A node crashes and restarts. Requests to it get no answer.
    fn restart(&mut self) {
        let node = self.any();
        self.writers.retain(|writer, _| writer.node != node);
        self.readers.retain(|reader, _| reader.node != node);
        let fresh = self.shape.node(node.0, 0);
        self.cluster.restart(node, fresh);
        self.fates.crashes += 1;
    }

    /// A node replaces its log by a checkpoint.
    fn checkpoint(&mut self) {
        let node = self.any();
        let log = &mut self.cluster.logs[node.index()];
        log.clear();
        self.cluster.nodes[node.index()].checkpoint(&mut |record| log.push(record));
    }

    fn take_replies(&mut self) {
        let writers: Vec<TransactionId> = self.writers.keys().copied().collect();
        for writer in writers {
            let Some(reply) = self.cluster.take_reply(writer) else {
                continue;
            };
            let value = self.writers.remove(&writer).expect("it was found there");
            match reply {
                Reply::Committed {
                    timestamp, session, ..
                } => {
                    self.fates.committed.insert(value, timestamp);
                    self.session = session;
                }
                Reply::Aborted(AbortReason::InDoubt) => {}
                Reply::Aborted(_) => {
                    self.fates.aborted.insert(value);
                }
                other => panic!("{}: {other:?}", self.what),
            }
        }
        let readers: Vec<TransactionId> = self.readers.keys().copied().collect();
        for reader in readers {
            match self.cluster.take_reply(reader) {
                None => {}
                Some(Reply::Aborted(_)) => {
                    self.readers.remove(&reader);
                }
                reply => self.take_rows(reader, registers(reply)),
            }
        }
    }

    fn take_rows(&mut self, reader: TransactionId, rows: Vec<i64>) {
        let seen = self.readers.get_mut(&reader).expect("it reads");
        seen.extend(rows);
        let alike = seen.iter().all(|value| *value == seen[0]);
        assert!(alike, "{}: {reader:?} reads {seen:?}", self.what);
        let value = seen[0];
        assert!(
            !self.fates.aborted.contains(&value),
            "{}: {reader:?} reads {value}, which was aborted",
            self.what
        );
        if seen.len() < usize::from(self.shape.partitions) {
            return self.read(reader);
        }
        self.readers.remove(&reader);
        self.fates.read += 1;
        if self.random.percent(30) {
            return self.write_all(reader);
        }
        self.cluster.request(reader, Request::Commit(Vec::new()));
        if let Some(Reply::Committed { session, .. }) = self.cluster.take_reply(reader) {
            self.session = session;
        }
    }

    /// All clocks agree, and everything arrives.
    fn come_to_rest(&mut self) {
        for skew in &mut self.cluster.skew {
            *skew = Ticks(TOO_FAR.0 * (self.epoch + 1));
        }
        for _ in 0..100 {
            self.cluster.deliver_all();
            self.take_replies();
            self.cluster.advance(AFTER);
            if self.cluster.nodes.iter().all(RampNode::is_idle) {
                return;
            }
        }
        let prepared: Vec<usize> = self.cluster.nodes.iter().map(RampNode::prepared).collect();
        panic!("{}: not at rest, prepared {prepared:?}", self.what);
    }

    /// Checks that all replicas are equal, and have the last write.
    fn check_replicas(&mut self) {
        // By then no replica is avoided for having been silent.
        self.cluster.advance(Ticks(PATIENCE.0 * 100));
        self.cluster.deliver_all();
        let (replicas, partitions) = (self.shape.replicas, self.shape.partitions);
        let mut visible = BTreeSet::new();
        for number in 0..self.shape.nodes() {
            let part = number / replicas;
            let rows = [0, 1].map(|row| read_item(part, row));
            let (rows, reader) = (rows.to_vec(), self.cluster.begin(NodeId(number)));
            let rows = registers(Some(self.cluster.ask(reader, Request::Read(rows))));
            self.cluster.request(reader, Request::Abort);
            visible.insert((part, rows[1]));
            visible.insert((partitions, rows[0]));
        }
        let expected = usize::from(partitions) + 1;
        assert_eq!(visible.len(), expected, "{}: {visible:?}", self.what);
        let (_, last) = visible.last().expect("there are some");
        let Some(at) = self.fates.committed.get(last) else {
            return; // Its coordinator has crashed, or it is a loaded row.
        };
        let newest = self.fates.committed.values().max();
        assert_eq!(
            Some(at),
            newest,
            "{}: {last} is not the last write",
            self.what
        );
    }
}

/// Runs seeds with two to five replicas, or with one; returns the outcomes of all writes.
fn sweep(seeds: Range<u64>, one: bool, options: impl Fn(u16, &mut Random) -> RampOptions) -> Fates {
    let mut all = Fates::default();
    for seed in seeds {
        let mut random = Random::new(seed);
        let replicas = if one { 1 } else { 2 + random.below(4) as u16 };
        let shape = Shape {
            replicas,
            partitions: 1 + u16::from(one) + random.below(3) as u16,
            options: options(replicas, &mut random),
        };
        let mut schedule = Schedule::new(shape, seed);
        for _ in 0..TURNS {
            schedule.turn();
        }
        schedule.come_to_rest();
        schedule.check_replicas();
        let fates = schedule.fates;
        all.committed.extend(fates.committed);
        all.aborted.extend(fates.aborted);
        all.read += fates.read;
        all.crashes += fates.crashes;
    }
    all
}

fn check_reached(fates: &Fates) {
    let (committed, aborted) = (fates.committed.len(), fates.aborted.len());
    let (read, crashes) = (fates.read, fates.crashes);
    assert!(
        committed > 100 && aborted > 20 && read > 100 && crashes > 20,
        "{committed} committed, {aborted} aborted, {read} read, {crashes} crashes"
    );
}

fn any_metadata(random: &mut Random) -> Metadata {
    let every: Vec<Metadata> = every().collect();
    every[random.below(every.len() as u64) as usize]
}

#[test]
fn replicas_that_refuse_leave_nothing_behind() {
    let fates = sweep(0..60, false, |_, random| RampOptions {
        quorum: Some(PATIENCE),
        terminate_after: Some(AFTER),
        metadata: any_metadata(random),
        ..RampOptions::default()
    });
    check_reached(&fates);
}

#[test]
fn clusters_that_refuse_leave_nothing_behind() {
    let fates = sweep(1_000..1_060, false, |replicas, random| RampOptions {
        prepare_f: Some(random.below(u64::from(replicas)) as u16),
        terminate_after: Some(AFTER),
        metadata: any_metadata(random),
        ..RampOptions::default()
    });
    check_reached(&fates);
}

/// The same in one cluster, where each participant votes, and a yes of all decides.
#[test]
fn owners_that_refuse_leave_nothing_behind() {
    let fates = sweep(2_000..2_060, true, |_, random| RampOptions {
        terminate_after: Some(AFTER),
        metadata: any_metadata(random),
        causal: random.percent(60),
        one_phase: random.percent(30),
        ..RampOptions::default()
    });
    check_reached(&fates);
}

/// The same with exceptions all the time, and with gossip.
#[test]
fn owners_that_refuse_beside_exceptions_leave_nothing_behind() {
    let fates = sweep(3_000..3_400, true, |_, random| RampOptions {
        terminate_after: Some(AFTER),
        metadata: any_metadata(random),
        one_phase: random.percent(30),
        except_after: Ticks(random.below(AFTER.0 / 4)),
        except_behind: random.below(3) as u32,
        exceptions_max: 1 + random.below(6) as u32,
        announce_after: Ticks(1 + random.below(AFTER.0 / 4)),
        retain: Ticks(AFTER.0 * (1 + random.below(8))),
        gossip_after: random.percent(70).then_some(Ticks(1 + AFTER.0 / 8)),
        ..RampOptions::default()
    });
    check_reached(&fates);
}
