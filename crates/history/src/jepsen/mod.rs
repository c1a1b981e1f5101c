//! Jepsen histories in EDN: `list-append` and `rw-register`.
//!
//! Such a history names neither the version that a read returned nor the order of versions. Both are inferred from
//! values, as Elle does (Kingsbury and Alvaro, *Elle: Inferring Isolation Anomalies from Experimental Observations*,
//! VLDB 2020), so the judgement is independent of the store. [`list_append`] recovers the whole order of the versions
//! read; [`rw_register`] recovers the order that reads before writes imply, and concludes nothing more.
//!
//! An operation is a map with `:type` (`:invoke`, `:ok`, `:fail`, `:info`), `:f :txn`, `:process` and `:value`, a
//! vector of `[:r key value]`, `[:append key element]` and `[:w key value]`. Operations other than `:txn` (such as a
//! nemesis's) are skipped. `:ok` is committed and `:fail` aborted; `:info` and missing completions may be either.
//! Without any invocation, as in examples written by people, the history has no real time.

mod edn;
mod list_append;
mod rw_register;

use std::io::BufRead;

use rustc_hash::FxHashMap;

use crate::builder::HistoryBuilder;
use crate::error::{HistoryError, Problem};
use crate::history::{DirectAnomaly, DirectAnomalyKind, History};
use crate::numbers::{ItemNumber, TransactionNumber};
use crate::record::{Header, Operation, Order, Outcome, Transaction};
use edn::{Edn, EdnReader};

/// Whether a file with this beginning is a Jepsen history.
pub(crate) fn begins(start: &[u8]) -> bool {
    let mut text = start.trim_ascii_start().iter();
    match (text.next(), text.find(|byte| !byte.is_ascii_whitespace())) {
        (Some(b'{'), next) => next == Some(&b':'),
        (Some(b'[' | b'(' | b'#' | b';'), _) => true,
        _ => false,
    }
}

/// Reads a Jepsen history.
pub(crate) fn read(mut input: impl BufRead) -> Result<History, HistoryError> {
    let mut text = String::new();
    if let Err(error) = input.read_to_string(&mut text) {
        return Err(HistoryError {
            line: 1,
            problem: Problem::Unreadable(error.to_string()),
        });
    }
    let calls = pair(&text)?;
    let appends = calls
        .iter()
        .find(|call| call.has(&|op| matches!(op, MicroOp::Append { .. })));
    let writes = calls
        .iter()
        .find(|call| call.has(&|op| matches!(op, MicroOp::Write { .. })));
    match (appends, writes) {
        (Some(append), Some(write)) => Err(contradiction(
            append.line.max(write.line),
            "the history appends to lists and writes registers; it must be one of the two".into(),
        )),
        (None, Some(_)) => rw_register::infer(&calls),
        _ => list_append::infer(&calls),
    }
}

/// One step of a transaction.
#[derive(Clone, Debug)]
enum MicroOp {
    Append {
        key: String,
        element: String,
    },
    Write {
        key: String,
        value: String,
    },
    /// The elements or the value; nothing is nil.
    Read {
        key: String,
        found: Option<Found>,
    },
}

#[derive(Clone, Debug)]
enum Found {
    Value(String),
    List(Vec<String>),
}

/// A transaction, from its invocation to its completion.
#[derive(Clone, Debug)]
struct Call {
    /// The line of its completion, or else of its invocation.
    line: u64,
    name: String,
    process: Option<String>,
    invoked: Option<u64>,
    completed: Option<u64>,
    outcome: Outcome,
    steps: Vec<MicroOp>,
}

impl Call {
    fn has(&self, is_it: &dyn Fn(&MicroOp) -> bool) -> bool {
        self.steps.iter().any(is_it)
    }

    fn is_aborted(&self) -> bool {
        matches!(self.outcome, Outcome::Aborted(_))
    }

    /// The transaction without its operations.
    fn transaction(&self) -> Transaction {
        Transaction {
            id: self.name.clone(),
            session: self.process.clone(),
            invoked: self.invoked,
            completed: self.completed,
            outcome: self.outcome.clone(),
            ..Transaction::default()
        }
    }
}

