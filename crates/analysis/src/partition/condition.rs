//! Satisfiability of the conditions under which two operations access one row.
//!
//! A [`Condition`] is a conjunction over values: columns of the row, the two calls' parameters, keys that they
//! generate, columns of other rows that they read, constants. Its parts are equalities, inequalities and tests for
//! NULL. It is *refuted* if congruence (equal terms have one value), constants, NULL and a closure of the order
//! (over integers with distances: `x > 3 AND x < 4` is refuted) contradict each other. What is not refuted counts
//! as satisfiable: `x > 3 AND x < 5 AND x <> 4` does. That is the safe side: one conflict too many.
//!
//! The required equalities yield the keys by which both calls are routed to one server ([`Condition::equal_keys`]).

use anabranch_sql::summary::{Comparison, Role, StatementId, StatementSummary, Term, WriteClass};
use anabranch_types::{ColumnIndex, DataType, TableId, Value};

use super::Key;
use crate::footprint::Footprint;

/// The most values for which the order is examined; with more, less is refuted.
const ORDERED_MAX: usize = 32;

/// The most steps from a column to what was inserted into it.
const STEPS_MAX: usize = 8;

/// Kinds of values that are compared with each other exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Integer,
    Text,
    Uuid,
    Date,
    Timestamp,
    TimestampTz,
    /// Equal values may be written in several ways: `1.0` and `1.00`.
    Numeric,
}

impl Kind {
    /// The kind of a type's values; `None` if they are not compared exactly (`'a'` and `'a '` as `char`,
    /// floating-point numbers) or not at all.
    pub(crate) fn of(data_type: &DataType) -> Option<Kind> {
        Some(match data_type {
            DataType::Bool => Kind::Boolean,
            integer if integer.is_integer() => Kind::Integer,
            DataType::Text | DataType::Varchar(_) => Kind::Text,
            DataType::Uuid => Kind::Uuid,
            DataType::Date => Kind::Date,
            DataType::Timestamp => Kind::Timestamp,
            DataType::TimestampTz => Kind::TimestampTz,
            DataType::Numeric(_) => Kind::Numeric,
            _ => return None,
        })
    }

    /// Whether equal values are the same to a routing function.
    pub(crate) fn is_exact(self) -> bool {
        self != Kind::Numeric
    }

    fn fits(self, value: &Value) -> bool {
        match value {
            Value::Bool(_) => self == Kind::Boolean,
            Value::Int(_) => self == Kind::Integer,
            Value::Text(_) => self == Kind::Text,
            Value::Uuid(_) => self == Kind::Uuid,
            Value::Date(_) => self == Kind::Date,
            Value::Timestamp(_) => matches!(self, Kind::Timestamp | Kind::TimestampTz),
            Value::Numeric(_) => self == Kind::Numeric,
            _ => false,
        }
    }
}

/// One of the two calls that access the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    One,
    Other,
}

/// A variable of a condition.
#[derive(Clone, Debug, PartialEq)]
enum Variable {
    /// A column of the common row that no type changes: both calls see the same value.
    Row(ColumnIndex),
    /// A column of the common row as one of the calls sees it.
    Seen(Side, ColumnIndex),
    Parameter(Side, usize),
    /// A value that only this call generates. The number distinguishes the values of one call, where that is known.
    Generated(Side, u64),
    /// A column of another row, which the call reads.
    Read(Side, StatementId, usize, ColumnIndex),
    Constant(Value),
}

#[derive(Clone, Debug)]
struct Node {
    variable: Variable,
    kind: Kind,
    /// Another node of the same value, or the node itself.
    same: usize,
    null: bool,
    not_null: bool,
}

/// The least difference of two values: whole steps, and the number of strict inequalities.
type Distance = (i128, u32);

/// A condition on a column of the row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Demand {
    pub(super) column: ColumnIndex,
    /// `None`: the column has the value because it is stored there, NULL included.
    pub(super) comparison: Option<Comparison>,
    pub(super) term: Term,
}

