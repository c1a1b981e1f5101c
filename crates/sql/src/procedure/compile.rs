//! Compiles parsed bodies to [`Code`].

use std::sync::Arc;

use anabranch_types::{DataType, Value};
use sqlparser::ast::{self, Expr};

use super::{
    Code, CompiledProcedure, Computed, FOUND, Outcome, Receiver, ResultCast, Site,
    names::{Names, Target},
};
use crate::{
    bind::{
        Bind, Binder,
        convert::{Context, exists, is_nothing, unbounded},
        modify::Shared,
        operator::peeled,
        scope::Scope,
        with::changes_data,
    },
    catalog::{self, Block, Catalog, ParameterMode, RaiseLevel, Returns, VariableType},
    constraint::Constraints,
    diagnostic::Diagnostic,
    expression::Expression,
    plan::{Body, Finish, Query, Select, Step, statement::Statement},
    program::Programs,
    source::Span,
    summary::Deferral,
};

/// Compiles procedures one after the other; a procedure may call those before it.
pub(crate) struct Compiler<'c> {
    pub(crate) catalog: &'c Catalog,
    pub(crate) constraints: &'c Arc<Constraints>,
    pub(crate) programs: &'c Programs,
    pub(crate) done: &'c [Arc<CompiledProcedure>],
}

/// A procedure while it is compiled.
pub(super) struct Unit<'c> {
    pub(super) compiler: &'c Compiler<'c>,
    pub(super) names: Names,
    sites: Vec<Site>,
    pub(super) called_statements: u32,
    loops: usize,
    returns: Returns,
    /// The variables of RETURNS TABLE or of OUT parameters.
    outputs: Vec<usize>,
    found: usize,
}

impl Compiler<'_> {
    /// Compiles a procedure. Its statements are numbered from `first_statement`.
    pub(crate) fn compile(
        &self,
        procedure: &catalog::Procedure,
        first_statement: u32,
    ) -> Bind<CompiledProcedure> {
        let mut unit = Unit {
            compiler: self,
            names: Names::new(&procedure.name),
            sites: Vec::new(),
            called_statements: 0,
            loops: 0,
            returns: procedure.returns.clone(),
            outputs: Vec::new(),
            found: 0,
        };
        unit.names.column_wins = is_sql_body(&procedure.body);
        let mut parameters = Vec::new();
        let mut defaults = Vec::new();
        let inputs = procedure
            .parameters
            .iter()
            .filter(|p| p.mode != ParameterMode::Out);
        let mut slots = Vec::new();
        for parameter in inputs {
            // PostgreSQL ignores the bounds of parameters' types.
            let data_type = parameter.data_type.clone();
            let slot = unit
                .names
                .declare_parameter(&parameter.name, data_type.clone());
            slots.push((parameter.name.clone(), slot));
            parameters.push((parameter.name.clone(), data_type.clone()));
            let default = parameter.default.as_ref();
            let default = default
                .map(|d| unit.pure(d, &data_type, procedure.span))
                .transpose()?;
            defaults.push(default);
        }
        let mut columns = Vec::new();
        for parameter in procedure
            .parameters
            .iter()
            .filter(|p| p.mode != ParameterMode::In)
        {
            let slot = match slots.iter().find(|(name, _)| *name == parameter.name) {
                Some((_, slot)) if parameter.mode == ParameterMode::InOut => *slot,
                _ => unit
                    .names
                    .declare(&parameter.name, parameter.data_type.clone(), false),
            };
            unit.outputs.push(slot);
            columns.push((parameter.name.clone(), parameter.data_type.clone()));
        }
        let result = match &procedure.returns {
            Returns::Parameters => Outcome::Variables(unit.outputs.clone()),
            Returns::Scalar(data_type) => {
                columns = vec![(procedure.name.clone(), data_type.clone())];
                Outcome::Scalar
            }
            Returns::Table(table) => {
                if unit.outputs.is_empty() {
                    for (name, data_type) in table {
                        let slot = unit.names.declare(name, data_type.clone(), false);
                        unit.outputs.push(slot);
                    }
                }
                columns = table.clone();
                Outcome::Rows(unit.outputs.clone())
            }
        };
        unit.found = unit.names.declare(FOUND, DataType::Bool, false);
        let mut body = unit.block(&procedure.body)?;
        if procedure.is_strict {
            let inputs: Vec<usize> = slots.iter().map(|(_, slot)| *slot).collect();
            if let Some(code) = unit.null_for_null(&inputs, &result, procedure.span)? {
                body.insert(0, code);
            }
        }
        let mut compiled = CompiledProcedure {
            name: procedure.name.clone(),
            span: procedure.span,
            keeps: procedure.keeps.clone(),
            parameters,
            defaults,
            slot_names: unit.names.slot_names,
            variables: unit.names.types,
            body,
            statements: unit.sites,
            first_statement,
            called_statements: unit.called_statements,
            result,
            found: unit.found,
            columns: columns.into(),
            constraints: self.constraints.clone(),
        };
        compiled.settle_deferral();
        Ok(compiled)
    }
}

