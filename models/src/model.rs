//! The models by name: their protocols, scripts, sizes and properties.

use std::fmt;
use std::sync::Arc;

use anabranch_protocol::belt::ServerId;
use anabranch_protocol::epci::EPciNode;
use anabranch_protocol::locking::{LockingNode, LockingOptions, ReadLocks};
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::order::SiteId;
use anabranch_protocol::order::epaxos::{EpaxosOptions, EpaxosSite};
use anabranch_protocol::order::pob::{FastDecisions, PobOptions, PobSite};
use anabranch_protocol::ramp::{FilterSize, Metadata, RampNode, RampOptions};
use anabranch_protocol::score::{ScoreNode, ScoreOptions};
use anabranch_protocol::{Durable, Topology};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{NodeId, Ticks};

use crate::belt::{BeltScenario, explore_belt};
use crate::client::{Item, Script};
use crate::cluster::{Scenario, State, Subject};
use crate::explore::{Found, Limits, Property, Visited, describe_steps, explore, shortest};
use crate::order::{Explored, OrderScenario, explore_order, placements};
use crate::property::{
    CausalReplies, ConsistentCopies, GuardedSum, Initial, ReadAtomic, Serializable,
};
use crate::subject::NoSecondRound;
use crate::support::fixture::{ITEM, item_key, item_row, programs, schema};

/// All models.
pub const MODELS: &[Model] = &[
    Model {
        name: "ramp",
        about: "RAMP-Fast: no reader sees a part of a transaction",
        kind: Kind::Ramp(Metadata::Fast),
        is_self_test: false,
    },
    Model {
        name: "ramp-small",
        about: "RAMP-Small: no reader sees a part of a transaction",
        kind: Kind::Ramp(Metadata::Small),
        is_self_test: false,
    },
    Model {
        name: "ramp-hybrid",
        about: "RAMP-Hybrid, filters of 256 bits: no reader sees a part of a transaction",
        kind: Kind::Ramp(Metadata::Hybrid(FilterSize::PUBLISHED)),
        is_self_test: false,
    },
    Model {
        name: "ramp-one-phase",
        about: "RAMP-Fast, one-phase writes: no reader sees a part of a transaction",
        kind: Kind::RampOnePhase,
        is_self_test: false,
    },
    Model {
        name: "causal",
        about: "causal RAMP-Fast: a reader of a reply sees what it answers",
        kind: Kind::Replies {
            metadata: Metadata::Fast,
            causal: true,
        },
        is_self_test: false,
    },
    Model {
        name: "causal-small",
        about: "causal RAMP-Small: a reader of a reply sees what it answers",
        kind: Kind::Replies {
            metadata: Metadata::Small,
            causal: true,
        },
        is_self_test: false,
    },
    Model {
        name: "ramp-guards",
        about: "RAMP-Fast with guards: two withdrawals cannot take the same amount",
        kind: Kind::RampGuards,
        is_self_test: false,
    },
    Model {
        name: "locking",
        about: "locking with declared locks: serializable, without deadlocks",
        kind: Kind::Locking { declares: true },
        is_self_test: false,
    },
    Model {
        name: "locking-undeclared",
        about: "locking with locks requested as the procedure runs: serializable",
        kind: Kind::Locking { declares: false },
        is_self_test: false,
    },
    Model {
        name: "locking-by-age",
        about: "locking by age beside declared locks: serializable, without deadlocks",
        kind: Kind::LockingByAge,
        is_self_test: false,
    },
    Model {
        name: "score",
        about: "SCORe: serializable, and no reader aborts",
        kind: Kind::Score {
            time_warping: false,
        },
        is_self_test: false,
    },
    Model {
        name: "bumper",
        about: "SCORe with commits at the snapshot: serializable, and no reader aborts",
        kind: Kind::Score { time_warping: true },
        is_self_test: false,
    },
    Model {
        name: "e-pci",
        about: "commit checks at coordinators: no reader sees a part of a transaction",
        kind: Kind::EPci,
        is_self_test: false,
    },
    Model {
        name: "ramp-quorum",
        about: "RAMP-Fast over three copies: no reader sees a part, and no client waits for a crashed copy",
        kind: Kind::Quorum(Metadata::Fast),
        is_self_test: false,
    },
    Model {
        name: "ramp-quorum-small",
        about: "RAMP-Small over three copies: no reader sees a part, and no client waits for a crashed copy",
        kind: Kind::Quorum(Metadata::Small),
        is_self_test: false,
    },
    Model {
        name: "belt",
        about: "the Conveyor Belt: one hold at a time, all databases in one order, no update lost or repeated",
        kind: Kind::Belt { removes: false },
        is_self_test: false,
    },
    Model {
        name: "belt-removal",
        about: "the Conveyor Belt, whose last server is lost and removed",
        kind: Kind::Belt { removes: true },
        is_self_test: false,
    },
    Model {
        name: "pob",
        about: "partial order broadcast, classic decisions: one decision a batch, conflicts in one order",
        kind: Kind::Pob(FastDecisions::Off),
        is_self_test: false,
    },
    Model {
        name: "pob-fast",
        about: "partial order broadcast, fast decisions by all sites: the same",
        kind: Kind::Pob(FastDecisions::AllSites),
        is_self_test: false,
    },
    Model {
        name: "epaxos",
        about: "EPaxos: one decision a batch, and of two conflicting ones one depends on the other",
        kind: Kind::Epaxos,
        is_self_test: false,
    },
    Model {
        name: "nwnr",
        about: "no concurrency control: fractures (self-test)",
        kind: Kind::Nwnr,
        is_self_test: true,
    },
    Model {
        name: "ramp-without-second-round",
        about: "RAMP-Fast without its second round: fractures (self-test)",
        kind: Kind::NoSecondRound,
        is_self_test: true,
    },
    Model {
        name: "ramp-replies",
        about: "RAMP-Fast: a reply is visible without what it answers (self-test)",
        kind: Kind::Replies {
            metadata: Metadata::Fast,
            causal: false,
        },
        is_self_test: true,
    },
    Model {
        name: "locking-short",
        about: "locking that keeps no read locks: not serializable (self-test)",
        kind: Kind::WeakLocking(ReadLocks::Short),
        is_self_test: true,
    },
    Model {
        name: "lwnr",
        about: "locking that takes no read locks: not serializable (self-test)",
        kind: Kind::WeakLocking(ReadLocks::None),
        is_self_test: true,
    },
];

