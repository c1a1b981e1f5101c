//! Translates an assertion's syntax tree into its [`Formula`].
//!
//! This file reads clauses and comparisons; [`scope`] reads what a query ranges over.

mod scope;
mod syntax;

use anabranch_sql::catalog::Catalog;
use anabranch_types::{ColumnIndex, DataType, TableId};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    Query, Select, SelectItem, UnaryOperator,
};

use super::row::{RowScope, conjuncts, is_constant};
use super::{
    Aggregate, Atom, Clause, Facet, Filter, Formula, Links, Part, Region, Shape, Source,
    TableColumn, Test,
};
use anabranch_sql::every_row::{checked_row, every_row};

use scope::{Item, ItemKind, Output, Scope, join_conditions};
use syntax::{
    conjuncts_of, disjuncts, has_query, last_name, number, of_rows, plain_select, rounds, strip,
};

/// How deeply queries may be nested before the reader gives up.
const DEPTH_MAX: usize = 16;

/// Why a condition is not recognised.
type Reason = String;

/// Reads the clauses of an assertion. Never fails: a clause that is not recognised becomes [`Shape::Unrecognised`].
pub(crate) fn read_assertion(catalog: &Catalog, expression: &Expr) -> Formula {
    let mut formula = Formula::default();
    positive(catalog, expression, false, 0, &mut formula);
    formula.every_row = every_row(catalog, expression).map(Box::new);
    formula.is_checked_by_row = checked_row(catalog, expression).is_some();
    let text = expression.to_string().to_lowercase();
    let more = ["natural", "select *", ".*"];
    let views = catalog.views.iter().map(|view| view.name.to_lowercase());
    let names_all = !more.iter().any(|words| text.contains(words))
        && !views.into_iter().any(|view| text.contains(&view));
    formula.text = names_all.then_some(text);
    formula
}

/// Reads a condition that must hold (or, if `negated`, must not).
fn positive(catalog: &Catalog, e: &Expr, negated: bool, depth: usize, formula: &mut Formula) {
    match e {
        _ if depth > DEPTH_MAX => unrecognised(catalog, formula, "it is nested too deeply"),
        Expr::Nested(inner) => positive(catalog, inner, negated, depth + 1, formula),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => {
            positive(catalog, expr, !negated, depth + 1, formula);
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } if !negated => {
            positive(catalog, left, false, depth + 1, formula);
            positive(catalog, right, false, depth + 1, formula);
        }
        Expr::Exists {
            subquery,
            negated: not,
        } => {
            if *not == negated {
                exists(catalog, subquery, formula);
            } else {
                forbidden(catalog, subquery, formula);
            }
        }
        Expr::BinaryOp { left, op, right } => {
            let mut reader = Reader::new(catalog);
            let op = if negated {
                Some(op.clone())
            } else {
                opposite(op)
            };
            let shape = match op {
                Some(op) => reader.comparison(left, &op, right, &Scope::root(), None),
                None => Err("its comparison is not one of =, <>, <, <=, > and >=".into()),
            };
            formula.clauses.push(reader.clause(shape));
        }
        _ => unrecognised(
            catalog,
            formula,
            "it is no comparison, EXISTS or NOT EXISTS",
        ),
    }
}

fn unrecognised(catalog: &Catalog, formula: &mut Formula, reason: &str) {
    formula
        .clauses
        .push(Reader::new(catalog).clause(Err(reason.into())));
}

fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

/// `EXISTS (query)`.
fn exists(catalog: &Catalog, query: &Query, formula: &mut Formula) {
    let mut reader = Reader::new(catalog);
    let shape = reader.region_of(query, &Scope::root()).map(|region| {
        let certain = match region.tables.as_slice() {
            [table] => catalog.schema.table(*table).primary_key.iter().all(|c| {
                region
                    .filters
                    .iter()
                    .any(|f| f.column == (*table, *c) && matches!(f.test, Test::Equals(_)))
            }),
            _ => false,
        };
        let keyed = region
            .tables
            .first()
            .is_some_and(|t| !catalog.schema.table(*t).primary_key.is_empty());
        let only_keys = region.tables.first().is_some_and(|t| {
            region
                .filters
                .iter()
                .all(|f| catalog.schema.table(*t).primary_key.contains(&f.column.1))
        });
        Shape::AtLeastOne {
            certain: certain && keyed && only_keys,
            region,
        }
    });
    formula.clauses.push(reader.clause(shape));
}

