//! What the languages have in common, as far as it matters for which SQL runs when with what: the tree
//! that `lower` makes of each language's own, and that everything behind it reads.
//!
//! Whatever has no place in it becomes [`ExpressionKind::Other`] or [`StatementKind::Other`] with its parts,
//! so that calls in it are still seen.

use std::ops::Range;
use std::sync::Arc;

/// A source file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    /// What stands outside of functions and classes, and these.
    pub(crate) body: Vec<Statement>,
    /// What the language's grammar does not allow, or nests too deeply.
    pub(crate) broken: Vec<Range<usize>>,
    /// The strings that look like SQL, without their quotes.
    pub(crate) texts: Vec<Range<usize>>,
}

/// A function, a method, or a lambda.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    /// Its name; empty for one that has none.
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    /// The type of what it returns, as it is written; empty where there is none.
    pub(crate) returns: String,
    pub(crate) body: Vec<Statement>,
    pub(crate) range: Range<usize>,
    /// Whether nobody outside of its class, or its file, can call it.
    pub(crate) private: bool,
    /// Annotations and decorators.
    pub(crate) annotations: Vec<Expression>,
    /// Whether it is a method by its name, `this::take`: who is handed it gives it what it takes.
    pub(crate) reference: bool,
    /// Whether it has no body: others give it one.
    pub(crate) is_abstract: bool,
    /// Whether it runs where it is read, or written, as a field is.
    pub(crate) is_accessor: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// As it is written; empty where there is none.
    pub(crate) of_type: String,
    /// Whether it is a field, too: `constructor(private readonly client: Client)`.
    pub(crate) is_field: bool,
    /// Whether it is its caller's variable: `function change(&$text)`.
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
    /// One of them runs, or none unless there is one for all else.
    Cases {
        value: Option<Expression>,
        cases: Vec<Vec<Statement>>,
        exhaustive: bool,
    },
    /// What is evaluated before it, then each time.
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
    /// An exception, or the return of an error.
    Throw(Option<Expression>),
    /// Out of a loop or of its turn.
    Leave,
    Block(Vec<Statement>),
    Function(Box<Function>),
    Class {
        name: String,
        /// What it extends and implements, by their last names.
        bases: Vec<String>,
        /// Its fields that have a type.
        fields: Vec<Parameter>,
        /// Annotations and decorators.
        annotations: Vec<Expression>,
        body: Vec<Statement>,
    },
    /// Not understood: it may run.
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
    /// Texts and values one behind the other. What is `bound` is handed over beside the text by whatever
    /// it is tagged with.
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
    /// The address of something, which a call may change.
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

/// A text with the place of each of its bytes in the file.
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    pub(crate) text: Arc<str>,
    pub(crate) places: Arc<[u32]>,
}

impl Expression {
    /// The last name of `a.b.c`.
    pub(crate) fn last_name(&self) -> Option<&str> {
        match &self.kind {
            ExpressionKind::Name(name) | ExpressionKind::Member(_, name) => Some(name),
            ExpressionKind::Call { callee, .. } => callee.last_name(),
            ExpressionKind::Index(of, _) | ExpressionKind::Reference(of) => of.last_name(),
            _ => None,
        }
    }

    /// `a.b` written out, where it is nothing but names.
    pub(crate) fn path(&self) -> Option<String> {
        match &self.kind {
            ExpressionKind::Name(name) => Some(name.clone()),
            ExpressionKind::Member(of, name) => Some(format!("{}.{name}", of.path()?)),
            _ => None,
        }
    }
}