/// A conjunction.
#[derive(Clone, Debug, Default)]
pub(super) struct Condition {
    nodes: Vec<Node>,
    /// The first is less than the second, or (false) not greater.
    less: Vec<(usize, usize, bool)>,
    differ: Vec<(usize, usize)>,
    never: bool,
    fresh: u64,
}

/// A call that states demands on a row of a table.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) footprint: &'a Footprint<'a>,
    pub(super) side: Side,
    pub(super) owner: usize,
    pub(super) table: TableId,
    /// The statement that stores the values, if any.
    pub(super) statement: Option<StatementId>,
    /// The access by which it finds the row: its columns are the row's.
    pub(super) found_by: Option<(StatementId, usize)>,
    /// Whether the row is a guard: its columns are a name, which means the same to both calls.
    pub(super) is_name: bool,
}

impl<'a> Caller<'a> {
    /// A column of the row: both calls see the same value if no type changes it.
    fn of_row(&self, column: ColumnIndex) -> Variable {
        match self.is_name || self.footprint.is_settled(self.table, column) {
            true => Variable::Row(column),
            false => Variable::Seen(self.side, column),
        }
    }

    /// The statement, if a call runs it at most once.
    fn runs_once(&self, statement: StatementId) -> Option<&'a StatementSummary> {
        let found = self.footprint.statement(self.owner, statement);
        found.filter(|s| !s.in_loop)
    }
}

impl Condition {
    /// Adds a demand of a caller on a column of the row.
    pub(super) fn demand(&mut self, caller: Caller<'_>, demand: &Demand) {
        let table = caller.footprint.table(caller.table);
        let data_type = &table.columns[demand.column.index()].data_type;
        let Some(kind) = Kind::of(data_type) else {
            return;
        };
        let column = self.node(caller.of_row(demand.column), kind);
        match demand.comparison {
            Some(Comparison::IsNull) => self.nodes[column].null = true,
            Some(Comparison::IsNotNull) => self.nodes[column].not_null = true,
            Some(comparison) => {
                // A comparison with NULL is never true.
                self.nodes[column].not_null = true;
                if matches!(demand.term, Term::Constant(Value::Null)) {
                    self.never = true;
                } else if let Some(term) = self.term(caller, &demand.term, demand.column, kind) {
                    self.nodes[term].not_null = true;
                    self.compare(column, comparison, term);
                }
            }
            None => {
                // Values are changed to fit: blanks beyond the length are dropped, digits are rounded.
                let kept = kind.is_exact() && !matches!(data_type, DataType::Varchar(Some(_)));
                if matches!(demand.term, Term::Constant(Value::Null)) {
                    self.nodes[column].null = true;
                } else if let Some(term) = self.term(caller, &demand.term, demand.column, kind)
                    && kept
                {
                    self.join(column, term);
                }
            }
        }
    }

    fn compare(&mut self, a: usize, comparison: Comparison, b: usize) {
        match comparison {
            Comparison::Equal => self.join(a, b),
            Comparison::NotEqual => self.differ.push((a, b)),
            Comparison::Less => self.less.push((a, b, true)),
            Comparison::LessOrEqual => self.less.push((a, b, false)),
            Comparison::Greater => self.less.push((b, a, true)),
            Comparison::GreaterOrEqual => self.less.push((b, a, false)),
            Comparison::IsNull | Comparison::IsNotNull => {}
        }
    }

    fn node(&mut self, variable: Variable, kind: Kind) -> usize {
        let known = self.nodes.iter().position(|n| n.variable == variable);
        known.unwrap_or_else(|| {
            self.nodes.push(Node {
                variable,
                kind,
                same: self.nodes.len(),
                null: false,
                not_null: false,
            });
            self.nodes.len() - 1
        })
    }

