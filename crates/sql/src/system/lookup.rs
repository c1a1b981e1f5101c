//! Functions over the system catalogs, and the names behind OIDs.

use anabranch_types::{EffectError, EnumType, ObjectKind, Value};

use super::{
    System,
    names::quoted,
    objects::{INFORMATION_SCHEMA, Index, PG_CATALOG, PUBLIC, Parameter, Procedure},
    relations::{definitions, schema_of},
    types::{base_types, type_functions, type_text},
};

/// A function over the system catalogs. Each gives NULL if its first argument is NULL, or names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemFunction {
    /// `format_type(oid, modifier)`; the modifier may be NULL.
    FormatType,
    /// `pg_table_is_visible(oid)` and its kin.
    IsVisible(ObjectKind),
    /// `pg_get_expr(expression, relation, pretty)`, of an expression as the catalogs hold it.
    Expression,
    /// `pg_get_indexdef(index, column, pretty)`.
    IndexDefinition,
    /// `pg_get_constraintdef(constraint, pretty)`.
    ConstraintDefinition,
    /// `pg_get_triggerdef(trigger, pretty)`.
    TriggerDefinition,
    /// `pg_get_viewdef(view, pretty)`.
    ViewDefinition,
    /// `pg_get_functiondef(procedure)`.
    FunctionDefinition,
    /// `pg_get_function_arguments(procedure)`.
    FunctionArguments,
    /// `pg_get_function_identity_arguments(procedure)`.
    IdentityArguments,
    /// `pg_get_function_result(procedure)`.
    FunctionResult,
    /// `pg_get_serial_sequence(table, column)`.
    SerialSequence,
    /// The name of an object: the text of a `regclass` and its kin.
    Name(ObjectKind),
    /// The OID of the object with a name: the input of a `regclass` and its kin. An unknown name is an error.
    Resolve(ObjectKind),
    /// The same; NULL for an unknown name: `to_regclass(text)` and its kin.
    ResolveIfKnown(ObjectKind),
}

impl System {
    /// The value of a function.
    pub(crate) fn call(
        &self,
        function: SystemFunction,
        arguments: &[Value],
    ) -> Result<Value, EffectError> {
        let found = match (function, arguments) {
            (SystemFunction::Resolve(kind), [Value::Text(name)]) => {
                return match self.resolve(kind, name)? {
                    Some(oid) => Ok(Value::Int(oid.into())),
                    None => Err(unknown(kind, name)),
                };
            }
            (SystemFunction::ResolveIfKnown(kind), [Value::Text(name)]) => {
                return Ok(self
                    .resolve(kind, name)?
                    .map_or(Value::Null, |oid| Value::Int(oid.into())));
            }
            (SystemFunction::Expression, [Value::Text(text), Value::Int(_), pretty @ ..]) => {
                Some(self.expression(text, is_true(pretty)))
            }
            (SystemFunction::SerialSequence, [Value::Text(table), Value::Text(column)]) => {
                return self.serial_sequence(table, column);
            }
            (function, [Value::Int(oid), rest @ ..]) => match u32::try_from(*oid) {
                Ok(oid) => return Ok(self.of_object(function, oid, rest)),
                Err(_) => None,
            },
            _ => None,
        };
        Ok(found.map_or(Value::Null, Value::text))
    }

    fn of_object(&self, function: SystemFunction, oid: u32, rest: &[Value]) -> Value {
        let objects = &self.objects;
        let procedure = || objects.procedures.iter().find(|of| of.oid == oid);
        let text = match (function, rest) {
            (SystemFunction::IsVisible(kind), _) => {
                return match self.schema_of(kind, oid) {
                    Some(schema) => Value::Bool(schema != INFORMATION_SCHEMA),
                    None => Value::Null,
                };
            }
            (SystemFunction::FormatType, [modifier]) => {
                let modifier = match modifier {
                    Value::Int(modifier) => i32::try_from(*modifier).ok(),
                    _ => None,
                };
                Some(self.type_text(oid, modifier))
            }
            (SystemFunction::Name(kind), _) => Some(self.name(kind, oid)),
            (SystemFunction::IndexDefinition, rest) => {
                let index = objects.indexes.iter().find(|of| of.oid == oid);
                index.map(|index| definition(index, rest))
            }
            (SystemFunction::ConstraintDefinition, rest) => {
                let constraint = objects.constraints.iter().find(|of| of.oid == oid);
                constraint.map(|constraint| match is_true(rest) {
                    true => constraint.text.pretty.clone(),
                    false => constraint.text.full.clone(),
                })
            }
            (SystemFunction::TriggerDefinition, rest) => {
                let trigger = objects.triggers.iter().find(|of| of.oid == oid);
                trigger.map(|trigger| trigger.text(is_true(rest)))
            }
            (SystemFunction::ViewDefinition, _) => {
                let view = objects.relations.iter().find(|of| of.oid == oid);
                view.and_then(|view| view.definition.clone())
            }
            (SystemFunction::FunctionDefinition, _) => procedure().map(|of| of.declaration.clone()),
            (SystemFunction::FunctionArguments, _) => procedure().map(|of| arguments(of, true)),
            (SystemFunction::IdentityArguments, _) => procedure().map(|of| arguments(of, false)),
            (SystemFunction::FunctionResult, _) => {
                let functions = procedure().filter(|of| of.is_function);
                functions.map(|of| self.result(of))
            }
            _ => None,
        };
        text.map_or(Value::Null, Value::text)
    }

