//! Data-flow analysis of a body: the origins of values, and the UPDATEs that can be deferred. One walk, in order.
//!
//! At each place, each variable has a [`Term`] and the set of UPDATEs with RETURNING values in it. Branches are walked
//! separately and joined. What a loop assigns is unknown at the start of its body, and the walk is repeated until
//! nothing more is carried around the loop.
//!
//! An UPDATE can be deferred if its owner can evaluate it at commit without an observable difference: its result is
//! unused or only carried into inserted rows and the output, and no later statement reads its table, or the tables
//! that its result was carried into. This condition is sufficient and simple, not necessary. An UPDATE with a result
//! that is used can be deferred once its row has been read, if it changes no column that it returns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_types::{ColumnIndex, TableId, Value};

use super::{Code, CompiledProcedure, Computed, Outcome, Receiver};
use crate::{
    bind::{RawAccess, RawWrite, term::RawTerm},
    expression::{Domain, Expression, Operator},
    plan::{
        Body,
        statement::{Insert, Statement, StatementKind},
        walk,
    },
    summary::{Deferral, Role, StatementId, Term},
};

/// The sites of UPDATEs.
type Sites = BTreeSet<usize>;

/// The state of the variables at a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) terms: Vec<Term>,
    carried: Vec<Sites>,
    row_count: Sites,
}

/// The results of the walk.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// UPDATEs with a result that something is computed from or decided by.
    pub(super) used: Sites,
    /// UPDATEs with a result that is carried somewhere.
    pub(super) carried: Sites,
    /// The destinations of carried results: the UPDATE, the inserting site and the table.
    into: Vec<(usize, usize, TableId)>,
    /// The state before each site.
    pub(super) before: Vec<Option<State>>,
    /// The innermost loops around each site, outermost first.
    loops: Vec<Vec<usize>>,
    /// The branches and loops around each site, outermost first.
    pub(super) paths: Vec<Vec<u32>>,
    /// Calls of other procedures.
    pub(super) calls: BTreeMap<u32, Called>,
    /// Inserts seen so far: table, column, carried UPDATE and offset.
    inserted: Vec<(TableId, ColumnIndex, usize)>,
}

/// A call of another procedure.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) procedure: Arc<CompiledProcedure>,
    pub(super) arguments: Vec<Term>,
    pub(super) in_loop: bool,
    pub(super) path: Vec<u32>,
}

/// The context of a procedure's run.
pub(super) struct Calling {
    /// The number of its first statement.
    pub(super) first: u32,
    /// The terms of its arguments.
    pub(super) arguments: Vec<Term>,
    /// Whether another procedure calls it.
    pub(super) within: bool,
    /// Whether it may be called more than once.
    pub(super) in_loop: bool,
    /// The branches and loops around the call.
    pub(super) path: Vec<u32>,
}

struct Walk<'w> {
    procedure: &'w CompiledProcedure,
    first: u32,
    findings: Findings,
    loops: Vec<usize>,
    next_loop: usize,
    path: Vec<u32>,
    next_path: u32,
}

pub(super) fn is_pure(term: &Term) -> bool {
    matches!(
        term,
        Term::Constant(_)
            | Term::Parameter(_)
            | Term::Negated(_)
            | Term::Element(_)
            | Term::Now
            | Term::Pure
    )
}

/// The term after the join of two branches.
fn join_terms(terms: &mut [Term], others: &[Term]) {
    for (term, other) in terms.iter_mut().zip(others) {
        if *term != *other {
            *term = if is_pure(term) && is_pure(other) {
                Term::Pure
            } else {
                Term::Unknown
            };
        }
    }
}

impl State {
    /// The state of a statement that belongs to no procedure: its variables are its parameters.
    pub(super) fn of_parameters(count: usize) -> State {
        State {
            terms: (0..count).map(Term::Parameter).collect(),
            carried: vec![Sites::default(); count],
            row_count: Sites::default(),
        }
    }

    /// The state after the join of two branches.
    fn join(&mut self, other: &State) {
        join_terms(&mut self.terms, &other.terms);
        for (sites, other) in self.carried.iter_mut().zip(&other.carried) {
            sites.extend(other);
        }
        self.row_count.extend(&other.row_count);
    }

