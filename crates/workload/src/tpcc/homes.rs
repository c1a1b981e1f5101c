//! The partitions of warehouses in a plan.
//!
//! A terminal belongs to its warehouse, and an order is distributed if it takes an item from a warehouse on another
//! partition. The plan's router decides both, whatever the numbers of warehouses and partitions.

use anabranch_engine::PlannedApplication;
use anabranch_engine::routing::Target;
use anabranch_types::{Placement, TableId, Value};

use super::Scale;
use super::load::Table;

/// The partition of each warehouse's stock, in the order of warehouses. If the plan spreads a warehouse's stock over
/// all partitions, or replicates it, none is remote: partition 0 for each. `None` if the schema is not TPC-C's.
pub fn homes(planned: &PlannedApplication, scale: &Scale) -> Option<Vec<u16>> {
    let name = Table::Stock.name();
    let stock = planned.schema().tables.iter().find(|t| t.name == name)?.id;
    let home = |warehouse| match place(planned, Table::Stock, stock, warehouse) {
        Target::One(partition) => partition.0,
        Target::Anywhere | Target::Everywhere => 0,
    };
    Some((1..=scale.warehouses).map(home).collect())
}

/// The partition of a warehouse's generated rows in a table, which is `id` in the schema: [`Target::Everywhere`] if
/// the warehouse's number does not decide it.
pub fn place(planned: &PlannedApplication, table: Table, id: TableId, warehouse: u32) -> Target {
    let router = &planned.execution.router;
    let Placement::Columns(columns) = router.placement(id) else {
        return router.placed(id, &[]);
    };
    let schema = planned.schema().table(id);
    let by_warehouse = columns.iter().all(|column| {
        let name = schema.columns[column.index()].name.as_str();
        table.warehouse_columns().contains(&name)
    });
    if !by_warehouse {
        return Target::Everywhere;
    }
    let number = Value::Int(i64::from(warehouse));
    router.placed(id, &vec![number; columns.len()])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_analysis::{Guarantee, Topology, analyze};
    use anabranch_sql::application::Application;
    use anabranch_sql::source::SourceFile;

    use super::*;
    use crate::tpcc::{CallGenerator, Distribution, FILES, Mix, Tpcc};
    use crate::workload::{ClientPlacement, Workload};

    /// TPC-C with its stock placed like this, for four partitions.
    fn planned(stock: Option<Placement>) -> Arc<PlannedApplication> {
        let files = FILES.map(|(name, text)| SourceFile::new(name, text));
        let catalog = anabranch_sql::catalog::load(files.to_vec()).expect("TPC-C loads");
        let compiled = Application::compile(catalog).expect("it compiles");
        let mut plan = analyze(
            compiled.catalog(),
            compiled.summaries(),
            Topology::Partitioned,
            Guarantee::Invariants,
        );
        let tables = &compiled.schema().tables;
        let place = tables.iter().position(|table| table.name == "stock");
        if let (Some(stock), Some(place)) = (stock, place) {
            plan.placements[place] = stock;
        }
        PlannedApplication::new(compiled, plan, 4)
    }

    #[test]
    fn a_warehouse_is_where_the_plan_puts_it_and_not_where_its_number_lies() {
        let scale = Scale::small(9);
        let usual = homes(&planned(None), &scale).expect("it is TPC-C");
        assert_eq!(usual, [1, 2, 3, 0, 1, 2, 3, 0, 1]);
        let whole = homes(&planned(Some(Placement::Whole)), &scale);
        assert_eq!(whole.expect("it is TPC-C"), [0; 9]);
    }

    #[test]
    fn terminals_and_distributed_orders_follow_the_plan() {
        let tpcc = Tpcc {
            scale: Scale::small(4),
            distribution: Distribution::Percent(100.0),
            mix: Mix::NEW_ORDER,
        };
        let place = ClientPlacement {
            client: 5,
            node: 0,
            nodes: 4,
        };
        let terminal = |stock| tpcc.caller(1, place, &planned(stock)).next().arguments[0].clone();
        assert_eq!(terminal(None), Value::Int(4), "the one warehouse of node 0");
        // All are there: its second client takes the second.
        assert_eq!(terminal(Some(Placement::Whole)), Value::Int(2));
        let suppliers = |stock| {
            let homes = homes(&planned(stock), &tpcc.scale).expect("it is TPC-C");
            let order = CallGenerator::new(tpcc.scale, tpcc.mix, tpcc.distribution, homes, 7)
                .next_at(1)
                .arguments;
            let Value::Array(suppliers) = order[5].clone() else {
                panic!("{order:?}")
            };
            suppliers.iter().any(|supplier| *supplier != Value::Int(1))
        };
        assert!(suppliers(None), "every order has a line from elsewhere");
        assert!(!suppliers(Some(Placement::Whole)), "nothing is elsewhere");
    }
}
