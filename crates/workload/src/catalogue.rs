//! The catalogue of workloads, by name.

use std::sync::Arc;

use crate::bank::Bank;
use crate::counter::Counter;
use crate::departments::Departments;
use crate::payroll::Payroll;
use crate::register::Register;
use crate::replies::Replies;
use crate::rubis::Rubis;
use crate::smallbank::SmallBank;
use crate::tally::Tally;
use crate::tpcc::Tpcc;
use crate::tpcw::Tpcw;
use crate::workload::Workload;
use crate::ycsb::Ycsb;

/// The workloads that [`by_name`] knows.
pub const NAMES: [&str; 12] = [
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
    "tpcw",
    "rubis",
];

/// A workload sized for a simulated cluster of `nodes` nodes: small, so that transactions conflict often.
pub fn by_name(name: &str, nodes: u16) -> Option<Arc<dyn Workload>> {
    Some(match name {
        "register" => Arc::new(Register::new(nodes)),
        "tally" => Arc::new(Tally::new(nodes)),
        "replies" => Arc::new(Replies::new(nodes)),
        "ycsb" => Arc::new(Ycsb::new(nodes)),
        "counter" => Arc::new(Counter::new(nodes)),
        "bank" => Arc::new(Bank::new(nodes)),
        "departments" => Arc::new(Departments::new(nodes)),
        "smallbank" => Arc::new(SmallBank::new(nodes)),
        "payroll" => Arc::new(Payroll::new(nodes)),
        "tpcc" => Arc::new(Tpcc::new(nodes)),
        "tpcw" => Arc::new(Tpcw::new(nodes)),
        "rubis" => Arc::new(Rubis::new(nodes)),
        _ => return None,
    })
}
