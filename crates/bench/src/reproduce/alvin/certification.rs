//! How fast one core certifies.

use std::sync::Arc;

use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{Call, CallId, Node, NodeInput, NodeOptions, NodeOutbox, Work};
use anabranch_protocol::Topology;
use anabranch_protocol::certification::{Certificate, CertificationSite, Consistency};
use anabranch_protocol::order::SiteId;
use anabranch_protocol::order::pob::{PobOptions, PobSite};
use anabranch_sim::{CaseError, Network, Prepared};
use anabranch_storage::Store;
use anabranch_types::{NodeId, PartitionId, Ticks};
use anabranch_workload::ClientPlacement;
use anabranch_workload::ycsb::{Distribution, Form, Parameters, Ycsb};

use super::{Context, ReproduceError};
use crate::calibrate::processor_nanos;
use crate::figure::{Comparison, Origin, Section, Target};

type Site = Node<CertificationSite<PobSite<Certificate>>>;

/// Rows of a transaction.
const ROWS: usize = 10;

/// Rows of the table.
const ITEMS: u64 = 50_000;

/// Transactions of a batch.
const BATCH: usize = 256;

/// The target: transactions a second.
const AT_LEAST: f64 = 200_000.0;

fn site(number: u16, prepared: &Prepared, store: Store) -> Site {
    let options = PobOptions {
        batch_window: Ticks::from_millis(20),
        batch_max: BATCH,
        retained_max: usize::MAX,
        ..PobOptions::new(SiteId(number as u8), 2)
    };
    let orderer = PobSite::new(options).expect("there are two sites");
    let planned = &prepared.planned;
    let starts = SequenceStarts::of(planned, std::slice::from_ref(&store));
    let protocol = CertificationSite::new(
        NodeId(number),
        &Topology::clusters(2, 1, number),
        orderer,
        store,
        planned.application.programs(),
        Consistency::Serializable,
    );
    let options = NodeOptions {
        sequences: Some((number, 2)),
        ..NodeOptions::default()
    };
    let partition = PartitionId(0);
    Node::new(
        NodeId(number),
        partition,
        Arc::clone(planned),
        protocol,
        options,
    )
    .with_sequence_starts(&starts)
}

/// Certified transactions a second of a core of the second site, which executes none: it receives, answers, certifies and
/// installs what the first site broadcasts.
fn certified_per_second(count: usize, reads: bool, seed: u64) -> Result<f64, ReproduceError> {
    let parameters = Parameters {
        items: ITEMS,
        form: Form::Transactions {
            length: ROWS,
            reads_percent: if reads { 100.0 } else { 0.0 },
        },
        distribution: Distribution::Uniform,
        ..Parameters::RAMP
    };
    let workload = Ycsb::with(parameters).expect("these make sense");
    let prepared = Prepared::from_workload(Arc::new(workload), 1)?;
    let stores = prepared.stores(seed, &Network::lan(), true)?;
    let store = stores.into_iter().next().expect("there is one partition");
    let mut sites = [0, 1].map(|number| site(number, &prepared, store.clone()));
    let place = ClientPlacement {
        client: 0,
        node: 0,
        nodes: 1,
    };
    let mut caller = prepared.workload.caller(seed, place, &prepared.planned);
    let procedures = prepared.procedures();
    let (mut now, mut nanos, mut called) = (Ticks::from_millis(1), 0, 0);
    let mut inputs: [Vec<NodeInput<_>>; 2] = [Vec::new(), Vec::new()];
    while called < count {
        for _ in 0..BATCH {
            called += 1;
            let operation = caller.next();
            let call = Call::new(
                CallId(called as u64),
                Work::Procedure(procedures[operation.procedure]),
                operation.arguments,
            );
            inputs[0].push(NodeInput::Call(call));
        }
        while inputs.iter().any(|inputs| !inputs.is_empty()) {
            for number in 0..2 {
                let mut out = NodeOutbox::default();
                let taken = std::mem::take(&mut inputs[number]);
                let began = processor_nanos();
                for input in taken {
                    sites[number].step(now, input, &mut out);
                }
                if sites[number].next_alarm().is_some_and(|at| at <= now) {
                    sites[number].step(now, NodeInput::Tick, &mut out);
                }
                if number == 1 {
                    nanos += processor_nanos() - began;
                }
                for (to, message) in out.messages {
                    let from = NodeId(number as u16);
                    inputs[to.index()].push(NodeInput::Message { from, message });
                }
            }
        }
        now = now + Ticks::from_millis(25);
    }
    let certified = sites[1].protocol().certified();
    if certified < called as u64 * 99 / 100 {
        let reason = format!("{certified} of {called} transactions were certified");
        return Err(ReproduceError::Case(CaseError::Wrong(reason)));
    }
    Ok(certified as f64 * 1e9 / nanos.max(1) as f64)
}

/// Certified transactions of ten rows.
pub(super) fn section(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    progress("measuring certification on one core");
    let settings = context.settings;
    let build = match cfg!(debug_assertions) {
        true => "This program was built for development: a release build is several times as fast.",
        false => "This program is a release build.",
    };
    let mut section = Section {
        title: "Certification on one core".into(),
        text: vec![
            format!(
                "Processor time of a site that executes nothing: it receives another site's batches of {BATCH} transactions over \
                 ALVIN's orderer, answers, certifies and installs them. Each transaction reads, or writes, {ROWS} of {ITEMS} rows."
            ),
            build.to_owned(),
        ],
        ..Section::default()
    };
    for (what, reads) in [("ten rows read", true), ("ten rows written", false)] {
        let rate = certified_per_second(settings.effort.certified, reads, settings.seed)?;
        section.comparisons.push(
            Comparison::new(what, "/s", rate, Origin::Measured).aimed_at(Target::AtLeast(AT_LEAST)),
        );
    }
    Ok(section)
}
