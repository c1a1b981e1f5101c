//! Join order: the order of a query's steps.
//!
//! Greedy, from left to right: of the sources that can be joined next, the one that is cheapest to read. Pure sources
//! (parameters, `unnest`, VALUES) cost nothing; then come rows by full primary key, ranges by the longest known index
//! prefix, derived tables, and whole tables last. Filters apply as soon as their columns are there; subqueries are
//! computed last, for the remaining rows. There are no statistics: an OLTP query shows by its keys how it is meant to
//! run.

use anabranch_types::{Schema, TableId, TableSchema};

use super::{
    Body, Finish, FunctionStep, Join, Path, QueryStep, RowsOf, Step, Subquery, SubqueryKind,
    TableFunction, TableRead, WhenLocked,
    access::{self, Choice},
    integers,
    window::WindowStep,
};
use crate::{
    bind::{
        aggregate::{Aggregate, AggregateFunction},
        from::{FullJoin, PlanSource, SourceKind, bit, mask, split},
    },
    expression::{Expression, Relation},
};

/// The parts of a SELECT before they are ordered.
pub(crate) struct Arrangement<'a> {
    pub(crate) schema: &'a Schema,
    /// The FULL JOINs, which come before the sources.
    pub(crate) full_joins: Vec<FullJoin>,
    pub(crate) sources: Vec<PlanSource>,
    pub(crate) conjuncts: Vec<Expression>,
    pub(crate) subqueries: Vec<Subquery>,
    pub(crate) windows: Option<WindowStep>,
    /// GROUP BY's keys and HAVING, if the query is grouped.
    pub(crate) grouping: Option<(Vec<Expression>, Option<Expression>)>,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) aggregate_source: Option<usize>,
    /// Whether it begins with a single tuple.
    pub(crate) single: bool,
    pub(crate) for_write: bool,
}

struct Planner<'a> {
    schema: &'a Schema,
    steps: Vec<Step>,
    placed: u64,
    /// Conjuncts not applied yet.
    conjuncts: Vec<Expression>,
    subqueries: Vec<Subquery>,
    /// Whether there is at most one tuple so far.
    single: bool,
    for_write: bool,
}

/// Orders the steps. An ORDER BY that an index gives is removed from `finish`; its LIMIT is passed to a read that can
/// stop early.
pub(crate) fn arrange(
    mut arrangement: Arrangement<'_>,
    projection: &[Expression],
    finish: &mut Finish,
) -> Vec<Step> {
    let behind = take_behind(arrangement.windows.as_ref(), &mut arrangement.subqueries);
    let (grouped, ungrouped) = match &arrangement.grouping {
        Some(_) => arrangement
            .subqueries
            .into_iter()
            .partition(|subquery| subquery.grouped),
        None => (Vec::new(), arrangement.subqueries),
    };
    let mut planner = Planner {
        schema: arrangement.schema,
        steps: Vec::new(),
        placed: 0,
        conjuncts: arrangement.conjuncts,
        subqueries: ungrouped,
        single: arrangement.single,
        for_write: arrangement.for_write,
    };
    for full_join in std::mem::take(&mut arrangement.full_joins) {
        planner.place_full_join(full_join);
    }
    planner.place_independent_subqueries();
    planner.apply_constant_filters();
    let mut remaining = std::mem::take(&mut arrangement.sources);
    while !remaining.is_empty() {
        planner.place_next(&mut remaining);
    }
    planner.place_correlated_subqueries();
    if arrangement.grouping.is_none() && arrangement.windows.is_none() {
        use_index_order(&mut planner.steps, projection, finish, arrangement.single);
    } else if arrangement.grouping.is_some() && arrangement.single {
        use_index_end(
            &mut planner.steps,
            &arrangement.aggregates,
            &arrangement.grouping,
        );
    }
    let mut steps = planner.steps;
    if let Some((keys, having)) = arrangement.grouping {
        let source = arrangement
            .aggregate_source
            .expect("a grouped query has such a source");
        let grand = keys.is_empty();
        steps.push(Step::Group {
            source,
            keys,
            aggregates: arrangement.aggregates,
            grand,
        });
        let mut having_conjuncts = Vec::new();
        having
            .into_iter()
            .for_each(|having| split(having, &mut having_conjuncts));
        steps.extend(grouped.into_iter().map(|subquery| Step::Subquery {
            source: subquery.source,
            subquery: Box::new(subquery),
        }));
        if !having_conjuncts.is_empty() {
            steps.push(Step::Filter(having_conjuncts));
        }
    }
    let windows = arrangement.windows.into_iter();
    steps.extend(windows.map(|windows| Step::Window(Box::new(windows))));
    steps.extend(behind.into_iter().map(|subquery| Step::Subquery {
        source: subquery.source,
        subquery: Box::new(subquery),
    }));
    integers::settle(&mut steps);
    steps
}

