//! Binds calls of functions, by name.

use anabranch_types::{DataType, Value};
use sqlparser::ast::{self, Expr, Spanned};

use super::{Bind, Binder, Bound, NO_FUNCTION, convert::Context, convert::unbounded, enumeration};
use crate::{
    catalog::builtin::is_builtin,
    diagnostic::Diagnostic,
    expression::{Domain, Expression, Function, datetime::Field, function::Clock},
    parse::{resolve_data_type, resolve_statement_type},
    plan::SubqueryKind,
    session_value::SessionValue,
};

/// The transaction's time in the session's time zone.
fn local_now(to: DataType) -> Bound {
    let cast = Expression::Cast {
        operand: Box::new(Expression::Now),
        from: DataType::TimestampTz,
        to: to.clone(),
        explicit: true,
    };
    Bound::new(cast, to)
}

/// Functions that are supported, for some types of arguments.
const SUPPORTED: &[&str] = &[
    "abs",
    "array_append",
    "array_cat",
    "array_dims",
    "array_fill",
    "array_length",
    "array_lower",
    "array_ndims",
    "array_position",
    "array_positions",
    "array_prepend",
    "array_remove",
    "array_replace",
    "array_to_string",
    "array_upper",
    "ascii",
    "bit_length",
    "btrim",
    "cardinality",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "coalesce",
    "concat",
    "concat_ws",
    "date_part",
    "date_trunc",
    "exp",
    "floor",
    "format",
    "gen_random_uuid",
    "greatest",
    "initcap",
    "least",
    "left",
    "length",
    "ln",
    "lower",
    "lpad",
    "ltrim",
    "make_date",
    "md5",
    "mod",
    "now",
    "nullif",
    "octet_length",
    "pi",
    "position",
    "pow",
    "power",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "random",
    "regexp_like",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "rpad",
    "rtrim",
    "sign",
    "split_part",
    "sqrt",
    "starts_with",
    "string_to_array",
    "strpos",
    "substr",
    "substring",
    "timezone",
    "to_char",
    "to_hex",
    "transaction_timestamp",
    "translate",
    "trim",
    "trim_array",
    "trunc",
    "upper",
];

/// Whether a function of this name is supported that is neither an aggregate nor a window function.
fn is_supported(name: &str) -> bool {
    SUPPORTED.contains(&name)
        || super::json::SUPPORTED.contains(&name)
        || super::regexp::SUPPORTED.contains(&name)
        || super::mathematics::SUPPORTED.contains(&name)
}

