//! Binds window functions: `function(…) OVER …`, and the WINDOW clause.
//!
//! All window functions of a query are computed together, behind GROUP BY and HAVING: their values are the columns of
//! one source.

use anabranch_types::DataType;
use sqlparser::ast::{self, Expr};

use super::{
    Bind, Binder, Bound, NO_FUNCTION, aggregate::AggregateFunction, convert, convert::Context,
    convert::unbounded, fold,
};
use crate::{
    diagnostic::Diagnostic,
    expression::Expression,
    plan::window::{FrameBound, FrameUnit, SortKeys, WindowFrame, WindowFunction, WindowStep},
    source::Span,
};

/// Whether window functions are allowed at the current place, and why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WindowPlace {
    /// In a clause that allows none.
    #[default]
    Forbidden,
    Allowed,
    /// In the arguments of a window function.
    Arguments,
    /// In PARTITION BY, ORDER BY or the frame of a window.
    Definition,
}

/// What a window function's OVER, or the WINDOW clause, defines.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowDefinition {
    partition: Vec<Expression>,
    order: SortKeys,
    /// The types of the keys in `order`.
    types: Vec<DataType>,
    frame: Option<WindowFrame>,
}

/// PostgreSQL's window functions that are no aggregates.
const FUNCTIONS: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// Whether a function needs an OVER clause.
pub(super) fn is_window_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

