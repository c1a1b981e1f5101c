//! Simulated runs: described by values, so that figures can share one, and run on all cores.
//!
//! A [`Job`] says everything that decides a run but its seed and its costs. Jobs over the same
//! database share it: it is filled once, and each of them begins with a copy of it. Each is
//! deterministic by itself, so that it does not matter which core has run it, and when ([`pool`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use anabranch_sim::cost::Processor;
use anabranch_sim::{CaseError, Load, Network, Prepared, ProtocolName, Termination, Throughput};
use anabranch_storage::Store;
use anabranch_types::Ticks;
use anabranch_workload::Workload;
use anabranch_workload::register::Writers;
use anabranch_workload::tpcc::{Distribution, Mix, Scale, Tpcc};
use anabranch_workload::ycsb::{self, Form, Parameters, Ycsb};

use super::pool::{self, Group, News};
use crate::calibrate::{Calibration, CalibrationError, Name};
use crate::experiment::BLOCKED_AFTER;
use crate::figure::{Origin, RunLine};

/// The median round trip, in microseconds, whose mean is that of an exchange in the trace behind
/// coordination-avoidance.txt's Figure 2a ([`super::atomic_commit::LAN`]), given how the simulator spreads
/// latencies. A test holds it.
pub(super) const MEDIAN_ROUND_TRIP_MICROS: u32 = 489;

/// For how long what is sent on one wire takes equally long.
const LATENCY_PERIOD: Ticks = Ticks::from_millis(1);

/// What is in the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Database {
    /// TPC-C's, with so many warehouses a server, each with so many items.
    Warehouses {
        /// A server.
        each: u16,
        /// Items, and so rows of stock a warehouse.
        items: u32,
    },
    /// One register a server.
    Registers,
    /// YCSB's items, of a byte each.
    Items {
        /// A server.
        each: u32,
    },
}

/// What clients call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Calls {
    /// New-Orders, one in ten of them distributed, as TPC-C specifies.
    OrdersAsSpecified,
    /// New-Orders, of which so many of 100 are distributed.
    OrdersDistributed(u8),
    /// Writes to so many registers, one of them at home.
    Writes(usize),
    /// Transactions over several items (ramp.txt §5.1).
    Items {
        /// So many items.
        length: u16,
        /// So many of 100 read; the others write.
        reads_percent: u8,
        /// Whether items are drawn alike, and not by Zipf's law.
        uniform: bool,
    },
}

/// One simulated run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Job {
    /// How many servers.
    pub(super) servers: u16,
    /// Cores of each, which share its store.
    pub(super) cores: u16,
    /// What they hold.
    pub(super) database: Database,
    /// What clients call.
    pub(super) calls: Calls,
    /// Under which protocol.
    pub(super) protocol: ProtocolName,
    /// Clients a server, each with one call under way.
    pub(super) clients: u32,
    /// Of a million of RAMP's transactions over several servers, so many are decided without telling the
    /// participants, which ask after [`BLOCKED_AFTER`] (ramp.txt §5.3).
    pub(super) blocked: u32,
    /// The median time from server to server and back, and from a server to a client and back.
    pub(super) round_trip_micros: u32,
    /// Transactions that are counted, after half as many that are not.
    pub(super) transactions: u64,
    /// Virtual milliseconds that are counted at most, after a quarter as many that are not.
    pub(super) millis_max: u64,
}

/// How many customers a district has. New-Order only reads one of them.
const CUSTOMERS: u32 = 30;

impl Job {
    fn workload(&self) -> Arc<dyn Workload> {
        let distribution = match self.calls {
            Calls::Writes(span) => {
                let registers = i64::from(self.servers);
                return Arc::new(Writers { registers, span });
            }
            Calls::Items {
                length,
                reads_percent,
                uniform,
            } => return self.items(length, reads_percent, uniform),
            Calls::OrdersAsSpecified => Distribution::Specified,
            Calls::OrdersDistributed(percent) => Distribution::Percent(f64::from(percent)),
        };
        let (warehouses, items) = match self.database {
            Database::Warehouses { each, items } => (u32::from(each), items),
            Database::Registers | Database::Items { .. } => (1, 1),
        };
        Arc::new(Tpcc {
            scale: Scale {
                warehouses: u32::from(self.servers) * warehouses,
                items,
                customers: CUSTOMERS,
            },
            distribution,
            mix: Mix::NEW_ORDER,
        })
    }

