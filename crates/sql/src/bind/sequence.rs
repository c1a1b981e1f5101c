//! Binds `nextval`, `currval`, `lastval` and `setval`, and sequences as relations.

use std::sync::Arc;

use anabranch_types::{DataType, ObjectKind, Value};
use sqlparser::ast::Expr;

use super::{Bind, Binder, Bound, convert::Context};
use crate::{
    expression::{Expression, SequenceFunction, SequenceTarget},
    parse::sequence::sequence_named,
    plan::OutputColumn,
    sequence::ResolvedSequence,
    system::objects::oid_of_sequence,
};

impl Binder<'_> {
    /// A function of a sequence, by its name and arguments.
    pub(super) fn sequence_function(
        &mut self,
        name: &str,
        arguments: &[&Expr],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        // What foreign SQL does to sequences is opaque to the analyser.
        if self.catalog.opaque.is_some() {
            return Ok(None);
        }
        let (function, of, rest) = match (name, arguments) {
            ("nextval", [of]) => (SequenceFunction::Next, of, &[][..]),
            ("currval", [of]) => (SequenceFunction::Current, of, &[][..]),
            ("setval", [of, rest @ ..]) if matches!(rest.len(), 1 | 2) => {
                (SequenceFunction::Set, of, rest)
            }
            ("lastval", []) => {
                let last = Expression::OfSequence {
                    function: SequenceFunction::Last,
                    target: SequenceTarget::Nothing,
                    arguments: Vec::new(),
                };
                return Ok(Some(Bound::new(last, DataType::Int8)));
            }
            _ => return Ok(None),
        };
        let mut bound = Vec::new();
        let target = match self.sequence_of(of)? {
            Some(sequence) if matches!(function, SequenceFunction::Next) => {
                let next = Expression::Next(Arc::new(sequence));
                return Ok(Some(Bound::new(next, DataType::Int8)));
            }
            Some(sequence) => SequenceTarget::Named(Arc::new(sequence)),
            None => {
                let regclass = DataType::OidAlias(ObjectKind::Relation);
                let of = self.expression(of)?;
                bound.push(self.coerce(of, &regclass, Context::Implicit, syntax)?);
                let list = self.catalog.all_sequences();
                let list = list.map(|of| (oid_of_sequence(of.id), Arc::new(of)));
                SequenceTarget::Computed(Arc::new(list.collect()))
            }
        };
        for (argument, to) in rest.iter().zip([DataType::Int8, DataType::Bool]) {
            let argument = self.expression(argument)?;
            bound.push(self.coerce(argument, &to, Context::Implicit, syntax)?);
        }
        let call = Expression::OfSequence {
            function,
            target,
            arguments: bound,
        };
        Ok(Some(Bound::new(call, DataType::Int8)))
    }

    /// The sequence that an argument names by a literal.
    fn sequence_of(&self, argument: &Expr) -> Bind<Option<ResolvedSequence>> {
        let Some(name) = sequence_named(argument) else {
            return Ok(None);
        };
        // An OID.
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        if let Some(sequence) = self.catalog.sequence_by_name(&name) {
            return Ok(Some(sequence));
        }
        let catalog = self.catalog;
        if catalog.table_by_name(&name).is_some() || catalog.view_by_name(&name).is_some() {
            let message = format!("\"{name}\" is not a sequence");
            return Err(self.error("42809", message, argument));
        }
        let message = format!("relation \"{name}\" does not exist");
        Err(self.error("42P01", message, argument))
    }

    /// The columns of a sequence as a relation, with the values of its one row.
    pub(super) fn sequence_row(sequence: ResolvedSequence) -> (Vec<OutputColumn>, Vec<Expression>) {
        let target = SequenceTarget::Named(Arc::new(sequence));
        let value = |function| Expression::OfSequence {
            function,
            target: target.clone(),
            arguments: Vec::new(),
        };
        let columns = vec![
            ("last_value".to_owned(), DataType::Int8),
            ("log_cnt".to_owned(), DataType::Int8),
            ("is_called".to_owned(), DataType::Bool),
        ];
        let values = vec![
            value(SequenceFunction::LastValue),
            Expression::Constant(Value::Int(0)),
            value(SequenceFunction::IsCalled),
        ];
        (columns, values)
    }
}
