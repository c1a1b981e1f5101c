//! The paper's default workload on the embedded cluster: transactions of four operations, 95 of 100
//! reading, items by Zipf's law over a million, values of a byte.

use super::measured::{Measured, PARTITIONS, Point, Request};
use super::{Effort, MEASURED, label, measured_run, published};
use crate::experiment::ProtocolChoice;
use crate::figure::{Comparison, Origin, Section, Target};

/// The points that the section needs.
pub(super) fn points(effort: &Effort) -> Vec<Request> {
    vec![(Point::DEFAULT, effort.long, &MEASURED)]
}

/// The section of the report.
pub(super) fn section(effort: &Effort, measured: &Measured) -> Section {
    let rate = |protocol| measured.rate(Point::DEFAULT, protocol);
    let found = |what: String, unit, value| Comparison::new(what, unit, value, Origin::Measured);
    let unprotected = (Point::DEFAULT, ProtocolChoice::Nwnr);
    let mut comparisons = Vec::new();
    for (protocol, target) in [
        (ProtocolChoice::RampFast, 780_000.0),
        (ProtocolChoice::RampHybrid, 660_000.0),
        (ProtocolChoice::RampSmall, 440_000.0),
        (ProtocolChoice::Nwnr, 0.0),
        (ProtocolChoice::EPci, 0.0),
        (ProtocolChoice::Lwnr, 0.0),
        (ProtocolChoice::LockingShort, 0.0),
        (ProtocolChoice::Locking, 0.0),
    ] {
        let mut prototype = published::PROTOTYPE.iter();
        let prototype = prototype.find(|(name, _)| *name == protocol.name());
        let name = label(protocol.name());
        let what = match prototype {
            Some(_) => format!("{name}, item operations; beside the prototype's over loopback"),
            None => format!("{name}, item operations"),
        };
        let compared = found(what, "/s", rate(protocol)).beside(prototype.map(|(_, rate)| *rate));
        comparisons.push(match target {
            0.0 => compared,
            least => compared.aimed_at(Target::AtLeast(least)),
        });
    }
    comparisons.push(
        found(
            "RAMP-F, item operations a core, clients' part included".to_owned(),
            "/s",
            rate(ProtocolChoice::RampFast) / cores(),
        )
        .aimed_at(Target::AtLeast(400_000.0)),
    );
    for (protocol, least) in [
        (ProtocolChoice::RampFast, published::FAST),
        (ProtocolChoice::RampHybrid, published::FAST),
        (ProtocolChoice::RampSmall, published::SMALL),
    ] {
        let what = format!("{} over no concurrency control", label(protocol.name()));
        let ratio = measured.over((Point::DEFAULT, protocol), unprotected);
        comparisons.push(
            found(what, "x", ratio)
                .beside(least)
                .aimed_at(Target::AtLeast(least)),
        );
    }
    Section {
        title: "The default workload, on this machine".into(),
        text: vec![format!(
            "{PARTITIONS} partitions with a thread each, and one thread for all clients, on this machine's {} processors. \
             Transactions run from SQL, and there is no network between client and server. The published rates are \
             those of the authors' own prototype (Java, two servers and their client over loopback, on two \
             processors of a machine of this kind), which are not in the paper; the published ratios are the \
             paper's with 10,000 clients.",
            cores()
        )],
        parameters: vec![
            ("items".into(), Point::DEFAULT.items.to_string()),
            ("clients".into(), Point::DEFAULT.clients.to_string()),
            (
                "rounds, of which the median counts".into(),
                effort.long.rounds.to_string(),
            ),
            (
                "milliseconds of each".into(),
                effort.long.millis.to_string(),
            ),
        ],
        charts: Vec::new(),
        comparisons,
        runs: MEASURED
            .iter()
            .map(|protocol| {
                let run = measured.of(Point::DEFAULT, *protocol);
                measured_run("default".to_owned(), Point::DEFAULT, *protocol, run)
            })
            .collect(),
    }
}

/// The number of processors on which threads may run.
fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}