impl Binder<'_> {
    /// Functions that SQL calls without parentheses.
    pub(crate) fn bare_function(&mut self, name: &str, syntax: &Expr) -> Option<Bind<Bound>> {
        if let Some(bound) = SessionValue::bare(name).and_then(|value| self.session_value(value)) {
            return Some(Ok(bound));
        }
        Some(match name {
            "current_timestamp" => Ok(Bound::new(Expression::Now, DataType::TimestampTz)),
            "localtimestamp" => Ok(local_now(DataType::Timestamp)),
            "current_date" => Ok(local_now(DataType::Date)),
            "current_time" | "localtime" | "current_user" | "session_user" | "user"
            | "current_role" | "current_catalog" | "current_schema" => {
                Err(self.unsupported(name, syntax))
            }
            _ => return None,
        })
    }

    /// A value of the connection, if there is one.
    fn session_value(&self, value: SessionValue) -> Option<Bound> {
        let data_type = value.data_type();
        let slot = self.variables.session_value(value)?;
        Some(Bound::new(Expression::Variable(slot), data_type))
    }

    /// The type that a cast names. Errors have the place of the cast.
    pub(crate) fn type_named(&self, named: &ast::DataType, syntax: &Expr) -> Bind<DataType> {
        let resolve = match self.catalog.opaque {
            None => resolve_statement_type,
            Some(_) => resolve_data_type,
        };
        resolve(named, &self.catalog.types).map_err(|error| Diagnostic {
            span: Some(match named {
                ast::DataType::Custom(name, _) => self.place_of(name),
                _ => self.place_of(syntax),
            }),
            ..error
        })
    }

    /// Functions with a syntax of their own.
    pub(crate) fn special_function(&mut self, syntax: &Expr) -> Bind<Bound> {
        match syntax {
            Expr::Function(function) => {
                let bare = matches!(function.args, ast::FunctionArguments::None);
                let name = function.name.to_string().to_lowercase();
                let found = bare.then(|| self.bare_function(&name, syntax)).flatten();
                found.unwrap_or_else(|| self.function(function, syntax))
            }
            Expr::Ceil {
                expr,
                field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => self.named_function("ceil", &[expr], syntax),
            Expr::Floor {
                expr,
                field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => self.named_function("floor", &[expr], syntax),
            Expr::Position { expr, r#in } => self.named_function("strpos", &[r#in, expr], syntax),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
                let one = Expr::value(ast::Value::Number("1".into(), false));
                let from = substring_from.as_deref().unwrap_or(&one);
                match substring_for.as_deref() {
                    Some(count) => self.named_function("substring", &[expr, from, count], syntax),
                    None => self.named_function("substring", &[expr, from], syntax),
                }
            }
            Expr::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let parts = [&**expr, &**overlay_what, &**overlay_from];
                let parts = parts.into_iter().chain(overlay_for.as_deref());
                self.named_function("overlay", &parts.collect::<Vec<_>>(), syntax)
            }
            Expr::Trim {
                expr,
                trim_where,
                trim_what,
                trim_characters: None,
            } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                match trim_what {
                    Some(what) => self.named_function(name, &[expr, what], syntax),
                    None => self.named_function(name, &[expr], syntax),
                }
            }
            Expr::Extract { field, expr, .. } => {
                let field_name = field.to_string().to_lowercase();
                self.extract(&field_name, expr, syntax)
            }
            other => {
                let text = other.to_string();
                let shown: String = text.chars().take(40).collect();
                Err(self.unsupported(&format!("the expression {shown}"), syntax))
            }
        }
    }

    fn extract(&mut self, field: &str, operand: &Expr, syntax: &Expr) -> Bind<Bound> {
        let bound = self.expression(operand)?;
        self.field_of(field, bound, syntax)
    }

    fn field_of(&mut self, field: &str, bound: Bound, syntax: &Expr) -> Bind<Bound> {
        let moment = matches!(
            bound.data_type,
            Some(DataType::Date | DataType::Timestamp | DataType::TimestampTz)
        );
        let Some(field) = Field::named(field).filter(|_| moment) else {
            return Err(self.unsupported(&format!("extract({field} from this type)"), syntax));
        };
        let clock = match field {
            Field::Epoch => Clock::AsGiven,
            _ => Clock::of(bound.data_type.as_ref()),
        };
        let function = Function::Extract(field, clock);
        Ok(Self::call(
            function,
            vec![bound.expression],
            DataType::Numeric(None),
        ))
    }

    fn function(&mut self, function: &ast::Function, syntax: &Expr) -> Bind<Bound> {
        let name = self.function_name(&function.name)?;
        if let Some(window) = &function.over {
            return self.window_function(&name, function, window, syntax);
        }
        if function.null_treatment.is_some() {
            return Err(self.unsupported("IGNORE NULLS", syntax));
        }
        if let Some(kind) = super::aggregate::AggregateFunction::named(&name)
            && (self.has_json() || !kind.is_json())
        {
            return self.aggregate(kind, function, syntax);
        }
        if !function.within_group.is_empty() {
            return Err(self.unsupported("WITHIN GROUP", syntax));
        }
        if let ast::FunctionArguments::Subquery(query) = &function.args
            && name == "array"
        {
            let query = self.subquery(query)?;
            let [(_, data_type)] = query.columns.as_slice() else {
                return Err(self.error("42601", "subquery must return only one column", syntax));
            };
            if let DataType::Array(_) = data_type {
                return Err(self.unsupported("an array of more than one dimension", syntax));
            }
            let data_type = DataType::Array(Box::new(data_type.clone()));
            return Ok(self.add_subquery(SubqueryKind::Array, query, Vec::new(), data_type));
        }
        if function.filter.is_some() {
            return Err(self.error(
                "42809",
                format!("FILTER specified, but {name} is not an aggregate function"),
                syntax,
            ));
        }
        let arguments = self.plain_arguments(&function.args, syntax)?;
        self.named_function(&name, &arguments, syntax)
    }

    /// The error for OVER behind another function.
    pub(super) fn no_window_function(&mut self, name: &str, syntax: &Expr) -> Diagnostic {
        let is_declared = self.catalog.procedures.iter().any(|of| of.name == name);
        if is_declared || is_supported(name) {
            let message = format!(
                "OVER specified, but {name} is not a window function nor an aggregate function"
            );
            return self.error("42809", message, syntax);
        }
        if is_builtin(name) {
            return self.unsupported(&format!("function {name}"), syntax);
        }
        let Expr::Function(called) = syntax else {
            return self.unsupported(&format!("function {name}"), syntax);
        };
        let mut without = called.clone();
        without.over = None;
        match self.special_function(&Expr::Function(without)) {
            Err(error) => error,
            Ok(_) => self.unsupported("OVER", syntax),
        }
    }

    /// Positional arguments without decorations.
    pub(crate) fn plain_arguments<'e>(
        &self,
        arguments: &'e ast::FunctionArguments,
        syntax: &impl Spanned,
    ) -> Bind<Vec<&'e Expr>> {
        let list = match arguments {
            ast::FunctionArguments::None => return Ok(Vec::new()),
            ast::FunctionArguments::List(list) => list,
            ast::FunctionArguments::Subquery(_) => {
                return Err(self.unsupported("a subquery as an argument list", syntax));
            }
        };
        if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
            return Err(self.unsupported("DISTINCT or ORDER BY outside an aggregate", syntax));
        }
        list.args
            .iter()
            .map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expression)) => Ok(expression),
                _ => Err(self.unsupported("a named argument or *", syntax)),
            })
            .collect()
    }

    /// A function by its name in lower case.
    fn named_function(&mut self, name: &str, arguments: &[&Expr], syntax: &Expr) -> Bind<Bound> {
        if let Some(bound) = self.sequence_function(name, arguments, syntax)? {
            return Ok(bound);
        }
        if let Some(bound) = self.json_function(name, arguments, syntax)? {
            return Ok(bound);
        }
        let mut bounds = Vec::new();
        for argument in arguments {
            bounds.push(self.expression(argument)?);
        }
        if let Some(bound) = self.session_function(name, &bounds, syntax)? {
            return Ok(bound);
        }
        if let Some(bound) = self.system_function(name, &bounds, syntax)? {
            return Ok(bound);
        }
        if let Some(bound) = self.generic_function(name, &bounds, syntax)? {
            return Ok(bound);
        }
        if let Some(bound) = self.array_function(name, &bounds, syntax)? {
            return Ok(bound);
        }
        if let Some(bound) = self.more_functions(name, &bounds, syntax)? {
            return Ok(bound);
        }
        if let Some(bound) = self.time_function(name, &bounds, syntax)? {
            return Ok(bound);
        }
        if let Some(bound) = self.number_function(name, &bounds, syntax)? {
            return Ok(bound);
        }
        if let Some(bound) = self.text_function(name, &bounds, syntax)? {
            return Ok(bound);
        }
        let types: Vec<String> = bounds
            .iter()
            .map(|b| {
                b.data_type
                    .as_ref()
                    .map_or("unknown".into(), |t| unbounded(t).to_string())
            })
            .collect();
        if self.catalog.procedures.iter().any(|of| of.name == name) {
            let what = format!("a call of {name}() here");
            return Err(self
                .unsupported(&what, syntax)
                .help(self.variables.call_advice()));
        }
        const ROWS: [&str; 4] = [
            "generate_series",
            "regexp_matches",
            "regexp_split_to_table",
            "unnest",
        ];
        if ROWS.contains(&name) {
            return Err(self
                .unsupported(&format!("{name}() here"), syntax)
                .help(format!("write it in FROM: SELECT * FROM {name}(…)")));
        }
        if super::window::is_window_function(name) {
            let message = format!("window function {name} requires an OVER clause");
            return Err(self.error("42809", message, syntax));
        }
        if is_builtin(name) && !is_supported(name) {
            return Err(self.unsupported(&format!("function {name}"), syntax));
        }
        if self.catalog.trigger_function(name).is_some() && types.is_empty() {
            let message = "trigger functions can only be called as triggers";
            return Err(self.error("0A000", message, syntax));
        }
        let message = format!("function {name}({}) does not exist", types.join(", "));
        Err(self.error("42883", message, syntax).help(NO_FUNCTION))
    }

    /// The functions of other modules, apart so that calls within calls take less of the stack.
    fn more_functions(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        if let Some(bound) = self.regexp_function(name, bounds, syntax)? {
            return Ok(Some(bound));
        }
        if let Some(bound) = self.mathematical_function(name, bounds, syntax)? {
            return Ok(Some(bound));
        }
        if let Some(bound) = self.byte_function(name, bounds, syntax)? {
            return Ok(Some(bound));
        }
        self.moment_function(name, bounds, syntax)
    }

    /// Functions of a client's connection.
    fn session_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        if !self.variables.is_of_client() {
            return Ok(None);
        }
        let constant = |bound: &Bound| match &bound.expression {
            Expression::Constant(value) => Some(value.clone()),
            _ => None,
        };
        let value = match (name, bounds) {
            (_, []) if let Some(value) = SessionValue::called(name) => value,
            ("current_setting", [setting, rest @ ..]) if rest.len() < 2 => {
                let missing_ok = match rest.first().map(constant) {
                    None => Some(false),
                    Some(Some(Value::Bool(truth))) => Some(truth),
                    Some(_) => None,
                };
                let (Some(Value::Text(name)), Some(missing_ok)) = (constant(setting), missing_ok)
                else {
                    return Err(self
                        .unsupported("current_setting() of a computed name", syntax)
                        .help("write the setting's name as a string"));
                };
                SessionValue::Setting {
                    name: name.to_lowercase().into(),
                    missing_ok,
                }
            }
            ("current_schemas", [implicit]) => {
                let Some(Value::Bool(implicit)) = constant(implicit) else {
                    return Err(self
                        .unsupported("current_schemas() of a computed value", syntax)
                        .help("write true or false"));
                };
                SessionValue::CurrentSchemas { implicit }
            }
            ("pg_is_in_recovery", []) => {
                return Ok(Some(Bound::boolean(Expression::Constant(Value::Bool(
                    false,
                )))));
            }
            ("set_config", [_, _, _]) => {
                return Err(self
                    .unsupported("set_config() here", syntax)
                    .help("call it by itself: SELECT set_config(name, value, is_local)"));
            }
            ("pg_notify", [_, _]) => {
                return Err(self
                    .unsupported("function pg_notify", syntax)
                    .help("call it by itself, without FROM: SELECT pg_notify(channel, payload)"));
            }
            ("pg_listening_channels", []) => {
                return Err(self
                    .unsupported("function pg_listening_channels", syntax)
                    .help("call it by itself, without FROM: SELECT pg_listening_channels()"));
            }
            _ if name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_") => {
                return Err(self
                    .unsupported(&format!("function {name}"), syntax)
                    .help("call it by itself, without FROM: SELECT pg_advisory_lock(key)"));
            }
            _ => return Ok(None),
        };
        Ok(self.session_value(value))
    }

    /// Functions over any type, and those that are not supported.
    fn generic_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        let bound = match (name, bounds) {
            ("coalesce", [_, ..]) => {
                let (list, data_type) = self.unify(bounds.to_vec(), "COALESCE", syntax)?;
                Bound::new(Expression::Coalesce(list).folded(), data_type)
            }
            ("greatest" | "least", [_, ..]) => {
                let upper = name.to_uppercase();
                let (list, data_type) = self.unify(bounds.to_vec(), &upper, syntax)?;
                self.check_order(&data_type, syntax)?;
                let of = enumeration::of(Some(&data_type));
                let place = |value| match &of {
                    Some(of) => enumeration::place(value, of),
                    None => value,
                };
                let list = list.into_iter().map(place).collect();
                let function = if name == "greatest" {
                    Function::Greatest
                } else {
                    Function::Least
                };
                let chosen = Self::call(function, list, data_type.clone());
                match &of {
                    Some(of) => {
                        let label = enumeration::label(chosen.expression, of);
                        Bound::new(label, data_type)
                    }
                    None => chosen,
                }
            }
            ("enum_first" | "enum_last" | "enum_range", _) => {
                return self.enum_function(name, bounds, syntax);
            }
            ("nullif", [left, right]) => {
                // The left operand in the type in which `=` compares it.
                let data_type = compared_type(left, right);
                let expression =
                    self.coerce(left.clone(), &data_type, Context::Implicit, syntax)?;
                let left = Bound::new(expression, data_type.clone());
                let (a, b) = self.comparable(left, "=", right.clone(), syntax)?;
                Bound::new(
                    Expression::NullIf(Box::new(a), Box::new(b)).folded(),
                    data_type,
                )
            }
            ("gen_random_uuid", []) => Bound::new(Expression::Unique, DataType::Uuid),
            ("num_nulls" | "num_nonnulls", [_, ..]) => {
                let mut arguments = Vec::new();
                for bound in bounds {
                    arguments.push(self.settled(bound.clone(), syntax)?.0);
                }
                let nulls = name == "num_nulls";
                Self::call(Function::CountNulls { nulls }, arguments, DataType::Int4)
            }
            ("random", []) => {
                Self::call(Function::Random, vec![Expression::Unique], DataType::Double)
            }
            (
                "to_number" | "nextval" | "currval" | "setval" | "lastval" | "pg_sleep" | "age",
                _,
            ) => {
                return Err(self.unsupported(&format!("function {name}"), syntax));
            }
            _ => return Ok(None),
        };
        Ok(Some(bound))
    }

    /// Functions over dates and times.
    fn time_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        let bound = match (name, bounds) {
            ("now" | "transaction_timestamp", []) => {
                Bound::new(Expression::Now, DataType::TimestampTz)
            }
            ("statement_timestamp" | "clock_timestamp", []) => {
                return Err(self
                    .unsupported(name, syntax)
                    .help("now() is the transaction's time."));
            }
            ("date_part", [field, moment]) => {
                let Expression::Constant(Value::Text(field)) = &field.expression else {
                    return Err(self.unsupported("date_part of a computed field", syntax));
                };
                let part = self.field_of(&field.to_lowercase(), moment.clone(), syntax)?;
                let cast = Expression::Cast {
                    operand: Box::new(part.expression),
                    from: DataType::Numeric(None),
                    to: DataType::Double,
                    explicit: true,
                };
                Bound::new(cast.folded(), DataType::Double)
            }
            (
                "date_trunc",
                [
                    Bound {
                        expression: Expression::Constant(Value::Text(field)),
                        ..
                    },
                    moment,
                ],
            ) => {
                let Some(field) = Field::named(&field.to_lowercase()) else {
                    return Err(self.unsupported("this unit of date_trunc", syntax));
                };
                let data_type = match &moment.data_type {
                    Some(DataType::Timestamp) => DataType::Timestamp,
                    Some(DataType::TimestampTz | DataType::Date) => DataType::TimestampTz,
                    _ => return Ok(None),
                };
                let moment = self.coerce(moment.clone(), &data_type, Context::Implicit, syntax)?;
                let clock = Clock::of(Some(&data_type));
                Self::call(Function::DateTrunc(field, clock), vec![moment], data_type)
            }
            ("date_trunc", [field, moment]) => {
                let data_type = match &moment.data_type {
                    Some(DataType::Timestamp) => DataType::Timestamp,
                    Some(DataType::TimestampTz | DataType::Date) => DataType::TimestampTz,
                    _ => return Ok(None),
                };
                let field =
                    self.coerce(field.clone(), &DataType::Text, Context::Implicit, syntax)?;
                let moment = self.coerce(moment.clone(), &data_type, Context::Implicit, syntax)?;
                let clock = Clock::of(Some(&data_type));
                Self::call(Function::DateTruncBy(clock), vec![field, moment], data_type)
            }
            ("timezone", [zone, moment]) => {
                self.at_time_zone(moment.clone(), zone.clone(), syntax)?
            }
            ("to_char", [moment, template])
                if matches!(
                    moment.data_type,
                    Some(DataType::Timestamp | DataType::TimestampTz | DataType::Date)
                ) =>
            {
                let data_type = match moment.data_type {
                    Some(DataType::Timestamp) => DataType::Timestamp,
                    _ => DataType::TimestampTz,
                };
                let function = Function::ToCharMoment(Clock::of(Some(&data_type)));
                self.by_template(function, moment, &data_type, template, syntax)?
            }
            ("make_date", [_, _, _]) => {
                let mut arguments = Vec::new();
                for bound in bounds {
                    arguments.push(self.coerce(
                        bound.clone(),
                        &DataType::Int4,
                        Context::Implicit,
                        syntax,
                    )?);
                }
                Self::call(Function::MakeDate, arguments, DataType::Date)
            }
            _ => return Ok(None),
        };
        Ok(Some(bound))
    }

    /// Functions over numbers.
    pub(super) fn number_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        if let ("pi", []) = (name, bounds) {
            let pi = Expression::Constant(Value::Float(std::f64::consts::PI));
            return Ok(Some(Bound::new(pi, DataType::Double)));
        }
        let first = match bounds.first() {
            Some(Bound {
                data_type: Some(t), ..
            }) if t.is_numeric() => unbounded(t),
            Some(Bound {
                data_type: None, ..
            }) => DataType::Double,
            _ => return Ok(None),
        };
        let exact = matches!(first, DataType::Numeric(_));
        if let ("to_char", [number, template]) = (name, bounds) {
            let data_type = match &first {
                DataType::Int2 | DataType::Int4 => DataType::Int4,
                DataType::Real => return Err(self.unsupported("to_char of real", syntax)),
                other if number.data_type.is_some() => other.clone(),
                _ => return Ok(None),
            };
            let bound =
                self.by_template(Function::ToCharNumber, number, &data_type, template, syntax)?;
            return Ok(Some(bound));
        }
        if let ("to_hex", [number], true) = (name, bounds, first.is_integer()) {
            let is_long = first == DataType::Int8;
            let arguments = vec![number.expression.clone()];
            let call = Self::call(Function::ToHex { is_long }, arguments, DataType::Text);
            return Ok(Some(call));
        }
        let operand_type = match name {
            "abs" => first.clone(),
            "mod" => return self.modulo(bounds, syntax),
            // On integers these work in double precision, as PostgreSQL's do.
            "round" | "trunc" if bounds.len() == 2 => DataType::Numeric(None),
            "round" | "trunc" | "ceil" | "ceiling" | "floor" | "sign" if exact => first.clone(),
            "round" | "trunc" | "ceil" | "ceiling" | "floor" | "sign" => DataType::Double,
            "sqrt" | "exp" | "ln" | "power" | "pow" => {
                // The other functions of numeric are bound before.
                if matches!(name, "exp" | "ln") && exact {
                    let construct = format!("{name} of numeric");
                    return Err(self
                        .unsupported(&construct, syntax)
                        .help("Cast to double precision."));
                }
                DataType::Double
            }
            _ => return Ok(None),
        };
        let function = match (name, bounds.len()) {
            ("abs", 1) => Function::Abs,
            ("sign", 1) => Function::Sign,
            ("round", 1 | 2) => Function::Round,
            ("trunc", 1 | 2) => Function::Trunc,
            ("ceil" | "ceiling", 1) => Function::Ceil,
            ("floor", 1) => Function::Floor,
            ("sqrt", 1) => Function::Sqrt,
            ("exp", 1) => Function::Exp,
            ("ln", 1) => Function::Ln,
            ("power" | "pow", 2) => Function::Power,
            _ => return Ok(None),
        };
        let mut arguments = Vec::new();
        for (place, bound) in bounds.iter().enumerate() {
            let to = match (&function, place) {
                (Function::Round | Function::Trunc, 1) => &DataType::Int4,
                _ => &operand_type,
            };
            arguments.push(self.coerce(bound.clone(), to, Context::Implicit, syntax)?);
        }
        if let (Function::Abs, true) = (&function, operand_type.is_integer()) {
            return Ok(Some(self.integer_abs(arguments.remove(0), operand_type)));
        }
        Ok(Some(Self::call(function, arguments, operand_type)))
    }

    /// `to_char` of a value as one of this type.
    fn by_template(
        &mut self,
        function: Function,
        value: &Bound,
        data_type: &DataType,
        template: &Bound,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let value = self.coerce(value.clone(), data_type, Context::Implicit, syntax)?;
        let template = self.coerce(template.clone(), &DataType::Text, Context::Implicit, syntax)?;
        Ok(Self::call(function, vec![value, template], DataType::Text))
    }

    /// `moment AT TIME ZONE zone`.
    pub(crate) fn at_time_zone(
        &mut self,
        moment: Bound,
        zone: Bound,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let (function, from, to) = match &moment.data_type {
            Some(DataType::Timestamp) => (
                Function::MomentOfLocalTime,
                DataType::Timestamp,
                DataType::TimestampTz,
            ),
            // As in PostgreSQL, a date is taken as the session's midnight, and a literal as a `timestamptz`.
            None | Some(DataType::TimestampTz | DataType::Date) => (
                Function::LocalTime,
                DataType::TimestampTz,
                DataType::Timestamp,
            ),
            Some(other) => {
                let message =
                    format!("function pg_catalog.timezone(unknown, {other}) does not exist");
                return Err(self.error("42883", message, syntax).help(NO_FUNCTION));
            }
        };
        let moment = self.coerce(moment, &from, Context::Implicit, syntax)?;
        let zone = self.coerce(zone, &DataType::Text, Context::Implicit, syntax)?;
        Ok(Self::call(function, vec![moment, zone], to))
    }

    /// `abs` of an integer: its negation may be out of the type's range.
    fn integer_abs(&self, operand: Expression, data_type: DataType) -> Bound {
        let domain = Domain::of(&data_type).expect("an integer type has a domain");
        let negative = Expression::Compare {
            relation: crate::expression::Relation::Less,
            left: Box::new(operand.clone()),
            right: Box::new(Expression::Constant(Value::Int(0))),
        };
        let negated = Expression::Negate {
            domain,
            operand: Box::new(operand.clone()),
        };
        let case = Expression::Case {
            branches: vec![(negative, negated)],
            otherwise: Box::new(operand),
        };
        Bound::new(case.folded(), data_type)
    }

    fn modulo(&mut self, bounds: &[Bound], syntax: &Expr) -> Bind<Option<Bound>> {
        let [left, right] = bounds else {
            return Ok(None);
        };
        let operator = crate::expression::Operator::Modulo;
        self.arithmetic(left.clone(), operator, right.clone(), syntax)
            .map(Some)
    }

    /// Functions over text.
    fn text_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        if let ("concat" | "concat_ws" | "format", [_, ..]) = (name, bounds) {
            let mut arguments = Vec::new();
            let mut types = Vec::new();
            for bound in bounds {
                let (expression, data_type) = self.settled(bound.clone(), syntax)?;
                arguments.push(expression);
                types.push(data_type);
            }
            let function = match name {
                "concat" => Function::Concat(types),
                "format" if types[0].is_text() => Function::Format(types.split_off(1)),
                _ if types[0].is_text() => Function::ConcatWith(types),
                _ => return Ok(None),
            };
            return Ok(Some(Self::call(function, arguments, DataType::Text)));
        }
        let is_text = |b: &Bound| b.data_type.as_ref().is_none_or(DataType::is_text);
        let is_bytes = |b: &Bound| b.data_type == Some(DataType::Bytea);
        let [operand, rest @ ..] = bounds else {
            return Ok(None);
        };
        if let ("length" | "octet_length" | "bit_length", true, []) =
            (name, is_bytes(operand), rest)
        {
            let arguments = vec![operand.expression.clone()];
            let function = match name {
                "bit_length" => Function::BitLength,
                _ => Function::OctetLength,
            };
            return Ok(Some(Self::call(function, arguments, DataType::Int4)));
        }
        if let ("md5", true, []) = (name, is_bytes(operand), rest) {
            let arguments = vec![operand.expression.clone()];
            return Ok(Some(Self::call(Function::Md5, arguments, DataType::Text)));
        }
        if let ("quote_literal" | "quote_nullable", []) = (name, rest) {
            let text = self.as_text(operand.clone(), syntax)?;
            let function = match name {
                "quote_literal" => Function::QuoteLiteral,
                _ => Function::QuoteNullable,
            };
            return Ok(Some(Self::call(function, vec![text], DataType::Text)));
        }
        if let ("chr", []) = (name, rest) {
            let code = self.coerce(operand.clone(), &DataType::Int4, Context::Implicit, syntax)?;
            return Ok(Some(Self::call(Function::Chr, vec![code], DataType::Text)));
        }
        if let (Some(DataType::Char(_)), "octet_length" | "bit_length") = (&operand.data_type, name)
        {
            return Err(self.unsupported(&format!("{name} of char(n)"), syntax));
        }
        // A literal or parameter without a type is a regular expression to PostgreSQL, and no place.
        let is_pattern = |of: &Bound| of.data_type.as_ref().is_none_or(DataType::is_text);
        if name == "substring" && !rest.is_empty() && rest.iter().all(is_pattern) {
            return Err(self
                .unsupported("substring() by a regular expression", syntax)
                .help("a place has to be an integer: write $1::integer"));
        }
        const TEXT: &[DataType] = &[DataType::Text];
        const INT: &[DataType] = &[DataType::Int4];
        const TEXT_INT: &[DataType] = &[DataType::Text, DataType::Int4];
        const TEXT_TEXT: &[DataType] = &[DataType::Text, DataType::Text];
        const INT_INT: &[DataType] = &[DataType::Int4, DataType::Int4];
        const INT_TEXT: &[DataType] = &[DataType::Int4, DataType::Text];
        let (function, types, result): (Function, &[DataType], DataType) = match (name, rest.len())
        {
            ("length" | "char_length" | "character_length", 0) => {
                (Function::Length, &[], DataType::Int4)
            }
            ("octet_length", 0) => (Function::OctetLength, &[], DataType::Int4),
            ("bit_length", 0) => (Function::BitLength, &[], DataType::Int4),
            ("translate", 2) => (Function::Translate, TEXT_TEXT, DataType::Text),
            ("substring" | "substr", 1) => (Function::Substring, INT, DataType::Text),
            ("substring" | "substr", 2) => (Function::Substring, INT_INT, DataType::Text),
            ("left", 1) => (Function::Left, INT, DataType::Text),
            ("right", 1) => (Function::Right, INT, DataType::Text),
            ("upper", 0) => (Function::Upper, &[], DataType::Text),
            ("lower", 0) => (Function::Lower, &[], DataType::Text),
            ("initcap", 0) => (Function::Initcap, &[], DataType::Text),
            ("btrim" | "trim", 0) => (Function::TrimBoth, &[], DataType::Text),
            ("btrim" | "trim", 1) => (Function::TrimBoth, TEXT, DataType::Text),
            ("ltrim", 0) => (Function::TrimLeft, &[], DataType::Text),
            ("ltrim", 1) => (Function::TrimLeft, TEXT, DataType::Text),
            ("rtrim", 0) => (Function::TrimRight, &[], DataType::Text),
            ("rtrim", 1) => (Function::TrimRight, TEXT, DataType::Text),
            ("strpos" | "position", 1) => (Function::Position, TEXT, DataType::Int4),
            ("replace", 2) => (Function::Replace, TEXT_TEXT, DataType::Text),
            ("lpad", 1) => (Function::LeftPad, INT, DataType::Text),
            ("lpad", 2) => (Function::LeftPad, INT_TEXT, DataType::Text),
            ("rpad", 1) => (Function::RightPad, INT, DataType::Text),
            ("rpad", 2) => (Function::RightPad, INT_TEXT, DataType::Text),
            ("repeat", 1) => (Function::Repeat, INT, DataType::Text),
            ("reverse", 0) => (Function::Reverse, &[], DataType::Text),
            ("starts_with", 1) => (Function::StartsWith, TEXT, DataType::Bool),
            ("split_part", 2) => (Function::SplitPart, TEXT_INT, DataType::Text),
            ("ascii", 0) => (Function::Ascii, &[], DataType::Int4),
            ("md5", 0) => (Function::Md5, &[], DataType::Text),
            ("quote_ident", 0) => (Function::QuoteIdentifier, &[], DataType::Text),
            ("regexp_like", 1) => {
                let [text, pattern] = bounds else {
                    return Ok(None);
                };
                let (text, pattern) = (text.clone(), pattern.clone());
                return self
                    .matches(text, pattern, (false, false), syntax)
                    .map(Some);
            }
            _ => return Ok(None),
        };
        if !is_text(operand) {
            return Ok(None);
        }
        let mut arguments =
            vec![self.coerce(operand.clone(), &DataType::Text, Context::Implicit, syntax)?];
        for (bound, to) in rest.iter().zip(types) {
            let fits = match (&bound.data_type, to) {
                (None, _) => true,
                (Some(from), to) => super::convert::exists(from, to, Context::Implicit),
            };
            if !fits {
                return Ok(None);
            }
            arguments.push(self.coerce(bound.clone(), to, Context::Implicit, syntax)?);
        }
        Ok(Some(Self::call(function, arguments, result)))
    }
}

/// The type in which `left = right` has its left operand.
fn compared_type(left: &Bound, right: &Bound) -> DataType {
    let float = |t: &DataType| matches!(t, DataType::Real | DataType::Double);
    match (&left.data_type, &right.data_type) {
        (None, None) => DataType::Text,
        (Some(known), None) | (None, Some(known)) => unbounded(known),
        (Some(l), Some(r)) if l.is_numeric() && r.is_numeric() => match (float(l), float(r)) {
            (true, true) => l.clone(),
            (false, false) if l.is_integer() && r.is_integer() => l.clone(),
            (false, false) => DataType::Numeric(None),
            _ => DataType::Double,
        },
        (Some(l), Some(r)) => super::convert::wider(l, r).unwrap_or_else(|| l.clone()),
    }
}
