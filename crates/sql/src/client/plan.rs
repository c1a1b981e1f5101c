//! Compiles a client's statement.

use std::sync::Arc;

use anabranch_types::DataType;

use super::{
    call::{self, CallShape},
    command::CommandTag,
    connection_calls,
    constant::ConstantStatement,
    runnable::{CLIENT_TEXT, Runnable},
    variables::ClientVariables,
};
use crate::{
    application::{Application, CompiledStatement},
    argument::{ArgumentList, ArgumentSyntax},
    bind::{
        Bind, Binder,
        convert::{Context, exists},
        scope::Scope,
    },
    diagnostic::Diagnostic,
    explain,
    plan::statement::{CompoundKind, StatementKind},
    session_value::SessionValue,
};

/// A client's statement, compiled. It belongs to the application that compiled it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientPlan {
    /// The types of the client's parameters.
    pub parameters: Vec<DataType>,
    /// The columns of its result; `None` if it returns no rows.
    pub columns: Option<Arc<[(String, DataType)]>>,
    /// Its command tag.
    pub tag: CommandTag,
    /// Whether it may write to tables.
    pub writes: bool,
    /// How it runs.
    pub work: ClientWork,
    /// The connection's values to bind behind the client's parameters, in order. An argument of
    /// [`SessionValue::SetConfig`] may be one of those before it.
    pub session_values: Vec<SessionValue>,
}

/// How a statement runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientWork {
    /// In a transaction.
    Statement(Arc<CompiledStatement>),
    /// As a declared procedure, with its plan entry.
    Call {
        /// The procedure, as an index into [`Application::procedures`].
        procedure: usize,
        /// The values of all its input parameters.
        arguments: ArgumentList,
        /// The result for the client.
        shape: CallShape,
    },
    /// Without a transaction: it touches no table.
    Constant(ConstantStatement),
}

impl ClientPlan {
    /// The steps by which it runs, a line each: what EXPLAIN answers.
    pub fn explain(&self, application: &Application) -> String {
        let statement = match &self.work {
            ClientWork::Statement(statement) => statement,
            ClientWork::Constant(constant) => constant.statement(),
            ClientWork::Call { procedure, .. } => {
                return application.procedures[*procedure].explain_call();
            }
        };
        let client = (1..=self.parameters.len()).map(|number| format!("${number}"));
        let session = self.session_values.iter().map(|value| value.to_string());
        let names: Vec<String> = client.chain(session).collect();
        explain::client_statement(statement.plan(), &names)
    }
}

impl Application {
    /// Compiles a client's statement. Parameter types that the client names are kept; `None`, and those beyond the
    /// list, follow from their use.
    ///
    /// # Errors
    /// Its problems. Their places are relative to the statement's own text.
    pub fn client_statement(
        &self,
        statement: &Runnable,
        parameter_types: &[Option<DataType>],
    ) -> Result<ClientPlan, Vec<Diagnostic>> {
        self.compiled_for_client(statement, parameter_types, false)
    }

    /// The same; it may give values also for columns that are GENERATED ALWAYS.
    pub(super) fn compiled_for_client(
        &self,
        statement: &Runnable,
        parameter_types: &[Option<DataType>],
        overrides_identity: bool,
    ) -> Result<ClientPlan, Vec<Diagnostic>> {
        self.planned(statement, parameter_types, overrides_identity)
            .map_err(|problem| vec![of_client(problem)])
    }

    /// Compiles the arguments of `EXECUTE name (…)` for a prepared statement with parameters of these types.
    ///
    /// # Errors
    /// `42601` if their number is another; `42804` if one is of another type.
    pub fn execute_arguments(
        &self,
        name: &str,
        arguments: &ArgumentSyntax,
        types: &[DataType],
    ) -> Result<(ArgumentList, Vec<SessionValue>), Vec<Diagnostic>> {
        self.executed(name, arguments, types)
            .map_err(|problem| vec![of_client(problem)])
    }

