//! The models by name: which protocol, which scripts, how large, and what must hold.

use std::fmt;
use std::sync::Arc;

use anabranch_protocol::epci::EPciNode;
use anabranch_protocol::locking::{LockingNode, LockingOptions, ReadLocks};
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::{FilterSize, Metadata, RampNode, RampOptions};
use anabranch_protocol::{Durable, Topology};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{NodeId, Ticks};

use crate::client::{Item, Script};
use crate::cluster::{Setting, State, Subject};
use crate::explore::{Found, Limits, Property, Visited, explore, narrate, shortest};
use crate::property::{Copied, Guarded, ReadAtomic, Replied, Serializable, Start};
use crate::subject::Deaf;
use crate::support::fixture::{ITEM, item_key, item_row, programs, schema};

/// Every model.
pub const MODELS: &[Model] = &[
    Model {
        name: "ramp",
        about: "RAMP-Fast: no reader sees a part of a transaction",
        kind: Kind::Ramp(Metadata::Fast),
        finds: false,
    },
    Model {
        name: "ramp-small",
        about: "RAMP-Small: no reader sees a part of a transaction",
        kind: Kind::Ramp(Metadata::Small),
        finds: false,
    },
    Model {
        name: "ramp-hybrid",
        about: "RAMP-Hybrid, filters of 256 bits: no reader sees a part of a transaction",
        kind: Kind::Ramp(Metadata::Hybrid(FilterSize::PUBLISHED)),
        finds: false,
    },
    Model {
        name: "ramp-one-phase",
        about: "RAMP-Fast, one-phase writes: no reader sees a part of a transaction",
        kind: Kind::RampOnePhase,
        finds: false,
    },
    Model {
        name: "causal",
        about: "causal RAMP-Fast: whoever sees a reply sees what it answers",
        kind: Kind::Replies {
            metadata: Metadata::Fast,
            causal: true,
        },
        finds: false,
    },
    Model {
        name: "causal-small",
        about: "causal RAMP-Small: whoever sees a reply sees what it answers",
        kind: Kind::Replies {
            metadata: Metadata::Small,
            causal: true,
        },
        finds: false,
    },
    Model {
        name: "ramp-guards",
        about: "RAMP-Fast with guards: no two withdrawals take what is there once",
        kind: Kind::RampGuards,
        finds: false,
    },
    Model {
        name: "locking",
        about: "locking with declared locks: serializable, and nobody waits for ever",
        kind: Kind::Locking { declares: true },
        finds: false,
    },
    Model {
        name: "locking-undeclared",
        about: "locking with locks asked for as the procedure runs: serializable",
        kind: Kind::Locking { declares: false },
        finds: false,
    },
    Model {
        name: "e-pci",
        about: "commit checks at coordinators: no reader sees a part of a transaction",
        kind: Kind::EPci,
        finds: false,
    },
    Model {
        name: "ramp-quorum",
        about: "RAMP-Fast over three copies: no reader sees a part, and no copy is waited for",
        kind: Kind::Quorum(Metadata::Fast),
        finds: false,
    },
    Model {
        name: "ramp-quorum-small",
        about: "RAMP-Small over three copies: no reader sees a part, and no copy is waited for",
        kind: Kind::Quorum(Metadata::Small),
        finds: false,
    },
    Model {
        name: "nwnr",
        about: "no concurrency control: fractures (self-test)",
        kind: Kind::Nwnr,
        finds: true,
    },
    Model {
        name: "ramp-deaf",
        about: "RAMP-Fast without its second round: fractures (self-test)",
        kind: Kind::Deaf,
        finds: true,
    },
    Model {
        name: "ramp-replies",
        about: "RAMP-Fast: a reply is seen without what it answers (self-test)",
        kind: Kind::Replies {
            metadata: Metadata::Fast,
            causal: false,
        },
        finds: true,
    },
    Model {
        name: "locking-short",
        about: "locking that keeps no read locks: not serializable (self-test)",
        kind: Kind::FewerLocks(ReadLocks::Short),
        finds: true,
    },
    Model {
        name: "lwnr",
        about: "locking that takes no read locks: not serializable (self-test)",
        kind: Kind::FewerLocks(ReadLocks::None),
        finds: true,
    },
];

