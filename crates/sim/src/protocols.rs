//! The simulated protocols, and what the simulator needs to know of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_history::Model;
use anabranch_protocol::epci::{self, EPciNode};
use anabranch_protocol::guards::GuardHomes;
use anabranch_protocol::locking::{self, LockingNode, LockingOptions, ReadLocks};
use anabranch_protocol::nwnr::NwnrMessage;
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::core::message::Message;
use anabranch_protocol::ramp::{FilterSize, Metadata, RampNode, RampOptions};
use anabranch_protocol::replication::ReplicaPlacement;
use anabranch_protocol::score::{self, ScoreNode, ScoreOptions};
use anabranch_protocol::{Durable, Topology};
use anabranch_storage::Store;
use anabranch_types::{NodeId, Placement, TableId, Ticks, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cost::Processor;
use crate::diagram::Label;
use crate::error::CaseError;
use crate::site_options::SiteOptions;

/// The name that rare messages share in a calibration.
const OTHER: &str = "other";

/// The name of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProtocolName {
    /// RAMP-Fast: read atomic isolation; metadata are lists of siblings.
    RampFast,
    /// RAMP-Small: read atomic isolation; metadata are timestamps.
    RampSmall,
    /// RAMP-Hybrid: read atomic isolation; metadata are Bloom filters.
    RampHybrid,
    /// No concurrency control. The checks have to find its anomalies.
    Nwnr,
    /// Two-phase locking, serializable.
    Locking,
    /// Two-phase locking with short read locks, read committed.
    LockingShort,
    /// Write locks only, read committed.
    Lwnr,
    /// SCORe: snapshots without locks, validation at commit; serializable.
    Score,
    /// SCORe with Bumper's time-warping: what has read stale rows may commit at its snapshot; serializable.
    Bumper,
    /// E-PCI, commit checks at coordinators: read atomic, without guards.
    EPci,
    /// ALVIN: sites with all the data that certify over partial order broadcast; serializable, or update serializable.
    Alvin,
    /// Sites that certify over MultiPaxos, a total order by one leader.
    Multipaxos,
    /// Sites that certify over EPaxos, which orders conflicts by a dependency graph.
    Epaxos,
    /// The Conveyor Belt: servers that each have a whole database, and run global operations in turn; serializable.
    Belt,
}

