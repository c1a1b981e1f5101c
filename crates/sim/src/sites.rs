//! Sites, each with all of the data, in the simulator: those that certify over ALVIN's partial order broadcast, EPaxos or
//! MultiPaxos, and those that order over guards.

use anabranch_history::Model;
use anabranch_protocol::Protocol;
use anabranch_protocol::certification::{
    Certificate, CertificationSite, Consistency, LoggedOrderer, SiteMessage,
};
use anabranch_protocol::guards::{GuardMessage, GuardOptions, GuardSite};
use anabranch_protocol::order::epaxos::{self, EpaxosOptions, EpaxosSite};
use anabranch_protocol::order::multipaxos::{self, MultiPaxosOptions, MultiPaxosSite};
use anabranch_protocol::order::pob::message::Message;
use anabranch_protocol::order::pob::{FastDecisions, PobOptions, PobSite};
use anabranch_protocol::order::{Batch, SITES_MAX, SiteId};
use anabranch_protocol::{Topology, TransactionId};
use anabranch_storage::Store;
use anabranch_types::{NodeId, Ticks};

use crate::case::Case;
use crate::diagram::Label;
use crate::error::CaseError;
use crate::prepared::Prepared;
use crate::protocols::{ProtocolName, Shared, Simulated};
use crate::site_options::{ConsistencyName, OrderOver, SiteOptions};

/// Partial order broadcast of certificates.
pub(crate) type Pob = PobSite<Certificate>;

/// MultiPaxos of certificates.
pub(crate) type MultiPaxos = MultiPaxosSite<Certificate>;

/// EPaxos of certificates.
pub(crate) type Epaxos = EpaxosSite<Certificate>;

/// An orderer, with what the simulator needs beyond its contract.
pub(crate) trait SimulatedOrderer: LoggedOrderer + Sized + 'static {
    /// Makes the orderer of a site.
    fn make(node: NodeId, shared: &Shared) -> Self;

    /// A message's name in a calibration.
    fn kind(message: &Self::Message) -> &'static str;

    /// A message's label in a diagram.
    fn label(message: &Self::Message) -> Label;
}

/// The models that a run's history has to satisfy.
pub(crate) fn models(options: SiteOptions, clients_switch_nodes: bool) -> &'static [Model] {
    if options.order_over == OrderOver::Guards {
        // Calls of types with homed guards go to their home, which may lack what the client has seen elsewhere.
        return &[Model::ReadAtomic];
    }
    match (options.consistency, clients_switch_nodes) {
        (ConsistencyName::Sr, _) => &[Model::StrictSerializable, Model::Sessions],
        (ConsistencyName::Eus, false) => &[Model::UpdateSerializable, Model::Sessions],
        // Another site may not have delivered yet what its client has seen.
        (ConsistencyName::Eus, true) => &[Model::UpdateSerializable],
    }
}

/// Refuses options that the protocol does not have.
pub(crate) fn check_options(options: SiteOptions, protocol: ProtocolName) -> Result<(), CaseError> {
    let SiteOptions {
        consistency,
        fast_decisions,
        leader,
        batch_window,
        retained_max,
        order_over,
    } = options;
    if order_over == OrderOver::Guards && retained_max.is_some() {
        return Err(CaseError::Sites {
            option: "--retained-max with --order-over guards, under which sites hand over no state,",
        });
    }
    if order_over == OrderOver::Guards && consistency == ConsistencyName::Eus {
        return Err(CaseError::Sites {
            option: "--consistency eus with --order-over guards, under which transactions that only read commit at their site anyway,",
        });
    }
    let options = [
        (
            "--consistency eus",
            consistency == ConsistencyName::Eus
                && (!protocol.has_sites() || protocol.partitions_operations()),
            "alvin, epaxos and multipaxos do",
        ),
        (
            "--fast-decisions on",
            fast_decisions && protocol != ProtocolName::Alvin,
            "alvin does",
        ),
        (
            "--order-over guards",
            order_over == OrderOver::Guards
                && (!protocol.has_sites() || protocol.partitions_operations()),
            "alvin, epaxos and multipaxos do",
        ),
        (
            "--leader",
            leader > 0 && protocol != ProtocolName::Multipaxos,
            "multipaxos does",
        ),
        (
            "--batch-window",
            batch_window > Ticks(0) && (!protocol.has_sites() || protocol.partitions_operations()),
            "alvin, epaxos and multipaxos do",
        ),
        (
            "--retained-max",
            retained_max.is_some() && protocol != ProtocolName::Alvin,
            "alvin does",
        ),
    ];
    match options.into_iter().find(|(_, wrong, _)| *wrong) {
        Some((option, _, of)) => Err(CaseError::NoSites {
            option,
            protocol: protocol.name(),
            of,
        }),
        None => Ok(()),
    }
}

