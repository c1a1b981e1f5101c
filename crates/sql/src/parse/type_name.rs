//! Parses types as procedures name them: `%TYPE`, `%ROWTYPE`, a table's rows, `record`, `void`.

use anabranch_types::DataType;
use sqlparser::tokenizer::Token as Kind;

use super::{
    cursor::{Cursor, Parsed},
    data_type,
    scope::Scope,
    type_lookup::looked_up,
};
use crate::{
    catalog::{Catalog, VariableType},
    diagnostic::Diagnostic,
};

/// The meaning of a type's name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypeName {
    /// A type of values.
    Data(DataType),
    /// A row of a table, with its columns.
    Row(Vec<(String, DataType)>),
    /// `record`
    Record,
    /// `void`
    Void,
    /// `trigger`
    Trigger,
}

/// A type's name. `scope` has the variables that `%TYPE` may refer to.
pub(crate) fn type_name(
    cursor: &mut Cursor<'_>,
    catalog: &Catalog,
    scope: Option<&Scope>,
) -> Parsed<TypeName> {
    if cursor.eat_word("record") {
        return Ok(TypeName::Record);
    }
    if cursor.eat_word("void") {
        return Ok(TypeName::Void);
    }
    if cursor.eat_word("trigger") {
        return Ok(TypeName::Trigger);
    }
    match reference(cursor, catalog, scope)? {
        Some(found) => Ok(found),
        None => {
            let start = cursor.span();
            let named = data_type::serialless(cursor)?;
            let span = cursor.since(start);
            looked_up(named, &catalog.types, span).map(TypeName::Data)
        }
    }
}

/// `a.b%TYPE`, `v%TYPE`, `t%ROWTYPE`, `t`: what starts like one, else `None`.
fn reference(
    cursor: &mut Cursor<'_>,
    catalog: &Catalog,
    scope: Option<&Scope>,
) -> Parsed<Option<TypeName>> {
    let start = cursor.span();
    let mut names = Vec::new();
    let mut ahead = *cursor;
    while let Some(token) = ahead.next() {
        let Kind::Word(word) = &token.kind else { break };
        names.push(word.value.clone());
        if !ahead.eat(&Kind::Period) {
            break;
        }
    }
    if names.len() > 1 && names[0] == "public" {
        names.remove(0);
    }
    let attribute = if !ahead.at(&Kind::Mod) {
        None
    } else if ahead.peek_at(1).is_some_and(|token| token.is_word("type")) {
        Some("type")
    } else if ahead
        .peek_at(1)
        .is_some_and(|token| token.is_word("rowtype"))
    {
        Some("rowtype")
    } else {
        None
    };
    let span = start.to(ahead.last_span());
    let missing = |kind: &str, code, name: &str| {
        Err(Diagnostic::new(
            code,
            format!("{kind} \"{name}\" does not exist"),
            span,
        ))
    };
    let found = match (attribute, names.as_slice()) {
        (Some("type"), [variable]) => match scope.and_then(|scope| scope.get(variable)) {
            Some(VariableType::Data(data_type)) => TypeName::Data(data_type.clone()),
            Some(VariableType::Record | VariableType::Row(_)) => TypeName::Record,
            None => return missing("variable", "42704", variable),
        },
        (Some("type"), [table, column]) => {
            let Some(schema) = catalog.table_schema(table) else {
                return missing("relation", "42P01", table);
            };
            let mut columns = schema.visible_columns().iter();
            match columns.find(|found| found.name == *column) {
                Some(found) => TypeName::Data(found.data_type.clone()),
                None => {
                    let message =
                        format!("column \"{column}\" of relation \"{table}\" does not exist");
                    return Err(Diagnostic::new("42703", message, span));
                }
            }
        }
        (Some("rowtype"), [table]) => match row(catalog, table) {
            Some(row) => row,
            None => return missing("relation", "42P01", table),
        },
        (Some(_), _) => return Err(cursor.expected("a type")),
        (None, [table]) => match row(catalog, table) {
            Some(row) => row,
            None => return Ok(None),
        },
        (None, _) => return Ok(None),
    };
    if attribute.is_some() {
        ahead.take(2);
    }
    *cursor = ahead;
    Ok(Some(found))
}

fn row(catalog: &Catalog, table: &str) -> Option<TypeName> {
    let schema = catalog.table_schema(table)?;
    let columns = schema
        .visible_columns()
        .iter()
        .map(|column| (column.name.clone(), column.data_type.clone()));
    Some(TypeName::Row(columns.collect()))
}