/// Takes out the subqueries that need the value of a window function: `rank() OVER (…) IN (SELECT …)`.
fn take_behind(windows: Option<&WindowStep>, subqueries: &mut Vec<Subquery>) -> Vec<Subquery> {
    let Some(windows) = windows else {
        return Vec::new();
    };
    let mut late = bit(windows.source);
    let (behind, before) = std::mem::take(subqueries)
        .into_iter()
        .partition(|subquery| {
            let is_late = Planner::needs(subquery) & late != 0;
            if is_late {
                late |= bit(subquery.source);
            }
            is_late
        });
    *subqueries = before;
    behind
}

impl Planner<'_> {
    /// The sources that a subquery needs before it can be computed.
    fn needs(subquery: &Subquery) -> u64 {
        subquery
            .references
            .iter()
            .fold(0, |mask, (source, _)| mask | bit(*source))
    }

    fn place_independent_subqueries(&mut self) {
        while let Some(place) = self
            .subqueries
            .iter()
            .position(|subquery| Self::needs(subquery) & !self.placed == 0)
        {
            let subquery = self.subqueries.remove(place);
            self.place_subquery(subquery);
        }
    }

    fn place_subquery(&mut self, subquery: Subquery) {
        self.placed |= bit(subquery.source);
        self.steps.push(Step::Subquery {
            source: subquery.source,
            subquery: Box::new(subquery),
        });
    }

    fn apply_constant_filters(&mut self) {
        let filters = self.take_applicable(self.placed);
        if !filters.is_empty() {
            self.steps.push(Step::Filter(filters));
        }
    }

    /// Takes out the conjuncts over columns of `available` alone.
    fn take_applicable(&mut self, available: u64) -> Vec<Expression> {
        let (now, later) = std::mem::take(&mut self.conjuncts)
            .into_iter()
            .partition(|c| mask(c) & !available == 0);
        self.conjuncts = later;
        now
    }

    /// Joins the sources up to a FULL JOIN, and its right side. All rows of both are read: conditions behind the join
    /// would leave others without a match.
    fn place_full_join(&mut self, of: FullJoin) {
        let later = std::mem::replace(&mut self.conjuncts, of.conjuncts);
        self.apply_constant_filters();
        let mut remaining = of.sources;
        while !remaining.is_empty() {
            self.place_next(&mut remaining);
        }
        debug_assert!(self.conjuncts.is_empty(), "conditions are over sources");
        self.conjuncts = later;
        let number = of.right.number;
        let mut matches = of.on;
        let hash = self.hash_keys(number, true, &mut matches);
        let join = Join {
            left: true,
            full: true,
            matches,
            filters: Vec::new(),
        };
        let rows = match of.right.kind {
            SourceKind::Table(table) => {
                self.steps.push(Step::Read(Box::new(TableRead {
                    source: number,
                    schema: self.schema.tables[table.index()].clone(),
                    path: Path::Scan { hash },
                    fixed: Vec::new(),
                    join,
                    for_write: self.for_write,
                    wants_keys: false,
                    when_locked: WhenLocked::Wait,
                })));
                self.placed |= bit(number);
                self.single = false;
                return;
            }
            SourceKind::Query(query) => RowsOf::Query(query),
            SourceKind::Constant { values, width } => RowsOf::Constant { values, width },
            SourceKind::Cte { number, width } => RowsOf::Cte { number, width },
            SourceKind::Function { .. } | SourceKind::Rows(_) => {
                unreachable!("these are no right side of a FULL JOIN")
            }
        };
        self.steps.push(Step::Query(Box::new(QueryStep {
            source: number,
            rows,
            hash,
            join,
        })));
        self.placed |= bit(number);
        self.single = false;
    }

    /// Joins the source that is cheapest to read.
    fn place_next(&mut self, remaining: &mut Vec<PlanSource>) {
        let ready = |source: &PlanSource| {
            source.depends & !self.placed == 0
                && source
                    .left
                    .as_ref()
                    .is_none_or(|(_, after)| after & !self.placed == 0)
        };
        let mut best: Option<(u32, usize)> = None;
        for (place, source) in remaining
            .iter()
            .enumerate()
            .filter(|(_, source)| ready(source))
        {
            let cost = self.cost(source);
            if best.is_none_or(|(lowest, _)| cost < lowest) {
                best = Some((cost, place));
            }
        }
        let Some((_, place)) = best else {
            // What is next needs the value of a subquery that needed what is placed now.
            let subqueries = self.subqueries.len();
            self.place_independent_subqueries();
            assert!(
                self.subqueries.len() < subqueries,
                "sources depend on earlier ones alone"
            );
            return;
        };
        let source = remaining.remove(place);
        self.place(source);
    }

    fn cost(&self, source: &PlanSource) -> u32 {
        match &source.kind {
            SourceKind::Function { .. } | SourceKind::Rows(_) => 0,
            SourceKind::Constant { .. } => {
                // One that an equality ties to a value that is known multiplies the least, and one that nothing ties to
                // what is there multiplies it: a subquery may tie the two.
                let pool = match &source.left {
                    Some((on, _)) => on,
                    None => &self.conjuncts,
                };
                let is_tied = pool.iter().any(|c| ties(c, source.number, self.placed));
                match is_tied {
                    true => 300,
                    false if self.placed == 0 => 400,
                    false => 600,
                }
            }
            SourceKind::Query(_) | SourceKind::Cte { .. } => 500,
            SourceKind::Table(table) => {
                let schema = self.schema.table(*table);
                self.choice(source, schema).cost
            }
        }
    }

    fn choice(&self, source: &PlanSource, schema: &TableSchema) -> Choice {
        let conjuncts = match &source.left {
            Some((on, _)) => on,
            None => &self.conjuncts,
        };
        access::choose(schema, source.number, conjuncts, self.placed)
    }

    /// Computes the subqueries in the condition of an outer join, before its side that may be missing is joined.
    fn place_subqueries_of(&mut self, on: &[Expression]) {
        let mut wanted = on.iter().fold(0, |wanted, part| wanted | mask(part));
        loop {
            let mut needed = self.subqueries.iter();
            let ready = needed.position(|subquery| {
                bit(subquery.source) & wanted != 0 && Self::needs(subquery) & !self.placed == 0
            });
            if let Some(place) = ready {
                let subquery = self.subqueries.remove(place);
                self.place_subquery(subquery);
                continue;
            }
            let of_wanted = |subquery: &&Subquery| bit(subquery.source) & wanted != 0;
            let needed = self.subqueries.iter().filter(of_wanted);
            let more = needed.fold(wanted, |all, subquery| all | Self::needs(subquery));
            if more == wanted {
                return;
            }
            wanted = more;
        }
    }

    fn place(&mut self, source: PlanSource) {
        let number = source.number;
        if let Some((on, _)) = &source.left {
            self.place_subqueries_of(on);
        }
        let after = self.placed | bit(number);
        let (left, mut matches) = match source.left {
            Some((on, _)) => (true, on),
            None => (false, Vec::new()),
        };
        match source.kind {
            SourceKind::Table(table) => {
                let target = (source.target, source.when_locked);
                self.place_table(number, table, left, matches, target);
            }
            SourceKind::Function {
                function,
                arguments,
                ordinality,
            } => {
                let step = FunctionStep {
                    source: number,
                    function,
                    arguments,
                    ordinality,
                    join: self.join(number, left, matches),
                };
                self.steps.push(Step::Function(Box::new(step)));
                self.single = false;
            }
            SourceKind::Rows(rows) => {
                let join = self.join(number, left, matches);
                self.steps.push(Step::Rows {
                    source: number,
                    rows,
                    join,
                });
                self.single = false;
            }
            SourceKind::Query(query) => {
                let hash = if query.correlated {
                    Vec::new()
                } else {
                    self.hash_keys(number, left, &mut matches)
                };
                self.place_rows(number, RowsOf::Query(query), hash, left, matches);
            }
            SourceKind::Constant { values, width } => {
                let hash = self.hash_keys(number, left, &mut matches);
                let rows = RowsOf::Constant { values, width };
                self.place_rows(number, rows, hash, left, matches);
            }
            SourceKind::Cte { number: cte, width } => {
                let hash = self.hash_keys(number, left, &mut matches);
                self.place_rows(
                    number,
                    RowsOf::Cte { number: cte, width },
                    hash,
                    left,
                    matches,
                );
            }
        }
        self.placed = after;
    }

    /// The join of a source to the placed ones, with the filters that then apply.
    fn join(&mut self, number: usize, left: bool, matches: Vec<Expression>) -> Join {
        let filters = self.take_applicable(self.placed | bit(number));
        Join {
            left,
            full: false,
            matches,
            filters,
        }
    }

    fn place_table(
        &mut self,
        number: usize,
        table: TableId,
        left: bool,
        mut matches: Vec<Expression>,
        (is_target, when_locked): (bool, WhenLocked),
    ) {
        let schema = self.schema.tables[table.index()].clone();
        let pool = if left {
            &mut matches
        } else {
            &mut self.conjuncts
        };
        let choice = access::choose(&schema, number, pool, self.placed);
        let fixed = access::fixed(&schema, number, pool);
        let mut place = 0;
        pool.retain(|_| {
            place += 1;
            !choice.consumed.contains(&(place - 1))
        });
        let path = self.hashed(choice.path, number, left, &mut matches);
        let one = matches!(path, Path::Point { .. });
        let join = self.join(number, left, matches);
        self.steps.push(Step::Read(Box::new(TableRead {
            source: number,
            schema,
            path,
            fixed,
            join,
            for_write: is_target || self.for_write,
            wants_keys: is_target || when_locked == WhenLocked::Skip,
            when_locked,
        })));
        self.single = self.single && one;
    }

    fn place_rows(
        &mut self,
        number: usize,
        rows: RowsOf,
        hash: Vec<(Expression, Expression)>,
        left: bool,
        matches: Vec<Expression>,
    ) {
        let join = self.join(number, left, matches);
        self.steps.push(Step::Query(Box::new(QueryStep {
            source: number,
            rows,
            hash,
            join,
        })));
        self.single = false;
    }

    /// Turns a scan for many tuples into a hash join, if there is an equality; notes the equalities of a range.
    fn hashed(
        &mut self,
        path: Path,
        number: usize,
        left: bool,
        matches: &mut Vec<Expression>,
    ) -> Path {
        match path {
            Path::Scan { .. } if !self.single => Path::Scan {
                hash: self.hash_keys(number, left, matches),
            },
            Path::Range(mut range) if !self.single => {
                let pool = if left { matches } else { &mut self.conjuncts };
                let pairs = pool.iter().cloned();
                // The row's side is evaluated for rows that other conditions leave out: a column cannot fail.
                let is_safe = |(row, tuple): &(Expression, Expression)| {
                    matches!(row, Expression::Column { .. }) && !tuple.is_volatile()
                };
                range.hash = pairs
                    .filter_map(|conjunct| equality(conjunct, number, self.placed).ok())
                    .filter(is_safe)
                    .collect();
                Path::Range(range)
            }
            other => other,
        }
    }

    /// Takes out the equalities between the source and the placed ones.
    fn hash_keys(
        &mut self,
        number: usize,
        left: bool,
        matches: &mut Vec<Expression>,
    ) -> Vec<(Expression, Expression)> {
        let pool = if left { matches } else { &mut self.conjuncts };
        let mut keys = Vec::new();
        let mut rest = Vec::new();
        for conjunct in std::mem::take(pool) {
            match equality(conjunct, number, self.placed) {
                Ok(pair) => keys.push(pair),
                Err(conjunct) => rest.push(conjunct),
            }
        }
        *pool = rest;
        keys
    }

    /// Computes the remaining subqueries, filtering between them as early as can be.
    fn place_correlated_subqueries(&mut self) {
        while !self.subqueries.is_empty() || !self.conjuncts.is_empty() {
            let filters = self.take_applicable(self.placed);
            if !filters.is_empty() {
                self.steps.push(Step::Filter(filters));
            }
            if self.subqueries.is_empty() {
                debug_assert!(self.conjuncts.is_empty(), "every column has its source");
                break;
            }
            // Subqueries in filters come before those only in the output.
            let wanted = self.conjuncts.first().map_or(u64::MAX, mask);
            let ready = |subquery: &Subquery, wanted: u64| {
                Self::needs(subquery) & !self.placed == 0 && bit(subquery.source) & wanted != 0
            };
            let place = self
                .subqueries
                .iter()
                .position(|s| ready(s, wanted))
                .or_else(|| self.subqueries.iter().position(|s| ready(s, u64::MAX)));
            let place = place.expect("subqueries refer to sources and to earlier subqueries");
            let subquery = self.subqueries.remove(place);
            self.place_subquery(subquery);
        }
    }
}

