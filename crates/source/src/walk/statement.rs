//! Walks statements: branches, loops and exits.

use std::sync::Arc;

use super::{Branch, BranchRole, Flow, LOOPS_MAX, Run, State, Walk, WalkedStep};
use crate::{
    guard::{Comparison, Guard},
    language::Language,
    names,
    sql_outline::{Control, is_lookup, is_read},
    syntax::{Expression, ExpressionKind, Function, Statement, StatementKind},
    traverse::expressions,
    value::Value,
};

impl Walk<'_, '_> {
    /// Walks a sequence of statements. Statements that may not be reached stand in a branch.
    pub(super) fn block(&mut self, statements: &[Statement]) -> Flow {
        let mut whole = Flow::default();
        let mut nested = Vec::new();
        for statement in statements {
            if self.gave_up {
                break;
            }
            if whole.may_leave && nested.len() < 64 {
                // Opens a branch for the following statements, unless an empty one is open.
                let empty = !nested.is_empty() && self.runs_nothing_yet();
                if !empty {
                    self.steps.push(Vec::new());
                    nested.push(statement.range.start);
                }
                whole.may_leave = false;
            }
            let flow = self.statement(statement);
            whole.may_leave |= flow.may_leave;
            whole.breaks |= flow.breaks;
            if flow.ends {
                whole.ends = true;
                whole.aborts = flow.aborts;
                // The rest is unreachable, except for functions and labels.
                break;
            }
        }
        whole.may_leave |= !nested.is_empty();
        for at in nested.into_iter().rev() {
            let inner = self.steps.pop().unwrap_or_default();
            self.either_of(vec![(at, inner, BranchRole::Rest)]);
        }
        whole
    }

    /// Whether the steps of the open branch run no statement.
    fn runs_nothing_yet(&self) -> bool {
        let last = self.steps.last();
        last.is_some_and(|steps| steps.iter().all(WalkedStep::is_silent))
    }

    /// Adds a choice between these branches, or none of them.
    pub(super) fn either(&mut self, branches: Vec<(usize, Vec<WalkedStep>)>) {
        let branches = branches.into_iter();
        let with_role = branches.map(|(at, steps)| (at, steps, BranchRole::Continues));
        self.either_of(with_role.collect());
    }

    /// Adds a choice between these branches, or none of them, by their roles.
    fn either_of(&mut self, branches: Vec<(usize, Vec<WalkedStep>, BranchRole)>) {
        let file = self.file();
        let branches: Vec<Branch> = branches
            .into_iter()
            .filter(|(_, steps, _)| !steps.is_empty())
            .map(|(at, steps, role)| Branch {
                file,
                at,
                steps,
                role,
            })
            .collect();
        if !branches.is_empty() {
            self.push(WalkedStep::Either(branches));
        }
    }

    /// Walks a branch from a state. Returns its steps, its final state and its flow.
    fn branch(&mut self, from: &State, statements: &[Statement]) -> (Vec<WalkedStep>, State, Flow) {
        self.state = from.clone();
        self.restore_handles();
        let outer = std::mem::replace(&mut self.aborted, false);
        self.steps.push(Vec::new());
        let ran = (self.ran, self.escaped, self.recursive_calls.len());
        let mut flow = self.block(statements);
        flow.runs = ran != (self.ran, self.escaped, self.recursive_calls.len());
        let steps = self.steps.pop().unwrap_or_default();
        flow.aborts |= std::mem::replace(&mut self.aborted, outer);
        (steps, std::mem::take(&mut self.state), flow)
    }