    fn items(&self, length: u16, reads_percent: u8, uniform: bool) -> Arc<dyn Workload> {
        let each = match self.database {
            Database::Items { each } => each,
            Database::Warehouses { items, .. } => items,
            Database::Registers => 1,
        };
        let parameters = Parameters {
            items: u64::from(each) * u64::from(self.servers),
            form: Form::Transactions {
                length: usize::from(length),
                reads_percent: f64::from(reads_percent),
            },
            distribution: match uniform {
                true => ycsb::Distribution::Uniform,
                false => ycsb::Distribution::Zipfian,
            },
            ..Parameters::RAMP
        };
        Arc::new(Ycsb::with(parameters).expect("figures ask for what can be"))
    }

    /// The experiment of a calibration that has its costs.
    fn experiment(&self) -> Name {
        match self.calls {
            Calls::Writes(span) => Name::Writes(span),
            Calls::Items { .. } => Name::Items,
            Calls::OrdersAsSpecified => Name::NewOrder,
            Calls::OrdersDistributed(_) => Name::NewOrderDistributed,
        }
    }

    /// The network between its servers. What is slow on it is slow for a millisecond.
    pub(super) fn network(&self) -> Network {
        let millis = f64::from(self.round_trip_micros) / 1_000.0;
        let matrix = format!("sites lan\nlan {millis}\n");
        let network = Network::matrix("lan", &matrix);
        let network = network.expect("one site with its round trip is a matrix");
        network.with_latency_periods(LATENCY_PERIOD)
    }

    /// About how long it takes, in any unit: what distributed transactions cost under locks is what
    /// others wait for.
    fn effort(&self) -> u64 {
        let waits = u64::from(self.protocol == ProtocolName::Locking);
        self.transactions * (1 + waits)
    }

    fn prepared(&self) -> Result<Prepared, CaseError> {
        Prepared::from_workload(self.workload(), self.servers)
    }

    /// Runs it over a filled database.
    fn run(
        &self,
        stores: Vec<Store>,
        calibration: &Calibration,
        seed: u64,
    ) -> Result<Throughput, SimulationError> {
        let load = Load {
            termination: match self.blocked {
                0 => Termination::default(),
                lost_commits => Termination {
                    lost_commits,
                    after_us: BLOCKED_AFTER.as_micros() as u64,
                },
            },
            protocol: self.protocol,
            seed,
            clients: self.clients * u32::from(self.servers),
            think: Ticks::from_micros(u64::from(self.round_trip_micros)),
            network: self.network(),
            processor: Some(Processor {
                cores: self.cores,
                costs: calibration.costs(self.experiment(), self.protocol.name())?,
            }),
            warmup: Ticks::from_millis(self.millis_max / 4),
            measured: Ticks::from_millis(self.millis_max),
            transactions_max: self.transactions,
        };
        Ok(load.run(&self.prepared()?, stores, None)?)
    }
}

/// Why a run could not be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The simulator refused it, or found a wrong answer.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The calibration has no costs for it.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
}

/// A run for a report's appendix.
pub(super) fn run_line(what: String, job: &Job, found: &Throughput) -> RunLine {
    let committed = found.committed.max(1) as f64;
    RunLine {
        what,
        origin: Origin::Simulated,
        protocol: job.protocol.name(),
        servers: job.servers,
        clients: job.clients * u32::from(job.servers),
        committed: found.committed,
        per_second: found.per_second,
        mean_ms: found.mean_ms,
        p99_ms: found.p99_ms,
        utilization: found.utilization,
        messages: found.messages,
        retries: found.retries,
        lock_wait_ms: (found.lock_wait_nanos + found.usage.blocked as f64 / committed) / 1e6,
        guessed: Some(found.usage.guessed as f64 / found.usage.steps.max(1) as f64),
    }
}

