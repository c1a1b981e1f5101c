//! Measures the costs on a PostgreSQL server of its own.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::partition::Writes;
use anabranch_dbms::belt::Database;
use anabranch_dbms::postgres::install::Part;
use anabranch_dbms::postgres::ring::{self, PostgresDatabase};
use anabranch_dbms::postgres::{Server, Settings};
use anabranch_protocol::belt::Hop;
use anabranch_sql::expression::text::literal;
use anabranch_types::Value;
use anabranch_workload::mix::SLOTS;
use anabranch_workload::{ClientPlacement, Workload};
use postgres::Client;

use super::super::databases::{self, DatabaseError, call_text, replicated};
use super::super::traffic::{self, Application};
use super::{Costs, OperationCosts};

/// Calls of each operation that are measured.
const CALLS: usize = 40;

/// Calls of the benchmark's mix before anything is measured: they fill carts, caches and plans.
const WARM: usize = 1_500;

/// Processor time of a process in nanoseconds, as Linux counts it.
fn processor_time(process: i32) -> Result<u64, DatabaseError> {
    let file = format!("/proc/{process}/schedstat");
    let text = std::fs::read_to_string(&file).map_err(|error| {
        DatabaseError::Other(format!(
            "error: the processor time of a PostgreSQL process is read from {file}: {error}"
        ))
    })?;
    let first = text.split_whitespace().next();
    let parsed = first.and_then(|number| number.parse().ok());
    parsed.ok_or_else(|| DatabaseError::Other(format!("error: {file} has no number: {text}")))
}

/// A connection whose process's time is read.
struct Meter {
    client: Client,
    process: i32,
}

impl Meter {
    fn new(server: &Server, database: &str) -> Result<Meter, DatabaseError> {
        let mut client = server.connect_to(database)?;
        let process = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        Ok(Meter { client, process })
    }

    /// The mean time of some actions.
    fn mean(
        &mut self,
        times: usize,
        mut action: impl FnMut(&mut Client, usize) -> Result<(), DatabaseError>,
    ) -> Result<u64, DatabaseError> {
        let before = processor_time(self.process)?;
        for number in 0..times {
            action(&mut self.client, number)?;
        }
        Ok((processor_time(self.process)? - before) / times.max(1) as u64)
    }
}

/// The calls of each operation: so many of each, and before them those of the mix.
fn calls(
    workload: &dyn Workload,
    application: Application,
) -> Result<(Vec<String>, Vec<Vec<String>>), DatabaseError> {
    let place = ClientPlacement {
        client: 0,
        node: 0,
        nodes: 1,
    };
    let planned = databases::planned(application)?;
    let mut caller = workload.caller(1, place, &planned);
    let files = workload.files();
    let mut warm = Vec::new();
    let mut of: Vec<Vec<String>> = vec![Vec::new(); workload.procedures().len()];
    while of.iter().any(|calls| calls.len() < CALLS) {
        let operation = caller.next();
        let name = workload.procedures()[operation.procedure];
        let text = call_text(files, name, &operation.arguments);
        if warm.len() < WARM {
            warm.push(text);
        } else if of[operation.procedure].len() < CALLS {
            of[operation.procedure].push(text);
        }
    }
    Ok((warm, of))
}

fn serializable(call: &str) -> String {
    format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {call}; COMMIT")
}

/// Measures all costs on a PostgreSQL server of its own, and reports to `progress`.
///
/// # Errors
/// When PostgreSQL is not installed, or refuses something.
fn measure(progress: &mut dyn FnMut(&str)) -> Result<Costs, DatabaseError> {
    let server = Server::start(Settings {
        prepared_max: 10,
        ..Settings::default()
    })?;
    let mut costs = Costs {
        measured: String::new(),
        operations: BTreeMap::new(),
        statement: 0,
        prepare: 0,
        commit_prepared: 0,
        receive: 0,
        pass: 0,
        middleware: MIDDLEWARE,
        fixed: 0,
        fixed_capture: 0,
        fixed_apply: 0,
    };
    costs.measured = format!(
        "{} with its default settings, synchronous_commit = off, on {}",
        server.version(),
        processor()
    );
    for application in Application::ALL {
        progress(&format!(
            "measuring the operations of {}",
            application.name()
        ));
        measure_application(&server, application, &mut costs)?;
    }
    progress("measuring prepared transactions");
    measure_statements(&server, &mut costs)?;
    measure_fixed(&server, &mut costs)?;
    Ok(costs)
}

