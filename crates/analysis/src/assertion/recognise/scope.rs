//! What a query ranges over: the names that FROM brings, and the rows that its conditions leave.

use anabranch_types::TableId;
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem,
    TableFactor, TableWithJoins,
};

use super::super::row::{RowScope, fold, is_constant};
use super::super::{Filter, Part, Region, TableColumn, Test};
use super::syntax::{conjuncts_of, default_name, last_name, literal, of_rows, plain_select, strip};
use super::{Conjuncts, DEPTH_MAX, Reader, Reason};

/// A name that a query can use, and what it denotes.
pub(super) struct Item {
    pub(super) name: String,
    pub(super) kind: ItemKind,
    /// On the outer side of an outer join: its columns may all be NULL.
    pub(super) optional: bool,
}

pub(super) enum ItemKind {
    Base(TableId),
    Derived(Vec<(String, Output)>),
}

/// What a column name resolves to.
#[derive(Clone)]
pub(super) enum Output {
    Column(TableColumn),
    Sum(Vec<Part>),
}

pub(super) struct Scope<'p> {
    pub(super) items: Vec<Item>,
    pub(super) outer: Option<&'p Scope<'p>>,
    pub(super) depth: usize,
}

impl<'p> Scope<'p> {
    pub(super) fn root() -> Scope<'static> {
        Scope {
            items: Vec::new(),
            outer: None,
            depth: 0,
        }
    }

    pub(super) fn below(outer: &'p Scope<'p>) -> Result<Scope<'p>, Reason> {
        if outer.depth >= DEPTH_MAX {
            return Err("it is nested too deeply".into());
        }
        Ok(Scope {
            items: Vec::new(),
            outer: Some(outer),
            depth: outer.depth + 1,
        })
    }
}

