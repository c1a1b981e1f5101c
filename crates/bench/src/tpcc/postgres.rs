//! TPC-C on PostgreSQL, from the same files, rows and calls.
//!
//! Schema and procedures load unchanged. PostgreSQL has no assertions: files with assertions are skipped, and
//! their conditions are evaluated as queries after the run. The rows come from the generator that fills our own
//! stores. [`CONNECTIONS`] connections, each with its own thread, call prepared statements with binary parameters,
//! so that neither parsing nor conversion is measured.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anabranch_engine::PlannedApplication;
use anabranch_sql::catalog::Catalog;
use anabranch_types::Value;
use anabranch_workload::tpcc::load::{self, Sink, Table};
use anabranch_workload::tpcc::{CallGenerator, Invocation, Scale, TransactionType};
use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, Statement};

use super::experiment::Experiment;
use super::fill::homes;
use crate::fill::FillError;
use crate::measure::Measurement;
use crate::outcome::{Latency, Run};
use crate::postgres::copy::{Copier, CopyError};
use crate::postgres::value::Parameter;
use anabranch_dbms::postgres::explain;
use anabranch_dbms::postgres::{Server, ServerError, Settings};

/// The number of connections, which make calls concurrently.
pub const CONNECTIONS: usize = 8;

/// The SQLSTATE by which New-Order rolls back an order for an unused item (2.4.2.3).
const ROLLBACK: &str = "TPCC1";

/// Why a run on PostgreSQL failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The schema is not TPC-C's.
    Schema(FillError),
    /// The server could not be started or reached.
    Server(ServerError),
    /// The database was not filled.
    Copy(CopyError),
    /// PostgreSQL refused a file.
    File {
        /// Its name.
        name: String,
        /// PostgreSQL's error.
        error: postgres::Error,
    },
    /// A statement failed in a way that the workload does not permit.
    Statement {
        /// The procedure, condition or command.
        name: String,
        /// PostgreSQL's error.
        error: postgres::Error,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Schema(error) => write!(f, "{error}"),
            RunError::Server(error) => write!(f, "error: {error}"),
            RunError::Copy(error) => write!(f, "error: {error}"),
            RunError::File { name, error } => {
                write!(
                    f,
                    "error: PostgreSQL does not load {name}: {}",
                    explain(error)
                )
            }
            RunError::Statement { name, error } => {
                write!(f, "error: {name} failed on PostgreSQL: {}", explain(error))
            }
        }
    }
}

impl std::error::Error for RunError {}

impl From<ServerError> for RunError {
    fn from(error: ServerError) -> RunError {
        RunError::Server(error)
    }
}

impl From<CopyError> for RunError {
    fn from(error: CopyError) -> RunError {
        RunError::Copy(error)
    }
}

fn failed(name: impl Into<String>) -> impl FnOnce(postgres::Error) -> RunError {
    move |error| RunError::Statement {
        name: name.into(),
        error,
    }
}

/// Starts a server, loads the application, measures, and checks the conditions.
///
/// The plan's placement of warehouses decides which orders are distributed, and nothing else. The experiment's
/// clients and delay have no effect: there is one server with [`CONNECTIONS`] connections.
///
/// # Errors
/// When PostgreSQL is not installed, or the application does not run on it.
pub fn run(
    planned: &PlannedApplication,
    experiment: &Experiment,
    progress: &mut dyn FnMut(&str),
) -> Result<Run, RunError> {
    let catalog = planned.application.catalog();
    let homes = homes(planned, &experiment.tpcc.scale).map_err(RunError::Schema)?;
    progress("starting PostgreSQL");
    let server = Server::start(settings(&experiment.tpcc.scale))?;
    let mut client = server.connect()?;
    declare(&mut client, catalog)?;
    progress("loading PostgreSQL");
    fill(
        &mut client,
        &experiment.tpcc.scale,
        experiment.settings.seed,
    )?;
    progress("measuring PostgreSQL");
    let measurement = measure(&server, experiment, &homes)?;
    progress("checking the conditions on PostgreSQL");
    let conditions = check(&mut client, catalog)?;
    let seconds = measurement.elapsed().as_secs_f64();
    let (mean, p50, p99) = measurement.latency_ms();
    let new_orders = measurement.committed_of(TransactionType::NewOrder.procedure());
    Ok(Run {
        protocol: "postgres".to_owned(),
        transactions_per_s: measurement.committed() as f64 / seconds,
        new_orders_per_s: Some(new_orders as f64 / seconds),
        operations_per_s: None,
        latency_ms: Latency { mean, p50, p99 },
        aborts: measurement.aborts().clone(),
        messages_per_transaction: None,
        blocked_ms_per_transaction: None,
        second_rounds_per_transaction: None,
        false_positives_per_transaction: None,
        seconds,
        transactions: measurement.committed(),
        conditions,
        code_path: None,
    })
}

/// Enough shared buffers for the whole database and the rows that a run adds, so that nothing is read from disk, as
/// in our own stores.
fn settings(scale: &Scale) -> Settings {
    let bytes = u64::from(scale.warehouses).saturating_mul(scale.warehouse_bytes());
    let mebibytes = 256 + (bytes >> 20);
    Settings {
        shared_buffers_mib: u32::try_from(mebibytes).unwrap_or(u32::MAX).min(4_096),
        ..Settings::default()
    }
}

/// Loads every file of the application without assertions.
///
/// # Errors
/// When PostgreSQL refuses one.
pub fn declare(client: &mut Client, catalog: &Catalog) -> Result<(), RunError> {
    for (number, file) in catalog.files.iter().enumerate() {
        let asserts = |span: anabranch_sql::source::Span| usize::from(span.file) == number;
        if catalog
            .assertions
            .iter()
            .any(|assertion| asserts(assertion.span))
        {
            continue;
        }
        client
            .batch_execute(&file.text)
            .map_err(|error| RunError::File {
                name: file.name.clone(),
                error,
            })?;
    }
    Ok(())
}

