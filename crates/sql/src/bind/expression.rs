//! Binds expressions: columns, operators, CASE, subqueries, casts, calls.

use anabranch_types::{DataType, Value};
use sqlparser::ast::{self, Expr, Spanned};

use super::{
    Bind, Binder, Bound,
    convert::Context,
    fold,
    operator::{peeled, relation},
    scope::Found,
};
use crate::{
    diagnostic::Diagnostic,
    expression::{Domain, Expression, Function, Operator, Relation, datetime},
    plan::{Subquery, SubqueryKind},
    source::Span,
};

impl Binder<'_> {
    /// Binds an expression.
    pub(crate) fn expression(&mut self, syntax: &Expr) -> Bind<Bound> {
        let bound = self.supported(syntax);
        bound.or_else(|error| self.opaque_expression(syntax, error))
    }

    /// Binds an expression in terms of what the dialect has.
    fn supported(&mut self, syntax: &Expr) -> Bind<Bound> {
        match syntax {
            Expr::Nested(inner) => self.expression(inner),
            Expr::Value(value) => self.literal(&value.value, syntax),
            Expr::Identifier(ident) => self.name(None, ident, syntax),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => self.name(Some(qualifier), name, syntax),
                [schema, qualifier, name]
                    if ["public", "pg_catalog", "information_schema"]
                        .contains(&fold(schema).as_str()) =>
                {
                    self.name(Some(qualifier), name, syntax)
                }
                _ => Err(self.unsupported("this name", syntax)),
            },
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right, syntax),
            Expr::UnaryOp { op, expr } => self.unary(op, expr, syntax),
            Expr::IsNull(operand) => self.null_test(operand, false),
            Expr::IsNotNull(operand) => self.null_test(operand, true),
            Expr::IsTrue(operand) => self.truth_test(operand, true, false),
            Expr::IsNotTrue(operand) => self.truth_test(operand, true, true),
            Expr::IsFalse(operand) => self.truth_test(operand, false, false),
            Expr::IsNotFalse(operand) => self.truth_test(operand, false, true),
            Expr::IsUnknown(operand) => {
                let operand = Box::new(self.condition(operand)?);
                Ok(Bound::boolean(Expression::IsNull {
                    operand,
                    negated: false,
                }))
            }
            Expr::IsNotUnknown(operand) => {
                let operand = Box::new(self.condition(operand)?);
                Ok(Bound::boolean(Expression::IsNull {
                    operand,
                    negated: true,
                }))
            }
            Expr::IsDistinctFrom(left, right) => self.distinct_test(left, right, false, syntax),
            Expr::IsNotDistinctFrom(left, right) => self.distinct_test(left, right, true, syntax),
            Expr::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated, syntax),
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => {
                let relation = if *negated {
                    Relation::NotEqual
                } else {
                    Relation::Equal
                };
                self.quantified_subquery(expr, relation, subquery, *negated, syntax)
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, *negated, low, high, syntax),
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(
                expr,
                pattern,
                escape_char.as_deref(),
                false,
                *negated,
                syntax,
            ),
            Expr::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(
                expr,
                pattern,
                escape_char.as_deref(),
                true,
                *negated,
                syntax,
            ),
            Expr::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => self.similar(expr, pattern, escape_char.as_deref(), *negated, syntax),
            Expr::Like {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => self.like_any(expr, pattern, (false, *negated), syntax),
            Expr::ILike {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => self.like_any(expr, pattern, (true, *negated), syntax),
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.quantified(left, compare_op, right, false, syntax),
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(left, compare_op, right, true, syntax),
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                let to = self.type_named(data_type, syntax)?;
                if let Some(constant) = large_float(expr, &to) {
                    return Ok(constant);
                }
                if let (Expr::Array(array), DataType::Array(element)) = (&**expr, &to) {
                    return self.array_as(&array.elem, element, syntax);
                }
                let bound = self.expression(expr)?;
                let expression = self.coerce(bound, &to, Context::Explicit, syntax)?;
                Ok(Bound::new(expression, to))
            }
            Expr::TypedString(typed) => {
                let to = self.type_named(&typed.data_type, syntax)?;
                let bound = self.literal(&typed.value.value, syntax)?;
                let expression = self.coerce(bound, &to, Context::Explicit, syntax)?;
                Ok(Bound::new(expression, to))
            }
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(
                operand.as_deref(),
                conditions,
                else_result.as_deref(),
                syntax,
            ),
            Expr::Exists { subquery, negated } => {
                let query = self.subquery(subquery)?;
                let kind = SubqueryKind::Exists { negated: *negated };
                Ok(self.add_subquery(kind, query, Vec::new(), DataType::Bool))
            }
            Expr::Subquery(query) => {
                let references = self.scope().inner_references.len();
                let around = self.refused_later.replace(false);
                let query = self.subquery(query);
                let refused = std::mem::replace(&mut self.refused_later, around);
                let query = query?;
                let [(_, data_type)] = query.columns.as_slice() else {
                    return Err(self.error(
                        "42601",
                        "subquery must return only one column",
                        syntax,
                    ));
                };
                let data_type = data_type.clone();
                if refused == Some(true) {
                    self.scope().inner_references.truncate(references);
                    let refusal = Expression::Call {
                        function: Function::Unknown(super::with::OUTER_REFERENCE.into()),
                        arguments: Vec::new(),
                    };
                    return Ok(Bound::new(refusal, data_type));
                }
                Ok(self.add_subquery(SubqueryKind::Scalar, query, Vec::new(), data_type))
            }
            Expr::Array(array) => self.array(&array.elem, syntax),
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.field_access(root, access_chain, syntax)
            }
            Expr::Collate { expr, collation } => self.collated(expr, collation, syntax),
            Expr::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                if self.interval(time_zone)?.is_some() {
                    return Err(self
                        .unsupported("an interval as a time zone", syntax)
                        .help("name the time zone: AT TIME ZONE '+02:00'"));
                }
                let (moment, zone) = (self.expression(timestamp)?, self.expression(time_zone)?);
                self.at_time_zone(moment, zone, syntax)
            }
            Expr::Interval(_) => {
                Err(self.unsupported("an interval other than in timestamp ± interval", syntax))
            }
            other => self.special_function(other),
        }
    }

    /// Binds an expression that must be boolean.
    pub(crate) fn condition(&mut self, syntax: &Expr) -> Bind<Expression> {
        let bound = self.expression(syntax)?;
        match &bound.data_type {
            None | Some(DataType::Bool) => {
                self.coerce(bound, &DataType::Bool, Context::Implicit, syntax)
            }
            Some(other) => {
                let message = format!("argument must be type boolean, not type {other}");
                Err(self.error("42804", message, syntax))
            }
        }
    }

    /// Binds an expression and brings it to a type.
    pub(crate) fn expression_as(
        &mut self,
        syntax: &Expr,
        to: &DataType,
        context: Context,
    ) -> Bind<Expression> {
        let bound = self.expression(syntax)?;
        self.coerce(bound, to, context, syntax)
    }

    fn literal(&mut self, value: &ast::Value, syntax: &Expr) -> Bind<Bound> {
        let unknown = |value| {
            Ok(Bound {
                expression: Expression::Constant(value),
                data_type: None,
                place: Span::of(syntax.span()),
            })
        };
        match value {
            ast::Value::Number(digits, false) => self.number(digits, syntax),
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                unknown(Value::text(text))
            }
            ast::Value::DollarQuotedString(text) => unknown(Value::text(&text.value)),
            ast::Value::Boolean(truth) => {
                Ok(Bound::boolean(Expression::Constant(Value::Bool(*truth))))
            }
            ast::Value::Null => unknown(Value::Null),
            ast::Value::Placeholder(name) => self.placeholder(name, syntax),
            other => Err(self.unsupported(&format!("the literal {other}"), syntax)),
        }
    }

    fn placeholder(&mut self, name: &str, syntax: &Expr) -> Bind<Bound> {
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        let found = number
            .filter(|n| *n > 0)
            .and_then(|number| self.variables.numbered(number));
        match found {
            Some((slot, Some(data_type))) => Ok(Bound::new(Expression::Variable(slot), data_type)),
            Some((slot, None)) => {
                if self.parameters.len() <= slot {
                    self.parameters.resize(slot + 1, None);
                }
                let data_type = self.parameters[slot].clone();
                Ok(Bound {
                    expression: Expression::Variable(slot),
                    data_type,
                    place: Span::of(syntax.span()),
                })
            }
            None => Err(self.error("42P02", format!("there is no parameter {name}"), syntax)),
        }
    }

    /// A column or variable.
    fn name(
        &mut self,
        qualifier: Option<&ast::Ident>,
        name: &ast::Ident,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let qualifier = qualifier.map(fold);
        let text = fold(name);
        let variable = self.variables.named(qualifier.as_deref(), &text);
        let column = self.column(qualifier.as_deref(), &text, syntax)?;
        match (column, variable) {
            (Some(_), Some(_)) if !self.variables.column_wins() => {
                let message = format!("column reference \"{text}\" is ambiguous");
                Err(self
                    .error("42702", message, syntax)
                    .help("It could refer to either a PL/pgSQL variable or a table column."))
            }
            (Some(bound), _) => Ok(bound),
            (None, Some((slot, data_type))) => {
                Ok(Bound::new(Expression::Variable(slot), data_type))
            }
            (None, None) if qualifier.is_none() && name.quote_style.is_none() => {
                match self.bare_function(&text, syntax) {
                    Some(bound) => bound,
                    None => match self.function_value(&text) {
                        Some(bound) => Ok(bound),
                        None => Err(self.unknown_column(None, &text, syntax)),
                    },
                }
            }
            (None, None) => Err(self.unknown_column(qualifier.as_deref(), &text, syntax)),
        }
    }

    fn unknown_column(&self, qualifier: Option<&str>, name: &str, syntax: &Expr) -> Diagnostic {
        let shown = match qualifier {
            Some(qualifier) => format!("column {qualifier}.{name} does not exist"),
            None => format!("column \"{name}\" does not exist"),
        };
        if let Some(qualifier) = qualifier {
            let known = |scope: &super::scope::Scope| {
                scope
                    .sources
                    .iter()
                    .any(|source| source.name == qualifier && !source.hidden)
            };
            if !self.scopes.iter().any(known) {
                let message = format!("missing FROM-clause entry for table \"{qualifier}\"");
                return self.error("42P01", message, syntax);
            }
        }
        let near = self
            .scopes
            .iter()
            .flat_map(|scope| &scope.sources)
            .find_map(|source| {
                let column = source
                    .columns
                    .iter()
                    .find(|column| near(&column.name, name))?;
                Some(format!(
                    "Perhaps you meant to reference the column \"{}.{}\".",
                    source.name, column.name
                ))
            });
        let diagnostic = self.error("42703", shown, syntax);
        match near {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }

    /// A column of the innermost query that has it.
    pub(crate) fn column(
        &mut self,
        qualifier: Option<&str>,
        name: &str,
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        for depth in 0..self.scopes.len() {
            let place = self.scopes.len() - 1 - depth;
            match self.scopes[place].find(qualifier, name) {
                Found::None => {}
                Found::Ambiguous => {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(self.error("42702", message, syntax));
                }
                Found::One {
                    source,
                    column,
                    data_type,
                } => {
                    self.note_reference(depth, source, column);
                    let expression = Expression::Column {
                        depth,
                        source,
                        column,
                    };
                    return Ok(Some(Bound::new(expression, data_type)));
                }
            }
        }
        Ok(None)
    }

    /// Notes a reference to a column `depth` queries outwards.
    pub(crate) fn note_reference(&mut self, depth: usize, source: usize, column: usize) {
        let owner = self.scopes.len() - 1 - depth;
        for crossed in 0..depth {
            let scope = self.scopes.len() - 1 - crossed;
            let escapes = &mut self.scopes[scope].escapes;
            *escapes = (*escapes).max(depth - crossed);
        }
        if depth > 0 {
            self.scopes[owner].inner_references.push((source, column));
        }
        self.scopes[owner].note_read(&mut self.accesses, source, column);
    }

    fn null_test(&mut self, operand: &Expr, negated: bool) -> Bind<Bound> {
        let bound = self.expression(operand)?;
        let expression = match bound {
            // The test says nothing of a parameter's type.
            Bound {
                data_type: None,
                expression: expression @ Expression::Variable(_),
                ..
            } => expression,
            bound => self.settled(bound, operand)?.0,
        };
        let test = Expression::IsNull {
            operand: Box::new(expression),
            negated,
        };
        Ok(Bound::boolean(test.folded()))
    }

    fn truth_test(&mut self, operand: &Expr, expected: bool, negated: bool) -> Bind<Bound> {
        let operand = Box::new(self.condition(operand)?);
        Ok(Bound::boolean(
            Expression::IsBool {
                operand,
                expected,
                negated,
            }
            .folded(),
        ))
    }

    fn distinct_test(
        &mut self,
        left: &Expr,
        right: &Expr,
        negated: bool,
        syntax: &Expr,
    ) -> Bind<Bound> {
        if let Some(differ) = self.variables.distinct_records(left, right) {
            let differ = self.condition(&differ)?;
            return Ok(Bound::boolean(match negated {
                true => Expression::Not(Box::new(differ)).folded(),
                false => differ,
            }));
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        let (left, right) = self.comparable(left, "=", right, syntax)?;
        let (left, right) = (Box::new(left), Box::new(right));
        Ok(Bound::boolean(
            Expression::Distinct {
                left,
                right,
                negated,
            }
            .folded(),
        ))
    }

    /// `left op ANY (array or subquery)`.
    fn quantified(
        &mut self,
        left: &Expr,
        operator: &ast::BinaryOperator,
        right: &Expr,
        all: bool,
        syntax: &Expr,
    ) -> Bind<Bound> {
        if let Some((of, negated)) = super::condition::matching(operator) {
            return self.matches_any(left, right, of, negated, all, syntax);
        }
        let Some(relation) = relation(operator) else {
            return Err(self.unsupported(&format!("{operator} ANY or ALL"), syntax));
        };
        if let Expr::Subquery(query) = peeled(right) {
            return self.quantified_subquery(left, relation, query, all, syntax);
        }
        let left = self.expression(left)?;
        let mut array = self.expression(right)?;
        if array.data_type.is_none() {
            let element = left.data_type.clone().unwrap_or(DataType::Text);
            let data_type = DataType::Array(Box::new(element));
            let expression = self.coerce(array, &data_type, Context::Implicit, right)?;
            array = Bound::new(expression, data_type);
        }
        let Some(element) = array.data_type.as_ref().and_then(DataType::element) else {
            let message = "op ANY/ALL (array) requires array on right side";
            return Err(self.error("42809", message, right));
        };
        self.check_label_order(relation, element, syntax)?;
        let probe = Bound::new(Expression::NULL, element.clone());
        let (left, cast) = self.comparable(left, relation.symbol(), probe, syntax)?;
        let array = match cast {
            Expression::Constant(_) => array.expression,
            _ => return Err(self.unsupported("ANY or ALL over an array of another type", syntax)),
        };
        let (left, array) = (Box::new(left), Box::new(array));
        Ok(Bound::boolean(
            Expression::Quantified {
                relation,
                left,
                array,
                all,
            }
            .folded(),
        ))
    }

    /// Refuses an order of enumerations with ANY or ALL, where values are compared as they are.
    fn check_label_order(
        &self,
        relation: Relation,
        data_type: &DataType,
        syntax: &Expr,
    ) -> Bind<()> {
        let scalar = data_type.element().unwrap_or(data_type);
        if !relation.is_order() || scalar.as_enum().is_none() {
            return Ok(());
        }
        let construct = format!("the order of {scalar} with ANY or ALL");
        Err(self
            .unsupported(&construct, syntax)
            .help("compare with min or max of the values"))
    }

    fn quantified_subquery(
        &mut self,
        left: &Expr,
        relation: Relation,
        query: &ast::Query,
        all: bool,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let left: Vec<&Expr> = match peeled(left) {
            Expr::Tuple(list) => list.iter().collect(),
            other => vec![other],
        };
        if left.len() > 1
            && !matches!(
                (relation, all),
                (Relation::Equal, false) | (Relation::NotEqual, true)
            )
        {
            return Err(self.unsupported(
                "a row compared with a subquery otherwise than by IN",
                syntax,
            ));
        }
        let mut bounds = Vec::new();
        for side in &left {
            bounds.push(self.expression(side)?);
        }
        let mut query = self.subquery(query)?;
        if query.columns.len() != bounds.len() {
            let message = if query.columns.len() > bounds.len() {
                "subquery has too many columns"
            } else {
                "subquery has too few columns"
            };
            return Err(self.error("42601", message, syntax));
        }
        let mut sides = Vec::new();
        for (place, bound) in bounds.into_iter().enumerate() {
            let data_type = query.columns[place].1.clone();
            self.check_label_order(relation, &data_type, syntax)?;
            let probe = Bound::new(Expression::Variable(usize::MAX), data_type.clone());
            let (side, probe) = self.comparable(bound, relation.symbol(), probe, syntax)?;
            if !matches!(probe, Expression::Variable(_)) {
                self.cast_output(&mut query, place, probe);
            }
            sides.push(side);
        }
        let kind = SubqueryKind::Quantified {
            left: sides.clone(),
            relation,
            all,
        };
        Ok(self.add_subquery(kind, query, sides, DataType::Bool))
    }

    /// Casts a query's output column; `probe` is the cast of a placeholder.
    fn cast_output(&mut self, query: &mut crate::plan::Query, place: usize, probe: Expression) {
        if let Expression::Cast {
            from, to, explicit, ..
        } = probe
        {
            super::query::cast_column(query, place, &from, &to, explicit);
        }
    }

    /// Makes a bound subquery a source of the query that it stands in.
    pub(crate) fn add_subquery(
        &mut self,
        kind: SubqueryKind,
        query: crate::plan::Query,
        left: Vec<Expression>,
        data_type: DataType,
    ) -> Bound {
        let grouped = self.scope().aggregates_allowed && !self.scope().in_aggregate;
        let scope = self.scope();
        let source = scope.allocate_source();
        let mut references = std::mem::take(&mut scope.inner_references);
        for side in &left {
            side.each_column(&mut |source, column| references.push((source, column)));
        }
        scope.subqueries.push(Subquery {
            source,
            kind,
            query,
            references,
            grouped,
        });
        Bound::new(
            Expression::Column {
                depth: 0,
                source,
                column: 0,
            },
            data_type,
        )
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let operand = operand
            .map(|operand| self.expression(operand))
            .transpose()?;
        let mut tests = Vec::new();
        let mut results = Vec::new();
        for when in conditions {
            tests.push(match &operand {
                None => self.condition(&when.condition)?,
                Some(operand) => {
                    let value = self.expression(&when.condition)?;
                    self.compare(operand.clone(), Relation::Equal, value, &when.condition)?
                }
            });
            results.push(self.expression(&when.result)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.expression(otherwise)?,
            None => Bound::untyped(Expression::NULL),
        });
        let (mut results, data_type) = self.unify(results, "CASE", syntax)?;
        let otherwise = Box::new(results.pop().expect("ELSE was pushed"));
        let branches: Vec<_> = tests.into_iter().zip(results).collect();
        Ok(Bound::new(switch(branches, otherwise).folded(), data_type))
    }

    fn array(&mut self, elements: &[Expr], syntax: &Expr) -> Bind<Bound> {
        let mut bounds = Vec::new();
        for element in elements {
            bounds.push(self.expression(element)?);
        }
        if bounds.is_empty() {
            // Its type comes from a cast around it: '{}' of unknown type.
            let empty = Expression::Constant(Value::text("{}"));
            return Ok(Bound::untyped(empty));
        }
        let (elements, data_type) = self.unify(bounds, "ARRAY", syntax)?;
        if let DataType::Array(_) = data_type {
            return Err(self.unsupported("an array of more than one dimension", syntax));
        }
        let data_type = DataType::Array(Box::new(data_type));
        Ok(Bound::new(Expression::Array(elements).folded(), data_type))
    }

    fn field_access(
        &mut self,
        root: &Expr,
        chain: &[ast::AccessExpr],
        syntax: &Expr,
    ) -> Bind<Bound> {
        if let Some(field) = self.record_field(root, chain, syntax)? {
            return Ok(field);
        }
        // `source.column[…]` is parsed as a field of what `source` names.
        if let (
            Expr::Identifier(source),
            [ast::AccessExpr::Dot(Expr::Identifier(column)), rest @ ..],
        ) = (root, chain)
            && !rest.is_empty()
        {
            let column = Expr::CompoundIdentifier(vec![source.clone(), column.clone()]);
            return self.field_access(&column, rest, syntax);
        }
        let mut bound = self.expression(root)?;
        for access in chain {
            if let ast::AccessExpr::Subscript(ast::Subscript::Slice {
                lower_bound,
                upper_bound,
                stride: None,
            }) = access
            {
                if chain.len() > 1 {
                    return Err(self.unsupported("a slice beside another subscript", syntax));
                }
                bound = self.slice(bound, lower_bound.as_ref(), upper_bound.as_ref(), syntax)?;
                continue;
            }
            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else {
                return Err(self.unsupported("this field access", syntax));
            };
            if bound.data_type == Some(DataType::Jsonb) && self.has_json() {
                bound = self.json_subscript(bound, index, syntax)?;
                continue;
            }
            let lower = super::from::lower_bound(bound.data_type.as_ref());
            let element = bound
                .data_type
                .as_ref()
                .and_then(DataType::element)
                .cloned();
            let Some(element) = element else {
                let shown = bound
                    .data_type
                    .map_or("unknown".to_string(), |t| t.to_string());
                let message = format!(
                    "cannot subscript type {shown} because it does not support subscripting"
                );
                return Err(self.error("42804", message, syntax));
            };
            let index = self.expression_as(index, &DataType::Int4, Context::Assignment)?;
            let index = match lower {
                1 => index,
                _ => Expression::Arithmetic {
                    operator: Operator::Add,
                    domain: Domain::Int4,
                    left: Box::new(index),
                    right: Box::new(Expression::Constant(Value::Int(1 - lower))),
                },
            };
            let (array, index) = (Box::new(bound.expression), Box::new(index));
            bound = Bound::new(Expression::Subscript(array, index).folded(), element);
        }
        Ok(bound)
    }

    /// `(source.record).field`, where the record is a function's row in the list of a query in FROM.
    fn record_field(
        &mut self,
        root: &Expr,
        chain: &[ast::AccessExpr],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        let [ast::AccessExpr::Dot(Expr::Identifier(field))] = chain else {
            return Ok(None);
        };
        let (qualifier, record) = match peeled(root) {
            Expr::Identifier(record) => (None, fold(record)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, record] => (Some(fold(qualifier)), fold(record)),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let name = super::system::field_name(&record, &fold(field));
        self.column(qualifier.as_deref(), &name, syntax)
    }

    /// `operand COLLATE collation`: every text is compared in the order of "C".
    fn collated(
        &mut self,
        operand: &Expr,
        collation: &ast::ObjectName,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let name = self.simple_name(collation)?;
        if !matches!(name.as_str(), "default" | "C" | "POSIX" | "ucs_basic") {
            return Err(self
                .unsupported(&format!("the collation \"{name}\""), syntax)
                .help("text is compared in the order of \"C\""));
        }
        let bound = self.expression(operand)?;
        match &bound.data_type {
            Some(other) if !other.is_text() => {
                let message = format!("collations are not supported by type {other}");
                Err(self.error("42804", message, syntax))
            }
            _ => Ok(bound),
        }
    }

    /// A constant interval, if the expression is one.
    pub(crate) fn interval(&self, syntax: &Expr) -> Bind<Option<datetime::Interval>> {
        let text_of = |value: &Expr| match value {
            Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        };
        let text = match peeled(syntax) {
            Expr::Interval(interval) => {
                let unit = interval
                    .leading_field
                    .as_ref()
                    .map(|field| format!(" {field}"));
                text_of(&interval.value).map(|text| text + unit.as_deref().unwrap_or(""))
            }
            Expr::Cast {
                expr,
                data_type: ast::DataType::Interval { .. },
                ..
            } => text_of(expr),
            Expr::TypedString(typed)
                if matches!(typed.data_type, ast::DataType::Interval { .. }) =>
            {
                match &typed.value.value {
                    ast::Value::SingleQuotedString(text) => Some(text.clone()),
                    _ => None,
                }
            }
            _ => return Ok(None),
        };
        match text.as_deref().and_then(datetime::parse_interval) {
            Some(interval) => Ok(Some(interval)),
            None => Err(self.unsupported("this interval", syntax)),
        }
    }

    /// A call of a function.
    pub(crate) fn call(
        function: Function,
        arguments: Vec<Expression>,
        data_type: DataType,
    ) -> Bound {
        Bound::new(
            Expression::Call {
                function,
                arguments,
            }
            .folded(),
            data_type,
        )
    }
}

/// CASE; one that compares the same operand each time evaluates it once.
fn switch(branches: Vec<(Expression, Expression)>, otherwise: Box<Expression>) -> Expression {
    let operand = match branches.first() {
        Some((
            Expression::Compare {
                relation: Relation::Equal,
                left,
                ..
            },
            _,
        )) => left.clone(),
        _ => {
            return Expression::Case {
                branches,
                otherwise,
            };
        }
    };
    let same = |test: &Expression| {
        matches!(test, Expression::Compare { relation: Relation::Equal, left, right }
            if *left == operand && matches!(**right, Expression::Constant(_)))
    };
    if branches.len() < 2 || operand.is_volatile() || !branches.iter().all(|(test, _)| same(test)) {
        return Expression::Case {
            branches,
            otherwise,
        };
    }
    let branches = branches
        .into_iter()
        .map(|(test, result)| match test {
            Expression::Compare { right, .. } => (*right, result),
            other => (other, result),
        })
        .collect();
    Expression::Switch {
        operand,
        branches,
        otherwise,
    }
}

/// Whether two names differ by one character.
fn near(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let prefix = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let suffix = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    (a.len() - suffix).max(b.len() - suffix) <= 1
}

/// A number that is cast to a float and that no numeric of ours holds, such as `1e300::float8`.
fn large_float(syntax: &Expr, to: &DataType) -> Option<Bound> {
    if !matches!(to, DataType::Real | DataType::Double) {
        return None;
    }
    let (sign, literal) = match peeled(syntax) {
        Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => ("-", peeled(expr)),
        other => ("", other),
    };
    let Expr::Value(value) = literal else {
        return None;
    };
    let ast::Value::Number(digits, _) = &value.value else {
        return None;
    };
    if anabranch_types::Decimal::parse(digits).is_ok() {
        return None;
    }
    let text = format!("{sign}{digits}");
    let value = anabranch_types::text::parse_value(&text, to, &anabranch_types::TimeZone::UTC);
    Some(Bound::new(Expression::Constant(value.ok()?), to.clone()))
}