impl Binder<'_> {
    /// A call with OVER: a column of the window functions' source.
    pub(super) fn window_function(
        &mut self,
        name: &str,
        function: &ast::Function,
        over: &ast::WindowType,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let aggregate =
            AggregateFunction::named(name).filter(|kind| self.has_json() || !kind.is_json());
        if aggregate.is_none() && !is_window_function(name) {
            return Err(self.no_window_function(name, syntax));
        }
        self.check_window_place(syntax)?;
        if !function.within_group.is_empty() {
            return Err(self.unsupported("WITHIN GROUP", syntax));
        }
        if function.null_treatment.is_some() {
            return Err(self.error("42601", "syntax error at or near \"NULLS\"", syntax));
        }
        if let ast::FunctionArguments::List(list) = &function.args {
            if let Some(ast::DuplicateTreatment::Distinct) = list.duplicate_treatment {
                let message = "DISTINCT is not implemented for window functions";
                return Err(self.error("0A000", message, syntax));
            }
            if !list.clauses.is_empty() {
                let message = "aggregate ORDER BY is not implemented for window functions";
                return Err(self.error("0A000", message, syntax));
            }
        }
        let before = std::mem::replace(&mut self.scope().window_place, WindowPlace::Arguments);
        let bound = match aggregate {
            Some(kind) => self.window_aggregate(kind, function, syntax),
            None => self.ranking(name, function, syntax),
        };
        self.scope().window_place = before;
        let (called, data_type) = bound?;
        let definition = match over {
            ast::WindowType::NamedWindow(name) => self.named_window(name, syntax)?,
            ast::WindowType::WindowSpec(window) => self.window_definition(window, None, syntax)?,
        };
        let frame = match called {
            // These look at no frame.
            WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist
            | WindowFunction::Ntile(_)
            | WindowFunction::Lag { .. } => match definition.frame {
                // Its offsets are checked all the same.
                Some(frame) if frame.start.offset().or(frame.end.offset()).is_some() => frame,
                _ => WindowFrame::default(),
            },
            _ => definition.frame.unwrap_or_default(),
        };
        let scope = self.scope();
        if scope.windows.is_none() {
            let source = scope.allocate_source();
            scope.windows = Some(WindowStep {
                source,
                width: 0,
                windows: Vec::new(),
            });
        }
        let windows = scope.windows.as_mut().expect("it was set");
        let column = windows.column(definition.partition, definition.order, called, frame);
        let source = windows.source;
        let mut is_volatile = false;
        windows.each_expression(&mut |e| is_volatile |= e.is_volatile());
        windows.each_offset(&mut |e| is_volatile |= e.is_volatile());
        if is_volatile {
            return Err(self.unsupported("a value that is drawn, in a window function", syntax));
        }
        let value = Expression::Column {
            depth: 0,
            source,
            column,
        };
        Ok(match aggregate {
            Some(_) => super::aggregate::result(value, data_type),
            None => Bound::new(value, data_type),
        })
    }

    /// The WINDOW clause.
    pub(super) fn named_windows(&mut self, select: &ast::Select) -> Bind<()> {
        for ast::NamedWindowDefinition(name, window) in &select.named_window {
            let name_text = fold(name);
            let syntax = Expr::Identifier(name.clone());
            let ast::NamedWindowExpr::WindowSpec(window) = window else {
                return Err(self.unsupported("this WINDOW clause", &syntax));
            };
            if self.window_named(&name_text).is_some() {
                let message = format!("window \"{name_text}\" is already defined");
                return Err(self.error("42P20", message, &syntax));
            }
            let definition = self.window_definition(window, Some(&name_text), &syntax)?;
            self.scope().named_windows.push((name_text, definition));
        }
        Ok(())
    }

    fn window_named(&self, name: &str) -> Option<&WindowDefinition> {
        let mut named = self.scopes.last()?.named_windows.iter();
        named.find(|(of, _)| of == name).map(|(_, of)| of)
    }

    fn named_window(&self, name: &ast::Ident, syntax: &Expr) -> Bind<WindowDefinition> {
        let name_text = fold(name);
        match self.window_named(&name_text) {
            Some(definition) => Ok(definition.clone()),
            None => {
                let message = format!("window \"{name_text}\" does not exist");
                let place = Span::of(name.span);
                let place = place.unwrap_or_else(|| self.place_of(syntax));
                Err(Diagnostic::new("42704", message, place))
            }
        }
    }

    fn check_window_place(&mut self, syntax: &Expr) -> Bind<()> {
        let (code, message) = match self.scopes.last() {
            None => ("42P20", "window functions are not allowed here".into()),
            Some(scope) => match scope.window_place {
                _ if scope.in_filter => {
                    ("42P20", "window functions are not allowed in FILTER".into())
                }
                _ if scope.in_aggregate => (
                    "42803",
                    "aggregate function calls cannot contain window function calls".into(),
                ),
                WindowPlace::Allowed => return Ok(()),
                WindowPlace::Arguments => {
                    ("42P20", "window function calls cannot be nested".into())
                }
                WindowPlace::Definition => (
                    "42P20",
                    "window functions are not allowed in window definitions".into(),
                ),
                WindowPlace::Forbidden => (
                    "42P20",
                    format!("window functions are not allowed in {}", scope.clause),
                ),
            },
        };
        Err(self.error(code, message, syntax))
    }

    fn window_aggregate(
        &mut self,
        kind: AggregateFunction,
        function: &ast::Function,
        syntax: &Expr,
    ) -> Bind<(WindowFunction, DataType)> {
        if let (ast::FunctionArguments::List(list), AggregateFunction::Count) =
            (&function.args, kind)
            && list.args.is_empty()
        {
            let message = "count(*) must be used to call a parameterless aggregate function";
            return Err(self.error("42809", message, syntax));
        }
        let (aggregate, data_type) = self.aggregate_arguments(kind, function, syntax)?;
        Ok((WindowFunction::Aggregate(Box::new(aggregate)), data_type))
    }

    /// A window function that is no aggregate, with its arguments.
    fn ranking(
        &mut self,
        name: &str,
        function: &ast::Function,
        syntax: &Expr,
    ) -> Bind<(WindowFunction, DataType)> {
        if function.filter.is_some() {
            let message = "FILTER is not implemented for non-aggregate window functions";
            return Err(self.error("0A000", message, syntax));
        }
        let mut bounds = Vec::new();
        for argument in self.plain_arguments(&function.args, syntax)? {
            bounds.push(self.expression(argument)?);
        }
        let types: Vec<String> = bounds
            .iter()
            .map(|b| (b.data_type.as_ref()).map_or("unknown".into(), |t| unbounded(t).to_string()))
            .collect();
        let missing = || {
            let message = format!("function {name}({}) does not exist", types.join(", "));
            self.error("42883", message, syntax).help(NO_FUNCTION)
        };
        let is_int = |of: Option<&Bound>| {
            let fits = |t: &DataType| convert::exists(t, &DataType::Int4, Context::Implicit);
            of.is_none_or(|of| of.data_type.as_ref().is_none_or(fits))
        };
        let (counts, place) = match name {
            "ntile" => (1..=1, 0),
            "lag" | "lead" => (1..=3, 1),
            "first_value" | "last_value" => (1..=1, 1),
            "nth_value" => (2..=2, 1),
            _ => (0..=0, 0),
        };
        if !counts.contains(&bounds.len()) || !is_int(bounds.get(place)) {
            return Err(missing());
        }
        let fixed = match name {
            "row_number" => Some((WindowFunction::RowNumber, DataType::Int8)),
            "rank" => Some((WindowFunction::Rank, DataType::Int8)),
            "dense_rank" => Some((WindowFunction::DenseRank, DataType::Int8)),
            "percent_rank" => Some((WindowFunction::PercentRank, DataType::Double)),
            "cume_dist" => Some((WindowFunction::CumeDist, DataType::Double)),
            _ => None,
        };
        if let Some(fixed) = fixed {
            return Ok(fixed);
        }
        let data_type = match (name, &bounds[0].data_type, bounds.get(2)) {
            ("ntile", ..) => DataType::Int4,
            (
                _,
                Some(value),
                Some(Bound {
                    data_type: Some(default),
                    ..
                }),
            ) if is_plain_text(value) && is_plain_text(default) => unbounded(value),
            (_, value, Some(default)) => {
                let common = self.common_type(&[&bounds[0], default], name, syntax);
                match (common, value, &default.data_type) {
                    (Ok(common), ..) => unbounded(&common),
                    (Err(error), Some(a), Some(b)) if convert::wider(a, b).is_some() => {
                        return Err(error);
                    }
                    _ => return Err(missing()),
                }
            }
            (_, Some(value), None) => unbounded(value),
            (_, None, None) if self.catalog.opaque.is_some() => DataType::Text,
            (_, None, None) => {
                let message = "could not determine polymorphic type because input has type unknown";
                return Err(Diagnostic {
                    span: None,
                    ..self.error("42804", message, syntax)
                });
            }
        };
        let mut bounds = bounds.into_iter();
        let mut next = |binder: &mut Self, to: &DataType| {
            let next = bounds.next();
            next.map(|bound| binder.coerce(bound, to, Context::Implicit, syntax))
                .transpose()
        };
        let value = next(self, &data_type)?.expect("it has one");
        let number = next(self, &DataType::Int4)?;
        let called = match (name, number) {
            ("ntile", _) => WindowFunction::Ntile(value),
            ("lag" | "lead", offset) => WindowFunction::Lag {
                value,
                offset,
                default: next(self, &data_type)?,
                ahead: name == "lead",
            },
            ("first_value", _) => WindowFunction::FirstValue(value),
            (_, Some(number)) => WindowFunction::NthValue(value, number),
            _ => WindowFunction::LastValue(value),
        };
        Ok((called, data_type))
    }

    /// The definition of a window: in OVER, or with a name in the WINDOW clause.
    fn window_definition(
        &mut self,
        window: &ast::WindowSpec,
        named: Option<&str>,
        syntax: &Expr,
    ) -> Bind<WindowDefinition> {
        if let Some(frame) = &window.window_frame {
            self.check_frame(frame, syntax)?;
        }
        let base = match &window.window_name {
            None => None,
            Some(name) => Some((fold(name), self.named_window(name, syntax)?)),
        };
        let before = std::mem::replace(&mut self.scope().window_place, WindowPlace::Definition);
        let keys = self.window_keys(window);
        self.scope().window_place = before;
        let mut definition = keys?;
        if let Some((name, base)) = base {
            let refused = if !window.partition_by.is_empty() {
                Some(format!(
                    "cannot override PARTITION BY clause of window \"{name}\""
                ))
            } else if !window.order_by.is_empty() && !base.order.is_empty() {
                Some(format!(
                    "cannot override ORDER BY clause of window \"{name}\""
                ))
            } else if base.frame.is_some() {
                Some(format!(
                    "cannot copy window \"{name}\" because it has a frame clause"
                ))
            } else {
                None
            };
            if let Some(message) = refused {
                let copies_frame = message.starts_with("cannot copy");
                let error = self.error("42P20", message, syntax);
                let is_bare = window.order_by.is_empty() && window.window_frame.is_none();
                return Err(match copies_frame && named.is_none() && is_bare {
                    true => error.help("Omit the parentheses in this OVER clause."),
                    false => error,
                });
            }
            definition.partition = base.partition;
            if window.order_by.is_empty() {
                definition.order = base.order;
                definition.types = base.types;
            }
        }
        if let Some(frame) = &window.window_frame {
            let before = std::mem::replace(&mut self.scope().window_place, WindowPlace::Definition);
            let bound = self.frame(frame, &definition, syntax);
            self.scope().window_place = before;
            definition.frame = Some(bound?);
        }
        Ok(definition)
    }

    fn window_keys(&mut self, window: &ast::WindowSpec) -> Bind<WindowDefinition> {
        let mut definition = WindowDefinition::default();
        for key in &window.partition_by {
            let bound = self.expression(key)?;
            let (expression, data_type) = self.settled(bound, key)?;
            self.check_equality(&data_type, key)?;
            definition.partition.push(expression);
        }
        for key in &window.order_by {
            let bound = self.expression(&key.expr)?;
            let (expression, data_type) = self.settled(bound, &key.expr)?;
            let expression = self.order_key(expression, &data_type, &key.expr)?;
            let (descending, nulls_first) = self.direction(&key.options, &key.expr)?;
            definition.order.push((expression, descending, nulls_first));
            definition.types.push(data_type);
        }
        Ok(definition)
    }

    /// Checks that a frame's start is not behind its end, as far as the bounds' kinds tell.
    fn check_frame(&self, frame: &ast::WindowFrame, syntax: &Expr) -> Bind<()> {
        use ast::WindowFrameBound::{CurrentRow, Following, Preceding};
        let message = match (&frame.start_bound, &frame.end_bound) {
            (Following(None), _) => "frame start cannot be UNBOUNDED FOLLOWING",
            (Following(Some(_)), None) => {
                "frame starting from following row cannot end with current row"
            }
            (_, Some(Preceding(None))) => "frame end cannot be UNBOUNDED PRECEDING",
            (CurrentRow, Some(Preceding(Some(_)))) => {
                "frame starting from current row cannot have preceding rows"
            }
            (Following(Some(_)), Some(CurrentRow | Preceding(Some(_)))) => {
                "frame starting from following row cannot have preceding rows"
            }
            _ => return Ok(()),
        };
        Err(self.error("42P20", message, syntax))
    }

    fn frame(
        &mut self,
        frame: &ast::WindowFrame,
        window: &WindowDefinition,
        syntax: &Expr,
    ) -> Bind<WindowFrame> {
        use ast::WindowFrameBound::{CurrentRow, Following, Preceding};
        let unit = match frame.units {
            ast::WindowFrameUnits::Rows => FrameUnit::Rows,
            ast::WindowFrameUnits::Range => FrameUnit::Range,
            ast::WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        let end = frame.end_bound.as_ref().unwrap_or(&CurrentRow);
        let has_offset = [&frame.start_bound, end]
            .into_iter()
            .any(|bound| matches!(bound, Preceding(Some(_)) | Following(Some(_))));
        if unit == FrameUnit::Range && has_offset && window.order.len() != 1 {
            let message =
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(self.error("42P20", message, syntax));
        }
        if unit == FrameUnit::Groups && window.order.is_empty() {
            let message = "GROUPS mode requires an ORDER BY clause";
            return Err(self.error("42P20", message, syntax));
        }
        let mut bound = |of: &ast::WindowFrameBound| {
            Ok(match of {
                CurrentRow => FrameBound::CurrentRow,
                Preceding(None) | Following(None) => FrameBound::Unbounded,
                Preceding(Some(offset)) => {
                    FrameBound::Preceding(self.frame_offset(unit, window, offset)?)
                }
                Following(Some(offset)) => {
                    FrameBound::Following(self.frame_offset(unit, window, offset)?)
                }
            })
        };
        Ok(WindowFrame {
            unit,
            start: bound(&frame.start_bound)?,
            end: bound(end)?,
        })
    }

    /// The offset of a frame's bound, which has no columns of the query.
    fn frame_offset(
        &mut self,
        unit: FrameUnit,
        window: &WindowDefinition,
        syntax: &Expr,
    ) -> Bind<Expression> {
        let (name, clause) = match unit {
            FrameUnit::Rows => ("ROWS", "window ROWS"),
            FrameUnit::Range => ("RANGE", "window RANGE"),
            FrameUnit::Groups => ("GROUPS", "window GROUPS"),
        };
        let key = match (unit, window.types.first()) {
            (FrameUnit::Range, Some(key)) => Some(unbounded(key)),
            _ => None,
        };
        match &key {
            None => {}
            Some(key) if key.is_integer() || matches!(key, DataType::Numeric(_)) => {}
            Some(
                key @ (DataType::Real
                | DataType::Double
                | DataType::Date
                | DataType::Timestamp
                | DataType::TimestampTz),
            ) => {
                let construct = format!("RANGE with an offset over {key}");
                return Err(self.unsupported(&construct, syntax));
            }
            Some(key) => {
                let key = match key {
                    DataType::Varchar(_) => "text".to_owned(),
                    DataType::Enum(_) => "anyenum".to_owned(),
                    other => other.to_string(),
                };
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {key}"
                );
                return Err(self.error("0A000", message, syntax));
            }
        }
        let scope = self.scope();
        let allowed = std::mem::replace(&mut scope.aggregates_allowed, false);
        let before = std::mem::replace(&mut scope.clause, clause);
        let bound = self.expression(syntax);
        let scope = self.scope();
        (scope.aggregates_allowed, scope.clause) = (allowed, before);
        let bound = bound?;
        let expression = match key {
            None => self.coerce(bound, &DataType::Int8, Context::Assignment, syntax)?,
            Some(key) => {
                let fits = match (&bound.data_type, key.is_integer()) {
                    (None, _) => true,
                    (Some(offset), true) => offset.is_integer(),
                    (Some(offset), false) => convert::exists(offset, &key, Context::Implicit),
                };
                if let (false, Some(offset)) = (fits, &bound.data_type) {
                    let message = format!(
                        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {key} and offset type {}",
                        unbounded(offset)
                    );
                    return Err(self
                        .error("0A000", message, syntax)
                        .help("Cast the offset value to an appropriate type."));
                }
                match (&bound.data_type, key.is_integer()) {
                    (Some(_), true) => bound.expression,
                    _ => self.coerce(bound, &key, Context::Implicit, syntax)?,
                }
            }
        };
        let sources = self.scope().sources.len();
        let (mut has_column, mut has_other) = (false, false);
        expression.each_column(&mut |source, _| match source <= sources {
            true => has_column = true,
            false => has_other = true,
        });
        if has_column {
            let message = format!("argument of {name} must not contain variables");
            return Err(self.error("42P10", message, syntax));
        }
        if has_other {
            return Err(self.unsupported("a subquery in the frame of a window", syntax));
        }
        Ok(expression)
    }
}

/// Whether it is text of a type that another such type becomes as it is.
fn is_plain_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar(_))
}
