//! What TPC-C's calls cost one node, without threads, queues or network: one RAMP node with all
//! warehouses, driven in one thread by the calls of one seed. The same arguments make the same run,
//! instruction for instruction.
//!
//! `cargo run --release -p anabranch-workload --example node_new_order -- [CALLS] [WAREHOUSES] [MIX]`
//! with 100000 calls, one warehouse and the mix `new-order` unless told otherwise; `payment` and
//! `full` are the others.
//!
//! Processor time is disturbed by whatever else the machine does. Instructions are not:
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='*run_calls*' target/release/examples/node_new_order 3000
//! ```
//!
//! collects what happens in the measured calls alone; divide by their number. `--cache-sim=yes`
//! adds the misses, which the random rows of a warehouse make about as costly.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anabranch_analysis::{Guarantee, Topology as Placed, analyze};
use anabranch_engine::load::{Loader, RowError};
use anabranch_engine::{
    Call, CallError, CallId, Node, NodeInput, NodeOptions, NodeOutbox, PlannedApplication, Work,
};
use anabranch_protocol::Topology;
use anabranch_protocol::ramp::message::Stamped;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_sql::application::Application;
use anabranch_sql::catalog::load;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{NodeId, PartitionId, TableId, Ticks, Value};
use anabranch_workload::tpcc::load::{Sink, Table, items, warehouse};
use anabranch_workload::tpcc::{CallGenerator, Distribution, FILES, Mix, Scale, TransactionType};

/// Virtual time between two calls: what a call takes, about.
const STEP: Ticks = Ticks(20_000);

fn planned() -> Arc<PlannedApplication> {
    let files = FILES.map(|(name, text)| SourceFile::new(name, text));
    let catalog = load(files.to_vec()).expect("TPC-C loads");
    let application = Application::compile(catalog).expect("TPC-C compiles");
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Placed::Partitioned,
        Guarantee::Invariants,
    );
    PlannedApplication::new(application, plan, 1)
}

/// Offers generated rows to a loader, each column at its place in the schema.
struct Filling {
    loader: Loader,
    /// By [`Table`]: its number, and the place of each generated column.
    tables: Vec<(TableId, Vec<usize>)>,
    values: Vec<Value>,
}

impl Filling {
    fn new(planned: &Arc<PlannedApplication>) -> Filling {
        let place = |table: &Table| {
            let tables = &planned.schema().tables;
            let found = tables.iter().find(|found| found.name == table.name());
            let found = found.expect("the schema has TPC-C's tables");
            let place = |name: &&str| found.columns.iter().position(|c| c.name == *name);
            let places = table.columns().iter().map(place);
            let places: Option<Vec<usize>> = places.collect();
            (found.id, places.expect("and their columns"))
        };
        let settings = StoreSettings::default();
        Filling {
            loader: Loader::new(Arc::clone(planned), PartitionId(0), settings),
            tables: Table::ALL.iter().map(place).collect(),
            values: Vec::new(),
        }
    }
}

impl Sink for Filling {
    type Error = RowError;

    fn row(&mut self, table: Table, values: &[Value]) -> Result<(), RowError> {
        let (id, places) = &self.tables[table as usize];
        let wide = places.iter().max().map_or(0, |last| last + 1);
        self.values.clear();
        self.values.resize(wide, Value::Null);
        for (place, value) in places.iter().zip(values) {
            self.values[*place] = value.clone();
        }
        self.loader.row(*id, &self.values).map(|_| ())
    }
}

fn fill(planned: &Arc<PlannedApplication>, scale: &Scale) -> Store {
    let mut filling = Filling::new(planned);
    items(scale, 1, &mut filling).expect("items load");
    for number in 1..=scale.warehouses {
        warehouse(scale, 1, number, &mut filling).expect("a warehouse loads");
    }
    filling.loader.into_store()
}

/// A node, and what goes in and comes out of it.
struct Driver {
    node: Node<RampNode>,
    out: NodeOutbox<Stamped>,
    now: Ticks,
    committed: u64,
    rolled_back: u64,
}

impl Driver {
    fn make(&mut self, call: Call) {
        self.now = Ticks(self.now.0 + STEP.0);
        self.node
            .step(self.now, NodeInput::Call(call), &mut self.out);
        while self.node.next_alarm().is_some_and(|at| at <= self.now) {
            self.node.step(self.now, NodeInput::Tick, &mut self.out);
        }
        assert!(
            self.out.messages.is_empty(),
            "a single node talks to nobody"
        );
        for outcome in self.out.outcomes.drain(..) {
            match outcome.result {
                Ok(rows) => {
                    std::hint::black_box(rows);
                    self.committed += 1;
                }
                // New-Order's unused item (2.4.1.5), Payment's name that nobody bears.
                Err(CallError::Failed(_)) => self.rolled_back += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// What is measured: kept in one piece, so that tools find it by its name.
#[inline(never)]
fn run_calls(driver: &mut Driver, calls: VecDeque<Call>) {
    for call in calls {
        driver.make(call);
    }
}

/// Processor seconds where the system tells them, else elapsed ones.
fn seconds(since: &Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = told.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanos.map_or_else(|| since.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |otherwise| {
        let word = words.next();
        word.map_or(otherwise, |word| word.parse().expect("a number"))
    };
    let (count, warehouses) = (number(100_000), number(1));
    let mix = match words.next().as_deref() {
        None | Some("new-order") => Mix::NEW_ORDER,
        Some("payment") => Mix([0, 100, 0, 0, 0]),
        Some("full") => Mix::FULL,
        Some(other) => panic!("no mix is called {other}"),
    };
    let scale = Scale::specified(warehouses);
    let planned = planned();
    let start = Instant::now();
    let begin = seconds(&start);
    let store = fill(&planned, &scale);
    println!(
        "loaded {warehouses} warehouses in {:.2} s: {} MB",
        seconds(&start) - begin,
        store.memory() >> 20
    );
    let protocol = RampNode::new(
        NodeId(0),
        Arc::new(Topology::one_each(1)),
        store,
        planned.application.programs(),
        RampOptions::default(),
    );
    let options = NodeOptions::default();
    let node = Node::new(
        NodeId(0),
        PartitionId(0),
        Arc::clone(&planned),
        protocol,
        options,
    );
    let mut driver = Driver {
        node,
        out: NodeOutbox::default(),
        now: Ticks(0),
        committed: 0,
        rolled_back: 0,
    };
    let places = TransactionType::ALL.map(|transaction| {
        let procedures = &planned.application.procedures;
        let name = transaction.procedure();
        let place = procedures.iter().position(|p| p.name() == name);
        place.expect("TPC-C has its procedures")
    });
    let mut generator = CallGenerator::new(scale, mix, Distribution::Specified, 1, 1);
    let mut draw = |count: u32| -> VecDeque<Call> {
        let call = |id| {
            let drawn = generator.next_call();
            Call {
                id: CallId(u64::from(id)),
                work: Work::Procedure(places[drawn.transaction as usize]),
                arguments: drawn.arguments,
            }
        };
        (0..count).map(call).collect()
    };
    // Buffers grow to their size, and the first old versions come of age.
    for call in draw(count / 10) {
        driver.make(call);
    }
    driver.committed = 0;
    driver.rolled_back = 0;
    let calls = draw(count);
    let begin = seconds(&start);
    run_calls(&mut driver, calls);
    let micros = (seconds(&start) - begin) * 1e6;
    println!(
        "{count} calls: {:.2} us each; {} committed, {} rolled back; {} MB in the end",
        micros / f64::from(count),
        driver.committed,
        driver.rolled_back,
        driver.node.protocol().store().memory() >> 20
    );
}
