//! Types that a schema declares, by their names. The parser has no schema: it makes a type of any name, which is looked up
//! where the schema is at hand.

use std::sync::Arc;

use anabranch_types::{DataType, EnumType};

use super::cursor::Parsed;
use crate::{diagnostic::Diagnostic, source::Span, system::names::quoted};

/// The type that stands for a name which is not yet looked up; it is one of a schema's own.
pub(super) fn named(name: &str) -> DataType {
    DataType::Enum(Arc::new(EnumType {
        oid: 0,
        name: name.to_owned(),
        written: quoted(name),
        labels: Vec::new(),
    }))
}

/// A parsed type with the enumerations that it names looked up among those of the schema.
///
/// # Errors
/// `42704` if there is none with its name.
pub(crate) fn looked_up(
    data_type: DataType,
    types: &[Arc<EnumType>],
    span: Span,
) -> Parsed<DataType> {
    match data_type {
        DataType::Enum(of) if of.oid == 0 => match types.iter().find(|known| **known == of) {
            Some(known) => Ok(DataType::Enum(Arc::clone(known))),
            None => Err(unknown(&of.name, span)),
        },
        DataType::Array(element) => {
            let element = looked_up(*element, types, span)?;
            Ok(DataType::Array(Box::new(element)))
        }
        other => Ok(other),
    }
}

/// PostgreSQL's types that have no counterpart here.
pub(super) const OTHERS: [&str; 27] = [
    "bit",
    "box",
    "cidr",
    "circle",
    "inet",
    "int4range",
    "int8range",
    "interval",
    "line",
    "lseg",
    "macaddr",
    "money",
    "name",
    "numrange",
    "oid",
    "path",
    "point",
    "polygon",
    "regclass",
    "time",
    "timetz",
    "tsquery",
    "tsrange",
    "tsvector",
    "varbit",
    "xml",
    "char",
];

/// The error for a type that does not exist, or that is not supported.
pub(super) fn unknown(name: &str, span: Span) -> Diagnostic {
    let supported = "use one of boolean, smallint, integer, bigint, numeric, real, double \
                     precision, text, varchar, char, bytea, uuid, json, jsonb, date, timestamp, timestamptz";
    if OTHERS.contains(&name) {
        Diagnostic::unsupported(format!("type \"{name}\""), span).help(supported)
    } else {
        let message = format!("type \"{name}\" does not exist");
        Diagnostic::new("42704", message, span).help(supported)
    }
}
