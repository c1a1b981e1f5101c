//! Runs on the embedded cluster: described by values, so that figures can share one.
//!
//! They run one after the other, since each wants all processors, and protocols take turns at each point,
//! so that a machine whose speed drifts is as kind to one as to the other. Of several rounds the run with
//! the median rate counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anabranch_engine::PlannedApplication;
use anabranch_protocol::ramp::FilterSize;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_workload::Workload;
use anabranch_workload::ycsb::{Form, Parameters, Ycsb};

use super::ReproduceError;
use crate::application;
use crate::embedded;
use crate::experiment::{Experiment as _, ProtocolChoice, Settings};
use crate::outcome::Run;
use crate::ycsb::Experiment;

/// One point: everything that decides a run but its protocol and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    /// Items. With the size of a value they decide the database.
    pub(super) items: u64,
    /// The size of a value.
    pub(super) value_bytes: usize,
    /// Operations of a transaction.
    pub(super) length: usize,
    /// So many of 100 transactions read.
    pub(super) reads_percent: u8,
    /// Calls under way.
    pub(super) clients: usize,
    /// Of a million writes, so many are blocked ([`Settings::unsent_commits`]).
    pub(super) blocked: u32,
}

impl Point {
    /// The paper's default workload.
    pub(super) const DEFAULT: Point = Point {
        items: 1_000_000,
        value_bytes: 1,
        length: 4,
        reads_percent: 95,
        clients: 256,
        blocked: 0,
    };

    fn parameters(&self) -> Parameters {
        Parameters {
            items: self.items,
            form: Form::Transactions {
                length: self.length,
                reads_percent: f64::from(self.reads_percent),
            },
            value_bytes: self.value_bytes,
            ..Parameters::RAMP
        }
    }
}

/// What a figure asks for: under which protocols. Of two figures that ask for the same point the one with
/// more protocols asks for all that the other does.
pub(super) type Asked = (Point, Pace, &'static [ProtocolChoice]);

/// How points are run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// For how long each run is measured.
    pub(super) millis: u64,
    /// For how long it runs before.
    pub(super) warmup_millis: u64,
    /// How often each is run.
    pub(super) rounds: usize,
}

/// Nodes, with one partition each.
pub(super) const PARTITIONS: u16 = 2;

/// What came of points.
#[derive(Debug, Default)]
pub(super) struct Measured(BTreeMap<(Point, ProtocolChoice), Run>);

impl Measured {
    /// What came of this one.
    ///
    /// # Panics
    /// When it was never asked for.
    pub(super) fn of(&self, point: Point, protocol: ProtocolChoice) -> &Run {
        let run = self.0.get(&(point, protocol));
        run.expect("a figure asks for its own points")
    }

    /// Item operations a second.
    pub(super) fn rate(&self, point: Point, protocol: ProtocolChoice) -> f64 {
        self.of(point, protocol).rate()
    }

    /// Runs every point that was asked for under its protocols, once or as often as one of those who ask
    /// wants it; `progress` is told how far it is.
    ///
    /// # Errors
    /// The first that a run meets.
    pub(super) fn run(
        asked: impl IntoIterator<Item = Asked>,
        seed: u64,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Measured, ReproduceError> {
        let mut points: BTreeMap<Point, (Pace, &'static [ProtocolChoice])> = BTreeMap::new();
        for (point, pace, protocols) in asked {
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
        let mut filled: Option<((u64, usize), Vec<Store>)> = None;
        let (mut measured, mut done) = (Measured::default(), 0);
        for (point, (pace, protocols)) in points {
            let experiment = Experiment::new(point.parameters(), settings(&point, &pace, seed))?;
            let database = (point.items, point.value_bytes);
            if filled.as_ref().is_none_or(|(of, _)| *of != database) {
                progress(&format!("{done} of {all} measured runs, filling"));
                // The last one goes before the next comes.
                drop(filled.take());
                let kept = StoreSettings::default();
                let stores = experiment.fill(&planned, kept, &AtomicU64::new(0))?;
                filled = Some((database, stores));
            }
            let Some((_, stores)) = &filled else {
                unreachable!("it was filled just now")
            };
            let mut rounds: Vec<Vec<Run>> = vec![Vec::new(); protocols.len()];
            for _ in 0..pace.rounds {
                for (runs, protocol) in rounds.iter_mut().zip(protocols) {
                    progress(&format!("{done} of {all} measured runs"));
                    let stores = stores.clone();
                    let ran =
                        embedded::run(&planned, &experiment, *protocol, stores, None, &mut |_| ())?;
                    if let Some((wrong, _)) = ran.run.conditions.iter().find(|(_, held)| !**held) {
                        let (protocol, wrong) = (protocol.name(), wrong.clone());
                        return Err(ReproduceError::Wrong { protocol, wrong });
                    }
                    runs.push(ran.run);
                    done += 1;
                }
            }
            for (mut runs, protocol) in rounds.into_iter().zip(protocols) {
                runs.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
                let median = runs.swap_remove(runs.len() / 2);
                measured.0.insert((point, *protocol), median);
            }
        }
        Ok(measured)
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
        unsent_commits: point.blocked,
        one_phase: false,
        causal: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let asked = [
            (point, pace, one),
            (writes, pace, &protocols[..]),
            (point, pace, protocols),
        ];
        let mut said = Vec::new();
        let mut say = |what: &str| said.push(what.to_owned());
        let measured = Measured::run(asked, 1, &mut say).expect("they can be run");
        assert_eq!(measured.0.len(), 4);
        for protocol in *protocols {
            assert!(measured.rate(point, protocol) > 100.0);
            assert!(measured.rate(writes, protocol) > 100.0);
        }
        let asked = said.iter().filter(|what| *what == "3 of 4 measured runs");
        assert_eq!(asked.count(), 1, "{said:?}");
    }
}
