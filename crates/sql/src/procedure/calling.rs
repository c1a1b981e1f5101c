//! Calls of procedures within a procedure: as a statement, and within expressions, where they run before the
//! expression is evaluated.

use sqlparser::ast::{self, Expr};

use super::{Code, Computed, Receiver, compile::Unit};
use crate::{
    bind::{Bind, convert::is_nothing},
    diagnostic::Diagnostic,
    source::Span,
};

/// The maximum of statements in the procedures that one procedure calls, through all levels and counted for each call:
/// calls that double at each level would take forever to analyse.
const CALLED_STATEMENTS_MAX: u32 = 2_000;

impl Unit<'_> {
    /// An expression with variables in the place of the procedures that it calls, which are called first; None where
    /// it calls none where it is always evaluated.
    pub(super) fn hoisted(
        &mut self,
        value: &Expr,
        span: Span,
        codes: &mut Vec<Code>,
    ) -> Bind<Option<Expr>> {
        if !self.reads_no_rows(value) {
            return Ok(None);
        }
        let mut changed = value.clone();
        let found = self.hoist(&mut changed, span, codes)?;
        Ok(found.then_some(changed))
    }

    /// Whether the effects of called procedures cannot change an expression: it reads variables alone.
    fn reads_no_rows(&self, value: &Expr) -> bool {
        match value {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => true,
            Expr::TypedString(_) => true,
            Expr::Nested(inner)
            | Expr::UnaryOp { expr: inner, .. }
            | Expr::Cast { expr: inner, .. }
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner) => self.reads_no_rows(inner),
            Expr::BinaryOp { left, right, .. } => {
                self.reads_no_rows(left) && self.reads_no_rows(right)
            }
            Expr::Function(function) if self.is_procedure(&function.name) => true,
            Expr::Function(function) => match &function.args {
                ast::FunctionArguments::None => true,
                ast::FunctionArguments::Subquery(_) => false,
                ast::FunctionArguments::List(list) => list.args.iter().all(|argument| {
                    matches!(argument, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value))
                        if self.reads_no_rows(value))
                }),
            },
            _ => false,
        }
    }

    /// Whether any was called.
    fn hoist(&mut self, value: &mut Expr, span: Span, codes: &mut Vec<Code>) -> Bind<bool> {
        use ast::BinaryOperator::{And, Or};
        match value {
            Expr::Function(function) if self.is_procedure(&function.name) => {
                let name = self.binder(span).simple_name(&function.name)?;
                let mut done = self.compiler.done.iter();
                let done = done.find(|done| done.name == name);
                let only = done.filter(|done| done.columns.len() == 1);
                let Some((_, data_type)) = only.and_then(|done| done.columns.first()) else {
                    // Its errors have the place of the call.
                    codes.push(self.call(function, &[], true, span)?);
                    return Ok(false);
                };
                let variable = format!("{name}() {}", self.names.types.len());
                let data_type = data_type.clone();
                self.names.declare(&variable, data_type, false);
                let into = std::slice::from_ref(&variable);
                codes.push(self.call(function, into, false, span)?);
                *value = Expr::Identifier(ast::Ident::with_quote('"', variable));
                Ok(true)
            }
            Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => {
                self.hoist(inner, span, codes)
            }
            Expr::Cast { expr: inner, .. } => self.hoist(inner, span, codes),
            Expr::BinaryOp { left, op, right } if !matches!(op, And | Or) => {
                let first = self.hoist(left, span, codes)?;
                Ok(self.hoist(right, span, codes)? || first)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn is_procedure(&self, name: &ast::ObjectName) -> bool {
        let last = name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .map(crate::bind::fold);
        last.is_some_and(|last| {
            self.compiler
                .catalog
                .procedures
                .iter()
                .any(|p| p.name == last)
        })
    }

    /// The procedure that `SELECT procedure(…)` calls.
    pub(super) fn called<'q>(&self, query: &'q ast::Query) -> Option<&'q ast::Function> {
        let ast::SetExpr::Select(select) = &*query.body else {
            return None;
        };
        let ([ast::SelectItem::UnnamedExpr(Expr::Function(function))], []) =
            (select.projection.as_slice(), select.from.as_slice())
        else {
            return None;
        };
        self.is_procedure(&function.name).then_some(function)
    }

    pub(super) fn call(
        &mut self,
        function: &ast::Function,
        into: &[String],
        performed: bool,
        span: Span,
    ) -> Bind<Code> {
        let name = self.binder(span).simple_name(&function.name)?;
        let Some(procedure) = self
            .compiler
            .done
            .iter()
            .find(|done| done.name == name)
            .cloned()
        else {
            if self
                .compiler
                .catalog
                .procedures
                .iter()
                .any(|p| p.name == name)
            {
                let construct = "a call of a procedure that is declared later, or of itself,";
                return Err(Diagnostic::unsupported(construct, span));
            }
            return Err(Diagnostic::new(
                "42883",
                format!("procedure {name} does not exist"),
                span,
            ));
        };
        let arguments: Vec<Expr> = self
            .binder(span)
            .plain_arguments(&function.args, &function.name)?
            .into_iter()
            .cloned()
            .collect();
        if arguments.len() > procedure.parameters.len() {
            let message = format!(
                "procedure {name} takes {} arguments",
                procedure.parameters.len()
            );
            return Err(Diagnostic::new("42883", message, span));
        }
        let mut computed = Vec::new();
        for (argument, (_, data_type)) in arguments.iter().zip(&procedure.parameters) {
            computed.push(self.computed(argument, Some(data_type), span)?.0);
        }
        for default in &procedure.defaults[arguments.len()..] {
            let Some(default) = default else {
                let message = format!(
                    "procedure {name} takes {} arguments",
                    procedure.parameters.len()
                );
                return Err(Diagnostic::new("42883", message, span));
            };
            computed.push(Computed::Pure(default.clone()));
        }
        let mut receivers = Vec::new();
        for (target, (_, from)) in into.iter().zip(procedure.columns.iter()) {
            let slot = self.scalar(target, span)?;
            if !is_nothing(from, &self.names.types[slot]) {
                return Err(Diagnostic::unsupported(
                    "a call's result in a variable of another type",
                    span,
                ));
            }
            receivers.push(Receiver::plain(slot));
        }
        let offset = self.called_statements;
        self.called_statements += procedure.statements_in_all();
        if self.called_statements > CALLED_STATEMENTS_MAX {
            let message = format!(
                "the procedures that this one calls, through all levels, have more than \
                 {CALLED_STATEMENTS_MAX} statements, each counted once a call"
            );
            return Err(Diagnostic::new("54001", message, span));
        }
        Ok(Code::Call {
            procedure,
            offset,
            arguments: computed,
            into: receivers,
            performed,
        })
    }
}