impl ProtocolName {
    /// All protocols.
    pub const ALL: [ProtocolName; 14] = [
        ProtocolName::RampFast,
        ProtocolName::RampSmall,
        ProtocolName::RampHybrid,
        ProtocolName::Nwnr,
        ProtocolName::Locking,
        ProtocolName::LockingShort,
        ProtocolName::Lwnr,
        ProtocolName::Score,
        ProtocolName::Bumper,
        ProtocolName::EPci,
        ProtocolName::Alvin,
        ProtocolName::Multipaxos,
        ProtocolName::Epaxos,
        ProtocolName::Belt,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolName::RampFast => "ramp-fast",
            ProtocolName::RampSmall => "ramp-small",
            ProtocolName::RampHybrid => "ramp-hybrid",
            ProtocolName::Nwnr => "nwnr",
            ProtocolName::Locking => "locking",
            ProtocolName::LockingShort => "locking-short",
            ProtocolName::Lwnr => "lwnr",
            ProtocolName::Score => "score",
            ProtocolName::Bumper => "bumper",
            ProtocolName::EPci => "e-pci",
            ProtocolName::Alvin => "alvin",
            ProtocolName::Multipaxos => "multipaxos",
            ProtocolName::Epaxos => "epaxos",
            ProtocolName::Belt => "belt",
        }
    }

    /// The protocol of this name.
    pub fn by_name(name: &str) -> Option<ProtocolName> {
        ProtocolName::ALL.into_iter().find(|p| p.name() == name)
    }

    /// RAMP's metadata, if it is a RAMP protocol.
    pub fn ramp(self, filter: FilterSize) -> Option<Metadata> {
        match self {
            ProtocolName::RampFast => Some(Metadata::Fast),
            ProtocolName::RampSmall => Some(Metadata::Small),
            ProtocolName::RampHybrid => Some(Metadata::Hybrid(filter)),
            _ => None,
        }
    }

    /// Whether its nodes are sites, each with all of the data.
    pub fn has_sites(self) -> bool {
        matches!(
            self,
            ProtocolName::Alvin
                | ProtocolName::Multipaxos
                | ProtocolName::Epaxos
                | ProtocolName::Belt
        )
    }

    /// Whether each site runs operations of its own, and only updates of global ones reach the others.
    pub fn partitions_operations(self) -> bool {
        self == ProtocolName::Belt
    }

    /// Whether it is one of the three RAMP protocols.
    pub fn is_ramp(self) -> bool {
        self.ramp(FilterSize::default()).is_some()
    }

    /// The duration of its read locks, if it is a locking protocol.
    pub fn read_locks(self) -> Option<ReadLocks> {
        match self {
            ProtocolName::Locking => Some(ReadLocks::Long),
            ProtocolName::LockingShort => Some(ReadLocks::Short),
            ProtocolName::Lwnr => Some(ReadLocks::None),
            _ => None,
        }
    }

    /// Whether transactions declare their accesses before they run.
    pub(crate) fn declares(self) -> bool {
        self.read_locks().is_some()
    }

    /// Whether its transactions read what was committed up to a timestamp, which orders all versions.
    pub(crate) fn reads_by_timestamp(self) -> bool {
        matches!(self, ProtocolName::Score | ProtocolName::Bumper)
    }

    /// Whether its nodes write log records, so that they may crash and restart.
    pub fn is_durable(self) -> bool {
        !matches!(self, ProtocolName::Nwnr | ProtocolName::EPci)
    }

    /// The models that a run's history has to satisfy. `nwnr` guarantees nothing; the checks have to find that it is
    /// not read atomic.
    pub fn models(self) -> &'static [Model] {
        match self {
            ProtocolName::RampFast
            | ProtocolName::RampSmall
            | ProtocolName::RampHybrid
            | ProtocolName::Nwnr => &[Model::ReadAtomic, Model::Sessions],
            ProtocolName::Locking
            | ProtocolName::Alvin
            | ProtocolName::Multipaxos
            | ProtocolName::Epaxos => &[Model::StrictSerializable, Model::Sessions],
            ProtocolName::Score | ProtocolName::Bumper => &[Model::Serializable, Model::Sessions],
            ProtocolName::LockingShort | ProtocolName::Lwnr => &[Model::ReadCommitted],
            ProtocolName::EPci => &[Model::ReadAtomic, Model::Causal],
            ProtocolName::Belt => &[Model::Serializable],
        }
    }

    /// Whether it guarantees read atomic isolation, which makes every answer of every workload right. Under weaker
    /// protocols answers may be wrong; a run with wrong answers goes on, and reports them.
    pub fn is_read_atomic(self) -> bool {
        let others = [
            ProtocolName::Locking,
            ProtocolName::Score,
            ProtocolName::Bumper,
            ProtocolName::EPci,
        ];
        self.is_ramp() || self.has_sites() || others.contains(&self)
    }

    /// Whether it supports guards, or needs none because it orders all transactions. Other protocols refuse
    /// transactions with guards.
    pub fn takes_guards(self) -> bool {
        self != ProtocolName::EPci
    }
}

/// Cooperative termination in RAMP: how participants end a transaction when its decision does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Termination {
    /// How long they wait before they inquire, in microseconds; at least 1.
    pub after_us: u64,
    /// For the experiment with blocked writes (ramp.txt §5.3): of a million transactions over several partitions, how
    /// many are decided without a `Commit` to the participants. At most a million.
    pub lost_commits: u32,
}

impl Default for Termination {
    /// The defaults of RAMP's options: after 5 s, and every commit is sent.
    fn default() -> Self {
        Termination {
            after_us: 5_000_000,
            lost_commits: 0,
        }
    }
}

impl Termination {
    /// # Errors
    /// If a number is out of range.
    pub(crate) fn check(self) -> Result<(), CaseError> {
        let (what, permitted) = match (self.after_us, self.lost_commits) {
            (0, _) => ("microseconds before termination", "at least 1"),
            (_, 1_000_001..) => ("lost commits", "at most 1000000, of a million"),
            _ => return Ok(()),
        };
        let permitted = permitted.to_owned();
        Err(CaseError::OutOfRange { what, permitted })
    }
}