    /// An expression as the catalogs hold it, with all parentheses or with those alone that are needed.
    fn expression(&self, text: &str, pretty: bool) -> String {
        let defaults = self.objects.relations.iter().flat_map(|of| &of.columns);
        let written = defaults
            .filter_map(|column| column.default.as_ref())
            .map(|default| &default.text);
        let indexes = self.objects.indexes.iter();
        let of_indexes = indexes.flat_map(|of| of.expressions.iter().chain(&of.predicate));
        let written = written.chain(of_indexes);
        let known = written.into_iter().find(|written| written.full == text);
        match known {
            Some(written) if pretty => written.pretty.clone(),
            _ => text.to_owned(),
        }
    }

    /// The schema of an object.
    fn schema_of(&self, kind: ObjectKind, oid: u32) -> Option<u32> {
        match kind {
            ObjectKind::Relation => {
                let own = self.objects.relations.iter().find(|of| of.oid == oid);
                let others = || definitions().iter().find(|of| of.oid == oid).map(schema_of);
                own.map(|of| of.schema).or_else(others)
            }
            ObjectKind::Type if self.own_type(oid).is_some() => Some(PUBLIC),
            ObjectKind::Type => base_types()
                .iter()
                .any(|of| of.oid == oid)
                .then_some(PG_CATALOG),
            ObjectKind::Procedure | ObjectKind::Signature => {
                let is_own = self.objects.procedures.iter().any(|of| of.oid == oid);
                let is_of_type = type_functions().iter().any(|(of, _)| *of == oid);
                is_own
                    .then_some(PUBLIC)
                    .or(is_of_type.then_some(PG_CATALOG))
            }
            ObjectKind::Schema | ObjectKind::Role => None,
        }
    }

    /// The name of an object as a `regclass` and its kin write it: its number if it has none.
    fn name(&self, kind: ObjectKind, oid: u32) -> String {
        if oid == 0 {
            return "-".to_owned();
        }
        let procedure = || self.objects.procedures.iter().find(|of| of.oid == oid);
        let of_type = || type_functions().iter().find(|(of, _)| *of == oid);
        let found = match kind {
            ObjectKind::Relation => {
                let own = self.objects.relations.iter().find(|of| of.oid == oid);
                let own = own.map(|of| quoted(&of.name));
                own.or_else(|| {
                    let of = definitions().iter().find(|of| of.oid == oid)?;
                    Some(match of.schema {
                        "pg_catalog" => of.name.to_owned(),
                        schema => format!("{schema}.{}", of.name),
                    })
                })
            }
            ObjectKind::Type if self.own_type(oid).is_some() => Some(self.type_text(oid, None)),
            ObjectKind::Type => base_types()
                .iter()
                .any(|of| of.oid == oid)
                .then(|| type_text(oid, None)),
            ObjectKind::Procedure => procedure()
                .map(|of| quoted(&of.name))
                .or_else(|| of_type().map(|(_, name)| (*name).to_owned())),
            ObjectKind::Signature => procedure().map(|of| {
                let inputs = of
                    .parameters
                    .iter()
                    .filter(|parameter| parameter.is_input());
                let types: Vec<String> = inputs
                    .map(|parameter| parameter.data_type.to_string())
                    .collect();
                format!("{}({})", quoted(&of.name), types.join(","))
            }),
            ObjectKind::Schema => SCHEMAS
                .iter()
                .find(|(of, _)| *of == oid)
                .map(|(_, name)| (*name).to_owned()),
            ObjectKind::Role => None,
        };
        found.unwrap_or_else(|| oid.to_string())
    }