/// A model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// What it is called.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Which it is.
    kind: Kind,
    /// Whether it is wrong on purpose, and something must be found.
    pub finds: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ramp(Metadata),
    RampOnePhase,
    RampGuards,
    Quorum(Metadata),
    Replies { metadata: Metadata, causal: bool },
    Locking { declares: bool },
    Nwnr,
    Deaf,
    EPci,
    FewerLocks(ReadLocks),
}

/// How large a model is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Transactions that write, on all partitions.
    pub writers: u32,
    /// Transactions that read, on all partitions.
    pub readers: u32,
    /// Partitions that hold something.
    pub partitions: u16,
    /// Whether readers read one partition after the other instead of all at once.
    pub one_by_one: bool,
    /// Whether clients are at nodes of their own instead of at the owners of the partitions.
    pub apart: bool,
    /// How many coordinators of writers may crash.
    pub crashes: u32,
    /// How often an owner of a partition, or a coordinator of a writer, may die and come back.
    pub returns: u32,
    /// How often time may jump by more than half of what evidence and versions are kept for.
    pub jumps: u32,
    /// Whether participants ask what has become of what they have prepared when nothing else is left
    /// to do, or time has jumped.
    pub terminates: bool,
}

impl Size {
    /// Two writers and two readers at the owners of two partitions.
    pub const TWO: Size = Size {
        writers: 2,
        readers: 2,
        partitions: 2,
        one_by_one: false,
        apart: false,
        crashes: 0,
        returns: 0,
        jumps: 0,
        terminates: false,
    };
}

impl Default for Size {
    fn default() -> Self {
        Size::TWO
    }
}

/// How a model was run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was visited.
    pub visited: Visited,
    /// What was found, told step by step in the shortest way to it.
    pub found: Option<(Found, String)>,
}

/// For how long evidence and superseded versions are kept, in models with jumps.
const RETAIN: Ticks = Ticks::from_millis(10);

/// How far time jumps: one jump is within [`RETAIN`], two are not.
const JUMP: Ticks = Ticks::from_millis(6);

/// Where a comment, its copy and its reply are in models of causality.
const COMMENT: Item = (0, 0);
const WALL: Item = (1, 0);
const REPLY: Item = (2, 0);

/// After how long participants ask, in models that terminate: within a jump.
const PATIENCE: Ticks = Ticks::from_millis(5);

/// How many copies each partition has, in models of quorums.
const COPIES: u16 = 3;