    /// A term with its variables resolved, for the statement with this number.
    pub(super) fn resolve(
        &self,
        raw: &RawTerm,
        statement: StatementId,
        accesses: &[RawAccess],
    ) -> Term {
        match raw {
            RawTerm::Constant(value) => Term::Constant(value.clone()),
            RawTerm::Variable { slot, offset } => shifted(&self.terms[*slot], *offset),
            RawTerm::Negated { slot } => match &self.terms[*slot] {
                Term::Parameter(parameter) => Term::Negated(*parameter),
                term if is_pure(term) => Term::Pure,
                _ => Term::Unknown,
            },
            RawTerm::Element { slot } => match &self.terms[*slot] {
                Term::Parameter(parameter) => Term::Element(*parameter),
                term if is_pure(term) => Term::Pure,
                _ => Term::Unknown,
            },
            RawTerm::Column {
                access,
                column,
                offset,
            } => {
                let written = accesses
                    .get(*access)
                    .filter(|access| access.role == Role::Update)
                    .and_then(|access| access.writes.iter().find(|(c, _)| c == column));
                match (written, offset) {
                    (None, 0) => Term::Column {
                        statement,
                        access: *access,
                        column: *column,
                    },
                    _ => Term::Unknown,
                }
            }
            RawTerm::Aggregate {
                function,
                access,
                column,
                offset,
            } => Term::Aggregate {
                function: (*function).to_string(),
                statement,
                access: *access,
                column: *column,
                offset: *offset,
            },
            RawTerm::Generated => Term::Generated,
            RawTerm::Now => Term::Now,
            RawTerm::Of(slots) => {
                if slots.iter().all(|slot| is_pure(&self.terms[*slot])) {
                    Term::Pure
                } else {
                    Term::Unknown
                }
            }
            RawTerm::Unknown => Term::Unknown,
        }
    }

    /// The term of an output of a statement: as [`State::resolve`], but with [`Term::Incremented`] for a column that
    /// an UPDATE increments.
    fn output(&self, raw: &RawTerm, statement: StatementId, accesses: &[RawAccess]) -> Term {
        if let RawTerm::Column {
            access: 0,
            column,
            offset,
        } = raw
        {
            let update = accesses
                .first()
                .filter(|access| access.role == Role::Update);
            let write = update.and_then(|access| access.writes.iter().find(|(c, _)| c == column));
            if let Some((_, RawWrite::Add { .. })) = write {
                return Term::Incremented {
                    statement,
                    column: *column,
                    offset: *offset,
                };
            }
        }
        self.resolve(raw, statement, accesses)
    }

    /// The UPDATEs that the variables of an expression carry.
    fn carried_by(&self, expression: &Expression, into: &mut Sites) {
        if let Expression::Variable(slot) = expression {
            into.extend(self.carried.get(*slot).into_iter().flatten());
        }
        expression.each_child(|child| self.carried_by(child, into));
    }
}

/// A variable's term shifted by a constant.
fn shifted(term: &Term, by: i64) -> Term {
    match term {
        term if by == 0 => term.clone(),
        Term::Incremented {
            statement,
            column,
            offset,
        } => Term::Incremented {
            statement: *statement,
            column: *column,
            offset: offset.saturating_add(by),
        },
        Term::Aggregate {
            function,
            statement,
            access,
            column,
            offset,
        } => Term::Aggregate {
            function: function.clone(),
            statement: *statement,
            access: *access,
            column: *column,
            offset: offset.saturating_add(by),
        },
        term if is_pure(term) => Term::Pure,
        _ => Term::Unknown,
    }
}

/// A variable by itself, or shifted by a constant: the expressions that a pending value may go through.
fn carrier(expression: &Expression) -> Option<usize> {
    match expression {
        Expression::Variable(slot) => Some(*slot),
        Expression::Arithmetic {
            operator,
            domain: Domain::Int2 | Domain::Int4 | Domain::Int8,
            left,
            right,
        } => match (operator, &**left, &**right) {
            (
                Operator::Add | Operator::Subtract,
                Expression::Variable(slot),
                Expression::Constant(Value::Int(_)),
            )
            | (Operator::Add, Expression::Constant(Value::Int(_)), Expression::Variable(slot)) => {
                Some(*slot)
            }
            _ => None,
        },
        _ => None,
    }
}

