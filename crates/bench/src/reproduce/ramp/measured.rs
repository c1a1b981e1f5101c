//! Measured runs on the embedded cluster, described by values so that figures can share one.
//!
//! Runs follow one another, since each needs all processors. In each round, points over the same database and
//! protocols take turns, in another order each time, so that a machine whose speed drifts favours none. Of
//! several rounds the run with the median rate counts; a ratio is the median of the rounds' ratios.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anabranch_engine::PlannedApplication;
use anabranch_protocol::ramp::FilterSize;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_workload::Workload;
use anabranch_workload::ycsb::{Distribution, Form, Parameters, Ycsb};

use super::ReproduceError;
use crate::application;
use crate::embedded;
use crate::experiment::{BLOCKED_AFTER, Experiment as _, ProtocolChoice, Settings};
use crate::outcome::Run;
use crate::ycsb::Experiment;

/// One point: everything that decides a run except its protocol and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    /// The number of items. With the size of a value it decides the database.
    pub(super) items: u64,
    /// The size of a value in bytes.
    pub(super) value_bytes: usize,
    /// Operations of a transaction.
    pub(super) length: usize,
    /// The percentage of transactions that read.
    pub(super) reads_percent: u8,
    /// Zipf's constant in hundredths ([`Parameters::zipfian_constant`]); 0 for the uniform distribution.
    pub(super) skew: u8,
    /// Calls in flight.
    pub(super) clients: usize,
    /// Blocked writes of a million ([`Settings::lost_commits`]).
    pub(super) blocked: u32,
    /// How many milliseconds a participant waits before it terminates a blocked write.
    pub(super) terminate_after_millis: u64,
}

impl Point {
    /// The paper's default workload.
    pub(super) const DEFAULT: Point = Point {
        items: 1_000_000,
        value_bytes: 1,
        length: 4,
        reads_percent: 95,
        skew: 99,
        clients: 256,
        blocked: 0,
        terminate_after_millis: BLOCKED_AFTER.as_millis() as u64,
    };

    fn parameters(&self) -> Parameters {
        Parameters {
            items: self.items,
            form: Form::Transactions {
                length: self.length,
                reads_percent: f64::from(self.reads_percent),
            },
            value_bytes: self.value_bytes,
            distribution: match self.skew {
                0 => Distribution::Uniform,
                _ => Distribution::Zipfian,
            },
            // It has to be valid for the uniform distribution, too.
            zipfian_constant: f64::from(self.skew.max(1)) / 100.0,
        }
    }

    fn database(&self) -> (u64, usize) {
        (self.items, self.value_bytes)
    }
}

/// The runs that a figure requests. Of two figures that request the same point, the one with more protocols has
/// all protocols of the other.
pub(super) type Request = (Point, Pace, &'static [ProtocolChoice]);

/// The length and number of a point's runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// How long each run is measured.
    pub(super) millis: u64,
    /// How long it runs before it is measured.
    pub(super) warmup_millis: u64,
    /// How often each point is run.
    pub(super) rounds: usize,
}

/// The number of nodes; each has one partition.
pub(super) const PARTITIONS: u16 = 2;

/// The runs of points, one for each round, in order.
#[derive(Debug, Default)]
pub(super) struct Measured(BTreeMap<(Point, ProtocolChoice), Vec<Run>>);

impl Measured {
    fn rounds(&self, point: Point, protocol: ProtocolChoice) -> &[Run] {
        let rounds = self.0.get(&(point, protocol));
        rounds.expect("a figure requests its own points")
    }

    /// The run with the median rate.
    ///
    /// # Panics
    /// When the point has not run.
    pub(super) fn of(&self, point: Point, protocol: ProtocolChoice) -> &Run {
        let mut rounds: Vec<&Run> = self.rounds(point, protocol).iter().collect();
        rounds.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        rounds[rounds.len() / 2]
    }

    /// Item operations a second.
    pub(super) fn rate(&self, point: Point, protocol: ProtocolChoice) -> f64 {
        self.of(point, protocol).rate()
    }

    /// The ratio of two rates: the median of the rounds' ratios.
    ///
    /// # Panics
    /// When one of the points has not run.
    pub(super) fn over(&self, one: (Point, ProtocolChoice), other: (Point, ProtocolChoice)) -> f64 {
        let (one, other) = (self.rounds(one.0, one.1), self.rounds(other.0, other.1));
        let ratios = one.iter().zip(other).map(|(a, b)| a.rate() / b.rate());
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }

