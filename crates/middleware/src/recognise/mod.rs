//! Recognises operations: which transaction type the statements of a client are, whether it runs at once or with the
//! token, and on which server (operation-partitioning.txt §5, `docs/belt.md`).
//!
//! A [`Recogniser`] is made once of the application and its plan, and does no input or output.
//!
//! 1. [`Recogniser::read`] reads a statement's text: its `shape`; whether it is a `call` of a declared routine, and else
//!    what it may do to which `tables` (by its `words`); the name that a `comment` gives to the operation.
//! 2. [`Recogniser::advance`] says what an operation that goes on with a statement is, with the values that the client
//!    has bound (`operand`). The `automaton` has the transaction types that programs and SQL files run; the candidates are
//!    those that can have begun so. If there is none left, the operation is the sum of its statements.
//! 3. [`Recogniser::finish`] says what it is if it ends now.
//!
//! What is not certain is never guessed: an operation that might need rows of another server, or whose changes might
//! have to reach other servers, is not local.

mod automaton;
mod call;
mod comment;
mod operand;
mod shape;
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

use automaton::{Automaton, Bound, Candidate, ShapeId};
use call::{Call, Declaration, Routine};
pub use operand::Arguments;
use shape::{Shape, Slot};
use tables::{Judgement, RowAccess, Tables};
use words::{Lexeme, lexemes};

/// Recognises the operations of one application. Immutable: all connections share one.
#[derive(Debug)]
pub struct Recogniser {
    /// The transaction types, in the order of the plan.
    types: Vec<TransactionType>,
    routines: BTreeMap<String, Routine>,
    automaton: Automaton,
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
    reason: Reason,
}

/// A statement, as [`Recogniser::read`] has read its text. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement(Arc<ReadStatement>);

#[derive(Debug)]
struct ReadStatement {
    /// Its shape and values, if a transaction type has a statement of this shape.
    shape: Option<(ShapeId, Vec<Slot>)>,
    kind: StatementKind,
    /// The name that a comment gives to the operation.
    action: Option<String>,
}

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
    /// Whether it has a statement that touches rows which some operation writes.
    is_begun: bool,
    /// The transaction types of clients that can have begun so.
    candidates: Vec<Candidate>,
    /// What its statements are together, each taken for itself.
    sum: Sum,
}

/// What statements are together.
#[derive(Clone, Debug, Default)]
enum Sum {
    /// None of them touches rows of the application.
    #[default]
    Nothing,
    /// They can run as one operation.
    Needs(Needs),
    /// They cannot.
    Refused(Refusal),
}

/// What one or more statements need.
#[derive(Clone, Debug)]
struct Needs {
    class: Class,
    server: Option<u16>,
    why: Reason,
}

/// What a transaction type would make of an operation, as far as it is certain.
#[derive(Clone, Debug)]
struct Standing {
    class: Option<Class>,
    /// The server, or that any will do.
    server: Option<Option<u16>>,
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
        routed_by: Arc<[String]>,
    },
    /// It consists of several statements that are operations of their own.
    Several,
    /// It is no transaction type, and was judged by the tables that it names.
    Tables(Arc<str>),
    /// So many transaction types can have begun so.
    Candidates(usize),
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
            Reason::Candidates(count) => write!(f, "{count} transaction types begin so"),
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

/// The most operators, of those that are words, in one statement.
const OPERATORS_MAX: usize = 1_000;