/// `NOT EXISTS (query)`: the query must return no row. A disjunction forbids each side.
fn forbidden(catalog: &Catalog, query: &Query, formula: &mut Formula) {
    let select = plain_select(query).and_then(|select| of_rows(select).map(|()| select));
    let select = match select {
        Ok(select) => select,
        Err(reason) => return unrecognised(catalog, formula, &reason),
    };
    let last = select.having.as_ref().or(select.selection.as_ref());
    let mut sides = Vec::new();
    if let Some(last) = last {
        disjuncts(last, &mut sides);
    }
    if sides.len() <= 1 {
        sides = vec![None];
    }
    for side in sides {
        let mut reader = Reader::new(catalog);
        let shape = reader.forbidden(select, side);
        formula.clauses.push(reader.clause(shape));
    }
}

/// The conjuncts of a query, sorted by kind.
#[derive(Default)]
struct Conjuncts<'e> {
    filters: Vec<(Filter, &'e Expr)>,
    others: Vec<&'e Expr>,
}

struct Reader<'c> {
    catalog: &'c Catalog,
    links: Links,
    tables: Vec<TableId>,
    constants: bool,
}

impl<'c> Reader<'c> {
    fn new(catalog: &'c Catalog) -> Reader<'c> {
        Reader {
            catalog,
            links: Links::default(),
            tables: Vec::new(),
            constants: false,
        }
    }

    fn clause(self, shape: Result<Shape, Reason>) -> Clause {
        let recognised = shape.is_ok();
        let mut tables = self.tables;
        tables.sort_unstable();
        tables.dedup();
        if !recognised {
            // What was not reached may concern any table.
            tables = self.catalog.schema.tables.iter().map(|t| t.id).collect();
        }
        Clause {
            shape: shape.unwrap_or_else(Shape::Unrecognised),
            links: self.links,
            tables,
            constants: self.constants,
        }
    }

    /// Reads the requirement that `select` returns no row; `side` replaces its last condition.
    fn forbidden(&mut self, select: &Select, side: Option<&Expr>) -> Result<Shape, Reason> {
        let root = Scope::root();
        let scope = self.scope_of(&select.from, &root)?;
        let mut on = Vec::new();
        join_conditions(&select.from, &mut on)?;
        let grouped = self.group(select, &scope)?;
        let mut found = Conjuncts::default();
        for e in on {
            self.sort(e, &scope, &mut found)?;
        }
        let (mut selection, mut having) = (select.selection.as_ref(), select.having.as_ref());
        if side.is_some() {
            if having.is_some() {
                having = side;
            } else {
                selection = side;
            }
        }
        let mut parts = Vec::new();
        if let Some(selection) = selection {
            conjuncts_of(selection, &mut parts);
        }
        for e in parts.drain(..) {
            self.sort(e, &scope, &mut found)?;
        }
        if !grouped && having.is_none() {
            return self.forbidden_row(&scope, found);
        }
        if !found.others.is_empty() {
            return Err("its WHERE clause has conditions that are not followed".into());
        }
        let region = self.region(&scope, found)?;
        let mut core = Vec::new();
        if let Some(having) = having {
            conjuncts_of(having, &mut core);
        }
        match core.as_slice() {
            [e] => self.core(e, &scope, Some(&region)),
            _ => Err("its HAVING clause is not a single comparison".into()),
        }
    }

    fn group(&mut self, select: &Select, scope: &Scope<'_>) -> Result<bool, Reason> {
        match &select.group_by {
            GroupByExpr::Expressions(columns, _) => {
                for column in columns {
                    if let Output::Column(c) = self.column_output(column, scope)? {
                        self.links.join(c, c);
                    }
                }
                Ok(!columns.is_empty())
            }
            GroupByExpr::All(_) => Err("GROUP BY ALL is not followed".into()),
        }
    }

    /// No row (of one table, or of a join) may satisfy these.
    fn forbidden_row(&mut self, scope: &Scope<'_>, found: Conjuncts<'_>) -> Result<Shape, Reason> {
        match found.others.as_slice() {
            [] => self.forbidden_values(scope, &found),
            [core] if found.filters.is_empty() => self.core(core, scope, None),
            [core] => match self.core(core, scope, None)? {
                // The forbidden row is such a child without a parent.
                Shape::Inclusion {
                    child,
                    mut filters,
                    parent,
                } if found.filters.iter().all(|(f, _)| f.column.0 == child) => {
                    filters.extend(found.filters.into_iter().map(|(f, _)| f));
                    Ok(Shape::Inclusion {
                        child,
                        filters,
                        parent,
                    })
                }
                Shape::Row { table, .. } => self.whole_row(table, scope, &found),
                Shape::Iff(_) => Err("only some of its rows have to agree".into()),
                _ => Err("rows are left out of it by other columns".into()),
            },
            several => {
                for e in several {
                    if let Shape::Row { table, .. } = self.core(e, scope, None)? {
                        return self.whole_row(table, scope, &found);
                    }
                }
                Err("it combines conditions of several kinds".into())
            }
        }
    }

    /// Makes a condition on one row whose parts are not examined.
    fn whole_row(
        &self,
        table: TableId,
        scope: &Scope<'_>,
        found: &Conjuncts<'_>,
    ) -> Result<Shape, Reason> {
        if scope.items.len() != 1 || found.filters.iter().any(|(f, _)| f.column.0 != table) {
            return Err("it relates columns of several tables in a way that is not known".into());
        }
        let columns = 0..self.catalog.schema.table(table).columns.len();
        let columns = columns.map(|i| ColumnIndex(i as u16)).collect();
        Ok(Shape::Row {
            table,
            atoms: vec![Atom::Several(columns)],
        })
    }

    fn forbidden_values(
        &mut self,
        scope: &Scope<'_>,
        found: &Conjuncts<'_>,
    ) -> Result<Shape, Reason> {
        match scope.items.as_slice() {
            [
                Item {
                    kind: ItemKind::Base(table),
                    ..
                },
            ] => {
                let row = RowScope {
                    table: self.catalog.schema.table(*table),
                };
                let mut atoms = Vec::new();
                match found.filters.as_slice() {
                    [(_, e)] => conjuncts(&row, e, true, &mut atoms),
                    several => {
                        let mut columns: Vec<_> = several.iter().map(|(f, _)| f.column.1).collect();
                        columns.sort_unstable();
                        columns.dedup();
                        atoms.push(Atom::Several(columns));
                    }
                }
                Ok(Shape::Row {
                    table: *table,
                    atoms,
                })
            }
            // `LEFT JOIN … WHERE right.key IS NULL` requires the row on the right.
            [
                Item {
                    kind: ItemKind::Base(child),
                    ..
                },
                Item {
                    kind: ItemKind::Base(parent),
                    optional: true,
                    ..
                },
            ] if found.filters.len() == 1
                && found.filters[0].0.column.0 == *parent
                && found.filters[0].0.test == Test::Null =>
            {
                Ok(Shape::Inclusion {
                    child: *child,
                    filters: Vec::new(),
                    parent: Region {
                        tables: vec![*parent],
                        filters: Vec::new(),
                    },
                })
            }
            _ => Err("it forbids a combination of rows of several tables".into()),
        }
    }

    /// Reads the condition at the heart of an assertion: it describes a *violation*.
    fn core(
        &mut self,
        e: &Expr,
        scope: &Scope<'_>,
        region: Option<&Region>,
    ) -> Result<Shape, Reason> {
        match e {
            Expr::Nested(inner) => self.core(inner, scope, region),
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => match strip(expr) {
                Expr::BinaryOp { left, op, right } => match opposite(op) {
                    Some(op) => self.comparison(left, &op, right, scope, region),
                    None => Err("its negated condition is not a comparison".into()),
                },
                Expr::Exists { subquery, negated } => self.core_exists(subquery, !negated, scope),
                _ => Err("its negated condition is not a comparison".into()),
            },
            Expr::Exists { subquery, negated } => self.core_exists(subquery, *negated, scope),
            Expr::IsDistinctFrom(left, right) => {
                self.comparison(left, &BinaryOperator::NotEq, right, scope, region)
            }
            Expr::BinaryOp { left, op, right } => self.comparison(left, op, right, scope, region),
            _ => Err("its condition is not a comparison".into()),
        }
    }

    fn core_exists(
        &mut self,
        query: &Query,
        negated: bool,
        scope: &Scope<'_>,
    ) -> Result<Shape, Reason> {
        let parent = self.region_of(query, scope)?;
        match scope.items.as_slice() {
            [
                Item {
                    kind: ItemKind::Base(child),
                    ..
                },
            ] if negated => Ok(Shape::Inclusion {
                child: *child,
                filters: Vec::new(),
                parent,
            }),
            [_] => Err("it forbids rows beside each other".into()),
            _ => Err("it compares the existence of joined rows".into()),
        }
    }

    /// Reads `left op right`, which describes a violation.
    fn comparison(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        scope: &Scope<'_>,
        region: Option<&Region>,
    ) -> Result<Shape, Reason> {
        if let (Some(a), Some(b)) = (self.facet(left, scope)?, self.facet(right, scope)?) {
            let truths = matches!((&a, &b), (Facet::True(x), Facet::True(y)) if x.0 == y.0);
            return match op {
                // Two columns of one row.
                _ if truths => self
                    .row_comparison(left, op, right, scope)
                    .ok_or_else(|| "it compares truth values of joined rows".into()),
                BinaryOperator::NotEq | BinaryOperator::Eq => Ok(Shape::Iff(vec![a, b])),
                _ => Err("it orders truth values".into()),
            };
        }
        if let Some(row) = self.row_comparison(left, op, right, scope) {
            return Ok(row);
        }
        let mut parts = self.linear(left, scope, region)?;
        parts.extend(negate(self.linear(right, scope, region)?));
        let extremum = parts.iter().any(|p| {
            matches!(
                p.source,
                Source::Aggregate {
                    function: Aggregate::Max | Aggregate::Min,
                    ..
                }
            )
        });
        if *op == BinaryOperator::NotEq && parts.iter().any(|p| self.is_inexact(p)) {
            return Err("what floating-point numbers add up to depends on their order".into());
        }
        match op {
            BinaryOperator::NotEq if extremum => Ok(Shape::Extremum(parts)),
            BinaryOperator::NotEq => Ok(Shape::Balance(parts)),
            _ if extremum => Err("it bounds a greatest or least value".into()),
            BinaryOperator::Gt | BinaryOperator::GtEq => Ok(bounded(parts, true)),
            BinaryOperator::Lt | BinaryOperator::LtEq => Ok(bounded(parts, false)),
            _ => Err("it forbids one value of a sum".into()),
        }
    }

    /// A comparison of columns of one row with each other and with constants.
    fn row_comparison(
        &self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        scope: &Scope<'_>,
    ) -> Option<Shape> {
        let [
            Item {
                kind: ItemKind::Base(table),
                ..
            },
        ] = scope.items.as_slice()
        else {
            return None;
        };
        let row = RowScope {
            table: self.catalog.schema.table(*table),
        };
        let whole = Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: op.clone(),
            right: Box::new(right.clone()),
        };
        let mut atoms = Vec::new();
        conjuncts(&row, &whole, true, &mut atoms);
        let everything = row.table.columns.len();
        let known = atoms.iter().all(|a| a.columns().len() < everything.max(2));
        (known && !has_query(left) && !has_query(right)).then_some(Shape::Row {
            table: row.id(),
            atoms,
        })
    }