/// Why a model cannot be that large.
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

    /// Explores it.
    ///
    /// # Errors
    /// When there would be more nodes or clients than the explorer has numbers for.
    pub fn run(&self, size: Size, limits: Limits) -> Result<Report, TooLarge> {
        size.check()?;
        if size.returns > 0 && matches!(self.kind, Kind::Nwnr | Kind::Deaf | Kind::EPci) {
            let what = format!("{} keeps no records, so nobody comes back", self.name);
            return Err(TooLarge(what));
        }
        let start = |count| Start {
            partitions: size.partitions,
            count,
        };
        let read_atomic = ReadAtomic {
            start: start(0),
            unblocked: size.apart,
            terminates: size.terminates,
            recent: !matches!(self.kind, Kind::EPci | Kind::RampOnePhase),
        };
        let serializable = Serializable { start: start(0) };
        Ok(match self.kind {
            Kind::Ramp(metadata) => {
                let setting = size.setting(Size::write);
                run(
                    size.both(0, durable(size, ramp(size, metadata))),
                    &setting,
                    &read_atomic,
                    limits,
                )
            }
            Kind::RampOnePhase => {
                let setting = size.setting(Size::write);
                let options = RampOptions {
                    one_phase: true,
                    ..ramp_options(size, Metadata::Fast)
                };
                let node = move |node, topology, store| {
                    RampNode::new(node, topology, store, programs(), options)
                };
                run(
                    size.both(0, durable(size, node)),
                    &setting,
                    &read_atomic,
                    limits,
                )
            }
            Kind::Replies { metadata, causal } => {
                let size = Size {
                    partitions: 3,
                    writers: 2,
                    ..size
                };
                size.check()?;
                let setting = size.replies();
                let options = RampOptions {
                    causal,
                    ..ramp_options(size, metadata)
                };
                let node = move |node, topology, store| {
                    RampNode::new(node, topology, store, programs(), options)
                };
                let replied = Replied {
                    wall: WALL,
                    reply: REPLY,
                };
                let nodes = size.both(0, durable(size, node));
                run(nodes, &setting, &replied, limits)
            }
            Kind::Quorum(metadata) => {
                let (setting, nodes) = (size.copied()?, size.copies(metadata));
                run(nodes, &setting, &Copied { copies: COPIES }, limits)
            }
            Kind::Deaf => {
                let setting = size.setting(Size::write);
                let deaf =
                    |node, topology, store| Deaf(ramp(size, Metadata::Fast)(node, topology, store));
                run(size.both(0, deaf), &setting, &read_atomic, limits)
            }
            Kind::Nwnr => {
                let setting = size.setting(Size::write);
                let node = |node, topology, store| NwnrNode::new(node, topology, store, programs());
                run(size.both(0, node), &setting, &read_atomic, limits)
            }
            Kind::RampGuards => {
                let mut setting = size.setting(Size::withdraw);
                setting.scripts.truncate(size.writers as usize);
                let guarded = Guarded { start: start(1) };
                run(
                    size.both(1, durable(size, ramp(size, Metadata::Fast))),
                    &setting,
                    &guarded,
                    limits,
                )
            }
            Kind::Locking { declares } => {
                let mut setting = size.setting(Size::rewrite);
                setting.declares = declares;
                let node = durable(size, locking(ReadLocks::Long));
                run(size.both(0, node), &setting, &serializable, limits)
            }
            Kind::EPci => {
                let setting = size.setting(Size::write);
                let node = |node, topology, store| EPciNode::new(node, topology, store, programs());
                run(size.both(0, node), &setting, &read_atomic, limits)
            }
            Kind::FewerLocks(read_locks) => {
                let setting = size.setting(Size::rewrite);
                let node = durable(size, locking(read_locks));
                run(size.both(0, node), &setting, &serializable, limits)
            }
        })
    }
}

fn run<P: Subject>(
    (nodes, empty): (Vec<P>, Vec<P>),
    setting: &Setting,
    property: &dyn Property<P>,
    limits: Limits,
) -> Report {
    let first = State::new(nodes, empty, setting);
    let (visited, found) = explore(first.clone(), setting, property, limits);
    let found = found.map(|found| {
        let depth = found.actions.len();
        let found = shortest(first.clone(), setting, property, depth).unwrap_or(found);
        let story = narrate(&first, setting, &found);
        (found, story)
    });
    Report { visited, found }
}

/// Nodes that keep records, if some may come back.
fn durable<P: Durable>(
    size: Size,
    node: impl Fn(NodeId, Arc<Topology>, Store) -> P,
) -> impl Fn(NodeId, Arc<Topology>, Store) -> P {
    move |id, topology, store| {
        let mut made = node(id, topology, store);
        if size.returns > 0 {
            made.keep_records().expect("the protocol keeps records");
        }
        made
    }
}

fn ramp(size: Size, metadata: Metadata) -> impl Fn(NodeId, Arc<Topology>, Store) -> RampNode {
    let options = ramp_options(size, metadata);
    move |node, topology, store| RampNode::new(node, topology, store, programs(), options)
}

