//! Recognises operations: which transaction type the statements of a client are, whether it runs at once or with the
//! token, and on which server (operation-partitioning.txt §5, `docs/belt.md`).
//!
//! A [`Recogniser`] is made once of the application and its plan, and does no input or output.
//!
//! 1. [`Recogniser::read`] reads a statement's text: whether it is a `call` of a declared routine, and else what it may
//!    do to which `tables` (by its `words`).
//! 2. [`Recogniser::advance`] says what an operation that goes on with a statement is, with the values that the client
//!    has bound (`operand`).
//! 3. [`Recogniser::finish`] says what it is if it ends now.
//!
//! What is not certain is never guessed: an operation that might need rows of another server, or whose changes might
//! have to reach other servers, is not local.

mod call;
mod operand;
mod tables;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use anabranch_analysis::Plan;
use anabranch_analysis::partition::{KeyPlacement, OperationClass, PartitionedType};
use anabranch_dbms::Servers;
use anabranch_dbms::servers::Unknown;
use anabranch_protocol::belt::ServerId;
use anabranch_sql::SourceFile;
use anabranch_sql::parse::parse_statements;
use anabranch_sql::script::Script;
use anabranch_types::DataType;

use call::{Call, Declaration, Routine};
pub use operand::Arguments;
use tables::{Judgement, Tables, Touched};

/// Recognises the operations of one application. Immutable: all connections share one.
#[derive(Debug)]
pub struct Recogniser {
    /// The transaction types, in the order of the plan.
    types: Vec<TransactionType>,
    routines: BTreeMap<String, Routine>,
    tables: Tables,
    keys: KeyPlacement,
    unknown: Unknown,
    /// The servers' names, by place.
    servers: Vec<String>,
}

#[derive(Debug)]
struct TransactionType {
    name: Arc<str>,
    partitioned: PartitionedType,
    /// Whether its operations have to run on the server of their key.
    needs_key: bool,
    parameters: Vec<(String, DataType)>,
}

/// A statement, as [`Recogniser::read`] has read its text.
#[derive(Clone, Debug)]
pub struct Statement(Arc<StatementKind>);

#[derive(Debug)]
enum StatementKind {
    /// A call of a declared routine, and nothing else.
    Call(Call),
    /// Anything else, judged by the tables that it names.
    Other(Judgement),
}

/// The statements of one operation so far.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    /// What its statements need together.
    needs: Option<Needs>,
    /// How many statements it has.
    count: usize,
}

/// What one or more statements need.
#[derive(Clone, Debug)]
struct Needs {
    class: Class,
    server: Option<u16>,
    why: Reason,
}

/// Where an operation runs.
#[derive(Clone, Debug)]
pub struct Route {
    /// How far it is coordinated.
    pub class: Class,
    /// The server that runs it. `None`: any, or not known yet if the class is [`Class::Open`].
    pub server: Option<ServerId>,
    /// The name of its transaction type, if it is one.
    pub operation: Option<Arc<str>>,
    /// Why, for people.
    pub why: Reason,
}

/// How far an operation is coordinated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It touches no rows of the application.
    Nothing,
    /// It runs at once, on its server.
    Local,
    /// It runs when its server has the token.
    Global,
    /// Its statements so far leave this open.
    Open,
}

/// Why an operation has its route. Made into text when it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has no statement that touches rows of the application.
    NoRows,
    /// It is of this transaction type.
    Type {
        /// The type's name.
        name: Arc<str>,
        /// The type's class.
        class: OperationClass,
        /// The names of the parameters that route it.
        routed_by: Vec<String>,
    },
    /// It consists of several statements that are operations of their own.
    Several,
    /// It is no transaction type, and was judged by the tables that it names.
    Tables(Arc<str>),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoRows => f.write_str("it touches no rows of the application"),
            Reason::Type {
                name,
                class,
                routed_by,
            } => {
                let class = match class {
                    OperationClass::Commutative => "commutative",
                    OperationClass::Local => "local",
                    OperationClass::LocalOrGlobal => "local-or-global",
                    OperationClass::Global => "global",
                };
                write!(f, "{name} is {class}")?;
                match routed_by.is_empty() {
                    true => f.write_str(", on any server"),
                    false => write!(f, ", routed by {}", routed_by.join(" and ")),
                }
            }
            Reason::Tables(why) => f.write_str(why),
            Reason::Several => {
                f.write_str("its statements are several operations, run as one transaction")
            }
        }
    }
}

