//! Calls and rows as SQL.

use anabranch_sql::catalog::ColumnDefault;
use anabranch_sql::expression::text::literal;
use anabranch_types::{DataType, Value};

use super::World;
use super::call::Call;
use super::generate::quoted;
use super::state::State;

/// A call as a statement.
pub(super) fn call(world: &World<'_>, call: &Call) -> String {
    let procedure = &world.application.procedures[call.procedure];
    let arguments: Vec<String> = procedure
        .parameters()
        .iter()
        .zip(&call.arguments)
        .map(|((name, of), value)| {
            // PostgreSQL reads the literal as integer, and then finds no routine with a smallint.
            let cast = match (of, value) {
                (DataType::Int2, Value::Int(_)) => "::smallint",
                _ => "",
            };
            format!("{} => {}{cast}", quoted(name), literal(value))
        })
        .collect();
    let is_client = world.client_of.contains_key(&call.procedure);
    let verb = if !is_client && world.is_function(procedure.name()) {
        "SELECT"
    } else {
        "CALL"
    };
    format!(
        "{verb} {}({});",
        quoted(procedure.name()),
        arguments.join(", ")
    )
}

/// The rows of a state as INSERTs. Columns that are NULL are left out.
pub(super) fn inserts(world: &World<'_>, state: &State) -> Vec<String> {
    let mut statements = Vec::new();
    for table in world.order.iter().copied() {
        let schema = world.schema().table(table);
        let defaults = &world.catalog().table(table).defaults;
        for row in state.of_table(table).values() {
            let values = row.values(&schema.layout);
            let named: Vec<(String, String)> = schema
                .columns
                .iter()
                .zip(defaults)
                .zip(&values)
                .filter(|((_, default), value)| {
                    !matches!(value, Value::Null) && !matches!(default, ColumnDefault::Computed(..))
                })
                .map(|((column, _), value)| (quoted(&column.name), literal(value)))
                .collect();
            let columns: Vec<&str> = named.iter().map(|(c, _)| c.as_str()).collect();
            let values: Vec<&str> = named.iter().map(|(_, v)| v.as_str()).collect();
            statements.push(format!(
                "INSERT INTO {} ({}) VALUES ({});",
                quoted(&schema.name),
                columns.join(", "),
                values.join(", ")
            ));
        }
    }
    statements
}