/// Whether a conjunct equates an expression of the source with one of placed sources.
fn ties(conjunct: &Expression, number: usize, placed: u64) -> bool {
    let Expression::Compare {
        relation: Relation::Equal,
        left,
        right,
    } = conjunct
    else {
        return false;
    };
    let (l, r) = (mask(left), mask(right));
    (l == bit(number) && r & !placed == 0) || (r == bit(number) && l & !placed == 0)
}

/// `source's expression = placed expression`, in this order. The source's side is evaluated on its rows alone, without
/// the query's tuples: so it has no column of an enclosing query.
fn equality(
    conjunct: Expression,
    number: usize,
    placed: u64,
) -> Result<(Expression, Expression), Expression> {
    let Expression::Compare {
        relation: Relation::Equal,
        left,
        right,
    } = conjunct
    else {
        return Err(conjunct);
    };
    let (l, r) = (mask(&left), mask(&right));
    if l == bit(number) && r & !placed == 0 && !has_outer_column(&left) {
        return Ok((*left, *right));
    }
    if r == bit(number) && l & !placed == 0 && !has_outer_column(&right) {
        return Ok((*right, *left));
    }
    Err(Expression::Compare {
        relation: Relation::Equal,
        left,
        right,
    })
}

fn has_outer_column(expression: &Expression) -> bool {
    expression.any(&mut |part| matches!(part, Expression::Column { depth: 1.., .. }))
}