/// Whether a body looks like that of a `LANGUAGE SQL` function: statements alone.
fn is_sql_body(body: &Block) -> bool {
    body.variables.is_empty()
        && body
            .statements
            .iter()
            .all(|(statement, _)| match statement {
                catalog::Statement::Sql { into, .. } => into.is_empty(),
                catalog::Statement::ReturnQuery(_) => true,
                _ => false,
            })
}

impl Unit<'_> {
    /// The beginning of a STRICT function: it returns NULL, or no rows, if an argument is NULL.
    fn null_for_null(&self, inputs: &[usize], result: &Outcome, span: Span) -> Bind<Option<Code>> {
        let test = |slot: &usize| Expression::IsNull {
            operand: Box::new(Expression::Variable(*slot)),
            negated: false,
        };
        let null = || Computed::Pure(Expression::NULL);
        let mut codes = Vec::new();
        match result {
            // PostgreSQL gives NULL, which is not what such a function gives otherwise.
            Outcome::Variables(outputs) if outputs.is_empty() => {
                return Err(Diagnostic::unsupported(
                    "STRICT of a function that returns void",
                    span,
                )
                .help("test for NULL in its body"));
            }
            Outcome::Variables(outputs) => {
                let cleared = outputs.iter().map(|slot| Code::Assign {
                    slot: *slot,
                    value: null(),
                });
                codes.extend(cleared);
                codes.push(Code::Return(None));
            }
            Outcome::Scalar => codes.push(Code::Return(Some(null()))),
            Outcome::Rows(_) => codes.push(Code::Return(None)),
        }
        if inputs.is_empty() {
            return Ok(None);
        }
        let condition = Expression::Or(inputs.iter().map(test).collect());
        Ok(Some(Code::If {
            branches: vec![(Computed::Pure(condition), codes)],
            otherwise: Vec::new(),
        }))
    }

    pub(super) fn binder(&self, place: Span) -> Binder<'_> {
        let mut binder = Binder::new(self.compiler.catalog, &self.names, place);
        binder.scopes.clear();
        binder.stored = self.names.of_schema;
        binder
    }

    /// An expression without subqueries, in a type.
    fn pure(&self, syntax: &Expr, to: &DataType, place: Span) -> Bind<Expression> {
        let mut binder = self.binder(place);
        binder.scopes.push(Scope {
            clause: "expressions",
            ..Scope::default()
        });
        let expression = binder.expression_as(syntax, to, Context::Assignment)?;
        if binder.scope().subqueries.is_empty() {
            Ok(expression)
        } else {
            Err(Diagnostic::unsupported("a subquery here", place))
        }
    }

    /// An expression in a type; `None` takes the expression's own.
    pub(super) fn computed(
        &mut self,
        syntax: &Expr,
        to: Option<&DataType>,
        place: Span,
    ) -> Bind<(Computed, DataType)> {
        let mut binder = self.binder(place);
        binder.scopes.push(Scope {
            clause: "expressions",
            ..Scope::default()
        });
        let bound = binder.expression(syntax)?;
        let (expression, data_type) = match to {
            Some(to) => (
                binder.coerce(bound, to, Context::Assignment, syntax)?,
                to.clone(),
            ),
            None => binder.settled(bound, syntax)?,
        };
        let term = binder.term(&expression);
        let mut scope = binder.scopes.pop().expect("it was pushed");
        if scope.subqueries.is_empty() && !expression.is_volatile() {
            return Ok((Computed::Pure(expression), data_type));
        }
        let steps = scope
            .subqueries
            .drain(..)
            .map(|subquery| Step::Subquery {
                source: subquery.source,
                subquery: Box::new(subquery),
            })
            .collect();
        let uniques = expression.uniques();
        let select = Select {
            stride: scope.extra_sources + 1,
            steps,
            projection: vec![expression],
            finish: Finish {
                visible: 1,
                ..Finish::default()
            },
            uniques,
        };
        let columns = vec![("?column?".to_string(), data_type.clone())];
        let query = Query {
            ctes: Vec::new(),
            body: Body::Select(Box::new(select)),
            columns: columns.clone(),
            correlated: false,
            terms: vec![term.clone()],
        };
        let accesses = std::mem::take(&mut binder.accesses);
        let statement = Statement::query(query, accesses, place);
        let site = self.site(statement);
        Ok((Computed::Query { site }, data_type))
    }

    fn condition(&mut self, syntax: &Expr, place: Span) -> Bind<Computed> {
        Ok(self.computed(syntax, Some(&DataType::Bool), place)?.0)
    }

    fn site(&mut self, statement: Statement) -> usize {
        self.sites.push(Site {
            statement,
            in_loop: self.loops > 0,
            deferral: Deferral::None,
        });
        self.sites.len() - 1
    }

    fn block(&mut self, block: &Block) -> Bind<Vec<Code>> {
        let mark = self.names.enter();
        let mut codes = Vec::new();
        for variable in &block.variables {
            let data_type = match &variable.data_type {
                VariableType::Data(data_type) => data_type.clone(),
                VariableType::Record => {
                    self.names.declare_record(&variable.name, None);
                    continue;
                }
                VariableType::Row(columns) => {
                    // In a loop it would have to be NULL again in each round.
                    let columns = (self.loops == 0).then(|| columns.clone());
                    self.names.declare_record(&variable.name, columns);
                    continue;
                }
            };
            // The default does not see the variable itself.
            let value = match &variable.default {
                Some(default) => self.computed(default, Some(&data_type), variable.span)?.0,
                None => Computed::Pure(Expression::NULL),
            };
            let slot = self
                .names
                .declare(&variable.name, data_type, variable.constant);
            if variable.default.is_some() || self.loops > 0 {
                codes.push(Code::Assign { slot, value });
            }
        }
        codes.extend(self.statements(&block.statements)?);
        self.names.leave(mark);
        Ok(codes)
    }

    fn statements(&mut self, list: &[(catalog::Statement, Span)]) -> Bind<Vec<Code>> {
        let mut codes = Vec::new();
        for (statement, span) in list {
            self.statement(statement, *span, &mut codes)?;
        }
        Ok(codes)
    }

    fn looped(&mut self, list: &[(catalog::Statement, Span)]) -> Bind<Vec<Code>> {
        self.loops += 1;
        let codes = self.statements(list);
        self.loops -= 1;
        codes
    }

    fn statement(
        &mut self,
        statement: &catalog::Statement,
        span: Span,
        codes: &mut Vec<Code>,
    ) -> Bind<()> {
        use catalog::Statement as S;
        let code = match statement {
            S::Sql {
                statement,
                into,
                strict,
            } => match &**statement {
                ast::Statement::Call(function) => self.call(function, into, false, span)?,
                _ => self.sql(statement, into, *strict, span)?,
            },
            S::Perform(query) => self.perform(query, span)?,
            S::Assign {
                target,
                index,
                value,
            } => return self.assign(target, index.as_ref(), value, span, codes),
            S::If {
                branches,
                otherwise,
            } => self.branches(branches, otherwise, span, codes)?,
            S::ForRange {
                variable,
                from,
                to,
                by,
                reverse,
                body,
            } => self.for_range(variable, (from, to, by.as_ref()), *reverse, body, span)?,
            S::ForQuery {
                targets,
                query,
                body,
            } => self.for_query(targets, query, body, span)?,
            S::ForEach {
                target,
                array,
                body,
            } => self.for_each(target, array, body, span)?,
            S::While { condition, body } => {
                self.loops += 1;
                let condition = self.condition(condition, span);
                self.loops -= 1;
                Code::While {
                    condition: condition?,
                    body: self.looped(body)?,
                }
            }
            S::Exit { levels, condition } => {
                Code::Exit(*levels, self.optional_condition(condition.as_ref(), span)?)
            }
            S::Continue { levels, condition } => {
                Code::Continue(*levels, self.optional_condition(condition.as_ref(), span)?)
            }
            S::Case {
                operand,
                branches,
                otherwise,
            } => return self.case(operand, branches, otherwise, span, codes),
            S::Raise {
                level,
                format,
                arguments,
                code,
                fields,
            } => {
                let fields = fields.iter().map(|(field, value)| {
                    let (value, data_type) = self.computed(value, None, span)?;
                    Ok((*field, value, data_type))
                });
                let fields: Vec<_> = fields.collect::<Bind<_>>()?;
                let mut raise = self.raise(*level, format, arguments, code.as_deref(), span)?;
                if let Code::Raise { fields: of, .. } = &mut raise {
                    *of = fields;
                }
                raise
            }
            S::Return(value) => {
                let hoisted = match value {
                    Some(value) => self.hoisted(value, span, codes)?,
                    None => None,
                };
                self.return_value(hoisted.as_ref().or(value.as_ref()), span)?
            }
            S::ReturnQuery(query) => self.return_query(query, span)?,
            S::ReturnNext(value) => self.return_next(value.as_ref(), span)?,
            S::RowCount(target) => Code::RowCount {
                slot: self.scalar(target, span)?,
            },
            S::Block(block) => {
                codes.extend(self.block(block)?);
                return Ok(());
            }
            S::Null => return Ok(()),
        };
        codes.push(code);
        Ok(())
    }

    fn perform(&mut self, query: &ast::Query, span: Span) -> Bind<Code> {
        if let Some(function) = self.called(query) {
            return self.call(function, &[], true, span);
        }
        let site = self.query_site(query, span)?;
        Ok(Code::Sql {
            site,
            into: Vec::new(),
            strict: false,
        })
    }

    fn branches(
        &mut self,
        branches: &[(ast::Expr, Vec<(catalog::Statement, Span)>)],
        otherwise: &[(catalog::Statement, Span)],
        span: Span,
        codes: &mut Vec<Code>,
    ) -> Bind<Code> {
        let mut compiled = Vec::new();
        for (at, (condition, body)) in branches.iter().enumerate() {
            // Later conditions may not be evaluated.
            let first = match at {
                0 => self.hoisted(condition, span, codes)?,
                _ => None,
            };
            let condition = first.as_ref().unwrap_or(condition);
            compiled.push((self.condition(condition, span)?, self.statements(body)?));
        }
        Ok(Code::If {
            branches: compiled,
            otherwise: self.statements(otherwise)?,
        })
    }

    /// CASE with an operand: a variable has its value, as in PostgreSQL, and each branch compares it.
    fn case(
        &mut self,
        operand: &ast::Expr,
        branches: &[catalog::CaseBranch],
        otherwise: &[(catalog::Statement, Span)],
        span: Span,
        codes: &mut Vec<Code>,
    ) -> Bind<()> {
        let hoisted = self.hoisted(operand, span, codes)?;
        let (value, data_type) = self.computed(hoisted.as_ref().unwrap_or(operand), None, span)?;
        let mark = self.names.enter();
        let name = format!("__Case__Variable_{}__", self.names.types.len());
        let slot = self.names.declare(&name, data_type, false);
        codes.push(Code::Assign { slot, value });
        let variable = Expr::Identifier(ast::Ident::with_quote('"', name));
        let mut compiled = Vec::new();
        for (values, body) in branches {
            let condition = Expr::InList {
                expr: Box::new(variable.clone()),
                list: values.clone(),
                negated: false,
            };
            compiled.push((self.condition(&condition, span)?, self.statements(body)?));
        }
        let otherwise = self.statements(otherwise)?;
        self.names.leave(mark);
        codes.push(Code::If {
            branches: compiled,
            otherwise,
        });
        Ok(())
    }

    fn for_range(
        &mut self,
        variable: &str,
        (from, to, by): (&ast::Expr, &ast::Expr, Option<&ast::Expr>),
        reverse: bool,
        body: &[(catalog::Statement, Span)],
        span: Span,
    ) -> Bind<Code> {
        let int = DataType::Int4;
        let from = self.computed(from, Some(&int), span)?.0;
        let to = self.computed(to, Some(&int), span)?.0;
        let by = by
            .map(|by| self.computed(by, Some(&int), span))
            .transpose()?;
        let mark = self.names.enter();
        let slot = self.names.declare(variable, int, false);
        let body = self.looped(body)?;
        self.names.leave(mark);
        Ok(Code::ForRange {
            slot,
            from,
            to,
            by: by.map(|by| by.0),
            reverse,
            body,
        })
    }

    fn for_query(
        &mut self,
        targets: &[String],
        query: &ast::Statement,
        body: &[(catalog::Statement, Span)],
        span: Span,
    ) -> Bind<Code> {
        let ast::Statement::Query(select) = query else {
            return Err(Diagnostic::unsupported(
                "a loop over anything but a query",
                span,
            ));
        };
        if changes_data(select) {
            let construct = "a loop over the rows of a statement that changes data";
            return Err(Diagnostic::unsupported(construct, span));
        }
        let statement = self.bound_query(select, span)?;
        let targets = self.into(targets, &statement, span)?;
        let site = self.site(statement);
        let body = self.looped(body)?;
        Ok(Code::ForQuery {
            site,
            targets,
            body,
        })
    }

    fn for_each(
        &mut self,
        target: &str,
        array: &ast::Expr,
        body: &[(catalog::Statement, Span)],
        span: Span,
    ) -> Bind<Code> {
        let (array, data_type) = self.computed(array, None, span)?;
        let DataType::Array(element) = data_type else {
            return Err(Diagnostic::new(
                "42804",
                "FOREACH expression must yield an array",
                span,
            ));
        };
        let slot = self.scalar(target, span)?;
        if !is_nothing(&element, &self.names.types[slot]) {
            return Err(Diagnostic::unsupported(
                "FOREACH over elements of another type",
                span,
            ));
        }
        let body = self.looped(body)?;
        Ok(Code::ForEach { slot, array, body })
    }

    fn return_next(&mut self, value: Option<&ast::Expr>, span: Span) -> Bind<Code> {
        let data_type = match &self.returns {
            Returns::Table(columns) if columns.len() == 1 => Some(columns[0].1.clone()),
            _ => None,
        };
        let value = match (value, data_type) {
            (None, _) => None,
            (Some(value), Some(to)) => Some(self.computed(value, Some(&to), span)?.0),
            (Some(_), None) => {
                return Err(Diagnostic::unsupported("RETURN NEXT of a record", span));
            }
        };
        Ok(Code::ReturnNext(value))
    }

    fn optional_condition(
        &mut self,
        condition: Option<&ast::Expr>,
        span: Span,
    ) -> Bind<Option<Computed>> {
        condition.map(|of| self.condition(of, span)).transpose()
    }

    /// A scalar target's slot.
    pub(super) fn scalar(&self, name: &str, span: Span) -> Bind<usize> {
        match self.names.target(name) {
            Target::Scalar(slot) => Ok(slot),
            Target::Constant => {
                let message = format!("variable \"{name}\" is declared CONSTANT");
                Err(Diagnostic::new("22005", message, span))
            }
            Target::Record => Err(Diagnostic::unsupported("a record as a scalar target", span)),
            Target::NoField => {
                let (record, field) = name.split_once('.').unwrap_or((name, ""));
                let message = format!("record \"{record}\" has no field \"{field}\"");
                Err(Diagnostic::new("42703", message, span))
            }
            Target::Unassigned => {
                let construct = "assignment to a field of a record before it has a row";
                Err(Diagnostic::unsupported(construct, span))
            }
            Target::Unknown => Err(Diagnostic::new(
                "42601",
                format!("\"{name}\" is not a known variable"),
                span,
            )),
        }
    }

    fn assign(
        &mut self,
        target: &str,
        index: Option<&Expr>,
        value: &Expr,
        span: Span,
        codes: &mut Vec<Code>,
    ) -> Bind<()> {
        self.names.shape_row(target);
        let slot = self.scalar(target, span)?;
        let data_type = self.names.types[slot].clone();
        if let (None, Expr::Function(function)) = (index, peeled(value))
            && self.is_procedure(&function.name)
        {
            codes.push(self.call(function, &[target.to_string()], false, span)?);
            return Ok(());
        }
        let hoisted = self.hoisted(value, span, codes)?;
        let value = hoisted.as_ref().unwrap_or(value);
        let code = match index {
            None => Code::Assign {
                slot,
                value: self.computed(value, Some(&data_type), span)?.0,
            },
            Some(index) => {
                let DataType::Array(element) = &data_type else {
                    let message = format!(
                        "cannot subscript type {data_type} because it does not support subscripting"
                    );
                    return Err(Diagnostic::new("42804", message, span));
                };
                let index = self.computed(index, Some(&DataType::Int4), span)?.0;
                let value = self.computed(value, Some(element), span)?.0;
                Code::AssignElement { slot, index, value }
            }
        };
        codes.push(code);
        Ok(())
    }

    fn bound_query(&self, query: &ast::Query, span: Span) -> Bind<Statement> {
        let mut binder = self.binder(span);
        query_statement(&mut binder, query, span)
    }

    fn query_site(&mut self, query: &ast::Query, span: Span) -> Bind<usize> {
        let statement = self.bound_query(query, span)?;
        Ok(self.site(statement))
    }

    /// The receivers of a statement's result.
    fn into(
        &mut self,
        targets: &[String],
        statement: &Statement,
        span: Span,
    ) -> Bind<Vec<Receiver>> {
        if let [target] = targets
            && let Target::Record = self.names.target(target)
        {
            let slots = self
                .names
                .shape(target, &statement.columns)
                .ok_or_else(|| {
                    Diagnostic::unsupported("a record that takes rows of different columns", span)
                })?;
            return Ok(slots.into_iter().map(Receiver::plain).collect());
        }
        let mut receivers = Vec::new();
        for (place, target) in targets.iter().enumerate() {
            let slot = self.scalar(target, span)?;
            let to = &self.names.types[slot];
            let cast = match statement.columns.get(place) {
                Some((_, from)) if !is_nothing(from, to) => {
                    if !exists(from, to, Context::Explicit) {
                        let message = format!("cannot cast type {from} to {to}");
                        return Err(Diagnostic::new("42846", message, span));
                    }
                    Some(ResultCast {
                        from: from.clone(),
                        to: to.clone(),
                    })
                }
                _ => None,
            };
            receivers.push(Receiver { slot, cast });
        }
        Ok(receivers)
    }

    fn sql(
        &mut self,
        syntax: &ast::Statement,
        into: &[String],
        strict: bool,
        span: Span,
    ) -> Bind<Code> {
        let mut into_types = Vec::new();
        for target in into {
            if let Target::Scalar(slot) = self.names.target(target) {
                into_types.push(self.names.types[slot].clone());
            }
        }
        let mut binder = self.binder(span);
        binder.into_types = into_types;
        let shared = Shared {
            constraints: self.compiler.constraints,
            programs: self.compiler.programs,
        };
        let statement = any_statement(&mut binder, syntax, span, &shared)?;
        if !into.is_empty() && statement.columns.is_empty() {
            return Err(Diagnostic::new(
                "42601",
                "INTO used with a command that cannot return data",
                span,
            ));
        }
        let into = self.into(into, &statement, span)?;
        let site = self.site(statement);
        Ok(Code::Sql { site, into, strict })
    }

    fn raise(
        &mut self,
        level: RaiseLevel,
        format: &str,
        arguments: &[Expr],
        code: Option<&str>,
        span: Span,
    ) -> Bind<Code> {
        let places = format.replace("%%", "").matches('%').count();
        if places != arguments.len() {
            let many = if places < arguments.len() {
                "many"
            } else {
                "few"
            };
            let message = format!("too {many} parameters specified for RAISE");
            return Err(Diagnostic::new("42601", message, span));
        }
        let mut compiled = Vec::new();
        for argument in arguments {
            compiled.push(self.computed(argument, None, span)?);
        }
        // Leaked: there are only as many as RAISE statements.
        let code = code.map_or(level.code(), |code| {
            &*Box::leak(code.to_string().into_boxed_str())
        });
        Ok(Code::Raise {
            level,
            format: format.to_string(),
            arguments: compiled,
            code,
            fields: Vec::new(),
        })
    }

    fn return_value(&mut self, value: Option<&Expr>, span: Span) -> Bind<Code> {
        let to = match (&self.returns, value) {
            (_, None) => return Ok(Code::Return(None)),
            (Returns::Scalar(data_type), Some(_)) => data_type.clone(),
            (Returns::Parameters, Some(_)) => {
                let message = "RETURN cannot have a parameter in function with OUT parameters";
                return Err(Diagnostic::new("42804", message, span));
            }
            (Returns::Table(_), Some(_)) => {
                let message = "RETURN cannot have a parameter in function returning set";
                return Err(Diagnostic::new("42804", message, span));
            }
        };
        let value = self
            .computed(value.expect("it is there"), Some(&to), span)?
            .0;
        Ok(Code::Return(Some(value)))
    }

    fn return_query(&mut self, query: &ast::Statement, span: Span) -> Bind<Code> {
        let mut binder = self.binder(span);
        let shared = Shared {
            constraints: self.compiler.constraints,
            programs: self.compiler.programs,
        };
        let wanted: Vec<DataType> = match &self.returns {
            Returns::Table(columns) => columns.iter().map(|(_, t)| t.clone()).collect(),
            Returns::Scalar(data_type) => vec![data_type.clone()],
            Returns::Parameters => self
                .outputs
                .iter()
                .map(|slot| self.names.types[*slot].clone())
                .collect(),
        };
        binder.into_types.clone_from(&wanted);
        let statement = any_statement(&mut binder, query, span, &shared)?;
        if statement.columns.len() != wanted.len() {
            if wanted.is_empty() {
                let site = self.site(statement);
                return Ok(Code::Sql {
                    site,
                    into: Vec::new(),
                    strict: false,
                });
            }
            let message = "structure of query does not match function result type";
            return Err(Diagnostic::new("42804", message, span));
        }
        let mut casts = Vec::new();
        for ((_, from), to) in statement.columns.iter().zip(wanted) {
            if !exists(from, &to, Context::Assignment) {
                let message = "structure of query does not match function result type";
                return Err(Diagnostic::new("42804", message, span));
            }
            casts.push((!is_nothing(from, &to)).then(|| ResultCast {
                from: from.clone(),
                to,
            }));
        }
        let site = self.site(statement);
        Ok(Code::ReturnQuery { site, casts })
    }
}