/// Whether a statement has so many operators that its tree would be too deep to walk. The parser counts all others.
fn is_too_deep(words: &[Lexeme]) -> bool {
    let operators = words.iter().filter(|word| {
        word.is_any(&[
            "at", "like", "ilike", "similar", "between", "collate", "overlaps", "operator",
            "regexp", "rlike", "div", "xor", "any", "all",
        ])
    });
    operators.count() > OPERATORS_MAX
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
                let parameters = summary.map_or(Vec::new(), |of| of.parameters.clone());
                let routing = partitioned.parameters.iter();
                let routed_by = routing.map(|place| named(&parameters, *place).to_owned());
                let name: Arc<str> = entry.name.as_str().into();
                TransactionType {
                    reason: Reason::Type {
                        name: Arc::clone(&name),
                        class: partitioned.class,
                        routed_by: routed_by.collect(),
                    },
                    name,
                    partitioned: partitioned.clone(),
                    needs_key: partitioning.needs_key(place),
                    parameters,
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
        let mut automaton = Automaton::default();
        for client in &script.clients {
            if let Some(place) = types.iter().position(|of| *of.name == *client.name) {
                automaton.add(client, place, &types[place].parameters);
            }
        }
        let count = u16::try_from(servers.server.len()).unwrap_or(u16::MAX);
        Ok(Recogniser {
            routines: routines.collect(),
            automaton,
            tables: Tables::new(script, partitioning, &clients),
            types,
            // As the installation gives them: a server's numbers have its place as their residue.
            keys: KeyPlacement::new(0, servers.slots, count),
            unknown: servers.unknown,
            servers: servers.server.iter().map(|of| of.name.clone()).collect(),
        })
    }

    /// Adds tables that the application's files do not declare, and whose changes the belt captures all the same.
    #[must_use]
    pub fn with_shipped_tables(mut self, names: impl IntoIterator<Item = String>) -> Recogniser {
        self.tables.ship(names);
        self
    }

    /// Takes over which server each slot of keys belongs to: in a ring that servers have joined or left it is not as in a new
    /// one.
    #[must_use]
    pub fn with_owners(mut self, owners: &[u16]) -> Recogniser {
        self.keys = KeyPlacement::of_owners(0, owners);
        self
    }

    /// Reads a statement's text.
    pub fn read(&self, text: &str) -> Statement {
        let words = lexemes(text);
        let words = words.as_deref();
        if words.is_some_and(is_too_deep) {
            return Statement(Arc::new(ReadStatement {
                shape: None,
                kind: StatementKind::Other(Judgement::Refused(Refusal {
                    code: "54001",
                    message: "statement is too complex".to_owned(),
                    hint: format!("At most {OPERATORS_MAX} operators are read in one statement."),
                })),
                action: None,
            }));
        }
        // Most statements name no routine, and need no parser.
        let names_routine = words.is_none_or(|words| {
            let mut names = words.iter().filter(|word| word.is_name());
            names.any(|name| self.routines.contains_key(&name.text))
        });
        let parsed = || {
            let file = SourceFile::new("statement", text);
            match parse_statements(&file, 0).as_deref() {
                Ok([(statement, _)]) => call::call(statement, &self.routines),
                _ => None,
            }
        };
        let call = match words.filter(|_| names_routine) {
            None => None,
            Some(words) => call::plain_call(text, words, &self.routines).or_else(parsed),
        };
        let kind = match call {
            Some(call) => StatementKind::Call(call),
            None => StatementKind::Other(self.tables.judge(text, words)),
        };
        let shape = words.and_then(|words| {
            let shape = Shape::of(text, words);
            let id = self.automaton.shape(&shape)?;
            Some((id, shape.slots))
        });
        Statement(Arc::new(ReadStatement {
            shape,
            kind,
            action: comment::action(text),
        }))
    }

    /// What an operation is that goes on with this statement: class and server as far as they are the same for all
    /// transaction types that can have begun so. A later statement may still change them, if the operation is of none of
    /// these types.
    ///
    /// # Errors
    /// When the ring cannot run such an operation. `operation` is then as before.
    pub fn advance(
        &self,
        operation: &mut Operation,
        statement: &Statement,
        arguments: &Arguments<'_>,
    ) -> Result<Route, Refusal> {
        let next = self.extended(operation, &statement.0, arguments);
        let route = self.so_far(&next)?;
        *operation = next;
        Ok(route)
    }

    /// What an operation is that ends with the statements so far.
    ///
    /// # Errors
    /// When the ring cannot run such an operation.
    pub fn finish(&self, operation: &Operation) -> Result<Route, Refusal> {
        if !operation.is_begun {
            return self.sum(operation);
        }
        // The operation is of each of these types, so each one's class is right: at once is better than with the token.
        let mut fitting: Vec<(Class, bool, Needs)> = Vec::new();
        let mut refusal = None;
        for candidate in &operation.candidates {
            match self.ended(candidate) {
                Ok(needs) => {
                    let is_part = !self.automaton.is_complete(candidate);
                    fitting.push((needs.class, is_part, needs));
                }
                Err(refused) => refusal = Some(refused),
            }
        }
        let is_type = |needs: &Needs| matches!(needs.why, Reason::Type { .. });
        match &operation.sum {
            Sum::Needs(needs) if is_type(needs) || fitting.is_empty() => {
                fitting.push((needs.class, false, needs.clone()));
            }
            _ => {}
        }
        let best = fitting
            .into_iter()
            .min_by_key(|(class, is_part, _)| (*class, *is_part));
        match (best, refusal) {
            (Some((_, _, needs)), _) => Ok(needs.route()),
            (None, Some(refusal)) => Err(refusal),
            (None, None) => self.sum(operation),
        }
    }

    /// The operation with one more statement.
    fn extended(
        &self,
        operation: &Operation,
        statement: &ReadStatement,
        arguments: &Arguments<'_>,
    ) -> Operation {
        let mut candidates = match &statement.shape {
            None => Vec::new(),
            Some((shape, slots)) => self.automaton.advance(
                &operation.candidates,
                !operation.is_begun,
                (*shape, slots),
                arguments,
            ),
        };
        // What touches no rows, or only rows that no operation writes, is no part of a type, but may stand beside it.
        let stands_beside = match &statement.kind {
            StatementKind::Other(Judgement::Nothing) => true,
            StatementKind::Other(Judgement::Rows(touched)) => touched.is_constant,
            _ => false,
        };
        if stands_beside {
            for before in &operation.candidates {
                if !candidates.contains(before) {
                    candidates.push(before.clone());
                }
            }
        }
        if let Some(action) = &statement.action {
            let is_named = |candidate: &Candidate| {
                *self.types[self.automaton.place(candidate)].name == **action
            };
            if candidates.iter().any(is_named) {
                candidates.retain(is_named);
            }
        }
        Operation {
            is_begun: operation.is_begun || !stands_beside,
            candidates,
            sum: self.added(&operation.sum, statement, arguments),
        }
    }

    /// What the statements so far and one more are together.
    fn added(&self, before: &Sum, statement: &ReadStatement, arguments: &Arguments<'_>) -> Sum {
        let needs = match &statement.kind {
            StatementKind::Call(call) => self.call(call, arguments),
            StatementKind::Other(Judgement::Nothing) => return before.clone(),
            StatementKind::Other(_) if self.unknown == Unknown::Refuse => Err(no_type()),
            StatementKind::Other(Judgement::Refused(refusal)) => Err(refusal.clone()),
            StatementKind::Other(Judgement::Rows(touched)) => self.touched(touched, arguments),
        };
        let joined = match (before, needs) {
            (Sum::Refused(refusal), _) => Err(refusal.clone()),
            (_, Err(refusal)) => Err(refusal),
            (Sum::Nothing, Ok(needs)) => Ok(needs),
            (Sum::Needs(before), Ok(needs)) => self.join(before, &needs),
        };
        match joined {
            Ok(needs) => Sum::Needs(needs),
            Err(refusal) => Sum::Refused(refusal),
        }
    }

    /// The route by the statements' sum.
    fn sum(&self, operation: &Operation) -> Result<Route, Refusal> {
        match &operation.sum {
            Sum::Nothing => Ok(Needs {
                class: Class::Nothing,
                server: None,
                why: Reason::NoRows,
            }
            .route()),
            Sum::Needs(needs) => Ok(needs.route()),
            Sum::Refused(refusal) => Err(refusal.clone()),
        }
    }

    /// The route of an operation that may go on.
    fn so_far(&self, operation: &Operation) -> Result<Route, Refusal> {
        let candidates = operation.candidates.iter();
        let mut standings: Vec<Standing> = candidates
            .map(|candidate| self.standing(candidate))
            .collect();
        match &operation.sum {
            // It is a call, and may end here; or it has not yet begun.
            Sum::Needs(needs)
                if !operation.is_begun || matches!(needs.why, Reason::Type { .. }) =>
            {
                standings.push(Standing {
                    class: Some(needs.class),
                    server: Some(needs.server),
                    why: needs.why.clone(),
                });
            }
            _ => {}
        }
        let Some((first, others)) = standings.split_first() else {
            return self.sum(operation);
        };
        if operation.candidates.is_empty() {
            return self.sum(operation);
        }
        let agreed_class = others.iter().all(|of| of.class == first.class);
        let agreed_server = others.iter().all(|of| of.server == first.server);
        let server = first.server.filter(|_| agreed_server);
        // While it only reads what no operation writes, nothing is to be waited for.
        let is_certain = agreed_class && server.is_some() && operation.is_begun;
        let class = first.class.filter(|_| is_certain);
        let is_one_type = others.iter().all(|of| of.why == first.why);
        let needs = Needs {
            class: class.unwrap_or(Class::Open),
            server: server.flatten(),
            why: match is_one_type {
                true => first.why.clone(),
                false => Reason::Candidates(standings.len()),
            },
        };
        Ok(needs.route())
    }

    /// What a candidate would make of the operation, as far as the values so far tell.
    fn standing(&self, candidate: &Candidate) -> Standing {
        let of = &self.types[self.automaton.place(candidate)];
        let parameters = &of.partitioned.parameters;
        let servers: Vec<Option<u16>> = parameters
            .iter()
            .map(|parameter| self.bound_server(candidate, *parameter))
            .collect();
        let server = match servers.first() {
            _ if !of.needs_key => Some(None),
            None => Some(None),
            Some(first) => first.map(Some),
        };
        let is_apart = |server: &Option<u16>| server.is_some() && *server != servers[0];
        let class = match of.partitioned.class {
            OperationClass::Commutative | OperationClass::Local => Some(Class::Local),
            OperationClass::Global => Some(Class::Global),
            OperationClass::LocalOrGlobal if servers.iter().all(Option::is_some) => {
                let agree = servers.iter().all(|server| *server == servers[0]);
                Some(if agree { Class::Local } else { Class::Global })
            }
            OperationClass::LocalOrGlobal => {
                (servers[0].is_some() && servers.iter().any(is_apart)).then_some(Class::Global)
            }
        };
        Standing {
            class,
            server,
            why: of.reason.clone(),
        }
    }

    /// What a candidate makes of the operation if it ends here.
    fn ended(&self, candidate: &Candidate) -> Result<Needs, Refusal> {
        let of = &self.types[self.automaton.place(candidate)];
        self.of_type(of, |parameter| self.bound_server(candidate, parameter))
    }

    fn bound_server(&self, candidate: &Candidate, parameter: usize) -> Option<u16> {
        match candidate.value(parameter) {
            Bound::Value(key) => Some(self.keys.server_of(key)),
            Bound::NotYet | Bound::Unreadable => None,
        }
    }

    fn call(&self, call: &Call, arguments: &Arguments<'_>) -> Result<Needs, Refusal> {
        let of = &self.types[call.place];
        self.of_type(of, |parameter| {
            let (_, operand) = call.arguments.iter().find(|(of, _)| *of == parameter)?;
            let (_, wanted) = &of.parameters[parameter];
            let key = operand.value(wanted, arguments)?;
            Some(self.keys.server_of(&key))
        })
    }

    /// What an operation of a type needs; `server_of` gives the servers of its parameters.
    fn of_type(
        &self,
        of: &TransactionType,
        server_of: impl Fn(usize) -> Option<u16>,
    ) -> Result<Needs, Refusal> {
        match of.partitioned.route(server_of) {
            Ok(route) => Ok(Needs {
                class: match route.is_global {
                    true => Class::Global,
                    false => Class::Local,
                },
                server: route.server,
                why: of.reason.clone(),
            }),
            Err(_) if !of.needs_key => Ok(Needs {
                class: match of.partitioned.class {
                    OperationClass::Global => Class::Global,
                    _ => Class::Local,
                },
                server: None,
                why: of.reason.clone(),
            }),
            Err(parameter) => {
                let name = named(&of.parameters, parameter);
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
    fn touched(&self, touched: &RowAccess, arguments: &Arguments<'_>) -> Result<Needs, Refusal> {
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

impl Needs {
    fn route(&self) -> Route {
        Route {
            class: self.class,
            server: self.server.map(ServerId),
            operation: match &self.why {
                Reason::Type { name, .. } => Some(Arc::clone(name)),
                _ => None,
            },
            why: self.why.clone(),
        }
    }
}

/// The name of a parameter, for messages.
fn named(parameters: &[(String, DataType)], place: usize) -> &str {
    let parameter = parameters.get(place);
    parameter.map_or("its parameter", |(name, _)| name)
}

#[cfg(test)]
mod tests;