/// Drops an ORDER BY that the only read gives already, and lets a LIMIT stop that read.
fn use_index_order(
    steps: &mut [Step],
    projection: &[Expression],
    finish: &mut Finish,
    single: bool,
) {
    let leading = steps
        .iter()
        .take_while(|step| matches!(step, Step::Subquery { .. }))
        .count();
    let [Step::Read(read)] = &mut steps[leading..] else {
        return;
    };
    if !single || read.join.left {
        return;
    }
    if !finish.order.is_empty() {
        let Some((path, reverse)) = access::in_order(read, projection, &finish.order) else {
            return;
        };
        let Path::Range(range) = path else { return };
        read.path = Path::Range(range);
        if let Path::Range(range) = &mut read.path {
            range.reverse = reverse;
        }
        if finish.distinct == super::Distinct::None {
            finish.order.clear();
        } else {
            return;
        }
    }
    let Some(limit) = &finish.limit else { return };
    let unfiltered = read.join.filters.is_empty() && finish.distinct == super::Distinct::None;
    if let (true, Path::Range(range)) = (unfiltered, &mut read.path) {
        range.limit = Some((limit.clone(), finish.offset.clone()));
    }
}

/// `min` or `max` of the column behind an index prefix reads one row.
fn use_index_end(
    steps: &mut [Step],
    aggregates: &[Aggregate],
    grouping: &Option<(Vec<Expression>, Option<Expression>)>,
) {
    let leading = steps
        .iter()
        .take_while(|step| matches!(step, Step::Subquery { .. }))
        .count();
    let [Step::Read(read)] = &mut steps[leading..] else {
        return;
    };
    let keyless = grouping.as_ref().is_some_and(|(keys, _)| keys.is_empty());
    let [aggregate] = aggregates else { return };
    let last = match aggregate.function {
        AggregateFunction::Min => false,
        AggregateFunction::Max => true,
        _ => return,
    };
    let [
        Expression::Column {
            depth: 0,
            source,
            column,
        },
    ] = aggregate.arguments.as_slice()
    else {
        return;
    };
    let plain = aggregate.filter.is_none() && *source == read.source;
    if !keyless || !plain || read.join.left || !read.join.filters.is_empty() {
        return;
    }
    if let Some(mut range) = access::ending_at(read, *column) {
        range.reverse = last;
        range.limit = Some((Expression::Constant(anabranch_types::Value::Int(1)), None));
        read.path = Path::Range(Box::new(range));
    }
}

