//! An application with its plan, in the form that nodes use at every statement.

use std::sync::Arc;

use anabranch_analysis::Plan;
use anabranch_analysis::plan::PlanEntry;
use anabranch_analysis::report::coordination::Coordination;
use anabranch_sql::application::{Application, CompiledStatement};
use anabranch_sql::catalog::ReferentialAction;
use anabranch_sql::summary::{Role, StatementId, TransactionSummary};
use anabranch_types::{DataType, PartitionId, Placement, Schema, TableId, Value};

use crate::accepted::AcceptedType;
use crate::routing::{Router, Target};

/// The application that a cluster runs, with its plan; shared by all nodes.
pub struct PlannedApplication {
    /// The compiled procedures and row programs.
    pub application: Arc<Application>,
    /// The plan of the analysis. Its entries are those of the declared types, then those of the
    /// [undeclared](PlannedApplication::undeclared) ones.
    pub plan: Plan,
    /// The plan in the form that nodes use.
    pub execution: ExecutionPlan,
    /// The undeclared types with which the plan was made.
    pub(crate) undeclared: Vec<TransactionSummary>,
    /// Those of them that clients have accepted, in the order in which they did.
    pub(crate) accepted: Vec<AcceptedType>,
}

impl PlannedApplication {
    /// Bundles an application with its plan for a cluster of `partitions` partitions.
    ///
    /// # Panics
    /// When the plan is not this application's, or `partitions` is 0.
    pub fn new(
        application: impl Into<Arc<Application>>,
        plan: Plan,
        partitions: u16,
    ) -> Arc<PlannedApplication> {
        let undeclared = (Vec::new(), Vec::new());
        PlannedApplication::with_undeclared(application.into(), plan, partitions, undeclared)
    }

    /// The same for a plan that was made with undeclared types, behind the declared ones, of which some were accepted.
    pub(crate) fn with_undeclared(
        application: Arc<Application>,
        plan: Plan,
        partitions: u16,
        (undeclared, accepted): (Vec<TransactionSummary>, Vec<AcceptedType>),
    ) -> Arc<PlannedApplication> {
        let execution = ExecutionPlan::new(&application, &plan, &undeclared, partitions);
        Arc::new(PlannedApplication {
            application,
            plan,
            execution,
            undeclared,
            accepted,
        })
    }

    /// The types with which the plan was made: one for each of its entries.
    pub(crate) fn types(&self) -> Vec<TransactionSummary> {
        let declared = self.application.summaries().iter();
        declared.chain(&self.undeclared).cloned().collect()
    }

    /// The partition where a statement with these parameters should run: that of the first row that its parameters
    /// alone find. `None` when any node may run it.
    pub fn statement_home(
        &self,
        statement: &CompiledStatement,
        parameters: &[Value],
    ) -> Option<PartitionId> {
        let reads = statement.declared_reads(parameters);
        reads
            .iter()
            .find_map(|(_, _, read)| match self.execution.router.read(read) {
                Target::One(partition) => Some(partition),
                Target::Anywhere | Target::Everywhere => None,
            })
    }

    /// How the calls of the procedure with this name are coordinated, for `EXPLAIN COORDINATION`. `None` if the plan
    /// does not have it.
    pub fn coordination(&self, procedure: &str) -> Option<Coordination> {
        let mut entries = self.plan.entries.iter();
        let index = entries.position(|entry| entry.name == procedure)?;
        let types = self.types();
        types.get(index)?;
        Some(Coordination::new(
            &self.plan,
            self.application.catalog(),
            &types,
            index,
        ))
    }

    /// The tables.
    pub fn schema(&self) -> &Schema {
        self.application.schema()
    }
}

/// The plan by statement and table, in dense tables.
#[derive(Clone, Debug)]
pub struct ExecutionPlan {
    /// Routes items to partitions.
    pub router: Router,
    statements: Vec<StatementPlan>,
    /// The route of each procedure.
    routes: Vec<Option<Route>>,
    /// The assertions that are evaluated before each procedure commits.
    checks: Vec<Vec<Check>>,
    parents: Vec<bool>,
    permanent: Vec<bool>,
    /// Whether every UPDATE is written as a program that changes the row.
    pub(crate) writes_programs: bool,
}

/// An assertion that is evaluated before a procedure commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// Its index among the application's assertions.
    pub(crate) assertion: usize,
    /// Whether the evaluation's reads are guards.
    pub(crate) guarded: bool,
}

/// How the calls of a procedure are routed.
#[derive(Clone, Copy, Debug)]
struct Route {
    parameter: usize,
    /// Whether the parameter is an array whose elements find rows, and not a value that finds one.
    by_elements: bool,
    /// The table whose rows they find.
    table: TableId,
}

#[derive(Clone, Copy, Debug, Default)]
struct StatementPlan {
    deferred: bool,
    guarded_read: bool,
    guarded_write: bool,
    /// Whether it is an INSERT that draws the keys of its rows.
    draws_key: bool,
}

