//! Plans for sites that each have all of the data and order transactions over guards alone (`docs/protocols/alvin.md`,
//! *Order over guards*): what has to be ordered, where the homes of guards are, and what is refused.
//!
//! The plan is that of a partitioned database. Where it relies on a row's one owner, this module makes the difference
//! good, or refuses the application:
//!
//! * numbers that the owner would draw at commit are guards, or are taken by a read;
//! * effects have to be the same at every site, in the order of timestamps, whatever the row has become: each UPDATE is a
//!   program that cannot fail at another row, and no row changes its key.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use anabranch_analysis::Plan;
use anabranch_analysis::plan::{CoordinationClass, GuardKeeping, PlanEntry};
use anabranch_sql::application::Application;
use anabranch_sql::catalog::ReferentialAction;
use anabranch_sql::summary::{
    Comparison, Deferral, ResultUse, Role, StatementId, StatementSummary, TableAccess, Term,
    TransactionSummary, WriteClass,
};
use anabranch_types::{ColumnIndex, PartitionId, Placement, TableId, Value};

use crate::application::{ExecutionPlan, PlannedApplication};

/// Why sites cannot order an application over guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOverGuards {
    /// The procedure.
    pub procedure: String,
    /// The table that it changes.
    pub table: String,
    /// What is the matter.
    pub reason: UnsupportedChange,
}

/// A change that cannot be sent to other sites as an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsupportedChange {
    /// An UPDATE computes a column from the row, and does not name the row by its primary key: it could be sent only as
    /// the values that it has computed.
    Computed,
    /// A primary key changes: the row could be sent only as it is at one site.
    Key,
    /// An UPDATE computes a value by an expression that may fail, or not fit its column, on a row that a concurrent
    /// transaction has changed.
    MayFail,
}

impl fmt::Display for NotOverGuards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotOverGuards {
            procedure, table, ..
        } = self;
        match self.reason {
            UnsupportedChange::Computed => write!(
                f,
                "\"{procedure}\" computes a column of \"{table}\" from the row, and does not name the row by its primary \
                 key: name it"
            ),
            UnsupportedChange::Key => write!(
                f,
                "\"{procedure}\" changes the primary key of rows of \"{table}\", and what other sites change in such a row \
                 would be lost: keep the key, or delete the row and insert another"
            ),
            UnsupportedChange::MayFail => write!(
                f,
                "\"{procedure}\" computes a column of \"{table}\" from the row by an expression that may fail at another \
                 site, where the row may differ (a division, a cast, a text that is too long, NULL): use one that cannot, \
                 such as left(…, length)"
            ),
        }
    }
}

impl std::error::Error for NotOverGuards {}

impl PlannedApplication {
    /// Bundles an application with its plan for sites that order transactions over guards alone: every effect says what
    /// changes, and not what the row becomes. Sites are the homes of as many partitions.
    ///
    /// # Errors
    /// The first change that cannot be sent to other sites as an effect.
    pub fn over_guards(
        application: Application,
        mut plan: Plan,
        partitions: u16,
    ) -> Result<Arc<PlannedApplication>, NotOverGuards> {
        let summaries = application.summaries();
        for (entry, summary) in plan.entries.iter_mut().zip(summaries) {
            guard_draws(entry, summary);
        }
        let guarded = plan.entries.iter().flat_map(|entry| &entry.guarded_writes);
        let writes = Writes {
            application: &application,
            guarded: guarded.copied().collect(),
        };
        for (entry, summary) in plan.entries.iter_mut().zip(summaries) {
            for statement in &summary.statements {
                writes.check(&entry.name, statement)?;
                // A guard's result is computed at delivery only where it is a number that is drawn.
                if writes.guarded.contains(&statement.id)
                    && statement.result != ResultUse::Unused
                    && !writes.draws(statement)
                {
                    entry.deferred.retain(|id| *id != statement.id);
                }
            }
        }
        let mut execution = ExecutionPlan::new(&application, &plan, &[], partitions);
        execution.writes_programs = true;
        Ok(Arc::new(PlannedApplication {
            application: Arc::new(application),
            plan,
            execution,
            undeclared: Vec::new(),
            accepted: Vec::new(),
        }))
    }

    /// The tables that are accessed for guards, and their homes.
    pub fn guard_tables(&self) -> GuardTables {
        GuardTables::new(self)
    }
}