impl Walk<'_> {
    /// Walks statements that run only in a branch, or in each round of a loop.
    fn within(&mut self, codes: &[Code], state: &mut State) {
        self.path.push(self.next_path);
        self.next_path += 1;
        self.codes(codes, state);
        self.path.pop();
    }

    fn codes(&mut self, codes: &[Code], state: &mut State) {
        for code in codes {
            self.code(code, state);
        }
    }

    fn use_expression(&mut self, expression: &Expression, state: &State) {
        state.carried_by(expression, &mut self.findings.used);
    }

    /// Notes an expression that decides something or is computed with; returns its term.
    fn computed(&mut self, computed: &Computed, state: &mut State) -> Term {
        match computed {
            Computed::Pure(expression) => {
                self.use_expression(expression, state);
                self.term_of(expression, state)
            }
            Computed::Query { site } => {
                self.site(*site, state);
                let statement = &self.procedure.statements[*site].statement;
                let id = StatementId(self.first + *site as u32);
                statement.terms.first().map_or(Term::Unknown, |raw| {
                    state.output(raw, id, &statement.accesses)
                })
            }
        }
    }

    fn term_of(&self, expression: &Expression, state: &State) -> Term {
        match (expression, carrier(expression)) {
            (Expression::Constant(value), _) => Term::Constant(value.clone()),
            (Expression::Variable(slot), _) => state.terms[*slot].clone(),
            (now, _) if now.is_now() => Term::Now,
            (
                Expression::Arithmetic {
                    operator,
                    left,
                    right,
                    ..
                },
                Some(slot),
            ) => {
                let by = match (&**left, &**right) {
                    (Expression::Constant(Value::Int(by)), _)
                    | (_, Expression::Constant(Value::Int(by))) => *by,
                    _ => 0,
                };
                let by = if *operator == Operator::Subtract {
                    by.saturating_neg()
                } else {
                    by
                };
                shifted(&state.terms[slot], by)
            }
            _ => {
                let mut pure = !expression.is_unknown();
                expression.any(&mut |e| {
                    if let Expression::Variable(slot) = e {
                        pure = pure && is_pure(&state.terms[*slot]);
                    }
                    false
                });
                if pure { Term::Pure } else { Term::Unknown }
            }
        }
    }

    fn assign(&mut self, slot: usize, value: &Computed, state: &mut State) {
        if let Computed::Pure(expression) = value
            && let Some(from) = carrier(expression)
        {
            let sites = state.carried[from].clone();
            let plain = matches!(expression, Expression::Variable(_));
            let integer = self.procedure.variables[slot].is_integer()
                && self.procedure.variables[slot] == self.procedure.variables[from];
            if !plain && !integer {
                self.findings.used.extend(&sites);
            }
            state.terms[slot] = self.term_of(expression, state);
            state.carried[slot] = sites;
            return;
        }
        let term = self.computed(value, state);
        state.terms[slot] = term;
        state.carried[slot] = Sites::new();
    }

    fn code(&mut self, code: &Code, state: &mut State) {
        match code {
            Code::Sql { site, into, .. } => {
                self.site(*site, state);
                self.results(*site, into, state);
            }
            Code::Assign { slot, value } => self.assign(*slot, value, state),
            Code::AssignElement { slot, index, value } => {
                let index = self.computed(index, state);
                let value = self.computed(value, state);
                let pure = is_pure(&index) && is_pure(&value) && is_pure(&state.terms[*slot]);
                state.terms[*slot] = if pure { Term::Pure } else { Term::Unknown };
            }
            Code::If {
                branches,
                otherwise,
            } => {
                self.branches(branches, otherwise, state);
            }
            Code::ForRange {
                slot,
                from,
                to,
                by,
                body,
                ..
            } => {
                let mut pure =
                    is_pure(&self.computed(from, state)) & is_pure(&self.computed(to, state));
                if let Some(by) = by {
                    pure &= is_pure(&self.computed(by, state));
                }
                let term = if pure { Term::Pure } else { Term::Unknown };
                self.looped(body, state, |_, state| {
                    state.terms[*slot] = term.clone();
                    state.carried[*slot] = Sites::new();
                });
            }
            Code::ForQuery {
                site,
                targets,
                body,
            } => {
                self.site(*site, state);
                self.looped(body, state, |walk, state| {
                    walk.results(*site, targets, state)
                });
            }
            Code::ForEach { slot, array, body } => {
                let term = match self.computed(array, state) {
                    Term::Parameter(parameter) => Term::Element(parameter),
                    term if is_pure(&term) => Term::Pure,
                    _ => Term::Unknown,
                };
                self.looped(body, state, |_, state| {
                    state.terms[*slot] = term.clone();
                    state.carried[*slot] = Sites::new();
                });
            }
            Code::While { condition, body } => {
                self.looped(body, state, |walk, state| {
                    walk.computed(condition, state);
                });
            }
            Code::Exit(_, condition) | Code::Continue(_, condition) => {
                if let Some(condition) = condition {
                    self.computed(condition, state);
                }
            }
            Code::Raise {
                arguments, fields, ..
            } => {
                let fields = fields.iter().map(|(_, value, _)| value);
                let arguments = arguments.iter().map(|(argument, _)| argument);
                for argument in arguments.chain(fields) {
                    self.computed(argument, state);
                }
            }
            Code::Return(value) | Code::ReturnNext(value) => {
                if let Some(Computed::Pure(Expression::Variable(slot))) = value {
                    // The output may carry a pending value.
                    self.findings.carried.extend(&state.carried[*slot]);
                } else if let Some(value) = value {
                    self.computed(value, state);
                }
            }
            Code::ReturnQuery { site, .. } => {
                self.site(*site, state);
                let statement = &self.procedure.statements[*site].statement;
                if is_update(statement) && !statement.columns.is_empty() {
                    self.findings.carried.insert(*site);
                }
            }
            Code::RowCount { slot } => {
                self.findings.used.extend(&state.row_count);
                state.terms[*slot] = Term::Unknown;
                state.carried[*slot] = Sites::new();
            }
            Code::Call {
                procedure,
                offset,
                arguments,
                into,
                ..
            } => {
                self.call(procedure, *offset, arguments, state);
                for Receiver { slot, .. } in into {
                    state.terms[*slot] = Term::Unknown;
                    state.carried[*slot] = Sites::new();
                }
            }
        }
    }

    fn branches(
        &mut self,
        branches: &[(Computed, Vec<Code>)],
        otherwise: &[Code],
        state: &mut State,
    ) {
        let mut joined: Option<State> = None;
        for (condition, body) in branches {
            self.computed(condition, state);
            let mut branch = state.clone();
            self.within(body, &mut branch);
            match &mut joined {
                None => joined = Some(branch),
                Some(joined) => joined.join(&branch),
            }
        }
        self.within(otherwise, state);
        if let Some(joined) = joined {
            state.join(&joined);
        }
    }

    fn call(
        &mut self,
        procedure: &Arc<CompiledProcedure>,
        offset: u32,
        arguments: &[Computed],
        state: &mut State,
    ) {
        let terms: Vec<Term> = arguments
            .iter()
            .map(|argument| self.computed(argument, state))
            .collect();
        let in_loop = !self.loops.is_empty();
        let mut path = self.path.clone();
        path.push(self.next_path);
        self.next_path += 1;
        self.findings
            .calls
            .entry(offset)
            .and_modify(|call| join_terms(&mut call.arguments, &terms))
            .or_insert_with(|| Called {
                procedure: Arc::clone(procedure),
                arguments: terms,
                in_loop,
                path,
            });
    }

    /// Walks a loop: what its body assigns is unknown at its start.
    fn looped(&mut self, body: &[Code], state: &mut State, enter: impl Fn(&mut Self, &mut State)) {
        let number = self.next_loop;
        self.next_loop += 1;
        self.loops.push(number);
        let mut assigned = BTreeSet::new();
        body.iter()
            .for_each(|code| assigned_by(code, self.procedure, &mut assigned));
        for slot in &assigned {
            // It may be assigned before, or not at all.
            state.terms[*slot] = Term::Unknown;
        }
        loop {
            let mut after = state.clone();
            enter(self, &mut after);
            self.within(body, &mut after);
            let before = state.clone();
            for (sites, more) in state.carried.iter_mut().zip(&after.carried) {
                sites.extend(more);
            }
            state.row_count.extend(&after.row_count);
            if *state == before {
                state.join(&after);
                break;
            }
        }
        self.loops.pop();
    }

    /// Walks a statement.
    fn site(&mut self, site: usize, state: &mut State) {
        self.findings.before[site] = Some(match self.findings.before[site].take() {
            None => state.clone(),
            Some(mut earlier) => {
                earlier.join(state);
                earlier
            }
        });
        self.findings.loops[site].clone_from(&self.loops);
        self.findings.paths[site].clone_from(&self.path);
        let statement = &self.procedure.statements[site].statement;
        let mut used = Sites::new();
        match &statement.kind {
            StatementKind::Insert(insert) => {
                for (_, cte) in &statement.ctes {
                    walk::query(cte, &mut |e| state.carried_by(e, &mut used));
                }
                self.insert(site, insert, state, &mut used);
            }
            _ => walk::statement(statement, &mut |e| state.carried_by(e, &mut used)),
        }
        self.findings.used.extend(used);
        state.carried[self.procedure.found] = Sites::from([site]);
        state.terms[self.procedure.found] = Term::Unknown;
        state.row_count = Sites::from([site]);
    }

    /// An INSERT may carry pending values into integer columns that nothing is computed from.
    fn insert(&mut self, site: usize, insert: &Insert, state: &State, used: &mut Sites) {
        let plain = match &insert.query.body {
            Body::Select(select) if insert.query.ctes.is_empty() => {
                select.finish.order.is_empty().then_some(select)
            }
            _ => None,
        };
        let simple = insert.conflict.is_none() && insert.returning.is_none();
        let (Some(select), true) = (plain, simple) else {
            let kind_walk = |e: &Expression| state.carried_by(e, used);
            let mut kind_walk = kind_walk;
            walk::query(&insert.query, &mut kind_walk);
            return;
        };
        walk::select_but_output(select, &mut |e| state.carried_by(e, used));
        let mut carried_columns = Vec::new();
        for (place, expression) in select.projection.iter().enumerate() {
            let column = ColumnIndex(place as u16);
            let Some(slot) = carrier(expression) else {
                state.carried_by(expression, used);
                continue;
            };
            let sites = &state.carried[slot];
            let data_type = &insert.schema.columns[place].data_type;
            if sites.is_empty() {
                continue;
            }
            if !data_type.is_integer() || self.is_checked(insert.schema.id, column) {
                used.extend(sites);
                continue;
            }
            for update in sites {
                carried_columns.push((column, *update));
                self.findings.carried.insert(*update);
                self.findings.into.push((*update, site, insert.schema.id));
            }
        }
        for (column, update) in &carried_columns {
            if !self.parents_carry(insert.schema.id, *column, *update) {
                used.insert(*update);
            }
        }
        let table = insert.schema.id;
        let more = carried_columns
            .into_iter()
            .map(|(column, update)| (table, column, update));
        self.findings.inserted.extend(more);
    }

    /// Whether a CHECK bears on the column.
    fn is_checked(&self, table: TableId, column: ColumnIndex) -> bool {
        let checks = &self.procedure.constraints.of(table).checks;
        checks.iter().any(|check| check.columns.contains(column))
    }

    /// Whether the foreign keys with the column point to rows that this procedure has inserted before with the same
    /// value, so that no pending value is looked up.
    fn parents_carry(&self, table: TableId, column: ColumnIndex, update: usize) -> bool {
        let constraints = self.procedure.constraints.of(table);
        constraints
            .parents
            .iter()
            .filter(|p| p.columns.contains(&column))
            .all(|parent| {
                let key = parent.parent.key_columns(parent.index);
                let of_column = key
                    .iter()
                    .zip(&parent.order)
                    .find(|(_, place)| parent.columns[**place] == column);
                let Some((parent_column, _)) = of_column else {
                    return false;
                };
                parent.index.is_none()
                    && self
                        .findings
                        .inserted
                        .contains(&(parent.parent.id, *parent_column, update))
            })
    }

    /// Walks the assignment of a statement's result to variables.
    fn results(&mut self, site: usize, into: &[Receiver], state: &mut State) {
        let statement = &self.procedure.statements[site].statement;
        let id = StatementId(self.first + site as u32);
        let is_update = is_update(statement);
        for (place, Receiver { slot, .. }) in into.iter().enumerate() {
            let term = statement
                .terms
                .get(place)
                .map_or(Term::Constant(Value::Null), |raw| {
                    state.output(raw, id, &statement.accesses)
                });
            state.terms[*slot] = term;
            state.carried[*slot] = if is_update {
                Sites::from([site])
            } else {
                Sites::new()
            };
        }
        if is_update && !into.is_empty() {
            self.findings.carried.insert(site);
        }
    }
}

