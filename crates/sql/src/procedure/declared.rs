//! Declared reads: the reads of a call that its arguments alone determine.
//!
//! The body runs without data. A variable is known while it is computed from arguments and constants, and unknown
//! after a row has been in it. Both sides of a branch on an unknown condition are followed, so the declared reads may
//! be more than those that the call does, but include all that can be determined. They are in the order of the
//! statements.

use anabranch_types::{Key, Read, Value, access::whole_table};

use super::{Code, CompiledProcedure, Computed, Outcome};
use crate::{
    catalog::RaiseLevel,
    execute::{join::pure_rows, key},
    expression::{
        Batch, EvaluationContext, Expression, Frame, evaluate::evaluate_over, frame::Indices,
    },
    plan::{
        Body, Join, Path, Query, RowsOf, Select, Step, WhenLocked,
        statement::{Statement, StatementKind},
    },
    summary::StatementId,
};

/// The maximum of rounds of a loop that are followed.
const ROUNDS_MAX: usize = 10_000;

#[derive(Clone)]
struct Knowledge {
    values: Vec<Value>,
    known: Vec<bool>,
}

struct DryRun<'d> {
    procedure: &'d CompiledProcedure,
    /// The number of its first statement in this call.
    first: u32,
    found: DeclaredReads,
    rounds: usize,
}

/// The reads of statements that have been found so far.
#[derive(Default)]
struct DeclaredReads {
    context: EvaluationContext,
    reads: Vec<(StatementId, bool, Read)>,
}

/// Whether the rest of a list of statements is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Stop,
}

impl CompiledProcedure {
    /// The reads (points and ranges) with keys that the arguments alone determine, in the order of their statements,
    /// and whether each is for a write. A protocol may request them before the procedure runs. Rows that deferred
    /// UPDATEs write are included. A read that depends on data is missing; one in a branch that depends on data is
    /// included.
    ///
    /// The arguments are as [`CompiledProcedure::check_arguments`] gives them.
    pub fn declared_reads(&self, arguments: &[Value]) -> Vec<(StatementId, bool, Read)> {
        let mut knowledge = Knowledge::at_entry(self, arguments.to_vec());
        let mut run = DryRun {
            procedure: self,
            first: self.first_statement,
            found: DeclaredReads::default(),
            rounds: 0,
        };
        run.codes(&self.body, &mut knowledge);
        run.found.reads
    }
}

/// The same for a statement of its own, with these parameters.
pub(crate) fn statement_reads(
    id: StatementId,
    statement: &Statement,
    parameters: &[Value],
) -> Vec<(StatementId, bool, Read)> {
    let knowledge = Knowledge {
        known: vec![true; parameters.len()],
        values: parameters.to_vec(),
    };
    let mut found = DeclaredReads::default();
    found.statement(id, statement, &knowledge);
    found.reads
}

impl Knowledge {
    /// The state at the start of a procedure with these arguments.
    fn at_entry(procedure: &CompiledProcedure, mut values: Vec<Value>) -> Knowledge {
        values.resize(procedure.variables.len(), Value::Null);
        let mut knowledge = Knowledge {
            known: vec![true; values.len()],
            values,
        };
        knowledge.known[procedure.found] = false;
        knowledge
    }

    /// Whether an expression can be evaluated now, over known variables and these sources.
    fn knows(&self, expression: &Expression, placed: u64) -> bool {
        !expression.any(&mut |e| match e {
            Expression::Variable(slot) => !self.known[*slot],
            Expression::Column {
                depth: 0, source, ..
            } => placed & 1 << (*source).min(63) == 0,
            Expression::Column { .. }
            | Expression::Unique
            | Expression::Next(_)
            | Expression::OfSequence { .. }
            | Expression::Now => true,
            // As the time, the session's time zone is known only to the call itself.
            other => other.reads_zone(),
        })
    }

    fn forget(&mut self, slots: impl IntoIterator<Item = usize>) {
        slots.into_iter().for_each(|slot| self.known[slot] = false);
    }

    fn join(&mut self, other: &Knowledge) {
        for slot in 0..self.values.len() {
            self.known[slot] =
                self.known[slot] && other.known[slot] && self.values[slot] == other.values[slot];
        }
    }
}