fn ramp_options(size: Size, metadata: Metadata) -> RampOptions {
    RampOptions {
        announce_after: Ticks(0),
        retain: RETAIN,
        metadata,
        terminate_after: size.terminates.then_some(PATIENCE),
        // How long transactions take would tell states apart that are alike.
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
        let clients = match self.apart {
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
        }
    }

    fn withdraw(self, writer: u32) -> Script {
        Script::Withdraw {
            from: self.items(),
            at: ((writer % u32::from(self.partitions)) as u16, 0),
            amount: i64::from(self.partitions),
        }
    }

    /// Somebody comments in two places, somebody replies to one of them, and readers look at the other one
    /// and the reply; those that read one by one in either order.
    fn replies(self) -> Setting {
        let mut setting = self.setting(|_, writer| match writer {
            0 => Script::Write {
                writer,
                items: vec![COMMENT, WALL],
            },
            _ => Script::Reply {
                to: COMMENT,
                at: REPLY,
            },
        });
        let readers = setting.scripts[self.writers as usize..].iter_mut();
        for ((_, script), number) in readers.zip(0u32..) {
            let batches = match (self.one_by_one, number % 2) {
                (false, _) => vec![vec![WALL, REPLY]],
                (true, 0) => vec![vec![WALL], vec![REPLY]],
                (true, _) => vec![vec![REPLY], vec![WALL]],
            };
            *script = Script::Look { batches };
        }
        setting
    }

    fn setting(self, write: impl Fn(Size, u32) -> Script) -> Setting {
        let batches = match self.one_by_one {
            true => self.items().into_iter().map(|item| vec![item]).collect(),
            false => vec![self.items()],
        };
        let look = |_| Script::Look {
            batches: batches.clone(),
        };
        let writers = (0..self.writers).map(|writer| write(self, writer));
        let scripts = writers.chain((0..self.readers).map(look));
        let node = |number: u32| match self.apart {
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
        let mut returning: Vec<NodeId> = (0..self.partitions).map(NodeId).collect();
        returning.extend(crashing.iter().filter(|node| node.0 >= self.partitions));
        Setting {
            returning: (returning, self.returns),
            scripts,
            declares: false,
            pauses: self.one_by_one,
            crashing: (crashing, self.crashes),
            jumps: (self.jumps, JUMP),
            // Who has asked once waits for longer than a jump before it asks again.
            lulls: 2 * u32::from(self.terminates),
        }
    }

    /// Writers and readers at copies of two partitions. Any copy without a client may crash, and any may come
    /// back.
    fn copied(self) -> Result<Setting, TooLarge> {
        if self.partitions != 2 || self.apart || self.crashes > 1 || self.terminates {
            let what =
                "copies are of two partitions, with clients at some of them, and one may crash";
            return Err(TooLarge(what.to_owned()));
        }
        let mut setting = self.setting(|size, writer| Script::Assign {
            writer,
            items: size.items(),
        });
        // Writers are at the first partition's copies, readers at the other's.
        for (number, (node, script)) in (0u16..).zip(&mut setting.scripts) {
            let first = if script.writes() { 0 } else { COPIES };
            *node = NodeId(first + number % COPIES);
        }
        let idle = |node: &NodeId| setting.scripts.iter().all(|(at, _)| at != node);
        let nodes = || (0..2 * COPIES).map(NodeId);
        setting.crashing = (nodes().filter(idle).collect(), self.crashes);
        setting.returning = (nodes().collect(), self.returns);
        setting.lulls = 4 * u32::from(self.crashes > 0 || self.returns > 0);
        Ok(setting)
    }

    /// The copies with their items, and the same without.
    fn copies(self, metadata: Metadata) -> (Vec<RampNode>, Vec<RampNode>) {
        let options = RampOptions {
            quorum: Some(PATIENCE),
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

    /// The nodes with their items, and the same without.
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