/// A single owner gives each number once without a guard, since it evaluates the UPDATE at commit. Sites do so only if the
/// UPDATE is a guard's.
fn guard_draws(entry: &mut PlanEntry, summary: &TransactionSummary) {
    for guard in &mut entry.guards {
        let at_commit = guard.keeping == GuardKeeping::AtCommit;
        let draws = |statement: &&StatementSummary| {
            let mut accesses = statement.accesses.iter();
            statement.result != ResultUse::Unused
                && (at_commit || statement.deferral == Deferral::Unread)
                && accesses.any(|access| access.role == Role::Update && access.table == guard.table)
        };
        let drawing = summary.statements.iter().filter(draws);
        let drawing: Vec<StatementId> = drawing.map(|statement| statement.id).collect();
        for list in [&mut guard.writes, &mut entry.guarded_writes] {
            list.extend(&drawing);
            list.sort_unstable();
            list.dedup();
        }
    }
}

/// The writes of an application.
struct Writes<'a> {
    application: &'a Application,
    /// The statements whose writes are guards.
    guarded: BTreeSet<StatementId>,
}

impl Writes<'_> {
    /// Refuses what cannot be sent to other sites as an effect.
    fn check(&self, procedure: &str, statement: &StatementSummary) -> Result<(), NotOverGuards> {
        let schema = self.application.schema();
        let refused = |table: TableId, reason| {
            Err(NotOverGuards {
                procedure: procedure.to_owned(),
                table: schema.table(table).name.clone(),
                reason,
            })
        };
        for access in &statement.accesses {
            if let Some(table) = self.rekeyed(access) {
                return refused(table, UnsupportedChange::Key);
            }
            if access.role != Role::Update {
                continue;
            }
            let computed =
                |class: &WriteClass| matches!(class, WriteClass::Add { .. } | WriteClass::FromRow);
            let mut written = access.writes.iter();
            if !statement.has_program && written.any(|write| computed(&write.class)) {
                return refused(access.table, UnsupportedChange::Computed);
            }
            let is_alone = || {
                let read = |column| access.columns_read.contains(&column);
                self.guarded.contains(&statement.id)
                    && !self.is_acted_on(access.table)
                    && self
                        .updates(access.table, read)
                        .all(|(of, _)| self.guarded.contains(&of) && !self.is_drawn(of))
            };
            if statement.may_fail && !is_alone() {
                return refused(access.table, UnsupportedChange::MayFail);
            }
        }
        Ok(())
    }

    /// Whether the statement with this id draws numbers at delivery.
    fn is_drawn(&self, id: StatementId) -> bool {
        let summaries = self.application.summaries().iter();
        let mut all = summaries.flat_map(|summary| &summary.statements);
        all.any(|statement| statement.id == id && self.draws(statement))
    }

    /// Whether foreign keys may delete or change rows of a table.
    fn is_acted_on(&self, table: TableId) -> bool {
        let acts = |action| {
            matches!(
                action,
                ReferentialAction::Cascade
                    | ReferentialAction::SetNull
                    | ReferentialAction::SetDefault
            )
        };
        let declared = self.application.catalog().table(table);
        let mut keys = declared.foreign_keys.iter();
        keys.any(|key| acts(key.on_delete) || acts(key.on_update))
    }

    /// Whether a guard's UPDATE draws a number at delivery: from columns that increments under guards alone change, of
    /// rows that nothing deletes, in a table without CHECKs. Without a CHECK increments come to the same in any order, and
    /// those under a common guard are delivered in one order. With one, the order of their timestamps, in which they are
    /// applied, might refuse another one than the order of delivery.
    fn draws(&self, statement: &StatementSummary) -> bool {
        let grows = |access: &TableAccess| {
            let summaries = self.application.summaries().iter();
            let all = summaries.flat_map(|summary| &summary.statements);
            let mut same = all
                .flat_map(|statement| &statement.accesses)
                .filter(|other| other.table == access.table);
            let used = |column| {
                access.columns_returned.contains(&column)
                    || access.writes.iter().any(|write| write.column == column)
            };
            same.all(|other| other.role != Role::Delete)
                && !self.is_acted_on(access.table)
                && self
                    .application
                    .catalog()
                    .table(access.table)
                    .checks
                    .is_empty()
                && self.updates(access.table, used).all(|(of, class)| {
                    self.guarded.contains(&of) && matches!(class, WriteClass::Add { .. })
                })
        };
        statement.deferral == Deferral::Unread && statement.accesses.iter().all(grows)
    }

    /// The UPDATEs of columns of a table: their statements, and how they write.
    fn updates(
        &self,
        table: TableId,
        columns: impl Fn(ColumnIndex) -> bool,
    ) -> impl Iterator<Item = (StatementId, &WriteClass)> {
        let summaries = self.application.summaries().iter();
        let statements = summaries.flat_map(|summary| &summary.statements);
        let accesses = statements.flat_map(|statement| {
            let accesses = statement.accesses.iter();
            accesses.map(|access| (statement.id, access))
        });
        let on_table = accesses
            .filter(move |(_, access)| access.table == table && access.role == Role::Update);
        let writes = on_table.flat_map(|(statement, access)| {
            access.writes.iter().map(move |write| (statement, write))
        });
        writes
            .filter(move |(_, write)| columns(write.column))
            .map(|(statement, write)| (statement, &write.class))
    }

    /// A table with rows that change their primary key by an access, itself or by what foreign keys do.
    fn rekeyed(&self, access: &TableAccess) -> Option<TableId> {
        let schema = self.application.schema();
        let writes = |column: &ColumnIndex| access.writes.iter().any(|it| it.column == *column);
        if access.role == Role::Update && schema.table(access.table).primary_key.iter().any(writes)
        {
            return Some(access.table);
        }
        let lost = match access.role {
            Role::Delete => self.deleted_with(access.table),
            Role::Update => BTreeSet::from([access.table]),
            Role::Read | Role::Insert => return None,
        };
        let sets = |action| {
            matches!(
                action,
                ReferentialAction::SetNull | ReferentialAction::SetDefault
            )
        };
        let tables = self.application.catalog().tables.iter();
        let mut rekeyed = tables.filter(|table| {
            let own = &schema.table(table.id).primary_key;
            table.foreign_keys.iter().any(|key| {
                let acts = match access.role {
                    Role::Delete => sets(key.on_delete),
                    _ => {
                        (sets(key.on_update) || key.on_update == ReferentialAction::Cascade)
                            && key.parent_columns.iter().any(writes)
                    }
                };
                let computed = || {
                    self.application
                        .catalog()
                        .changed_with(table.id, &key.columns)
                };
                lost.contains(&key.parent)
                    && acts
                    && (key.columns.iter().any(|column| own.contains(column))
                        || computed().iter().any(|column| own.contains(column)))
            })
        });
        rekeyed.next().map(|table| table.id)
    }

    /// A table, and those from which foreign keys delete rows with its rows.
    fn deleted_with(&self, table: TableId) -> BTreeSet<TableId> {
        let mut lost = BTreeSet::from([table]);
        loop {
            let before = lost.len();
            for table in &self.application.catalog().tables {
                let cascades = table.foreign_keys.iter().any(|key| {
                    key.on_delete == ReferentialAction::Cascade && lost.contains(&key.parent)
                });
                if cascades {
                    lost.insert(table.id);
                }
            }
            if lost.len() == before {
                return lost;
            }
        }
    }
}