    /// The OID of the object with this name.
    pub(crate) fn resolve(&self, kind: ObjectKind, text: &str) -> Result<Option<u32>, EffectError> {
        if text == "-" {
            return Ok(Some(0));
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let oid = text.parse().map_err(|_| {
                let message = format!("value \"{text}\" is out of range for type oid");
                EffectError::new("22003", message)
            })?;
            return Ok(Some(oid));
        }
        if kind == ObjectKind::Type {
            return Ok(self.resolve_type(text));
        }
        let text = match kind {
            ObjectKind::Signature => text.split('(').next().unwrap_or(text),
            _ => text,
        };
        let names = parts(text)?;
        let (schema, name) = match names.as_slice() {
            [name] => (None, name.as_str()),
            [schema, name] => (Some(schema.as_str()), name.as_str()),
            _ => return Ok(None),
        };
        let in_public = schema.is_none_or(|schema| schema == "public");
        let in_catalog = schema.is_none_or(|schema| schema == "pg_catalog");
        let objects = &self.objects;
        Ok(match kind {
            ObjectKind::Relation => {
                let own = definitions()
                    .iter()
                    .find(|of| of.name == name && schema.unwrap_or("pg_catalog") == of.schema);
                let relations = &objects.relations;
                let declared = relations.iter().find(|of| in_public && of.name == name);
                own.map(|of| of.oid).or(declared.map(|of| of.oid))
            }
            ObjectKind::Procedure | ObjectKind::Signature => {
                let declared = objects.procedures.iter();
                let declared = declared.clone().find(|of| in_public && of.name == name);
                let own = type_functions().iter();
                let own = own.clone().find(|(_, of)| in_catalog && *of == name);
                own.map(|(oid, _)| *oid).or(declared.map(|of| of.oid))
            }
            ObjectKind::Schema if schema.is_none() => SCHEMAS
                .iter()
                .find(|(_, of)| *of == name)
                .map(|(oid, _)| *oid),
            _ => None,
        })
    }

    /// The OID of an enumeration, or of its arrays, with this name.
    fn resolve_own_type(&self, text: &str) -> Option<u32> {
        let text = text.trim();
        let (name, is_array) = match text.strip_suffix("[]") {
            Some(element) => (element, true),
            None => (text, false),
        };
        let names = parts(name).ok()?;
        let name = match names.as_slice() {
            [name] => name,
            [schema, name] if schema == "public" => name,
            _ => return None,
        };
        let named = |of: &&std::sync::Arc<EnumType>| of.name == *name;
        if let Some(of) = self.objects.types.iter().find(named) {
            return Some(if is_array { of.array_oid() } else { of.oid });
        }
        let element = name.strip_prefix('_').filter(|_| !is_array)?;
        let of = self.objects.types.iter().find(|of| of.name == element)?;
        Some(of.array_oid())
    }

    fn resolve_type(&self, text: &str) -> Option<u32> {
        if let Some(own) = self.resolve_own_type(text) {
            return Some(own);
        }
        let written = text.trim().to_lowercase();
        let written = written.strip_prefix("pg_catalog.").unwrap_or(&written);
        let plain = match written.split_once('(') {
            // A bound says nothing about the type.
            Some((name, rest)) => {
                let behind = rest.split_once(')').map_or("", |(_, behind)| behind);
                format!("{}{behind}", name.trim_end())
            }
            None => written.to_owned(),
        };
        if let Some(element) = plain.strip_suffix("[]") {
            let element = self.resolve_type(element)?;
            let array = base_types().iter().find(|of| of.oid == element)?.array;
            return Some(array).filter(|array| *array != 0);
        }
        let alias = match plain.as_str() {
            "int" => "integer",
            "decimal" | "dec" => "numeric",
            "timestamp" => "timestamp without time zone",
            "float" => "double precision",
            "char" => "character",
            "\"char\"" => return Some(18),
            other => other,
        };
        // `char` alone is `character`; the type of that internal name is written with quotes.
        let found = base_types()
            .iter()
            .find(|of| (of.name == alias && of.oid != 18) || type_text(of.oid, None) == alias);
        found.map(|of| of.oid)
    }

    /// The result of a function as its declaration writes it.
    fn result(&self, of: &Procedure) -> String {
        let columns: Vec<&Parameter> = of.parameters.iter().filter(|of| of.mode == "t").collect();
        if !columns.is_empty() {
            let columns: Vec<String> = columns
                .iter()
                .map(|of| format!("{} {}", quoted(&of.name), of.data_type))
                .collect();
            return format!("TABLE({})", columns.join(", "));
        }
        let set = if of.returns_set { "SETOF " } else { "" };
        format!("{set}{}", self.type_text(of.result, None))
    }

    fn serial_sequence(&self, table: &str, column: &str) -> Result<Value, EffectError> {
        let Some(oid) = self.resolve(ObjectKind::Relation, table)? else {
            return Err(unknown(ObjectKind::Relation, table));
        };
        let relation = self.objects.relations.iter().find(|of| of.oid == oid);
        if !relation.is_some_and(|of| of.columns.iter().any(|of| of.name == column)) {
            let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
            return Err(EffectError::new("42703", message));
        }
        let sequences = self.objects.sequences.iter();
        let found = sequences.clone().find(|of| {
            let owner = of.owner.as_ref();
            owner.is_some_and(|of| of.table == oid && of.column_name == column)
        });
        Ok(found.map_or(Value::Null, |of| {
            Value::text(format!("public.{}", quoted(&of.sequence.name)))
        }))
    }
}

