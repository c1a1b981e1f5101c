//! Classes: bases, fields and annotations.

use tree_sitter::Node;

use super::{Lowering, named};
use crate::{
    language::Language,
    syntax::{Argument, Expression, ExpressionKind, Function, Parameter, Statement, StatementKind},
};

impl Lowering<'_> {
    pub(super) fn class(&mut self, node: Node<'_>) -> StatementKind {
        let name = self.field_name(node, "name");
        let bases = self.bases(node);
        let annotations = self.annotations(node);
        let mut fields = self.fields(node);
        let mut body = Vec::new();
        if let Some(inner) = node.child_by_field_name("body") {
            body = self.statements(inner);
            self.aliases(inner, &mut body);
        }
        // Constructor parameters may declare fields.
        for statement in &body {
            if let StatementKind::Function(function) = &statement.kind {
                let kept = function.parameters.iter().filter(|p| p.is_field);
                fields.extend(kept.cloned());
            }
        }
        // The components of a Java record are fields.
        if node.kind() == "record_declaration" {
            fields.extend(self.parameters(node));
        }
        StatementKind::Class {
            name,
            bases,
            fields,
            annotations,
            body,
        }
    }

    /// A Go type with its fields and embedded types.
    pub(super) fn type_of_go(&mut self, spec: Node<'_>) -> Option<Statement> {
        let name = self.field_name(spec, "name");
        let of = spec.child_by_field_name("type")?;
        let (mut bases, mut fields) = (Vec::new(), Vec::new());
        if of.kind() == "struct_type" {
            let list = named(of).into_iter().next();
            for field in list.map_or_else(Vec::new, named) {
                let Some(of_type) = field.child_by_field_name("type") else {
                    continue;
                };
                let of_type = self.text(of_type).to_owned();
                let mut cursor = field.walk();
                let names: Vec<Node<'_>> =
                    field.children_by_field_name("name", &mut cursor).collect();
                if names.is_empty() {
                    let last = of_type.rsplit(['.', '*']).next().unwrap_or_default();
                    bases.push(last.to_owned());
                    fields.push(Parameter {
                        name: last.to_owned(),
                        of_type: of_type.clone(),
                        is_field: true,
                        ..Parameter::default()
                    });
                }
                for name in names {
                    fields.push(Parameter {
                        name: self.name(name),
                        of_type: of_type.clone(),
                        is_field: true,
                        ..Parameter::default()
                    });
                }
            }
        } else if of.kind() != "interface_type" {
            return None;
        }
        let class = StatementKind::Class {
            name,
            bases,
            fields,
            annotations: Vec::new(),
            body: Vec::new(),
        };
        Some(self.statement_of(class, spec))
    }

    /// The bases of a class: extended, implemented or used as traits.
    fn bases(&self, class: Node<'_>) -> Vec<String> {
        let mut found = Vec::new();
        let mut open: Vec<Node<'_>> = named(class)
            .into_iter()
            .filter(|node| {
                matches!(
                    node.kind(),
                    "superclass"
                        | "super_interfaces"
                        | "extends_interfaces"
                        | "argument_list"
                        | "class_heritage"
                        | "extends_type_clause"
                        | "base_clause"
                        | "class_interface_clause"
                )
            })
            .collect();
        if let Some(body) = class.child_by_field_name("body") {
            // PHP's traits.
            let uses = named(body).into_iter();
            open.extend(uses.filter(|node| node.kind() == "use_declaration"));
        }
        while let Some(node) = open.pop() {
            match node.kind() {
                "identifier" | "type_identifier" | "name" | "property_identifier" => {
                    found.push(self.text(node).to_owned());
                }
                "type_arguments" | "keyword_argument" | "use_list" => {}
                _ => open.extend(named(node)),
            }
        }
        found
    }

    /// The fields of a class with a declared type.
    fn fields(&mut self, class: Node<'_>) -> Vec<Parameter> {
        let mut found = Vec::new();
        for member in class
            .child_by_field_name("body")
            .map_or_else(Vec::new, named)
        {
            // Python declares fields in statements.
            let member = match member.kind() {
                "expression_statement" => member.named_child(0).unwrap_or(member),
                _ => member,
            };
            let Some(of_type) = member.child_by_field_name("type") else {
                continue;
            };
            let of_type = self.text(of_type).to_owned();
            let names: Vec<Node<'_>> = match member.kind() {
                "field_declaration" | "property_declaration" => named(member)
                    .into_iter()
                    .filter_map(|n| match n.kind() {
                        "variable_declarator" | "property_element" => {
                            n.child_by_field_name("name").or_else(|| n.named_child(0))
                        }
                        _ => None,
                    })
                    .collect(),
                "public_field_definition" | "property_signature" => {
                    member.child_by_field_name("name").into_iter().collect()
                }
                "assignment" => member.child_by_field_name("left").into_iter().collect(),
                _ => continue,
            };
            for name in names {
                found.push(Parameter {
                    name: self.name(name),
                    of_type: of_type.clone(),
                    is_field: true,
                    ..Parameter::default()
                });
            }
        }
        found
    }

    /// Annotations, decorators and attributes of a class or a function. Python's wrap the definition and are handled
    /// there.
    pub(super) fn annotations(&mut self, node: Node<'_>) -> Vec<Expression> {
        let mut found = Vec::new();
        for child in named(node) {
            match child.kind() {
                "modifiers" => {
                    for inner in named(child) {
                        if matches!(inner.kind(), "annotation" | "marker_annotation") {
                            found.push(self.expression(inner));
                        }
                    }
                }
                "decorator" => found.extend(child.named_child(0).map(|n| self.expression(n))),
                "attribute_list" => {
                    let groups = named(child).into_iter();
                    for attribute in groups.flat_map(named) {
                        if let Some(name) = attribute.named_child(0) {
                            let name = ExpressionKind::Name(self.name(name));
                            found.push(self.expression_of(name, attribute));
                        }
                    }
                }
                _ => {}
            }
        }
        // Decorators before exported definitions and methods are siblings.
        let mut before = node.prev_named_sibling();
        while let Some(decorator) = before.filter(|n| n.kind() == "decorator") {
            found.extend(decorator.named_child(0).map(|n| self.expression(n)));
            before = decorator.prev_named_sibling();
        }
        found
    }

    /// Aliases of PHP trait methods: `use Writing { put as putAway; }`.
    fn aliases(&mut self, body: Node<'_>, found: &mut Vec<Statement>) {
        if self.language != Language::Php {
            return;
        }
        let uses = named(body).into_iter();
        let lists = uses
            .filter(|n| n.kind() == "use_declaration")
            .flat_map(named)
            .filter(|n| n.kind() == "use_list");
        for clause in lists.flat_map(named) {
            let names: Vec<Node<'_>> = named(clause)
                .into_iter()
                .filter(|n| n.kind() != "visibility_modifier")
                .collect();
            let (true, [of, alias]) = (clause.kind() == "use_as_clause", names.as_slice()) else {
                continue;
            };
            let of = self.text(*of);
            let of = of.rsplit(':').next().unwrap_or(of).to_owned();
            let this = self.expression_of(ExpressionKind::Name("this".to_owned()), clause);
            let callee = ExpressionKind::Member(Box::new(this), of);
            let callee = self.expression_of(callee, clause);
            let given = self.expression_of(ExpressionKind::Name("given".to_owned()), clause);
            let call = ExpressionKind::Call {
                callee: Box::new(callee),
                arguments: vec![Argument {
                    name: None,
                    value: given,
                    spread: true,
                }],
            };
            let call = self.expression_of(call, clause);
            let returned = self.statement_of(StatementKind::Return(Some(call)), clause);
            let function = Function {
                name: self.name(*alias),
                parameters: vec![Parameter {
                    name: "given".to_owned(),
                    ..Parameter::default()
                }],
                body: vec![returned],
                range: clause.byte_range(),
                private: true,
                ..Function::default()
            };
            let function = StatementKind::Function(Box::new(function));
            found.push(self.statement_of(function, clause));
        }
    }
}