    /// The node of a term that is compared with, or stored in, `column`; `None` if nothing is known of it.
    fn term(
        &mut self,
        caller: Caller<'_>,
        term: &Term,
        column: ColumnIndex,
        kind: Kind,
    ) -> Option<usize> {
        let (side, summary) = (caller.side, caller.footprint.types[caller.owner].summary);
        let (mut term, mut column, mut statement) = (term, column, caller.statement);
        for _ in 0..STEPS_MAX {
            match term {
                Term::Constant(value) => {
                    return kind
                        .fits(value)
                        .then(|| self.node(Variable::Constant(value.clone()), kind));
                }
                Term::Parameter(parameter) => {
                    let (_, data_type) = summary.parameters.get(*parameter)?;
                    return (Kind::of(data_type) == Some(kind))
                        .then(|| self.node(Variable::Parameter(side, *parameter), kind));
                }
                Term::Generated => {
                    let once = statement.and_then(|s| caller.runs_once(s));
                    let once = once.filter(|s| s.inserts_one);
                    let number = match once {
                        Some(s) => u64::from(s.id.0) << 16 | u64::from(column.0),
                        None => {
                            // One of several values, not known which.
                            self.fresh += 1;
                            u64::MAX - self.fresh
                        }
                    };
                    return Some(self.node(Variable::Generated(side, number), kind));
                }
                Term::Column {
                    statement: read,
                    access,
                    column: of,
                } => {
                    let reading = caller.footprint.statement(caller.owner, *read)?;
                    let found = reading.accesses.get(*access)?;
                    let table = caller.footprint.table(found.table);
                    let described = table.columns.get(of.index())?;
                    if Kind::of(&described.data_type) != Some(kind) {
                        return None;
                    }
                    if caller.found_by == Some((*read, *access)) {
                        return Some(self.node(caller.of_row(*of), kind));
                    }
                    let stored = found.writes.iter().find(|w| w.column == *of);
                    match stored.map(|w| &w.class) {
                        // INSERT returns the value it inserts, unless that is changed to fit.
                        Some(WriteClass::Assign(inserted))
                            if found.role == Role::Insert
                                && kind.is_exact()
                                && !matches!(described.data_type, DataType::Varchar(Some(_))) =>
                        {
                            (term, column, statement) = (inserted, *of, Some(*read));
                        }
                        _ => {
                            // Of several rows that it reads, it is not known which one is meant.
                            caller.runs_once(*read)?;
                            let read = Variable::Read(side, *read, *access, *of);
                            return Some(self.node(read, kind));
                        }
                    }
                }
                _ => return None,
            }
        }
        None
    }

