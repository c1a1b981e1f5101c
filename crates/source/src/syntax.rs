//! The common syntax tree of all languages, reduced to what decides which SQL runs, when, and with which values.
//! `lower` builds it from each language's own tree; every later stage reads it.
//!
//! Anything else becomes [`ExpressionKind::Other`] or [`StatementKind::Other`] with its parts, so that calls within
//! it are still seen.

use std::ops::Range;
use std::sync::Arc;

/// A source file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    /// The top-level statements, with functions and classes among them.
    pub(crate) body: Vec<Statement>,
    /// Ranges that violate the grammar or nest too deeply.
    pub(crate) broken: Vec<Range<usize>>,
    /// The strings that look like SQL, without their quotes.
    pub(crate) texts: Vec<Range<usize>>,
}

/// A function, a method, or a lambda.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    /// The name; empty for an anonymous function.
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    /// The return type as written; empty if there is none.
    pub(crate) returns: String,
    pub(crate) body: Vec<Statement>,
    pub(crate) range: Range<usize>,
    /// Whether only its class or its file can call it.
    pub(crate) private: bool,
    /// Annotations and decorators.
    pub(crate) annotations: Vec<Expression>,
    /// Whether it is a method reference, `this::take`: its caller passes the arguments.
    pub(crate) reference: bool,
    /// Whether it has no body; derived classes supply one.
    pub(crate) is_abstract: bool,
    /// Whether it is an accessor: it runs when a field is read or written.
    pub(crate) is_accessor: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// As it is written; empty where there is none.
    pub(crate) of_type: String,
    /// Whether it also declares a field: `constructor(private readonly client: Client)`.
    pub(crate) is_field: bool,
    /// Whether it is passed by reference: `function change(&$text)`.
    pub(crate) is_reference: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    pub(crate) range: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum StatementKind {
    Expression(Expression),
    If {
        condition: Expression,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    /// At most one case runs; exactly one if `exhaustive`.
    Cases {
        value: Option<Expression>,
        cases: Vec<Vec<Statement>>,
        exhaustive: bool,
    },
    /// `before` is evaluated once, `body` on each iteration.
    Loop {
        before: Vec<Expression>,
        body: Vec<Statement>,
    },
    Try {
        body: Vec<Statement>,
        handlers: Vec<Vec<Statement>>,
        finally: Vec<Statement>,
    },
    Return(Option<Expression>),
    /// An exception, or in Go the return of an error.
    Throw(Option<Expression>),
    /// `break` or `continue`.
    Leave,
    Block(Vec<Statement>),
    Function(Box<Function>),
    Class {
        name: String,
        /// Base classes and interfaces, by the last part of their names.
        bases: Vec<String>,
        /// The fields with a declared type.
        fields: Vec<Parameter>,
        /// Annotations and decorators.
        annotations: Vec<Expression>,
        body: Vec<Statement>,
    },
    /// Not analysed: it may or may not run.
    Other(Vec<Statement>),
    /// Not what the language allows.
    Broken,
}

#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) kind: ExpressionKind,
    pub(crate) range: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum ExpressionKind {
    /// A string, without its quotes and escapes.
    Text(Literal),
    Number(String),
    /// `null`, `None`, `nil`, `undefined`.
    Null,
    /// A variable or a constant; PHP's without `$`.
    Name(String),
    /// `a.b`, `a->b`, `A::b`.
    Member(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    /// `new X(…)` is a call of `new X`.
    Call {
        callee: Box<Expression>,
        arguments: Vec<Argument>,
    },
    /// A concatenation. With `bound` the tag of the template passes the values beside the text.
    Join {
        parts: Vec<Expression>,
        bound: bool,
    },
    Binary {
        operator: String,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    Not(Box<Expression>),
    Conditional {
        condition: Box<Expression>,
        yes: Box<Expression>,
        no: Box<Expression>,
    },
    List(Vec<Expression>),
    Map(Vec<(String, Expression)>),
    Lambda(Box<Function>),
    Assign {
        target: Box<Expression>,
        /// `+` of `+=`.
        operator: Option<String>,
        value: Box<Expression>,
    },
    /// A cast to a type.
    Cast {
        to: String,
        value: Box<Expression>,
    },
    /// A reference, through which a call may change the value.
    Reference(Box<Expression>),
    Other(Vec<Expression>),
    /// Not what the language allows, or nested too deeply.
    Broken,
}

#[derive(Clone, Debug)]
pub(crate) struct Argument {
    /// `name=value`.
    pub(crate) name: Option<String>,
    pub(crate) value: Expression,
    /// `…list`.
    pub(crate) spread: bool,
}

/// A text with the file offset of each of its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    pub(crate) text: Arc<str>,
    pub(crate) places: Arc<[u32]>,
}

impl Expression {
    /// The last name of a path: `c` of `a.b.c`.
    pub(crate) fn last_name(&self) -> Option<&str> {
        match &self.kind {
            ExpressionKind::Name(name) | ExpressionKind::Member(_, name) => Some(name),
            ExpressionKind::Call { callee, .. } => callee.last_name(),
            ExpressionKind::Index(of, _) | ExpressionKind::Reference(of) => of.last_name(),
            _ => None,
        }
    }

    /// The dotted path of an expression that consists of names alone.
    pub(crate) fn path(&self) -> Option<String> {
        match &self.kind {
            ExpressionKind::Name(name) => Some(name.clone()),
            ExpressionKind::Member(of, name) => Some(format!("{}.{name}", of.path()?)),
            _ => None,
        }
    }
}
