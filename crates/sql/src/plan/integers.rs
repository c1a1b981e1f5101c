//! Compiles the keys and sums of a pipeline for integers, when all its steps are known.

use std::sync::Arc;

use anabranch_types::{DataType, TableSchema, key::int_width};

use super::{KeyPart, Path, Step};
use crate::{
    bind::aggregate::{Aggregate, AggregateFunction},
    expression::integer::{Integer, Shapes},
};

/// A column of a key that is an integer.
#[derive(Clone, Debug)]
pub(crate) struct IntegerKey {
    pub(crate) value: Integer,
    /// Its width in the key, in bytes.
    pub(crate) width: usize,
}

/// The argument of `sum` and `avg`, if it is an integer or a decimal of one scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summand {
    pub(crate) value: Integer,
    /// The decimal's digits after the point.
    pub(crate) scale: Option<u16>,
}

impl KeyPart {
    /// Compiles the key's column, if it is an integer.
    pub(crate) fn settle(&mut self, shapes: &Shapes<'_>) {
        if self.nullable || !self.data_type.is_integer() {
            return;
        }
        let width = int_width(&self.data_type);
        self.integer = shapes
            .compile(&self.value, 0)
            .map(|value| IntegerKey { value, width });
    }
}

/// Compiles the keys and sums of a pipeline's steps, as far as they are integers.
pub(crate) fn settle(steps: &mut [Step]) {
    let mut tables: Vec<Option<Arc<TableSchema>>> = Vec::new();
    for step in steps.iter() {
        if let Step::Read(read) = step {
            tables.resize(tables.len().max(read.source + 1), None);
            tables[read.source] = Some(Arc::clone(&read.schema));
        }
    }
    let shapes = Shapes {
        tables: tables.iter().map(Option::as_deref).collect(),
    };
    for step in steps {
        match step {
            Step::Read(read) => match &mut read.path {
                Path::Point { key } => key.iter_mut().for_each(|part| part.settle(&shapes)),
                Path::Range(range) => {
                    let prefix = range.prefix.iter_mut();
                    prefix.for_each(|part| part.settle(&shapes));
                }
                Path::Scan { .. } => {}
            },
            Step::Group { aggregates, .. } => {
                for aggregate in aggregates {
                    aggregate.summand = summand(aggregate, &shapes);
                    if let [(key, false, _)] = &aggregate.order[..] {
                        aggregate.ascending = shapes.compile(key, 0);
                    }
                }
            }
            _ => {}
        }
    }
}

fn summand(aggregate: &Aggregate, shapes: &Shapes<'_>) -> Option<Summand> {
    use AggregateFunction::{Average, Sum};
    let ([argument], Sum | Average, false) = (
        &*aggregate.arguments,
        aggregate.function,
        aggregate.distinct,
    ) else {
        return None;
    };
    let scale = match aggregate.input.as_ref()? {
        data_type if data_type.is_integer() => None,
        DataType::Numeric(_) => Some(shapes.scale(argument)?),
        _ => return None,
    };
    let value = shapes.compile(argument, scale.unwrap_or(0))?;
    Some(Summand { value, scale })
}