/// Columns of one table, and the values that they may have together.
struct Listed {
    source: usize,
    columns: Vec<usize>,
    /// An array for each column; elements of the same place go together.
    arrays: Vec<Expression>,
}

/// What `column IN (list)`, `column = ANY (array)`, `(a, b) IN (rows)` and `a = 1 AND b = 2 OR a = 3 AND b = 4` list.
fn listed(conjunct: &Expression) -> Option<Listed> {
    let of_column = |column: &Expression, array| match column {
        Expression::Column {
            depth: 0,
            source,
            column,
        } => Some(Listed {
            source: *source,
            columns: vec![*column],
            arrays: vec![array],
        }),
        _ => None,
    };
    match conjunct {
        Expression::InList {
            operand,
            list,
            negated: false,
        } if list.len() > 1 => of_column(operand, Expression::Array(list.clone())),
        Expression::Quantified {
            relation: Relation::Equal,
            left,
            array,
            all: false,
        } => of_column(left, (**array).clone()),
        Expression::Or(rows) if rows.len() > 1 => listed_rows(rows),
        _ => None,
    }
}

/// What a disjunction lists, if each part compares the same columns with values.
fn listed_rows(rows: &[Expression]) -> Option<Listed> {
    let mut found: Option<Listed> = None;
    for row in rows {
        let (source, mut row) = listed_row(row)?;
        row.sort_by_key(|(column, _)| *column);
        let columns: Vec<usize> = row.iter().map(|(column, _)| *column).collect();
        let listed = found.get_or_insert_with(|| Listed {
            source,
            arrays: vec![Expression::Array(Vec::new()); columns.len()],
            columns: columns.clone(),
        });
        let repeats = columns.windows(2).any(|pair| pair[0] == pair[1]);
        if listed.source != source || listed.columns != columns || repeats {
            return None;
        }
        for (array, (_, value)) in listed.arrays.iter_mut().zip(row) {
            if let Expression::Array(values) = array {
                values.push(value.clone());
            }
        }
    }
    found
}