/// The most elements of an array that are routed: the others are probably like these, and routing them
/// would cost the client time.
const ELEMENTS_MAX: usize = 16;

/// The route of a procedure, if its arguments determine partitions.
fn route(
    schema: &Schema,
    router: &Router,
    parameters: &[(String, DataType)],
    entry: &PlanEntry,
) -> Option<Route> {
    let by_elements = entry.routing.is_empty();
    let parameter = entry.routing.first().copied().or(entry.routing_array)?;
    let table = entry.routed_to?;
    let (_, given) = parameters.get(parameter)?;
    let given = match (by_elements, given) {
        (false, given) => given,
        (true, DataType::Array(element)) => &**element,
        (true, _) => return None,
    };
    let Placement::Columns(columns) = router.placement(table) else {
        return None;
    };
    let [column] = columns[..] else { return None };
    let placing = &schema.table(table).columns[column.index()].data_type;
    // A value of another type can equal the column's value and hash differently.
    let alike = given == placing
        || (given.is_integer() && placing.is_integer())
        || (given.is_text() && placing.is_text());
    alike.then_some(Route {
        parameter,
        by_elements,
        table,
    })
}

impl ExecutionPlan {
    pub(crate) fn new(
        application: &Application,
        plan: &Plan,
        undeclared: &[TransactionSummary],
        partitions: u16,
    ) -> ExecutionPlan {
        let router = Router::new(application.schema(), &plan.placements, partitions);
        let mut statements = Vec::new();
        let mut at = |id: StatementId, set: fn(&mut StatementPlan)| {
            let index = id.0 as usize;
            if statements.len() <= index {
                statements.resize(index + 1, StatementPlan::default());
            }
            set(&mut statements[index]);
        };
        // Statements of undeclared types bring their entries along.
        for entry in plan.entries.iter().take(application.summaries().len()) {
            for id in &entry.deferred {
                at(*id, |s| s.deferred = true);
            }
            for id in &entry.guarded_reads {
                at(*id, |s| s.guarded_read = true);
            }
            for id in &entry.guarded_writes {
                at(*id, |s| s.guarded_write = true);
            }
        }
        for statement in application.summaries().iter().flat_map(|s| &s.statements) {
            let mut inserts = statement.accesses.iter();
            if inserts.any(|access| access.role == Role::Insert && access.draws_key) {
                at(statement.id, |s| s.draws_key = true);
            }
        }
        let routes = application
            .procedures
            .iter()
            .map(|procedure| {
                let entry = plan.entry(procedure.name())?;
                route(application.schema(), &router, procedure.parameters(), entry)
            })
            .collect();
        let procedures = application.procedures.iter();
        let checks = procedures.map(|p| checks(application, plan, p.name()));
        let checks = checks.collect();
        let parents = parent_tables(application);
        let types = application.summaries().iter().chain(undeclared);
        let loses_rows = tables_losing_rows(application, types);
        let permanent = parents
            .iter()
            .zip(&loses_rows)
            .map(|(parent, loses)| *parent && !loses)
            .collect();
        ExecutionPlan {
            router,
            statements,
            routes,
            checks,
            parents,
            permanent,
            writes_programs: false,
        }
    }

    /// The partition where a call of this procedure (an index of the application's list) with these
    /// arguments should run, by its plan entry's routing parameter or array: its guards are there, or most
    /// of its accesses. `None` when any node may run it. `turn` chooses among partitions with equal shares,
    /// so that a client that counts its calls spreads them.
    pub fn home(&self, procedure: usize, arguments: &[Value], turn: u64) -> Option<PartitionId> {
        let route = (*self.routes.get(procedure)?)?;
        let value = arguments.get(route.parameter)?;
        match (route.by_elements, value) {
            (false, value) => self.placed(route.table, value),
            (true, Value::Array(elements)) => self.most(route.table, elements, turn),
            (true, _) => None,
        }
    }

    fn placed(&self, table: TableId, value: &Value) -> Option<PartitionId> {
        match self.router.placed(table, std::slice::from_ref(value)) {
            Target::One(partition) => Some(partition),
            Target::Anywhere | Target::Everywhere => None,
        }
    }

    /// The partition of most of these values, among the first [`ELEMENTS_MAX`].
    fn most(&self, table: TableId, values: &[Value], turn: u64) -> Option<PartitionId> {
        let mut found = [(PartitionId(0), 0u32); ELEMENTS_MAX];
        let mut partitions = 0;
        for partition in values.iter().take(ELEMENTS_MAX) {
            let Some(partition) = self.placed(table, partition) else {
                continue;
            };
            let mut known = found[..partitions].iter_mut();
            match known.find(|(known, _)| *known == partition) {
                Some((_, count)) => *count += 1,
                None => {
                    found[partitions] = (partition, 1);
                    partitions += 1;
                }
            }
        }
        let found = &found[..partitions];
        let most = found.iter().map(|(_, count)| *count).max()?;
        let equals = || found.iter().filter(|(_, count)| *count == most);
        let chosen = equals().nth((turn % equals().count() as u64) as usize);
        chosen.map(|(partition, _)| *partition)
    }

