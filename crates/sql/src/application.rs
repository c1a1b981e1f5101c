//! A compiled application: its procedures, assertions and row programs, and their summaries for the analyser and the
//! engine.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use anabranch_types::{
    ColumnIndex, ColumnSet, DataType, EffectError, Fetched, Key, Read, Row, RowPrograms, Schema,
    TableId, TableSchema, TimeZone, Value,
};
use sqlparser::ast;

use crate::{
    TransactionError,
    bind::computed::Computed,
    bind::{Binder, from::TOO_COMPLEX, modify::Shared},
    catalog::Catalog,
    constraint::{Constraints, TableConstraints},
    deferred::ConstraintSelection,
    diagnostic::Diagnostic,
    every_row,
    execute::Run,
    expression::{Budget, EvaluationContext, Frame, Source},
    hidden,
    plan::statement::Statement,
    procedure::{
        CompiledProcedure,
        compile::{Compiler, any_statement, condition_statement, parameter_type},
        declared::statement_reads,
        names::Placeholders,
        statement_summary,
    },
    program::{Programs, check::Check, merging::ColumnPolicy},
    source::{SourceFile, Span},
    summary::{Deferral, StatementId, TransactionSummary},
    transaction::Transaction,
};

pub use crate::result::ResultSet;

/// An application, compiled.
#[derive(Debug)]
pub struct Application {
    catalog: Catalog,
    /// Its procedures, in order of declaration.
    pub procedures: Vec<Arc<CompiledProcedure>>,
    summaries: Vec<TransactionSummary>,
    assertions: Arc<[CompiledAssertion]>,
    constraints: Arc<Constraints>,
    programs: Arc<Programs>,
    next_statement: AtomicU32,
}

/// An assertion, ready to be tested.
#[derive(Debug)]
pub struct CompiledAssertion {
    name: String,
    tables: Vec<TableId>,
    statement: CompiledStatement,
    /// If it is a condition on each row of a table by itself: the table, and that condition.
    row: Option<(Arc<TableSchema>, Check)>,
}

/// A statement that belongs to no procedure, ready to run.
#[derive(Debug)]
pub struct CompiledStatement {
    id: StatementId,
    statement: Statement,
    parameters: Vec<DataType>,
    columns: Arc<[(String, DataType)]>,
    constraints: Arc<Constraints>,
}

