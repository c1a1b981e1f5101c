//! Binds operators and functions over `json` and `jsonb`.
//!
//! The analyser takes these types for text with unknown values ([`crate::script`]), so it has none of them:
//! [`Binder::has_json`].

use anabranch_types::{DataType, Value};
use sqlparser::ast::{BinaryOperator, Expr, Spanned};

use super::{
    Bind, Binder, Bound, NO_FUNCTION,
    convert::{Context, unbounded},
    fold,
};
use crate::{
    diagnostic::Diagnostic,
    expression::{Expression, Function, JsonFunction},
    plan::TableFunction,
};

/// A function of FROM, its arguments, and the names and types of its columns.
type JsonRows = (TableFunction, Vec<Expression>, Vec<(String, DataType)>);

/// The functions that are bound here, for some types of arguments.
pub(super) const SUPPORTED: &[&str] = &[
    "array_to_json",
    "json_array_length",
    "json_build_array",
    "json_build_object",
    "json_extract_path",
    "json_extract_path_text",
    "json_strip_nulls",
    "json_typeof",
    "jsonb_array_length",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_insert",
    "jsonb_pretty",
    "jsonb_set",
    "jsonb_strip_nulls",
    "jsonb_typeof",
    "row_to_json",
    "to_json",
    "to_jsonb",
];

/// An argument of a function that takes values of any type.
pub(super) struct Item {
    pub(super) expression: Expression,
    pub(super) data_type: DataType,
    /// Whether it is a row, as JSON already.
    pub(super) is_row: bool,
}

fn texts() -> DataType {
    DataType::Array(Box::new(DataType::Text))
}

fn call(function: JsonFunction, arguments: Vec<Expression>, data_type: DataType) -> Bound {
    let call = Expression::Call {
        function: Function::Json(function),
        arguments,
    };
    Bound::new(call.folded(), data_type)
}

/// A `json` as the type that a function's name says.
fn of_kind(bound: Bound, data_type: DataType) -> Bound {
    if data_type == DataType::Json {
        return bound;
    }
    let cast = Expression::Cast {
        operand: Box::new(bound.expression),
        from: DataType::Json,
        to: data_type.clone(),
        explicit: true,
    };
    Bound::new(cast.folded(), data_type)
}

/// The kind of JSON that a function's name begins with, and the rest of the name.
fn kind_of(name: &str) -> Option<(DataType, &str)> {
    match name.split_once('_')? {
        ("json", rest) => Some((DataType::Json, rest)),
        ("jsonb", rest) => Some((DataType::Jsonb, rest)),
        _ => None,
    }
}

/// Whether an operator is over JSON alone, or over arrays.
fn is_json_operator(operator: &BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::Arrow
            | BinaryOperator::LongArrow
            | BinaryOperator::HashArrow
            | BinaryOperator::HashLongArrow
            | BinaryOperator::HashMinus
            | BinaryOperator::Question
            | BinaryOperator::QuestionAnd
            | BinaryOperator::QuestionPipe
            | BinaryOperator::AtArrow
            | BinaryOperator::ArrowAt
    )
}