/// Extensions of RAMP: weaker guarantees for one round less, or stronger ones than read atomic isolation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RampExtensions {
    /// One-phase writes (ramp.txt §4.8): a client is answered when its transaction is decided.
    #[serde(default)]
    pub one_phase: bool,
    /// Causal RAMP (ramp.txt §6.3): a reader of a transaction also sees what that transaction depends on.
    #[serde(default)]
    pub causal: bool,
    /// Prepare-F (ramp.txt §6.1), over several clusters: a client is answered when its writes survive the loss of so
    /// many clusters. They become visible when all clusters have prepared them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare_f: Option<u16>,
    /// Quorum operation (ramp.txt §6.2), over several clusters: a majority of the copies prepares, and a read goes to
    /// any copy. After so many microseconds without an answer it goes to another copy as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u64>,
}

impl RampExtensions {
    /// # Errors
    /// If an extension is enabled under a protocol that is not RAMP.
    pub(crate) fn check(self, protocol: ProtocolName) -> Result<(), CaseError> {
        let option = match self {
            RampExtensions {
                prepare_f: Some(_), ..
            } => "Prepare-F (--prepare-f)",
            RampExtensions {
                quorum: Some(_), ..
            } => "quorum operation (--quorum)",
            RampExtensions { causal: true, .. } => "causal consistency (--causal)",
            RampExtensions {
                one_phase: true, ..
            } => "one-phase writes (--one-phase)",
            _ => return Ok(()),
        };
        match protocol.is_ramp() {
            true => Ok(()),
            false => Err(CaseError::NoRamp {
                option,
                protocol: protocol.name(),
            }),
        }
    }
}

/// How soon a transaction that some participant has not acknowledged becomes an exception of the stable vector.
const EXCEPTION_AFTER: Ticks = Ticks::from_micros(500);

/// What all nodes of a simulation share.
#[derive(Clone)]
pub struct Shared {
    /// The application.
    pub planned: Arc<PlannedApplication>,
    /// The owners of the partitions.
    pub topology: Arc<Topology>,
    /// The number of clusters, each with all partitions. Node *n* is in cluster *n* mod `clusters`.
    pub clusters: u16,
    /// Whether procedures update columns other than by assignment. Then each cluster has its own versions of a row.
    pub commutes: bool,
    /// The servers of replicas.
    pub placement: ReplicaPlacement,
    /// The protocol, for node types that implement several.
    pub protocol: ProtocolName,
    /// The size of RAMP-Hybrid's Bloom filters.
    pub filter: FilterSize,
    /// Cooperative termination in RAMP.
    pub termination: Termination,
    /// Extensions of RAMP.
    pub extensions: RampExtensions,
    /// Options of sites.
    pub sites: SiteOptions,
    /// Where transactions are ordered over guards: the homes of these.
    pub homes: Option<Arc<dyn GuardHomes>>,
    /// The longest median latency between two nodes.
    pub latency: Ticks,
    /// How long overwritten versions and sibling metadata are retained.
    pub retention: Ticks,
    /// The nodes' processors; `None` if processing takes no time.
    pub processor: Option<Processor>,
}

