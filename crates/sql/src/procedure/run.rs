//! The interpreter of compiled bodies.

use std::{future::Future, pin::Pin};

use anabranch_types::{
    DataType, EffectError, TimeZone, Value,
    text::{format_value, write_value},
};

use super::{Code, CompiledProcedure, Computed, Outcome, Receiver, ResultCast};
use crate::{
    TransactionError,
    catalog::{RaiseField, RaiseLevel},
    execute::Run,
    expression::{
        Budget, EvaluationContext, Failure,
        budget::{bytes, outside},
        cast,
        evaluate::evaluate_over,
        failure,
    },
    plan::{
        statement::{Statement, StatementKind},
        walk,
    },
    result::{Message, ResultSet},
    summary::{Deferral, StatementId},
    transaction::Transaction,
};

/// How a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Normal,
    /// Leaves the loop around it, and so many around that.
    Exit(usize),
    Continue(usize),
    Return,
}

impl Flow {
    /// How a loop ends whose round ended so; `None` if it goes on.
    fn of_loop(self) -> Option<Flow> {
        match self {
            Flow::Normal | Flow::Continue(0) => None,
            Flow::Continue(levels) => Some(Flow::Continue(levels - 1)),
            Flow::Exit(0) => Some(Flow::Normal),
            Flow::Exit(levels) => Some(Flow::Exit(levels - 1)),
            Flow::Return => Some(Flow::Return),
        }
    }
}

/// A procedure in execution.
struct Machine<'m, T> {
    procedure: &'m CompiledProcedure,
    /// The number of its first statement in this call.
    first: u32,
    /// Whether another procedure has called it.
    within: bool,
    transaction: &'m mut T,
    variables: Vec<Value>,
    context: EvaluationContext,
    rows: Vec<Vec<Value>>,
    returned: Option<Value>,
    row_count: u64,
    messages: Vec<Message>,
}

/// What a procedure has returned.
struct Ran {
    rows: Vec<Vec<Value>>,
    count: u64,
    messages: Vec<Message>,
    budget: Budget,
}

type Step<'s> = Pin<Box<dyn Future<Output = Result<Flow, TransactionError>> + 's>>;

impl CompiledProcedure {
    /// Checks the number and types of a call's arguments, and casts them to the parameters' types. Missing ones get
    /// their defaults.
    ///
    /// # Errors
    /// `42883` when there are too many or too few, or one is of another kind than its parameter;
    /// what a cast raises when a value is out of its type's range.
    pub fn check_arguments(&self, arguments: &[Value]) -> Result<Vec<Value>, EffectError> {
        let wrong = || {
            let types: Vec<String> = self.parameters.iter().map(|(_, t)| t.to_string()).collect();
            let message = format!(
                "{} takes ({}), and was called with {} arguments",
                self.name,
                types.join(", "),
                arguments.len()
            );
            *failure("42883", message)
        };
        if arguments.len() > self.parameters.len() {
            return Err(wrong());
        }
        let mut values = Vec::with_capacity(self.variables.len());
        for (place, (name, data_type)) in self.parameters.iter().enumerate() {
            let value = match arguments.get(place) {
                Some(value) => fitted(value, data_type).ok_or_else(|| {
                    let message = format!(
                        "argument {name} of {} must be of type {data_type}, not {value:?}",
                        self.name
                    );
                    *failure("42883", message)
                })??,
                None => match &self.defaults[place] {
                    Some(default) => evaluate_over(default, &[], &EvaluationContext::default())
                        .map_err(|e| *e)?,
                    None => return Err(wrong()),
                },
            };
            values.push(value);
        }
        Ok(values)
    }

    /// Runs the procedure in a transaction. The arguments are as
    /// [`CompiledProcedure::check_arguments`] takes them.
    ///
    /// # Errors
    /// Errors that the procedure raises, and those of the transaction.
    pub async fn call<T: Transaction>(
        &self,
        transaction: &mut T,
        arguments: &[Value],
    ) -> Result<ResultSet, TransactionError> {
        let values = self
            .check_arguments(arguments)
            .map_err(TransactionError::Failed)?;
        let budget = Budget::new(transaction.statement_bytes_max());
        let ran = self
            .run(self.first_statement, false, transaction, values, budget)
            .await?;
        Ok(ResultSet {
            columns: self.columns.clone(),
            rows: ran.rows,
            count: ran.count,
            messages: ran.messages,
        })
    }