/// What came of jobs.
#[derive(Debug, Default)]
pub(super) struct Results(BTreeMap<Job, Throughput>);

impl Results {
    /// What came of this one.
    ///
    /// # Panics
    /// When it was never asked for.
    pub(super) fn of(&self, job: &Job) -> &Throughput {
        self.0.get(job).expect("a figure asks for its own jobs")
    }

    /// The job that did most a second, and what came of it.
    ///
    /// # Panics
    /// When there is none, or one was never asked for.
    pub(super) fn best<'j>(&self, jobs: &'j [Job]) -> (&'j Job, &Throughput) {
        let all = jobs.iter().map(|job| (job, self.of(job)));
        let best = all.max_by(|(_, a), (_, b)| a.per_second.total_cmp(&b.per_second));
        best.expect("a figure offers some")
    }

    /// Runs all of them once, on so many threads, those that take longest first; `progress` is told how
    /// far it is. What comes of them is the same however many threads there are.
    ///
    /// # Errors
    /// One that a job meets.
    pub(super) fn run(
        jobs: impl IntoIterator<Item = Job>,
        calibration: &Calibration,
        seed: u64,
        threads: NonZeroUsize,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Results, SimulationError> {
        let groups = grouped(jobs.into_iter().collect());
        let count: usize = groups.iter().map(|group| group.jobs.len()).sum();
        let mut results = Results::default();
        pool::run(
            &groups,
            threads,
            |first| Ok(first.prepared()?.stores(seed, &first.network(), true)?),
            |job, stores| job.run(stores, calibration, seed),
            |news| {
                let (what, servers) = match news {
                    News::Prepares(first) => (", filling", first.servers),
                    News::Done(job, found) => {
                        results.0.insert(job.clone(), found);
                        (",", job.servers)
                    }
                };
                let done = results.0.len();
                progress(&format!("{done} of {count} runs{what} {servers} servers"));
            },
        )?;
        Ok(results)
    }
}

