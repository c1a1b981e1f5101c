//! The interface of an application to the drivers that run it.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_sql::expression::text::literal;
use anabranch_types::Value;

/// Receives a row: its table, the names of its columns, and a value for each.
pub type RowSink<'s> = dyn FnMut(&str, &[&str], &[Value]) + 's;

/// An application with its data and its operations.
pub trait Workload: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Its SQL: name and text of each file, in the order in which they load.
    fn files(&self) -> &'static [(&'static str, &'static str)];

    /// The procedures that operations call, by the names that they have in the SQL.
    fn procedures(&self) -> &'static [&'static str];

    /// Passes every row of the initial database to `take`.
    fn rows(&self, seed: u64, take: &mut RowSink<'_>);

    /// The operations of one client of a cluster that runs this plan.
    fn caller(
        &self,
        seed: u64,
        place: ClientPlacement,
        planned: &PlannedApplication,
    ) -> Box<dyn Caller>;

    /// Checks the answer of a committed operation, as far as the answer alone allows.
    ///
    /// # Errors
    /// A description of the error.
    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        let _ = (operation, rows);
        Ok(())
    }

    /// Whether some operation reads items on several partitions that others write there together. Otherwise no read
    /// can be fractured, and a protocol has none to repair.
    fn may_fracture(&self) -> bool {
        true
    }

    /// Whether an operation may fail with this SQLSTATE: refusals of the application, and constraints.
    fn refuses(&self, code: &str) -> bool;
}

/// The operations of one client, drawn from a seed.
pub trait Caller: Send {
    /// The next operation.
    fn next(&mut self) -> Operation;
}

/// One call of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The index in [`Workload::procedures`].
    pub procedure: usize,
    /// Its input arguments, in order.
    pub arguments: Arc<[Value]>,
}

/// A client and the node that it is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPlacement {
    /// The client, numbered from 0; no two clients of a run have the same number.
    pub client: u32,
    /// The node that it is connected to.
    pub node: u16,
    /// The number of nodes.
    pub nodes: u16,
}

/// The two integers of an answer of one row.
pub(crate) fn pair(rows: &[Vec<Value>]) -> Option<(String, String)> {
    match rows {
        [row] => match &row[..] {
            [first, second] => Some((literal(first), literal(second))),
            _ => None,
        },
        _ => None,
    }
}

/// An answer's rows as text.
pub(crate) fn shown(rows: &[Vec<Value>]) -> String {
    let row = |row: &Vec<Value>| {
        let values: Vec<String> = row.iter().map(literal).collect();
        format!("({})", values.join(", "))
    };
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}