    async fn run<T: Transaction>(
        &self,
        first: u32,
        within: bool,
        transaction: &mut T,
        mut variables: Vec<Value>,
        budget: Budget,
    ) -> Result<Ran, TransactionError> {
        variables.resize(self.variables.len(), Value::Null);
        let context = EvaluationContext {
            timestamp: transaction.timestamp(),
            zone: transaction.time_zone(),
            sequences: Some(transaction.sequences()),
            budget,
            ..EvaluationContext::default()
        };
        let mut machine = Machine {
            procedure: self,
            first,
            within,
            transaction,
            variables,
            context,
            rows: Vec::new(),
            returned: None,
            row_count: 0,
            messages: Vec::new(),
        };
        machine.variables[self.found] = Value::Bool(false);
        let flow = machine.block(&self.body).await?;
        let rows = match &self.result {
            Outcome::Variables(slots) if slots.is_empty() => Vec::new(),
            Outcome::Variables(slots) => {
                vec![
                    slots
                        .iter()
                        .map(|slot| machine.variables[*slot].clone())
                        .collect(),
                ]
            }
            Outcome::Scalar => {
                // LANGUAGE SQL returns the rows of its last query, which may have none.
                let is_query = |code: &Code| matches!(code, Code::ReturnQuery { .. });
                if flow != Flow::Return && !self.body.iter().any(is_query) {
                    let message = "control reached end of function without RETURN";
                    return Err(failure("2F005", message).into());
                }
                let from_query = machine
                    .rows
                    .into_iter()
                    .next()
                    .and_then(|row| row.into_iter().next());
                vec![vec![machine.returned.or(from_query).unwrap_or(Value::Null)]]
            }
            Outcome::Rows(_) => machine.rows,
        };
        let count = if rows.is_empty() {
            machine.row_count
        } else {
            rows.len() as u64
        };
        Ok(Ran {
            rows,
            count,
            messages: machine.messages,
            budget: machine.context.budget,
        })
    }
}

/// An argument in its parameter's type; `None` when it is of another kind.
fn fitted(value: &Value, to: &DataType) -> Option<Result<Value, EffectError>> {
    let from = match (value, to) {
        (Value::Null, _) => return Some(Ok(Value::Null)),
        (Value::Int(_), t) if t.is_numeric() => DataType::Int8,
        (Value::Numeric(_), DataType::Numeric(_) | DataType::Real | DataType::Double) => {
            DataType::Numeric(None)
        }
        (Value::Float(_), DataType::Real | DataType::Double) => DataType::Double,
        (Value::Text(_), t) if t.is_text() => {
            // A text's length is not checked, as PostgreSQL does not for parameters.
            let blank_padded = matches!(t, DataType::Char(_));
            let value = value.clone();
            return Some(Ok(match value {
                Value::Text(text) if blank_padded => Value::text(text.trim_end_matches(' ')),
                other => other,
            }));
        }
        (Value::Array(list), DataType::Array(element)) => {
            let fits = |value: &Value| match (value, &**element) {
                (Value::Int(_), DataType::Int8) => true,
                (Value::Int(i), DataType::Int4) => i32::try_from(*i).is_ok(),
                _ => false,
            };
            if list.iter().all(fits) {
                return Some(Ok(value.clone()));
            }
            let mut values = Vec::with_capacity(list.len());
            for value in list.iter() {
                match fitted(value, element)? {
                    Ok(value) => values.push(value),
                    Err(error) => return Some(Err(error)),
                }
            }
            return Some(Ok(Value::Array(values.into())));
        }
        (Value::Text(text), DataType::Enum(_)) => {
            return Some(anabranch_types::text::parse_value(text, to, &TimeZone::UTC));
        }
        (Value::Bool(_), DataType::Bool)
        | (Value::Bytes(_), DataType::Bytea)
        | (Value::Uuid(_), DataType::Uuid)
        | (Value::Text(_), DataType::Json)
        | (Value::Jsonb(_), DataType::Jsonb)
        | (Value::Timestamp(_), DataType::Timestamp | DataType::TimestampTz)
        | (Value::Date(_), DataType::Date) => return Some(Ok(value.clone())),
        _ => return None,
    };
    let to = match to {
        DataType::Numeric(_) => &DataType::Numeric(None),
        other => other,
    };
    let fitted = cast::cast(value.clone(), &from, to, false, &TimeZone::UTC);
    Some(fitted.map_err(|error| *error))
}

