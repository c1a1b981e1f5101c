//! Statements, parsed and compiled: what a session runs, and what all sessions share.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_engine::StatementCode;
use anabranch_engine::undeclared::StatementEntry;
use anabranch_sql::Application;
use anabranch_sql::client::{
    self, ClientPlan, ClientStatement, ClientStatementKind, ClientWork, CommandTag, CopyPlan,
    CopyStatement, Runnable,
};
use anabranch_types::DataType;
use anabranch_wire::ErrorFields;
use anabranch_wire::copy::CopyOptions;
use anabranch_wire::format;

use super::copy_form::options_of;
use super::errors::{of_diagnostics, of_effect};
use super::settings;

/// Names and types of a result's columns.
pub(crate) type Columns = Arc<[(String, DataType)]>;

/// What a client is told when a statement has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// This and the number of rows that this Execute has sent.
    Rows(&'static str),
    /// This.
    Text(String),
}

impl Tag {
    /// That of EXPLAIN.
    pub(crate) fn explain() -> Tag {
        Tag::Text("EXPLAIN".to_owned())
    }

    /// The text, after this number of rows.
    pub(crate) fn text(&self, sent: u64) -> String {
        match self {
            Tag::Rows(name) => format!("{name} {sent}"),
            Tag::Text(text) => text.clone(),
        }
    }
}

/// A statement that a client has sent, ready to run with parameters.
pub(crate) struct Prepared {
    /// Distinguishes it from every other one of this process.
    pub(crate) id: u64,
    /// The version of the schema for which it is compiled.
    pub(crate) version: u64,
    /// Its text.
    pub(crate) text: Arc<str>,
    /// What it is.
    pub(crate) kind: PreparedKind,
    /// The OIDs of its parameters' types, as the client is told.
    pub(crate) parameter_oids: Vec<u32>,
    parameter_types: Vec<DataType>,
    columns: Option<Columns>,
}

/// What a statement is.
pub(crate) enum PreparedKind {
    /// Nothing but space and comments.
    Empty,
    /// It runs as a transaction.
    Run(RunPlan),
    /// It concerns the session alone.
    Utility(Box<ClientStatementKind>),
    /// It copies rows from or to the client.
    Copy(Box<CopyRun>),
    /// It explains another.
    Explain {
        options: client::ExplainOptions,
        plan: RunPlan,
    },
}

/// A COPY.
pub(crate) struct CopyRun {
    /// Whether rows come from the client.
    pub(crate) is_from: bool,
    /// The form of the data.
    pub(crate) options: CopyOptions,
    /// The columns that are copied.
    pub(crate) columns: Columns,
    /// The table's name; empty for a query.
    pub(crate) table: String,
    /// The statement that reads the rows, or writes them from one array a column.
    pub(crate) statement: Arc<Prepared>,
}

impl CopyRun {
    fn new(
        copy: &CopyStatement,
        compiled: CopyPlan,
        version: u64,
    ) -> Result<CopyRun, Box<ErrorFields>> {
        let CopyPlan {
            plan,
            text,
            columns,
            table,
        } = compiled;
        let statement = Prepared {
            id: next_id(),
            version,
            text,
            parameter_oids: Vec::new(),
            parameter_types: plan.parameters.clone(),
            columns: plan.columns.clone(),
            kind: PreparedKind::Run(RunPlan {
                plan,
                entry: OnceLock::new(),
            }),
        };
        Ok(CopyRun {
            is_from: copy.is_from,
            options: options_of(&copy.options, &columns)?,
            columns,
            table,
            statement: Arc::new(statement),
        })
    }
}

/// A compiled statement, and its entry in the plan once it has one.
pub(crate) struct RunPlan {
    pub(crate) plan: ClientPlan,
    /// The entry of a statement that writes, under a plan.
    pub(crate) entry: OnceLock<Arc<StatementEntry>>,
}

impl Prepared {
    /// The types of its parameters.
    pub(crate) fn parameter_types(&self) -> &[DataType] {
        &self.parameter_types
    }

