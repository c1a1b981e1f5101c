//! Binds USING and NATURAL: columns of one name on both sides of a join become one column.

use std::ops::RangeInclusive;

use anabranch_types::DataType;
use sqlparser::ast::Spanned;

use super::{Bind, Binder, Bound, scope::Using};
use crate::expression::{Expression, Relation};

/// The sources on the two sides of a join.
pub(super) struct Sides {
    pub(super) left: RangeInclusive<usize>,
    pub(super) right: RangeInclusive<usize>,
    /// Whether the left side may be extended with NULLs: the one column is that of the right side.
    pub(super) is_right: bool,
}

impl Binder<'_> {
    /// The names of the columns that both sides of a NATURAL JOIN have.
    pub(super) fn common_columns(&mut self, sides: &Sides) -> Vec<String> {
        let scope = self.scope();
        let names = |side: &RangeInclusive<usize>| -> Vec<String> {
            let shown = scope.shown(side.clone()).into_iter();
            let name =
                |(source, column): (usize, usize)| &scope.sources[source - 1].columns[column].name;
            shown.map(|place| name(place).clone()).collect()
        };
        let others = names(&sides.right);
        let mut common: Vec<String> = Vec::new();
        for name in names(&sides.left) {
            if others.contains(&name) && !common.contains(&name) {
                common.push(name);
            }
        }
        common
    }

    /// The condition of a join by equal columns of these names, which become one column each.
    pub(super) fn join_using(
        &mut self,
        names: &[String],
        sides: &Sides,
        syntax: &impl Spanned,
    ) -> Bind<Vec<Expression>> {
        let mut conjuncts = Vec::new();
        let mut columns = Vec::new();
        for name in names {
            let left = self.side_column(name, &sides.left, "left", syntax)?;
            let right = self.side_column(name, &sides.right, "right", syntax)?;
            let (Some(left), Some(right)) = (left, right) else {
                let message = format!(
                    "column \"{name}\" specified in USING clause does not exist on both sides"
                );
                return Err(self.error("42703", message, syntax));
            };
            let bound = |(source, column, data_type): &(usize, usize, DataType)| {
                let expression = Expression::Column {
                    depth: 0,
                    source: *source,
                    column: *column,
                };
                Bound::new(expression, data_type.clone())
            };
            self.note_reference(0, left.0, left.1);
            self.note_reference(0, right.0, right.1);
            let (shown, hidden) = match sides.is_right {
                true => (&right, &left),
                false => (&left, &right),
            };
            self.scope().sources[hidden.0 - 1].columns[hidden.1].merged = true;
            columns.push((shown.0, shown.1));
            conjuncts.push(self.compare(bound(&left), Relation::Equal, bound(&right), syntax)?);
        }
        let sources = *sides.left.start()..=*sides.right.end();
        self.scope().usings.push(Using { sources, columns });
        Ok(conjuncts)
    }

    /// The column of this name on one side of a join.
    fn side_column(
        &mut self,
        name: &str,
        side: &RangeInclusive<usize>,
        which: &str,
        syntax: &impl Spanned,
    ) -> Bind<Option<(usize, usize, DataType)>> {
        let mut found = None;
        for source in side.clone() {
            let columns = self.scope().sources[source - 1].columns.iter().enumerate();
            let same = columns.filter(|(_, column)| column.name == name && !column.merged);
            for (column, described) in same {
                if found.is_some() {
                    let message = format!(
                        "common column name \"{name}\" appears more than once in {which} table"
                    );
                    return Err(self.error("42702", message, syntax));
                }
                found = Some((source, column, described.data_type.clone()));
            }
        }
        Ok(found)
    }
}