    /// Reads an expression that is a truth value about NULL or existence.
    fn facet(&mut self, e: &Expr, scope: &Scope<'_>) -> Result<Option<Facet>, Reason> {
        Ok(match strip(e) {
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                match self.column_output(strip(inner), scope)? {
                    Output::Column(c) if self.is_optional(c.0, scope) => Some(Facet::Row(c.0)),
                    Output::Column(c) => Some(Facet::Null(c)),
                    Output::Sum(_) => None,
                }
            }
            Expr::Exists { subquery, .. } => {
                let region = self.region_of(subquery, scope)?;
                match region.tables.as_slice() {
                    [table] if region.filters.is_empty() => Some(Facet::Row(*table)),
                    _ => return Err("the existence it asks for is not of rows of one table".into()),
                }
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => self.facet(expr, scope)?,
            column @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {
                match self.try_column(column, scope) {
                    Some(c) if *self.data_type(c) == DataType::Bool => Some(Facet::True(c)),
                    _ => None,
                }
            }
            _ => None,
        })
    }

    /// Whether a part is a whole number: casting it to an integer changes nothing.
    fn is_whole(&self, part: &Part) -> bool {
        let integer = |c: &TableColumn| self.data_type(*c).is_integer();
        part.factor.fract() == 0.0
            && match &part.source {
                Source::Column(column) => integer(column),
                Source::Aggregate { plain, columns, .. } => *plain && columns.iter().all(integer),
            }
    }