    fn statement(&mut self, statement: &Statement) -> Flow {
        match &statement.kind {
            StatementKind::Expression(value) => {
                self.evaluate(value);
                Flow {
                    may_leave: std::mem::take(&mut self.committed),
                    ..Flow::default()
                }
            }
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => self.condition(statement, condition, then, otherwise),
            StatementKind::Cases {
                value,
                cases,
                exhaustive,
            } => self.cases(statement, value.as_ref(), cases, *exhaustive),
            StatementKind::Loop { before, body } => {
                for value in before {
                    self.evaluate(value);
                }
                self.repeat(&mut |walk: &mut Self| {
                    walk.exits.push(Vec::new());
                    walk.block(body);
                    walk.merge_exits();
                });
                Flow {
                    may_leave: leaves(body),
                    ..Flow::default()
                }
            }
            StatementKind::Try {
                body,
                handlers,
                finally,
            } => self.try_statement(statement, body, handlers, finally),
            StatementKind::Return(value) => {
                let value = match value {
                    Some(value) => self.evaluate(value),
                    None => Value::Nothing,
                };
                let last = self.frames.len() - 1;
                self.frames[last].returns.push(value);
                Flow {
                    ends: true,
                    ..Flow::default()
                }
            }
            StatementKind::Throw(value) => {
                if let Some(value) = value {
                    self.evaluate(value);
                }
                Flow {
                    ends: true,
                    aborts: true,
                    ..Flow::default()
                }
            }
            StatementKind::Leave => {
                let state = self.state.clone();
                if let Some(exits) = self.exits.last_mut() {
                    exits.push(state);
                }
                Flow {
                    ends: true,
                    breaks: true,
                    ..Flow::default()
                }
            }
            StatementKind::Block(inner) => self.block(inner),
            StatementKind::Other(inner) => self.branches(
                &[inner, &[]],
                &[statement.range.start, statement.range.start],
            ),
            StatementKind::Function(function) => {
                self.declare(function);
                Flow::default()
            }
            // Broken source is reported for the whole file.
            StatementKind::Class { .. } | StatementKind::Broken => Flow::default(),
        }
    }

    fn cases(
        &mut self,
        statement: &Statement,
        value: Option<&Expression>,
        cases: &[Vec<Statement>],
        exhaustive: bool,
    ) -> Flow {
        if let Some(value) = value {
            self.evaluate(value);
        }
        let mut all: Vec<&[Statement]> = cases.iter().map(Vec::as_slice).collect();
        if !exhaustive {
            all.push(&[]);
        }
        let at: Vec<usize> = all
            .iter()
            .map(|case| {
                case.first()
                    .map_or(statement.range.start, |s| s.range.start)
            })
            .collect();
        self.exits.push(Vec::new());
        let mut flow = self.branches(&all, &at);
        // `break` continues after the last case.
        flow.ends &= !self.merge_exits();
        flow
    }

    /// Merges the states at each `break` and `continue` into the final state. Returns whether there were any.
    fn merge_exits(&mut self) -> bool {
        let exits = self.exits.pop().unwrap_or_default();
        let any = !exits.is_empty();
        for exit in exits {
            let state = std::mem::take(&mut self.state);
            self.state = self.join_states(state, exit);
        }
        self.restore_handles();
        any
    }

    fn declare(&mut self, function: &Function) {
        let at = self.project.function_at(self.file(), function.range.start);
        if let Some(at) = at
            && self.frame().function.is_some()
        {
            self.state
                .variables
                .insert(&function.name, Value::Function(at));
        }
    }

    fn condition(
        &mut self,
        statement: &Statement,
        condition: &Expression,
        then: &[Statement],
        otherwise: &[Statement],
    ) -> Flow {
        let guard = self.guards(condition);
        let first = self.out.runs.len();
        let at = |inner: &[Statement]| {
            inner
                .first()
                .map_or(statement.range.start, |s| s.range.start)
        };
        let places = [at(then), at(otherwise)];
        let found = self.run_that_found_rows(condition, &guard);
        let flows = self.both(&[then, otherwise], &places);
        if let Some((run, in_then)) = found
            && self.writes_nothing(flows[usize::from(!in_then)])
        {
            self.out.finds_none.insert(run);
        }
        if self.trial == 0 {
            let (file, last) = (self.file(), self.out.runs.len());
            for (comparison, negated) in guard {
                self.out.guards.push(Guard {
                    comparison,
                    negated,
                    file,
                    range: condition.range.clone(),
                    shown: self.source(&condition.range).to_owned(),
                    then_ends: flows[0].ends,
                    otherwise_ends: flows[1].ends,
                    inside: first..last,
                });
            }
        }
        combined(&flows)
    }

    /// The query that a condition asks for rows, and whether the condition holds if there are any.
    ///
    /// The query has run wherever the condition is evaluated, and nothing was written before.
    fn run_that_found_rows(
        &self,
        condition: &Expression,
        guards: &[(Comparison, bool)],
    ) -> Option<(usize, bool)> {
        let [(comparison, negated)] = guards else {
            return None;
        };
        let (run, holds) = comparison.rows(*negated).filter(|_| comparison.alone)?;
        let language = self.project.sources[self.file()].language;
        let is_script = !matches!(language, Language::Java | Language::Go);
        let here = self.steps.last()?;
        let is_plain = |known: &Run| is_lookup(&known.text.shown());
        let reads = self
            .out
            .runs
            .iter()
            .all(|known| is_read(&known.text.shown()));
        let known = self.out.runs.get(run)?;
        let surely = is_script
            && asks_for_rows(condition)
            && self.trial == 0
            && self.loops == 0
            && runs_in(here, run)
            && is_plain(known)
            && reads
            && self.out.unresolved.is_empty()
            && self.out.possible.is_empty()
            && self.out.forwards.is_empty();
        surely.then_some((run, holds))
    }

