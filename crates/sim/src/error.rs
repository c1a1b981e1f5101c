//! Why a case cannot be run.

use anabranch_engine::{DurableError, NotOverGuards};
use anabranch_protocol::replication::PlacementError;

use crate::fault::FaultError;

/// The reason why a case cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaseError {
    /// There is no workload of this name.
    NoWorkload(String),
    /// The workload's SQL does not compile; the rendered diagnostics.
    Sql(String),
    /// The workload names a procedure that its SQL lacks.
    NoProcedure(&'static str),
    /// A row of its initial database does not load.
    Row(String),
    /// A number is out of range.
    OutOfRange {
        /// The number.
        what: &'static str,
        /// Its permitted range.
        permitted: String,
    },
    /// The plan has crashes or disk failures, or nodes have replicas, and the protocol writes no log records.
    NotDurable(DurableError),
    /// The cluster cannot have so many replicas.
    Replicas(PlacementError),
    /// The case cannot run in several clusters.
    Clusters(ClustersError),
    /// Permanent losses of servers leave a node without a majority of its replicas.
    NoMajority {
        /// The node.
        node: u16,
        /// The replicas that it has left.
        left: u8,
        /// All of its replicas.
        replicas: u8,
    },
    /// An answer was wrong in a load, which has no verdict.
    Wrong(String),
    /// The fault plan does not fit the cluster.
    Plan(FaultError),
    /// An option of RAMP under another protocol.
    NoRamp {
        /// The option.
        option: &'static str,
        /// The protocol's name.
        protocol: &'static str,
    },
    /// An option of some protocols with sites under another protocol.
    NoSites {
        /// The option.
        option: &'static str,
        /// The protocol's name.
        protocol: &'static str,
        /// The protocols that have the option.
        of: &'static str,
    },
    /// Something that sites, each with all of the data, do not support.
    Sites {
        /// What.
        option: &'static str,
    },
    /// Sites cannot order the workload's transactions over guards.
    NotOverGuards(NotOverGuards),
    /// The workload's plan has guards, and the protocol supports none.
    Guards {
        /// The protocol's name.
        protocol: &'static str,
        /// A procedure with guards.
        procedure: String,
    },
}

impl std::fmt::Display for CaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CaseError::NoWorkload(name) => write!(
                f,
                "there is no workload \"{name}\"; there are: {}",
                anabranch_workload::NAMES.join(", ")
            ),
            CaseError::Sql(text) => f.write_str(text.trim_end()),
            CaseError::NoProcedure(name) => {
                write!(f, "the application has no procedure \"{name}\"")
            }
            CaseError::Row(text) => f.write_str(text),
            CaseError::OutOfRange { what, permitted } => {
                write!(f, "the number of {what} has to be {permitted}")
            }
            CaseError::NotDurable(error) => {
                write!(
                    f,
                    "nodes have replicas, or the fault plan has crashes or disk failures: {error}"
                )
            }
            CaseError::Replicas(error) => error.fmt(f),
            CaseError::Clusters(error) => error.fmt(f),
            CaseError::NoMajority {
                node,
                left,
                replicas,
            } => write!(
                f,
                "the fault plan loses servers permanently, and n{node} would have {left} of its \
                 {replicas} replicas left, no majority: lose fewer servers, or give nodes more replicas"
            ),
            CaseError::Wrong(what) => write!(f, "an answer is wrong: {what}"),
            CaseError::Plan(error) => write!(f, "the fault plan: {error}"),
            CaseError::NoRamp { option, protocol } => write!(
                f,
                "{option}: {protocol} is not a RAMP protocol; those are ramp-fast, ramp-small and \
                 ramp-hybrid"
            ),
            CaseError::NoSites {
                option,
                protocol,
                of,
            } => write!(f, "{option}: {protocol} has no such option; {of}"),
            CaseError::Sites { option } => write!(
                f,
                "{option} is not supported where each node is a site with all of the data (alvin, epaxos, multipaxos)"
            ),
            CaseError::NotOverGuards(why) => write!(
                f,
                "--order-over guards: {why}; or use --order-over accesses"
            ),
            CaseError::Guards {
                protocol,
                procedure,
            } => write!(
                f,
                "{protocol} supports no guards, and the plan has some for \"{procedure}\": run this \
                 workload under another protocol"
            ),
        }
    }
}

impl std::error::Error for CaseError {}

/// The reason why a case cannot run in several clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClustersError {
    /// Prepare-F or quorums in a single cluster.
    Alone,
    /// Quorums, and reads would go to another copy at once, or never.
    QuorumWait,
    /// Prepare-F in too few clusters: no write could be acknowledged.
    TooFew {
        /// The number of clusters that may be lost.
        failures: u16,
        /// The number of clusters.
        clusters: u16,
    },
    /// Prepare-F and quorums at once.
    Both,
    /// An option that excludes several clusters.
    Excluded {
        /// The option.
        option: &'static str,
    },
    /// A procedure would have to be ordered across clusters: one cluster could refuse what another has accepted.
    Ordered {
        /// The procedure.
        procedure: String,
        /// What it does.
        what: &'static str,
    },
}

impl std::fmt::Display for ClustersError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClustersError::Alone => f.write_str(
                "Prepare-F and quorums prepare in several clusters, and there is one: give --clusters \
                 as well",
            ),
            ClustersError::QuorumWait => f.write_str(
                "--quorum is the wait before a read is sent to another copy: it has to be at least 1 \
                 microsecond and at most an hour (3600000000)",
            ),
            ClustersError::TooFew { failures, clusters } => write!(
                f,
                "a write that survives the loss of {failures} clusters has to be in {}, and there are \
                 {clusters}: lower --prepare-f, or raise --clusters",
                u32::from(*failures) + 1
            ),
            ClustersError::Both => f.write_str(
                "Prepare-F installs what all clusters have prepared, quorums what a majority has: give \
                 --prepare-f or --quorum, not both",
            ),
            ClustersError::Excluded { option } => {
                write!(f, "{option} cannot be combined with several clusters")
            }
            ClustersError::Ordered { procedure, what } => write!(
                f,
                "\"{procedure}\" {what}, which would have to be ordered across clusters: run this \
                 workload in one cluster (its nodes may have --replicas), or a workload that only \
                 assigns columns of existing rows (register, ycsb) or merges them (tally; not with \
                 --quorum)"
            ),
        }
    }
}

impl std::error::Error for ClustersError {}