/// The source of a conjunction's columns, and each with the value that it equals.
fn listed_row(row: &Expression) -> Option<(usize, Vec<(usize, &Expression)>)> {
    let parts = match row {
        Expression::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut source = None;
    let mut values = Vec::new();
    for part in parts {
        let Expression::Compare {
            relation: Relation::Equal,
            left,
            right,
        } = part
        else {
            return None;
        };
        let sides = [(left, right), (right, left)];
        let (of, column, value) = sides.iter().find_map(|(side, value)| match &***side {
            Expression::Column {
                depth: 0,
                source,
                column,
            } if mask(value) & bit(*source) == 0 => Some((*source, *column, &***value)),
            _ => None,
        })?;
        if *source.get_or_insert(of) != of {
            return None;
        }
        values.push((column, value));
    }
    Some((source?, values))
}

/// Turns [`listed`] values into a join with a source that has them, if that makes look-ups of them: in a key of their
/// table, one of the columns comes right after columns with known values. `allocate` numbers the new sources.
pub(crate) fn look_up_lists(
    schema: &Schema,
    sources: &mut Vec<PlanSource>,
    conjuncts: &mut Vec<Expression>,
    mut allocate: impl FnMut() -> usize,
) {
    for place in 0..conjuncts.len() {
        let Some(listed) = listed(&conjuncts[place]) else {
            continue;
        };
        let source = listed.source;
        let table = sources.iter().find_map(|s| match s.kind {
            SourceKind::Table(table) if s.number == source && s.left.is_none() => Some(table),
            _ => None,
        });
        let Some(table) = table else { continue };
        let table = schema.table(table);
        let equal = |wanted: usize| {
            conjuncts.iter().any(|conjunct| match conjunct {
                Expression::Compare { relation: Relation::Equal, left, right } => {
                    [(left, right), (right, left)].iter().any(|(column, value)| {
                        matches!(&***column, Expression::Column { depth: 0, source: s, column } if *s == source && *column == wanted)
                            && mask(value) & bit(source) == 0
                    })
                }
                _ => false,
            })
        };
        let follows = |index| {
            let behind = table
                .key_columns(index)
                .iter()
                .find(|column| !equal(column.index()));
            behind.is_some_and(|column| listed.columns.contains(&column.index()))
        };
        let mut keys = std::iter::once(None).chain(table.indexes.iter().map(|i| Some(i.id)));
        let others = sources
            .iter()
            .filter(|s| s.number != source)
            .fold(0, |m, s| m | bit(s.number));
        let depends = listed.arrays.iter().fold(0, |m, array| m | mask(array));
        let is_volatile = listed.arrays.iter().any(Expression::is_volatile);
        if depends & !others != 0 || is_volatile || !keys.any(follows) {
            continue;
        }
        let new = allocate();
        sources.push(PlanSource {
            number: new,
            depends,
            kind: SourceKind::Function {
                function: TableFunction::Elements,
                arguments: listed.arrays,
                ordinality: false,
            },
            left: None,
            target: false,
            when_locked: WhenLocked::Wait,
        });
        let column = |source, column| {
            Box::new(Expression::Column {
                depth: 0,
                source,
                column,
            })
        };
        let comparisons = listed.columns.into_iter().enumerate();
        let mut comparisons = comparisons.map(|(at, number)| Expression::Compare {
            relation: Relation::Equal,
            left: column(source, number),
            right: column(new, at),
        });
        if let Some(first) = comparisons.next() {
            conjuncts[place] = first;
        }
        conjuncts.extend(comparisons);
    }
}

/// Turns `columns IN (SELECT … SKIP LOCKED)`, and `= ANY (ARRAY(…))` of one, into a join with the distinct rows of the
/// subquery, so that rows are looked up by what the subquery has locked. Otherwise the statement would lock all rows of its
/// table, and wait for those that the subquery has left out.
pub(crate) fn look_up_locked(
    sources: &mut Vec<PlanSource>,
    conjuncts: &mut Vec<Expression>,
    subqueries: &mut Vec<Subquery>,
) {
    let mut joined = Vec::new();
    let looks_up = |subquery: &mut Subquery| {
        let is_skipping =
            matches!(&subquery.query.body, Body::Select(select) if select.skipping().is_some());
        if !is_skipping || subquery.query.correlated {
            return false;
        }
        let found = conjuncts.iter().enumerate();
        let mut found = found.filter_map(|(at, of)| Some((at, looked_up(of, subquery)?)));
        let Some((at, left)) = found.next() else {
            return false;
        };
        conjuncts.remove(at);
        joined.extend(left.into_iter().enumerate().map(|(column, left)| {
            let right = Expression::Column {
                depth: 0,
                source: subquery.source,
                column,
            };
            Expression::Compare {
                relation: Relation::Equal,
                left: Box::new(left),
                right: Box::new(right),
            }
        }));
        true
    };
    let locked: Vec<Subquery> = subqueries.extract_if(.., looks_up).collect();
    conjuncts.extend(joined);
    sources.extend(locked.into_iter().map(|subquery| PlanSource {
        number: subquery.source,
        kind: SourceKind::Query(subquery.query.distinct()),
        left: None,
        depends: 0,
        target: false,
        when_locked: WhenLocked::Wait,
    }));
}

/// What a conjunct says to be among the rows of a subquery, by column.
fn looked_up(conjunct: &Expression, subquery: &Subquery) -> Option<Vec<Expression>> {
    let left = match (conjunct, &subquery.kind) {
        (
            of,
            SubqueryKind::Quantified {
                left,
                relation: Relation::Equal,
                all: false,
            },
        ) if is_value(of, subquery.source) => left.clone(),
        (
            Expression::Quantified {
                relation: Relation::Equal,
                left,
                array,
                all: false,
            },
            SubqueryKind::Array,
        ) if is_value(array, subquery.source) => vec![(**left).clone()],
        _ => return None,
    };
    (!left.iter().any(Expression::is_volatile)).then_some(left)
}

/// Whether an expression is the value of this subquery.
fn is_value(expression: &Expression, of: usize) -> bool {
    matches!(expression, Expression::Column { depth: 0, source, .. } if *source == of)
}

/// Steps over the pure sources of a data-modifying statement, and the filters on them.
pub(crate) fn pure_steps(
    sources: Vec<PlanSource>,
    conjuncts: Vec<Expression>,
    schema: &Schema,
) -> Vec<Step> {
    let mut planner = Planner {
        schema,
        steps: Vec::new(),
        placed: 0,
        conjuncts,
        subqueries: Vec::new(),
        single: true,
        for_write: false,
    };
    planner.apply_constant_filters();
    let mut remaining = sources;
    while !remaining.is_empty() {
        planner.place_next(&mut remaining);
    }
    planner.steps
}