    /// Whether a transaction that takes this branch at this place has written nothing, and ends.
    fn writes_nothing(&self, branch: Flow) -> bool {
        // A callee's caller goes on behind its `return`.
        let leaves = branch.aborts || self.frames.len() == 1 && !branch.breaks;
        branch.ends && !branch.runs && leaves && self.swallowing == 0
    }

    /// Walks alternatives of which one runs.
    fn branches(&mut self, all: &[&[Statement]], places: &[usize]) -> Flow {
        combined(&self.both(all, places))
    }

    fn both(&mut self, all: &[&[Statement]], places: &[usize]) -> Vec<Flow> {
        let from = self.state.clone();
        let mut joined: Option<State> = None;
        let mut flows = Vec::new();
        let mut steps = Vec::new();
        for (statements, at) in all.iter().zip(places) {
            let (inner, state, flow) = self.branch(&from, statements);
            let role = match flow.ends && !flow.breaks {
                true => BranchRole::Returns,
                false => BranchRole::Continues,
            };
            steps.push((*at, inner, role));
            flows.push(flow);
            if flow.ends {
                // Statements that it prepared stay known.
                continue;
            }
            joined = Some(match joined {
                Some(other) => self.join_states(other, state),
                None => state,
            });
        }
        self.state = joined.unwrap_or(from);
        self.restore_handles();
        self.either_of(steps);
        flows
    }

    /// Walks a loop body twice: once on trial to find the variables that it changes, then with these unknown.
    ///
    /// The values of variables do not decide which branches are followed, so one trial finds every write. A written
    /// variable counts as changed even if its value is the same, since it may differ two iterations later.
    pub(super) fn repeat(&mut self, body: &mut dyn FnMut(&mut Self)) {
        let before = self.state.clone();
        self.loops += 1;
        if self.trial > 0 {
            // On trial, only the set of written variables matters.
            body(self);
            self.loops -= 1;
            let inside = std::mem::take(&mut self.state);
            self.state = self.join_states(before, inside);
            return;
        }
        let deep = self.loops > LOOPS_MAX;
        if !deep {
            self.on_trial(body);
        }
        let after = std::mem::replace(&mut self.state, before.clone());
        let same = !deep && before.variables.is_shared_with(&after.variables);
        for (name, value) in before.variables.iter().filter(|_| !same) {
            let is_kept = |after: &Arc<Value>| Arc::ptr_eq(after, value);
            let changed = deep || !after.variables.shared(name).is_some_and(is_kept);
            let is_fixed = matches!(**value, Value::Handle(_) | Value::Function(_));
            if changed && !is_fixed {
                // Values of earlier iterations may no longer exist under their ids.
                let value = self.scalar(name, Vec::new(), false);
                self.state.variables.share(name, Arc::new(value));
            }
        }
        let same = !deep && before.handles.is_shared_with(&after.handles);
        for number in (0..before.handles.len()).filter(|_| !same) {
            let own = before.handles.get(number).map(|h| &h.bound);
            let other = after.handles.get(number).map(|h| &h.bound);
            if (other != own || deep)
                && let Some(bound) = self.state.handles.bound_mut(number)
            {
                bound.unsure = true;
            }
        }
        self.restore_handles();
        self.steps.push(Vec::new());
        body(self);
        let inner = self.steps.pop().unwrap_or_default();
        self.loops -= 1;
        let inside = std::mem::take(&mut self.state);
        self.state = self.join_states(before, inside);
        if !inner.is_empty() {
            self.push(WalkedStep::Repeat(inner));
        }
    }

    /// Runs `body` on trial: it changes the state, and its findings are discarded.
    fn on_trial(&mut self, body: &mut dyn FnMut(&mut Self)) {
        let (runs, made) = (self.out.runs.len(), self.prepared.len());
        let returns: Vec<usize> = self.frames.iter().map(|f| f.returns.len()).collect();
        self.trial += 1;
        self.steps.push(Vec::new());
        body(self);
        self.steps.pop();
        self.trial -= 1;
        self.out.runs.truncate(runs);
        self.prepared.truncate(made);
        for (frame, length) in self.frames.iter_mut().zip(returns) {
            frame.returns.truncate(length);
        }
    }