/// An operation that the ring cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The SQLSTATE.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Refusal {
    fn unsupported(message: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal {
            code: "0A000",
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl Recogniser {
    /// Recognises the operations of an application by its analysis.
    ///
    /// # Errors
    /// When the plan has no operation partitioning: it was made for another guarantee than serializability.
    pub fn new(script: &Script, plan: &Plan, servers: &Servers) -> Result<Recogniser, String> {
        let Some(partitioning) = &plan.partitioning else {
            return Err(
                "error: the application was not analysed for serializability, which a ring needs"
                    .to_owned(),
            );
        };
        let types = plan.entries.iter().zip(&partitioning.types).enumerate();
        let types: Vec<TransactionType> = types
            .map(|(place, (entry, partitioned))| {
                let summary = script.summaries.iter().find(|of| of.name == entry.name);
                TransactionType {
                    name: entry.name.as_str().into(),
                    partitioned: partitioned.clone(),
                    needs_key: partitioning.needs_key(place),
                    parameters: summary.map_or(Vec::new(), |of| of.parameters.clone()),
                }
            })
            .collect();
        let clients: BTreeSet<&str> = script.clients.iter().map(|of| of.name.as_str()).collect();
        let procedures = &script.application.catalog().procedures;
        let routines = types.iter().enumerate();
        let routines = routines.filter(|(_, of)| !clients.contains(&*of.name));
        let routines = routines.map(|(place, of)| {
            let declared = procedures
                .iter()
                .find(|procedure| *procedure.name == *of.name);
            let routine = Routine {
                place,
                routing: of.partitioned.parameters.clone(),
                declaration: declared.map(|procedure| Declaration::of(procedure)),
            };
            (of.name.to_string(), routine)
        });
        let count = u16::try_from(servers.server.len()).unwrap_or(u16::MAX);
        Ok(Recogniser {
            routines: routines.collect(),
            tables: Tables::new(script, partitioning, &clients),
            types,
            // As the installation gives them: a server's numbers have its place as their residue.
            keys: KeyPlacement::new(0, servers.slots, count),
            unknown: servers.unknown,
            servers: servers.server.iter().map(|of| of.name.clone()).collect(),
        })
    }

    /// Reads a statement's text.
    pub fn read(&self, text: &str) -> Statement {
        let file = SourceFile::new("statement", text);
        let call = match parse_statements(&file, 0).as_deref() {
            Ok([(statement, _)]) => call::call(statement, &self.routines),
            _ => None,
        };
        let kind = match call {
            Some(call) => StatementKind::Call(call),
            None => StatementKind::Other(self.tables.judge(text)),
        };
        Statement(Arc::new(kind))
    }

    /// What an operation is that goes on with this statement. If the class is not [`Class::Open`], it stays as it is
    /// unless a later statement changes it.
    ///
    /// # Errors
    /// When the ring cannot run such an operation. `operation` is then as before.
    pub fn advance(
        &self,
        operation: &mut Operation,
        statement: &Statement,
        arguments: &Arguments<'_>,
    ) -> Result<Route, Refusal> {
        let needs = match &*statement.0 {
            StatementKind::Call(call) => self.call(call, arguments)?,
            StatementKind::Other(Judgement::Nothing) => return self.finish(operation),
            StatementKind::Other(_) if self.unknown == Unknown::Refuse => {
                return Err(no_type());
            }
            StatementKind::Other(Judgement::Refused(refusal)) => return Err(refusal.clone()),
            StatementKind::Other(Judgement::Rows(touched)) => self.touched(touched, arguments)?,
        };
        let joined = match &operation.needs {
            None => needs,
            Some(before) => self.join(before, &needs)?,
        };
        operation.needs = Some(joined);
        operation.count += 1;
        self.finish(operation)
    }

    /// What an operation is that ends with the statements so far.
    ///
    /// # Errors
    /// When the ring cannot run such an operation.
    pub fn finish(&self, operation: &Operation) -> Result<Route, Refusal> {
        let Some(needs) = &operation.needs else {
            return Ok(Route {
                class: Class::Nothing,
                server: None,
                operation: None,
                why: Reason::NoRows,
            });
        };
        Ok(Route {
            class: needs.class,
            server: needs.server.map(ServerId),
            operation: match &needs.why {
                Reason::Type { name, .. } => Some(Arc::clone(name)),
                _ => None,
            },
            why: needs.why.clone(),
        })
    }

    fn call(&self, call: &Call, arguments: &Arguments<'_>) -> Result<Needs, Refusal> {
        let of = &self.types[call.place];
        let server_of = |parameter: usize| {
            let (_, operand) = call.arguments.iter().find(|(of, _)| *of == parameter)?;
            let (_, wanted) = &of.parameters[parameter];
            let key = operand.value(wanted, arguments)?;
            Some(self.keys.server_of(&key))
        };
        match of.partitioned.route(server_of) {
            Ok(route) => Ok(Needs {
                class: match route.is_global {
                    true => Class::Global,
                    false => Class::Local,
                },
                server: route.server,
                why: of.reason(),
            }),
            Err(_) if !of.needs_key => Ok(Needs {
                class: match of.partitioned.class {
                    OperationClass::Global => Class::Global,
                    _ => Class::Local,
                },
                server: None,
                why: of.reason(),
            }),
            Err(parameter) => {
                let name = of.parameter(parameter);
                Err(Refusal::unsupported(
                    format!(
                        "the rows of {} are on one server, and which one cannot be told: the value of {name} is not known before \
                         the statement runs",
                        of.name
                    ),
                    format!("pass a constant or a parameter for {name}"),
                ))
            }
        }
    }

    /// What two parts of one transaction need together. Each is an operation that could run alone, so what conflicts
    /// with the whole conflicts with a part, and is kept on that part's server, or the part is global.
    fn join(&self, one: &Needs, other: &Needs) -> Result<Needs, Refusal> {
        if self.unknown == Unknown::Refuse {
            return Err(no_type());
        }
        Ok(Needs {
            class: one.class.max(other.class),
            server: self.common(one.server, other.server)?,
            why: Reason::Several,
        })
    }

    /// What a statement needs that is no transaction type.
    fn touched(&self, touched: &Touched, arguments: &Arguments<'_>) -> Result<Needs, Refusal> {
        let mut server = None;
        for key in &touched.keys {
            let Some(value) = key.operand.value(&key.data_type, arguments) else {
                return Err(Refusal::unsupported(
                    format!(
                        "the server of the rows cannot be told: the value of {} is no constant of its type",
                        key.column
                    ),
                    "pass a value of the column's type",
                ));
            };
            server = self.common(server, Some(self.keys.server_of(&value)))?;
        }
        Ok(Needs {
            class: match touched.writes {
                true => Class::Global,
                false => Class::Local,
            },
            server,
            why: Reason::Tables(Arc::clone(&touched.why)),
        })
    }

    /// The server of two parts of an operation.
    fn common(&self, one: Option<u16>, other: Option<u16>) -> Result<Option<u16>, Refusal> {
        match (one, other) {
            (Some(one), Some(other)) if one != other => Err(Refusal::unsupported(
                format!(
                    "this transaction needs rows of two servers, {} and {}",
                    self.servers[usize::from(one)],
                    self.servers[usize::from(other)]
                ),
                "use rows of one server in a transaction, or add it to the application's files, so that the analysis makes it global",
            )),
            (one, other) => Ok(one.or(other)),
        }
    }
}

fn no_type() -> Refusal {
    Refusal::unsupported(
        "this is no transaction type of the application, and unknown = \"refuse\" is set",
        "add the transaction to the application's files, or set unknown = \"global\" in the file of the servers",
    )
}

impl TransactionType {
    fn parameter(&self, place: usize) -> &str {
        self.parameters
            .get(place)
            .map_or("its parameter", |(name, _)| name)
    }

    fn reason(&self) -> Reason {
        let routing = self.partitioned.parameters.iter();
        Reason::Type {
            name: Arc::clone(&self.name),
            class: self.partitioned.class,
            routed_by: routing
                .map(|place| self.parameter(*place).to_owned())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
