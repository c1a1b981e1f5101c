//! TPC-C as a [`Workload`]: small, so that it loads quickly and transactions conflict often.

use std::convert::Infallible;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;

use super::load::{self, Sink, Table};
use super::{CallGenerator, Distribution, FILES, Invocation, Mix, Scale, TransactionType, homes};
use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

/// TPC-C on a simulated cluster.
#[derive(Clone, Copy, Debug)]
pub struct Tpcc {
    /// The size of its database.
    pub scale: Scale,
    /// The share of distributed New-Orders.
    pub distribution: Distribution,
    /// The mix of transactions.
    pub mix: Mix,
}

impl Tpcc {
    /// One warehouse for each node, few items and customers, and half of the New-Orders distributed.
    pub fn new(nodes: u16) -> Tpcc {
        Tpcc {
            scale: Scale {
                warehouses: u32::from(nodes),
                items: 60,
                customers: 20,
            },
            distribution: Distribution::Percent(50.0),
            mix: Mix::FULL,
        }
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &FILES
    }

    fn procedures(&self) -> &'static [&'static str] {
        &[
            "new_order",
            "payment",
            "order_status",
            "delivery",
            "stock_level",
        ]
    }

    fn rows(&self, seed: u64, take: &mut RowSink<'_>) {
        let mut sink = Taking(take);
        let Ok(()) = load::items(&self.scale, seed, &mut sink);
        for warehouse in 1..=self.scale.warehouses {
            let Ok(()) = load::warehouse(&self.scale, seed, warehouse, &mut sink);
        }
    }

    fn caller(
        &self,
        seed: u64,
        place: ClientPlacement,
        planned: &PlannedApplication,
    ) -> Box<dyn Caller> {
        let homes = homes(planned, &self.scale).expect("the plan is of TPC-C's files");
        // A terminal is connected to the node of its warehouse; the terminals of one node take turns on its
        // warehouses.
        let own: Vec<i64> = (1..)
            .zip(&homes)
            .filter(|(_, home)| **home == place.node)
            .map(|(warehouse, _)| warehouse)
            .collect();
        let calls = CallGenerator::new(self.scale, self.mix, self.distribution, homes, seed);
        let turn = place.client as usize / usize::from(place.nodes);
        let warehouse = own.get(turn % own.len().max(1)).copied();
        Box::new(Terminal {
            calls,
            warehouse: warehouse.unwrap_or(1),
        })
    }

    /// New-Order rolls back an order for an unused item (2.4.2.3).
    fn refuses(&self, code: &str) -> bool {
        code == "TPCC1"
    }
}

struct Taking<'t, 's>(&'t mut RowSink<'s>);

impl Sink for Taking<'_, '_> {
    type Error = Infallible;

    fn row(&mut self, table: Table, values: &[Value]) -> Result<(), Infallible> {
        (self.0)(table.name(), table.columns(), values);
        Ok(())
    }
}

struct Terminal {
    calls: CallGenerator,
    warehouse: i64,
}

impl Caller for Terminal {
    fn next(&mut self) -> Operation {
        operation(self.calls.next_at(self.warehouse))
    }
}

/// The terminals of all warehouses, in no order.
impl Caller for CallGenerator {
    fn next(&mut self) -> Operation {
        operation(self.next_call())
    }
}

fn operation(invocation: Invocation) -> Operation {
    let mut all = TransactionType::ALL.iter();
    let procedure = all.position(|transaction| *transaction == invocation.transaction);
    Operation {
        procedure: procedure.expect("it is one of the five"),
        arguments: invocation.arguments,
    }
}
