//! Binds calls of functions over the system catalogs.

use anabranch_types::{DataType, ObjectKind, Value};
use sqlparser::ast::Expr;

use crate::{
    bind::{Bind, Binder, Bound, convert::Context},
    expression::{Expression, Function},
    system::{lookup::SystemFunction, types::type_oid},
};

const OID: DataType = DataType::Oid;
const TEXT: DataType = DataType::Text;
const INT: DataType = DataType::Int4;
const BOOL: DataType = DataType::Bool;

impl Binder<'_> {
    /// A function over the system catalogs, by its name and arguments.
    pub(crate) fn system_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        if self.catalog.opaque.is_some() {
            return Ok(None);
        }
        if let Some(bound) = self.constant_function(name, bounds, syntax)? {
            return Ok(Some(bound));
        }
        let visible = |kind| (SystemFunction::IsVisible(kind), vec![OID], BOOL);
        let of_procedure = |function| (function, vec![OID], TEXT);
        let alias = |kind| {
            (
                SystemFunction::ResolveIfKnown(kind),
                vec![TEXT],
                DataType::OidAlias(kind),
            )
        };
        let (function, types, result) = match (name, bounds.len()) {
            ("format_type", 2) => (SystemFunction::FormatType, vec![OID, INT], TEXT),
            ("pg_table_is_visible", 1) => visible(ObjectKind::Relation),
            ("pg_type_is_visible", 1) => visible(ObjectKind::Type),
            ("pg_function_is_visible", 1) => visible(ObjectKind::Procedure),
            ("pg_get_expr", 2) => (SystemFunction::Expression, vec![TEXT, OID], TEXT),
            ("pg_get_expr", 3) => (SystemFunction::Expression, vec![TEXT, OID, BOOL], TEXT),
            ("pg_get_indexdef", 1) => (SystemFunction::IndexDefinition, vec![OID], TEXT),
            ("pg_get_indexdef", 3) => (SystemFunction::IndexDefinition, vec![OID, INT, BOOL], TEXT),
            ("pg_get_constraintdef", 1) => (SystemFunction::ConstraintDefinition, vec![OID], TEXT),
            ("pg_get_constraintdef", 2) => {
                (SystemFunction::ConstraintDefinition, vec![OID, BOOL], TEXT)
            }
            ("pg_get_triggerdef", 1) => (SystemFunction::TriggerDefinition, vec![OID], TEXT),
            ("pg_get_triggerdef", 2) => (SystemFunction::TriggerDefinition, vec![OID, BOOL], TEXT),
            ("pg_get_viewdef", 1 | 2) => {
                let relation = match bounds[0].data_type {
                    Some(DataType::Text) | None => DataType::OidAlias(ObjectKind::Relation),
                    _ => OID,
                };
                let mut types = vec![relation];
                types.extend(bounds[1..].iter().map(|_| BOOL));
                (SystemFunction::ViewDefinition, types, TEXT)
            }
            ("pg_get_functiondef", 1) => of_procedure(SystemFunction::FunctionDefinition),
            ("pg_get_function_arguments", 1) => of_procedure(SystemFunction::FunctionArguments),
            ("pg_get_function_identity_arguments", 1) => {
                of_procedure(SystemFunction::IdentityArguments)
            }
            ("pg_get_function_result", 1) => of_procedure(SystemFunction::FunctionResult),
            ("pg_get_serial_sequence", 2) => {
                (SystemFunction::SerialSequence, vec![TEXT, TEXT], TEXT)
            }
            ("to_regclass", 1) => alias(ObjectKind::Relation),
            ("to_regtype", 1) => alias(ObjectKind::Type),
            ("to_regproc", 1) => alias(ObjectKind::Procedure),
            ("to_regprocedure", 1) => alias(ObjectKind::Signature),
            ("to_regnamespace", 1) => alias(ObjectKind::Schema),
            _ => return Ok(None),
        };
        let mut arguments = Vec::new();
        for (bound, to) in bounds.iter().zip(&types) {
            arguments.push(self.coerce(bound.clone(), to, Context::Implicit, syntax)?);
        }
        Ok(self.system_call(function, arguments, result))
    }

    /// Functions whose result depends on little: what they ask for is not here.
    fn constant_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        let constant = |value: Value, data_type| Bound::new(Expression::Constant(value), data_type);
        let bound = match (name, bounds) {
            ("pg_get_userbyid", [oid]) => {
                let oid = self.coerce(oid.clone(), &OID, Context::Implicit, syntax)?;
                self.role_name(Bound::new(oid, OID), syntax)?
            }
            ("pg_typeof", [bound]) => {
                // A literal without a type is of type `unknown`.
                const UNKNOWN: u32 = 705;
                let oid = bound.data_type.as_ref().map_or(UNKNOWN, type_oid);
                constant(Value::Int(oid.into()), DataType::OidAlias(ObjectKind::Type))
            }
            ("pg_encoding_to_char", [encoding]) => {
                let encoding = self.coerce(encoding.clone(), &INT, Context::Implicit, syntax)?;
                let branch = |number: i64, name: &str| {
                    (
                        Expression::Constant(Value::Int(number)),
                        Expression::Constant(Value::text(name)),
                    )
                };
                let switch = Expression::Switch {
                    operand: Box::new(encoding),
                    branches: vec![branch(6, "UTF8"), branch(0, "SQL_ASCII")],
                    otherwise: Box::new(Expression::Constant(Value::text(""))),
                };
                Bound::new(switch.folded(), DataType::Name)
            }
            // There is one user, who may do everything.
            (
                "has_table_privilege"
                | "has_schema_privilege"
                | "has_database_privilege"
                | "has_column_privilege"
                | "has_function_privilege"
                | "has_sequence_privilege"
                | "has_any_column_privilege"
                | "pg_has_role",
                [_, _, ..],
            ) => constant(Value::Bool(true), BOOL),
            // Every relation is visible in a schema that is searched, or the caller has no other kind of object.
            (
                "pg_collation_is_visible" | "pg_opclass_is_visible" | "pg_operator_is_visible",
                [_],
            ) => constant(Value::Bool(true), BOOL),
            // There are no comments, rules, partitions or statistics objects.
            ("obj_description", [_] | [_, _])
            | ("col_description" | "shobj_description", [_, _])
            | (
                "pg_get_ruledef"
                | "pg_get_statisticsobjdef"
                | "pg_get_statisticsobjdef_columns"
                | "pg_get_partkeydef"
                | "pg_get_partition_constraintdef"
                | "pg_tablespace_location",
                [_] | [_, _],
            ) => constant(Value::Null, TEXT),
            // The bytes of a relation are not counted.
            (
                "pg_table_size"
                | "pg_relation_size"
                | "pg_total_relation_size"
                | "pg_indexes_size"
                | "pg_database_size"
                | "pg_tablespace_size",
                [_] | [_, _],
            ) => constant(Value::Null, DataType::Int8),
            // Nothing is replicated to subscribers.
            ("pg_relation_is_publishable", [_]) | ("pg_is_other_temp_schema", [_]) => {
                constant(Value::Bool(false), BOOL)
            }
            ("pg_my_temp_schema", []) => constant(Value::Int(0), OID),
            ("pg_size_pretty", [size]) => {
                let size = self.coerce(size.clone(), &DataType::Int8, Context::Implicit, syntax)?;
                Self::call(Function::SizePretty, vec![size], TEXT)
            }
            ("quote_ident", [name]) => {
                let name = self.coerce(name.clone(), &TEXT, Context::Implicit, syntax)?;
                Self::call(Function::QuoteIdentifier, vec![name], TEXT)
            }
            ("quote_literal", [text]) => {
                let text = self.as_text(text.clone(), syntax)?;
                Self::call(Function::QuoteLiteral, vec![text], TEXT)
            }
            _ => return Ok(None),
        };
        Ok(Some(bound))
    }
}
