//! Binds WITH RECURSIVE: `name AS (base UNION [ALL] step)`, whose step reads the rows that the step before has added.
//!
//! As in PostgreSQL, the queries of such a WITH may stand in any order, and the step reads its own rows once, in its
//! FROM list or in a subquery there. Its rows are computed all, also before a LIMIT.

use sqlparser::ast::{self, SetExpr, Spanned};

use super::{
    Bind, Binder, CteReference, VisibleCte, convert, fold,
    query::{Tail, cast_column, probe},
    term::RawTerm,
};
use crate::plan::{Body, Query, Recursive, RowsOf, Select, Step};

/// PostgreSQL's SQLSTATE of a recursion that it cannot compute.
const INVALID_RECURSION: &str = "42P19";

/// Where a step mentions its own rows.
#[derive(Default)]
struct Mentions {
    count: usize,
    in_subquery: bool,
    /// On the side of an outer join that may be NULL.
    in_outer_join: bool,
    /// In a query with aggregates.
    in_aggregation: bool,
    /// In an operand of INTERSECT or EXCEPT that may lose rows by others.
    in_difference: bool,
}

impl Binder<'_> {
    /// The common table expressions of WITH RECURSIVE, in an order in which each comes after those that it names.
    pub(super) fn with_recursive(&mut self, with: &ast::With) -> Bind<Vec<(usize, Query)>> {
        for cte in &with.cte_tables {
            let message = "mutual recursion between WITH items is not implemented";
            self.ctes.push(VisibleCte {
                name: fold(&cte.alias.name),
                rows: CteReference::Refused("0A000", message.into()),
                columns: Vec::new(),
            });
        }
        let mut ctes = Vec::new();
        let mut rest: Vec<&ast::Cte> = with.cte_tables.iter().collect();
        while !rest.is_empty() {
            let is_ready = |cte: &&ast::Cte| {
                let others = rest.iter().filter(|other| !std::ptr::eq(**other, *cte));
                !others
                    .into_iter()
                    .any(|other| may_mention(&cte.query, &fold(&other.alias.name)))
            };
            let place = rest.iter().position(is_ready).unwrap_or(0);
            let cte = rest.remove(place);
            ctes.push(self.recursive(with, cte)?);
        }
        Ok(ctes)
    }

    /// A common table expression that may be recursive.
    fn recursive(&mut self, with: &ast::With, cte: &ast::Cte) -> Bind<(usize, Query)> {
        let name = fold(&cte.alias.name);
        if !may_mention(&cte.query, &name) {
            return self.reading(with, cte);
        }
        let SetExpr::SetOperation {
            op: ast::SetOperator::Union,
            set_quantifier,
            left,
            right,
        } = &*cte.query.body
        else {
            let form = "does not have the form non-recursive-term UNION [ALL] recursive-term";
            return self.without(
                &name,
                format!("recursive query \"{name}\" {form}"),
                |binder| binder.reading(with, cte),
            );
        };
        let all = match set_quantifier {
            ast::SetQuantifier::All => true,
            ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
            _ => return Err(self.unsupported("BY NAME", with)),
        };
        let (accesses, visible) = (self.accesses.len(), self.ctes.len());
        let inner = match &cte.query.with {
            None => Vec::new(),
            Some(inner) => self.with(inner)?,
        };
        let within = "must not appear within its non-recursive term";
        let message = format!("recursive reference to query \"{name}\" {within}");
        let base = self.without(&name, message, |binder| binder.body(left, Tail::NONE))?;
        let number = self.visible(with, cte, base.columns.clone())?;
        let first = self.cte_count;
        let step = self.body(right, Tail::NONE)?;
        let own = self.ctes.pop();
        self.ctes.truncate(visible);
        let mut mentions = Mentions::default();
        mentions.of_query(&step, number);
        if mentions.count == 0 {
            self.accesses.truncate(accesses);
            return self.reading(with, cte);
        }
        self.check_recursion(&name, &mentions, &cte.query)?;
        if base.correlated || step.correlated {
            self.refuse_outer_reference(with)?;
        }
        let step = self.as_base(&name, &base, step, all, with)?;
        self.ctes.extend(own);
        let query = Query {
            ctes: inner,
            columns: base.columns.clone(),
            correlated: false,
            terms: base.columns.iter().map(|_| RawTerm::Unknown).collect(),
            body: Body::Recursive(Box::new(Recursive {
                number,
                all,
                nested: first..self.cte_count,
                base,
                step,
            })),
        };
        Ok((number, query))
    }

    /// Binds what must not mention a common table expression, for this reason.
    fn without<R>(
        &mut self,
        name: &str,
        message: String,
        bind: impl FnOnce(&mut Self) -> Bind<R>,
    ) -> Bind<R> {
        let place = self.ctes.len();
        self.ctes.push(VisibleCte {
            name: name.into(),
            rows: CteReference::Refused(INVALID_RECURSION, message),
            columns: Vec::new(),
        });
        let bound = bind(self);
        self.ctes.remove(place);
        bound
    }

    fn check_recursion(&self, name: &str, mentions: &Mentions, query: &ast::Query) -> Bind<()> {
        let unlimited = match &query.limit_clause {
            None => (false, false),
            Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.is_some(), offset.is_some())
            }
            Some(_) => (true, false),
        };
        let clauses = [
            (query.order_by.is_some(), "ORDER BY"),
            (unlimited.1, "OFFSET"),
            (unlimited.0 || query.fetch.is_some(), "LIMIT"),
            (!query.locks.is_empty(), "FOR UPDATE/SHARE"),
        ];
        if let Some((_, clause)) = clauses.iter().find(|(present, _)| *present) {
            let message = format!("{clause} in a recursive query is not implemented");
            return Err(self.error("0A000", message, query));
        }
        if mentions.in_difference {
            let construct = "a recursive query within INTERSECT or EXCEPT";
            return Err(self.unsupported(construct, query));
        }
        let reference = format!("recursive reference to query \"{name}\" must not appear");
        let message = if mentions.in_subquery {
            format!("{reference} within a subquery")
        } else if mentions.in_outer_join {
            format!("{reference} within an outer join")
        } else if mentions.count > 1 {
            format!("{reference} more than once")
        } else if mentions.in_aggregation {
            "aggregate functions are not allowed in a recursive query's recursive term".into()
        } else {
            return Ok(());
        };
        Err(self.error(INVALID_RECURSION, message, query))
    }

    /// The step with columns of the base's types.
    fn as_base(
        &mut self,
        name: &str,
        base: &Query,
        mut step: Query,
        all: bool,
        syntax: &impl Spanned,
    ) -> Bind<Query> {
        if base.columns.len() != step.columns.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(self.error("42601", message, syntax));
        }
        for (place, (_, wanted)) in base.columns.iter().enumerate() {
            let found = step.columns[place].1.clone();
            let probes = [probe(base, place, wanted), probe(&step, place, &found)];
            let common = self.common_type(&[&probes[0], &probes[1]], "UNION", syntax)?;
            if common != *wanted {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {wanted} in non-recursive term but type {common} overall",
                    place + 1
                );
                return Err(self
                    .error("42804", message, syntax)
                    .help("Cast the output of the non-recursive term to the correct type."));
            }
            if !convert::is_nothing(&found, &common) {
                cast_column(&mut step, place, &found, &common, false);
            }
            if !all {
                self.check_equality(&common, syntax)?;
            }
        }
        Ok(step)
    }
}

