//! Lowers each language's syntax tree into the common one.
//!
//! The grammars agree on most node names, so each kind of node is handled once; where two languages differ, the code
//! checks the language. Unknown nodes keep their parts ([`StatementKind::Other`], [`ExpressionKind::Other`]): nothing
//! is dropped. Depth is bounded, since generated sources nest without limit; deeper nodes count as broken.

mod class;
mod expression;
mod literal;
mod statement;

use tree_sitter::{Node, Parser};

use crate::{
    language::Language,
    syntax::{Expression, ExpressionKind, Module, Parameter, Statement, StatementKind},
};

/// The deepest nesting of statements and expressions.
pub(crate) const DEPTH_MAX: usize = 160;

/// Lowers a file. `None` only if a grammar does not load, which a test excludes.
pub(crate) fn lower(language: Language, text: &str) -> Option<Module> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    let tree = parser.parse(&*language.readable(text), None)?;
    let mut lowering = Lowering {
        language,
        text,
        depth: 0,
        module: Module::default(),
    };
    let body = lowering.statements(tree.root_node());
    lowering.module.body = body;
    lowering.errors(tree.root_node());
    Some(lowering.module)
}

struct Lowering<'t> {
    language: Language,
    text: &'t str,
    depth: usize,
    module: Module,
}

impl<'t> Lowering<'t> {
    /// Records all nodes that the grammar could not parse.
    fn errors(&mut self, root: Node<'_>) {
        if root.has_error() {
            let mut waiting = vec![root];
            while let Some(node) = waiting.pop() {
                if node.is_error() || node.is_missing() && node.is_named() {
                    self.broken(node);
                } else if node.has_error() {
                    let mut cursor = node.walk();
                    waiting.extend(node.children(&mut cursor));
                }
            }
        }
        self.module
            .broken
            .sort_by_key(|range| (range.start, range.end));
        self.module.broken.dedup();
    }

    fn text(&self, node: Node<'_>) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// A name without PHP's `$`.
    fn name(&self, node: Node<'_>) -> String {
        self.text(node).trim_start_matches('$').to_owned()
    }

    fn field_name(&self, node: Node<'_>, field: &str) -> String {
        node.child_by_field_name(field)
            .map_or_else(String::new, |n| self.name(n))
    }

    fn broken(&mut self, node: Node<'_>) {
        self.module.broken.push(node.byte_range());
    }

    fn expression_of(&mut self, kind: ExpressionKind, node: Node<'_>) -> Expression {
        Expression {
            kind,
            range: node.byte_range(),
        }
    }

    fn statement_of(&mut self, kind: StatementKind, node: Node<'_>) -> Statement {
        Statement {
            kind,
            range: node.byte_range(),
        }
    }

    /// The field's expression; a missing field is broken.
    fn field(&mut self, node: Node<'_>, field: &str) -> Expression {
        match node.child_by_field_name(field) {
            Some(child) => self.expression(child),
            None => self.expression_of(ExpressionKind::Broken, node),
        }
    }

    /// The field's expression, if it is present.
    fn optional(&mut self, node: Node<'_>, field: &str) -> Option<Expression> {
        let child = node.child_by_field_name(field)?;
        Some(self.expression(child))
    }

    fn parameters(&mut self, node: Node<'_>) -> Vec<Parameter> {
        let Some(list) = node.child_by_field_name("parameters") else {
            let single = node.child_by_field_name("parameter");
            return single
                .into_iter()
                .map(|n| Parameter {
                    name: self.name(n),
                    ..Parameter::default()
                })
                .collect();
        };
        if list.kind() == "identifier" {
            return vec![Parameter {
                name: self.name(list),
                ..Parameter::default()
            }];
        }
        let mut found = Vec::new();
        for child in named(list) {
            let of_type = child
                .child_by_field_name("type")
                .map_or_else(String::new, |n| self.text(n).to_owned());
            // In Go, several names may share one type.
            let names: Vec<String> = match self.language {
                Language::Go => {
                    let mut cursor = child.walk();
                    let names = child.children_by_field_name("name", &mut cursor);
                    names.map(|n| self.name(n)).collect()
                }
                _ => {
                    let inner = ["name", "pattern", "left"]
                        .iter()
                        .find_map(|field| child.child_by_field_name(field));
                    let inner = inner.or_else(|| match child.kind() {
                        "typed_parameter"
                        | "list_splat_pattern"
                        | "dictionary_splat_pattern"
                        | "inferred_parameters" => child.named_child(0),
                        _ => Some(child),
                    });
                    inner.map(|n| self.name(n)).into_iter().collect()
                }
            };
            let is_field = child.kind() == "property_promotion_parameter"
                || named(child)
                    .iter()
                    .any(|n| n.kind() == "accessibility_modifier");
            for name in names {
                found.push(Parameter {
                    name: name.trim_start_matches(['*', '.']).to_owned(),
                    of_type: of_type.clone(),
                    is_field,
                    is_reference: child.child_by_field_name("reference_modifier").is_some(),
                });
            }
        }
        found
    }
}

/// The named children except comments.
fn named(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    let children = node.named_children(&mut cursor);
    children.filter(|child| !is_comment(child.kind())).collect()
}

fn is_comment(kind: &str) -> bool {
    matches!(
        kind,
        "comment" | "line_comment" | "block_comment" | "html_comment"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_loads_every_grammar() {
        for language in [
            Language::Java,
            Language::Python,
            Language::Go,
            Language::TypeScript,
            Language::JavaScript,
            Language::Php,
        ] {
            assert!(lower(language, "").is_some(), "{language:?}");
        }
    }
}