    /// The columns of its result, if it returns rows.
    pub(crate) fn columns(&self) -> Option<&Columns> {
        self.columns.as_ref()
    }

    /// Its compiled statement, if it has one.
    pub(crate) fn run_plan(&self) -> Option<&RunPlan> {
        match &self.kind {
            PreparedKind::Run(plan) | PreparedKind::Explain { plan, .. } => Some(plan),
            PreparedKind::Copy(copy) => copy.statement.run_plan(),
            PreparedKind::Empty | PreparedKind::Utility(_) => None,
        }
    }

    /// Whether it is a statement that changes data by itself, not by what it calls.
    pub(crate) fn changes_data(&self) -> bool {
        let plan = self.run_plan().map(|run| &run.plan);
        plan.is_some_and(|plan| plan.writes && !matches!(plan.work, ClientWork::Call { .. }))
    }

    /// Whether it is accepted in a block that has failed: it ends the block or a part of it, or does nothing.
    pub(crate) fn ends_transaction(&self) -> bool {
        use anabranch_sql::client::TransactionStatement::{Commit, Rollback, RollbackTo};
        match &self.kind {
            PreparedKind::Empty => true,
            PreparedKind::Utility(statement) => matches!(
                &**statement,
                ClientStatementKind::Transaction(Commit { .. } | Rollback { .. } | RollbackTo(_))
            ),
            PreparedKind::Run(_) | PreparedKind::Explain { .. } | PreparedKind::Copy(_) => false,
        }
    }

    /// The tag of a statement that changes the schema or the plan.
    pub(crate) fn change_tag(&self) -> Option<&'static str> {
        match &self.kind {
            PreparedKind::Utility(statement) => match &**statement {
                ClientStatementKind::Change(statement) => Some(statement.tag()),
                ClientStatementKind::ResetSystem(_) => Some("ALTER SYSTEM"),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether running it makes calls of nodes.
    pub(crate) fn is_executed(&self) -> bool {
        self.executed().is_some()
    }

    /// Whether it is what a COPY runs: its parameters are the COPY's rows, and no client knows its text.
    pub(crate) fn is_of_copy(&self) -> bool {
        self.parameter_oids.len() != self.parameter_types.len()
    }

    /// Whether running it reads or writes rows.
    pub(crate) fn touches_tables(&self) -> bool {
        self.executed().is_some_and(RunPlan::touches_tables)
    }

    /// The plan that running it executes: not that of a plain EXPLAIN.
    fn executed(&self) -> Option<&RunPlan> {
        match &self.kind {
            PreparedKind::Explain { options, .. } if !options.analyze => None,
            _ => self.run_plan(),
        }
    }

    /// The tag of a portal that has nothing more to return.
    pub(crate) fn tag_of_nothing(&self) -> String {
        match &self.kind {
            PreparedKind::Run(run) => run.tag(0).text(0),
            _ => Tag::Rows("SELECT").text(0),
        }
    }

    pub(crate) fn new(
        statement: Option<ClientStatement>,
        whole: &str,
        types: &[u32],
        (version, application): (u64, &Application),
    ) -> Result<Prepared, Box<ErrorFields>> {
        let Some(ClientStatement { kind, text, start }) = statement else {
            return Ok(Prepared {
                id: next_id(),
                version,
                text: whole.into(),
                kind: PreparedKind::Empty,
                parameter_oids: types.to_vec(),
                parameter_types: known_types(types, application)?
                    .into_iter()
                    .map(|of| of.unwrap_or(DataType::Text))
                    .collect(),
                columns: None,
            });
        };
        let compile = |runnable: &Runnable| -> Result<RunPlan, Box<ErrorFields>> {
            let named = known_types(types, application)?;
            let plan = application
                .client_statement(runnable, &named)
                .map_err(|problems| of_diagnostics(&problems, runnable.start(), whole))?;
            Ok(RunPlan {
                plan,
                entry: OnceLock::new(),
            })
        };
        let (kind, columns) = match kind {
            ClientStatementKind::Run(runnable) => {
                let run = compile(&runnable)?;
                let columns = run.plan.columns.clone();
                (PreparedKind::Run(run), columns)
            }
            ClientStatementKind::Copy(copy) => {
                let compiled = application
                    .copy(&copy)
                    .map_err(|problems| of_diagnostics(&problems, start, whole))?;
                let run = CopyRun::new(&copy, compiled, version)?;
                (PreparedKind::Copy(Box::new(run)), None)
            }
            ClientStatementKind::Explain { options, statement } => {
                let plan = compile(&statement)?;
                let columns = Some(explain_columns());
                (PreparedKind::Explain { options, plan }, columns)
            }
            other => {
                let columns = utility_columns(&other);
                (PreparedKind::Utility(Box::new(other)), columns)
            }
        };
        let parameter_types = match &kind {
            PreparedKind::Run(run) | PreparedKind::Explain { plan: run, .. } => {
                run.plan.parameters.clone()
            }
            _ => Vec::new(),
        };
        Ok(Prepared {
            id: next_id(),
            version,
            text,
            kind,
            // What the client has named is told as it was named: `varchar` stays `varchar`.
            parameter_oids: parameter_types
                .iter()
                .enumerate()
                .map(|(place, data_type)| match types.get(place).copied() {
                    Some(0 | format::UNKNOWN) | None => format::oid_of(data_type),
                    Some(named) => named,
                })
                .collect(),
            parameter_types,
            columns,
        })
    }
}

/// A number that no other statement has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl RunPlan {
    /// What a block runs for it; `None` if it touches no table.
    pub(crate) fn code(&self) -> Option<StatementCode> {
        match &self.plan.work {
            ClientWork::Statement(statement) => {
                Some(StatementCode::Statement(Arc::clone(statement)))
            }
            ClientWork::Call { procedure, .. } => Some(StatementCode::Procedure(*procedure)),
            _ => None,
        }
    }

    /// Whether it reads or writes rows.
    pub(crate) fn touches_tables(&self) -> bool {
        !matches!(self.plan.work, ClientWork::Constant(_))
    }

    /// The command's name, as errors write it.
    pub(crate) fn tag_name(&self) -> &'static str {
        self.plan.tag.name()
    }

