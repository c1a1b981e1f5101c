//! Transfers between accounts: the total is constant, and no account is overdrawn.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload, pair, shown};

/// Accounts of a branch.
const ACCOUNTS: i64 = 3;
/// The initial balance: low, so that some transfers are refused.
const BALANCE: i64 = 40;

/// The application of `examples/bank/`.
#[derive(Clone, Copy, Debug)]
pub struct Bank {
    /// Branches; consecutive ones lie on different partitions.
    pub branches: i64,
    /// Whether all calls are transfers. Otherwise two of five are audits, half of which read the whole bank.
    pub transfers_only: bool,
}

impl Bank {
    /// One branch for each node, and at least two.
    pub fn new(nodes: u16) -> Bank {
        Bank {
            branches: i64::from(nodes).max(2),
            transfers_only: false,
        }
    }

    /// Transfers alone, between so many accounts: a multiple of 3, and at least 6. Fewer accounts make more conflicts.
    pub fn of_accounts(accounts: u32) -> Bank {
        Bank {
            branches: (i64::from(accounts) / ACCOUNTS).max(2),
            transfers_only: true,
        }
    }
}

impl Workload for Bank {
    fn name(&self) -> &'static str {
        "bank"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/bank/schema.sql",
                include_str!("../../../examples/bank/schema.sql"),
            ),
            (
                "examples/bank/assertions.sql",
                include_str!("../../../examples/bank/assertions.sql"),
            ),
            (
                "examples/bank/procedures.sql",
                include_str!("../../../examples/bank/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["transfer", "audit_branch", "audit"]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for branch in 0..self.branches {
            let funds = Value::Int(ACCOUNTS * BALANCE);
            take("branches", &["id", "funds"], &[Value::Int(branch), funds]);
            for id in 0..ACCOUNTS {
                take(
                    "accounts",
                    &["branch_id", "id", "balance"],
                    &[Value::Int(branch), Value::Int(id), Value::Int(BALANCE)],
                );
            }
        }
    }

    fn caller(&self, seed: u64, _: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(BankCaller {
            rng: Rng::with_seed(seed),
            branches: self.branches,
            transfers_only: self.transfers_only,
        })
    }

    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        if operation.procedure == 0 {
            return Ok(());
        }
        let Some((shown, added)) = pair(rows) else {
            return Err(format!("an audit returned {}", shown(rows)));
        };
        if shown != added {
            return Err(format!(
                "the branches total {shown}, but the accounts total {added}"
            ));
        }
        let all = (self.branches * ACCOUNTS * BALANCE).to_string();
        if operation.procedure == 2 && shown != all {
            return Err(format!(
                "the bank holds {shown}, but it was loaded with {all}"
            ));
        }
        Ok(())
    }

    fn refuses(&self, code: &str) -> bool {
        code == "23514"
    }
}

struct BankCaller {
    rng: Rng,
    branches: i64,
    transfers_only: bool,
}

impl Caller for BankCaller {
    fn next(&mut self) -> Operation {
        let branch = self.rng.i64(0..self.branches);
        let (procedure, arguments): (usize, Arc<[Value]>) = match self.rng.u8(0..10) {
            kind if kind <= 5 || self.transfers_only => {
                let account = self.rng.i64(0..ACCOUNTS);
                let other = (branch + self.rng.i64(1..self.branches.max(2))) % self.branches;
                let other_account = self.rng.i64(0..ACCOUNTS);
                let amount = self.rng.i64(1..=BALANCE / 2);
                let ints = [branch, account, other, other_account, amount];
                (0, Arc::new(ints.map(Value::Int)))
            }
            6..=7 => (1, Arc::new([Value::Int(branch)])),
            _ => (2, Arc::new([])),
        };
        Operation {
            procedure,
            arguments,
        }
    }
}