/// Builds the history of calls. `operation` converts a step, named by the numbers of its call and of the step within
/// it; `orders` gives the writers of each key in order.
fn assemble<'c>(
    workload: &str,
    calls: &'c [Call],
    committed: &[bool],
    mut operation: impl FnMut((usize, usize), &'c MicroOp) -> Option<Operation>,
    orders: impl IntoIterator<Item = (&'c str, Vec<usize>)>,
) -> Result<History, HistoryError> {
    let mut builder = HistoryBuilder::new(header(workload));
    for (number, call) in calls.iter().enumerate() {
        let mut transaction = call.transaction();
        if committed[number] {
            transaction.outcome = Outcome::Committed;
        }
        for (place, step) in call.steps.iter().enumerate() {
            transaction
                .operations
                .extend(operation((number, place), step));
        }
        builder.add(call.line, transaction)?;
    }
    for (key, order) in orders {
        let names = order.into_iter().map(|call| calls[call].name.clone());
        let order = Order {
            item: item(key),
            versions: names.collect(),
        };
        builder.add_order(0, &order)?;
    }
    builder.finish()
}

impl std::fmt::Display for MicroOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MicroOp::Append { key, element } => write!(f, "append {key} {element}"),
            MicroOp::Write { key, value } => write!(f, "w {key} {value}"),
            MicroOp::Read { key, found: None } => write!(f, "r {key} nil"),
            MicroOp::Read {
                key,
                found: Some(Found::Value(value)),
            } => write!(f, "r {key} {value}"),
            MicroOp::Read {
                key,
                found: Some(Found::List(list)),
            } => {
                write!(f, "r {key} [{}]", list.join(" "))
            }
        }
    }
}

impl MicroOp {
    fn key(&self) -> &str {
        match self {
            MicroOp::Append { key, .. }
            | MicroOp::Write { key, .. }
            | MicroOp::Read { key, .. } => key,
        }
    }
}

/// One line of the file.
struct Event {
    line: u64,
    kind: Kind,
    process: Option<String>,
    time: Option<u64>,
    index: Option<u64>,
    steps: Vec<MicroOp>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Invoke,
    Ok,
    Fail,
    Info,
}

/// Pairs invocations and completions, in order of invocation.
fn pair(text: &str) -> Result<Vec<Call>, HistoryError> {
    let events = events(text)?;
    if events.is_empty() {
        return Err(HistoryError {
            line: 1,
            problem: Problem::Empty,
        });
    }
    let invokes = events.iter().any(|event| event.kind == Kind::Invoke);
    let times = events.iter().all(|event| event.time.is_some());
    let mut open: FxHashMap<String, usize> = FxHashMap::default();
    let mut calls: Vec<Call> = Vec::new();
    for (place, event) in events.into_iter().enumerate() {
        let time = if times {
            event.time
        } else {
            Some(place as u64)
        };
        let name = format!("T{}", event.index.unwrap_or(place as u64));
        let process = event.process.clone().unwrap_or_default();
        if event.kind == Kind::Invoke {
            if open.insert(process.clone(), calls.len()).is_some() {
                return Err(contradiction(
                    event.line,
                    format!(
                        "process {process} invokes a transaction while its last one is under way"
                    ),
                ));
            }
            calls.push(Call {
                line: event.line,
                name,
                process: event.process,
                invoked: time,
                completed: None,
                outcome: Outcome::Unknown,
                steps: event.steps,
            });
            continue;
        }
        let call = match open.remove(&process) {
            Some(at) => &mut calls[at],
            None if invokes => {
                return Err(contradiction(
                    event.line,
                    format!("process {process} completes a transaction that it has not invoked"),
                ));
            }
            None => {
                calls.push(Call {
                    line: event.line,
                    name: name.clone(),
                    process: event.process,
                    invoked: None,
                    completed: None,
                    outcome: Outcome::Unknown,
                    steps: Vec::new(),
                });
                calls.last_mut().expect("it was added")
            }
        };
        if invokes && let Some(other) = other_writes(&call.steps, &event.steps) {
            return Err(contradiction(
                event.line,
                format!(
                    "process {process} completes with {other} a transaction that it invoked with other writes"
                ),
            ));
        }
        call.line = event.line;
        call.name = name;
        match event.kind {
            Kind::Ok => {
                call.outcome = Outcome::Committed;
                call.completed = time;
                call.steps = event.steps;
            }
            Kind::Fail => {
                call.outcome = Outcome::Aborted("fail".into());
                if call.steps.is_empty() {
                    call.steps = event.steps;
                }
            }
            Kind::Info | Kind::Invoke if call.steps.is_empty() => call.steps = event.steps,
            Kind::Info | Kind::Invoke => {}
        }
    }
    Ok(calls)
}

/// A write that only one of invocation and completion contains; `None` if they agree, or if the completion repeats no
/// steps.
fn other_writes(invoked: &[MicroOp], completed: &[MicroOp]) -> Option<String> {
    if completed.is_empty() {
        return None;
    }
    let writes_of = |steps: &[MicroOp]| -> Vec<String> {
        let written = steps.iter().filter_map(|step| match step {
            MicroOp::Append { key, element } => Some(format!(":append {key} {element}")),
            MicroOp::Write { key, value } => Some(format!(":w {key} {value}")),
            MicroOp::Read { .. } => None,
        });
        written.collect()
    };
    let (invoked, completed) = (writes_of(invoked), writes_of(completed));
    if invoked == completed {
        return None;
    }
    let other = completed.iter().find(|write| !invoked.contains(write));
    Some(other.map_or_else(|| "other writes".to_owned(), |write| format!("[{write}]")))
}