    /// What the client is told when it has ended with this count.
    pub(crate) fn tag(&self, count: u64) -> Tag {
        match self.plan.tag {
            CommandTag::Select => Tag::Rows("SELECT"),
            CommandTag::Copy if self.plan.columns.is_some() => Tag::Rows("COPY"),
            other => Tag::Text(other.complete(count)),
        }
    }
}

/// The data types with these OIDs; `None` for one that is to be inferred.
fn known_types(
    oids: &[u32],
    application: &Application,
) -> Result<Vec<Option<DataType>>, Box<ErrorFields>> {
    let of = |oid: &u32| match application.catalog().type_with_oid(*oid) {
        Some(own) => Ok(Some(own)),
        None => format::data_type_of(*oid).map_err(|failure| of_effect(&failure)),
    };
    oids.iter().map(of).collect()
}

/// The columns of a statement's result, if it returns rows whatever the session holds.
pub(crate) fn utility_columns(statement: &ClientStatementKind) -> Option<Columns> {
    let text = |names: &[&str]| -> Columns {
        let columns = names
            .iter()
            .map(|name| ((*name).to_owned(), DataType::Text));
        columns.collect()
    };
    match statement {
        ClientStatementKind::Show(None) => Some(text(&["name", "setting", "description"])),
        ClientStatementKind::Show(Some(name)) => Some(text(&[&settings::canonical_name(name)])),
        _ => None,
    }
}

/// The name of the result's column, as in PostgreSQL.
const COLUMN: &str = "QUERY PLAN";

/// The columns of an explanation.
pub(crate) fn explain_columns() -> Columns {
    [(COLUMN.to_owned(), DataType::Text)].into()
}