/// A model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Its property, in one line.
    pub about: &'static str,
    /// Its kind.
    kind: Kind,
    /// Whether the search has to find a violation.
    pub is_self_test: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ramp(Metadata),
    RampOnePhase,
    RampGuards,
    Quorum(Metadata),
    Replies { metadata: Metadata, causal: bool },
    Locking { declares: bool },
    LockingByAge,
    Score { time_warping: bool },
    Nwnr,
    NoSecondRound,
    EPci,
    WeakLocking(ReadLocks),
    Pob(FastDecisions),
    Epaxos,
    Belt { removes: bool },
}

/// The size of a model.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of transactions that write on all partitions.
    pub writers: u32,
    /// The number of transactions that read on all partitions.
    pub readers: u32,
    /// The number of partitions with items.
    pub partitions: u16,
    /// Whether readers read one partition after the other.
    pub sequential_reads: bool,
    /// Whether clients are at nodes of their own, which own no partition.
    pub remote_clients: bool,
    /// The number of writers' coordinators that may crash.
    pub crashes: u32,
    /// How often owners of partitions and coordinators of writers may crash and restart.
    pub restarts: u32,
    /// How often time may jump by more than half of the retention of sibling metadata and versions.
    pub jumps: u32,
    /// Whether participants inquire about transactions that are in doubt, when nothing else is left to do or time has
    /// jumped.
    pub terminates: bool,
    /// How often a site may recover a batch, in models of orderers.
    pub recoveries: u32,
    /// The number of sites, in models of orderers.
    pub sites: u8,
}

impl Size {
    /// Two writers and two readers at the owners of two partitions.
    pub const TWO: Size = Size {
        writers: 2,
        readers: 2,
        partitions: 2,
        sequential_reads: false,
        remote_clients: false,
        crashes: 0,
        restarts: 0,
        jumps: 0,
        terminates: false,
        recoveries: 1,
        sites: 3,
    };
}

impl Default for Size {
    fn default() -> Self {
        Size::TWO
    }
}

/// The report of a search.
#[derive(Clone, Debug)]
pub struct Report {
    /// The size of the search.
    pub visited: Visited,
    /// The violation.
    pub found: Option<Found>,
}

/// The retention of sibling metadata and old versions, in models with jumps.
const RETAIN: Ticks = Ticks::from_millis(10);