    /// Runs every requested point under its protocols, and reports to `progress`. Of several requests for a point
    /// the longest counts.
    ///
    /// # Errors
    /// The first error of a run.
    pub(super) fn run(
        requests: impl IntoIterator<Item = Request>,
        seed: u64,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Measured, ReproduceError> {
        let mut points: BTreeMap<Point, (Pace, &'static [ProtocolChoice])> = BTreeMap::new();
        for (point, pace, protocols) in requests {
            let (kept, under) = points.entry(point).or_insert((pace, protocols));
            if pace.rounds * pace.millis as usize > kept.rounds * kept.millis as usize {
                *kept = pace;
            }
            if protocols.len() > under.len() {
                *under = protocols;
            }
        }
        let runs = points
            .values()
            .map(|(pace, protocols)| pace.rounds * protocols.len());
        let all: usize = runs.sum();
        let planned = planned()?;
        let (mut measured, mut done) = (Measured::default(), 0);
        // Points are ordered by their databases, so that one database is in memory at a time.
        let points: Vec<(Point, (Pace, &[ProtocolChoice]))> = points.into_iter().collect();
        for points in points.chunk_by(|(one, _), (other, _)| one.database() == other.database()) {
            progress(&format!("{done} of {all} measured runs, filling"));
            let (first, (pace, _)) = points[0];
            let experiment = Experiment::new(first.parameters(), settings(&first, &pace, seed))?;
            let kept = StoreSettings::default();
            let stores = experiment.fill(&planned, kept, &AtomicU64::new(0))?;
            let rounds = points.iter().map(|(_, (pace, _))| pace.rounds).max();
            for round in 0..rounds.unwrap_or_default() {
                let in_round = points.iter().filter(|(_, (pace, _))| round < pace.rounds);
                for (point, (pace, protocols)) in in_round {
                    let settings = settings(point, pace, seed);
                    let experiment = Experiment::new(point.parameters(), settings)?;
                    for protocol in in_turn(protocols, round) {
                        progress(&format!("{done} of {all} measured runs"));
                        let run = run_once(&planned, &experiment, protocol, stores.clone())?;
                        measured.0.entry((*point, protocol)).or_default().push(run);
                        done += 1;
                    }
                }
            }
        }
        Ok(measured)
    }
}

/// The protocols in the order of a round. The order differs between rounds, so that no protocol gains by its
/// position or by its predecessor.
fn in_turn(protocols: &[ProtocolChoice], round: usize) -> Vec<ProtocolChoice> {
    let mut order = protocols.to_vec();
    order.rotate_left(round % protocols.len().max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn run_once(
    planned: &Arc<PlannedApplication>,
    experiment: &Experiment,
    protocol: ProtocolChoice,
    stores: Vec<Store>,
) -> Result<Run, ReproduceError> {
    let ran = embedded::run(planned, experiment, protocol, stores, None, &mut |_| ())?;
    match ran.run.conditions.iter().find(|(_, held)| !**held) {
        None => Ok(ran.run),
        Some((wrong, _)) => Err(ReproduceError::Wrong {
            protocol: protocol.name(),
            wrong: wrong.clone(),
        }),
    }
}

fn planned() -> Result<Arc<PlannedApplication>, ReproduceError> {
    let built_in = Ycsb::new(1);
    let files = built_in.files().iter();
    let files = files.map(|(name, text)| SourceFile::new(*name, *text));
    Ok(application::plan(files.collect(), PARTITIONS)?)
}

fn settings(point: &Point, pace: &Pace, seed: u64) -> Settings {
    Settings {
        partitions: PARTITIONS,
        clients: point.clients,
        duration: Duration::from_millis(pace.millis),
        warmup: Duration::from_millis(pace.warmup_millis),
        delay: Duration::ZERO,
        seed,
        code_path: false,
        recorded: false,
        reserved: 0,
        filter: FilterSize::default(),
        lost_commits: point.blocked,
        terminate_after: (point.blocked > 0)
            .then(|| Duration::from_millis(point.terminate_after_millis)),
        one_phase: false,
        causal: false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Effort, MEASURED};
    use super::*;

    #[test]
    fn no_protocol_gains_by_its_position_in_a_round() {
        let rounds: Vec<Vec<ProtocolChoice>> = (0..Effort::FULL.long.rounds)
            .map(|round| in_turn(&MEASURED, round))
            .collect();
        let place = |of, order: &[_]| order.iter().position(|at| *at == of);
        for one in MEASURED {
            let places: BTreeSet<_> = rounds.iter().map(|order| place(one, order)).collect();
            assert!(places.len() >= 4, "{one:?} has the places {places:?}");
            for other in MEASURED.iter().filter(|other| **other != one) {
                let before = |order: &&Vec<_>| place(one, order) < place(*other, order);
                let earlier = rounds.iter().filter(before).count();
                assert!(
                    (2..=5).contains(&earlier),
                    "{one:?} before {other:?}: {earlier}"
                );
            }
        }
        assert!(rounds.iter().all(|order| order.len() == MEASURED.len()));
    }

    #[test]
    fn each_point_is_measured_once_under_each_protocol() {
        let point = Point {
            items: 1_000,
            clients: 8,
            ..Point::DEFAULT
        };
        let pace = Pace {
            millis: 40,
            warmup_millis: 5,
            rounds: 1,
        };
        let writes = Point {
            reads_percent: 0,
            ..point
        };
        let protocols: &'static [ProtocolChoice; 2] =
            &[ProtocolChoice::RampFast, ProtocolChoice::Locking];
        let one = &protocols[..1];
        let requests = [
            (point, pace, one),
            (writes, pace, &protocols[..]),
            (point, pace, protocols),
        ];
        let mut reported = Vec::new();
        let mut report = |what: &str| reported.push(what.to_owned());
        let measured = Measured::run(requests, 1, &mut report).expect("they can be run");
        assert_eq!(measured.0.len(), 4);
        for protocol in *protocols {
            assert!(measured.rate(point, protocol) > 100.0);
            assert!(measured.rate(writes, protocol) > 100.0);
        }
        let (fast, locking) = (ProtocolChoice::RampFast, ProtocolChoice::Locking);
        let over = measured.over((point, fast), (point, locking));
        let [fast, locking] = [fast, locking].map(|of| measured.rate(point, of));
        assert_eq!(over, fast / locking, "of one round");
        let last = reported
            .iter()
            .filter(|what| *what == "3 of 4 measured runs");
        assert_eq!(last.count(), 1, "{reported:?}");
    }
}
