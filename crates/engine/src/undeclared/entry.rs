//! The plan entry of a client's statement.

use anabranch_analysis::Plan;
use anabranch_analysis::plan::CoordinationClass;
use anabranch_analysis::report::coordination::Coordination;
use anabranch_sql::catalog::Catalog;
use anabranch_sql::summary::TransactionSummary;

use crate::application::Check;

/// The plan entry of a statement that is no declared type.
#[derive(Clone, Debug)]
pub struct StatementEntry {
    /// Whether everything that it reads and writes is a guard.
    is_guarded: bool,
    /// Whether its transaction runs alone.
    is_alone: bool,
    checks: Vec<Check>,
    coordination: Option<Coordination>,
}

impl StatementEntry {
    /// The entry of a statement that only reads.
    pub(super) fn reader() -> StatementEntry {
        StatementEntry {
            is_guarded: false,
            is_alone: false,
            checks: Vec::new(),
            coordination: None,
        }
    }

    /// The entry of whatever a transaction does that runs alone. All assertions on the tables that it writes are
    /// evaluated. It may write tables of which every partition has a copy, too.
    pub fn alone() -> StatementEntry {
        StatementEntry {
            is_guarded: true,
            is_alone: true,
            ..StatementEntry::reader()
        }
    }

    /// The entry of a statement that writes: that of the type with the index `own`.
    pub(super) fn writer(
        checks: Vec<Check>,
        plan: &Plan,
        catalog: &Catalog,
        (types, own): (&[TransactionSummary], usize),
    ) -> StatementEntry {
        let mut plan = plan.clone();
        let entry = &mut plan.entries[own];
        entry.class = CoordinationClass::Global;
        entry.routing.clear();
        entry.routing_array = None;
        entry.serializable = true;
        entry
            .checks
            .iter_mut()
            .for_each(|check| check.guarded = true);
        let mut coordination = Coordination::new(&plan, catalog, types, own);
        coordination.text.push_str(
            "Its guards: everything that it reads and writes, because it is not declared.\n",
        );
        StatementEntry {
            is_guarded: true,
            is_alone: false,
            checks,
            coordination: Some(coordination),
        }
    }

    /// Whether everything that the statement reads and writes is a guard.
    pub fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// Whether its transaction runs alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// How the statement is coordinated, for `EXPLAIN COORDINATION`. `None` if it only reads: it needs nothing.
    pub fn coordination(&self) -> Option<&Coordination> {
        self.coordination.as_ref()
    }

    /// The assertions that are evaluated before it commits.
    pub(crate) fn checks(&self) -> &[Check] {
        &self.checks
    }
}