/// Whether a query may name a table: whether its text has the name as a word.
fn may_mention(query: &ast::Query, name: &str) -> bool {
    let text = query.to_string().to_lowercase();
    let name = name.to_lowercase();
    let in_word = |c: char| c == '_' || c == '$' || c.is_alphanumeric();
    match name.chars().all(in_word) {
        true => text.split(|c| !in_word(c)).any(|word| word == name),
        false => text.contains(&name),
    }
}

impl Mentions {
    fn of_query(&mut self, query: &Query, number: usize) {
        for (_, cte) in &query.ctes {
            self.of_query(cte, number);
        }
        match &query.body {
            Body::Select(select) => self.of_select(select, number),
            Body::SetOperation(operation) => {
                let before = self.count;
                self.of_query(&operation.left, number);
                self.of_query(&operation.right, number);
                let is_union = operation.operator == crate::plan::SetOperator::Union;
                self.in_difference |= self.count > before && !is_union;
            }
            Body::Recursive(inner) => {
                self.of_query(&inner.base, number);
                self.of_query(&inner.step, number);
            }
        }
    }

    fn of_select(&mut self, select: &Select, number: usize) {
        let before = self.count;
        for step in &select.steps {
            let (found, is_subquery, is_outer) = match step {
                Step::Query(of) => {
                    let found = self.count;
                    match &of.rows {
                        RowsOf::Cte { number: of, .. } => self.count += usize::from(*of == number),
                        RowsOf::Query(query) => self.of_query(query, number),
                        RowsOf::Constant { .. } => {}
                    }
                    (found, false, of.join.left)
                }
                Step::Subquery { subquery, .. } => {
                    let found = self.count;
                    self.of_query(&subquery.query, number);
                    (found, true, false)
                }
                _ => continue,
            };
            if self.count > found {
                self.in_subquery |= is_subquery;
                self.in_outer_join |= is_outer;
            }
        }
        let is_full = |step: &Step| match step {
            Step::Read(read) => read.join.full,
            Step::Query(of) => of.join.full,
            _ => false,
        };
        self.in_outer_join |= self.count > before && select.steps.iter().any(is_full);
        let aggregates =
            |step: &Step| matches!(step, Step::Group { aggregates, .. } if !aggregates.is_empty());
        self.in_aggregation |= self.count > before && select.steps.iter().any(aggregates);
    }
}