fn events(text: &str) -> Result<Vec<Event>, HistoryError> {
    let mut reader = EdnReader::new(text);
    let bracket = if reader.take('[') {
        Some(']')
    } else if reader.take('(') {
        Some(')')
    } else {
        None
    };
    let mut events = Vec::new();
    loop {
        if let Some(end) = bracket
            && reader.take(end)
        {
            if reader.is_at_end() {
                return Ok(events);
            }
            return Err(HistoryError {
                line: reader.line(),
                problem: Problem::AfterEnd,
            });
        }
        if bracket.is_none() && reader.is_at_end() {
            return Ok(events);
        }
        let line = reader.line();
        let value = reader.value()?;
        if let Some(event) = event(line, &value)? {
            events.push(event);
        }
    }
}

fn event(line: u64, value: &Edn) -> Result<Option<Event>, HistoryError> {
    let invalid = |what: String| HistoryError {
        line,
        problem: Problem::Invalid(what),
    };
    let Edn::Map(_) = value else {
        return Err(invalid(format!("an operation is a map, and not {value}")));
    };
    if value.get("f").is_some_and(|f| f.keyword() != Some("txn"))
        || value
            .get("process")
            .is_some_and(|process| process.keyword().is_some())
    {
        return Ok(None);
    }
    let kind = match value.get("type").and_then(Edn::keyword) {
        Some("invoke") => Kind::Invoke,
        Some("ok") => Kind::Ok,
        Some("fail") => Kind::Fail,
        Some("info") => Kind::Info,
        _ => {
            return Err(invalid(
                "an operation's :type is :invoke, :ok, :fail or :info".into(),
            ));
        }
    };
    let steps = match value.get("value") {
        Some(Edn::Sequence(steps)) => {
            let steps = steps.iter().map(|step| micro_op(step).map_err(invalid));
            steps.collect::<Result<Vec<MicroOp>, HistoryError>>()?
        }
        None | Some(Edn::Nil) if kind != Kind::Ok => Vec::new(),
        _ => {
            return Err(invalid(
                "a transaction's :value is a vector of operations".into(),
            ));
        }
    };
    Ok(Some(Event {
        line,
        kind,
        process: value.get("process").map(Edn::to_string),
        time: value.get("time").and_then(Edn::number),
        index: value.get("index").and_then(Edn::number),
        steps,
    }))
}

fn micro_op(step: &Edn) -> Result<MicroOp, String> {
    let refused = || {
        format!("a step is [:r key value], [:append key element] or [:w key value], and not {step}")
    };
    let Edn::Sequence(parts) = step else {
        return Err(refused());
    };
    let [kind, key, value] = &parts[..] else {
        return Err(refused());
    };
    let key = key.to_string();
    match (kind.keyword(), value) {
        (Some("append"), element) => Ok(MicroOp::Append {
            key,
            element: element.to_string(),
        }),
        (Some("w"), value) => Ok(MicroOp::Write {
            key,
            value: value.to_string(),
        }),
        (Some("r"), Edn::Nil) => Ok(MicroOp::Read { key, found: None }),
        (Some("r"), Edn::Sequence(list)) => {
            let list = list.iter().map(Edn::to_string).collect();
            Ok(MicroOp::Read {
                key,
                found: Some(Found::List(list)),
            })
        }
        (Some("r"), value) => {
            let found = Some(Found::Value(value.to_string()));
            Ok(MicroOp::Read { key, found })
        }
        _ => Err(refused()),
    }
}

/// The name of a key in explanations.
fn item(key: &str) -> String {
    format!("key {}", key.trim_start_matches(':'))
}

fn header(workload: &str) -> Header {
    Header {
        workload: workload.into(),
        ..Header::default()
    }
}

/// Phenomena of single reads, kept until the history has numbered its items.
#[derive(Default)]
struct Notes(Vec<(DirectAnomalyKind, usize, String, Option<usize>)>);

impl Notes {
    fn add(&mut self, what: DirectAnomalyKind, call: usize, key: &str, other: Option<usize>) {
        self.0.push((what, call, item(key), other));
    }

    fn into_history(self, history: &mut History) {
        for (what, call, item, other) in self.0 {
            let Some(item) = history.items.find(&item) else {
                continue;
            };
            history.direct.push(DirectAnomaly {
                what,
                transaction: call as TransactionNumber,
                item,
                other: other.map(|other| other as TransactionNumber),
            });
        }
    }
}

/// Keeps each transaction's operations in Jepsen's notation.
fn keep_operations(history: &mut History, calls: &[Call]) {
    for (number, call) in calls.iter().enumerate() {
        let steps: Vec<(ItemNumber, Box<str>)> = call
            .steps
            .iter()
            .filter_map(|step| {
                let item = history.items.find(&item(step.key()))?;
                Some((item, step.to_string().into()))
            })
            .collect();
        history.transactions[number].source_operations = steps;
    }
}

fn contradiction(line: u64, what: String) -> HistoryError {
    HistoryError {
        line,
        problem: Problem::Contradiction(what),
    }
}
