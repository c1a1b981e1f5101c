//! Payroll: people hired, paid and dismissed, departments opened and closed.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::{Decimal, Value};
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

/// Employees of a department when the run begins.
const EMPLOYEES: i64 = 8;

/// The application of `examples/payroll/`.
#[derive(Clone, Copy, Debug)]
pub struct Payroll {
    /// Departments. One more is empty when the run begins.
    pub departments: i64,
}

impl Payroll {
    /// One department for each node.
    pub fn new(nodes: u16) -> Payroll {
        Payroll {
            departments: i64::from(nodes),
        }
    }
}

/// Ids that the application chooses: kind and number.
fn id(kind: u8, number: i64) -> Value {
    let mut bytes = [0; 16];
    bytes[0] = kind;
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    Value::Uuid(bytes)
}

fn department(number: i64) -> Value {
    id(0xd0, number)
}

fn employee(number: i64) -> Value {
    id(0xe0, number)
}

fn money(cents: i64) -> Value {
    Value::Numeric(Decimal::from_scaled(cents, 2))
}

impl Workload for Payroll {
    fn name(&self) -> &'static str {
        "payroll"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/payroll/schema.sql",
                include_str!("../../../examples/payroll/schema.sql"),
            ),
            (
                "examples/payroll/assertions.sql",
                include_str!("../../../examples/payroll/assertions.sql"),
            ),
            (
                "examples/payroll/procedures.sql",
                include_str!("../../../examples/payroll/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &[
            "open_department",
            "close_department",
            "hire",
            "hire_as",
            "dismiss",
            "raise_salary",
            "cut_salary",
            "department_cost",
        ]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for number in 0..=self.departments {
            let employees = if number < self.departments {
                EMPLOYEES
            } else {
                0
            };
            take(
                "departments",
                &["id", "name", "total_salary"],
                &[
                    department(number),
                    Value::text(format!("department {number}")),
                    money(employees * 100_000),
                ],
            );
            for person in number * EMPLOYEES..number * EMPLOYEES + employees {
                take(
                    "employees",
                    &["id", "last_name", "department_id", "salary"],
                    &[
                        employee(person),
                        Value::text(format!("person {person}")),
                        department(number),
                        money(100_000),
                    ],
                );
            }
        }
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(PayrollCaller {
            rng: Rng::with_seed(seed),
            departments: self.departments,
            hired: (i64::from(place.client) + 1) << 32,
        })
    }

    /// An id may exist (23505), a department may be closed or not empty (23503), a salary may be cut below zero
    /// (23514), a closed department may be requested (P0002).
    fn refuses(&self, code: &str) -> bool {
        ["23503", "23505", "23514", "P0002"].contains(&code)
    }
}

struct PayrollCaller {
    rng: Rng,
    departments: i64,
    hired: i64,
}

impl Caller for PayrollCaller {
    fn next(&mut self) -> Operation {
        let rng = &mut self.rng;
        let in_department = department(rng.i64(0..=self.departments));
        let person = employee(rng.i64(0..self.departments * EMPLOYEES));
        let amount = money(rng.i64(100..60_000));
        self.hired += 1;
        let last_name = Value::text("Doe");
        let (procedure, arguments): (usize, Arc<[Value]>) = match rng.u8(0..32) {
            0 => (0, Arc::new([Value::text("new department")])),
            1..=2 => (1, Arc::new([department(self.departments)])),
            3..=9 => (2, Arc::new([last_name, in_department, amount])),
            10..=11 => (
                3,
                Arc::new([employee(self.hired), last_name, in_department, amount]),
            ),
            12 => (3, Arc::new([person, last_name, in_department, amount])),
            13..=14 => (4, Arc::new([person])),
            15..=19 => (5, Arc::new([person, amount])),
            20..=25 => (6, Arc::new([person, amount])),
            _ => (7, Arc::new([in_department])),
        };
        Operation {
            procedure,
            arguments,
        }
    }
}