impl Application {
    /// Compiles everything that a catalog declares.
    ///
    /// # Errors
    /// Its problems: unknown names, type mismatches, unsupported constructs.
    pub fn compile(mut catalog: Catalog) -> Result<Application, Vec<Diagnostic>> {
        hidden::settle(&mut catalog)?;
        let programs = Programs::default();
        let constraints = Arc::new(Constraints::compile(&catalog, &programs)?);
        let mut procedures = Vec::new();
        let mut next_statement = 0;
        let mut problems = compile_behind(
            &mut procedures,
            &mut next_statement,
            (&catalog, &constraints, &programs),
        );
        let mut assertions = Vec::new();
        for assertion in &catalog.assertions {
            match condition_statement(&catalog, &assertion.expression, assertion.span) {
                Ok(statement) => {
                    let columns = statement.columns.clone().into();
                    let accesses = statement.accesses.iter();
                    let mut tables: Vec<TableId> = accesses.map(|access| access.table).collect();
                    tables.sort_unstable();
                    tables.dedup();
                    let id = StatementId(next_statement);
                    next_statement += 1;
                    let constraints = constraints.clone();
                    let statement = CompiledStatement {
                        id,
                        statement,
                        parameters: Vec::new(),
                        columns,
                        constraints,
                    };
                    let of_rows = every_row::checked_row(&catalog, &assertion.expression);
                    let row = of_rows.and_then(|every| {
                        let check = every.bind(&catalog, assertion.span);
                        let schema = catalog.schema.tables[every.table.index()].clone();
                        Some((schema, check.ok()?))
                    });
                    assertions.push(CompiledAssertion {
                        name: assertion.name.clone(),
                        tables,
                        statement,
                        row,
                    });
                }
                Err(problem) => problems.push(problem),
            }
        }
        for view in &catalog.views {
            let mut binder = Binder::new(&catalog, &crate::bind::ViewVariables, view.span);
            if let Err(problem) = binder.closed_query(&view.query) {
                let too_complex = problem.code == TOO_COMPLEX;
                problems.push(problem);
                if too_complex {
                    // Views made of this one are no simpler.
                    break;
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let summaries = procedures
            .iter()
            .map(|procedure| procedure.summary())
            .collect();
        Ok(Application {
            catalog,
            procedures,
            summaries,
            assertions: assertions.into(),
            constraints,
            programs: Arc::new(programs.fixed()),
            next_statement: AtomicU32::new(next_statement),
        })
    }

    /// This application with more procedures: `catalog` is its catalog with further procedures at the end. Their
    /// statements are numbered from `first_statement`.
    ///
    /// # Errors
    /// The problems in these procedures.
    pub(crate) fn extended(
        &self,
        catalog: Catalog,
        first_statement: u32,
    ) -> Result<Application, Vec<Diagnostic>> {
        let programs = self.programs.extended();
        let mut procedures = self.procedures.clone();
        let mut next_statement = first_statement.max(self.next_statement.load(Ordering::Relaxed));
        let problems = compile_behind(
            &mut procedures,
            &mut next_statement,
            (&catalog, &self.constraints, &programs),
        );
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut summaries = self.summaries.clone();
        let more = procedures[summaries.len()..].iter();
        summaries.extend(more.map(|procedure| procedure.summary()));
        Ok(Application {
            catalog,
            procedures,
            summaries,
            assertions: self.assertions.clone(),
            constraints: self.constraints.clone(),
            programs: Arc::new(programs.fixed()),
            next_statement: AtomicU32::new(next_statement),
        })
    }

    /// The procedure with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<CompiledProcedure>> {
        self.procedures
            .iter()
            .find(|procedure| procedure.name() == name)
    }

    /// The summary of each procedure, in order of declaration.
    pub fn summaries(&self) -> &[TransactionSummary] {
        &self.summaries
    }

    /// The row programs of its UPDATEs.
    pub fn programs(&self) -> Arc<dyn RowPrograms> {
        self.programs.clone()
    }

    /// The merge policy of a column under all its procedures; `None` if they do not agree on one.
    pub fn policy(&self, table: TableId, column: ColumnIndex) -> Option<ColumnPolicy> {
        self.programs.policy(table, column)
    }

    /// Its tables, as the lower crates see them.
    pub fn schema(&self) -> &Schema {
        &self.catalog.schema
    }

    /// The catalog that it was compiled from.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The names of the CHECKs that a stored row of a table violates (every write tests its own), and of the generated
    /// columns ([`Catalog::generated_name`]) that do not fit it. What cannot be evaluated counts as violated.
    pub fn violated_checks(&self, table: TableId, row: &Row) -> Vec<&str> {
        let layout = &self.catalog.schema.table(table).layout;
        let context = EvaluationContext::default();
        let sources = [Source::Empty, Source::Row { layout, row }];
        let frame = Frame::of_rows(&[], &sources, &context);
        let constraints = &self.constraints.tables[table.index()];
        let checks = constraints.checks.iter();
        let violated =
            checks.filter(|check| !matches!(check.evaluate(&frame), Ok(None | Some(true))));
        let fits = |of: &Computed| match of.expression.evaluate(&frame) {
            Ok(value) => value.total_cmp(&row.get(layout, of.column)).is_eq(),
            Err(_) => false,
        };
        let unfit = constraints.computed.iter().filter(|of| !fits(of));
        violated
            .map(|check| check.name.as_str())
            .chain(unfit.filter_map(|of| of.name.as_deref()))
            .collect()
    }

    /// The compiled constraints of a table.
    pub(crate) fn constraints_of(&self, table: TableId) -> &TableConstraints {
        self.constraints.of(table)
    }

    /// Its assertions, in order of declaration.
    pub fn assertions(&self) -> &[CompiledAssertion] {
        &self.assertions
    }

    /// The assertion with this name.
    pub fn assertion(&self, name: &str) -> Option<&CompiledAssertion> {
        self.assertions
            .iter()
            .find(|assertion| assertion.name == name)
    }

    /// Runs the checks of the selected foreign keys that wait, in the order in which statements noted them.
    ///
    /// # Errors
    /// SQLSTATE `23503` if one is violated; those of the transaction.
    pub async fn check_deferred<T: Transaction>(
        &self,
        transaction: &mut T,
        selection: &ConstraintSelection,
    ) -> Result<(), TransactionError> {
        if transaction
            .deferred_checks()
            .is_none_or(|checks| checks.is_empty())
        {
            return Ok(());
        }
        let context = EvaluationContext {
            timestamp: transaction.timestamp(),
            zone: transaction.time_zone(),
            budget: Budget::new(transaction.statement_bytes_max()),
            ..EvaluationContext::default()
        };
        let mut run = Run {
            transaction,
            // Each check has its own.
            statement: StatementId(0),
            variables: &[],
            context: &context,
            constraints: &self.constraints,
            ctes: Vec::new(),
            rows_ahead: 0,
            part_effects: None,
        };
        run.check_deferred(selection).await
    }

    /// Whether SET CONSTRAINTS may name these constraints.
    ///
    /// # Errors
    /// SQLSTATE `42704` for a name that no constraint has, `42809` if one is to be deferred and is not deferrable.
    pub fn set_constraints(&self, names: &[String], deferred: bool) -> Result<(), EffectError> {
        let tables = &self.catalog.tables;
        for name in names {
            let keys = tables.iter().flat_map(|table| &table.foreign_keys);
            let mut keys = keys.filter(|key| key.name == *name).peekable();
            let is_key = keys.peek().is_some();
            let is_other = tables.iter().any(|table| {
                let unique = table.unique_constraints.iter();
                let schema = self.catalog.schema.table(table.id);
                let mut unique = unique.map(|id| &schema.indexes[id.index()].name);
                table.checks.iter().any(|check| check.name == *name)
                    || table.primary_key_name.as_ref() == Some(name)
                    || unique.any(|of| of == name)
            });
            if deferred && (is_other || keys.any(|key| !key.deferrability.is_deferrable())) {
                let message = format!("constraint \"{name}\" is not deferrable");
                return Err(EffectError::new("42809", message));
            }
            if !is_key && !is_other {
                let message = format!("constraint \"{name}\" does not exist");
                return Err(EffectError::new("42704", message));
            }
        }
        Ok(())
    }

    /// Compiles one statement (SELECT, INSERT, UPDATE, DELETE) with `$1`, `$2`, … as parameters.
    ///
    /// # Errors
    /// Its problems. Their places name the statement's text by the file number after the application's.
    pub fn statement(&self, text: &str) -> Result<CompiledStatement, Vec<Diagnostic>> {
        let number = u16::try_from(self.catalog.files.len()).unwrap_or(u16::MAX);
        let file = SourceFile::new("statement", text);
        let mut list =
            crate::parse::parse_statements(&file, number).map_err(|problem| vec![problem])?;
        let (Some((syntax, span)), true) = (list.pop(), list.is_empty()) else {
            return Err(vec![Diagnostic {
                code: "42601",
                message: "exactly one statement is expected".into(),
                span: None,
                detail: None,
                help: None,
            }]);
        };
        let mut binder = Binder::new(&self.catalog, &Placeholders, span);
        let statement = self
            .bound_statement(&mut binder, &syntax, span)
            .map_err(|problem| vec![problem])?;
        let parameters = binder
            .parameters
            .iter()
            .map(|found| parameter_type(found.as_ref()))
            .collect();
        Ok(self.finished_statement(statement, parameters))
    }

    /// Binds a statement of this application's tables.
    pub(crate) fn bound_statement(
        &self,
        binder: &mut Binder<'_>,
        syntax: &ast::Statement,
        span: Span,
    ) -> Result<Statement, Diagnostic> {
        let shared = Shared {
            constraints: &self.constraints,
            programs: &self.programs,
        };
        any_statement(binder, syntax, span, &shared)
    }

    /// A bound statement, ready to run, with parameters of these types.
    pub(crate) fn finished_statement(
        &self,
        statement: Statement,
        parameters: Vec<DataType>,
    ) -> CompiledStatement {
        CompiledStatement {
            id: StatementId(self.next_statement.fetch_add(1, Ordering::Relaxed)),
            columns: statement.columns.clone().into(),
            statement,
            parameters,
            constraints: self.constraints.clone(),
        }
    }
}

/// Compiles the procedures of a catalog after those already compiled; returns their problems.
fn compile_behind(
    procedures: &mut Vec<Arc<CompiledProcedure>>,
    next_statement: &mut u32,
    (catalog, constraints, programs): (&Catalog, &Arc<Constraints>, &Programs),
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for procedure in &catalog.procedures[procedures.len()..] {
        let compiler = Compiler {
            catalog,
            constraints,
            programs,
            done: procedures,
        };
        match compiler.compile(procedure, *next_statement) {
            Ok(compiled) => {
                *next_statement += compiled.statements_in_all();
                procedures.push(Arc::new(compiled));
            }
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

impl CompiledStatement {
    /// The types of its parameters, from their use; text otherwise.
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// The columns of its result.
    pub fn columns(&self) -> &Arc<[(String, DataType)]> {
        &self.columns
    }

    /// What it does to each table, as a transaction type of this name.
    pub fn summary(&self, name: &str) -> TransactionSummary {
        statement_summary(name, &self.statement, self.id, &self.parameters)
    }

    /// Its plan.
    pub(crate) fn plan(&self) -> &Statement {
        &self.statement
    }

    /// Its number.
    pub fn id(&self) -> StatementId {
        self.id
    }

    /// The reads that its parameters alone determine, and whether each is for a write. None if parameters are missing:
    /// it fails before it reads.
    pub fn declared_reads(&self, parameters: &[Value]) -> Vec<(StatementId, bool, Read)> {
        match parameters.len() < self.parameters.len() {
            true => Vec::new(),
            false => statement_reads(self.id, &self.statement, parameters),
        }
    }

    /// Runs it in a transaction; the parameters are of the types in
    /// [`CompiledStatement::parameters`].
    ///
    /// # Errors
    /// Errors that the statement raises, and those of the transaction.
    pub async fn execute<T: Transaction>(
        &self,
        transaction: &mut T,
        parameters: &[Value],
    ) -> Result<ResultSet, TransactionError> {
        let zone = transaction.time_zone();
        self.execute_in(zone, transaction, parameters).await
    }

    async fn execute_in<T: Transaction>(
        &self,
        zone: TimeZone,
        transaction: &mut T,
        parameters: &[Value],
    ) -> Result<ResultSet, TransactionError> {
        if parameters.len() < self.parameters.len() {
            let message = format!("{} parameters are needed", self.parameters.len());
            return Err(crate::expression::failure("08P01", message).into());
        }
        let context = EvaluationContext {
            timestamp: transaction.timestamp(),
            zone,
            sequences: Some(transaction.sequences()),
            budget: Budget::new(transaction.statement_bytes_max()),
            ..EvaluationContext::default()
        };
        let mut run = Run {
            transaction,
            statement: self.id,
            variables: parameters,
            context: &context,
            constraints: &self.constraints,
            ctes: Vec::new(),
            rows_ahead: 0,
            part_effects: None,
        };
        let (rows, count) = run.statement(&self.statement, Deferral::None).await?;
        Ok(ResultSet {
            columns: self.columns.clone(),
            rows,
            count,
            messages: Vec::new(),
        })
    }
}

impl CompiledAssertion {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tables that its evaluation reads, ascending, each once.
    pub fn tables(&self) -> &[TableId] {
        &self.tables
    }

    /// The table, if it is a condition on each row of that table by itself: then a transaction that has changed rows
    /// evaluates it on these alone ([`CompiledAssertion::holds_for`]).
    pub fn row_table(&self) -> Option<TableId> {
        self.row.as_ref().map(|(schema, _)| schema.id)
    }

    /// The columns on which the condition on a row depends.
    pub fn row_columns(&self) -> ColumnSet {
        self.row
            .as_ref()
            .map_or(ColumnSet::EMPTY, |(_, check)| check.columns)
    }

    /// Whether the rows with these keys satisfy a condition on each row, in a transaction's view. Rows that are not
    /// there do.
    ///
    /// # Errors
    /// Errors that its evaluation raises, and those of the transaction.
    ///
    /// # Panics
    /// If it is no condition on each row.
    pub async fn holds_for<T: Transaction>(
        &self,
        transaction: &mut T,
        keys: Vec<Key>,
    ) -> Result<bool, TransactionError> {
        let (schema, check) = self.row.as_ref().expect("a condition on each row");
        let table = schema.id;
        let reads = keys.into_iter().map(|key| Read::Point { table, key });
        let fetched = transaction
            .read(self.statement.id, false, reads.collect())
            .await?;
        let context = EvaluationContext {
            timestamp: transaction.timestamp(),
            zone: TimeZone::UTC,
            ..EvaluationContext::default()
        };
        let rows = fetched.iter().filter_map(|fetched| match fetched {
            Fetched::Point(row) => row.as_ref(),
            Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => None,
        });
        for row in rows {
            let layout = &schema.layout;
            let sources = [Source::Empty, Source::Row { layout, row }];
            let frame = Frame::of_rows(&[], &sources, &context);
            if check.evaluate(&frame)? == Some(false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether it holds in a transaction's view. As for a CHECK, only false is a violation, and the time zone is UTC.
    ///
    /// # Errors
    /// Errors that its evaluation raises, and those of the transaction.
    pub async fn holds<T: Transaction>(
        &self,
        transaction: &mut T,
    ) -> Result<bool, TransactionError> {
        let statement = &self.statement;
        let result = statement
            .execute_in(TimeZone::UTC, transaction, &[])
            .await?;
        let value = result.rows.first().and_then(|row| row.first());
        Ok(value != Some(&Value::Bool(false)))
    }
}