/// An access to a table for a guard.
struct GuardAccess {
    table: TableId,
    writes: bool,
    /// Whether its rows are surely where the call's routing parameter places them.
    is_placed: bool,
}

/// The tables that transactions access for guards, and the homes of these.
///
/// Transactions that are ordered and those that run at a home must not meet on any row: the one kind knows nothing of the
/// other. A guard's statements may access more tables than the guard's own, so that tables are what has a home.
#[derive(Clone, Debug)]
pub struct GuardTables {
    /// The tables that some type writes for a guard. Reads of others conflict with nothing.
    contended: BTreeSet<TableId>,
    /// Those of them whose accesses for guards are all at their homes.
    homed: BTreeSet<TableId>,
    /// By procedure.
    calls: Vec<CallHome>,
}

/// The home of a procedure's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallHome {
    /// None: it has no guards, or they are ordered.
    None,
    /// That of the tables that are kept whole.
    First,
    /// By its routing parameter.
    Routed,
}

impl GuardTables {
    fn new(planned: &PlannedApplication) -> GuardTables {
        let procedures = planned.application.procedures.iter();
        let entries: Vec<Option<&PlanEntry>> = procedures
            .map(|procedure| planned.plan.entry(procedure.name()))
            .collect();
        let accesses: Vec<Vec<GuardAccess>> = entries
            .iter()
            .enumerate()
            .map(|(procedure, entry)| match entry {
                Some(entry) => guard_accesses(planned, procedure, entry),
                None => Vec::new(),
            })
            .collect();
        let written = accesses.iter().flatten().filter(|access| access.writes);
        let contended: BTreeSet<TableId> = written.map(|access| access.table).collect();
        let of_call: Vec<Vec<&GuardAccess>> = accesses
            .iter()
            .map(|all| {
                let concern = |access: &&GuardAccess| contended.contains(&access.table);
                all.iter().filter(concern).collect()
            })
            .collect();
        let homes: Vec<CallHome> = of_call
            .iter()
            .zip(&entries)
            .enumerate()
            .map(|(procedure, (accesses, entry))| match entry {
                Some(entry) if !accesses.is_empty() => {
                    home_of_calls(planned, procedure, entry, accesses)
                }
                _ => CallHome::None,
            })
            .collect();
        let mut homed = contended.clone();
        loop {
            let before = homed.len();
            for (accesses, home) in of_call.iter().zip(&homes) {
                let mut tables = accesses.iter().map(|access| access.table);
                if *home == CallHome::None || !tables.clone().all(|it| homed.contains(&it)) {
                    tables.by_ref().for_each(|table| {
                        homed.remove(&table);
                    });
                }
            }
            if homed.len() == before {
                break;
            }
        }
        let calls = of_call.iter().zip(homes).map(|(accesses, home)| {
            let mut tables = accesses.iter().map(|access| access.table);
            match tables.all(|table| homed.contains(&table)) {
                true => home,
                false => CallHome::None,
            }
        });
        GuardTables {
            calls: calls.collect(),
            contended,
            homed,
        }
    }

