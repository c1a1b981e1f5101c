//! Hidden columns: what indexes of expressions and partial indexes are of.
//!
//! Each part of such an index has a generated column behind the visible ones, which holds the value of the expression, or
//! NULL in rows that the condition of the index does not select. Rows that are NULL there conflict with none. Indexes of a
//! table that have the same part share its column.
//!
//! The columns are declared with their tables. They get types and names when the catalog is compiled
//! ([`crate::hidden`]).

use anabranch_types::{ColumnIndex, ColumnSchema, DataType};
use sqlparser::ast::{self, Expr};

use super::{ColumnDefault, IndexDefinition, IndexPart, tables::Draft};
use crate::{expression::frame::column_index, source::Span};

impl Draft {
    /// The columns that an index has: those that it names, or hidden ones.
    pub(super) fn index_columns(
        &mut self,
        definition: &IndexDefinition,
        span: Span,
    ) -> Vec<ColumnIndex> {
        let mut columns = Vec::new();
        for part in &definition.parts {
            let value = match (part, &definition.predicate) {
                (IndexPart::Column(column), None) => {
                    columns.push(*column);
                    continue;
                }
                (IndexPart::Column(column), _) => {
                    let name = &self.schema.columns[column.index()].name;
                    Expr::Identifier(ast::Ident::with_quote('"', name))
                }
                (IndexPart::Expression(expression, _), _) => expression.clone(),
            };
            let value = match &definition.predicate {
                None => value,
                Some((condition, _)) => selected(condition.clone(), value),
            };
            columns.push(self.hidden_column(value, span));
        }
        columns
    }

    /// The hidden column of a value.
    fn hidden_column(&mut self, value: Expr, span: Span) -> ColumnIndex {
        let same = |place: &usize| {
            let is_hidden = self.schema.columns[*place].is_hidden;
            is_hidden
                && matches!(&self.table.defaults[*place], ColumnDefault::Computed(of, _) if *of == value)
        };
        if let Some(place) = (0..self.schema.columns.len()).find(same) {
            return column_index(place);
        }
        self.schema.columns.push(ColumnSchema {
            name: String::new(),
            data_type: DataType::Bool,
            nullable: true,
            is_hidden: true,
        });
        self.table
            .defaults
            .push(ColumnDefault::Computed(value, span));
        column_index(self.schema.columns.len() - 1)
    }
}

/// A value in the rows that a condition selects.
fn selected(condition: Expr, value: Expr) -> Expr {
    let token = || ast::helpers::attached_token::AttachedToken::empty();
    Expr::Case {
        case_token: token(),
        end_token: token(),
        operand: None,
        conditions: vec![ast::CaseWhen {
            condition,
            result: value,
        }],
        else_result: None,
    }
}