/// The length of a jump of time: one jump is within [`RETAIN`], two are not.
const JUMP: Ticks = Ticks::from_millis(6);

/// The items of a comment, its copy and its reply, in models of causality.
const COMMENT: Item = (0, 0);
const COMMENT_COPY: Item = (1, 0);
const REPLY: Item = (2, 0);

/// The time after which participants inquire, in models with termination: less than a jump.
const INQUIRE_AFTER: Ticks = Ticks::from_millis(5);

/// The number of copies of each partition, in models of quorums.
const COPIES: u16 = 3;

/// The reason why a size is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge(String);

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Model {
    /// The model of this name.
    pub fn named(name: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// Explores the model.
    ///
    /// # Errors
    /// If there would be more nodes or clients than the explorer has numbers for.
    pub fn run(&self, size: Size, limits: Limits) -> Result<Report, TooLarge> {
        size.check()?;
        if size.restarts > 0 && matches!(self.kind, Kind::Nwnr | Kind::NoSecondRound | Kind::EPci) {
            let what = format!(
                "{} writes no log records, so no node can restart",
                self.name
            );
            return Err(TooLarge(what));
        }
        let start = |count| Initial {
            partitions: size.partitions,
            count,
        };
        let read_atomic = ReadAtomic {
            start: start(0),
            unblocked: size.remote_clients,
            terminates: size.terminates,
            recent: !matches!(self.kind, Kind::EPci | Kind::RampOnePhase),
        };
        let serializable = Serializable { start: start(0) };
        let write = || size.scenario(Size::write);
        let rewrite = || size.scenario(Size::rewrite);
        Ok(match self.kind {
            Kind::Pob(fast) => run_orderer(size, limits, move |site| {
                let options = PobOptions {
                    fast,
                    ..PobOptions::new(site, size.sites)
                };
                PobSite::new(options).expect("a supported size")
            }),
            Kind::Epaxos => run_orderer(size, limits, move |site| {
                let options = EpaxosOptions::new(site, size.sites);
                EpaxosSite::new(options).expect("a supported size")
            }),
            Kind::Belt { removes } => run_belt(size, removes, limits),
            Kind::Ramp(metadata) => {
                let nodes = size.both(0, durable(size, ramp(size, metadata)));
                run(nodes, &write(), &read_atomic, limits)
            }
            Kind::RampOnePhase => {
                let node = ramp_with(RampOptions {
                    one_phase: true,
                    ..ramp_options(size, Metadata::Fast)
                });
                let nodes = size.both(0, durable(size, node));
                run(nodes, &write(), &read_atomic, limits)
            }
            Kind::Replies { metadata, causal } => run_replies(size, metadata, causal, limits)?,
            Kind::Quorum(metadata) => {
                let (scenario, nodes) = (size.copied()?, size.copies(metadata));
                let consistent = ConsistentCopies { copies: COPIES };
                run(nodes, &scenario, &consistent, limits)
            }
            Kind::NoSecondRound => {
                let broken = |node, topology, store| {
                    NoSecondRound(ramp(size, Metadata::Fast)(node, topology, store))
                };
                run(size.both(0, broken), &write(), &read_atomic, limits)
            }
            Kind::Nwnr => {
                let node = |node, topology, store| NwnrNode::new(node, topology, store, programs());
                run(size.both(0, node), &write(), &read_atomic, limits)
            }
            Kind::RampGuards => {
                let mut scenario = size.scenario(Size::withdraw);
                scenario.scripts.truncate(size.writers as usize);
                let guarded = GuardedSum { start: start(1) };
                let nodes = size.both(1, durable(size, ramp(size, Metadata::Fast)));
                run(nodes, &scenario, &guarded, limits)
            }
            Kind::Locking { declares } => {
                let mut scenario = rewrite();
                scenario.declares = declares;
                let nodes = size.both(0, durable(size, locking(ReadLocks::Long)));
                run(nodes, &scenario, &serializable, limits)
            }
            Kind::LockingByAge => {
                let nodes = size.both(0, durable(size, locking(ReadLocks::Long)));
                run(nodes, &size.by_age(), &serializable, limits)
            }
            Kind::Score { time_warping } => {
                let nodes = size.both(0, durable(size, score(time_warping)));
                run(nodes, &rewrite(), &serializable, limits)
            }
            Kind::EPci => {
                let node = |node, topology, store| EPciNode::new(node, topology, store, programs());
                run(size.both(0, node), &write(), &read_atomic, limits)
            }
            Kind::WeakLocking(read_locks) => {
                let nodes = size.both(0, durable(size, locking(read_locks)));
                run(nodes, &rewrite(), &serializable, limits)
            }
        })
    }
}

/// Explores an orderer, for each choice of the sites that broadcast.
fn run_orderer<S: Explored>(
    size: Size,
    limits: Limits,
    make: impl Fn(SiteId) -> S + Copy + 'static,
) -> Report {
    let mut visited = Visited {
        complete: true,
        ..Visited::default()
    };
    for payloads in placements(size.sites, size.writers as usize) {
        let scenario = OrderScenario {
            sites: size.sites,
            make: Box::new(make),
            payloads,
            crashes: size.crashes,
            restarts: size.restarts,
            recoveries: size.recoveries,
        };
        let left = Limits {
            states_max: limits.states_max.saturating_sub(visited.states),
            ..limits
        };
        let (more, found) = explore_order(&scenario, left);
        visited.states += more.states;
        visited.steps += more.steps;
        visited.ends += more.ends;
        visited.depth = visited.depth.max(more.depth);
        visited.complete &= more.complete;
        if found.is_some() {
            return Report { visited, found };
        }
    }
    Report {
        visited,
        found: None,
    }
}

/// Explores the Conveyor Belt: all ways in which servers have the operations.
fn run_belt(size: Size, removes: bool, limits: Limits) -> Report {
    let servers = u16::from(size.sites);
    let mut visited = Visited {
        complete: true,
        ..Visited::default()
    };
    for number in 0..servers.pow(size.writers) {
        let place = |digit: u32| ServerId(number / servers.pow(digit) % servers);
        let scenario = BeltScenario {
            servers,
            operations: (0..size.writers).map(place).collect(),
            restarts: size.restarts,
            aborts: size.crashes,
            resends: size.recoveries,
            removes,
        };
        let left = Limits {
            states_max: limits.states_max.saturating_sub(visited.states),
            ..limits
        };
        let (more, found) = explore_belt(&scenario, left);
        visited.states += more.states;
        visited.steps += more.steps;
        visited.ends += more.ends;
        visited.depth = visited.depth.max(more.depth);
        visited.complete &= more.complete;
        if found.is_some() {
            return Report { visited, found };
        }
    }
    Report {
        visited,
        found: None,
    }
}

/// Explores a model of causality: a comment, its copy, and a reply.
fn run_replies(
    size: Size,
    metadata: Metadata,
    causal: bool,
    limits: Limits,
) -> Result<Report, TooLarge> {
    let size = Size {
        partitions: 3,
        writers: 2,
        ..size
    };
    size.check()?;
    let node = ramp_with(RampOptions {
        causal,
        ..ramp_options(size, metadata)
    });
    let nodes = size.both(0, durable(size, node));
    let property = CausalReplies {
        comment_copy: COMMENT_COPY,
        reply: REPLY,
    };
    Ok(run(nodes, &size.replies(), &property, limits))
}

fn run<P: Subject>(
    (nodes, empty): (Vec<P>, Vec<P>),
    scenario: &Scenario,
    property: &dyn Property<P>,
    limits: Limits,
) -> Report {
    let first = State::new(nodes, empty, scenario);
    let (visited, found) = explore(first.clone(), scenario, property, limits);
    let found = found.map(|found| {
        let depth = found.actions.len();
        let found = shortest(first.clone(), scenario, property, depth).unwrap_or(found);
        Found {
            story: describe_steps(&first, scenario, &found),
            steps: found.actions.len(),
            what: found.what,
        }
    });
    Report { visited, found }
}

/// Makes nodes that write log records, if nodes may restart.
fn durable<P: Durable>(
    size: Size,
    node: impl Fn(NodeId, Arc<Topology>, Store) -> P,
) -> impl Fn(NodeId, Arc<Topology>, Store) -> P {
    move |id, topology, store| {
        let mut made = node(id, topology, store);
        if size.restarts > 0 {
            made.keep_records()
                .expect("the protocol writes log records");
        }
        made
    }
}

fn ramp(size: Size, metadata: Metadata) -> impl Fn(NodeId, Arc<Topology>, Store) -> RampNode {
    ramp_with(ramp_options(size, metadata))
}

fn ramp_with(options: RampOptions) -> impl Fn(NodeId, Arc<Topology>, Store) -> RampNode {
    move |node, topology, store| RampNode::new(node, topology, store, programs(), options)
}

fn ramp_options(size: Size, metadata: Metadata) -> RampOptions {
    RampOptions {
        announce_after: Ticks(0),
        retain: RETAIN,
        metadata,
        terminate_after: size.terminates.then_some(INQUIRE_AFTER),
        // Otherwise the durations of transactions would distinguish equivalent states.
        exceptions_max: 0,
        gossip_after: None,
        ..RampOptions::default()
    }
}

fn locking(read_locks: ReadLocks) -> impl Fn(NodeId, Arc<Topology>, Store) -> LockingNode {
    move |node, topology, store| {
        let options = LockingOptions {
            read_locks,
            unlocked_tables: Vec::new(),
        };
        LockingNode::new(node, topology, schema(), store, programs(), options)
    }
}

fn score(time_warping: bool) -> impl Fn(NodeId, Arc<Topology>, Store) -> ScoreNode {
    move |node, topology, store| {
        let options = ScoreOptions {
            time_warping,
            ..ScoreOptions::default()
        };
        ScoreNode::new(node, topology, schema(), store, programs(), options)
    }
}

impl Size {
    fn check(self) -> Result<(), TooLarge> {
        let nodes = self.nodes_count();
        let clients = self.writers + self.readers;
        if nodes > crate::cluster::NODES_MAX as u32 || clients > 8 || self.partitions == 0 {
            return Err(TooLarge(format!(
                "{nodes} nodes and {clients} clients; at most {} and 8 can be explored, on at \
                 least one partition",
                crate::cluster::NODES_MAX
            )));
        }
        Ok(())
    }

    fn nodes_count(self) -> u32 {
        let clients = match self.remote_clients {
            true => self.writers + self.readers,
            false => 0,
        };
        u32::from(self.partitions) + clients
    }

    fn items(self) -> Vec<Item> {
        (0..self.partitions).map(|part| (part, 0)).collect()
    }

    fn write(self, writer: u32) -> Script {
        Script::Write {
            writer,
            items: self.items(),
        }
    }

    fn rewrite(self, writer: u32) -> Script {
        Script::Rewrite {
            writer,
            items: self.items(),
            in_turn: false,
        }
    }

    /// Writers wait by age and read one item after the other, every second one in the opposite order. In place of
    /// readers there are writers that declare.
    fn by_age(self) -> Scenario {
        let mut scenario = self.scenario(|size, writer| {
            let mut items = size.items();
            if writer % 2 == 1 {
                items.reverse();
            }
            Script::Rewrite {
                writer,
                items,
                in_turn: true,
            }
        });
        for ((_, script), writer) in scenario
            .scripts
            .iter_mut()
            .zip(0..)
            .skip(self.writers as usize)
        {
            *script = self.rewrite(writer);
        }
        scenario.declares = true;
        scenario.pauses = true;
        scenario.by_age = self.writers as usize;
        scenario
    }

    fn withdraw(self, writer: u32) -> Script {
        Script::Withdraw {
            from: self.items(),
            at: ((writer % u32::from(self.partitions)) as u16, 0),
            amount: i64::from(self.partitions),
        }
    }

    /// One client writes a comment and its copy, another replies to the comment, and readers read the copy and the
    /// reply; sequential readers in either order.
    fn replies(self) -> Scenario {
        let mut scenario = self.scenario(|_, writer| match writer {
            0 => Script::Write {
                writer,
                items: vec![COMMENT, COMMENT_COPY],
            },
            _ => Script::Reply {
                to: COMMENT,
                at: REPLY,
            },
        });
        let readers = scenario.scripts[self.writers as usize..].iter_mut();
        for ((_, script), number) in readers.zip(0u32..) {
            let batches = match (self.sequential_reads, number % 2) {
                (false, _) => vec![vec![COMMENT_COPY, REPLY]],
                (true, 0) => vec![vec![COMMENT_COPY], vec![REPLY]],
                (true, _) => vec![vec![REPLY], vec![COMMENT_COPY]],
            };
            *script = Script::Read { batches };
        }
        scenario
    }

    fn scenario(self, write: impl Fn(Size, u32) -> Script) -> Scenario {
        let batches = match self.sequential_reads {
            true => self.items().into_iter().map(|item| vec![item]).collect(),
            false => vec![self.items()],
        };
        let look = |_| Script::Read {
            batches: batches.clone(),
        };
        let writers = (0..self.writers).map(|writer| write(self, writer));
        let scripts = writers.chain((0..self.readers).map(look));
        let node = |number: u32| match self.remote_clients {
            true => NodeId(self.partitions + number as u16),
            false => NodeId((number % u32::from(self.partitions)) as u16),
        };
        let scripts: Vec<(NodeId, Script)> = (0..).map(node).zip(scripts).collect();
        let mut crashing: Vec<NodeId> = Vec::new();
        for (node, script) in &scripts {
            if script.writes() && !crashing.contains(node) {
                crashing.push(*node);
            }
        }
        let mut restarting: Vec<NodeId> = (0..self.partitions).map(NodeId).collect();
        restarting.extend(crashing.iter().filter(|node| node.0 >= self.partitions));
        Scenario {
            restarting: (restarting, self.restarts),
            scripts,
            declares: false,
            by_age: 0,
            pauses: self.sequential_reads,
            crashing: (crashing, self.crashes),
            jumps: (self.jumps, JUMP),
            // The second inquiry comes later than a jump after the first.
            timer_waits: 2 * u32::from(self.terminates),
        }
    }

    /// Writers and readers at copies of two partitions. Any copy without a client may crash, and any copy may restart.
    fn copied(self) -> Result<Scenario, TooLarge> {
        if self.partitions != 2 || self.remote_clients || self.crashes > 1 || self.terminates {
            let what =
                "quorum models have two partitions, clients at their copies, and at most one crash";
            return Err(TooLarge(what.to_owned()));
        }
        let mut scenario = self.scenario(|size, writer| Script::Assign {
            writer,
            items: size.items(),
        });
        // Writers are at the first partition's copies, readers at the other's.
        for (number, (node, script)) in (0u16..).zip(&mut scenario.scripts) {
            let first = if script.writes() { 0 } else { COPIES };
            *node = NodeId(first + number % COPIES);
        }
        let idle = |node: &NodeId| scenario.scripts.iter().all(|(at, _)| at != node);
        let nodes = || (0..2 * COPIES).map(NodeId);
        scenario.crashing = (nodes().filter(idle).collect(), self.crashes);
        scenario.restarting = (nodes().collect(), self.restarts);
        scenario.timer_waits = 4 * u32::from(self.crashes > 0 || self.restarts > 0);
        Ok(scenario)
    }

    /// The copies with their items, and the copies without items.
    fn copies(self, metadata: Metadata) -> (Vec<RampNode>, Vec<RampNode>) {
        let options = RampOptions {
            quorum: Some(INQUIRE_AFTER),
            ..ramp_options(self, metadata)
        };
        let node =
            |node, topology, store| RampNode::new(node, topology, store, programs(), options);
        let node = durable(self, node);
        let made = |number: u16, filled: bool| {
            let topology = Arc::new(Topology::clusters(COPIES, 2, number % COPIES));
            let mut store = Store::new(&schema(), StoreSettings { window: RETAIN });
            let part = number / COPIES;
            if filled {
                let (key, row) = (item_key(part, 0), item_row(part, 0, 0, 0));
                store
                    .load(ITEM, key, row)
                    .expect("each item is loaded once");
            }
            node(NodeId(number), topology, store)
        };
        let all = |filled| (0..2 * COPIES).map(|number| made(number, filled)).collect();
        (all(true), all(false))
    }

    /// The nodes with their items, and the nodes without items.
    fn both<P>(
        self,
        count: i64,
        node: impl Fn(NodeId, Arc<Topology>, Store) -> P,
    ) -> (Vec<P>, Vec<P>) {
        let nodes = self.nodes_count() as u16;
        let topology = Arc::new(Topology::one_each(nodes));
        let made = |part: u16, filled: bool| {
            let mut store = Store::new(&schema(), StoreSettings { window: RETAIN });
            if filled && part < self.partitions {
                let (key, row) = (item_key(part, 0), item_row(part, 0, 0, count));
                store
                    .load(ITEM, key, row)
                    .expect("each item is loaded once");
            }
            node(NodeId(part), Arc::clone(&topology), store)
        };
        let all = |filled| (0..nodes).map(|part| made(part, filled)).collect();
        (all(true), all(false))
    }
}