impl<T: Transaction> Machine<'_, T> {
    /// Runs statements one after the other.
    fn block<'s>(&'s mut self, codes: &'s [Code]) -> Step<'s> {
        Box::pin(async move {
            for code in codes {
                self.pause_if_due().await?;
                let flow = self.code(code).await?;
                if flow != Flow::Normal {
                    return Ok(flow);
                }
            }
            Ok(Flow::Normal)
        })
    }

    async fn code(&mut self, code: &Code) -> Result<Flow, TransactionError> {
        match code {
            Code::Sql { site, into, strict } => {
                let kind = &self.procedure.statements[*site].statement.kind;
                let is_query = matches!(kind.last(), StatementKind::Query(_));
                let (rows, mut count) = self.statement(*site).await?;
                if !into.is_empty() {
                    self.take_into(rows, into, *strict, *strict || !is_query)?;
                    if is_query {
                        // Only one row is taken.
                        count = count.min(1);
                    }
                }
                self.row_count = count;
                self.note_found(count > 0);
            }
            Code::Assign { slot, value } => {
                let value = self.value(value).await?;
                self.set(*slot, value)?;
            }
            Code::AssignElement { slot, index, value } => {
                let (index, value) = (self.value(index).await?, self.value(value).await?);
                self.assign_element(*slot, &index, value)?;
            }
            Code::If {
                branches,
                otherwise,
            } => {
                for (condition, body) in branches {
                    if self.test(condition).await? {
                        return self.block(body).await;
                    }
                }
                return self.block(otherwise).await;
            }
            Code::ForRange {
                slot,
                from,
                to,
                by,
                reverse,
                body,
            } => {
                return self
                    .for_range(*slot, from, to, by.as_ref(), *reverse, body)
                    .await;
            }
            Code::ForQuery {
                site,
                targets,
                body,
            } => {
                let (rows, _) = self.statement(*site).await?;
                if rows.is_empty() {
                    self.receive(targets, Vec::new())?;
                }
                return self.for_rows(rows, targets, body).await;
            }
            Code::ForEach { slot, array, body } => {
                let Value::Array(list) = self.value(array).await? else {
                    return Err(failure("22004", "FOREACH expression must not be null").into());
                };
                let rows = list
                    .iter()
                    .map(|value| vec![value.clone()])
                    .collect::<Vec<_>>();
                return self.for_rows(rows, &[Receiver::plain(*slot)], body).await;
            }
            Code::While { condition, body } => {
                while self.test(condition).await? {
                    self.pause_if_due().await?;
                    match self.block(body).await?.of_loop() {
                        None => {}
                        Some(Flow::Normal) => break,
                        Some(flow) => return Ok(flow),
                    }
                }
            }
            Code::Exit(levels, condition) => {
                return self.leave(condition.as_ref(), Flow::Exit(*levels)).await;
            }
            Code::Continue(levels, condition) => {
                return self
                    .leave(condition.as_ref(), Flow::Continue(*levels))
                    .await;
            }
            Code::Raise {
                level,
                format,
                arguments,
                code,
                fields,
            } => {
                let message = self.message(format, arguments).await?;
                let mut raised = failure(code, message);
                for (field, value, data_type) in fields {
                    let value = self.value(value).await?;
                    if value.is_null() {
                        let message = "RAISE statement option cannot be null";
                        return Err(failure("22004", message).into());
                    }
                    let text = format_value(&value, data_type, &self.context.zone);
                    set_field(&mut raised, *field, text);
                }
                if *level == RaiseLevel::Exception {
                    return Err(raised.into());
                }
                let message = Message {
                    level: *level,
                    content: *raised,
                };
                self.context.budget.hold(message.bytes())?;
                self.messages.push(message);
            }
            Code::Return(value) => {
                if let Some(value) = value {
                    self.returned = Some(self.value(value).await?);
                }
                return Ok(Flow::Return);
            }
            Code::ReturnQuery { site, casts } => {
                let (rows, count) = self.statement(*site).await?;
                self.row_count = count;
                self.note_found(count > 0);
                self.return_rows(rows, casts)?;
            }
            Code::ReturnNext(value) => {
                let row = match value {
                    Some(value) => vec![self.value(value).await?],
                    None => self.output_row(),
                };
                self.hold_rows(std::slice::from_ref(&row))?;
                self.rows.push(row);
            }
            Code::RowCount { slot } => self.variables[*slot] = Value::Int(self.row_count as i64),
            Code::Call {
                procedure,
                offset,
                arguments,
                into,
                performed,
            } => {
                let rows = self.call(procedure, *offset, arguments, *performed).await?;
                self.take_into(rows, into, false, false)?;
            }
        }
        Ok(Flow::Normal)
    }

    /// Calls a procedure, and returns its rows.
    async fn call(
        &mut self,
        procedure: &CompiledProcedure,
        offset: u32,
        arguments: &[Computed],
        performed: bool,
    ) -> Result<Vec<Vec<Value>>, TransactionError> {
        let first = self.procedure.first_called(self.first, offset);
        let mut values = Vec::with_capacity(procedure.variables.len());
        for argument in arguments {
            values.push(self.value(argument).await?);
        }
        let run: Pin<Box<dyn Future<Output = Result<_, TransactionError>> + '_>> =
            Box::pin(procedure.run(
                first,
                true,
                &mut *self.transaction,
                values,
                self.context.budget.nested(),
            ));
        let ran = run.await?;
        self.context.budget.resume(&ran.budget);
        let told = ran.messages.iter().map(Message::bytes).sum();
        self.context.budget.hold(told)?;
        self.messages.extend(ran.messages);
        let rows = ran.rows;
        if performed {
            // A function that returns void gives one empty row.
            let count = match procedure.result {
                Outcome::Rows(_) => rows.len() as u64,
                Outcome::Variables(_) | Outcome::Scalar => 1,
            };
            self.row_count = count;
            self.note_found(count > 0);
        }
        Ok(rows)
    }

    /// Runs a loop over rows, and sets FOUND.
    async fn for_rows(
        &mut self,
        rows: Vec<Vec<Value>>,
        targets: &[Receiver],
        body: &[Code],
    ) -> Result<Flow, TransactionError> {
        let any = !rows.is_empty();
        let held = self.hold_rows(&rows)?;
        let flow = self.each(rows, targets, body).await?;
        self.context.budget.release(held);
        self.note_found(any);
        Ok(flow)
    }

    /// The row of RETURN NEXT without a value.
    fn output_row(&self) -> Vec<Value> {
        match &self.procedure.result {
            Outcome::Rows(slots) | Outcome::Variables(slots) => slots
                .iter()
                .map(|slot| self.variables[*slot].clone())
                .collect(),
            Outcome::Scalar => Vec::new(),
        }
    }

    fn note_found(&mut self, found: bool) {
        self.variables[self.procedure.found] = Value::Bool(found);
    }

    /// Runs a statement: its rows, and how many it found or changed.
    async fn statement(&mut self, site: usize) -> Result<(Vec<Vec<Value>>, u64), TransactionError> {
        let procedure = self.procedure;
        let found = &procedure.statements[site];
        let before = self.context.budget.held();
        let mut run = Run {
            transaction: &mut *self.transaction,
            statement: StatementId(self.first + site as u32),
            variables: &self.variables,
            context: &self.context,
            constraints: &procedure.constraints,
            ctes: Vec::new(),
            rows_ahead: 0,
            part_effects: None,
        };
        let deferral = match self.within {
            true => Deferral::None,
            false => found.deferral,
        };
        let (rows, count) = run.statement(&found.statement, deferral).await?;
        self.context.budget.release_to(before);
        let id = StatementId(self.first + site as u32);
        self.transaction.note_result(id, &rows, count);
        Ok((rows, count))
    }

    fn take_into(
        &mut self,
        rows: Vec<Vec<Value>>,
        into: &[Receiver],
        needs_one: bool,
        takes_one: bool,
    ) -> Result<(), Failure> {
        if needs_one && rows.is_empty() {
            return Err(failure("P0002", "query returned no rows"));
        }
        if takes_one && rows.len() > 1 {
            return Err(failure("P0003", "query returned more than one row"));
        }
        self.receive(into, rows.into_iter().next().unwrap_or_default())
    }

    /// Puts a row into variables; those that it has no column for are NULL.
    fn receive(&mut self, receivers: &[Receiver], row: Vec<Value>) -> Result<(), Failure> {
        let mut row = row.into_iter();
        for Receiver { slot, cast } in receivers {
            let value = row.next().unwrap_or(Value::Null);
            let value = match cast {
                Some(cast) => cast.of(value, &self.context.zone)?,
                None => value,
            };
            self.set(*slot, value)?;
        }
        Ok(())
    }

    /// Assigns a variable.
    fn set(&mut self, slot: usize, value: Value) -> Result<(), Failure> {
        let budget = &self.context.budget;
        budget.release(outside(&self.variables[slot]));
        match outside(&value) {
            0 => {}
            bytes => budget.hold(bytes)?,
        }
        self.variables[slot] = value;
        Ok(())
    }

    /// Holds some rows. Returns their bytes.
    fn hold_rows(&self, rows: &[Vec<Value>]) -> Result<usize, Failure> {
        let of_row =
            |row: &Vec<Value>| size_of::<Vec<Value>>() + row.iter().map(bytes).sum::<usize>();
        let held = rows.iter().map(of_row).sum();
        self.context.budget.hold(held)?;
        Ok(held)
    }

    /// Counts a unit of work, and pauses if a pause is due.
    async fn pause_if_due(&mut self) -> Result<(), TransactionError> {
        self.context.budget.spend(1);
        if self.context.budget.is_due() {
            self.transaction.pause().await?;
            self.context.budget.restart();
        }
        Ok(())
    }

    fn return_rows(
        &mut self,
        mut rows: Vec<Vec<Value>>,
        casts: &[Option<ResultCast>],
    ) -> Result<(), Failure> {
        if !matches!(self.procedure.result, Outcome::Rows(_)) {
            // A LANGUAGE SQL function returns the first row of its last statement.
            rows.truncate(1);
        }
        if casts.iter().any(Option::is_some) {
            let zone = &self.context.zone;
            for (value, cast) in rows.iter_mut().flat_map(|row| row.iter_mut().zip(casts)) {
                if let Some(cast) = cast {
                    *value = cast.of(std::mem::replace(value, Value::Null), zone)?;
                }
            }
        }
        if !matches!(self.procedure.result, Outcome::Variables(_)) {
            self.hold_rows(&rows)?;
        }
        if let Outcome::Variables(slots) = &self.procedure.result {
            let mut row = rows.into_iter().next().unwrap_or_default().into_iter();
            for slot in slots {
                self.variables[*slot] = row.next().unwrap_or(Value::Null);
            }
        } else if self.rows.is_empty() {
            self.rows = rows;
        } else {
            self.rows.extend(rows);
        }
        Ok(())
    }

    async fn each(
        &mut self,
        rows: Vec<Vec<Value>>,
        targets: &[Receiver],
        body: &[Code],
    ) -> Result<Flow, TransactionError> {
        for row in rows {
            self.receive(targets, row)?;
            self.pause_if_due().await?;
            if let Some(flow) = self.block(body).await?.of_loop() {
                return Ok(flow);
            }
        }
        Ok(Flow::Normal)
    }

    async fn for_range(
        &mut self,
        slot: usize,
        from: &Computed,
        to: &Computed,
        by: Option<&Computed>,
        reverse: bool,
        body: &[Code],
    ) -> Result<Flow, TransactionError> {
        let bound = |value: Value, what: &str| match value {
            Value::Int(i) => Ok(i),
            _ => Err(failure(
                "22004",
                format!("{what} of FOR loop cannot be null"),
            )),
        };
        let from = bound(self.value(from).await?, "lower bound")?;
        let to = bound(self.value(to).await?, "upper bound")?;
        let by = match by {
            Some(by) => bound(self.value(by).await?, "BY value")?,
            None => 1,
        };
        if by <= 0 {
            return Err(failure("22023", "BY value of FOR loop must be greater than zero").into());
        }
        let mut next = from;
        let mut any = false;
        let mut end = Flow::Normal;
        while if reverse { next >= to } else { next <= to } {
            any = true;
            self.variables[slot] = Value::Int(next);
            self.pause_if_due().await?;
            if let Some(flow) = self.block(body).await?.of_loop() {
                end = flow;
                break;
            }
            let following = match reverse {
                true => next.checked_sub(by),
                false => next.checked_add(by),
            };
            let Some(following) = following else {
                break;
            };
            next = following;
        }
        self.note_found(any);
        Ok(end)
    }

    async fn leave(
        &mut self,
        condition: Option<&Computed>,
        flow: Flow,
    ) -> Result<Flow, TransactionError> {
        match condition {
            Some(condition) if !self.test(condition).await? => Ok(Flow::Normal),
            _ => Ok(flow),
        }
    }

    async fn value(&mut self, computed: &Computed) -> Result<Value, TransactionError> {
        match computed {
            Computed::Pure(expression) => {
                Ok(evaluate_over(expression, &self.variables, &self.context)?)
            }
            Computed::Query { site } => {
                let (rows, _) = self.statement(*site).await?;
                Ok(rows
                    .into_iter()
                    .next()
                    .and_then(|r| r.into_iter().next())
                    .unwrap_or(Value::Null))
            }
        }
    }

    async fn test(&mut self, condition: &Computed) -> Result<bool, TransactionError> {
        Ok(self.value(condition).await? == Value::Bool(true))
    }

    fn assign_element(&mut self, slot: usize, index: &Value, value: Value) -> Result<(), Failure> {
        let Value::Int(index) = index else {
            return Err(failure(
                "22004",
                "array subscript in assignment must not be null",
            ));
        };
        let mut list = match &self.variables[slot] {
            Value::Array(list) => list.to_vec(),
            _ => Vec::new(),
        };
        let place = index.checked_sub(1).and_then(|i| usize::try_from(i).ok());
        let Some(place) = place.filter(|place| *place < 1 << 24) else {
            return Err(failure(
                "0A000",
                "array subscripts below 1 are not supported",
            ));
        };
        if list.is_empty() && place > 0 {
            // PostgreSQL's array would begin there.
            return Err(failure(
                "0A000",
                "arrays whose subscripts do not begin at 1 are not supported",
            ));
        }
        if list.len() <= place {
            list.resize(place + 1, Value::Null);
        }
        list[place] = value;
        let array = Value::Array(list.into());
        self.context.budget.make(&array)?;
        self.set(slot, array)
    }

    async fn message(
        &mut self,
        format: &str,
        arguments: &[(Computed, DataType)],
    ) -> Result<String, TransactionError> {
        let mut out = String::new();
        let mut arguments = arguments.iter();
        let mut characters = format.chars().peekable();
        while let Some(c) = characters.next() {
            if c != '%' {
                out.push(c);
            } else if characters.next_if_eq(&'%').is_some() {
                out.push('%');
            } else if let Some((argument, data_type)) = arguments.next() {
                let value = self.value(argument).await?;
                match value.is_null() {
                    true => out.push_str("<NULL>"),
                    false => write_value(&mut out, &value, data_type, &self.context.zone),
                }
            }
        }
        Ok(out)
    }
}

