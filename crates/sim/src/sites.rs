//! Sites, each with all of the data, in the simulator: ALVIN's.

use anabranch_history::Model;
use anabranch_protocol::Topology;
use anabranch_protocol::certification::{Certificate, CertificationSite, Consistency};
use anabranch_protocol::order::pob::message::Message;
use anabranch_protocol::order::pob::{FastDecisions, PobOptions, PobSite};
use anabranch_protocol::order::{Batch, SITES_MAX, SiteId};
use anabranch_storage::Store;
use anabranch_types::{NodeId, Ticks};

use crate::alvin::{AlvinOptions, ConsistencyName};
use crate::case::Case;
use crate::diagram::Label;
use crate::error::CaseError;
use crate::prepared::Prepared;
use crate::protocols::{ProtocolName, Shared, Simulated};

/// A site that certifies over partial order broadcast.
pub(crate) type AlvinSite = CertificationSite<PobSite<Certificate>>;

/// The models that a run's history has to satisfy.
pub(crate) fn models(options: AlvinOptions, clients_switch_nodes: bool) -> &'static [Model] {
    match (options.consistency, clients_switch_nodes) {
        (ConsistencyName::Sr, _) => &[Model::StrictSerializable, Model::Sessions],
        (ConsistencyName::Eus, false) => &[Model::UpdateSerializable, Model::Sessions],
        // Another site may not have delivered yet what its client has seen.
        (ConsistencyName::Eus, true) => &[Model::UpdateSerializable],
    }
}

/// Refuses ALVIN's options under another protocol.
pub(crate) fn check_options(
    options: AlvinOptions,
    protocol: ProtocolName,
) -> Result<(), CaseError> {
    let option = match options {
        AlvinOptions {
            consistency: ConsistencyName::Eus,
            ..
        } => "--consistency eus",
        AlvinOptions {
            fast_decisions: true,
            ..
        } => "--fast-decisions on",
        _ => return Ok(()),
    };
    match protocol.has_sites() {
        true => Ok(()),
        false => Err(CaseError::NoSites {
            option,
            protocol: protocol.name(),
        }),
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
    let beside = [
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

impl Simulated for AlvinSite {
    fn make(node: NodeId, shared: &Shared, store: Store) -> AlvinSite {
        let sites = shared.clusters;
        let times = |latencies: u64| Ticks(shared.latency.0.max(1).saturating_mul(latencies));
        let (retry, patience, fast_wait) = LATENCIES;
        let options = PobOptions {
            fast: match shared.alvin.fast_decisions {
                true => FastDecisions::AllSites,
                false => FastDecisions::Off,
            },
            retry: times(retry),
            patience: times(patience),
            fast_wait: times(fast_wait),
            // Stores have no state transfer.
            retained_max: usize::MAX,
            ..PobOptions::new(SiteId(node.0 as u8), sites as u8)
        };
        let orderer = PobSite::new(options).expect("the number of sites was checked");
        let consistency = match shared.alvin.consistency {
            ConsistencyName::Sr => Consistency::Serializable,
            ConsistencyName::Eus => Consistency::UpdateSerializable,
        };
        let topology = Topology::clusters(sites, 1, node.0);
        let programs = shared.planned.application.programs();
        CertificationSite::new(node, &topology, orderer, store, programs, consistency)
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn leftovers(&self) -> Option<String> {
        let left = "transactions run, or batches are not delivered everywhere";
        (!self.is_idle()).then(|| left.to_owned())
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            Message::Propose { .. } => "Propose",
            Message::AckPropose { .. } => "AckPropose",
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
        let kind = <AlvinSite as Simulated>::kind(message);
        let first = |batch: &Batch<Certificate>| batch.payloads()[0].transaction;
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