impl DryRun<'_> {
    fn codes(&mut self, codes: &[Code], knowledge: &mut Knowledge) -> Flow {
        for code in codes {
            if self.code(code, knowledge) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::On
    }

    fn value(&mut self, computed: &Computed, knowledge: &Knowledge) -> Option<Value> {
        match computed {
            Computed::Pure(expression) if knowledge.knows(expression, 0) => {
                evaluate_over(expression, &knowledge.values, &self.found.context).ok()
            }
            Computed::Pure(_) => None,
            Computed::Query { site } => {
                self.site(*site, knowledge);
                None
            }
        }
    }

    fn code(&mut self, code: &Code, knowledge: &mut Knowledge) -> Flow {
        match code {
            Code::Sql { site, into, .. } => {
                self.site(*site, knowledge);
                knowledge.forget(into.iter().map(|receiver| receiver.slot));
                knowledge.known[self.procedure.found] = false;
            }
            Code::Assign { slot, value } => match self.value(value, knowledge) {
                Some(value) => {
                    knowledge.values[*slot] = value;
                    knowledge.known[*slot] = true;
                }
                None => knowledge.known[*slot] = false,
            },
            Code::AssignElement { slot, index, value } => {
                self.value(index, knowledge);
                self.value(value, knowledge);
                knowledge.known[*slot] = false;
            }
            Code::If {
                branches,
                otherwise,
            } => return self.branches(branches, otherwise, knowledge),
            Code::ForRange {
                slot,
                from,
                to,
                by,
                reverse,
                body,
            } => {
                let bounds = (self.value(from, knowledge), self.value(to, knowledge));
                let by = match by {
                    Some(by) => self.value(by, knowledge),
                    None => Some(Value::Int(1)),
                };
                match (bounds, by) {
                    ((Some(Value::Int(from)), Some(Value::Int(to))), Some(Value::Int(by)))
                        if by > 0 =>
                    {
                        let by = if *reverse { -by } else { by };
                        self.range(*slot, (from, to, by), body, knowledge);
                    }
                    _ => self.unknown_loop([*slot], body, knowledge),
                }
                knowledge.known[self.procedure.found] = false;
            }
            Code::ForQuery {
                site,
                targets,
                body,
            } => {
                self.site(*site, knowledge);
                let slots = targets.iter().map(|receiver| receiver.slot);
                self.unknown_loop(slots, body, knowledge);
            }
            Code::ForEach { slot, array, body } => match self.value(array, knowledge) {
                Some(Value::Array(list)) => {
                    for value in list.iter() {
                        knowledge.values[*slot] = value.clone();
                        knowledge.known[*slot] = true;
                        if !self.round(body, knowledge) {
                            break;
                        }
                    }
                }
                _ => self.unknown_loop([*slot], body, knowledge),
            },
            Code::While { condition, body } => loop {
                match self.value(condition, knowledge) {
                    Some(Value::Bool(true)) if self.round(body, knowledge) => {}
                    Some(_) => break,
                    None => {
                        self.unknown_loop([], body, knowledge);
                        break;
                    }
                }
            },
            // What is between the loops that it leaves is followed here, and not in a run.
            Code::Exit(levels, condition) | Code::Continue(levels, condition) if *levels > 0 => {
                knowledge.known.fill(false);
                if condition.is_none() {
                    return Flow::Stop;
                }
            }
            Code::Exit(_, None) | Code::Continue(_, None) | Code::Return(_) => return Flow::Stop,
            Code::Exit(_, Some(condition)) | Code::Continue(_, Some(condition)) => {
                if self.value(condition, knowledge) == Some(Value::Bool(true)) {
                    return Flow::Stop;
                }
            }
            Code::Raise { level, .. } => {
                if *level == RaiseLevel::Exception {
                    return Flow::Stop;
                }
            }
            Code::ReturnQuery { site, .. } => {
                self.site(*site, knowledge);
                if let Outcome::Variables(slots) = &self.procedure.result {
                    knowledge.forget(slots.iter().copied());
                }
            }
            Code::ReturnNext(_) => {}
            Code::RowCount { slot } => knowledge.known[*slot] = false,
            Code::Call {
                procedure,
                offset,
                arguments,
                into,
                ..
            } => {
                self.called(procedure, *offset, arguments, knowledge);
                knowledge.forget(into.iter().map(|receiver| receiver.slot));
                knowledge.known[self.procedure.found] = false;
            }
        }
        Flow::On
    }

    /// Follows a loop over integers; a negative `by` counts downwards.
    fn range(
        &mut self,
        slot: usize,
        (from, to, by): (i64, i64, i64),
        body: &[Code],
        knowledge: &mut Knowledge,
    ) {
        let mut next = from;
        while if by < 0 { next >= to } else { next <= to } {
            knowledge.values[slot] = Value::Int(next);
            knowledge.known[slot] = true;
            if !self.round(body, knowledge) {
                break;
            }
            let Some(following) = next.checked_add(by) else {
                break;
            };
            next = following;
        }
    }

    /// Follows the call of another procedure.
    fn called(
        &mut self,
        procedure: &CompiledProcedure,
        offset: u32,
        arguments: &[Computed],
        knowledge: &Knowledge,
    ) {
        let given: Vec<Option<Value>> = arguments
            .iter()
            .map(|argument| self.value(argument, knowledge))
            .collect();
        let values = given
            .iter()
            .map(|value| value.clone().unwrap_or(Value::Null));
        let mut within = Knowledge::at_entry(procedure, values.collect());
        for (known, value) in within.known.iter_mut().zip(&given) {
            *known = value.is_some();
        }
        let mut run = DryRun {
            procedure,
            first: self.procedure.first_called(self.first, offset),
            found: std::mem::take(&mut self.found),
            rounds: self.rounds,
        };
        run.codes(&procedure.body, &mut within);
        (self.found, self.rounds) = (run.found, run.rounds);
    }

    fn branches(
        &mut self,
        branches: &[(Computed, Vec<Code>)],
        otherwise: &[Code],
        knowledge: &mut Knowledge,
    ) -> Flow {
        let Some(((condition, body), rest)) = branches.split_first() else {
            return self.codes(otherwise, knowledge);
        };
        match self.value(condition, knowledge) {
            Some(Value::Bool(true)) => self.codes(body, knowledge),
            Some(_) => self.branches(rest, otherwise, knowledge),
            None => {
                let mut taken = knowledge.clone();
                let first = self.codes(body, &mut taken);
                let second = self.branches(rest, otherwise, knowledge);
                match (first, second) {
                    (Flow::On, Flow::On) => knowledge.join(&taken),
                    (Flow::On, Flow::Stop) => *knowledge = taken,
                    _ => {}
                }
                if (first, second) == (Flow::Stop, Flow::Stop) {
                    Flow::Stop
                } else {
                    Flow::On
                }
            }
        }
    }

    /// Follows one round of a loop with known rounds; false if there have been too many.
    fn round(&mut self, body: &[Code], knowledge: &mut Knowledge) -> bool {
        self.rounds += 1;
        self.codes(body, knowledge);
        self.rounds < ROUNDS_MAX
    }

    /// A loop of which the rounds are not known: what it assigns is unknown within and after.
    fn unknown_loop(
        &mut self,
        targets: impl IntoIterator<Item = usize>,
        body: &[Code],
        knowledge: &mut Knowledge,
    ) {
        let mut assigned = std::collections::BTreeSet::new();
        body.iter()
            .for_each(|code| super::analyze::assigned_by(code, self.procedure, &mut assigned));
        knowledge.forget(targets);
        knowledge.forget(assigned);
        let mut within = knowledge.clone();
        self.codes(body, &mut within);
    }

    fn site(&mut self, site: usize, knowledge: &Knowledge) {
        let id = StatementId(self.first + site as u32);
        let procedure = self.procedure;
        let statement = &procedure.statements[site].statement;
        self.found.statement(id, statement, knowledge);
    }
}