/// Sets a field of a raised error.
fn set_field(raised: &mut EffectError, field: RaiseField, text: String) {
    if field == RaiseField::Constraint {
        raised.constraint = Some(text);
        return;
    }
    let fields = raised.fields_mut();
    let of = match field {
        RaiseField::Detail => &mut fields.detail,
        RaiseField::Hint => &mut fields.hint,
        RaiseField::Schema => &mut fields.schema,
        RaiseField::Table => &mut fields.table,
        RaiseField::Column => &mut fields.column,
        RaiseField::DataType => &mut fields.data_type,
        RaiseField::Constraint => return,
    };
    *of = Some(text);
}

impl<T: Transaction> Run<'_, T> {
    /// Runs a statement: its rows, and how many it found or changed.
    pub(crate) async fn statement(
        &mut self,
        statement: &Statement,
        deferral: Deferral,
    ) -> Result<(Vec<Vec<Value>>, u64), TransactionError> {
        if walk::draws(statement) {
            let drawn = self.transaction.unique();
            self.context.reserve.set(Some((drawn, 0)));
        }
        self.named(&statement.ctes).await?;
        if let StatementKind::Compound(several) = &statement.kind {
            return self.compound(several).await;
        }
        self.simple(statement, deferral).await
    }

    /// Runs a statement that is not compound.
    pub(crate) async fn simple(
        &mut self,
        statement: &Statement,
        deferral: Deferral,
    ) -> Result<(Vec<Vec<Value>>, u64), TransactionError> {
        self.named(&statement.ctes).await?;
        let changed = match &statement.kind {
            StatementKind::Query(query) => {
                let rows = self.query(query, None).await?;
                let count = rows.count as u64;
                if rows.count == 1 {
                    return Ok((vec![rows.values], count));
                }
                let width = rows.width;
                self.context
                    .budget
                    .hold(rows.count * size_of::<Vec<Value>>())?;
                let mut list = Vec::with_capacity(rows.count);
                let mut values = rows.values.into_iter();
                for _ in 0..rows.count {
                    list.push(values.by_ref().take(width).collect());
                    self.context.budget.spend(1);
                    self.pause_if_due().await?;
                }
                return Ok((list, count));
            }
            StatementKind::Insert(insert) => self.insert(insert).await?,
            StatementKind::Update(update) => self.update(update, deferral).await?,
            StatementKind::Delete(delete) => self.delete(delete).await?,
            StatementKind::Compound(_) => unreachable!("parts are not compound"),
        };
        Ok((changed.rows, changed.count))
    }
}
