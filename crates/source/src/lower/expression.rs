//! Expressions.

use tree_sitter::Node;

use super::{
    DEPTH_MAX, Lowering,
    literal::{Escapes, decode},
    named,
};
use crate::{
    language::Language,
    names,
    syntax::{Argument, Expression, ExpressionKind, Function, Parameter, Statement, StatementKind},
    value::looks_like_sql,
};

impl Lowering<'_> {
    pub(super) fn expression(&mut self, node: Node<'_>) -> Expression {
        if self.depth >= DEPTH_MAX || node.is_error() || node.is_missing() {
            self.broken(node);
            return self.expression_of(ExpressionKind::Broken, node);
        }
        self.depth += 1;
        let kind = self.expression_kind(node);
        self.depth -= 1;
        self.expression_of(kind, node)
    }

    fn boxed(&mut self, node: Node<'_>, field: &str) -> Box<Expression> {
        Box::new(self.field(node, field))
    }

    fn expression_kind(&mut self, node: Node<'_>) -> ExpressionKind {
        match node.kind() {
            "identifier"
            | "variable_name"
            | "name"
            | "this"
            | "self"
            | "super"
            | "qualified_name"
            | "property_identifier"
            | "field_identifier"
            | "shorthand_property_identifier"
            | "shorthand_property_identifier_pattern"
            | "relative_scope"
            | "type_identifier"
            | "package_identifier"
            | "dotted_name"
            | "scoped_identifier"
            | "private_property_identifier" => {
                let name = self.name(node);
                ExpressionKind::Name(name)
            }
            "null" | "null_literal" | "none" | "nil" | "undefined" => ExpressionKind::Null,
            "number"
            | "integer"
            | "float"
            | "int_literal"
            | "float_literal"
            | "decimal_integer_literal"
            | "hex_integer_literal"
            | "decimal_floating_point_literal" => {
                ExpressionKind::Number(self.text(node).to_owned())
            }
            "string_literal"
            | "string"
            | "template_string"
            | "interpreted_string_literal"
            | "raw_string_literal"
            | "encapsed_string"
            | "heredoc"
            | "nowdoc"
            | "character_literal"
            | "concatenated_string"
            | "rune_literal"
            | "text_block" => self.string(node),
            "parenthesized_expression"
            | "await_expression"
            | "await"
            | "non_null_expression"
            | "expression_list"
            | "pattern_list"
            | "clone_expression"
            | "parenthesized_pattern"
            | "reference_assignment_right"
            | "error_suppression_expression"
            | "yield"
            | "print_intrinsic"
            | "as_pattern_target"
            | "argument"
            | "spread_element"
            | "list_splat"
            | "variadic_unpacking"
            | "dictionary_splat"
            | "literal_element"
            | "by_ref"
            | "variadic_argument" => self.inside(node),
            "as_expression" | "satisfies_expression" => match node.named_child(0) {
                Some(inner) => self.expression(inner).kind,
                None => ExpressionKind::Other(Vec::new()),
            },
            "binary_expression" | "binary_operator" => self.binary(node),
            "boolean_operator" => ExpressionKind::Binary {
                operator: self.field_name(node, "operator"),
                left: self.boxed(node, "left"),
                right: self.boxed(node, "right"),
            },
            "comparison_operator" => self.comparison(node),
            "not_operator" => ExpressionKind::Not(self.boxed(node, "argument")),
            "unary_expression" | "unary_op_expression" | "unary_operator" => self.unary(node),
            "cast_expression" => ExpressionKind::Cast {
                to: self.field_name(node, "type"),
                value: self.boxed(node, "value"),
            },
            "type_conversion_expression" | "type_assertion_expression" => ExpressionKind::Cast {
                to: self.field_name(node, "type"),
                value: self.boxed(node, "operand"),
            },
            "ternary_expression" => ExpressionKind::Conditional {
                condition: self.boxed(node, "condition"),
                yes: self.boxed(node, "consequence"),
                no: self.boxed(node, "alternative"),
            },
            // PHP's, with `?:` where there is no body; and Python's, with unnamed parts.
            "conditional_expression" => self.conditional(node),
            "field_access" => self.member(node, "object", "field"),
            "attribute" => self.member(node, "object", "attribute"),
            "selector_expression" => self.member(node, "operand", "field"),
            "member_expression" => self.member(node, "object", "property"),
            "member_access_expression" | "nullsafe_member_access_expression" => {
                self.member(node, "object", "name")
            }
            "scoped_property_access_expression" => self.member(node, "scope", "name"),
            "class_constant_access_expression" => {
                let parts = named(node);
                match parts.as_slice() {
                    [of, name] => {
                        let name = self.name(*name);
                        ExpressionKind::Member(Box::new(self.expression(*of)), name)
                    }
                    _ => self.others(node),
                }
            }
            "array_access" => self.index(node, "array", "index"),
            "subscript" => self.index(node, "value", "subscript"),
            "index_expression" => self.index(node, "operand", "index"),
            "subscript_expression" if self.language == Language::Php => {
                let parts = named(node);
                match parts.as_slice() {
                    [of, at] => ExpressionKind::Index(
                        Box::new(self.expression(*of)),
                        Box::new(self.expression(*at)),
                    ),
                    _ => self.others(node),
                }
            }
            "subscript_expression" => self.index(node, "object", "index"),
            "call"
            | "call_expression"
            | "method_invocation"
            | "function_call_expression"
            | "member_call_expression"
            | "nullsafe_member_call_expression"
            | "scoped_call_expression"
            | "object_creation_expression"
            | "new_expression"
            | "annotation"
            | "marker_annotation"
            | "explicit_constructor_invocation" => self.call(node),
            "method_reference" => self.method_reference(node),
            // `Account.class` is no value that a program binds.
            "class_literal" => ExpressionKind::Other(Vec::new()),
            "lambda_expression"
            | "lambda"
            | "arrow_function"
            | "function_expression"
            | "function"
            | "func_literal"
            | "anonymous_function"
            | "anonymous_function_creation_expression"
            | "generator_function" => {
                let function = self.function(node);
                ExpressionKind::Lambda(Box::new(function))
            }
            "list"
            | "tuple"
            | "array"
            | "array_initializer"
            | "set"
            | "tuple_pattern"
            | "list_pattern"
            | "array_pattern"
            | "list_literal"
            | "element_value_array_initializer" => {
                let children = named(node);
                ExpressionKind::List(children.into_iter().map(|n| self.expression(n)).collect())
            }
            "array_creation_expression" => self.array(node),
            "composite_literal" => self.composite(node),
            "dictionary" | "object" | "object_pattern" => self.map(node),
            "assignment"
            | "assignment_expression"
            | "augmented_assignment"
            | "augmented_assignment_expression"
            | "assignment_statement"
            | "short_var_declaration"
            | "reference_assignment_expression"
            | "named_expression"
            | "variable_declarator"
            | "var_spec"
            | "const_spec"
            | "const_element"
            | "property_element"
            | "public_field_definition"
            | "field_definition"
            | "resource"
            | "assignment_pattern" => self.assignment(node),
            // `$$name`, and what another file puts here.
            "dynamic_variable_name" => self.called_by(names::ANY_VARIABLE, node),
            "include_expression"
            | "include_once_expression"
            | "require_expression"
            | "require_once_expression" => self.called_by(names::INCLUDES, node),
            "as_pattern" => self.alias(node),
            "expression_statement" => self.inside(node),
            _ => self.others(node),
        }
    }

    /// A call that stands for other syntax.
    pub(super) fn called_by(&mut self, name: &str, node: Node<'_>) -> ExpressionKind {
        let callee = self.expression_of(ExpressionKind::Name(name.to_owned()), node);
        let arguments = named(node).into_iter().map(|n| self.argument(n)).collect();
        ExpressionKind::Call {
            callee: Box::new(callee),
            arguments,
        }
    }

    /// An expression of unknown kind with its parts.
    fn others(&mut self, node: Node<'_>) -> ExpressionKind {
        let children = named(node);
        ExpressionKind::Other(children.into_iter().map(|n| self.expression(n)).collect())
    }

    /// Unwraps an expression; several become a list.
    fn inside(&mut self, node: Node<'_>) -> ExpressionKind {
        let children = named(node);
        match children.as_slice() {
            [one] => self.expression(*one).kind,
            several if matches!(node.kind(), "expression_list" | "pattern_list") => {
                ExpressionKind::List(several.iter().map(|n| self.expression(*n)).collect())
            }
            [.., last] if node.kind() == "argument" => self.expression(*last).kind,
            several => ExpressionKind::Other(several.iter().map(|n| self.expression(*n)).collect()),
        }
    }

    fn member(&mut self, node: Node<'_>, of: &str, name: &str) -> ExpressionKind {
        ExpressionKind::Member(self.boxed(node, of), self.field_name(node, name))
    }

    fn index(&mut self, node: Node<'_>, of: &str, at: &str) -> ExpressionKind {
        ExpressionKind::Index(self.boxed(node, of), self.boxed(node, at))
    }

    /// Flattens `a + b + … + z` of any length into one concatenation: long texts are written so.
    fn binary(&mut self, node: Node<'_>) -> ExpressionKind {
        let joins = if self.language == Language::Php {
            "."
        } else {
            "+"
        };
        let operator = self.field_name(node, "operator");
        if operator != joins {
            return ExpressionKind::Binary {
                operator,
                left: self.boxed(node, "left"),
                right: self.boxed(node, "right"),
            };
        }
        let mut parts = Vec::new();
        let mut left = node;
        loop {
            if let Some(right) = left.child_by_field_name("right") {
                parts.push(self.expression(right));
            }
            let Some(next) = left.child_by_field_name("left") else {
                break;
            };
            let same = next.kind() == node.kind() && self.field_name(next, "operator") == joins;
            if !same {
                parts.push(self.expression(next));
                break;
            }
            left = next;
        }
        parts.reverse();
        ExpressionKind::Join {
            parts,
            bound: false,
        }
    }

    fn comparison(&mut self, node: Node<'_>) -> ExpressionKind {
        let parts = named(node);
        let [left, right] = parts.as_slice() else {
            return self.others(node);
        };
        let between = self
            .text
            .get(left.end_byte()..right.start_byte())
            .unwrap_or_default();
        ExpressionKind::Binary {
            operator: between.trim().to_owned(),
            left: Box::new(self.expression(*left)),
            right: Box::new(self.expression(*right)),
        }
    }

    fn unary(&mut self, node: Node<'_>) -> ExpressionKind {
        let operand = node
            .child_by_field_name("operand")
            .or_else(|| node.child_by_field_name("argument"))
            .or_else(|| named(node).into_iter().next_back());
        let Some(operand) = operand else {
            return self.others(node);
        };
        let inner = Box::new(self.expression(operand));
        match self.text(node).as_bytes().first() {
            Some(b'!') => ExpressionKind::Not(inner),
            Some(b'&') => ExpressionKind::Reference(inner),
            Some(b'*') => inner.kind,
            _ => ExpressionKind::Other(vec![*inner]),
        }
    }

    fn conditional(&mut self, node: Node<'_>) -> ExpressionKind {
        if self.language == Language::Python {
            let parts = named(node);
            return match parts.as_slice() {
                [yes, condition, no] => ExpressionKind::Conditional {
                    condition: Box::new(self.expression(*condition)),
                    yes: Box::new(self.expression(*yes)),
                    no: Box::new(self.expression(*no)),
                },
                _ => self.others(node),
            };
        }
        let condition = self.field(node, "condition");
        let yes = self.optional(node, "body");
        ExpressionKind::Conditional {
            yes: Box::new(yes.unwrap_or_else(|| condition.clone())),
            condition: Box::new(condition),
            no: self.boxed(node, "alternative"),
        }
    }

    fn call(&mut self, node: Node<'_>) -> ExpressionKind {
        let callee = match node.kind() {
            "method_invocation" | "member_call_expression" | "nullsafe_member_call_expression" => {
                self.method(node, "object")
            }
            "scoped_call_expression" => self.method(node, "scope"),
            "object_creation_expression" | "new_expression" => {
                let of = ["type", "constructor"]
                    .iter()
                    .find_map(|field| node.child_by_field_name(field))
                    .or_else(|| node.named_child(0));
                let name = of.map_or_else(String::new, |n| self.text(n).to_owned());
                self.expression_of(ExpressionKind::Name(format!("new {name}")), node)
            }
            "annotation" | "marker_annotation" => {
                let name = self.field_name(node, "name");
                self.expression_of(ExpressionKind::Name(format!("@{name}")), node)
            }
            "explicit_constructor_invocation" => self.field(node, "constructor"),
            _ => self.field(node, "function"),
        };
        let list = node.child_by_field_name("arguments").or_else(|| {
            named(node)
                .into_iter()
                .find(|n| matches!(n.kind(), "arguments" | "argument_list"))
        });
        let Some(list) = list else {
            return ExpressionKind::Call {
                callee: Box::new(callee),
                arguments: Vec::new(),
            };
        };
        let arguments = match list.kind() {
            "template_string" => {
                let mut value = self.expression(list);
                if let ExpressionKind::Join { bound, .. } = &mut value.kind {
                    *bound = true;
                }
                vec![Argument {
                    name: None,
                    value,
                    spread: false,
                }]
            }
            "generator_expression" => {
                let value = self.expression(list);
                vec![Argument {
                    name: None,
                    value,
                    spread: false,
                }]
            }
            _ => named(list).into_iter().map(|n| self.argument(n)).collect(),
        };
        let mut kind = ExpressionKind::Call {
            callee: Box::new(callee),
            arguments,
        };
        // An anonymous class: its methods may be called back.
        if let Some(body) = named(node).into_iter().find(|n| n.kind() == "class_body") {
            let body = self.statements(body);
            if let ExpressionKind::Call { arguments, .. } = &mut kind {
                for member in body {
                    let function = match member.kind {
                        StatementKind::Function(function) => Some(function),
                        // An initializer block.
                        StatementKind::Block(body) => Some(Box::new(Function {
                            body,
                            range: member.range.clone(),
                            ..Function::default()
                        })),
                        _ => None,
                    };
                    if let Some(function) = function {
                        arguments.push(Argument {
                            name: None,
                            value: Expression {
                                range: member.range,
                                kind: ExpressionKind::Lambda(function),
                            },
                            spread: false,
                        });
                    }
                }
            }
        }
        kind
    }

    fn method(&mut self, node: Node<'_>, of: &str) -> Expression {
        // A method named by a variable.
        let named_by = node
            .child_by_field_name("name")
            .filter(|n| matches!(n.kind(), "variable_name" | "dynamic_variable_name"));
        if let Some(by) = named_by
            && let Some(of) = self.optional(node, of)
        {
            let by = self.expression(by);
            let kind = ExpressionKind::Index(Box::new(of), Box::new(by));
            return self.expression_of(kind, node);
        }
        let name = self.field_name(node, "name");
        let kind = match self.optional(node, of) {
            Some(of) => ExpressionKind::Member(Box::new(of), name),
            None => ExpressionKind::Name(name),
        };
        self.expression_of(kind, node)
    }

    fn argument(&mut self, node: Node<'_>) -> Argument {
        let spread = matches!(
            node.kind(),
            "spread_element" | "list_splat" | "dictionary_splat" | "variadic_argument"
        ) || node.kind() == "argument"
            && named(node).iter().any(|n| n.kind() == "variadic_unpacking");
        let named_by = matches!(
            node.kind(),
            "keyword_argument" | "argument" | "element_value_pair"
        );
        let key = node
            .child_by_field_name("name")
            .or_else(|| node.child_by_field_name("key"));
        match (named_by, key) {
            (true, Some(key)) => {
                let name = Some(self.name(key));
                let value = match node.child_by_field_name("value") {
                    Some(value) => self.expression(value),
                    None => self.expression(node),
                };
                Argument {
                    name,
                    value,
                    spread,
                }
            }
            _ => Argument {
                name: None,
                value: self.expression(node),
                spread,
            },
        }
    }

    /// Java's `new Object[] {…}`, and PHP's arrays with or without keys.
    fn array(&mut self, node: Node<'_>) -> ExpressionKind {
        if let Some(value) = node.child_by_field_name("value") {
            return self.expression(value).kind;
        }
        let elements = named(node);
        let keyed = elements
            .iter()
            .any(|n| n.kind() == "array_element_initializer" && n.named_child_count() == 2);
        if keyed {
            let mut pairs = Vec::new();
            for element in elements {
                if let [key, value] = named(element).as_slice() {
                    pairs.push((self.key(*key), self.expression(*value)));
                }
            }
            return ExpressionKind::Map(pairs);
        }
        let mut values = Vec::new();
        for element in elements {
            let inner = match element.kind() {
                "array_element_initializer" => element.named_child(0),
                _ => Some(element),
            };
            values.extend(inner.map(|n| self.expression(n)));
        }
        ExpressionKind::List(values)
    }

    /// The name of a map key.
    fn key(&mut self, node: Node<'_>) -> String {
        match self.expression(node).kind {
            ExpressionKind::Text(literal) => literal.text.to_string(),
            ExpressionKind::Name(name) => name,
            _ => self.text(node).to_owned(),
        }
    }

    /// Go's `[]any{a, b}`, `map[string]any{"a": b}`, `T{…}`.
    fn composite(&mut self, node: Node<'_>) -> ExpressionKind {
        let Some(body) = node.child_by_field_name("body") else {
            return self.others(node);
        };
        let elements = named(body);
        if elements.iter().any(|n| n.kind() == "keyed_element") {
            let mut pairs = Vec::new();
            for element in elements {
                if let [key, value] = named(element).as_slice() {
                    let key = key.named_child(0).unwrap_or(*key);
                    pairs.push((self.key(key), self.expression(*value)));
                }
            }
            return self.object(node, ExpressionKind::Map(pairs));
        }
        let of = node.child_by_field_name("type");
        let is_named = of.is_some_and(|of| is_type_name(of.kind()));
        if elements.is_empty() && is_named {
            return self.object(node, ExpressionKind::Map(Vec::new()));
        }
        let values = elements.into_iter().map(|n| self.expression(n)).collect();
        self.object(node, ExpressionKind::List(values))
    }

    /// A composite literal of a named type.
    fn object(&mut self, node: Node<'_>, value: ExpressionKind) -> ExpressionKind {
        let of = node.child_by_field_name("type");
        match of.filter(|n| is_type_name(n.kind())) {
            Some(of) => ExpressionKind::Cast {
                to: self.text(of).to_owned(),
                value: Box::new(self.expression_of(value, node)),
            },
            None => value,
        }
    }

    fn map(&mut self, node: Node<'_>) -> ExpressionKind {
        let mut pairs = Vec::new();
        for child in named(node) {
            match child.kind() {
                "pair" | "pair_pattern" => {
                    let key = child.child_by_field_name("key");
                    let key = key.map_or_else(String::new, |n| self.key(n));
                    pairs.push((key, self.field(child, "value")));
                }
                "method_definition" => {
                    let name = self.field_name(child, "name");
                    let function = self.function(child);
                    let kind = ExpressionKind::Lambda(Box::new(function));
                    pairs.push((name, self.expression_of(kind, child)));
                }
                _ => {
                    let value = self.expression(child);
                    let name = value.last_name().unwrap_or("…").to_owned();
                    pairs.push((name, value));
                }
            }
        }
        ExpressionKind::Map(pairs)
    }

    fn assignment(&mut self, node: Node<'_>) -> ExpressionKind {
        let target = ["left", "name", "property"]
            .iter()
            .find_map(|field| node.child_by_field_name(field))
            .or_else(|| node.named_child(0));
        let value = ["right", "value", "default_value"]
            .iter()
            .find_map(|field| node.child_by_field_name(field))
            .or_else(|| match node.kind() {
                "const_element" | "property_element" => node.named_child(1),
                _ => None,
            });
        let Some(target) = target else {
            return self.others(node);
        };
        let target = self.expression(target);
        let Some(value) = value else {
            // Declared without a value.
            return ExpressionKind::Other(Vec::new());
        };
        let mut value = self.expression(value);
        if node.kind() == "reference_assignment_expression" {
            let range = value.range.clone();
            let kind = ExpressionKind::Reference(Box::new(value));
            value = Expression { kind, range };
        }
        let value = self.typed(node, value);
        let operator = match node.kind() {
            "short_var_declaration"
            | "var_spec"
            | "const_spec"
            | "variable_declarator"
            | "const_element"
            | "property_element"
            | "public_field_definition"
            | "field_definition"
            | "resource"
            | "named_expression"
            | "assignment_pattern"
            | "reference_assignment_expression" => None,
            _ => {
                let sign = node
                    .child_by_field_name("operator")
                    .map_or_else(|| self.between(node), |n| self.text(n).to_owned());
                let sign = sign.trim().trim_end_matches('=').to_owned();
                (!sign.is_empty()).then_some(sign)
            }
        };
        ExpressionKind::Assign {
            target: Box::new(target),
            operator,
            value: Box::new(value),
        }
    }

    /// Wraps a value in a cast to the declared type of its target, which gives the object's class.
    fn typed(&mut self, assignment: Node<'_>, value: Expression) -> Expression {
        let is_made = matches!(
            value.kind,
            ExpressionKind::Call { .. }
                | ExpressionKind::Name(_)
                | ExpressionKind::Member(..)
                | ExpressionKind::Index(..)
                | ExpressionKind::Conditional { .. }
        );
        let of = assignment.child_by_field_name("type").or_else(|| {
            let around = assignment.parent()?;
            let declares = matches!(
                around.kind(),
                "local_variable_declaration" | "field_declaration" | "enhanced_for_statement"
            );
            around.child_by_field_name("type").filter(|_| declares)
        });
        let Some(of) = of.filter(|_| is_made) else {
            return value;
        };
        let to = self.text(of).to_owned();
        // Numbers and texts keep their own values.
        if !to.contains(char::is_uppercase) || to == "String" {
            return value;
        }
        let range = value.range.clone();
        let value = Box::new(value);
        let kind = ExpressionKind::Cast { to, value };
        Expression { kind, range }
    }

    /// The operator of an assignment.
    fn between(&self, node: Node<'_>) -> String {
        let mut cursor = node.walk();
        let sign = node
            .children(&mut cursor)
            .find(|n| !n.is_named() && n.kind().ends_with('='));
        sign.map_or_else(|| "=".to_owned(), |n| self.text(n).to_owned())
    }

    /// Python's `value as name`.
    fn alias(&mut self, node: Node<'_>) -> ExpressionKind {
        let parts = named(node);
        match parts.as_slice() {
            [value, target] => ExpressionKind::Assign {
                target: Box::new(self.expression(*target)),
                operator: None,
                value: Box::new(self.expression(*value)),
            },
            _ => self.others(node),
        }
    }

    fn string(&mut self, node: Node<'_>) -> ExpressionKind {
        let raw = self.text(node);
        let start = node.start_byte();
        let between = |open: usize, close: usize| {
            let end = raw.len().saturating_sub(close).max(open.min(raw.len()));
            (raw.get(open..end).unwrap_or_default(), start + open)
        };
        let plain = |lowering: &mut Self, open: usize, close: usize, escapes: Escapes| {
            let (inside, base) = between(open, close);
            lowering.literal(inside, base, escapes)
        };
        match (self.language, node.kind()) {
            (_, "concatenated_string") => {
                let children = named(node);
                ExpressionKind::Join {
                    parts: children.into_iter().map(|n| self.expression(n)).collect(),
                    bound: false,
                }
            }
            (Language::Java, _) if raw.starts_with("\"\"\"") => {
                plain(self, 3, 3, Escapes::Backslash)
            }
            (Language::Go, "raw_string_literal") => plain(self, 1, 1, Escapes::Raw),
            (Language::Python, _) => {
                let prefix = raw.find(['"', '\'']).unwrap_or(0);
                let letters = raw[..prefix].to_ascii_lowercase();
                let quote = &raw[prefix..];
                let length = match quote.starts_with("\"\"\"") || quote.starts_with("'''") {
                    true => 3,
                    false => 1,
                };
                let escapes = match (letters.contains('r'), letters.contains('f')) {
                    (true, _) => Escapes::Raw,
                    (false, true) => Escapes::Braces,
                    (false, false) => Escapes::Backslash,
                };
                match letters.contains('f') {
                    true => self.pieces(node, prefix + length, length, escapes),
                    false => plain(self, prefix + length, length, escapes),
                }
            }
            (Language::Php, "encapsed_string") => self.pieces(node, 1, 1, Escapes::Backslash),
            (Language::Php, "heredoc" | "nowdoc") => {
                let body = node.child_by_field_name("value").or_else(|| {
                    named(node)
                        .into_iter()
                        .find(|n| matches!(n.kind(), "heredoc_body" | "nowdoc_body"))
                });
                match body {
                    Some(body) if node.kind() == "heredoc" => {
                        self.pieces(body, 0, 0, Escapes::Backslash)
                    }
                    Some(body) => self.literal(self.text(body), body.start_byte(), Escapes::Raw),
                    None => self.literal("", start, Escapes::Raw),
                }
            }
            (Language::Php, _) => plain(self, 1, 1, Escapes::Quote),
            (_, "template_string") => self.pieces(node, 1, 1, Escapes::Backslash),
            _ => plain(self, 1, 1, Escapes::Backslash),
        }
    }

    /// An interpolated string: values, with the text between them.
    fn pieces(
        &mut self,
        node: Node<'_>,
        open: usize,
        close: usize,
        escapes: Escapes,
    ) -> ExpressionKind {
        const TEXT: [&str; 7] = [
            "string_fragment",
            "string_content",
            "escape_sequence",
            "string_start",
            "string_end",
            "escape_interpolation",
            "heredoc_start",
        ];
        let mut parts: Vec<Expression> = Vec::new();
        let mut done = node.start_byte() + open;
        let end = node.end_byte().saturating_sub(close).max(done);
        let in_php = self.language == Language::Php;
        let mut holes: Vec<(Node<'_>, Node<'_>)> = Vec::new();
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        for child in children {
            if !child.is_named() || TEXT.contains(&child.kind()) {
                // In a format string, values may be nested in a content node.
                if child.kind() == "string_content" {
                    holes.extend(
                        named(child)
                            .into_iter()
                            .filter(|n| n.kind() == "interpolation")
                            .map(|n| (n, n)),
                    );
                }
                continue;
            }
            holes.push((child, child));
        }
        for (whole, inner) in holes {
            let inner = match inner.kind() {
                "template_substitution" => inner.named_child(0).unwrap_or(inner),
                "interpolation" => inner
                    .child_by_field_name("expression")
                    .or_else(|| inner.named_child(0))
                    .unwrap_or(inner),
                _ => inner,
            };
            let mut until = whole.start_byte();
            let mut after = whole.end_byte();
            if in_php {
                // `{$a}` and `${a}`.
                if self.text[..until].ends_with('{') && self.text[after..].starts_with('}') {
                    until -= 1;
                    after += 1;
                }
            }
            self.piece(&mut parts, node, done, until, escapes);
            parts.push(self.expression(inner));
            done = after;
        }
        self.piece(&mut parts, node, done, end, escapes);
        let alone =
            matches!(parts.as_slice(), [one] if matches!(one.kind, ExpressionKind::Text(_)));
        if let Some(Expression { kind, .. }) = parts.pop_if(|_| alone) {
            return kind;
        }
        ExpressionKind::Join {
            parts,
            bound: false,
        }
    }

    fn piece(
        &mut self,
        parts: &mut Vec<Expression>,
        node: Node<'_>,
        from: usize,
        to: usize,
        escapes: Escapes,
    ) {
        let Some(raw) = self.text.get(from..to) else {
            self.broken(node);
            return;
        };
        if raw.is_empty() && !parts.is_empty() {
            return;
        }
        let kind = self.literal(raw, from, escapes);
        parts.push(Expression {
            kind,
            range: from..to,
        });
    }

    /// The content of a string literal.
    fn literal(&mut self, raw: &str, base: usize, escapes: Escapes) -> ExpressionKind {
        let literal = decode(raw, base, escapes);
        if looks_like_sql(&literal.text) {
            self.module.texts.push(base..base + raw.len());
        }
        ExpressionKind::Text(literal)
    }

    /// A function of any kind, without its class.
    pub(super) fn function(&mut self, node: Node<'_>) -> Function {
        let body = match node.child_by_field_name("body") {
            Some(body) if is_block(body.kind()) => self.statements(body),
            Some(body) => {
                let value = self.expression(body);
                vec![Statement {
                    range: value.range.clone(),
                    kind: StatementKind::Return(Some(value)),
                }]
            }
            None => Vec::new(),
        };
        let name = self.field_name(node, "name");
        let head_end = node
            .child_by_field_name("body")
            .map_or(node.end_byte(), |body| body.start_byte());
        let head = self
            .text
            .get(node.start_byte()..head_end)
            .unwrap_or_default();
        let head = head.split('(').next().unwrap_or_default();
        let says_private = head.split_whitespace().any(|word| word == "private");
        let private = match self.language {
            Language::Python => name.starts_with('_') && !name.starts_with("__"),
            Language::Go => name.starts_with(char::is_lowercase),
            Language::TypeScript | Language::JavaScript => says_private || name.starts_with('#'),
            _ => says_private,
        };
        let annotations = self.annotations(node);
        let says_accessor = matches!(self.language, Language::TypeScript | Language::JavaScript)
            && head
                .split_whitespace()
                .any(|word| matches!(word, "get" | "set"))
            && !matches!(name.as_str(), "get" | "set");
        let returns = ["return_type", "result", "type"]
            .iter()
            .find_map(|field| node.child_by_field_name(field));
        Function {
            name,
            parameters: self.parameters(node),
            returns: returns.map_or_else(String::new, |n| self.text(n).to_owned()),
            body,
            range: node.byte_range(),
            private,
            annotations,
            reference: false,
            is_abstract: node.child_by_field_name("body").is_none(),
            is_accessor: says_accessor,
        }
    }

    /// `of::name`, as a function that passes its argument on.
    fn method_reference(&mut self, node: Node<'_>) -> ExpressionKind {
        let parts = named(node);
        let [of, name] = parts.as_slice() else {
            return self.others(node);
        };
        let given = "it".to_owned();
        let member =
            ExpressionKind::Member(Box::new(self.expression(*of)), self.text(*name).to_owned());
        let callee = self.expression_of(member, node);
        let value = self.expression_of(ExpressionKind::Name(given.clone()), node);
        let call = ExpressionKind::Call {
            callee: Box::new(callee),
            arguments: vec![Argument {
                name: None,
                value,
                spread: false,
            }],
        };
        let call = self.expression_of(call, node);
        let range = node.byte_range();
        ExpressionKind::Lambda(Box::new(Function {
            parameters: vec![Parameter {
                name: given,
                ..Parameter::default()
            }],
            body: vec![Statement {
                kind: StatementKind::Return(Some(call)),
                range: range.clone(),
            }],
            range,
            reference: true,
            ..Function::default()
        }))
    }
}

/// Whether a Go type is a plain name.
fn is_type_name(kind: &str) -> bool {
    matches!(kind, "type_identifier" | "qualified_type")
}

pub(super) fn is_block(kind: &str) -> bool {
    matches!(
        kind,
        "block" | "statement_block" | "compound_statement" | "constructor_body" | "function_body"
    )
}