/// Jobs by what they begin with, of which each group's first is an example. What takes longest comes
/// first, so that no thread is left alone with it in the end.
fn grouped(jobs: BTreeSet<Job>) -> Vec<Group<Job, Job>> {
    let mut groups: BTreeMap<(u16, Database), Vec<Job>> = BTreeMap::new();
    for job in jobs {
        let group = groups.entry((job.servers, job.database)).or_default();
        group.push(job);
    }
    let mut groups: Vec<Group<Job, Job>> = groups
        .into_values()
        .map(|mut jobs| {
            jobs.sort_by_key(|job| Reverse(job.effort()));
            Group {
                beginning: jobs[0].clone(),
                jobs,
            }
        })
        .collect();
    groups.sort_by_key(|group| Reverse(group.beginning.effort()));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(protocol: ProtocolName, calls: Calls) -> Job {
        Job {
            servers: 2,
            cores: 2,
            database: Database::Warehouses {
                each: 1,
                items: 100,
            },
            calls,
            protocol,
            clients: 8,
            blocked: 0,
            round_trip_micros: 100,
            transactions: 60,
            millis_max: 50,
        }
    }

    fn run(jobs: &[Job], seed: u64) -> Vec<Throughput> {
        let calibration = Calibration::built_in();
        let threads = NonZeroUsize::new(3).expect("it is not 0");
        let results = Results::run(jobs.to_vec(), &calibration, seed, threads, &mut |_| ());
        let results = results.expect("they can be run");
        jobs.iter().map(|job| results.of(job).clone()).collect()
    }

    /// Together or alone, on whichever core: the seed gives the run.
    #[test]
    fn a_job_gives_the_same_whoever_runs_beside_it() {
        let jobs = [
            job(ProtocolName::RampFast, Calls::OrdersAsSpecified),
            job(ProtocolName::Locking, Calls::OrdersDistributed(100)),
            job(ProtocolName::Nwnr, Calls::OrdersDistributed(0)),
        ];
        let together = run(&jobs, 7);
        for (job, found) in jobs.iter().zip(&together) {
            assert_eq!(&run(std::slice::from_ref(job), 7)[0], found);
            assert!(found.committed > 0, "{job:?}");
        }
        assert_ne!(run(&jobs[..1], 8)[0], together[0]);
    }

    #[test]
    fn what_jobs_ask_for_is_run() {
        let [none, all] = [0, 100].map(|percent| {
            let calls = Calls::OrdersDistributed(percent);
            run(&[job(ProtocolName::RampFast, calls)], 1).remove(0)
        });
        assert_eq!(none.messages, 0.0);
        assert!(all.messages > 4.0, "{}", all.messages);
        let far = Job {
            round_trip_micros: 2_000,
            ..job(ProtocolName::Locking, Calls::OrdersDistributed(100))
        };
        let near = Job {
            round_trip_micros: 100,
            ..far.clone()
        };
        let found = run(&[near, far], 1);
        assert!(found[0].mean_ms + 2.0 < found[1].mean_ms, "{found:?}");
    }

    /// A network is no slower for what it carries: only servers get full.
    #[test]
    fn more_clients_wait_no_longer_for_the_network() {
        let reads = |clients| Job {
            database: Database::Items { each: 2_000 },
            cores: 16,
            clients,
            transactions: 8_000,
            round_trip_micros: 489,
            ..job(
                ProtocolName::Nwnr,
                Calls::Items {
                    length: 4,
                    reads_percent: 100,
                    uniform: true,
                },
            )
        };
        let found = run(&[reads(10), reads(600)], 1);
        assert!(found[1].utilization < Some(0.5), "{found:?}");
        assert!(found[1].mean_ms < 1.4 * found[0].mean_ms, "{found:?}");
    }

    #[test]
    fn items_are_drawn_and_written_as_asked_for() {
        let items = |reads_percent, uniform| Job {
            database: Database::Items { each: 2_000 },
            transactions: 2_000,
            clients: 100,
            ..job(
                ProtocolName::Locking,
                Calls::Items {
                    length: 4,
                    reads_percent,
                    uniform,
                },
            )
        };
        let found = run(&[items(50, false), items(50, true), items(100, false)], 1);
        let [skewed, alike, reads] = &found[..] else {
            unreachable!("three were run")
        };
        assert!(
            skewed.lock_wait_nanos > 4.0 * alike.lock_wait_nanos,
            "{found:?}"
        );
        assert_eq!(reads.lock_wait_nanos, 0.0);
        assert!(reads.messages > 1.0, "{}", reads.messages);
    }

    fn over_items(blocked: u32, reads_percent: u8, length: u16) -> Job {
        Job {
            servers: 3,
            database: Database::Items { each: 2_000 },
            transactions: 2_000,
            clients: 20,
            blocked,
            ..job(
                ProtocolName::RampFast,
                Calls::Items {
                    length,
                    reads_percent,
                    uniform: true,
                },
            )
        }
    }

    /// As on a cluster: the plan routes calls by their keys.
    #[test]
    fn calls_go_where_their_items_are() {
        let found = run(&[over_items(0, 50, 1), over_items(0, 50, 2)], 1);
        assert_eq!(found[0].messages, 0.0);
        // The other item is on another server two times of three: a question and an answer, or two of each.
        assert!((1.3..2.7).contains(&found[1].messages), "{found:?}");
    }

    /// Nobody is told to commit, and the participants ask each other instead.
    #[test]
    fn what_is_blocked_is_asked_about() {
        let [none, all] = [0, 1_000_000].map(|blocked| over_items(blocked, 0, 4));
        let found = run(&[none, all], 1);
        let [none, all] = &found[..] else {
            unreachable!("two were run")
        };
        assert!(all.committed > 0 && all.mean_ms < none.mean_ms, "{found:?}");
        assert_ne!(all.messages, none.messages);
    }

    #[test]
    fn a_calibration_without_the_costs_is_an_error() {
        let mut calibration = Calibration::built_in();
        calibration.experiments.clear();
        let jobs = vec![job(ProtocolName::Nwnr, Calls::OrdersAsSpecified)];
        let found = Results::run(jobs, &calibration, 1, NonZeroUsize::MIN, &mut |_| ());
        assert!(matches!(found, Err(SimulationError::Calibration(_))));
    }
}