    /// Whether transactions may conflict on the table's rows for a guard.
    pub fn is_contended(&self, table: TableId) -> bool {
        self.contended.contains(&table)
    }

    /// Whether these rows have homes. Otherwise transactions that conflict on them are ordered.
    pub fn is_homed(&self, table: TableId) -> bool {
        self.homed.contains(&table)
    }

    /// Whether the calls of a procedure (an index of the application's list) run at the home of their guards.
    pub fn runs_at_home(&self, procedure: usize) -> bool {
        self.calls
            .get(procedure)
            .is_some_and(|home| *home != CallHome::None)
    }

    /// The home of a call; `None` if it may run anywhere.
    pub fn home(
        &self,
        execution: &ExecutionPlan,
        procedure: usize,
        arguments: &[Value],
    ) -> Option<PartitionId> {
        match self.calls.get(procedure)? {
            CallHome::None => None,
            CallHome::First => Some(PartitionId(0)),
            CallHome::Routed => execution.home(procedure, arguments, 0),
        }
    }
}

/// The home of a procedure's calls with these accesses for guards, as far as they alone decide it.
fn home_of_calls(
    planned: &PlannedApplication,
    procedure: usize,
    entry: &PlanEntry,
    accesses: &[&GuardAccess],
) -> CallHome {
    if entry.class != CoordinationClass::Local || entry.serializable {
        return CallHome::None;
    }
    // The home of a row is known by its key alone.
    let router = &planned.execution.router;
    let is_apart = |access: &&GuardAccess| {
        router.is_apart(access.table)
            && !planned.schema().table(access.table).primary_key.is_empty()
    };
    if accesses.iter().any(is_apart) {
        return CallHome::None;
    }
    let placement = |table: TableId| router.placement(table);
    let is_whole = |access: &&GuardAccess| *placement(access.table) == Placement::Whole;
    if accesses.iter().all(is_whole) {
        return CallHome::First;
    }
    let Some((_, routed)) = planned.execution.routing_parameter(procedure) else {
        return CallHome::None;
    };
    // The same value has to be at the same partition of each table.
    let placing = |table: TableId| {
        let Placement::Columns(columns) = placement(table) else {
            return None;
        };
        let [column] = columns[..] else { return None };
        let column = &planned.schema().table(table).columns[column.index()];
        match column.data_type.is_integer() && !column.nullable {
            true => Some(None),
            false => Some(Some((column.data_type.clone(), column.nullable))),
        }
    };
    let of_routed = placing(routed);
    let is_routed = |access: &&GuardAccess| access.is_placed && placing(access.table) == of_routed;
    match of_routed.is_some() && accesses.iter().all(is_routed) {
        true => CallHome::Routed,
        false => CallHome::None,
    }
}