/// Refuses cases that sites cannot run.
pub(crate) fn check(case: &Case, prepared: &Prepared) -> Result<(), CaseError> {
    if case.clusters == 0 || case.clusters > u16::from(SITES_MAX) || prepared.nodes != 1 {
        return Err(CaseError::OutOfRange {
            what: "sites (--nodes), each with all of the data,",
            permitted: format!("between 1 and {SITES_MAX}"),
        });
    }
    if case.sites.leader >= case.clusters {
        return Err(CaseError::OutOfRange {
            what: "the leading site (--leader)",
            permitted: format!("below the number of sites, {}", case.clusters),
        });
    }
    let beside = [
        (
            "--interactive",
            case.interactive && case.protocol.partitions_operations(),
        ),
        (
            "--interactive with --order-over guards",
            case.interactive && case.sites.order_over == OrderOver::Guards,
        ),
        ("--replicas", case.replicas > 1),
        (
            "the permanent loss of a server",
            !case.plan.permanent_losses().is_empty(),
        ),
    ];
    match beside.into_iter().find(|(_, on)| *on) {
        Some((option, _)) => Err(CaseError::Sites { option }),
        None => Ok(()),
    }
}

/// Times of an orderer, in longest median latencies: repetition of messages, recovery of batches, the wait for a fast
/// decision.
const LATENCIES: (u64, u64, u64) = (8, 24, 3);

/// The times of a case's orderers: repetition of messages, recovery, the wait for a fast decision.
fn times(shared: &Shared) -> (Ticks, Ticks, Ticks) {
    let times = |latencies: u64| Ticks(shared.latency.0.max(1).saturating_mul(latencies));
    let (retry, patience, fast_wait) = LATENCIES;
    (times(retry), times(patience), times(fast_wait))
}

/// The size of a part of a state that a site hands over.
const PART_BYTES: usize = 512;

/// A site has taken another one's state.
const STATE_TAKEN: &str = "a site took another one's state";

impl<O: SimulatedOrderer> Simulated for CertificationSite<O> {
    fn make(node: NodeId, shared: &Shared, store: Store) -> CertificationSite<O> {
        let consistency = match shared.sites.consistency {
            ConsistencyName::Sr => Consistency::Serializable,
            ConsistencyName::Eus => Consistency::UpdateSerializable,
        };
        let topology = Topology::clusters(shared.clusters, 1, node.0);
        let programs = shared.planned.application.programs();
        let orderer = O::make(node, shared);
        let site = CertificationSite::new(node, &topology, orderer, store, programs, consistency);
        match shared.processor {
            // Throughput is simulated.
            Some(_) => site,
            // So small that a state of few rows has several parts.
            None => site.with_part_bytes(PART_BYTES),
        }
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn certified(&self) -> u64 {
        CertificationSite::certified(self)
    }

    fn leftovers(&self) -> Option<String> {
        let left = "transactions run, or batches are not delivered everywhere";
        (!self.is_idle()).then(|| left.to_owned())
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            SiteMessage::Order(message) => O::kind(message),
            SiteMessage::Part { .. } => "StatePart",
            SiteMessage::Request { .. } => "StateRequest",
            SiteMessage::End { .. } => "StateEnd",
        }
    }

