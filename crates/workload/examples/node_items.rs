//! Measures the cost of a transaction over four of a million items (ramp.txt §5.1) at the nodes, without threads,
//! queues or network: one thread drives the nodes by the calls of one seed, as in `node_new_order`.
//!
//! `cargo run --release -p anabranch-workload --example node_items -- [CALLS] [PROTOCOL] [NODES] [ITEMS] [READS]`
//!
//! Defaults: 100000 calls, `ramp-fast` (or `ramp-small`, `ramp-hybrid`, `nwnr`), two nodes, a million items, 95
//! percent read calls.
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='*run_calls*' target/release/examples/node_items 20000
//! ```

mod driver;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anabranch_engine::load::Loader;
use anabranch_engine::{Call, CallId, Node, NodeOptions, PlannedApplication, Work};
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{Durable, Topology};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{NodeId, PartitionId, Value};
use anabranch_workload::ycsb::{Form, Parameters, Ycsb};
use anabranch_workload::{Caller, ClientPlacement, Workload};

use self::driver::{Driver, planned, run_calls, seconds};

/// The program's, so that what memory costs counts as it does there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn stores(workload: &dyn Workload, planned: &Arc<PlannedApplication>, nodes: u16) -> Vec<Store> {
    let settings = StoreSettings::default();
    let loader = |node| Loader::new(Arc::clone(planned), PartitionId(node), settings);
    let mut loaders: Vec<Loader> = (0..nodes).map(loader).collect();
    workload.rows(1, &mut |name, columns, values| {
        let mut tables = planned.schema().tables.iter();
        let table = tables.find(|table| table.name == name);
        let table = table.expect("rows are of the workload's tables");
        let value = |name: &str| {
            let place = columns.iter().position(|column| *column == name);
            place.map_or(Value::Null, |place| values[place].clone())
        };
        let row: Vec<Value> = table.columns.iter().map(|c| value(&c.name)).collect();
        for loader in &mut loaders {
            loader
                .row(table.id, &row)
                .expect("the workload's rows load");
        }
    });
    loaders.into_iter().map(Loader::into_store).collect()
}

/// Makes the calls, the first tenth of them unmeasured, and prints their cost.
fn run<P: Durable>(
    count: u64,
    workload: &dyn Workload,
    planned: &Arc<PlannedApplication>,
    protocols: Vec<P>,
) {
    let nodes = protocols.len() as u16;
    let place = |name: &&str| {
        let procedures = &planned.application.procedures;
        let place = procedures.iter().position(|p| p.name() == *name);
        place.expect("the workload's procedures are in its files")
    };
    let procedures: Vec<usize> = workload.procedures().iter().map(place).collect();
    let mut callers: Vec<Box<dyn Caller>> = (0..nodes)
        .map(|node| {
            let client = u32::from(node);
            workload.caller(
                1,
                ClientPlacement {
                    client,
                    node,
                    nodes,
                },
                planned,
            )
        })
        .collect();
    let protocols = (0..nodes).zip(protocols);
    let mut driver = Driver::new(
        protocols
            .map(|(node, protocol)| {
                let (id, home) = (NodeId(node), PartitionId(node));
                Node::new(
                    id,
                    home,
                    Arc::clone(planned),
                    protocol,
                    NodeOptions::default(),
                )
            })
            .collect(),
    );
    let mut draw = |count: u64| -> VecDeque<(usize, Call)> {
        let call = |id: u64| {
            let caller = id as usize % callers.len();
            let operation = callers[caller].next();
            let procedure = procedures[operation.procedure];
            let home = planned.execution.home(procedure, &operation.arguments, id);
            let at = home.map_or(caller, |home| usize::from(home.0));
            let work = Work::Procedure(procedure);
            let call = Call::new(CallId(id), work, operation.arguments);
            (at, call)
        };
        (0..count).map(call).collect()
    };
    // Buffers grow to their size.
    let first = draw(count / 10);
    run_calls(&mut driver, first);
    (driver.committed, driver.messages) = (0, 0);
    let calls = draw(count);
    let start = Instant::now();
    let begin = seconds(&start);
    run_calls(&mut driver, calls);
    let micros = (seconds(&start) - begin) * 1e6;
    println!(
        "{count} calls: {:.2} us and {:.2} messages each; {} committed",
        micros / count as f64,
        driver.messages as f64 / count as f64,
        driver.committed,
    );
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut word = |otherwise: &str| words.next().unwrap_or_else(|| otherwise.to_owned());
    let number = |word: String| word.parse::<u64>().expect("a number");
    let (count, protocol) = (number(word("100000")), word("ramp-fast"));
    let (nodes, items) = (number(word("2")) as u16, number(word("1000000")));
    let reads = word("95").parse().expect("a percentage");
    let form = Form::Transactions {
        length: 4,
        reads_percent: reads,
    };
    let parameters = Parameters {
        items,
        form,
        ..Parameters::RAMP
    };
    let workload = Ycsb::with(parameters).expect("there are enough items");
    let planned = planned(workload.files(), nodes);
    let topology = Arc::new(Topology::one_each(nodes));
    let stores = (0..nodes).zip(stores(&workload, &planned, nodes));
    let programs = planned.application.programs();
    let metadata = match protocol.as_str() {
        "nwnr" => {
            let node = |(node, store)| {
                let topology = Arc::clone(&topology);
                NwnrNode::new(NodeId(node), topology, store, Arc::clone(&programs))
            };
            return run(count, &workload, &planned, stores.map(node).collect());
        }
        "ramp-fast" => Metadata::Fast,
        "ramp-small" => Metadata::Small,
        "ramp-hybrid" => Metadata::Hybrid(Default::default()),
        other => panic!("no protocol here is called {other}"),
    };
    let node = |(node, store)| {
        let options = RampOptions {
            metadata,
            ..RampOptions::default()
        };
        let (topology, programs) = (Arc::clone(&topology), Arc::clone(&programs));
        RampNode::new(NodeId(node), topology, store, programs, options)
    };
    run(count, &workload, &planned, stores.map(node).collect());
}