/// A protocol's node, with what the simulator needs beyond the protocol's contract.
pub trait Simulated: Durable + Sized + 'static {
    /// Makes a node that owns the rows in `store`.
    fn make(node: NodeId, shared: &Shared, store: Store) -> Self;

    /// The store of its partition.
    fn store(&self) -> &Store;

    /// Describes transactions that are left although none should be; `None` if there are none.
    fn leftovers(&self) -> Option<String>;

    /// At sites that decide on transactions one by one: a digest of all decisions, equal at all sites at rest.
    fn decisions(&self) -> Option<u64> {
        None
    }

    /// A message's name in a calibration. Rare and cheap messages share one.
    fn kind(message: &Self::Message) -> &'static str;

    /// A message's label in a diagram.
    fn label(message: &Self::Message) -> Label;

    /// Where each server installs what others have committed at timestamps of its own: the timestamps at their origins,
    /// by those here.
    fn origins(&self) -> Option<&BTreeMap<Timestamp, Timestamp>> {
        None
    }

    /// The transactions that it has certified so far, of all nodes: the cost of a step grows with them. 0 for protocols
    /// that certify none.
    fn certified(&self) -> u64 {
        0
    }

    /// Situations of this protocol alone that this incarnation has counted, for the report.
    fn situations(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Simulated for RampNode {
    fn make(node: NodeId, shared: &Shared, store: Store) -> RampNode {
        let programs = shared.planned.application.programs();
        let usual = RampOptions::default();
        // The defaults where throughput is simulated. Otherwise early, so that it happens in runs of few calls.
        let (except_after, except_behind) = match shared.processor {
            Some(_) => (usual.except_after, usual.except_behind),
            None => (EXCEPTION_AFTER, 0),
        };
        let options = RampOptions {
            except_after,
            except_behind,
            retain: shared.retention,
            metadata: shared.protocol.ramp(shared.filter).unwrap_or_default(),
            terminate_after: Some(Ticks::from_micros(shared.termination.after_us)),
            lost_commits: shared.termination.lost_commits,
            one_phase: shared.extensions.one_phase,
            causal: shared.extensions.causal,
            prepare_f: shared.extensions.prepare_f,
            sticky: shared.clusters > 1
                && shared.extensions.prepare_f.is_none()
                && shared.extensions.quorum.is_none(),
            quorum: shared.extensions.quorum.map(Ticks::from_micros),
            ..usual
        };
        let topology = match shared.clusters {
            1 => Arc::clone(&shared.topology),
            count => {
                let partitions = shared.topology.owners.len() as u16;
                Arc::new(Topology::clusters(count, partitions, node.0 % count))
            }
        };
        RampNode::new(node, topology, store, programs, options)
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn leftovers(&self) -> Option<String> {
        (!self.is_idle()).then(|| {
            format!(
                "{} transactions are still prepared, or some run or wait for acknowledgements",
                self.prepared()
            )
        })
    }

    fn kind(stamped: &Self::Message) -> &'static str {
        match &stamped.message {
            Message::Get { .. } => "Get",
            Message::Got { .. } => "Got",
            Message::LookUp { .. } => "LookUp",
            Message::LookedUp { .. } => "LookedUp",
            Message::Prepare(_) => "Prepare",
            Message::Vote { .. } => "Vote",
            Message::Commit { .. } => "Commit",
            Message::Committed { .. } => "Committed",
            Message::CommitAlone(_) => "CommitAlone",
            Message::CommittedAlone { .. } => "CommittedAlone",
            Message::Abort { .. } => "Abort",
            _ => OTHER,
        }
    }

    fn label(stamped: &Self::Message) -> Label {
        match &stamped.message {
            Message::Get {
                transaction,
                request,
                ..
            } => {
                let label = Label::read("Get", *transaction);
                match request.required().first() {
                    None => label,
                    Some(first) => label.demanding(first.prepared),
                }
            }
            Message::Got {
                transaction,
                result,
            } => match result {
                Ok(_) => Label::read("Got", *transaction),
                Err(_) => Label::refusal("Get refused", Some(*transaction)),
            },
            Message::LookUp { transaction, .. } => Label::read("Look up", *transaction),
            Message::LookedUp { transaction, .. } => Label::read("Looked up", *transaction),
            Message::Prepare(prepare) => {
                Label::write("Prepare", prepare.transaction).prepared(prepare.prepared)
            }
            Message::Vote { transaction, vote } => match vote {
                Ok(_) => Label::write("Yes", *transaction),
                Err(reason) => Label::refusal(format!("No, {}", reason.name()), Some(*transaction)),
            },
            Message::Commit {
                transaction,
                decided,
            } => Label::write("Commit", *transaction).prepared(decided.prepared),
            Message::Committed { transaction, .. } => Label::write("Committed", *transaction),
            Message::Abort { prepared } => Label::refusal("Abort", None).prepared(*prepared),
            Message::CommitAlone(commit) => Label::write("Commit alone", commit.transaction),
            Message::CommittedAlone {
                transaction,
                result,
            } => match result {
                Ok(_) => Label::write("Committed alone", *transaction),
                Err(reason) => Label::refusal(format!("No, {}", reason.name()), Some(*transaction)),
            },
            Message::Await { .. } => Label::other("Await"),
            Message::Stable => Label::other("Stable"),
            Message::Gossip { .. } => Label::other("Gossip"),
            Message::Replicate { .. } => Label::other("Replicate"),
            Message::Replicated { .. } => Label::other("Replicated"),
            Message::Inquire {
                transaction,
                prepared,
            } => Label::write("Inquire", *transaction).prepared(*prepared),
        }
    }
}

impl Simulated for NwnrNode {
    fn make(node: NodeId, shared: &Shared, store: Store) -> NwnrNode {
        let programs = shared.planned.application.programs();
        NwnrNode::new(node, Arc::clone(&shared.topology), store, programs)
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn leftovers(&self) -> Option<String> {
        (!self.is_idle()).then(|| "a transaction waits for answers".to_owned())
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            NwnrMessage::Get { .. } => "Get",
            NwnrMessage::Got { .. } => "Got",
            NwnrMessage::Write { .. } => "Write",
            NwnrMessage::Written { .. } => "Written",
        }
    }

    fn label(message: &Self::Message) -> Label {
        match message {
            NwnrMessage::Get { transaction, .. } => Label::read("Get", *transaction),
            NwnrMessage::Got { transaction, .. } => Label::read("Got", *transaction),
            NwnrMessage::Write { transaction, .. } => Label::write("Write", *transaction),
            NwnrMessage::Written {
                transaction,
                result,
            } => match result {
                Ok(_) => Label::write("Written", *transaction),
                Err(reason) => Label::refusal(format!("No, {}", reason.name()), Some(*transaction)),
            },
        }
    }
}

impl Simulated for EPciNode {
    fn make(node: NodeId, shared: &Shared, store: Store) -> EPciNode {
        let programs = shared.planned.application.programs();
        EPciNode::new(node, Arc::clone(&shared.topology), store, programs)
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn leftovers(&self) -> Option<String> {
        (!self.is_idle()).then(|| "transactions are pending, or run, or reads wait".to_owned())
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            epci::Message::Get { .. } => "Get",
            epci::Message::Got { .. } => "Got",
            epci::Message::Prepare { .. } => "Prepare",
            epci::Message::Vote { .. } => "Vote",
            epci::Message::Commit { .. } => "Commit",
            epci::Message::CommitAlone { .. } => "CommitAlone",
            epci::Message::CommittedAlone { .. } => "CommittedAlone",
            epci::Message::Check { .. } => "Check",
            epci::Message::Checked { .. } => "Checked",
            _ => OTHER,
        }
    }

    fn label(message: &Self::Message) -> Label {
        use epci::Message;
        match message {
            Message::Get { transaction, .. } => Label::read("Get", *transaction),
            Message::Got { transaction, .. } => Label::read("Got", *transaction),
            Message::Abort { transaction, .. } => Label::refusal("Abort", Some(*transaction)),
            Message::Prepare { transaction, .. }
            | Message::Vote { transaction, .. }
            | Message::Commit { transaction, .. }
            | Message::CommitAlone { transaction, .. }
            | Message::CommittedAlone { transaction, .. }
            | Message::Check { transaction, .. }
            | Message::Checked { transaction, .. } => {
                Label::write(<EPciNode as Simulated>::kind(message), *transaction)
            }
            other => Label::other(<EPciNode as Simulated>::kind(other)),
        }
    }
}

impl Simulated for LockingNode {
    fn make(node: NodeId, shared: &Shared, store: Store) -> LockingNode {
        let planned = &shared.planned;
        let options = LockingOptions {
            read_locks: shared.protocol.read_locks().unwrap_or_default(),
            unlocked_tables: replicated_tables(planned),
        };
        LockingNode::new(
            node,
            Arc::clone(&shared.topology),
            Arc::new(planned.schema().clone()),
            store,
            planned.application.programs(),
            options,
        )
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn leftovers(&self) -> Option<String> {
        (!self.is_idle()).then(|| "locks are still held, or transactions run".to_owned())
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            locking::Message::Lock { .. } => "Lock",
            locking::Message::Granted { .. } => "Granted",
            locking::Message::Refused { .. } => "Refused",
            locking::Message::Prepare { .. } => "Prepare",
            locking::Message::Prepared { .. } => "Prepared",
            locking::Message::Confirm { .. } => "Confirm",
            locking::Message::Confirmed { .. } => "Confirmed",
            locking::Message::Commit { .. } => "Commit",
            locking::Message::Decide { .. } => "Decide",
            locking::Message::Committed { .. } => "Committed",
            locking::Message::Release { .. } => "Release",
            locking::Message::Wound { .. } => "Wound",
            locking::Message::Yield { .. } => "Yield",
            _ => OTHER,
        }
    }

    fn label(message: &Self::Message) -> Label {
        use locking::Message;
        match message {
            Message::Lock { transaction, .. } => Label::read("Lock", *transaction),
            Message::Get { transaction, .. } => Label::read("Get", *transaction),
            Message::Got { transaction, .. } => Label::read("Got", *transaction),
            Message::Granted { transaction, .. } => Label::read("Granted", *transaction),
            Message::Refused { transaction, .. } => Label::refusal("Refused", Some(*transaction)),
            Message::Prepare { transaction, .. } => Label::write("Prepare", *transaction),
            Message::Prepared { transaction, .. } => Label::write("Prepared", *transaction),
            Message::Commit { transaction, .. } => Label::write("Commit", *transaction),
            Message::Acknowledged { transaction, .. } => Label::write("Acknowledged", *transaction),
            Message::Decide { transaction, .. } => Label::write("Decide", *transaction),
            Message::Committed { transaction, .. } => Label::write("Committed", *transaction),
            Message::Release { transaction, .. } => Label::write("Release", *transaction),
            Message::Wound { transaction, .. } => Label::read("Wound", *transaction),
            Message::Yield { transaction, .. } => Label::read("Yield", *transaction),
            Message::Inquire { transaction, .. } => Label::write("Inquire", *transaction),
            Message::Returned { .. } => Label::other("Returned"),
            Message::Noticed { .. } => Label::other("Noticed"),
            other => Label::other(<LockingNode as Simulated>::kind(other)),
        }
    }
}

/// A situation of Bumper's time-warping.
pub const WARPED: &str = "a transaction that had read stale rows committed at its snapshot";

/// The tables that no transaction writes: each partition has a copy.
fn replicated_tables(planned: &PlannedApplication) -> Vec<TableId> {
    let router = &planned.execution.router;
    let tables = (0..planned.schema().tables.len() as u16).map(TableId);
    let replicated = tables.filter(|t| *router.placement(*t) == Placement::Replicated);
    replicated.collect()
}

impl Simulated for ScoreNode {
    fn make(node: NodeId, shared: &Shared, store: Store) -> ScoreNode {
        let planned = &shared.planned;
        let options = ScoreOptions {
            time_warping: shared.protocol == ProtocolName::Bumper,
            unlocked_tables: replicated_tables(planned),
        };
        ScoreNode::new(
            node,
            Arc::clone(&shared.topology),
            Arc::new(planned.schema().clone()),
            store,
            planned.application.programs(),
            options,
        )
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn leftovers(&self) -> Option<String> {
        (!self.is_idle())
            .then(|| "locks are still held, reads wait, or transactions run".to_owned())
    }

    fn situations(&self) -> Vec<(&'static str, u64)> {
        vec![(WARPED, self.warped())]
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            score::Message::Read { .. } => "Read",
            score::Message::Fetched { .. } => "Fetched",
            score::Message::Prepare(_) => "Prepare",
            score::Message::Voted { .. } => "Voted",
            score::Message::Commit { .. } => "Commit",
            score::Message::Refused { .. } => "Refused",
            score::Message::Release { .. } => "Release",
            _ => OTHER,
        }
    }

    fn label(message: &Self::Message) -> Label {
        use score::Message;
        match message {
            Message::Read { transaction, .. } => Label::read("Read", *transaction),
            Message::Fetched { transaction, .. } => Label::read("Fetched", *transaction),
            Message::Refused { transaction, .. } => Label::refusal("Refused", Some(*transaction)),
            Message::Prepare(preparation) => Label::write("Prepare", preparation.transaction),
            Message::Voted { transaction, .. } => Label::write("Voted", *transaction),
            Message::Commit { transaction, .. } => Label::write("Commit", *transaction),
            Message::Acknowledged { transaction, .. } => Label::write("Acknowledged", *transaction),
            Message::Release { transaction, .. } => Label::write("Release", *transaction),
            Message::Wound { transaction, .. } => Label::write("Wound", *transaction),
            Message::Inquire { transaction, .. } => Label::write("Inquire", *transaction),
            other => Label::other(<ScoreNode as Simulated>::kind(other)),
        }
    }
}
