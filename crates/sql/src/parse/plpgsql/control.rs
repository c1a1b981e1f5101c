//! Parses the statements of PL/pgSQL itself: assignment, branches, loops, RETURN.

use sqlparser::{ast, tokenizer::Token as Kind};

use anabranch_types::DataType;

use super::{Body, Level, Statements, cursors};
use crate::{
    catalog::{RaiseField, RaiseLevel, Statement, VariableType},
    diagnostic::Diagnostic,
    parse::{
        cursor::{Cursor, Name, Parsed},
        declaration::ResultKind,
        sql_body,
    },
    source::Span,
};

impl Body<'_, '_> {
    /// One statement without its semicolon.
    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        let start = self.cursor.span();
        let label = self.label()?;
        if self.cursor.at_any(&["declare", "begin"]) {
            return self.labelled_block(label);
        }
        if let Some(label) = &label
            && !self.cursor.at_any(&["loop", "while", "for", "foreach"])
        {
            let wanted = format!("a block or loop behind <<{}>>", label.text);
            return Err(self.cursor.expected(&wanted));
        }
        let label = label.map(|label| label.text);
        if self.is_assignment() {
            return self.assign();
        }
        let Some(Kind::Word(word)) = self.cursor.peek().map(|token| &token.kind) else {
            return Err(self.cursor.expected("a statement"));
        };
        let word = if word.quote_style.is_some() {
            ""
        } else {
            word.value.as_str()
        };
        match word {
            "if" => self.if_statement(),
            "loop" => self.plain_loop(label),
            "while" => self.while_loop(label),
            "for" => self.for_loop(label),
            "foreach" => self.for_each(label),
            "exit" => {
                let (levels, condition) = self.leave_loop("EXIT")?;
                Ok(Statement::Exit { levels, condition })
            }
            "continue" => {
                let (levels, condition) = self.leave_loop("CONTINUE")?;
                Ok(Statement::Continue { levels, condition })
            }
            "return" => self.return_statement(),
            "raise" => self.raise(),
            "perform" => self.perform(),
            "get" => self.get_diagnostics(),
            "null" => {
                self.cursor.next();
                Ok(Statement::Null)
            }
            "select" | "insert" | "update" | "delete" | "merge" | "with" | "values" | "table" => {
                self.sql()
            }
            "execute" => Err(Diagnostic::unsupported("EXECUTE", start).help(
                "write the statement itself: what a procedure reads and writes must be known \
                 beforehand",
            )),
            "open" | "fetch" | "move" | "close" => Err(cursors(start)),
            "case" => self.case_statement(),
            "assert" => self.assert(),
            _ => {
                sql_body::refuse(&self.cursor)?;
                Err(self.cursor.expected("a statement"))
            }
        }
    }

    /// Whether a name and `:=` or `=` come next, with a field or an index between.
    fn is_assignment(&self) -> bool {
        let Some(Kind::Word(_)) = self.cursor.peek().map(|token| &token.kind) else {
            return false;
        };
        match self.cursor.peek_at(1).map(|token| &token.kind) {
            Some(Kind::Assignment | Kind::Eq | Kind::LBracket) => true,
            Some(Kind::Period) => matches!(
                self.cursor.peek_at(3).map(|token| &token.kind),
                Some(Kind::Assignment | Kind::Eq)
            ),
            _ => false,
        }
    }

    fn assign(&mut self) -> Parsed<Statement> {
        let target = self.target()?;
        let mut index = None;
        if self.cursor.eat(&Kind::LBracket) {
            let inside = self.cursor.take_until(|_| false);
            let parsed = inside.expression();
            index = self.or_noted(parsed)?;
            self.cursor.expect(&Kind::RBracket)?;
        }
        if !self.cursor.eat(&Kind::Assignment) && !self.cursor.eat(&Kind::Eq) {
            return Err(self.cursor.expected("\":=\""));
        }
        let value = self.expression(&[])?;
        Ok(Statement::Assign {
            target,
            index,
            value,
        })
    }

    fn if_statement(&mut self) -> Parsed<Statement> {
        let opening = self.cursor.expect_words(&["if"])?;
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        const ENDS: [&str; 4] = ["elsif", "elseif", "else", "end"];
        loop {
            let condition = self.expression(&["then"])?;
            self.cursor.expect_words(&["then"])?;
            branches.push((condition, self.statements(opening, &ENDS)?));
            if !self.cursor.eat_word("elsif") && !self.cursor.eat_word("elseif") {
                break;
            }
        }
        if self.cursor.eat_word("else") {
            otherwise = self.statements(opening, &["end"])?;
        }
        self.expect_end("if", opening)?;
        Ok(Statement::If {
            branches,
            otherwise,
        })
    }

    fn case_statement(&mut self) -> Parsed<Statement> {
        let opening = self.cursor.expect_words(&["case"])?;
        let operand = match self.cursor.at_word("when") {
            true => None,
            false => Some(self.expression(&["when"])?),
        };
        let mut values = Vec::new();
        let mut conditions = Vec::new();
        const ENDS: [&str; 3] = ["when", "else", "end"];
        while self.cursor.eat_word("when") {
            if operand.is_some() {
                let inside = self.until(&["then"]);
                let list = self.expressions(inside)?;
                self.cursor.expect_words(&["then"])?;
                values.push((list, self.statements(opening, &ENDS)?));
            } else {
                let condition = self.expression(&["then"])?;
                self.cursor.expect_words(&["then"])?;
                conditions.push((condition, self.statements(opening, &ENDS)?));
            }
        }
        if values.is_empty() && conditions.is_empty() {
            return Err(self.cursor.expected("WHEN"));
        }
        let otherwise = match self.cursor.eat_word("else") {
            true => self.statements(opening, &["end"])?,
            // None of the branches is an error then.
            false => {
                let hint =
                    ast::Value::SingleQuotedString("CASE statement is missing ELSE part.".into());
                let raise = Statement::Raise {
                    level: RaiseLevel::Exception,
                    format: "case not found".to_owned(),
                    arguments: Vec::new(),
                    code: Some("20000".to_owned()),
                    fields: vec![(RaiseField::Hint, ast::Expr::value(hint))],
                };
                vec![(raise, opening)]
            }
        };
        self.expect_end("case", opening)?;
        Ok(match operand {
            Some(operand) => Statement::Case {
                operand,
                branches: values,
                otherwise,
            },
            None => Statement::If {
                branches: conditions,
                otherwise,
            },
        })
    }

    /// Expressions with commas between them.
    fn expressions(&mut self, mut inside: Cursor<'_>) -> Parsed<Vec<ast::Expr>> {
        let mut list = Vec::new();
        loop {
            let one = inside.take_until(|cursor| cursor.at(&Kind::Comma));
            list.push(self.noted_expression(one)?);
            if !inside.eat(&Kind::Comma) {
                return Ok(list);
            }
        }
    }

    /// `ASSERT condition [, message]`: an exception unless the condition is true.
    fn assert(&mut self) -> Parsed<Statement> {
        let opening = self.cursor.expect_words(&["assert"])?;
        let inside = self.until(&[]);
        let mut list = self.expressions(inside)?.into_iter();
        let (Some(condition), message, None) = (list.next(), list.next(), list.next()) else {
            return Err(self.cursor.expected("\";\" after ASSERT"));
        };
        let plain = |text: &str| ast::Expr::value(ast::Value::SingleQuotedString(text.to_owned()));
        let message = match message {
            // A message that is NULL is none.
            Some(message) => ast::Expr::Case {
                case_token: ast::helpers::attached_token::AttachedToken::empty(),
                end_token: ast::helpers::attached_token::AttachedToken::empty(),
                operand: None,
                conditions: vec![ast::CaseWhen {
                    condition: ast::Expr::IsNotNull(Box::new(message.clone())),
                    result: ast::Expr::Cast {
                        kind: ast::CastKind::DoubleColon,
                        expr: Box::new(ast::Expr::Nested(Box::new(message))),
                        data_type: ast::DataType::Text,
                        format: None,
                    },
                }],
                else_result: Some(Box::new(plain("assertion failed"))),
            },
            None => plain("assertion failed"),
        };
        let raise = Statement::Raise {
            level: RaiseLevel::Exception,
            format: "%".to_owned(),
            arguments: vec![message],
            code: Some("P0004".to_owned()),
            fields: Vec::new(),
        };
        let fails = ast::Expr::IsNotTrue(Box::new(ast::Expr::Nested(Box::new(condition))));
        Ok(Statement::If {
            branches: vec![(fails, vec![(raise, opening)])],
            otherwise: Vec::new(),
        })
    }

    fn loop_body(&mut self, label: Option<String>) -> Parsed<Statements> {
        let opening = self.cursor.expect_words(&["loop"])?;
        self.levels.push(Level {
            label: label.clone(),
            is_loop: true,
        });
        let body = self.statements(opening, &["end"])?;
        self.levels.pop();
        self.expect_end("loop", opening)?;
        self.end_label(label.as_deref())?;
        Ok(body)
    }

    fn plain_loop(&mut self, label: Option<String>) -> Parsed<Statement> {
        let condition = ast::Expr::value(ast::Value::Boolean(true));
        Ok(Statement::While {
            condition,
            body: self.loop_body(label)?,
        })
    }

    fn while_loop(&mut self, label: Option<String>) -> Parsed<Statement> {
        self.cursor.expect_words(&["while"])?;
        let condition = self.expression(&["loop"])?;
        Ok(Statement::While {
            condition,
            body: self.loop_body(label)?,
        })
    }

    fn for_loop(&mut self, label: Option<String>) -> Parsed<Statement> {
        self.cursor.expect_words(&["for"])?;
        let mut targets = vec![self.cursor.name("a loop variable")?];
        while self.cursor.eat(&Kind::Comma) {
            targets.push(self.cursor.name("a variable")?);
        }
        self.cursor.expect_words(&["in"])?;
        if self.cursor.at_word("execute") {
            return Err(Diagnostic::unsupported("EXECUTE", self.cursor.span())
                .help("write the query itself"));
        }
        let reverse = self.cursor.eat_word("reverse");
        let inside = self.until(&["loop"]);
        match (find_range(&inside), targets.as_slice()) {
            (Some(at), [variable]) => self.range_loop(variable, reverse, inside, (at, label)),
            (Some(_), _) => Err(Diagnostic::new(
                "42601",
                "integer FOR loop must have only one target variable",
                targets[1].span,
            )),
            (None, _) if reverse => {
                let message = "cannot specify REVERSE in query FOR loop";
                Err(Diagnostic::new("42601", message, inside.whole_span()))
            }
            (None, _) => self.query_loop(&targets, inside, label),
        }
    }

    fn range_loop(
        &mut self,
        variable: &Name,
        reverse: bool,
        mut inside: Cursor<'_>,
        (at, label): (usize, Option<String>),
    ) -> Parsed<Statement> {
        let from = self.noted_expression(inside.take(at))?;
        inside.take(2);
        let to = inside.take_until(|cursor| cursor.at_word("by"));
        let to = self.noted_expression(to)?;
        let by = match inside.eat_word("by") {
            true => Some(self.noted_expression(inside.rest())?),
            false => None,
        };
        self.scope.open();
        self.scope
            .declare(&variable.text, VariableType::Data(DataType::Int4), false);
        let body = self.loop_body(label)?;
        self.scope.close();
        Ok(Statement::ForRange {
            variable: variable.text.clone(),
            from,
            to,
            by,
            reverse,
            body,
        })
    }

    fn noted_expression(&mut self, inside: Cursor<'_>) -> Parsed<ast::Expr> {
        if inside.is_done() {
            return Err(inside.expected("an expression"));
        }
        let parsed = inside.expression();
        Ok(self
            .or_noted(parsed)?
            .unwrap_or(ast::Expr::value(ast::Value::Null)))
    }

    fn query_loop(
        &mut self,
        targets: &[Name],
        inside: Cursor<'_>,
        label: Option<String>,
    ) -> Parsed<Statement> {
        let is_query = inside.at_any(&[
            "select", "with", "values", "table", "insert", "update", "delete",
        ]) || inside.at(&Kind::LParen);
        if !is_query {
            return Err(
                Diagnostic::unsupported("a FOR loop over this", inside.whole_span())
                    .help("write FOR i IN 1..n, FOR row IN SELECT …, or FOREACH x IN ARRAY …"),
            );
        }
        for target in targets {
            if self.scope.get(&target.text).is_none() {
                let message = "loop variable of loop over rows must be a record variable or \
                               list of scalar variables";
                self.note(
                    Diagnostic::new("42804", message, target.span)
                        .help(format!("declare it: {} record", target.text)),
                );
            } else {
                self.check_target(target);
            }
        }
        let parsed = inside.statement().and_then(|statement| {
            sql_body::allow(&statement, inside.whole_span())?;
            Ok(statement)
        });
        let query = self.or_noted(parsed)?;
        let body = self.loop_body(label)?;
        let targets = targets.iter().map(|target| target.text.clone()).collect();
        Ok(match query {
            Some(query) => Statement::ForQuery {
                targets,
                query: Box::new(query),
                body,
            },
            None => Statement::Null,
        })
    }

    fn for_each(&mut self, label: Option<String>) -> Parsed<Statement> {
        self.cursor.expect_words(&["foreach"])?;
        let target = self.target()?;
        if self.cursor.at_word("slice") {
            return Err(
                Diagnostic::unsupported("SLICE", self.cursor.span()).help("loop over the elements")
            );
        }
        self.cursor.expect_words(&["in", "array"])?;
        let array = self.expression(&["loop"])?;
        Ok(Statement::ForEach {
            target,
            array,
            body: self.loop_body(label)?,
        })
    }

    /// The loops around the innermost one that EXIT or CONTINUE leaves, and its condition.
    fn leave_loop(&mut self, word: &str) -> Parsed<(usize, Option<ast::Expr>)> {
        let start = self.cursor.span();
        self.cursor.next();
        let has_label = !self.cursor.at_word("when") && !self.cursor.at(&Kind::SemiColon);
        let label = match has_label {
            true => Some(self.cursor.name("\";\" or WHEN")?),
            false => None,
        };
        let is_meant = |level: &Level| match &label {
            Some(label) => level.label.as_ref() == Some(&label.text),
            None => level.is_loop,
        };
        let levels = self.levels.iter().rev().position(is_meant);
        let error = match (levels, &label) {
            (None, None) => {
                let message = format!("{word} cannot be used outside a loop");
                Some((message, start))
            }
            (None, Some(label)) => {
                let name = &label.text;
                let message = format!(
                    "there is no label \"{name}\" attached to any block or loop enclosing this statement"
                );
                Some((message, label.span))
            }
            (Some(levels), Some(label)) => {
                let level = &self.levels[self.levels.len() - 1 - levels];
                let name = &label.text;
                (word == "CONTINUE" && !level.is_loop).then(|| {
                    let message = format!("block label \"{name}\" cannot be used in CONTINUE");
                    (message, label.span)
                })
            }
            (Some(_), None) => None,
        };
        if let Some((message, span)) = error {
            self.note(Diagnostic::new("42601", message, span));
        }
        let levels = levels.unwrap_or(0);
        if self.cursor.eat_word("when") {
            let condition = self.expression(&[])?;
            return Ok((levels, Some(condition)));
        }
        if !self.cursor.at(&Kind::SemiColon) {
            return Err(self.cursor.expected("\";\" or WHEN"));
        }
        Ok((levels, None))
    }

    fn return_statement(&mut self) -> Parsed<Statement> {
        let start = self.cursor.span();
        self.cursor.next();
        let sets = matches!(self.result, ResultKind::Rows | ResultKind::NamedRows);
        if self.cursor.eat_word("query") {
            let span = self.cursor.since(start);
            if !sets {
                let message = "cannot use RETURN QUERY in a non-SETOF function";
                return Err(Diagnostic::new("42804", message, span)
                    .help("declare RETURNS TABLE (…), or SELECT … INTO and RETURN"));
            }
            return self.return_query();
        }
        if self.cursor.eat_word("next") {
            let span = self.cursor.since(start);
            if !sets {
                let message = "cannot use RETURN NEXT in a non-SETOF function";
                return Err(Diagnostic::new("42804", message, span)
                    .help("declare RETURNS TABLE (…) or SETOF"));
            }
            let value = self.return_value(span, self.result == ResultKind::Rows)?;
            return Ok(Statement::ReturnNext(value));
        }
        let value = self.return_value(start, self.result == ResultKind::Scalar)?;
        Ok(Statement::Return(value))
    }

    /// The value after RETURN, which must be there, or must not.
    fn return_value(&mut self, span: Span, wanted: bool) -> Parsed<Option<ast::Expr>> {
        let given = !self.cursor.at(&Kind::SemiColon);
        if given && !wanted {
            let message = "RETURN cannot have a parameter here";
            let place = self.cursor.span();
            self.note(Diagnostic::new("42804", message, place).help(
                "the result is in the OUT parameters or the rows; assign them and write RETURN",
            ));
        } else if wanted && !given {
            let message = "missing expression after RETURN";
            return Err(Diagnostic::new("42601", message, span)
                .help("the function returns a value: write RETURN expression"));
        }
        match given {
            true => self.expression(&[]).map(Some),
            false => Ok(None),
        }
    }
}

/// The position of `..` outside of brackets.
fn find_range(cursor: &Cursor<'_>) -> Option<usize> {
    let mut depth = 0_usize;
    let tokens = cursor.tokens_left();
    for (position, pair) in tokens.windows(2).enumerate() {
        match pair[0].kind {
            Kind::LParen | Kind::LBracket => depth += 1,
            Kind::RParen | Kind::RBracket => depth = depth.saturating_sub(1),
            Kind::Period if depth == 0 && pair[1].kind == Kind::Period => return Some(position),
            _ => {}
        }
    }
    None
}