/// A query as a statement.
pub(crate) fn query_statement(
    binder: &mut Binder<'_>,
    query: &ast::Query,
    span: Span,
) -> Bind<Statement> {
    let bound = binder.query(query)?;
    let accesses = std::mem::take(&mut binder.accesses);
    Ok(Statement::query(bound, accesses, span))
}

/// Any statement that touches data.
pub(crate) fn any_statement(
    binder: &mut Binder<'_>,
    syntax: &ast::Statement,
    span: Span,
    shared: &Shared<'_>,
) -> Bind<Statement> {
    match syntax {
        ast::Statement::Query(query) if changes_data(query) => binder.changing(query, shared),
        ast::Statement::Query(query) => query_statement(binder, query, span),
        ast::Statement::Insert(insert) => binder.insert(insert, shared),
        ast::Statement::Update(update) => binder.update(update, shared),
        ast::Statement::Delete(delete) => binder.delete(delete),
        ast::Statement::Merge(merge) => binder.merge(merge, shared),
        other => {
            let text = other.to_string();
            let first: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(Diagnostic::unsupported(first.join(" "), span))
        }
    }
}

/// A boolean expression over the whole database as a statement: an assertion.
pub(crate) fn condition_statement(catalog: &Catalog, syntax: &Expr, span: Span) -> Bind<Statement> {
    let mut names = Names::new("");
    names.of_schema = true;
    let programs = Programs::default();
    let compiler = Compiler {
        catalog,
        constraints: &Arc::new(Constraints::default()),
        programs: &programs,
        done: &[],
    };
    let mut unit = Unit {
        compiler: &compiler,
        names,
        sites: Vec::new(),
        called_statements: 0,
        loops: 0,
        returns: Returns::Parameters,
        outputs: Vec::new(),
        found: 0,
    };
    match unit.computed(syntax, Some(&DataType::Bool), span)?.0 {
        Computed::Query { .. } => Ok(unit.sites.remove(0).statement),
        Computed::Pure(expression) => {
            let select = Select {
                stride: 1,
                steps: Vec::new(),
                projection: vec![expression],
                finish: Finish {
                    visible: 1,
                    ..Finish::default()
                },
                uniques: 0,
            };
            let columns = vec![("?column?".to_string(), DataType::Bool)];
            let query = Query {
                ctes: Vec::new(),
                body: Body::Select(Box::new(select)),
                columns: columns.clone(),
                correlated: false,
                terms: vec![crate::bind::term::RawTerm::Constant(Value::Null)],
            };
            Ok(Statement::query(query, Vec::new(), span))
        }
    }
}

/// The type without bounds that a parameter of unknown type gets; text where nothing is known.
pub(crate) fn parameter_type(found: Option<&DataType>) -> DataType {
    found.map_or(DataType::Text, unbounded)
}