/// The schemas, by OID.
const SCHEMAS: [(u32, &str); 3] = [
    (PG_CATALOG, "pg_catalog"),
    (PUBLIC, "public"),
    (INFORMATION_SCHEMA, "information_schema"),
];

/// The error about a name that names nothing.
pub(crate) fn unknown(kind: ObjectKind, name: &str) -> EffectError {
    let (code, what) = match kind {
        ObjectKind::Relation => ("42P01", "relation"),
        ObjectKind::Type => ("42704", "type"),
        ObjectKind::Procedure | ObjectKind::Signature => ("42883", "function"),
        ObjectKind::Schema => ("3F000", "schema"),
        ObjectKind::Role => ("42704", "role"),
    };
    EffectError::new(code, format!("{what} \"{name}\" does not exist"))
}

/// Whether the last argument says that few parentheses are wanted.
fn is_true(arguments: &[Value]) -> bool {
    arguments.last() == Some(&Value::Bool(true))
}

fn definition(index: &Index, rest: &[Value]) -> String {
    let column = match rest {
        [Value::Int(column), ..] if *column > 0 => usize::try_from(column - 1).ok(),
        _ => None,
    };
    index.text(column, is_true(rest))
}

/// The parts of a qualified name, each folded to lower case unless quoted.
fn parts(text: &str) -> Result<Vec<String>, EffectError> {
    let invalid = || EffectError::new("42602", "invalid name syntax");
    let mut names = Vec::new();
    let mut rest = text.trim();
    loop {
        let mut name = String::new();
        if let Some(inner) = rest.strip_prefix('"') {
            let mut inner = inner;
            loop {
                let at = inner.find('"').ok_or_else(invalid)?;
                name.push_str(&inner[..at]);
                inner = &inner[at + 1..];
                match inner.strip_prefix('"') {
                    Some(more) => {
                        name.push('"');
                        inner = more;
                    }
                    None => break,
                }
            }
            rest = inner.trim_start();
        } else {
            let end = rest.find(['.', '"']).unwrap_or(rest.len());
            name = rest[..end].trim_end().to_lowercase();
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(invalid());
            }
            rest = &rest[end..];
        }
        names.push(name);
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Ok(names),
            None => return Err(invalid()),
        }
    }
}

/// The parameters of a procedure as its declaration lists them.
fn arguments(of: &Procedure, with_defaults: bool) -> String {
    let listed = of
        .parameters
        .iter()
        .filter(|parameter| parameter.mode != "t");
    let input = if of.is_function { "" } else { "IN " };
    let written: Vec<String> = listed
        .map(|of| parameter(of, input, with_defaults))
        .collect();
    written.join(", ")
}

fn parameter(of: &Parameter, input: &str, with_default: bool) -> String {
    let mode = match of.mode {
        "o" => "OUT ",
        "b" => "INOUT ",
        _ => input,
    };
    let mut text = mode.to_owned();
    if !of.name.is_empty() {
        text.push_str(&quoted(&of.name));
        text.push(' ');
    }
    text.push_str(&of.data_type.to_string());
    if let (true, Some(default)) = (with_default, &of.default) {
        text.push_str(" DEFAULT ");
        text.push_str(default);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_are_cut_at_their_dots() {
        assert_eq!(parts("Public . T").unwrap(), ["public", "t"]);
        assert_eq!(parts("\"A.b\".\"c\"\"d\"").unwrap(), ["A.b", "c\"d"]);
        for wrong in ["", "a.", "\"a", "a b", "a\"b\""] {
            assert_eq!(parts(wrong).unwrap_err().code, "42602", "{wrong}");
        }
    }

    #[test]
    fn a_type_has_the_names_that_sql_gives_it() {
        let system = System::new(super::super::objects::Objects::default());
        let of = |text: &str| system.resolve(ObjectKind::Type, text).unwrap();
        for (text, oid) in [
            ("int4", 23),
            ("integer", 23),
            ("int", 23),
            ("pg_catalog.text", 25),
            ("varchar(20)", 1043),
            ("character varying", 1043),
            ("numeric(10,2)[]", 1231),
            ("\"char\"", 18),
            ("char", 1042),
            ("timestamp with time zone", 1184),
            ("_text", 1009),
        ] {
            assert_eq!(of(text), Some(oid), "{text}");
        }
        assert_eq!(of("hstore"), None);
    }
}