/// What the middleware's own processor time adds to an operation: a hop more took 14 to 18 microseconds.
const MIDDLEWARE: u64 = 17_000;

/// Two databases with the belt, as servers 0 and 1 of a ring, equal.
fn belted(
    server: &Server,
    names: [&str; 2],
    whole: &BTreeMap<String, bool>,
    mut fill: impl FnMut(&mut Client) -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    for (place, name) in (0..).zip(names) {
        databases::create(server, name)?;
        let mut client = server.connect_to(name)?;
        fill(&mut client)?;
        let part = Part::of_database(
            &mut client,
            ("costs", name),
            (place, 2),
            SLOTS as u16,
            |table| whole.get(table).copied(),
        )?;
        client.batch_execute(&format!("BEGIN;\n{}\nCOMMIT; ANALYZE", part.script()))?;
    }
    Ok(())
}

/// A ring of two servers that one thread drives.
struct Two {
    databases: [PostgresDatabase; 2],
    processes: [i32; 2],
    hop: u64,
}

impl Two {
    fn new(server: &Server, names: [&str; 2]) -> Result<Two, DatabaseError> {
        let mut of = Vec::new();
        for name in names {
            let meter = Meter::new(server, name)?;
            let database = PostgresDatabase::new(meter.client)
                .map_err(|trouble| DatabaseError::Other(format!("error: {trouble}")))?;
            of.push((database, meter.process));
        }
        let (Some((second, two)), Some((first, one))) = (of.pop(), of.pop()) else {
            unreachable!("there are two")
        };
        Ok(Two {
            databases: [first, second],
            processes: [one, two],
            hop: 1,
        })
    }

    /// Passes the token to the second server and back. The times of passing, receiving there, and receiving here.
    fn lap(&mut self) -> Result<[u64; 3], DatabaseError> {
        let other = |what: &dyn std::fmt::Display| DatabaseError::Other(format!("error: {what}"));
        let mut times = [0; 3];
        for (place, next) in [(0, 1), (1, 0)] {
            let before = processor_time(self.processes[place])?;
            let passed = self.databases[place].pass(Hop(self.hop), &BTreeSet::new());
            let token = passed
                .map_err(|trouble| other(&trouble))?
                .map_err(|refused| other(&refused))?;
            if place == 0 {
                times[0] = processor_time(self.processes[place])? - before;
            }
            let before = processor_time(self.processes[next])?;
            let received = self.databases[next].receive(&token);
            received
                .map_err(|trouble| other(&trouble))?
                .map_err(|refused| other(&refused))?;
            times[1 + place] = processor_time(self.processes[next])? - before;
            self.hop += 1;
        }
        Ok(times)
    }
}

fn global(hop: u64, call: &str) -> String {
    format!("{}; {call}; {}; COMMIT", ring::begin(Hop(hop)), ring::END)
}

fn measure_application(
    server: &Server,
    application: Application,
    costs: &mut Costs,
) -> Result<(), DatabaseError> {
    let workload = application.workload();
    let short = match application {
        Application::Tpcw => "tpcw",
        Application::Rubis => "rubis",
    };
    let plan = traffic::plan(
        application,
        &application.benchmark_mix(),
        Writes::Partitioned,
    )
    .map_err(|error| DatabaseError::Other(error.to_string()))?;
    let whole = replicated(&*workload, &plan)?;
    let fill = |client: &mut Client| databases::fill(client, &*workload);
    let names = [format!("{short}0"), format!("{short}1")];
    belted(server, [&names[0], &names[1]], &whole, fill)?;
    databases::create(server, short)?;
    databases::fill(&mut server.connect_to(short)?, &*workload)?;
    server.connect_to(short)?.batch_execute("ANALYZE")?;

    let (warm, calls) = calls(&*workload, application)?;
    let mut plain = Meter::new(server, short)?;
    for call in &warm {
        plain.client.batch_execute(&serializable(call))?;
    }
    let mut two = Two::new(server, [&names[0], &names[1]])?;
    let mut held = Meter::new(server, &names[0])?;
    held.client.batch_execute(ring::PREPARE)?;
    let is_write = |name: &str| {
        let entry = plan.entries.iter().find(|entry| entry.name == name);
        entry.is_some_and(|entry| !entry.read_only)
    };
    // Operations that write are warmed in holds, so that both servers stay equal.
    for chunk in warm.chunks(200) {
        for call in chunk {
            held.client.batch_execute(&global(two.hop, call))?;
        }
        two.lap()?;
    }
    let laps = 20;
    let (mut pass, mut receive) = (0, 0);
    for _ in 0..laps {
        let [passed, received, _] = two.lap()?;
        pass += passed;
        receive += received;
    }
    costs.pass = pass / laps;
    costs.receive = receive / laps;
    for (name, calls) in workload.procedures().iter().zip(&calls) {
        let mut of = OperationCosts {
            plain: plain.mean(calls.len(), |client, number| {
                Ok(client.batch_execute(&serializable(&calls[number]))?)
            })?,
            ..OperationCosts::default()
        };
        if is_write(name) {
            let hop = two.hop;
            of.global = held.mean(calls.len(), |client, number| {
                Ok(client.batch_execute(&global(hop, &calls[number]))?)
            })?;
            let rows = held.client.query_one(
                "SELECT coalesce(sum(cardinality(relations)), 0)::bigint FROM anabranch.outbox WHERE hop = $1",
                &[&(hop as i64)],
            )?;
            of.rows = (rows.get::<_, i64>(0) as u64).div_ceil(calls.len() as u64) as u16;
            let [_, received, _] = two.lap()?;
            of.apply = received.saturating_sub(costs.receive) / calls.len() as u64;
            // A second lap takes the updates out of the token again.
            two.lap()?;
        }
        costs.operations.insert((*name).to_owned(), of);
    }
    Ok(())
}

