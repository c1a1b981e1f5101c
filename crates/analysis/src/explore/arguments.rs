//! Arguments that refer to something: to existing rows, or to what another call was given or has made.
//!
//! Random arguments hardly ever agree if a key has several columns, or if a call succeeds only if it finds a row in
//! each of several tables.

use anabranch_sql::summary::{Comparison, Term};
use anabranch_types::{DataType, Decimal, Value};

use super::concrete::{fitted, one_element};
use super::generate::Generator;
use super::state::{Log, State};

impl Generator<'_> {
    /// Arguments for a call on this state, most of which refer to something.
    pub(super) fn meeting_arguments(&mut self, procedure: usize, state: &State) -> Vec<Value> {
        let any = self.arguments(procedure, state);
        let parameters = self.source.world.application.procedures[procedure].parameters();
        let types: Vec<DataType> = parameters.iter().map(|(_, t)| t.clone()).collect();
        let named = match self.random.one_in(3) {
            true => vec![None; types.len()],
            false => self.naming(procedure, state, &types),
        };
        let in_step = named.iter().flatten().any(|v| matches!(v, Value::Array(_)));
        // The number of an array's elements may have to be a number that a CHECK condition names.
        let counted = self.random.one_in(2);
        let length = counted.then(|| self.random.pick(&self.source.lengths));
        let length = length.flatten().copied();
        let each = named.into_iter().zip(any).zip(&types);
        let each = each.map(|((named, any), data_type)| {
            // Tuples of several arrays have as many elements in each.
            let any = if in_step { one_element(any) } else { any };
            let seen = self.random.one_in(3).then(|| self.seen(data_type));
            let value = seen.flatten().or(named);
            match (value.unwrap_or_else(|| self.sometimes_negated(any)), length) {
                (Value::Array(values), Some(length)) => {
                    Value::Array(values.iter().cycle().take(length).cloned().collect())
                }
                (value, _) => value,
            }
        });
        each.collect()
    }

    /// Values for parameters that name rows: of each table, a row that agrees with the parameters chosen so far.
    fn naming(
        &mut self,
        procedure: usize,
        state: &State,
        types: &[DataType],
    ) -> Vec<Option<Value>> {
        let world = self.source.world;
        let mut named: Vec<Option<Value>> = vec![None; types.len()];
        let statements = &world.application.summaries()[procedure].statements;
        for access in statements.iter().flat_map(|statement| &statement.accesses) {
            let layout = &world.schema().table(access.table).layout;
            let keys: Vec<_> = access
                .conditions
                .iter()
                .filter(|condition| condition.comparison == Comparison::Equal)
                .filter_map(|condition| match condition.term {
                    Term::Parameter(p) | Term::Element(p) => Some((condition.column, p)),
                    _ => None,
                })
                .collect();
            if keys.is_empty() {
                continue;
            }
            let rows: Vec<Vec<Option<Value>>> = state
                .of_table(access.table)
                .values()
                .map(|row| {
                    let value =
                        |(column, p): &(_, usize)| fitted(&row.get(layout, *column), &types[*p]);
                    keys.iter().map(value).collect()
                })
                .collect();
            let agrees = |row: &&Vec<Option<Value>>| {
                let mut each = keys.iter().zip(row.iter());
                each.all(|((_, p), value)| named[*p].is_none() || named[*p] == *value)
            };
            let agreeing: Vec<&Vec<Option<Value>>> = rows.iter().filter(agrees).collect();
            if let Some(row) = self.random.pick(&agreeing) {
                for ((_, p), value) in keys.iter().zip(row.iter()) {
                    named[*p] = named[*p].take().or_else(|| value.clone());
                }
            }
        }
        named
    }

    /// A value of this type that another call of this case was given, or has put into a row.
    fn seen(&mut self, data_type: &DataType) -> Option<Value> {
        let fitting = self.seen.iter().filter_map(|v| fitted(v, data_type));
        let fitting: Vec<Value> = fitting.filter(|v| *v != Value::Null).collect();
        self.random.pick(&fitting).cloned()
    }

    /// Records the arguments of a call and the values that it has put into rows.
    pub(super) fn remember(&mut self, arguments: &[Value], log: &Log) {
        let schema = self.source.world.schema();
        for value in arguments {
            match value {
                Value::Array(values) => self.seen.extend(values.iter().cloned()),
                value => self.seen.push(value.clone()),
            }
        }
        for done in log.effects.iter().filter(|done| done.before.is_none()) {
            if let Some(row) = &done.after {
                let layout = &schema.table(done.effect.table()).layout;
                self.seen.extend(row.values(layout));
            }
        }
    }

    /// An amount, sometimes negated.
    fn sometimes_negated(&mut self, value: Value) -> Value {
        match value {
            Value::Int(n) if self.random.one_in(8) => Value::Int(-n),
            Value::Numeric(n) if self.random.one_in(3) => {
                let negated = Decimal::from_i64(0).try_sub(n);
                Value::Numeric(negated.unwrap_or(n))
            }
            value => value,
        }
    }
}