    /// The parameter that routes each call of a procedure to one partition, and the table whose rows it finds.
    pub(crate) fn routing_parameter(&self, procedure: usize) -> Option<(usize, TableId)> {
        let route = (*self.routes.get(procedure)?)?;
        (!route.by_elements).then_some((route.parameter, route.table))
    }

    /// The assertions that a procedure (an index of the application's list) could violate alone: they are
    /// evaluated before it commits.
    pub(crate) fn checks(&self, procedure: usize) -> &[Check] {
        self.checks.get(procedure).map_or(&[], |checks| checks)
    }

    fn statement(&self, id: StatementId) -> StatementPlan {
        self.statements
            .get(id.0 as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Whether the owner of the row evaluates this UPDATE at commit.
    pub fn is_deferred(&self, id: StatementId) -> bool {
        self.statement(id).deferred
    }

    /// Whether this statement of a procedure is an INSERT that draws the keys of its rows.
    pub(crate) fn draws_key(&self, id: StatementId) -> bool {
        self.statement(id).draws_key
    }

    /// Whether this statement's reads are guards.
    pub fn guards_reads(&self, id: StatementId) -> bool {
        self.statement(id).guarded_read
    }

    /// Whether this statement's writes are guards.
    pub fn guards_writes(&self, id: StatementId) -> bool {
        self.statement(id).guarded_write
    }

    /// Whether every UPDATE is written as a program that changes the row, and rows that it has read are guards only
    /// where the plan says so.
    pub(crate) fn writes_programs(&self) -> bool {
        self.writes_programs
    }

    /// Whether a foreign key references this table, so that it pays to remember its existing rows.
    pub fn is_parent(&self, table: TableId) -> bool {
        self.parents[table.index()]
    }

    /// Whether the rows of this table are permanent: it is a parent, and no transaction type deletes its
    /// rows or changes its keys.
    pub fn is_permanent(&self, table: TableId) -> bool {
        self.permanent[table.index()]
    }
}

fn checks(application: &Application, plan: &Plan, procedure: &str) -> Vec<Check> {
    let place = |invariant: usize| {
        let name = plan.invariants[invariant].name.as_str();
        let assertions = application.assertions();
        assertions.iter().position(|of| of.name() == name)
    };
    let planned = plan.entry(procedure).into_iter().flat_map(|e| &e.checks);
    planned
        .filter_map(|check| {
            Some(Check {
                assertion: place(check.invariant)?,
                guarded: check.guarded,
            })
        })
        .collect()
}

/// Which tables are referenced by a foreign key.
fn parent_tables(application: &Application) -> Vec<bool> {
    let mut parents = vec![false; application.schema().tables.len()];
    for key in application
        .catalog()
        .tables
        .iter()
        .flat_map(|table| &table.foreign_keys)
    {
        parents[key.parent.index()] = true;
    }
    parents
}

/// Which tables may lose a row: by DELETE, by a change of its key, or by a cascade.
pub(crate) fn tables_losing_rows<'t>(
    application: &Application,
    types: impl IntoIterator<Item = &'t TransactionSummary>,
) -> Vec<bool> {
    let schema = application.schema();
    let mut loses = vec![false; schema.tables.len()];
    let accesses = types
        .into_iter()
        .flat_map(|transaction| &transaction.statements)
        .flat_map(|statement| &statement.accesses);
    for access in accesses {
        let keys = &schema.table(access.table).primary_key;
        let moves = access
            .writes
            .iter()
            .any(|write| keys.contains(&write.column));
        if access.role == Role::Delete || (access.role == Role::Update && moves) {
            loses[access.table.index()] = true;
        }
    }
    loop {
        let before = loses.clone();
        for table in &application.catalog().tables {
            let keys = &schema.table(table.id).primary_key;
            let cascades = table.foreign_keys.iter().any(|key| {
                let actions = [key.on_delete, key.on_update];
                // A key that is computed from what an action sets changes with it.
                let moves = || {
                    let acts = actions.iter().any(|action| {
                        !matches!(
                            action,
                            ReferentialAction::NoAction | ReferentialAction::Restrict
                        )
                    });
                    let computed = application.catalog().changed_with(table.id, &key.columns);
                    acts && computed.iter().any(|column| keys.contains(column))
                };
                loses[key.parent.index()]
                    && (actions.contains(&ReferentialAction::Cascade) || moves())
            });
            loses[table.id.index()] |= cascades;
        }
        if loses == before {
            return loses;
        }
    }
}