impl DeclaredReads {
    fn statement(&mut self, id: StatementId, statement: &Statement, knowledge: &Knowledge) {
        for (_, cte) in &statement.ctes {
            self.query(id, cte, knowledge);
        }
        match &statement.kind {
            StatementKind::Query(query) => self.query(id, query, knowledge),
            StatementKind::Insert(insert) => self.query(id, &insert.query, knowledge),
            StatementKind::Update(update) => {
                self.steps(id, &update.steps, update.stride, knowledge)
            }
            StatementKind::Delete(delete) => {
                self.steps(id, &delete.steps, delete.stride, knowledge)
            }
            StatementKind::Compound(several) => {
                for part in &several.parts {
                    self.statement(id, part, knowledge);
                }
            }
        }
    }

    fn query(&mut self, id: StatementId, query: &Query, knowledge: &Knowledge) {
        for (_, cte) in &query.ctes {
            self.query(id, cte, knowledge);
        }
        match &query.body {
            Body::Select(select) => {
                let Select { steps, stride, .. } = &**select;
                self.steps(id, steps, *stride, knowledge);
            }
            Body::SetOperation(operation) => {
                self.query(id, &operation.left, knowledge);
                self.query(id, &operation.right, knowledge);
            }
            // What the step reads depends on rows.
            Body::Recursive(recursive) => self.query(id, &recursive.base, knowledge),
        }
    }

