//! Types and names of hidden columns, which indexes of expressions and partial indexes are of (see the module `hidden` of the
//! catalog). Their names are those that PostgreSQL gives the parts of an index in messages: `lower(email)`.

use std::sync::{Arc, OnceLock};

use anabranch_types::{ColumnIndex, DataType, RowLayout};

use crate::{
    bind::computed::{bound_part, bound_predicate},
    bind::system::index_part,
    catalog::{Catalog, IndexDefinition, IndexPart, Table},
    diagnostic::Diagnostic,
};

/// Gives the hidden columns their types and names.
///
/// # Errors
/// Why the indexes cannot have them.
pub(crate) fn settle(catalog: &mut Catalog) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    for number in 0..catalog.tables.len() {
        match settled(catalog, number) {
            Ok(described) if !described.is_empty() => {
                let schema = Arc::make_mut(&mut catalog.schema.tables[number]);
                for (column, name, data_type) in described {
                    let hidden = &mut schema.columns[column.index()];
                    (hidden.name, hidden.data_type) = (name, data_type);
                }
                let columns = schema.columns.iter();
                schema.layout =
                    RowLayout::new(columns.map(|column| (&column.data_type, column.nullable)));
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    // An expression over the system catalogs, which no index has, made them too early.
    if catalog.tables.iter().any(has_hidden) {
        catalog.system = OnceLock::new();
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(errors),
    }
}

fn has_hidden(table: &Table) -> bool {
    !table.indexes.iter().all(IndexDefinition::is_plain)
}

/// The names and types of a table's hidden columns.
fn settled(
    catalog: &Catalog,
    number: usize,
) -> Result<Vec<(ColumnIndex, String, DataType)>, Diagnostic> {
    let (table, schema) = (&catalog.tables[number], &catalog.schema.tables[number]);
    let mut described = Vec::new();
    for (definition, index) in table.indexes.iter().zip(&schema.indexes) {
        if definition.is_plain() {
            continue;
        }
        if let Some((condition, span)) = &definition.predicate {
            bound_predicate(catalog, table.id, condition, *span)?;
        }
        for (part, column) in definition.parts.iter().zip(&index.columns) {
            let (name, data_type) = match part {
                IndexPart::Column(own) => {
                    let own = &schema.columns[own.index()];
                    (own.name.clone(), own.data_type.clone())
                }
                IndexPart::Expression(expression, span) => {
                    let (_, data_type) = bound_part(catalog, table.id, expression, *span)?;
                    if matches!(
                        data_type,
                        DataType::Array(_) | DataType::Json | DataType::Jsonb
                    ) {
                        let construct = format!("an index on an expression of type {data_type}");
                        return Err(Diagnostic::unsupported(construct, *span));
                    }
                    let name = index_part(catalog, table.id, expression, *span).pretty;
                    (name, data_type)
                }
            };
            if schema.columns[column.index()].is_hidden {
                described.push((*column, name, data_type));
            }
        }
    }
    Ok(described)
}