impl Reader<'_> {
    /// The names that FROM brings.
    pub(super) fn scope_of<'s>(
        &mut self,
        from: &[TableWithJoins],
        outer: &'s Scope<'s>,
    ) -> Result<Scope<'s>, Reason> {
        let mut scope = Scope::below(outer)?;
        for table in from {
            let item = self.item(&table.relation, false, &scope)?;
            scope.items.push(item);
            for Join {
                relation,
                join_operator,
                ..
            } in &table.joins
            {
                let optional = match join_operator {
                    JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => true,
                    JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_) => {
                        false
                    }
                    _ => return Err("one of its joins is not followed".into()),
                };
                let item = self.item(relation, optional, &scope)?;
                scope.items.push(item);
            }
        }
        let mut bases: Vec<TableId> = Vec::new();
        let mut level = Some(&scope);
        while let Some(s) = level {
            for item in &s.items {
                if let ItemKind::Base(t) = item.kind {
                    if bases.contains(&t) {
                        return Err("it relates rows of a table with others of the same".into());
                    }
                    bases.push(t);
                }
            }
            level = s.outer;
        }
        Ok(scope)
    }

    pub(super) fn item(
        &mut self,
        factor: &TableFactor,
        optional: bool,
        scope: &Scope<'_>,
    ) -> Result<Item, Reason> {
        if let TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } = factor
            && alias
                .as_ref()
                .is_some_and(|alias| !alias.columns.is_empty())
        {
            return Err("its FROM clause gives columns other names".into());
        }
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let table = last_name(name);
                let shown = alias
                    .as_ref()
                    .map_or_else(|| table.clone(), |a| fold(&a.name));
                if let Some(found) = self.catalog.schema.tables.iter().find(|t| t.name == table) {
                    self.tables.push(found.id);
                    return Ok(Item {
                        name: shown,
                        kind: ItemKind::Base(found.id),
                        optional,
                    });
                }
                let catalog = self.catalog;
                let view = catalog.views.iter().find(|v| v.name == table);
                let view = view.ok_or_else(|| format!("{table} is not a table or view"))?;
                let mut outputs = self.derived(&view.query, scope)?;
                for (output, name) in outputs.iter_mut().zip(&view.columns) {
                    output.0.clone_from(name);
                }
                Ok(Item {
                    name: shown,
                    kind: ItemKind::Derived(outputs),
                    optional: false,
                })
            }
            TableFactor::Derived {
                subquery, alias, ..
            } => {
                let name = alias.as_ref().map(|a| fold(&a.name)).unwrap_or_default();
                let outputs = self.derived(subquery, scope)?;
                Ok(Item {
                    name,
                    kind: ItemKind::Derived(outputs),
                    optional: false,
                })
            }
            _ => Err("something in its FROM clause is not followed".into()),
        }
    }

    /// The columns of a grouped query in FROM.
    pub(super) fn derived(
        &mut self,
        query: &Query,
        outer: &Scope<'_>,
    ) -> Result<Vec<(String, Output)>, Reason> {
        let select = plain_select(query)?;
        if select.having.is_some() || select.distinct.is_some() {
            return Err("a query in its FROM clause has HAVING or DISTINCT".into());
        }
        let root = Scope {
            items: Vec::new(),
            outer: None,
            depth: outer.depth + 1,
        };
        let scope = self.scope_of(&select.from, &root)?;
        let grouped = self.group(select, &scope)?;
        let region = self.select_region(select, &scope)?;
        if !grouped && !region.filters.is_empty() {
            return Err("a query in its FROM clause filters without grouping".into());
        }
        let mut outputs = Vec::new();
        for item in &select.projection {
            let (e, name) = match item {
                SelectItem::ExprWithAlias { expr, alias } => (expr, fold(alias)),
                SelectItem::UnnamedExpr(e) => (e, default_name(e)),
                _ => return Err("a query in its FROM clause has unnamed columns".into()),
            };
            let output = match strip(e) {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                    self.column_output(strip(e), &scope)?
                }
                e => Output::Sum(self.linear(e, &scope, Some(&region))?),
            };
            outputs.push((name, output));
        }
        Ok(outputs)
    }

    /// The rows of a query inside another.
    pub(super) fn region_of(&mut self, query: &Query, outer: &Scope<'_>) -> Result<Region, Reason> {
        let select = plain_select(query)?;
        if select.having.is_some() {
            return Err("a query in it has HAVING".into());
        }
        of_rows(select)?;
        let scope = self.scope_of(&select.from, outer)?;
        self.select_region(select, &scope)
    }

    pub(super) fn select_region(
        &mut self,
        select: &Select,
        scope: &Scope<'_>,
    ) -> Result<Region, Reason> {
        let mut conditions = Vec::new();
        join_conditions(&select.from, &mut conditions)?;
        if let Some(selection) = &select.selection {
            conjuncts_of(selection, &mut conditions);
        }
        let mut found = Conjuncts::default();
        for e in conditions {
            self.sort(e, scope, &mut found)?;
        }
        if !found.others.is_empty() {
            return Err("a query in it has conditions that are not followed".into());
        }
        self.region(scope, found)
    }

    pub(super) fn region(&self, scope: &Scope<'_>, found: Conjuncts<'_>) -> Result<Region, Reason> {
        let mut region = Region::default();
        for item in &scope.items {
            match &item.kind {
                ItemKind::Base(table) => region.tables.push(*table),
                ItemKind::Derived(_) => return Err("it aggregates a derived table".into()),
            }
        }
        region.filters = found.filters.into_iter().map(|(f, _)| f).collect();
        Ok(region)
    }

    /// Sorts a conjunct: a link, a filter on one column, or something else.
    pub(super) fn sort<'e>(
        &mut self,
        e: &'e Expr,
        scope: &Scope<'_>,
        found: &mut Conjuncts<'e>,
    ) -> Result<(), Reason> {
        let stripped = strip(e);
        if let Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } = stripped
        {
            self.sort(left, scope, found)?;
            return self.sort(right, scope, found);
        }
        if let Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } = stripped
            && let (Some(a), Some(b)) =
                (self.try_column(left, scope), self.try_column(right, scope))
            && a.0 != b.0
        {
            self.links.join(a, b);
            return Ok(());
        }
        match self.filter(stripped, scope) {
            Some(filter) => found.filters.push((filter, e)),
            None => found.others.push(e),
        }
        Ok(())
    }

    pub(super) fn filter(&self, e: &Expr, scope: &Scope<'_>) -> Option<Filter> {
        let (column, test) = match e {
            Expr::IsNull(inner) => (inner, Test::Null),
            Expr::IsNotNull(inner) => (inner, Test::NotNull),
            Expr::BinaryOp { left, op, right } => {
                let (column, constant) = if is_constant(right) {
                    (left, right)
                } else if is_constant(left) {
                    (right, left)
                } else {
                    return None;
                };
                match (op, literal(constant)) {
                    (BinaryOperator::Eq, Some(value)) => (column, Test::Equals(value)),
                    (
                        BinaryOperator::Eq
                        | BinaryOperator::NotEq
                        | BinaryOperator::Lt
                        | BinaryOperator::LtEq
                        | BinaryOperator::Gt
                        | BinaryOperator::GtEq,
                        _,
                    ) => (column, Test::Other),
                    _ => return None,
                }
            }
            Expr::InList { expr, list, .. } if list.iter().all(is_constant) => (expr, Test::Other),
            Expr::Between {
                expr, low, high, ..
            } if is_constant(low) && is_constant(high) => (expr, Test::Other),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                return Some(Filter {
                    column: self.try_column(e, scope)?,
                    test: Test::Other,
                });
            }
            _ => return None,
        };
        Some(Filter {
            column: self.try_column(column, scope)?,
            test,
        })
    }

    pub(super) fn try_column(&self, e: &Expr, scope: &Scope<'_>) -> Option<TableColumn> {
        match self.column_output(strip(e), scope) {
            Ok(Output::Column(c)) => Some(c),
            _ => None,
        }
    }

    pub(super) fn column_output(&self, e: &Expr, scope: &Scope<'_>) -> Result<Output, Reason> {
        let path: &[Ident] = match e {
            Expr::Identifier(ident) => std::slice::from_ref(ident),
            Expr::CompoundIdentifier(path) => path,
            _ => return Err("an expression stands where a column is expected".into()),
        };
        let (qualifier, name) = match path {
            [name] => (None, fold(name)),
            [.., qualifier, name] => (Some(fold(qualifier)), fold(name)),
            [] => return Err("an empty name".into()),
        };
        let mut level = Some(scope);
        while let Some(s) = level {
            for item in &s.items {
                if qualifier.as_ref().is_some_and(|q| *q != item.name) {
                    continue;
                }
                match &item.kind {
                    ItemKind::Base(table) => {
                        let row = RowScope {
                            table: self.catalog.schema.table(*table),
                        };
                        if let Some(c) = row.column(path) {
                            return Ok(Output::Column((*table, c)));
                        }
                    }
                    ItemKind::Derived(outputs) => {
                        if let Some((_, output)) = outputs.iter().find(|(n, _)| *n == name) {
                            return Ok(output.clone());
                        }
                    }
                }
            }
            level = s.outer;
        }
        Err(format!("the column {name} is not found"))
    }
}

pub(super) fn join_conditions<'e>(
    from: &'e [TableWithJoins],
    into: &mut Vec<&'e Expr>,
) -> Result<(), Reason> {
    for join in from.iter().flat_map(|t| &t.joins) {
        let constraint = match &join.join_operator {
            JoinOperator::Join(c)
            | JoinOperator::Inner(c)
            | JoinOperator::Left(c)
            | JoinOperator::LeftOuter(c)
            | JoinOperator::CrossJoin(c) => c,
            _ => return Err("one of its joins is not followed".into()),
        };
        match constraint {
            JoinConstraint::On(e) => conjuncts_of(e, into),
            JoinConstraint::None => {}
            JoinConstraint::Using(_) | JoinConstraint::Natural => {
                return Err("USING and NATURAL in it are not followed".into());
            }
        }
    }
    Ok(())
}