    /// Whether the part's value depends on the order of addition.
    fn is_inexact(&self, part: &Part) -> bool {
        let float =
            |c: &TableColumn| matches!(self.data_type(*c), DataType::Real | DataType::Double);
        match &part.source {
            Source::Column(column) => float(column),
            Source::Aggregate {
                function, columns, ..
            } => *function == Aggregate::Sum && columns.iter().any(float),
        }
    }

    fn data_type(&self, (table, column): TableColumn) -> &DataType {
        &self.catalog.schema.table(table).columns[column.index()].data_type
    }

    fn is_optional(&self, table: TableId, scope: &Scope<'_>) -> bool {
        scope
            .items
            .iter()
            .any(|i| i.optional && matches!(i.kind, ItemKind::Base(t) if t == table))
    }

    /// Reads a sum of columns and aggregates; constants are dropped.
    fn linear(
        &mut self,
        e: &Expr,
        scope: &Scope<'_>,
        region: Option<&Region>,
    ) -> Result<Vec<Part>, Reason> {
        match e {
            _ if is_constant(e) => {
                self.constants |= number(e) != Some(0.0);
                Ok(Vec::new())
            }
            Expr::Nested(inner) => self.linear(inner, scope, region),
            Expr::Cast {
                expr: inner,
                data_type,
                ..
            } => {
                let parts = self.linear(inner, scope, region)?;
                if rounds(data_type) && !parts.iter().all(|p| self.is_whole(p)) {
                    return Err("it rounds what it adds up".into());
                }
                Ok(parts)
            }
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => Ok(negate(self.linear(expr, scope, region)?)),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Plus,
                right,
            } => {
                let mut parts = self.linear(left, scope, region)?;
                parts.extend(self.linear(right, scope, region)?);
                Ok(parts)
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Minus,
                right,
            } => {
                let mut parts = self.linear(left, scope, region)?;
                parts.extend(negate(self.linear(right, scope, region)?));
                Ok(parts)
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Multiply,
                right,
            } => {
                let (by, inner) = match (number(left), number(right)) {
                    (Some(n), _) => (n, right),
                    (_, Some(n)) => (n, left),
                    _ => return Err("it multiplies what is stored".into()),
                };
                let mut parts = self.linear(inner, scope, region)?;
                parts.iter_mut().for_each(|p| p.factor *= by);
                Ok(parts)
            }
            Expr::Function(function) => self.function(function, scope, region),
            Expr::Subquery(query) => self.scalar(query, scope),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                Ok(match self.column_output(e, scope)? {
                    Output::Column(c) => vec![Part {
                        null_of_nothing: false,
                        factor: 1.0,
                        source: Source::Column(c),
                    }],
                    Output::Sum(parts) => parts,
                })
            }
            _ => Err("its arithmetic is not a sum".into()),
        }
    }

    fn scalar(&mut self, query: &Query, outer: &Scope<'_>) -> Result<Vec<Part>, Reason> {
        let select = plain_select(query)?;
        let scope = self.scope_of(&select.from, outer)?;
        if self.group(select, &scope)? || select.having.is_some() {
            return Err("a scalar query in it groups".into());
        }
        let region = self.select_region(select, &scope)?;
        let parts = match select.projection.as_slice() {
            [SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }] => {
                self.linear(e, &scope, Some(&region))?
            }
            _ => return Err("a scalar query in it has several columns".into()),
        };
        let looked_up = parts.iter().any(|p| matches!(p.source, Source::Column(_)));
        if looked_up && !region.filters.is_empty() {
            return Err("a column is looked up under other conditions".into());
        }
        Ok(parts)
    }

    fn function(
        &mut self,
        function: &Function,
        scope: &Scope<'_>,
        region: Option<&Region>,
    ) -> Result<Vec<Part>, Reason> {
        let name = last_name(&function.name);
        let FunctionArguments::List(list) = &function.args else {
            return Err(format!("the function {name} is not followed"));
        };
        let mut arguments = Vec::new();
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => arguments.push(Some(e)),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => arguments.push(None),
                _ => return Err(format!("an argument of {name} is not followed")),
            }
        }
        if name == "coalesce" {
            return match arguments.split_first() {
                Some((Some(first), rest)) if rest.iter().flatten().all(|e| is_constant(e)) => {
                    let zero = |e: &&&Expr| number(e) == Some(0.0);
                    let of_nothing = rest.iter().flatten().all(|e| zero(&e));
                    // A sum whose value for no rows is not zero falls when the first row is inserted.
                    if !of_nothing && first.to_string().to_lowercase().contains("sum(") {
                        return Err("a sum of no rows in it is another than 0".into());
                    }
                    self.constants |= !of_nothing;
                    let mut parts = self.linear(first, scope, region)?;
                    for part in &mut parts {
                        part.null_of_nothing = false;
                    }
                    Ok(parts)
                }
                _ => Err("its coalesce() has no constant to fall back to".into()),
            };
        }
        let aggregate = match name.as_str() {
            "sum" => Aggregate::Sum,
            "count" => Aggregate::Count,
            "max" => Aggregate::Max,
            "min" => Aggregate::Min,
            _ => return Err(format!("the function {name} is not followed")),
        };
        if list.duplicate_treatment.is_some() || function.over.is_some() {
            return Err(format!(
                "{name} over distinct values or windows is not followed"
            ));
        }
        let mut region = region.ok_or("an aggregate stands outside a query")?.clone();
        if let Some(filter) = &function.filter {
            let mut found = Conjuncts::default();
            self.sort(filter, scope, &mut found)?;
            region
                .filters
                .extend(found.filters.into_iter().map(|(f, _)| f));
            if !found.others.is_empty() {
                return Err("its FILTER is not followed".into());
            }
        }
        let mut columns = Vec::new();
        let mut plain = true;
        if let [Some(argument)] = arguments.as_slice() {
            plain = matches!(argument, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            self.columns_in(argument, scope, &mut columns)?;
        }
        if aggregate == Aggregate::Count {
            for column in columns.drain(..) {
                region.filters.push(Filter {
                    column,
                    test: Test::NotNull,
                });
            }
        } else if columns.is_empty() {
            return Err(format!("{name} of no column"));
        }
        let source = Source::Aggregate {
            function: aggregate,
            columns,
            plain,
            region,
        };
        Ok(vec![Part {
            factor: 1.0,
            source,
            null_of_nothing: aggregate != Aggregate::Count,
        }])
    }

    /// The columns in the argument of an aggregate.
    fn columns_in(
        &mut self,
        e: &Expr,
        scope: &Scope<'_>,
        columns: &mut Vec<TableColumn>,
    ) -> Result<(), Reason> {
        match e {
            _ if is_constant(e) => Ok(()),
            Expr::Nested(e) | Expr::Cast { expr: e, .. } | Expr::UnaryOp { expr: e, .. } => {
                self.columns_in(e, scope, columns)
            }
            Expr::BinaryOp { left, right, .. } => {
                self.columns_in(left, scope, columns)?;
                self.columns_in(right, scope, columns)
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                match self.column_output(e, scope)? {
                    Output::Column(c) => columns.push(c),
                    Output::Sum(_) => return Err("it aggregates an aggregate".into()),
                }
                Ok(())
            }
            _ => Err("the argument of an aggregate is not followed".into()),
        }
    }
}

fn negate(mut parts: Vec<Part>) -> Vec<Part> {
    parts.iter_mut().for_each(|p| p.factor = -p.factor);
    parts
}

/// Makes a bound on a sum. A violation by a greater value means at most. `2 <= n` is read as `n >= 2`.
fn bounded(parts: Vec<Part>, upper: bool) -> Shape {
    if parts.iter().all(|p| p.factor < 0.0) {
        return Shape::Bound {
            parts: negate(parts),
            upper: !upper,
        };
    }
    Shape::Bound { parts, upper }
}
