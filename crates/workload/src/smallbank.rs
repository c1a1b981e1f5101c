//! SmallBank: customers of a bank, each with a savings and a checking account.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::{Decimal, Value};
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

/// The application of `examples/smallbank/`.
#[derive(Clone, Copy, Debug)]
pub struct SmallBank {
    /// Customers, numbered from 0.
    pub customers: i64,
}

impl SmallBank {
    /// Four customers for each node.
    pub fn new(nodes: u16) -> SmallBank {
        SmallBank {
            customers: 4 * i64::from(nodes),
        }
    }
}

fn name(customer: i64) -> Value {
    Value::text(format!("customer {customer}"))
}

fn money(cents: i64) -> Value {
    Value::Numeric(Decimal::from_scaled(cents, 2))
}

impl Workload for SmallBank {
    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/smallbank/schema.sql",
                include_str!("../../../examples/smallbank/schema.sql"),
            ),
            (
                "examples/smallbank/procedures.sql",
                include_str!("../../../examples/smallbank/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &[
            "total_balance",
            "deposit_checking",
            "transact_savings",
            "amalgamate",
            "write_check",
            "send_payment",
        ]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for customer in 0..self.customers {
            let id = Value::Int(customer);
            take(
                "account",
                &["name", "customer_id"],
                &[name(customer), id.clone()],
            );
            let columns = ["customer_id", "balance"];
            take("savings", &columns, &[id.clone(), money(10_000)]);
            take("checking", &columns, &[id, money(10_000)]);
        }
    }

    fn caller(&self, seed: u64, _: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(SmallBankCaller {
            rng: Rng::with_seed(seed),
            customers: self.customers,
        })
    }

    /// Each operation reads the balances of one customer, which are on one partition. Names are on another and never
    /// written.
    fn may_fracture(&self) -> bool {
        false
    }

    /// Savings cannot be overdrawn (23514); an uncovered payment is refused (22003).
    fn refuses(&self, code: &str) -> bool {
        ["23514", "22003"].contains(&code)
    }
}

struct SmallBankCaller {
    rng: Rng,
    customers: i64,
}

impl Caller for SmallBankCaller {
    fn next(&mut self) -> Operation {
        let one = self.rng.i64(0..self.customers);
        let other = (one + self.rng.i64(1..self.customers)) % self.customers;
        let procedure = self.rng.usize(0..6);
        let amount = money(self.rng.i64(100..6_000));
        let arguments: Arc<[Value]> = match procedure {
            0 => Arc::new([name(one)]),
            2 => {
                let signed = self.rng.i64(-5_000..5_000);
                Arc::new([name(one), money(signed)])
            }
            1 | 4 => Arc::new([name(one), amount]),
            3 => Arc::new([name(one), name(other)]),
            _ => Arc::new([name(one), name(other), amount]),
        };
        Operation {
            procedure,
            arguments,
        }
    }
}