impl Binder<'_> {
    /// Whether `json` and `jsonb` have operators and functions: not for the analyser.
    pub(crate) fn has_json(&self) -> bool {
        self.catalog.opaque.is_none()
    }

    /// An operator over JSON; `None` if it is none.
    pub(super) fn json_operator(
        &mut self,
        left: &Bound,
        operator: &BinaryOperator,
        right: &Bound,
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        if !self.has_json() {
            return Ok(None);
        }
        let is = |bound: &Bound, of: &DataType| bound.data_type.as_ref() == Some(of);
        let is_or_unknown = |bound: &Bound, of: &DataType| {
            bound.data_type.is_none() || bound.data_type.as_ref() == Some(of)
        };
        let jsonb = DataType::Jsonb;
        let both = (is(left, &jsonb) && is_or_unknown(right, &jsonb))
            || (is_or_unknown(left, &jsonb) && is(right, &jsonb));
        let of_document = left.data_type.as_ref().is_some_and(DataType::is_json);
        let of_jsonb = is(left, &jsonb);
        let (function, to, result) = match operator {
            BinaryOperator::Arrow | BinaryOperator::LongArrow if of_document => {
                let text = *operator == BinaryOperator::LongArrow;
                let result = match (&left.data_type, text) {
                    (Some(of), false) => of.clone(),
                    _ => DataType::Text,
                };
                match self.key_type(right, false) {
                    Some(to) => (JsonFunction::Get { text }, to, result),
                    None => return Err(self.no_operator_of(left, operator, right, syntax)),
                }
            }
            BinaryOperator::HashArrow | BinaryOperator::HashLongArrow if of_document => {
                let text = *operator == BinaryOperator::HashLongArrow;
                let result = match (&left.data_type, text) {
                    (Some(of), false) => of.clone(),
                    _ => DataType::Text,
                };
                (JsonFunction::GetPath { text }, texts(), result)
            }
            BinaryOperator::AtArrow if both => (JsonFunction::Contains, jsonb, DataType::Bool),
            BinaryOperator::ArrowAt if both => {
                let (right, left) = (right.clone(), left.clone());
                let whole = self.coerce(right, &jsonb, Context::Implicit, syntax)?;
                let part = self.coerce(left, &jsonb, Context::Implicit, syntax)?;
                let arguments = vec![whole, part];
                return Ok(Some(call(
                    JsonFunction::Contains,
                    arguments,
                    DataType::Bool,
                )));
            }
            BinaryOperator::Question if of_jsonb => {
                (JsonFunction::Exists, DataType::Text, DataType::Bool)
            }
            BinaryOperator::QuestionPipe | BinaryOperator::QuestionAnd if of_jsonb => {
                let all = *operator == BinaryOperator::QuestionAnd;
                (JsonFunction::ExistAmong { all }, texts(), DataType::Bool)
            }
            BinaryOperator::StringConcat if both => (JsonFunction::Concat, jsonb.clone(), jsonb),
            BinaryOperator::HashMinus if of_jsonb => (JsonFunction::DeletePath, texts(), jsonb),
            BinaryOperator::Minus if of_jsonb => match self.key_type(right, true) {
                Some(to) => (JsonFunction::Delete, to, jsonb),
                None => return Err(self.no_operator_of(left, operator, right, syntax)),
            },
            // An array contains another, or it does not.
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt
                if [left, right]
                    .iter()
                    .any(|side| matches!(side.data_type, Some(DataType::Array(_)))) =>
            {
                return Ok(None);
            }
            operator if is_json_operator(operator) => {
                return Err(self.no_operator_of(left, operator, right, syntax));
            }
            _ => return Ok(None),
        };
        let left_type = left.data_type.clone().unwrap_or(DataType::Jsonb);
        let target = self.coerce(left.clone(), &left_type, Context::Implicit, syntax)?;
        if !self.fits(right, &to) {
            return Err(self.no_operator_of(left, operator, right, syntax));
        }
        let operand = self.coerce(right.clone(), &to, Context::Implicit, syntax)?;
        Ok(Some(call(function, vec![target, operand], result)))
    }

    /// Whether a value is of a type, or becomes one of it by itself.
    fn fits(&self, bound: &Bound, to: &DataType) -> bool {
        let from = bound.data_type.as_ref();
        from.is_none_or(|from| super::convert::exists(from, to, Context::Implicit))
    }

    /// The type in which a key or place is used: text, a whole number, or (of several) an array of texts.
    fn key_type(&self, bound: &Bound, several: bool) -> Option<DataType> {
        match &bound.data_type {
            None => Some(DataType::Text),
            Some(of) if of.is_text() => Some(DataType::Text),
            Some(DataType::Int2 | DataType::Int4) => Some(DataType::Int4),
            Some(DataType::Array(element)) if several && element.is_text() => Some(texts()),
            Some(_) => None,
        }
    }

    fn no_operator_of(
        &self,
        left: &Bound,
        operator: &BinaryOperator,
        right: &Bound,
        syntax: &Expr,
    ) -> Diagnostic {
        let symbol = operator.to_string();
        match (&left.data_type, &right.data_type) {
            (None, None) => {
                let message = format!("operator is not unique: unknown {symbol} unknown");
                self.error("42725", message, syntax)
            }
            _ => self.no_operator(left, &symbol, right, syntax),
        }
    }

    /// `document[step]`.
    pub(super) fn json_subscript(
        &mut self,
        document: Bound,
        step: &Expr,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let bound = self.expression(step)?;
        let Some(to) = self.key_type(&bound, false) else {
            let message =
                "subscript type is not supported: it must be coercible to integer or text";
            return Err(self.error("42804", message, syntax));
        };
        let step = self.coerce(bound, &to, Context::Implicit, syntax)?;
        // A text is the number of an element, too, as in a path.
        let (function, step) = match to {
            DataType::Text => {
                let path = Expression::Array(vec![step]).folded();
                (JsonFunction::GetPath { text: false }, path)
            }
            _ => (JsonFunction::Get { text: false }, step),
        };
        let arguments = vec![document.expression, step];
        Ok(call(function, arguments, DataType::Jsonb))
    }

    /// An argument of a function that takes any value: a value, or a row that a source's alias or ROW(…) names.
    pub(super) fn json_item(&mut self, syntax: &Expr) -> Bind<Item> {
        if let Some(row) = self.row_as_json(syntax)? {
            return Ok(Item {
                expression: row.expression,
                data_type: DataType::Json,
                is_row: true,
            });
        }
        let bound = self.expression(syntax)?;
        let (expression, data_type) = self.settled(bound, syntax)?;
        Ok(Item {
            expression,
            data_type,
            is_row: false,
        })
    }

    fn row_as_json(&mut self, syntax: &Expr) -> Bind<Option<Bound>> {
        let fields: Vec<&Expr> = match syntax {
            Expr::Nested(inner) => return self.row_as_json(inner),
            Expr::Identifier(name) => return self.source_as_json(&fold(name), syntax),
            Expr::Tuple(fields) => fields.iter().collect(),
            Expr::Function(function)
                if function.name.to_string().eq_ignore_ascii_case("row")
                    && function.over.is_none() =>
            {
                self.plain_arguments(&function.args, syntax)?
            }
            _ => return Ok(None),
        };
        let mut members = Vec::new();
        let mut values = Vec::new();
        for (place, field) in fields.into_iter().enumerate() {
            let item = self.json_item(field)?;
            members.push((format!("f{}", place + 1).into(), item.data_type));
            values.push(item.expression);
        }
        let function = JsonFunction::Row(members.into());
        Ok(Some(call(function, values, DataType::Json)))
    }

    /// The row of the source with this name, unless a column or variable has it.
    fn source_as_json(&mut self, name: &str, syntax: &Expr) -> Bind<Option<Bound>> {
        if self.variables.named(None, name).is_some() || self.column(None, name, syntax)?.is_some()
        {
            return Ok(None);
        }
        let Some((depth, source)) = self.source_named(name) else {
            return Ok(None);
        };
        let scope = &self.scopes[self.scopes.len() - 1 - depth];
        let found = &scope.sources[source - 1];
        // A function's one column is the value itself.
        if found.elements.is_some() && found.columns.len() == 1 {
            return Ok(None);
        }
        let columns = found.columns.iter();
        let members: Vec<(Box<str>, DataType)> = columns
            .map(|column| (column.name.as_str().into(), column.data_type.clone()))
            .collect();
        let key = match found.table {
            _ if !found.nullable => None,
            Some(table) => {
                let key = &self.catalog.schema.table(table).primary_key;
                Some(key.first().map(|column| column.index()))
            }
            None => Some(None),
        };
        let column = |binder: &mut Self, column: usize| {
            binder.note_reference(depth, source, column);
            Expression::Column {
                depth,
                source,
                column,
            }
        };
        let values = (0..members.len()).map(|at| column(self, at)).collect();
        let row = call(JsonFunction::Row(members.into()), values, DataType::Json);
        let Some(key) = key else {
            return Ok(Some(row));
        };
        // An outer join's missing row is NULL, and no row of NULLs. Its key says so.
        let Some(key) = key else {
            let what = "the row of an outer join that has no primary key";
            return Err(self.unsupported(what, syntax));
        };
        let is_missing = Expression::IsNull {
            operand: Box::new(column(self, key)),
            negated: false,
        };
        let row = Expression::Case {
            branches: vec![(is_missing, Expression::NULL)],
            otherwise: Box::new(row.expression),
        };
        Ok(Some(Bound::new(row, DataType::Json)))
    }

    /// The nearest source with this name: the number of queries outwards, and its number there.
    fn source_named(&self, name: &str) -> Option<(usize, usize)> {
        let scopes = self.scopes.iter().rev().enumerate();
        scopes.into_iter().find_map(|(depth, scope)| {
            let mut sources = scope.sources.iter();
            let place = sources.position(|source| source.name == name && !source.hidden)?;
            Some((depth, place + 1))
        })
    }

    /// The one column of a function in FROM, by its alias, which names its row as well.
    pub(super) fn function_value(&mut self, name: &str) -> Option<Bound> {
        let (depth, source) = self.source_named(name)?;
        let scope = &self.scopes[self.scopes.len() - 1 - depth];
        let found = &scope.sources[source - 1];
        let [column] = found.columns.as_slice() else {
            return None;
        };
        found.elements.as_ref()?;
        let data_type = column.data_type.clone();
        self.note_reference(depth, source, 0);
        let expression = Expression::Column {
            depth,
            source,
            column: 0,
        };
        Some(Bound::new(expression, data_type))
    }

    /// A function over JSON; `None` if it is none.
    pub(super) fn json_function(
        &mut self,
        name: &str,
        arguments: &[&Expr],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        if !self.has_json() || !SUPPORTED.contains(&name) {
            return Ok(None);
        }
        let bound = match (name, arguments) {
            ("to_json" | "to_jsonb" | "row_to_json" | "array_to_json", [value]) => {
                self.as_json(name, value, syntax)?
            }
            _ => match kind_of(name) {
                Some((of, "build_array" | "build_object")) => self.built(of, name, arguments)?,
                Some((of, rest)) => match self.of_document(&of, rest, arguments, syntax)? {
                    Some(bound) => bound,
                    None => return Ok(None),
                },
                None => return Ok(None),
            },
        };
        Ok(Some(bound))
    }

    fn as_json(&mut self, name: &str, value: &Expr, syntax: &Expr) -> Bind<Bound> {
        let of = match name {
            "to_jsonb" => DataType::Jsonb,
            _ => DataType::Json,
        };
        if let Some(row) = self.row_as_json(value)? {
            if name == "array_to_json" {
                return Err(self.no_function(name, "record", syntax));
            }
            return Ok(of_kind(row, of));
        }
        let bound = self.expression(value)?;
        let Some(data_type) = bound.data_type.clone() else {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(self.error("42804", message, syntax));
        };
        let wanted = match name {
            "row_to_json" => matches!(data_type, DataType::Record(_)),
            "array_to_json" => data_type.element().is_some(),
            _ => true,
        };
        if !wanted {
            return Err(self.no_function(name, &unbounded(&data_type).to_string(), syntax));
        }
        if let DataType::Record(_) = data_type {
            return Err(self.unsupported("JSON of such a row", syntax));
        }
        if data_type == of {
            return Ok(bound);
        }
        let text = call(
            JsonFunction::Of(data_type),
            vec![bound.expression],
            DataType::Json,
        );
        Ok(of_kind(text, of))
    }

    fn no_function(&self, name: &str, types: &str, syntax: &Expr) -> Diagnostic {
        let message = format!("function {name}({types}) does not exist");
        self.error("42883", message, syntax).help(NO_FUNCTION)
    }

    /// `json_build_array`, `json_build_object`.
    fn built(&mut self, of: DataType, name: &str, arguments: &[&Expr]) -> Bind<Bound> {
        let mut types = Vec::new();
        let mut values = Vec::new();
        let is_object = name.ends_with("object");
        for (place, argument) in arguments.iter().enumerate() {
            let item = self.json_item(argument)?;
            if is_object && place % 2 == 0 {
                self.check_key_type(&item.data_type, *argument)?;
            }
            types.push(item.data_type);
            values.push(item.expression);
        }
        let function = match is_object {
            true => JsonFunction::BuildObject(types),
            false => JsonFunction::BuildArray(types),
        };
        Ok(of_kind(call(function, values, DataType::Json), of))
    }

    pub(super) fn check_key_type(&self, data_type: &DataType, syntax: &impl Spanned) -> Bind<()> {
        if data_type.is_json() || data_type.element().is_some() {
            let message = "key value must be scalar, not array, composite, or json";
            return Err(self.error("22023", message, syntax));
        }
        Ok(())
    }

    /// A function whose first argument is a document.
    fn of_document(
        &mut self,
        of: &DataType,
        rest: &str,
        arguments: &[&Expr],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        let [document, others @ ..] = arguments else {
            return Ok(None);
        };
        let mut bounds = vec![self.expression(document)?];
        for other in others {
            bounds.push(self.expression(other)?);
        }
        let mut wanted = vec![of.clone()];
        let (function, result) = match (rest, others.len()) {
            ("typeof", 0) => (JsonFunction::TypeOf, DataType::Text),
            ("array_length", 0) => (JsonFunction::ArrayLength, DataType::Int4),
            ("strip_nulls", 0) => (JsonFunction::StripNulls, of.clone()),
            ("pretty", 0) => (JsonFunction::Pretty, DataType::Text),
            ("extract_path" | "extract_path_text", _) => {
                let text = rest == "extract_path_text";
                let result = match text {
                    true => DataType::Text,
                    false => of.clone(),
                };
                wanted.resize(arguments.len(), DataType::Text);
                (JsonFunction::GetPath { text }, result)
            }
            ("set" | "insert", 2 | 3) => {
                wanted.extend([texts(), DataType::Jsonb, DataType::Bool]);
                if others.len() == 2 {
                    // jsonb_set creates what is missing, jsonb_insert inserts before.
                    let default = Expression::Constant(Value::Bool(rest == "set"));
                    bounds.push(Bound::boolean(default));
                }
                let function = match rest {
                    "set" => JsonFunction::Set,
                    _ => JsonFunction::Insert,
                };
                (function, DataType::Jsonb)
            }
            _ => return Ok(None),
        };
        let fits = bounds
            .iter()
            .zip(&wanted)
            .all(|(bound, to)| self.fits(bound, to));
        if !fits {
            let types: Vec<String> = bounds
                .iter()
                .map(|bound| match &bound.data_type {
                    Some(data_type) => unbounded(data_type).to_string(),
                    None => "unknown".to_owned(),
                })
                .take(arguments.len())
                .collect();
            let kind = if *of == DataType::Json {
                "json"
            } else {
                "jsonb"
            };
            return Err(self.no_function(&format!("{kind}_{rest}"), &types.join(", "), syntax));
        }
        let mut values = Vec::new();
        for (bound, to) in bounds.into_iter().zip(&wanted) {
            values.push(self.coerce(bound, to, Context::Implicit, syntax)?);
        }
        if let JsonFunction::GetPath { .. } = function {
            let path = values.split_off(1);
            values.push(Expression::Array(path).folded());
        }
        Ok(Some(call(function, values, result)))
    }

    /// A function of FROM that gives the parts of a document: its arrays for [`TableFunction::Unnest`], and its
    /// columns. `None` if it is none.
    pub(super) fn json_rows(
        &mut self,
        name: &str,
        arguments: &[&Expr],
        syntax: &impl Spanned,
    ) -> Bind<Option<JsonRows>> {
        let (true, Some((of, rest)), [document]) = (self.has_json(), kind_of(name), arguments)
        else {
            return Ok(None);
        };
        let text = rest.ends_with("_text");
        let part = match text {
            true => DataType::Text,
            false => of.clone(),
        };
        const KEYS: [&str; 6] = [
            "json_object_keys",
            "jsonb_object_keys",
            "json_each",
            "jsonb_each",
            "json_each_text",
            "jsonb_each_text",
        ];
        let keys = KEYS.iter().find(|known| **known == name);
        let (functions, columns) = match (rest, keys) {
            ("array_elements" | "array_elements_text", _) => (
                vec![JsonFunction::Elements { text }],
                vec![("value".to_owned(), part)],
            ),
            ("object_keys", Some(keys)) => (
                vec![JsonFunction::Keys(keys)],
                vec![(name.to_owned(), DataType::Text)],
            ),
            ("each" | "each_text", Some(keys)) => (
                vec![
                    JsonFunction::Keys(keys),
                    JsonFunction::MemberValues { text },
                ],
                vec![
                    ("key".to_owned(), DataType::Text),
                    ("value".to_owned(), part),
                ],
            ),
            _ => return Ok(None),
        };
        self.scope().clause = "functions in FROM";
        let bound = self.expression(document)?;
        if !self.fits(&bound, &of) {
            let shown = bound
                .data_type
                .map_or("unknown".to_owned(), |t| t.to_string());
            let message = format!("function {name}({shown}) does not exist");
            return Err(self.error("42883", message, *document).help(NO_FUNCTION));
        }
        let document = self.coerce(bound, &of, Context::Implicit, syntax)?;
        let arrays = functions.into_iter().map(|function| {
            let arguments = vec![document.clone()];
            call(function, arguments, texts()).expression
        });
        Ok(Some((TableFunction::Unnest, arrays.collect(), columns)))
    }

    /// Checks that values of a type can be equal: GROUP BY, DISTINCT and set operations compare them.
    pub(super) fn check_equality(&self, data_type: &DataType, syntax: &impl Spanned) -> Bind<()> {
        self.check_operator(data_type, "equality", syntax)
    }

    /// Checks that values of a type have an order; that of enumerations differs from that of their texts.
    pub(super) fn check_order(&self, data_type: &DataType, syntax: &impl Spanned) -> Bind<()> {
        if let Some(element @ DataType::Enum(_)) = data_type.element() {
            let construct = format!("the order of arrays of {element}");
            return Err(self
                .unsupported(&construct, syntax)
                .help("compare the elements, or cast to text[]"));
        }
        self.check_operator(data_type, "ordering", syntax)
    }

    fn check_operator(&self, data_type: &DataType, what: &str, syntax: &impl Spanned) -> Bind<()> {
        let element = data_type.element().unwrap_or(data_type);
        if *element != DataType::Json {
            return Ok(());
        }
        let message = format!("could not identify an {what} operator for type {data_type}");
        Err(self.error("42883", message, syntax))
    }
}