    fn try_statement(
        &mut self,
        statement: &Statement,
        body: &[Statement],
        handlers: &[Vec<Statement>],
        finally: &[Statement],
    ) -> Flow {
        let from = self.state.clone();
        let at = |inner: &[Statement]| {
            inner
                .first()
                .map_or(statement.range.start, |s| s.range.start)
        };
        // If a handler continues without an abort, statements before the exception count and those after it do not
        // run.
        let mut swallowed = false;
        for handler in handlers {
            let from = from.clone();
            self.on_trial(&mut |walk: &mut Self| {
                let (_, _, flow) = walk.branch(&from, handler);
                swallowed |= !flow.aborts;
            });
        }
        self.state = from.clone();
        self.restore_handles();
        let goes_on = swallowed || handlers.iter().any(|h| runs_sql(h)) || runs_sql(finally);
        self.swallowing += usize::from(goes_on);
        let flow = match swallowed {
            false => self.block(body),
            true => {
                let mut opened = Vec::new();
                let mut whole = Flow::default();
                for inner in body {
                    let empty = self.runs_nothing_yet() && !opened.is_empty();
                    if !empty {
                        self.steps.push(Vec::new());
                        opened.push(inner.range.start);
                    }
                    let flow = self.block(std::slice::from_ref(inner));
                    whole.may_leave |= flow.may_leave;
                    whole.breaks |= flow.breaks;
                    if flow.ends {
                        whole.ends = true;
                        whole.aborts = flow.aborts;
                        break;
                    }
                }
                for at in opened.into_iter().rev() {
                    let inner = self.steps.pop().unwrap_or_default();
                    self.either(vec![(at, inner)]);
                }
                // The handler catches exceptions of the body.
                whole.ends &= !whole.aborts;
                whole.aborts = false;
                whole
            }
        };
        self.swallowing -= usize::from(goes_on);
        // A handler may run after any part of the body.
        let mut state = std::mem::take(&mut self.state);
        let before = self.join_states(from, state.clone());
        let mut steps = Vec::new();
        let mut breaks = flow.breaks;
        for handler in handlers {
            let (inner, other, flow) = self.branch(&before, handler);
            steps.push((at(handler), inner));
            breaks |= flow.breaks;
            if !flow.ends {
                state = self.join_states(state, other);
            }
        }
        self.either(steps);
        self.state = state;
        self.restore_handles();
        let last = self.block(finally);
        Flow {
            ends: flow.ends || last.ends,
            aborts: flow.aborts,
            may_leave: flow.may_leave
                || last.may_leave
                || swallowed && handlers.iter().any(|h| leaves(h)),
            breaks: breaks || last.breaks,
            runs: flow.runs || last.runs,
        }
    }

    /// Collects the values of names outside of functions.
    pub(super) fn collect_constants(
        &mut self,
        statements: &[Statement],
        found: &mut Vec<(Option<String>, String, Value)>,
    ) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Expression(value) => {
                    let whole = value;
                    if let ExpressionKind::Assign {
                        target,
                        value,
                        operator,
                    } = &whole.kind
                        && let Some(path) = target.path()
                    {
                        let name = path.rsplit('.').next().unwrap_or(&path).to_owned();
                        let class = self.frame().class.clone();
                        let value = match operator {
                            None => self.constant(value),
                            // The new value includes the old one.
                            Some(_) => {
                                found.retain(|(of, known, _)| (of, known) != (&class, &name));
                                self.constant(whole)
                            }
                        };
                        self.state.variables.insert(&name, value.clone());
                        if let Value::Map(pairs) = &value {
                            // `const queries = {find: "…"}`, `exports = {find: "…"}`.
                            let exported = name == "exports";
                            for (key, value) in pairs {
                                let of = (!exported).then(|| name.clone());
                                found.push((of, key.clone(), value.clone()));
                            }
                        }
                        found.push((class, name, value));
                    }
                }
                StatementKind::Block(inner) | StatementKind::Other(inner) => {
                    self.collect_constants(inner, found);
                }
                StatementKind::Class { name, body, .. } => {
                    let last = self.frames.len() - 1;
                    let outer = self.frames[last].class.replace(name.clone());
                    let kept = self.state.variables.clone();
                    self.collect_constants(body, found);
                    self.state.variables = kept;
                    self.frames[last].class = outer;
                }
                // Functions' assignments to fields count, whether or not the functions run.
                StatementKind::Function(function) => self.collect_fields(&function.body, found),
                _ => {}
            }
        }
    }

    fn collect_fields(
        &mut self,
        statements: &[Statement],
        found: &mut Vec<(Option<String>, String, Value)>,
    ) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Expression(value) => {
                    if let ExpressionKind::Assign {
                        target,
                        value,
                        operator,
                    } = &value.kind
                        && let Some(path) = target.path()
                        && let Some(("this" | "self" | "cls", name)) = path.split_once('.')
                    {
                        let mut given = self.constant(value);
                        if operator.is_some() {
                            given = self.scalar(name, Vec::new(), false);
                        }
                        let class = self.frame().class.clone();
                        found.push((class, name.to_owned(), given));
                    }
                }
                StatementKind::If {
                    then, otherwise, ..
                } => {
                    self.collect_fields(then, found);
                    self.collect_fields(otherwise, found);
                }
                StatementKind::Block(inner)
                | StatementKind::Other(inner)
                | StatementKind::Loop { body: inner, .. } => self.collect_fields(inner, found),
                StatementKind::Try { body, finally, .. } => {
                    self.collect_fields(body, found);
                    self.collect_fields(finally, found);
                }
                _ => {}
            }
        }
    }
}