    fn label(message: &Self::Message) -> Label {
        match message {
            SiteMessage::Order(message) => O::label(message),
            other => Label::other(<CertificationSite<O> as Simulated>::kind(other)),
        }
    }

    fn situations(&self) -> Vec<(&'static str, u64)> {
        vec![(STATE_TAKEN, self.orderer().counters().transfers)]
    }
}

impl<O: SimulatedOrderer> Simulated for GuardSite<O> {
    fn make(node: NodeId, shared: &Shared, store: Store) -> GuardSite<O> {
        let topology = Topology::clusters(shared.clusters, 1, node.0);
        let programs = shared.planned.application.programs();
        let homes = shared.homes.clone();
        let (retry, _, _) = times(shared);
        let options = GuardOptions {
            homes: homes.expect("a case over guards has homes"),
            retry,
            acknowledge_after: Ticks(retry.0 / 8),
        };
        let orderer = O::make(node, shared);
        GuardSite::new(node, &topology, orderer, store, programs, options)
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn leftovers(&self) -> Option<String> {
        let left = "transactions run, or are not applied everywhere";
        (!self.is_idle()).then(|| left.to_owned())
    }

    fn certified(&self) -> u64 {
        GuardSite::certified(self)
    }

    fn decisions(&self) -> Option<u64> {
        Some(self.decisions())
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            GuardMessage::Order(message) => O::kind(message),
            GuardMessage::Commit { .. } => "StreamCommit",
            GuardMessage::Received { .. } => "StreamReceived",
            GuardMessage::Fetch { .. } => "StreamFetch",
        }
    }

    fn label(message: &Self::Message) -> Label {
        let kind = <GuardSite<O> as Simulated>::kind(message);
        match message {
            GuardMessage::Order(message) => O::label(message),
            GuardMessage::Commit { commit, .. } => match commit.transaction {
                Some(transaction) => Label::write(kind, transaction),
                None => Label::other(kind),
            },
            GuardMessage::Received { .. } | GuardMessage::Fetch { .. } => Label::other(kind),
        }
    }

    fn situations(&self) -> Vec<(&'static str, u64)> {
        let counters = self.counters();
        vec![
            (COMMITTED_ALONE, counters.commits - counters.ordered),
            (ORDERED, counters.ordered),
        ]
    }
}

/// A transaction committed at its site alone.
const COMMITTED_ALONE: &str = "a transaction committed at its site alone";

/// A transaction with ordered guards committed.
const ORDERED: &str = "a transaction was ordered over guards";

/// The first transaction of a batch.
fn first(batch: &Batch<Certificate>) -> TransactionId {
    batch.payloads()[0].transaction
}

impl SimulatedOrderer for Pob {
    fn make(node: NodeId, shared: &Shared) -> Pob {
        let (retry, patience, fast_wait) = times(shared);
        let usual = PobOptions::new(SiteId(node.0 as u8), shared.clusters as u8);
        let options = PobOptions {
            fast: match shared.sites.fast_decisions {
                true => FastDecisions::AllSites,
                false => FastDecisions::Off,
            },
            retry,
            patience,
            fast_wait,
            batch_window: shared.sites.batch_window,
            retained_max: match (shared.sites.order_over, shared.sites.retained_max) {
                // Sites over guards have no state transfer.
                (OrderOver::Guards, _) => usize::MAX,
                (OrderOver::Accesses, Some(batches)) => batches as usize,
                (OrderOver::Accesses, None) => usual.retained_max,
            },
            ..usual
        };
        PobSite::new(options).expect("the number of sites was checked")
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            Message::Propose { .. } => "Propose",
            Message::AckPropose { .. } => "AckPropose",
            Message::Cut { .. } => "Cut",
            Message::Accept { .. } => "Accept",
            Message::AckAccept { .. } => "AckAccept",
            Message::Stable { .. } => "Stable",
            Message::Prepare { .. } => "Prepare",
            Message::Promise { .. } => "Promise",
            Message::Refuse { .. } => "Refuse",
            Message::Report { .. } => "Report",
            Message::Fetch { .. } => "Fetch",
        }
    }

    fn label(message: &Self::Message) -> Label {
        let kind = <Pob as SimulatedOrderer>::kind(message);
        match message {
            Message::Propose { batch, .. }
            | Message::Accept {
                batch: Some(batch), ..
            }
            | Message::Stable {
                batch: Some(batch), ..
            } => Label::write(kind, first(batch)),
            Message::Refuse { .. } => Label::refusal(kind, None),
            _ => Label::other(kind),
        }
    }
}