fn measure_statements(server: &Server, costs: &mut Costs) -> Result<(), DatabaseError> {
    let mut meter = Meter::new(server, "tpcw")?;
    let item = |number: usize| number % 1_000 + 1;
    let update = |number: usize| {
        format!(
            "UPDATE item SET i_stock = i_stock WHERE i_id = {}",
            item(number)
        )
    };
    let times = 400;
    costs.statement = meter.mean(times, |client, number| {
        Ok(client.batch_execute(&update(number))?)
    })?;
    let (mut prepare, mut commit) = (0, 0);
    for number in 0..times {
        meter
            .client
            .batch_execute(&format!("BEGIN; {}", update(number)))?;
        prepare += meter.mean(1, |client, _| {
            Ok(client.batch_execute("PREPARE TRANSACTION 'measured'")?)
        })?;
        commit += meter.mean(1, |client, _| {
            Ok(client.batch_execute("COMMIT PREPARED 'measured'")?)
        })?;
    }
    costs.prepare = prepare / times as u64;
    costs.commit_prepared = commit / times as u64;
    Ok(())
}

fn measure_fixed(server: &Server, costs: &mut Costs) -> Result<(), DatabaseError> {
    let fill = |client: &mut Client| -> Result<(), DatabaseError> {
        client.batch_execute(databases::FIXED)?;
        client.batch_execute(databases::FIXED_ROWS)?;
        Ok(())
    };
    let whole = BTreeMap::from([("shared".to_owned(), true)]);
    belted(server, ["fixed0", "fixed1"], &whole, fill)?;
    let mut two = Two::new(server, ["fixed0", "fixed1"])?;
    let mut held = Meter::new(server, "fixed0")?;
    held.client.batch_execute(ring::PREPARE)?;
    let local = |number: usize| format!("CALL run_local({})", literal(&key(number)));
    let shared = |number: usize| format!("CALL run_global({})", literal(&key(number)));
    let times = 200;
    let mut plain = Meter::new(server, "fixed0")?;
    plain.client.batch_execute(ring::LOCAL)?;
    costs.fixed = plain.mean(times, |client, number| {
        Ok(client.batch_execute(&local(number))?)
    })?;
    let global = held.mean(times, |client, number| {
        Ok(client.batch_execute(&global(1, &shared(number)))?)
    })?;
    costs.fixed_capture = global.saturating_sub(costs.fixed);
    let [_, received, _] = two.lap()?;
    costs.fixed_apply = received.saturating_sub(costs.receive) / times as u64;
    Ok(())
}

fn key(number: usize) -> Value {
    Value::Int(number as i64 % 1_000)
}

/// The processor of this machine, as Linux names it.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or("an unknown processor", |(_, name)| name.trim())
        .to_owned()
}

#[test]
#[ignore = "measures this machine for a minute, and prints belt-costs.json"]
fn prints_costs() {
    let costs = measure(&mut |what| eprintln!("{what}"));
    let costs = costs.unwrap_or_else(|error| panic!("{error}"));
    let text = serde_json::to_string_pretty(&costs).expect("it is JSON");
    println!("{text}");
}