    /// Follows a pipeline: makes pure sources, and notes reads with known keys. The rows of a read stay unknown, so
    /// reads that are joined by them are not declared.
    fn steps(&mut self, id: StatementId, steps: &[Step], stride: usize, knowledge: &Knowledge) {
        let mut batch = Batch::single(stride);
        let mut placed = 0u64;
        for step in steps {
            match step {
                Step::Function(function) => {
                    let known = function
                        .arguments
                        .iter()
                        .all(|e| knowledge.knows(e, placed));
                    let context = &self.context;
                    if known && pure_rows(function, &mut batch, &knowledge.values, context).is_ok()
                    {
                        placed |= 1 << function.source.min(63);
                        self.keep(&function.join, placed, &mut batch, knowledge);
                    }
                }
                Step::Filter(filters) => {
                    let join = Join {
                        filters: filters.clone(),
                        ..Join::default()
                    };
                    self.keep(&join, placed, &mut batch, knowledge);
                }
                // What it locks is known only when it runs, and it must not wait for it.
                Step::Read(read) if read.when_locked != WhenLocked::Wait => {}
                Step::Read(read) => {
                    let table = read.schema.id;
                    for tuple in 0..batch.len() {
                        let frame = Frame::new(&knowledge.values, &batch, tuple, &self.context);
                        let found = match &read.path {
                            Path::Point { key: parts } => {
                                if !parts
                                    .iter()
                                    .all(|part| knowledge.knows(&part.value, placed))
                                {
                                    break;
                                }
                                let mut key = Key::empty();
                                let whole = parts.iter().all(|part| {
                                    matches!(key::push(&mut key, part, &frame), Ok(true))
                                });
                                whole.then_some(Read::Point { table, key })
                            }
                            Path::Range(path) => {
                                let bounds =
                                    path.lower.iter().chain(&path.upper).map(|(part, _)| part);
                                let mut parts = path.prefix.iter().chain(bounds);
                                if !parts.all(|part| knowledge.knows(&part.value, placed)) {
                                    break;
                                }
                                let limit = match &path.limit {
                                    Some((limit, offset)) => {
                                        let told = knowledge.knows(limit, 0)
                                            && offset
                                                .as_ref()
                                                .is_none_or(|o| knowledge.knows(o, 0));
                                        match (told, &path.limit) {
                                            (true, Some(limit)) => {
                                                key::row_limit(limit, &frame).ok().flatten()
                                            }
                                            _ => None,
                                        }
                                    }
                                    None => None,
                                };
                                key::range(path, &frame)
                                    .ok()
                                    .flatten()
                                    .map(|range| Read::Range {
                                        table,
                                        index: path.index,
                                        range,
                                        reverse: path.reverse,
                                        limit,
                                    })
                            }
                            Path::Scan { .. } if tuple == 0 => Some(whole_table(table)),
                            Path::Scan { .. } => None,
                        };
                        if let Some(found) = found {
                            self.reads.push((id, read.for_write, found));
                        }
                    }
                }
                Step::Query(of) => {
                    if let RowsOf::Query(query) = &of.rows
                        && !query.correlated
                    {
                        self.query(id, query, knowledge);
                    }
                }
                Step::Subquery { subquery, .. } => {
                    if !subquery.query.correlated {
                        self.query(id, &subquery.query, knowledge);
                    }
                }
                Step::Rows { .. } | Step::Group { .. } | Step::Window(_) => {}
            }
        }
    }

    /// Drops the tuples that known filters rule out.
    fn keep(&self, join: &Join, placed: u64, batch: &mut Batch<'_>, knowledge: &Knowledge) {
        for filter in join
            .filters
            .iter()
            .filter(|filter| knowledge.knows(filter, placed))
        {
            let mut kept = Indices::new();
            for tuple in 0..batch.len() {
                let frame = Frame::new(&knowledge.values, batch, tuple, &self.context);
                if !matches!(filter.test(&frame), Ok(Some(false) | None)) {
                    kept.extend_from_slice(batch.tuple(tuple));
                }
            }
            batch.indices = kept;
        }
    }
}
