//! Measures the cost of TPC-C's calls at the nodes, without threads, queues or network: one thread drives RAMP nodes
//! by the calls of one seed, with a batch of open calls at each node. The same arguments make the same run,
//! instruction for instruction.
//!
//! `cargo run --release -p anabranch-workload --example node_new_order -- [CALLS] [WAREHOUSES] [MIX] [NODES]
//! [REMOTE]`
//!
//! Defaults: 100000 calls, one warehouse, the mix `new-order` (or `payment`, `full`), one node, and the
//! specification's share of distributed orders; REMOTE is the percentage of orders with a line from another node.
//!
//! Processor time varies with the load of the machine; the number of instructions does not:
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='*run_calls*' target/release/examples/node_new_order 3000
//! ```
//!
//! counts the measured calls only; divide by their number. `--cache-sim=yes` adds the cache misses, which the random
//! rows of a warehouse make about as costly.

mod driver;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anabranch_engine::load::{Loader, RowError};
use anabranch_engine::{Call, CallId, Node, NodeOptions, PlannedApplication, Work};
use anabranch_protocol::Topology;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{NodeId, PartitionId, TableId, Value};
use anabranch_workload::tpcc::load::{Sink, Table, items, warehouse};
use anabranch_workload::tpcc::{CallGenerator, Distribution, FILES, Mix, Scale, TransactionType};

use self::driver::{Driver, planned, run_calls, seconds};

/// Offers generated rows to a loader, each column at its place in the schema.
struct Filling {
    loader: Loader,
    /// By [`Table`]: its number, and the place of each generated column.
    tables: Vec<(TableId, Vec<usize>)>,
    values: Vec<Value>,
}

impl Filling {
    fn new(planned: &Arc<PlannedApplication>, partition: PartitionId) -> Filling {
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
            loader: Loader::new(Arc::clone(planned), partition, settings),
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

fn fill(planned: &Arc<PlannedApplication>, scale: &Scale, partition: PartitionId) -> Store {
    let mut filling = Filling::new(planned, partition);
    items(scale, 1, &mut filling).expect("items load");
    for number in 1..=scale.warehouses {
        warehouse(scale, 1, number, &mut filling).expect("a warehouse loads");
    }
    filling.loader.into_store()
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
    let mut number = |otherwise| {
        let word = words.next();
        word.map_or(otherwise, |word| word.parse().expect("a number"))
    };
    let nodes = number(1u16);
    let distribution = words.next().map_or(Distribution::Specified, |word| {
        Distribution::Percent(word.parse().expect("a percentage"))
    });
    let scale = Scale::specified(warehouses);
    let planned = planned(&FILES, nodes);
    let start = Instant::now();
    let topology = Arc::new(Topology::one_each(nodes));
    let node = |number: u16| {
        let begin = seconds(&start);
        let store = fill(&planned, &scale, PartitionId(number));
        println!(
            "loaded node {number} in {:.2} s: {} MB",
            seconds(&start) - begin,
            store.memory() >> 20
        );
        let protocol = RampNode::new(
            NodeId(number),
            Arc::clone(&topology),
            store,
            planned.application.programs(),
            RampOptions::default(),
        );
        let (id, home) = (NodeId(number), PartitionId(number));
        Node::new(
            id,
            home,
            Arc::clone(&planned),
            protocol,
            NodeOptions::default(),
        )
    };
    let mut driver = Driver::new((0..nodes).map(node).collect());
    let places = TransactionType::ALL.map(|transaction| {
        let procedures = &planned.application.procedures;
        let name = transaction.procedure();
        let place = procedures.iter().position(|p| p.name() == name);
        place.expect("TPC-C has its procedures")
    });
    let homes = (1..=scale.warehouses).map(|warehouse| {
        let arguments = [Value::Int(i64::from(warehouse)), Value::Int(1)];
        let home =
            planned
                .execution
                .home(places[TransactionType::Delivery as usize], &arguments, 0);
        home.map_or(0, |home| home.0)
    });
    let homes: Vec<u16> = homes.collect();
    let mut generator = CallGenerator::new(scale, mix, distribution, homes.clone(), 1);
    let mut draw = |count: u32| -> VecDeque<(usize, Call)> {
        let call = |id| {
            let drawn = generator.next_call();
            let home = homes[drawn.warehouse as usize - 1];
            let work = Work::Procedure(places[drawn.transaction as usize]);
            let call = Call::new(CallId(u64::from(id)), work, drawn.arguments);
            (usize::from(home), call)
        };
        (0..count).map(call).collect()
    };
    // Buffers grow to their size, and the first old versions come of age.
    let first = draw(count / 10);
    run_calls(&mut driver, first);
    (driver.committed, driver.rolled_back, driver.messages) = (0, 0, 0);
    let calls = draw(count);
    let begin = seconds(&start);
    run_calls(&mut driver, calls);
    let micros = (seconds(&start) - begin) * 1e6;
    let memory = |node: &Node<RampNode>| node.protocol().store().memory() >> 20;
    println!(
        "{count} calls: {:.2} us and {:.2} messages each; {} committed, {} rolled back; {} MB in the end",
        micros / f64::from(count),
        driver.messages as f64 / f64::from(count),
        driver.committed,
        driver.rolled_back,
        driver.nodes.iter().map(memory).sum::<usize>()
    );
}