    fn planned(
        &self,
        statement: &Runnable,
        types: &[Option<DataType>],
        overrides_identity: bool,
    ) -> Bind<ClientPlan> {
        let variables = ClientVariables::new(types, statement.parameters());
        let mut binder = Binder::new(self.catalog(), &variables, statement.span());
        binder.overrides_identity = overrides_identity;
        if let Some(call) = call::find(&statement.syntax, &binder)? {
            let tag = match call.is_statement() {
                true => CommandTag::Call,
                false => CommandTag::Select,
            };
            let bound = call.bind(self, &mut binder)?;
            let known = std::mem::take(&mut binder.parameters);
            return Ok(ClientPlan {
                parameters: variables.parameters(&known)?,
                columns: bound.columns,
                tag,
                writes: !self.summaries()[bound.procedure].only_reads,
                work: ClientWork::Call {
                    procedure: bound.procedure,
                    arguments: bound.arguments,
                    shape: bound.shape,
                },
                session_values: variables.into_session(),
            });
        }
        let changed = connection_calls::replaced(&statement.syntax, &mut binder, &variables)?;
        let syntax = changed.as_ref().unwrap_or(&statement.syntax);
        let mut bound = self.bound_statement(&mut binder, syntax, statement.span())?;
        bound.kind = with_names(&mut binder, bound.kind)?;
        if let StatementKind::Query(query) = bound.kind.last() {
            bound.columns = query.columns.clone();
        }
        let known = std::mem::take(&mut binder.parameters);
        drop(binder);
        let tag = tag(&bound.kind);
        let parameters = variables.parameters(&known)?;
        let session_values = variables.into_session();
        let mut all = parameters.clone();
        all.extend(session_values.iter().map(SessionValue::data_type));
        let columns = match (tag, bound.columns.is_empty()) {
            (CommandTag::Select, _) | (_, false) => Some(bound.columns.clone().into()),
            (_, true) => None,
        };
        let writes = !matches!(bound.kind, StatementKind::Query(_));
        let is_constant = ConstantStatement::may_be(&bound);
        let compiled = Arc::new(self.finished_statement(bound, all));
        Ok(ClientPlan {
            parameters,
            columns,
            tag,
            writes,
            work: match is_constant {
                true => ClientWork::Constant(ConstantStatement::new(compiled)),
                false => ClientWork::Statement(compiled),
            },
            session_values,
        })
    }

    fn executed(
        &self,
        name: &str,
        arguments: &ArgumentSyntax,
        types: &[DataType],
    ) -> Bind<(ArgumentList, Vec<SessionValue>)> {
        if arguments.len() != types.len() {
            return Err(Diagnostic {
                code: "42601",
                message: format!("wrong number of parameters for prepared statement \"{name}\""),
                span: None,
                detail: None,
                help: Some(format!(
                    "Expected {} parameters but got {}.",
                    types.len(),
                    arguments.len()
                )),
            });
        }
        let variables = ClientVariables::new(&[], 0);
        let mut compiled = Vec::new();
        for (number, ((syntax, span), to)) in arguments.iter().zip(types).enumerate() {
            let mut binder = Binder::new(self.catalog(), &variables, *span);
            let scope = Scope {
                clause: "EXECUTE parameters",
                ..Scope::default()
            };
            binder.scopes.push(scope);
            let bound = binder.expression(syntax)?;
            if !binder.scope().subqueries.is_empty() {
                let message = "cannot use subquery in EXECUTE parameter";
                return Err(Diagnostic::new("0A000", message, *span));
            }
            if let Some(from) = &bound.data_type
                && !exists(from, to, Context::Assignment)
            {
                let message = format!(
                    "parameter ${} of type {from} cannot be coerced to the expected type {to}",
                    number + 1
                );
                return Err(Diagnostic::new("42804", message, *span)
                    .help("You will need to rewrite or cast the expression."));
            }
            let expression = binder.coerce(bound, to, Context::Assignment, syntax)?;
            compiled.push((expression, to.clone()));
        }
        Ok((ArgumentList::new(compiled), variables.into_session()))
    }
}

/// The diagnostic, without a place if that is none of the client's text.
fn of_client(problem: Diagnostic) -> Diagnostic {
    Diagnostic {
        span: problem.span.filter(|span| span.file == CLIENT_TEXT),
        ..problem
    }
}

/// A statement that gives the names of objects in its result, as [`Binder::with_names`].
fn with_names(binder: &mut Binder<'_>, kind: StatementKind) -> Bind<StatementKind> {
    Ok(match kind {
        StatementKind::Query(query) => StatementKind::Query(binder.with_names(query)?),
        StatementKind::Compound(mut several) => {
            if let Some(mut last) = several.parts.pop() {
                last.kind = with_names(binder, last.kind)?;
                several.parts.push(last);
            }
            StatementKind::Compound(several)
        }
        kind => kind,
    })
}

/// The tag of a statement: of a compound one that of its last part.
fn tag(kind: &StatementKind) -> CommandTag {
    match kind {
        StatementKind::Query(_) => CommandTag::Select,
        StatementKind::Insert(_) => CommandTag::Insert,
        StatementKind::Update(_) => CommandTag::Update,
        StatementKind::Delete(_) => CommandTag::Delete,
        StatementKind::Compound(several) => match (&several.kind, several.parts.last()) {
            (CompoundKind::With { .. }, Some(last)) => tag(&last.kind),
            _ => CommandTag::Merge,
        },
    }
}