/// Whether statements of a handler, or of `finally`, may run SQL besides ROLLBACK.
fn runs_sql(statements: &[Statement]) -> bool {
    let mut found = false;
    expressions(statements, true, &mut |value| {
        if let ExpressionKind::Call { callee, arguments } = &value.kind
            && let Some(name) = callee.last_name()
        {
            let is_rollback = arguments.first().is_some_and(|argument| {
                matches!(&argument.value.kind, ExpressionKind::Text(text)
                    if Control::of(&text.text) == Some(Control::Rollback))
            });
            let runs = names::always_runs_sql(name) || names::takes_sql(name);
            found |= runs && !is_rollback || names::commits(name);
        }
    });
    found
}

/// Whether a run is among these steps.
fn runs_in(steps: &[WalkedStep], run: usize) -> bool {
    steps.iter().any(|step| match step {
        WalkedStep::Run(at) => *at == run,
        WalkedStep::Prepared(_) | WalkedStep::Ends => false,
        WalkedStep::Called(called) => runs_in(&called.steps, run),
        WalkedStep::Repeat(_) => false,
        WalkedStep::Either(branches) => branches.iter().any(|branch| runs_in(&branch.steps, run)),
    })
}

/// Whether a condition about the result of a query is true, or false, whenever a row was found: it tests the row, the
/// list of rows, or their number.
fn asks_for_rows(condition: &Expression) -> bool {
    match &condition.kind {
        ExpressionKind::Not(inner) => asks_for_rows(inner),
        ExpressionKind::Binary { left, right, .. } => {
            let is_nothing = |value: &Expression| match &value.kind {
                ExpressionKind::Null => true,
                ExpressionKind::Number(number) => number == "0",
                _ => false,
            };
            is_nothing(right) && asks_for_rows(left) || is_nothing(left) && asks_for_rows(right)
        }
        ExpressionKind::Other(parts) => matches!(parts.as_slice(), [one] if asks_for_rows(one)),
        ExpressionKind::Name(name) => !name.to_ascii_lowercase().contains("err"),
        ExpressionKind::Member(_, name) => {
            matches!(name.as_str(), "length" | "rowCount" | "rows" | "num_rows")
        }
        ExpressionKind::Index(of, at) => {
            matches!(&at.kind, ExpressionKind::Number(n) if n == "0") && asks_for_rows(of)
        }
        ExpressionKind::Call { callee, .. } => matches!(
            callee.last_name(),
            Some("fetchone" | "fetchall" | "fetch" | "fetch_assoc" | "first" | "one_or_none")
        ),
        _ => false,
    }
}

/// The flow of a choice between branches.
fn combined(flows: &[Flow]) -> Flow {
    Flow {
        ends: flows.iter().all(|f| f.ends),
        aborts: flows.iter().all(|f| f.aborts),
        may_leave: flows.iter().any(|f| f.may_leave || f.ends && !f.aborts),
        breaks: flows.iter().any(|f| f.breaks),
        runs: flows.iter().any(|f| f.runs),
    }
}

/// Whether the statements contain a `return`.
fn leaves(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match &statement.kind {
        StatementKind::Return(_) => true,
        StatementKind::If {
            then, otherwise, ..
        } => leaves(then) || leaves(otherwise),
        StatementKind::Cases { cases, .. } => cases.iter().any(|case| leaves(case)),
        StatementKind::Loop { body, .. }
        | StatementKind::Block(body)
        | StatementKind::Other(body) => leaves(body),
        StatementKind::Try {
            body,
            handlers,
            finally,
        } => leaves(body) || leaves(finally) || handlers.iter().any(|h| leaves(h)),
        _ => false,
    })
}