/// The variables that a statement of a body assigns.
pub(super) fn assigned_by(code: &Code, procedure: &CompiledProcedure, slots: &mut BTreeSet<usize>) {
    let mut all = |codes: &[Code]| {
        codes
            .iter()
            .for_each(|code| assigned_by(code, procedure, slots))
    };
    match code {
        Code::If {
            branches,
            otherwise,
        } => {
            branches.iter().for_each(|(_, body)| all(body));
            all(otherwise);
        }
        Code::ForRange { slot, body, .. } | Code::ForEach { slot, body, .. } => {
            all(body);
            slots.extend([*slot, procedure.found]);
        }
        Code::ForQuery { targets, body, .. } => {
            all(body);
            slots.extend(targets.iter().map(|receiver| receiver.slot));
            slots.insert(procedure.found);
        }
        Code::While { body, .. } => all(body),
        Code::Sql { into, .. } | Code::Call { into, .. } => {
            slots.extend(into.iter().map(|receiver| receiver.slot));
            slots.insert(procedure.found);
        }
        Code::Assign { slot, .. } | Code::AssignElement { slot, .. } | Code::RowCount { slot } => {
            slots.insert(*slot);
        }
        Code::ReturnQuery { .. } => {
            slots.insert(procedure.found);
            if let Outcome::Variables(outputs) = &procedure.result {
                slots.extend(outputs);
            }
        }
        Code::Exit(..)
        | Code::Continue(..)
        | Code::Raise { .. }
        | Code::Return(_)
        | Code::ReturnNext(_) => {}
    }
}