/// Fills the tables with the rows that our own stores are filled with.
///
/// # Errors
/// When PostgreSQL refuses them.
pub fn fill(client: &mut Client, scale: &Scale, seed: u64) -> Result<(), RunError> {
    let mut sink = CopySink(Copier::new(client)?);
    load::items(scale, seed, &mut sink)?;
    for warehouse in 1..=scale.warehouses {
        load::warehouse(scale, seed, warehouse, &mut sink)?;
    }
    sink.0.finish()?;
    client
        .batch_execute("VACUUM ANALYZE")
        .map_err(failed("VACUUM ANALYZE"))
}

struct CopySink<'c>(Copier<'c>);

impl Sink for CopySink<'_> {
    type Error = CopyError;

    fn row(&mut self, table: Table, values: &[Value]) -> Result<(), CopyError> {
        self.0.row(table.name(), table.columns(), values)
    }
}

/// The statement that calls a transaction's procedure.
pub fn call_text(transaction: TransactionType) -> String {
    let parameters = match transaction {
        TransactionType::NewOrder => 7,
        TransactionType::Payment => 8,
        TransactionType::OrderStatus => 4,
        TransactionType::Delivery | TransactionType::StockLevel => 3,
    };
    let places: Vec<String> = (1..=parameters).map(|place| format!("${place}")).collect();
    format!(
        "SELECT * FROM {}({})",
        transaction.procedure(),
        places.join(", ")
    )
}

fn measure(
    server: &Server,
    experiment: &Experiment,
    homes: &[u16],
) -> Result<Measurement, RunError> {
    let mut drivers = (0..CONNECTIONS)
        .map(|number| Driver::new(server.connect()?, experiment, homes, number as u64))
        .collect::<Result<Vec<Driver>, RunError>>()?;
    let barrier = Barrier::new(CONNECTIONS);
    std::thread::scope(|scope| -> Result<(), RunError> {
        let threads: Vec<_> = drivers
            .iter_mut()
            .map(|driver| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    driver.run_for(experiment.settings.warmup)?;
                    driver.measurement = Measurement::default();
                    let elapsed = driver.run_for(experiment.settings.duration)?;
                    driver.measurement.measured_for(elapsed);
                    Ok::<(), RunError>(())
                })
            })
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })?;
    let mut sum = Measurement::default();
    drivers
        .iter()
        .for_each(|driver| sum.add(&driver.measurement));
    Ok(sum)
}

/// One connection in a closed loop.
struct Driver {
    client: Client,
    statements: Vec<Statement>,
    calls: CallGenerator,
    measurement: Measurement,
}

impl Driver {
    fn new(
        mut client: Client,
        experiment: &Experiment,
        homes: &[u16],
        number: u64,
    ) -> Result<Driver, RunError> {
        let statements = TransactionType::ALL
            .into_iter()
            .map(|transaction| client.prepare(&call_text(transaction)))
            .collect::<Result<_, _>>()
            .map_err(failed("preparing the procedures"))?;
        let seed = experiment.settings.seed ^ 0x5eed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let calls = CallGenerator::new(
            experiment.tpcc.scale,
            experiment.tpcc.mix,
            experiment.tpcc.distribution,
            homes.to_vec(),
            seed,
        );
        Ok(Driver {
            client,
            statements,
            calls,
            measurement: Measurement::default(),
        })
    }

    fn run_for(&mut self, duration: Duration) -> Result<Duration, RunError> {
        let start = Instant::now();
        while start.elapsed() < duration {
            let call = self.calls.next_call();
            self.call(&call)?;
        }
        Ok(start.elapsed())
    }

    /// Makes a call, and retries until it commits or rolls back as specified.
    fn call(&mut self, call: &Invocation) -> Result<(), RunError> {
        let procedure = call.transaction.procedure();
        let parameters: Vec<Parameter<'_>> = call.arguments.iter().map(Parameter).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters
            .iter()
            .map(|parameter| parameter as &(dyn ToSql + Sync))
            .collect();
        let started = Instant::now();
        loop {
            let answer = self
                .client
                .query(&self.statements[call.transaction as usize], &parameters);
            let error = match answer {
                Ok(_) => {
                    self.measurement.commit(procedure, started.elapsed());
                    return Ok(());
                }
                Err(error) => error,
            };
            match error.code() {
                Some(code) if is_rollback(call.transaction, code) => {
                    self.measurement.abort("rollback", 1);
                    return Ok(());
                }
                Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE) => {
                    self.measurement.abort("conflict", 1);
                }
                _ => return Err(failed(procedure)(error)),
            }
        }
    }
}

fn is_rollback(transaction: TransactionType, code: &SqlState) -> bool {
    transaction == TransactionType::NewOrder && code.code() == ROLLBACK
}

/// Evaluates every assertion of the application; names are those of [`crate::conditions::check`].
///
/// # Errors
/// When PostgreSQL cannot evaluate one.
pub fn check(client: &mut Client, catalog: &Catalog) -> Result<BTreeMap<String, bool>, RunError> {
    let mut conditions = BTreeMap::new();
    for assertion in &catalog.assertions {
        let name = assertion.name.as_str();
        let query = format!("SELECT ({}) IS NOT FALSE", assertion.expression);
        let row = client.query_one(&query, &[]).map_err(failed(name))?;
        let short = name.rsplit_once('_').map_or(name, |(_, number)| number);
        conditions.insert(short.to_owned(), row.get(0));
    }
    Ok(conditions)
}
