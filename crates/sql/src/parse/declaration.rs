//! Parsed statements of data definition, before any name is looked up.

use anabranch_types::DataType;
use sqlparser::ast;

use super::{
    cursor::Name,
    data_type::Declared,
    enumeration::{EnumDeclaration, LabelAddition},
    trigger::TriggerDeclaration,
};
use crate::{
    catalog::{ColumnDefault, Deferrability, ReferentialAction},
    source::Span,
};

/// One statement of a file.
#[derive(Debug)]
pub(crate) enum Declaration {
    Table(TableDeclaration),
    /// `ALTER TABLE`.
    Alter(AlterDeclaration),
    /// `DROP TABLE`.
    DropTables {
        names: Vec<Name>,
        if_exists: bool,
    },
    /// `CREATE TYPE … AS ENUM`.
    Type(EnumDeclaration),
    /// `ALTER TYPE … ADD VALUE`.
    AddLabel(LabelAddition),
    /// `DROP TYPE`.
    DropTypes {
        names: Vec<Name>,
        if_exists: bool,
    },
    /// `CREATE SEQUENCE`.
    Sequence(SequenceDeclaration),
    /// `ALTER SEQUENCE … OWNED BY`: the sequence, the table, the column.
    SequenceOwner([String; 3]),
    Index(IndexDeclaration),
    View(ViewDeclaration),
    Assertion {
        name: Name,
        expression: ast::Expr,
        span: Span,
    },
    /// A procedure or function, parsed once the tables are known.
    Routine,
    Trigger(TriggerDeclaration),
    /// A statement that changes nothing here.
    Nothing,
}

/// `CREATE SEQUENCE`.
#[derive(Clone, Debug)]
pub(crate) struct SequenceDeclaration {
    pub(crate) name: Name,
    pub(crate) if_not_exists: bool,
    pub(crate) settings: SequenceSettings,
}

/// The options that a statement names; what it does not name stays as it is, or is the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceSettings {
    pub(super) data_type: Option<DataType>,
    pub(super) increment: Option<i64>,
    /// `Some(None)`: NO MINVALUE.
    pub(super) minimum: Option<Option<i64>>,
    /// `Some(None)`: NO MAXVALUE.
    pub(super) maximum: Option<Option<i64>>,
    pub(super) start: Option<i64>,
    pub(super) cache: Option<i64>,
    pub(super) cycles: Option<bool>,
    /// RESTART: the number, or that of START.
    pub(crate) restart: Option<Option<i64>>,
    /// OWNED BY; `Some(None)`: NONE.
    pub(crate) owner: Option<Option<(Name, Name)>>,
}

/// `CREATE TABLE`.
#[derive(Clone, Debug)]
pub(crate) struct TableDeclaration {
    pub(crate) name: Name,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDeclaration>,
    /// Its constraints, those of columns included.
    pub(crate) constraints: Vec<ConstraintDeclaration>,
    pub(crate) span: Span,
}

/// A column of a `CREATE TABLE`.
#[derive(Clone, Debug)]
pub(crate) struct ColumnDeclaration {
    pub(crate) name: Name,
    pub(crate) declared: Declared,
    pub(crate) not_null: bool,
    pub(crate) default: ColumnDefault,
}

/// A constraint of a table or of a column.
#[derive(Clone, Debug)]
pub(crate) struct ConstraintDeclaration {
    pub(crate) name: Option<Name>,
    pub(crate) kind: ConstraintKind,
    pub(crate) span: Span,
}

/// The kind of a constraint.
#[expect(clippy::large_enum_variant, reason = "an application has few of them")]
#[derive(Clone, Debug)]
pub(crate) enum ConstraintKind {
    PrimaryKey(Vec<Name>),
    Unique(Vec<Name>),
    Check {
        expression: ast::Expr,
        /// The names in it: PostgreSQL names the constraint after the column if there is just one.
        words: Vec<String>,
    },
    ForeignKey {
        columns: Vec<Name>,
        parent: Name,
        /// Empty: the parent's primary key.
        parent_columns: Vec<Name>,
        on_delete: ReferentialAction,
        on_update: ReferentialAction,
        deferrability: Deferrability,
    },
}

/// `ALTER TABLE`.
#[derive(Debug)]
pub(crate) struct AlterDeclaration {
    pub(crate) table: Name,
    /// In their order.
    pub(crate) actions: Vec<AlterAction>,
}

/// An action of an `ALTER TABLE`.
#[derive(Debug)]
pub(crate) enum AlterAction {
    /// ADD of a constraint.
    Constrain(ConstraintDeclaration),
    /// ADD COLUMN, with the constraints that stand at it.
    AddColumn {
        column: ColumnDeclaration,
        constraints: Vec<ConstraintDeclaration>,
        if_not_exists: bool,
    },
    /// DROP COLUMN, and the constraints and indexes that it is in.
    DropColumn { column: Name, if_exists: bool },
    /// DROP CONSTRAINT.
    DropConstraint { name: Name, if_exists: bool },
    /// ALTER COLUMN.
    AlterColumn(ColumnAlteration),
}

/// `ALTER TABLE … ALTER COLUMN`.
#[derive(Debug)]
pub(crate) struct ColumnAlteration {
    pub(crate) column: Name,
    /// SET DEFAULT, DROP DEFAULT, ADD GENERATED … AS IDENTITY.
    pub(crate) default: Option<ColumnDefault>,
    /// SET NOT NULL, DROP NOT NULL; identity too.
    pub(crate) not_null: Option<bool>,
    /// TYPE.
    pub(crate) data_type: Option<Declared>,
    /// DROP EXPRESSION.
    pub(crate) expression_dropped: Option<ExpressionDropped>,
}

/// `DROP EXPRESSION [IF EXISTS]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpressionDropped {
    pub(crate) if_exists: bool,
}

/// A part of the key of a `CREATE INDEX`.
#[expect(clippy::large_enum_variant, reason = "an application has few of them")]
#[derive(Clone, Debug)]
pub(crate) enum IndexKey {
    Column(Name),
    /// An expression, with its place and the name that PostgreSQL gives it.
    Expression(ast::Expr, Span, String),
}

impl IndexKey {
    /// Its name in the default name of an index.
    pub(crate) fn name(&self) -> &str {
        match self {
            IndexKey::Column(name) => &name.text,
            IndexKey::Expression(_, _, name) => name,
        }
    }
}

/// `CREATE INDEX`.
#[derive(Clone, Debug)]
pub(crate) struct IndexDeclaration {
    pub(crate) name: Option<Name>,
    pub(crate) if_not_exists: bool,
    pub(crate) table: Name,
    pub(crate) parts: Vec<IndexKey>,
    /// The condition of a partial index, with its place.
    pub(crate) predicate: Option<(ast::Expr, Span)>,
    pub(crate) unique: bool,
    pub(crate) span: Span,
}

/// `CREATE VIEW`.
#[derive(Debug)]
pub(crate) struct ViewDeclaration {
    pub(crate) name: Name,
    pub(crate) or_replace: bool,
    pub(crate) columns: Vec<Name>,
    pub(crate) query: Box<ast::Query>,
    pub(crate) span: Span,
}

/// The result in a routine's header, which decides what the body may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultKind {
    /// OUT parameters or nothing.
    Parameters,
    /// One value.
    Scalar,
    /// Rows with variables for columns (`RETURNS TABLE`, OUT parameters with `SETOF`).
    NamedRows,
    /// Rows of one nameless column, or a table's (`SETOF`).
    Rows,
}