impl CompiledProcedure {
    /// The context of a call by itself.
    pub(super) fn by_itself(&self) -> Calling {
        Calling {
            first: self.first_statement,
            arguments: (0..self.parameters.len()).map(Term::Parameter).collect(),
            within: false,
            in_loop: false,
            path: Vec::new(),
        }
    }

    pub(super) fn walked(&self, calling: &Calling) -> Findings {
        let sites = self.statements.len();
        let mut walk = Walk {
            procedure: self,
            first: calling.first,
            findings: Findings {
                before: vec![None; sites],
                loops: vec![Vec::new(); sites],
                paths: vec![Vec::new(); sites],
                ..Findings::default()
            },
            loops: Vec::new(),
            next_loop: 0,
            path: calling.path.clone(),
            next_path: 0,
        };
        let mut terms = vec![Term::Constant(Value::Null); self.variables.len()];
        terms[..calling.arguments.len()].clone_from_slice(&calling.arguments);
        let carried = vec![Sites::new(); self.variables.len()];
        let mut state = State {
            terms,
            carried,
            row_count: Sites::new(),
        };
        walk.codes(&self.body, &mut state);
        walk.findings
    }

    /// Decides which UPDATEs can be deferred.
    pub(super) fn settle_deferral(&mut self) {
        let findings = self.walked(&self.by_itself());
        let deferrals: Vec<Deferral> = (0..self.statements.len())
            .map(|site| self.deferral_of(site, &findings))
            .collect();
        for (site, deferral) in self.statements.iter_mut().zip(deferrals) {
            site.deferral = deferral;
        }
    }

