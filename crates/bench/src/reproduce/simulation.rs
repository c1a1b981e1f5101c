//! Simulated runs, described by values so that figures can share one, and run on all cores.
//!
//! A [`Job`] holds everything that decides a run except its seed and its costs. Jobs over the same database
//! share it: it is filled once, and each job begins with a copy. Each job is deterministic by itself, so its
//! result depends neither on the core nor on the order ([`pool`]).

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

use super::pool::{self, Event, Group};
use crate::calibrate::{Calibration, CalibrationError, ExperimentName};
use crate::experiment::BLOCKED_AFTER;
use crate::figure::{Origin, RunLine};

/// The median round trip in microseconds. With the simulator's spread of latencies, its mean is that of the
/// trace behind coordination-avoidance.txt's Figure 2a ([`super::atomic_commit::LAN`]), as a test checks.
pub(super) const MEDIAN_ROUND_TRIP_MICROS: u32 = 489;

/// How long a link keeps its latency.
const LATENCY_PERIOD: Ticks = Ticks::from_millis(1);

/// The initial database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Database {
    /// TPC-C's.
    Warehouses {
        /// Warehouses for each server.
        each: u16,
        /// Items, which is also the rows of stock for each warehouse.
        items: u32,
    },
    /// One register for each server.
    Registers,
    /// YCSB's items, of a byte each.
    Items {
        /// Items for each server.
        each: u32,
    },
}

/// The calls of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Calls {
    /// New-Orders, one in ten of them distributed, as TPC-C specifies.
    OrdersAsSpecified,
    /// New-Orders, of which this percentage is distributed.
    OrdersDistributed(u8),
    /// Writes to so many registers, one of them at the transaction's own server.
    Writes(usize),
    /// Transactions over several items (ramp.txt §5.1).
    Items {
        /// Items of a transaction.
        length: u16,
        /// Percentage that reads; the others write.
        reads_percent: u8,
        /// Whether items are drawn uniformly instead of by Zipf's law.
        uniform: bool,
    },
}

/// One simulated run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Job {
    /// The number of servers.
    pub(super) servers: u16,
    /// Cores of each server, which share its store.
    pub(super) cores: u16,
    /// The initial database.
    pub(super) database: Database,
    /// The calls of clients.
    pub(super) calls: Calls,
    /// The protocol.
    pub(super) protocol: ProtocolName,
    /// Clients for each server, each with one call in flight.
    pub(super) clients: u32,
    /// Of a million RAMP transactions over several servers, the number whose commit messages are lost. Their
    /// participants start the termination protocol after [`BLOCKED_AFTER`] (ramp.txt §5.3).
    pub(super) blocked: u32,
    /// The median round trip between two servers, and between a server and a client.
    pub(super) round_trip_micros: u32,
    /// Transactions to count, after half as many that are not.
    pub(super) transactions: u64,
    /// The most virtual milliseconds to count, after a quarter as many that are not.
    pub(super) millis_max: u64,
}

/// Customers of a district. New-Order reads one of them.
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
        Arc::new(Ycsb::with(parameters).expect("figures have valid parameters"))
    }

    /// The experiment of a calibration that has the costs of this job.
    fn experiment(&self) -> ExperimentName {
        match self.calls {
            Calls::Writes(span) => ExperimentName::Writes(span),
            Calls::Items { .. } => ExperimentName::Items,
            Calls::OrdersAsSpecified => ExperimentName::NewOrder,
            Calls::OrdersDistributed(_) => ExperimentName::NewOrderDistributed,
        }
    }

    /// The network between its servers, whose links keep their latency for a millisecond.
    pub(super) fn network(&self) -> Network {
        let millis = f64::from(self.round_trip_micros) / 1_000.0;
        let matrix = format!("sites lan\nlan {millis}\n");
        let network = Network::matrix("lan", &matrix);
        let network = network.expect("one site with its round trip is a matrix");
        network.with_latency_periods(LATENCY_PERIOD)
    }

    /// About how long the job takes, in any unit. Under locks, waiting takes as long again.
    fn effort(&self) -> u64 {
        let waits = u64::from(self.protocol == ProtocolName::Locking);
        self.transactions * (1 + waits)
    }

    fn prepared(&self) -> Result<Prepared, CaseError> {
        Prepared::from_workload(self.workload(), self.servers)
    }

    /// Runs the job over a filled database.
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
    /// The simulator refused the run, or found a wrong answer.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The calibration has no costs for the run.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
}

/// Lists a run in a report's table of runs.
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

/// The results of jobs.
#[derive(Debug, Default)]
pub(super) struct Results(BTreeMap<Job, Throughput>);

impl Results {
    /// The result of a job.
    ///
    /// # Panics
    /// When the job has not run.
    pub(super) fn of(&self, job: &Job) -> &Throughput {
        self.0.get(job).expect("a figure requests its own jobs")
    }

    /// The job with the highest throughput, and its result.
    ///
    /// # Panics
    /// When `jobs` is empty, or one has not run.
    pub(super) fn best<'j>(&self, jobs: &'j [Job]) -> (&'j Job, &Throughput) {
        let all = jobs.iter().map(|job| (job, self.of(job)));
        let best = all.max_by(|(_, a), (_, b)| a.per_second.total_cmp(&b.per_second));
        best.expect("a figure has at least one job")
    }

    /// Runs each job once on so many threads, the longest first, and reports to `progress`. The results do not
    /// depend on the number of threads.
    ///
    /// # Errors
    /// The error of a job.
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
            |event| {
                let (what, servers) = match event {
                    Event::Preparing(first) => (", filling", first.servers),
                    Event::Done(job, found) => {
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

/// Groups jobs by their database; the first job of a group stands for it. The longest come first, so that no
/// thread is left alone with them in the end.
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
                data: jobs[0].clone(),
                jobs,
            }
        })
        .collect();
    groups.sort_by_key(|group| Reverse(group.data.effort()));
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

    /// The seed decides the run, alone or beside others, on any core.
    #[test]
    fn a_job_has_the_same_result_beside_any_others() {
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
    fn jobs_run_as_described() {
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

    /// The network is no slower under load: only servers saturate.
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
    fn items_are_drawn_and_written_as_described() {
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
        // The other item is on another server two times of three: a request and a reply, or two of each.
        assert!((1.3..2.7).contains(&found[1].messages), "{found:?}");
    }

    /// Commit messages are lost, and the participants run the termination protocol instead.
    #[test]
    fn blocked_writes_are_terminated() {
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