/// What a procedure accesses for guards.
fn guard_accesses(
    planned: &PlannedApplication,
    procedure: usize,
    entry: &PlanEntry,
) -> Vec<GuardAccess> {
    let routing = planned.execution.routing_parameter(procedure);
    let is_routed =
        |term: &Term| matches!((term, routing), (Term::Parameter(p), Some((r, _))) if *p == r);
    let summaries = planned.application.summaries().iter();
    let mut named = summaries.filter(|summary| summary.name == entry.name);
    let statements = named
        .next()
        .map_or(&[][..], |summary| &summary.statements[..]);
    let mut found = Vec::new();
    for statement in statements {
        let writes = entry.serializable || entry.guarded_writes.contains(&statement.id);
        let reads = entry.serializable || entry.guarded_reads.contains(&statement.id);
        if !writes && !reads {
            continue;
        }
        for access in &statement.accesses {
            let fixes = |column: &ColumnIndex| {
                let condition = access.conditions.iter().any(|condition| {
                    condition.column == *column
                        && condition.comparison == Comparison::Equal
                        && is_routed(&condition.term)
                });
                let inserted = access.writes.iter().any(|write| {
                    write.column == *column
                        && matches!(&write.class, WriteClass::Assign(term) if is_routed(term))
                });
                condition || access.role == Role::Insert && inserted
            };
            let placed_by = |table: TableId, fixed: &dyn Fn(&ColumnIndex) -> bool| match planned
                .execution
                .router
                .placement(table)
            {
                Placement::Columns(columns) => columns.iter().all(fixed),
                Placement::Whole | Placement::Replicated => false,
            };
            let is_write = access.role != Role::Read;
            found.push(GuardAccess {
                table: access.table,
                writes: writes && is_write,
                is_placed: placed_by(access.table, &fixes),
            });
            let tables = &planned.application.catalog().tables;
            for key in &tables[access.table.index()].foreign_keys {
                let refers = match access.role {
                    Role::Insert => true,
                    Role::Update => key.columns.iter().any(|own| is_written(access, *own)),
                    Role::Read | Role::Delete => false,
                };
                let of_parent = |column: &ColumnIndex| {
                    let mut pairs = key.parent_columns.iter().zip(&key.columns);
                    let own = pairs.find(|(parent, _)| *parent == column);
                    own.is_some_and(|(_, own)| fixes(own))
                };
                if refers {
                    found.push(GuardAccess {
                        table: key.parent,
                        writes: false,
                        is_placed: placed_by(key.parent, &of_parent),
                    });
                }
            }
            let children = children(planned, access).into_iter();
            found.extend(children.map(|(table, acts)| GuardAccess {
                table,
                writes: writes && acts,
                is_placed: false,
            }));
        }
    }
    for check in planned.execution.checks(procedure) {
        let assertion = &planned.application.assertions()[check.assertion];
        if check.guarded {
            found.extend(assertion.tables().iter().map(|table| GuardAccess {
                table: *table,
                writes: false,
                is_placed: false,
            }));
        }
    }
    found
}

fn is_written(access: &TableAccess, column: ColumnIndex) -> bool {
    access.writes.iter().any(|write| write.column == column)
}

/// The tables with rows that refer to what an access deletes, or to the keys that it changes, and whether foreign keys
/// change such rows. Rows that refer to these count as well.
fn children(planned: &PlannedApplication, access: &TableAccess) -> BTreeSet<(TableId, bool)> {
    let tables = &planned.application.catalog().tables;
    let references = |parent: TableId| {
        let keys = tables
            .iter()
            .flat_map(|table| table.foreign_keys.iter().map(move |key| (table.id, key)));
        keys.filter(move |(_, key)| key.parent == parent)
    };
    let acts = |action| {
        !matches!(
            action,
            ReferentialAction::NoAction | ReferentialAction::Restrict
        )
    };
    let mut found = BTreeSet::new();
    for (child, key) in references(access.table) {
        match access.role {
            Role::Delete => {
                found.insert((child, acts(key.on_delete)));
            }
            Role::Update
                if key
                    .parent_columns
                    .iter()
                    .any(|own| is_written(access, *own)) =>
            {
                found.insert((child, acts(key.on_update)));
            }
            _ => {}
        }
    }
    loop {
        let changed: Vec<TableId> = found
            .iter()
            .filter(|(_, acts)| *acts)
            .map(|(table, _)| *table)
            .collect();
        let before = found.len();
        for (child, key) in changed.into_iter().flat_map(references) {
            found.insert((child, acts(key.on_delete) || acts(key.on_update)));
        }
        if found.len() == before {
            return found;
        }
    }
}