    fn deferral_of(&self, site: usize, findings: &Findings) -> Deferral {
        let StatementKind::Update(update) = &self.statements[site].statement.kind else {
            return Deferral::None;
        };
        let has_ctes = !self.statements[site].statement.ctes.is_empty();
        if update.deferred.is_none() || has_ctes || self.calls_others() {
            return Deferral::None;
        }
        // A result of several rows goes into no variable, and the rest of RETURNING is not used.
        let own = update.schema.id;
        let clear = |after: usize, table: TableId| {
            (0..self.statements.len())
                .filter(|other| *other != site)
                .all(|other| {
                    let shared_loop = findings.loops[after]
                        .iter()
                        .any(|l| findings.loops[other].contains(l));
                    let later = other > after || shared_loop;
                    let reads = self.statements[other]
                        .statement
                        .accesses
                        .iter()
                        .any(|access| access.table == table && access.role != Role::Insert);
                    !(later && reads)
                })
        };
        let carried = || {
            let mut into = findings.into.iter().filter(|(update, ..)| *update == site);
            into.all(|(_, insert, table)| clear(*insert, *table))
        };
        if !clear(site, own) {
            Deferral::None
        } else if !findings.used.contains(&site) && carried() {
            Deferral::Unread
        } else if update.returns_old {
            Deferral::AfterReading
        } else {
            Deferral::None
        }
    }

    fn calls_others(&self) -> bool {
        self.called_statements > 0
    }
}

pub(super) fn is_update(statement: &Statement) -> bool {
    matches!(statement.kind, StatementKind::Update(_))
}