    fn root(&self, mut node: usize) -> usize {
        while self.nodes[node].same != node {
            node = self.nodes[node].same;
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.nodes[a.max(b)].same = a.min(b);
    }

    /// Whether the condition may hold. Joins values that the order makes equal.
    pub(super) fn is_satisfiable(&mut self) -> bool {
        if self.never {
            return false;
        }
        loop {
            if self.contradicts() {
                return false;
            }
            match self.order() {
                None => return false,
                Some(true) => {}
                Some(false) => return true,
            }
        }
    }

    /// Whether joined values contradict each other.
    fn contradicts(&self) -> bool {
        let roots: Vec<usize> = (0..self.nodes.len()).map(|n| self.root(n)).collect();
        let alike = |a: &usize, b: &usize| roots[*a] == roots[*b];
        let apart = |(a, b): &(usize, usize)| alike(a, b);
        if self.differ.iter().any(apart) {
            return true;
        }
        for (a, one) in self.nodes.iter().enumerate() {
            let same = (0..self.nodes.len()).filter(|b| alike(&a, b));
            for other in same.map(|b| &self.nodes[b]) {
                let differ = match (&one.variable, &other.variable) {
                    (Variable::Constant(x), Variable::Constant(y)) => {
                        x.compare(y).is_some_and(|order| order.is_ne())
                    }
                    // No two calls generate the same value.
                    (Variable::Generated(x, _), Variable::Generated(y, _)) => x != y,
                    _ => false,
                };
                let is_null = one.null && (other.not_null || other.is_there());
                if differ || is_null {
                    return true;
                }
            }
        }
        false
    }

    /// Closes the order. `None` if a value would be less than itself; otherwise whether values were found to be
    /// equal.
    fn order(&mut self) -> Option<bool> {
        if self.less.is_empty() {
            return Some(false);
        }
        let mut roots: Vec<usize> = (0..self.nodes.len()).map(|n| self.root(n)).collect();
        let place_of = roots.clone();
        roots.sort_unstable();
        roots.dedup();
        if roots.len() > ORDERED_MAX {
            return Some(false);
        }
        let place = |node: usize| roots.binary_search(&place_of[node]).unwrap_or_default();
        let count = roots.len();
        let mut least: Vec<Vec<Option<Distance>>> = vec![vec![None; count]; count];
        let mut at_least = |a: usize, b: usize, by: Distance| {
            let known = &mut least[a][b];
            *known = Some(known.map_or(by, |k| k.max(by)));
        };
        for (a, b, strictly) in &self.less {
            let whole = [a, b].iter().all(|n| self.nodes[**n].kind == Kind::Integer);
            let by = match (strictly, whole) {
                (false, _) => (0, 0),
                (true, true) => (1, 0),
                (true, false) => (0, 1),
            };
            at_least(place(*a), place(*b), by);
        }
        let constants = || {
            self.nodes.iter().enumerate().filter_map(|(n, node)| {
                let Variable::Constant(value) = &node.variable else {
                    return None;
                };
                Some((place(n), value))
            })
        };
        for (a, x) in constants() {
            for (b, y) in constants().filter(|(b, _)| *b != a) {
                match (x, y) {
                    (Value::Int(x), Value::Int(y)) => {
                        at_least(a, b, (i128::from(*y) - i128::from(*x), 0));
                    }
                    _ if x.compare(y).is_some_and(|order| order.is_lt()) => at_least(a, b, (0, 1)),
                    _ => {}
                }
            }
        }
        for through in 0..count {
            for a in 0..count {
                for b in 0..count {
                    let (Some(x), Some(y)) = (least[a][through], least[through][b]) else {
                        continue;
                    };
                    let by = (x.0 + y.0, x.1 + y.1);
                    if least[a][b].is_none_or(|known| known < by) {
                        least[a][b] = Some(by);
                    }
                }
                if least[a][a].is_some_and(|by| by > (0, 0)) {
                    return None;
                }
            }
        }
        let mut equal = Vec::new();
        for (a, row) in least.iter().enumerate() {
            for (b, by) in row.iter().enumerate().skip(a + 1) {
                if *by == Some((0, 0)) && least[b][a] == Some((0, 0)) {
                    equal.push((roots[a], roots[b]));
                }
            }
        }
        let found = !equal.is_empty();
        equal.into_iter().for_each(|(a, b)| self.join(a, b));
        Some(found)
    }

    /// The keys of both calls that are equal whenever the condition holds.
    pub(super) fn equal_keys(&self) -> Vec<(Key, Key)> {
        let key = |node: &Node| {
            if !node.kind.is_exact() {
                return None;
            }
            match node.variable {
                Variable::Parameter(side, parameter) => Some((side, Key::Parameter(parameter))),
                // Numbers come from a sequence, which a server draws its own from. It cannot choose a UUID.
                Variable::Generated(side, _) if node.kind == Kind::Integer => {
                    Some((side, Key::Generated))
                }
                _ => None,
            }
        };
        let mut equal = Vec::new();
        for (a, one) in self.nodes.iter().enumerate() {
            let Some((Side::One, of_one)) = key(one) else {
                continue;
            };
            for (b, other) in self.nodes.iter().enumerate() {
                let same = one.kind == other.kind && self.root(a) == self.root(b);
                if let (true, Some((Side::Other, of_other))) = (same, key(other)) {
                    equal.push((of_one, of_other));
                }
            }
        }
        equal.sort_unstable();
        equal.dedup();
        equal
    }
}

impl Node {
    /// Whether the value is surely not NULL.
    fn is_there(&self) -> bool {
        matches!(
            self.variable,
            Variable::Constant(_) | Variable::Generated(..)
        )
    }
}
