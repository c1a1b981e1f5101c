//! Statements, functions and classes.

use std::ops::Range;

use tree_sitter::Node;

use super::{DEPTH_MAX, Lowering, expression::is_block, named};
use crate::{
    language::Language,
    names,
    numbers::is_number,
    syntax::{Expression, ExpressionKind, Statement, StatementKind},
};

impl Lowering<'_> {
    /// The statements in a block, or a single one that stands for a block.
    pub(super) fn statements(&mut self, node: Node<'_>) -> Vec<Statement> {
        if self.depth >= DEPTH_MAX {
            self.broken(node);
            return vec![self.statement_of(StatementKind::Broken, node)];
        }
        self.depth += 1;
        let mut found = Vec::new();
        for child in named(node) {
            self.statement(child, &mut found);
        }
        self.depth -= 1;
        found
    }

    /// A body: a block, or one statement without braces.
    fn body(&mut self, node: Option<Node<'_>>) -> Vec<Statement> {
        let Some(node) = node else {
            return Vec::new();
        };
        if is_block(node.kind()) || matches!(node.kind(), "colon_block" | "declaration_list") {
            return self.statements(node);
        }
        let mut found = Vec::new();
        self.statement(node, &mut found);
        found
    }

    fn body_of(&mut self, node: Node<'_>, field: &str) -> Vec<Statement> {
        self.body(node.child_by_field_name(field))
    }

    fn statement(&mut self, node: Node<'_>, found: &mut Vec<Statement>) {
        if node.is_error() || node.is_missing() || self.depth >= DEPTH_MAX {
            self.broken(node);
            found.push(self.statement_of(StatementKind::Broken, node));
            if self.depth < DEPTH_MAX {
                // The recognisable parts may still run.
                let parts = self.statements(node);
                found.push(self.statement_of(StatementKind::Other(parts), node));
            }
            return;
        }
        self.depth += 1;
        let kind = self.statement_kind(node, found);
        self.depth -= 1;
        if let Some(kind) = kind {
            found.push(self.statement_of(kind, node));
        }
    }

    fn expression_statement(&mut self, node: Node<'_>) -> StatementKind {
        StatementKind::Expression(self.expression(node))
    }

    /// The kind of a statement; `None` if the statement was added to `found` directly, or has no effect.
    fn statement_kind(
        &mut self,
        node: Node<'_>,
        found: &mut Vec<Statement>,
    ) -> Option<StatementKind> {
        Some(match node.kind() {
            "expression_statement" => self.expression_or_exit(node),
            "if_statement" => self.branch(node),
            "elif_clause" | "else_if_clause" => self.branch(node),
            "while_statement" => self.while_loop(node),
            "do_statement" => self.do_loop(node),
            "for_statement"
            | "enhanced_for_statement"
            | "for_in_statement"
            | "foreach_statement" => self.for_loop(node),
            "switch_statement"
            | "switch_expression"
            | "expression_switch_statement"
            | "type_switch_statement"
            | "select_statement"
            | "match_statement" => self.cases(node),
            "try_statement" | "try_with_resources_statement" => self.try_statement(node),
            "with_statement" => self.with(node),
            "return_statement" => self.return_statement(node),
            "throw_statement" | "raise_statement" => {
                let value = named(node).into_iter().next();
                StatementKind::Throw(value.map(|n| self.expression(n)))
            }
            "exit_statement" => StatementKind::Throw(None),
            "break_statement" | "continue_statement" => StatementKind::Leave,
            "goto_statement" => self.goto(node),
            "block"
            | "statement_block"
            | "compound_statement"
            | "statement_list"
            | "colon_block"
            | "else_clause"
            | "finally_clause"
            | "export_statement"
            | "ambient_declaration"
            | "synchronized_statement"
            | "labeled_statement"
            | "namespace_definition"
            | "module" => {
                // Export and label do not matter.
                StatementKind::Block(self.statements(node))
            }
            "function_definition"
            | "function_declaration"
            | "method_declaration"
            | "method_definition"
            | "generator_function_declaration"
            | "constructor_declaration"
            | "compact_constructor_declaration" => {
                let function = self.function(node);
                StatementKind::Function(Box::new(function))
            }
            "decorated_definition" => self.decorated(node),
            "class_declaration"
            | "class_definition"
            | "interface_declaration"
            | "enum_declaration"
            | "record_declaration"
            | "trait_declaration"
            | "abstract_class_declaration"
            | "class"
            | "annotation_type_declaration" => self.class(node),
            // Go's: `type Store struct { … }`.
            "type_declaration" => {
                for spec in named(node) {
                    found.extend(self.type_of_go(spec));
                }
                return None;
            }
            "enum_body_declarations" => StatementKind::Block(self.statements(node)),
            "local_variable_declaration"
            | "field_declaration"
            | "lexical_declaration"
            | "variable_declaration"
            | "const_declaration"
            | "var_declaration"
            | "var_spec_list"
            | "property_declaration"
            | "resource_specification"
            | "expression_list_statement" => {
                self.declarators(node, found);
                return None;
            }
            "import_statement"
            | "import_declaration"
            | "import_from_statement"
            | "package_declaration"
            | "package_clause"
            | "php_tag"
            | "text"
            | "text_interpolation"
            | "empty_statement"
            | "type_alias_declaration"
            | "namespace_use_declaration"
            | "future_import_statement"
            | "pass_statement"
            | "use_declaration"
            | "php_end_tag"
            | "formal_parameters"
            | "parameter_list"
            | "modifiers"
            | "decorator"
            | "identifier"
            | "type_identifier"
            | "hash_bang_line"
            | "global_statement"
            | "inc_statement"
            | "property_signature"
            | "global_declaration"
            | "nonlocal_statement" => return None,
            _ if self.is_value(node) => self.expression_statement(node),
            _ => {
                let parts = self.statements(node);
                StatementKind::Other(parts)
            }
        })
    }

    fn expression_or_exit(&mut self, node: Node<'_>) -> StatementKind {
        match named(node).as_slice() {
            [inner] if matches!(inner.kind(), "throw_expression") => {
                let value = named(*inner).into_iter().next();
                StatementKind::Throw(value.map(|n| self.expression(n)))
            }
            [inner] if inner.kind() == "exit_statement" => StatementKind::Throw(None),
            [inner] => self.expression_statement(*inner),
            several => {
                let parts = several.iter().map(|n| self.expression(*n)).collect();
                let kind = ExpressionKind::Other(parts);
                StatementKind::Expression(self.expression_of(kind, node))
            }
        }
    }

    fn while_loop(&mut self, node: Node<'_>) -> StatementKind {
        let condition = self.field(node, "condition");
        let mut body = vec![self.statement_of(StatementKind::Expression(condition), node)];
        body.extend(self.body_of(node, "body"));
        let alternative = self.body_of(node, "alternative");
        self.loop_with_else(node, Vec::new(), body, alternative)
    }

    fn do_loop(&mut self, node: Node<'_>) -> StatementKind {
        let mut body = self.body_of(node, "body");
        let condition = self.field(node, "condition");
        body.push(self.statement_of(StatementKind::Expression(condition), node));
        self.loop_with_else(node, Vec::new(), body, Vec::new())
    }

    fn goto(&mut self, node: Node<'_>) -> StatementKind {
        let jump = self.called_by(names::JUMPS, node);
        let jump = self.expression_of(jump, node);
        let jump = self.statement_of(StatementKind::Expression(jump), node);
        let leave = self.statement_of(StatementKind::Leave, node);
        StatementKind::Block(vec![jump, leave])
    }

    /// Each declarator of a declaration, as an assignment.
    fn declarators(&mut self, node: Node<'_>, found: &mut Vec<Statement>) {
        for child in named(node) {
            match child.kind() {
                "variable_declarator"
                | "var_spec"
                | "const_spec"
                | "const_element"
                | "property_element" => {
                    let mut value = self.expression(child);
                    self.note_number(node, &mut value);
                    let range = child.byte_range();
                    let kind = StatementKind::Expression(value);
                    found.push(Statement { kind, range });
                }
                "var_spec_list" => self.statement(child, found),
                _ => {}
            }
        }
    }

    /// Makes the value of a variable that is declared as a number a number.
    fn note_number(&self, declaration: Node<'_>, value: &mut Expression) {
        let of_type = declaration.child_by_field_name("type");
        if self.language != Language::Java || !of_type.is_some_and(|n| is_number(self.text(n))) {
            return;
        }
        if let (Some(of_type), ExpressionKind::Assign { value: given, .. }) =
            (of_type, &mut value.kind)
        {
            let whole = given.range.clone();
            let inner = std::mem::replace(&mut given.kind, ExpressionKind::Null);
            given.kind = ExpressionKind::Cast {
                to: self.text(of_type).to_owned(),
                value: Box::new(Expression {
                    kind: inner,
                    range: whole,
                }),
            };
        }
    }

    /// Whether the grammar allows the node as a statement of its own.
    fn is_value(&self, node: Node<'_>) -> bool {
        let kind = node.kind();
        kind.ends_with("_expression")
            || kind.ends_with("_literal")
            || kind.ends_with("string")
            || kind.ends_with("assignment")
            || matches!(
                kind,
                "call"
                    | "await"
                    | "assignment_statement"
                    | "short_var_declaration"
                    | "attribute"
                    | "method_invocation"
                    | "echo_statement"
                    | "go_statement"
                    | "defer_statement"
                    | "send_statement"
                    | "assert_statement"
                    | "delete_statement"
                    | "unset_statement"
                    | "print_statement"
                    | "public_field_definition"
                    | "field_definition"
                    | "explicit_constructor_invocation"
                    | "lambda"
                    | "list"
                    | "tuple"
                    | "dictionary"
                    | "yield_statement"
                    | "enum_constant"
                    | "heredoc"
                    | "subscript"
                    | "encapsed_string"
            )
    }

    fn branch(&mut self, node: Node<'_>) -> StatementKind {
        let first = node.child_by_field_name("initializer").map(|n| {
            let value = self.expression(n);
            self.statement_of(StatementKind::Expression(value), n)
        });
        let condition = self.field(node, "condition");
        let then = match node.child_by_field_name("consequence") {
            Some(then) => self.body(Some(then)),
            None => self.body_of(node, "body"),
        };
        let mut cursor = node.walk();
        let alternatives: Vec<Node<'_>> = node
            .children_by_field_name("alternative", &mut cursor)
            .collect();
        // Chained `elif`: each is the `else` branch of the one before.
        let mut otherwise = Vec::new();
        for alternative in alternatives.into_iter().rev() {
            let mut inner = Vec::new();
            match alternative.kind() {
                "else_clause" => inner = self.statements(alternative),
                _ => self.statement(alternative, &mut inner),
            }
            match inner.as_mut_slice() {
                [
                    Statement {
                        kind:
                            StatementKind::If {
                                otherwise: last, ..
                            },
                        ..
                    },
                ] if last.is_empty() => *last = std::mem::take(&mut otherwise),
                _ => inner.append(&mut otherwise),
            }
            otherwise = inner;
        }
        let branch = StatementKind::If {
            condition,
            then,
            otherwise,
        };
        match first {
            Some(first) => {
                let branch = self.statement_of(branch, node);
                StatementKind::Block(vec![first, branch])
            }
            None => branch,
        }
    }

    /// A loop with an `else` branch.
    fn loop_with_else(
        &mut self,
        node: Node<'_>,
        before: Vec<Expression>,
        body: Vec<Statement>,
        after: Vec<Statement>,
    ) -> StatementKind {
        let body = StatementKind::Loop { before, body };
        if after.is_empty() {
            return body;
        }
        let body = self.statement_of(body, node);
        let after = self.statement_of(StatementKind::Other(after), node);
        StatementKind::Block(vec![body, after])
    }

    fn for_loop(&mut self, node: Node<'_>) -> StatementKind {
        let mut before = Vec::new();
        let mut body = Vec::new();
        let mut update = Vec::new();
        let head = named(node)
            .into_iter()
            .find(|n| matches!(n.kind(), "for_clause" | "range_clause"))
            .unwrap_or(node);
        for field in ["initializer", "init"] {
            if let Some(child) = head.child_by_field_name(field) {
                let mut inner = Vec::new();
                self.statement(child, &mut inner);
                for statement in inner {
                    if let StatementKind::Expression(value) = statement.kind {
                        before.push(value);
                    }
                }
            }
        }
        // The collection and the loop variable.
        let variable = ["left", "name"]
            .iter()
            .find_map(|field| head.child_by_field_name(field));
        let over = ["right", "value"]
            .iter()
            .find_map(|field| head.child_by_field_name(field));
        let mut pair = (variable, over);
        if node.kind() == "foreach_statement" {
            let parts: Vec<Node<'_>> = named(node)
                .into_iter()
                .filter(|n| Some(*n) != node.child_by_field_name("body"))
                .collect();
            if let [over, each, ..] = parts.as_slice() {
                let each = match each.kind() {
                    "pair" | "foreach_pair" => named(*each).into_iter().next_back(),
                    _ => Some(*each),
                };
                pair = (each, Some(*over));
            }
        }
        if let (variable, Some(over)) = pair {
            let over = self.expression(over);
            if let Some(variable) = variable {
                let target = self.expression(variable);
                // The element: the collection at an unknown index.
                let at = self.expression_of(ExpressionKind::Other(Vec::new()), variable);
                let element = ExpressionKind::Index(Box::new(over), Box::new(at));
                let element = self.expression_of(element, variable);
                let each = ExpressionKind::Assign {
                    target: Box::new(target),
                    operator: None,
                    value: Box::new(element),
                };
                let each = self.expression_of(each, variable);
                body.push(self.statement_of(StatementKind::Expression(each), variable));
            } else {
                before.push(over);
            }
        }
        if let Some(condition) = head.child_by_field_name("condition") {
            let mut inner = Vec::new();
            match condition.kind() {
                "empty_statement" => {}
                "expression_statement" => self.statement(condition, &mut inner),
                _ => {
                    let value = self.expression(condition);
                    inner.push(self.statement_of(StatementKind::Expression(value), condition));
                }
            }
            body.append(&mut inner);
        }
        for field in ["update", "increment"] {
            if let Some(child) = head.child_by_field_name(field) {
                let value = self.expression(child);
                update.push(self.statement_of(StatementKind::Expression(value), child));
            }
        }
        body.extend(self.body_of(node, "body"));
        body.append(&mut update);
        let alternative = self.body_of(node, "alternative");
        self.loop_with_else(node, before, body, alternative)
    }

    fn cases(&mut self, node: Node<'_>) -> StatementKind {
        let value = ["condition", "value", "subject"]
            .iter()
            .find_map(|field| node.child_by_field_name(field));
        let value = value.map(|n| self.expression(n));
        let list = node
            .child_by_field_name("body")
            .filter(|n| !is_block(n.kind()) || self.language == Language::Python)
            .unwrap_or(node);
        let mut cases: Vec<Vec<Statement>> = Vec::new();
        let mut exhaustive = false;
        for child in named(list) {
            let kind = child.kind();
            if !(kind.contains("case") || kind.contains("default") || kind.starts_with("switch_")) {
                continue;
            }
            let head = self.text(child).trim_start();
            exhaustive |= head.starts_with("default") || head.starts_with("case _:");
            let mut inside = self.statements(child);
            if let Some(body) = child.child_by_field_name("consequence")
                && inside.is_empty()
            {
                inside = self.body(Some(body));
            }
            cases.push(inside);
        }
        StatementKind::Cases {
            value,
            cases,
            exhaustive,
        }
    }

    fn try_statement(&mut self, node: Node<'_>) -> StatementKind {
        let mut body = Vec::new();
        let mut closed = Vec::new();
        if let Some(resources) = node.child_by_field_name("resources") {
            for child in named(resources) {
                let value = self.expression(child);
                if let ExpressionKind::Assign { target, .. } = &value.kind {
                    let close = called_on((**target).clone(), "close", child.byte_range());
                    // Resources close in reverse order.
                    closed.insert(0, expression_statement(close));
                }
                body.push(self.statement_of(StatementKind::Expression(value), child));
            }
        }
        body.extend(self.body_of(node, "body"));
        let mut handlers = Vec::new();
        let mut finally = Vec::new();
        for child in named(node) {
            match child.kind() {
                "catch_clause" | "except_clause" | "except_group_clause" => {
                    let block = child
                        .child_by_field_name("body")
                        .or_else(|| named(child).into_iter().find(|n| is_block(n.kind())));
                    handlers.push(self.body(block));
                }
                "finally_clause" => {
                    let block = child
                        .child_by_field_name("body")
                        .or_else(|| named(child).into_iter().find(|n| is_block(n.kind())));
                    finally = self.body(block);
                }
                "else_clause" => body.extend(self.statements(child)),
                _ => {}
            }
        }
        closed.append(&mut finally);
        StatementKind::Try {
            body,
            handlers,
            finally: closed,
        }
    }

    /// Python's `with`: enters the contexts, then runs the body.
    fn with(&mut self, node: Node<'_>) -> StatementKind {
        let (mut block, mut after) = (Vec::new(), Vec::new());
        let clause = named(node).into_iter().find(|n| n.kind() == "with_clause");
        for item in clause.map_or_else(Vec::new, named) {
            let inner = item.child_by_field_name("value").unwrap_or(item);
            let mut value = self.expression(inner);
            let object = match &value.kind {
                ExpressionKind::Assign { value, .. } => value,
                _ => &value,
            };
            if matches!(object.kind, ExpressionKind::Call { .. }) {
                self.enter(value, inner, &mut block, &mut after);
                continue;
            }
            // Entering a connection begins a transaction; a call is judged by its name.
            if matches!(
                value.kind,
                ExpressionKind::Name(_) | ExpressionKind::Member(..)
            ) && value.last_name().is_some_and(names::is_connection)
            {
                let enter = ExpressionKind::Member(Box::new(value), names::BEGINS.to_owned());
                let enter = self.expression_of(enter, inner);
                let call = ExpressionKind::Call {
                    callee: Box::new(enter),
                    arguments: Vec::new(),
                };
                value = self.expression_of(call, inner);
            }
            block.push(self.statement_of(StatementKind::Expression(value), item));
        }
        let body = self.body_of(node, "body");
        match after.is_empty() {
            true => block.extend(body),
            false => {
                let whole = StatementKind::Try {
                    body,
                    handlers: Vec::new(),
                    finally: after,
                };
                block.push(self.statement_of(whole, node));
            }
        }
        StatementKind::Block(block)
    }

    /// A new object in `with`: entered before the body, left after it.
    fn enter(
        &mut self,
        made: Expression,
        node: Node<'_>,
        before: &mut Vec<Statement>,
        after: &mut Vec<Statement>,
    ) {
        let (target, object) = match made.kind {
            ExpressionKind::Assign { target, value, .. } => (Some(target), value),
            _ => (None, Box::new(made)),
        };
        // No program has such a name.
        let name = ExpressionKind::Name(format!("with {}", node.start_byte()));
        let kept = self.expression_of(name, node);
        let start = node.start_byte();
        before.push(self.assign(Box::new(kept.clone()), object, start..node.end_byte()));
        let whole = start..node.end_byte();
        let entered = called_on(kept.clone(), names::ENTERS, whole.clone());
        before.push(match target {
            Some(target) => self.assign(target, Box::new(entered), whole),
            None => expression_statement(entered),
        });
        // Has a position of its own, since facts about a call are keyed by position.
        let behind = node.end_byte().saturating_sub(1)..node.end_byte();
        after.push(expression_statement(called_on(kept, names::LEAVES, behind)));
    }

    fn assign(
        &mut self,
        target: Box<Expression>,
        value: Box<Expression>,
        range: Range<usize>,
    ) -> Statement {
        let kind = ExpressionKind::Assign {
            target,
            operator: None,
            value,
        };
        expression_statement(Expression { kind, range })
    }

    fn return_statement(&mut self, node: Node<'_>) -> StatementKind {
        let value = named(node).into_iter().next();
        let text = value.map_or("", |n| self.text(n));
        let value = value.map(|n| self.expression(n));
        // In Go, a returned error counts as thrown.
        let last = text.rsplit(',').next().unwrap_or_default().trim();
        let fails = self.language == Language::Go
            && (last == "err"
                || last.starts_with("Err")
                || last.starts_with("err")
                || text.contains("fmt.Errorf(")
                || text.contains("errors.New(")
                || last.ends_with("Err"));
        match fails {
            true => StatementKind::Throw(value),
            false => StatementKind::Return(value),
        }
    }

    fn decorated(&mut self, node: Node<'_>) -> StatementKind {
        let mut decorators = Vec::new();
        for child in named(node) {
            if child.kind() == "decorator" {
                for inner in named(child) {
                    decorators.push(self.expression(inner));
                }
            }
        }
        let mut inner = Vec::new();
        if let Some(definition) = node.child_by_field_name("definition") {
            self.statement(definition, &mut inner);
        }
        for statement in &mut inner {
            match &mut statement.kind {
                StatementKind::Function(function) => {
                    function.annotations.append(&mut decorators);
                    function.is_accessor = function.annotations.iter().any(names::is_property);
                }
                StatementKind::Class { annotations, .. } => annotations.append(&mut decorators),
                _ => {}
            }
        }
        StatementKind::Block(inner)
    }
}

/// `of.name()`.
fn called_on(of: Expression, name: &str, range: Range<usize>) -> Expression {
    let callee = Expression {
        kind: ExpressionKind::Member(Box::new(of), name.to_owned()),
        range: range.clone(),
    };
    let kind = ExpressionKind::Call {
        callee: Box::new(callee),
        arguments: Vec::new(),
    };
    Expression { kind, range }
}

fn expression_statement(value: Expression) -> Statement {
    Statement {
        range: value.range.clone(),
        kind: StatementKind::Expression(value),
    }
}