impl SimulatedOrderer for MultiPaxos {
    fn make(node: NodeId, shared: &Shared) -> MultiPaxos {
        let (retry, patience, _) = times(shared);
        let options = MultiPaxosOptions {
            leader: SiteId(shared.sites.leader as u8),
            retry,
            patience,
            batch_window: shared.sites.batch_window,
            ..MultiPaxosOptions::new(SiteId(node.0 as u8), shared.clusters as u8)
        };
        MultiPaxosSite::new(options).expect("the number of sites was checked")
    }

    fn kind(message: &Self::Message) -> &'static str {
        use multipaxos::message::Message;
        match message {
            Message::Forward { .. } => "Forward",
            Message::Accept { .. } => "Accept",
            Message::Accepted { .. } => "Accepted",
            Message::Chosen { .. } => "Chosen",
            Message::Prepare { .. } => "Prepare",
            Message::Promise { .. } => "Promise",
            Message::Refuse { .. } => "Refuse",
            Message::Report { .. } => "Report",
            Message::Fetch { .. } => "Fetch",
            Message::Learn { .. } => "Learn",
        }
    }

    fn label(message: &Self::Message) -> Label {
        use multipaxos::message::{Message, Value};
        let kind = <MultiPaxos as SimulatedOrderer>::kind(message);
        match message {
            Message::Forward { batch, .. }
            | Message::Accept {
                value: Value::Batch { batch, .. },
                ..
            } => Label::write(kind, first(batch)),
            Message::Refuse { .. } => Label::refusal(kind, None),
            _ => Label::other(kind),
        }
    }
}

impl SimulatedOrderer for Epaxos {
    fn make(node: NodeId, shared: &Shared) -> Epaxos {
        let (retry, patience, fast_wait) = times(shared);
        let options = EpaxosOptions {
            retry,
            patience,
            fast_wait,
            batch_window: shared.sites.batch_window,
            ..EpaxosOptions::new(SiteId(node.0 as u8), shared.clusters as u8)
        };
        EpaxosSite::new(options).expect("the number of sites was checked")
    }

    fn kind(message: &Self::Message) -> &'static str {
        use epaxos::message::Message;
        match message {
            Message::PreAccept { .. } => "PreAccept",
            Message::PreAccepted { .. } => "PreAccepted",
            Message::Accept { .. } => "Accept",
            Message::Accepted { .. } => "Accepted",
            Message::Commit { .. } => "Commit",
            Message::Prepare { .. } => "Prepare",
            Message::Promise { .. } => "Promise",
            Message::Validate { .. } => "Validate",
            Message::Validated { .. } => "Validated",
            Message::Waiting { .. } => "Waiting",
            Message::Refuse { .. } => "Refuse",
            Message::Report { .. } => "Report",
            Message::Fetch { .. } => "Fetch",
        }
    }

    fn label(message: &Self::Message) -> Label {
        use epaxos::message::Message;
        let kind = <Epaxos as SimulatedOrderer>::kind(message);
        match message {
            Message::PreAccept { proposal, .. }
            | Message::Accept {
                proposal: Some(proposal),
                ..
            }
            | Message::Commit {
                proposal: Some(proposal),
                ..
            } => Label::write(kind, first(&proposal.batch)),
            Message::Refuse { .. } => Label::refusal(kind, None),
            _ => Label::other(kind),
        }
    }
}
