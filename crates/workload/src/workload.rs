//! What an application says about itself, so that whoever drives a cluster can run it.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_sql::expression::text::literal;
use anabranch_types::Value;

/// Takes a row: its table, the names of its columns, and a value for each.
pub type RowSink<'s> = dyn FnMut(&str, &[&str], &[Value]) + 's;

/// An application with its data and its stream of operations.
pub trait Workload: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Its SQL: name and text of each file, in the order in which they load.
    fn files(&self) -> &'static [(&'static str, &'static str)];

    /// The procedures that operations call, by the names that they have in the SQL.
    fn procedures(&self) -> &'static [&'static str];

    /// Gives every row of the initial database to `take`.
    fn rows(&self, seed: u64, take: &mut RowSink<'_>);

    /// The operations of one client of a cluster that runs this plan.
    fn caller(&self, seed: u64, place: Place, planned: &PlannedApplication) -> Box<dyn Caller>;

    /// Whether a committed operation may have had this answer, as far as the answer itself tells.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        let _ = (operation, rows);
        Ok(())
    }

    /// Whether some operation reads on several partitions what others write there together. Where
    /// none does, no read can be fractured, and a protocol has none to repair.
    fn may_fracture(&self) -> bool {
        true
    }

    /// Whether an operation may fail with this SQLSTATE: what the application refuses, and the
    /// constraints that its operations may meet.
    fn refuses(&self, code: &str) -> bool;
}

/// The operations of one client, drawn from a seed.
pub trait Caller: Send {
    /// The next one.
    fn next(&mut self) -> Operation;
}

/// One call of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Which of [`Workload::procedures`].
    pub procedure: usize,
    /// Its input arguments, in order.
    pub arguments: Arc<[Value]>,
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The client, numbered from 0; no two clients of a run have the same number.
    pub client: u32,
    /// The node that it is connected to.
    pub node: u16,
    /// How many nodes there are.
    pub nodes: u16,
}

/// The workloads that [`by_name`] knows.
pub const NAMES: [&str; 10] = [
    "register",
    "tally",
    "replies",
    "ycsb",
    "counter",
    "bank",
    "departments",
    "smallbank",
    "payroll",
    "tpcc",
];

/// A workload of a size that suits a simulated cluster of `nodes` nodes: small, so that
/// transactions meet each other often.
pub fn by_name(name: &str, nodes: u16) -> Option<Arc<dyn Workload>> {
    Some(match name {
        "register" => Arc::new(crate::register::Register::new(nodes)),
        "tally" => Arc::new(crate::tally::Tally::new(nodes)),
        "replies" => Arc::new(crate::replies::Replies::new(nodes)),
        "ycsb" => Arc::new(crate::ycsb::Ycsb::new(nodes)),
        "counter" => Arc::new(crate::counter::Counter::new(nodes)),
        "bank" => Arc::new(crate::bank::Bank::new(nodes)),
        "departments" => Arc::new(crate::departments::Departments::new(nodes)),
        "smallbank" => Arc::new(crate::smallbank::SmallBank::new(nodes)),
        "payroll" => Arc::new(crate::payroll::Payroll::new(nodes)),
        "tpcc" => Arc::new(crate::tpcc::Tpcc::new(nodes)),
        _ => return None,
    })
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

/// An answer's rows, for people.
pub(crate) fn shown(rows: &[Vec<Value>]) -> String {
    let row = |row: &Vec<Value>| {
        let values: Vec<String> = row.iter().map(literal).collect();
        format!("({})", values.join(", "))
    };
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}
