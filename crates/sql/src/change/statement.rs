//! Statements that change the schema, parsed and not yet applied.

use std::sync::Arc;

use sqlparser::ast;

use crate::{
    catalog::{Deferrability, RoutineKind},
    parse::{
        cursor::Name,
        data_type::Declared,
        declaration::{
            ColumnDeclaration, ConstraintDeclaration, IndexDeclaration, SequenceDeclaration,
            SequenceSettings, TableDeclaration,
        },
        enumeration::{EnumDeclaration, LabelAddition},
        trigger::TriggerDeclaration,
    },
    source::Span,
};

/// A statement that changes the schema, or truncates tables.
#[derive(Clone, Debug)]
pub struct ChangeStatement {
    pub(crate) kind: ChangeKind,
    /// Its own text; places are in it.
    pub(crate) text: Arc<str>,
    pub(crate) tag: &'static str,
}

impl ChangeStatement {
    /// The command tag, such as `CREATE TABLE`.
    pub fn tag(&self) -> &'static str {
        self.tag
    }

    /// The statement's own text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

#[derive(Clone, Debug)]
pub(crate) enum ChangeKind {
    CreateTable(TableDeclaration),
    CreateIndex(Box<IndexDeclaration>),
    CreateSequence(SequenceDeclaration),
    CreateType(EnumDeclaration),
    /// ALTER TYPE … ADD VALUE.
    AddLabel(LabelAddition),
    /// A statement without an effect here, of a type that must exist.
    AcceptedOfType(Name),
    /// ALTER SEQUENCE, RENAME apart.
    AlterSequence {
        name: Name,
        if_exists: bool,
        settings: SequenceSettings,
    },
    CreateView {
        name: Name,
        or_replace: bool,
    },
    CreateAssertion(Name),
    CreateRoutine {
        name: Name,
        kind: RoutineKind,
        or_replace: bool,
    },
    CreateTrigger(Box<TriggerDeclaration>),
    DropTrigger {
        name: Name,
        table: Name,
        if_exists: bool,
    },
    /// ALTER TRIGGER … RENAME TO.
    RenameTrigger {
        name: Name,
        table: Name,
        to: Name,
    },
    /// A statement without an effect here, of a trigger that must exist.
    AcceptedOfTrigger {
        name: Name,
        table: Name,
    },
    /// DROP of relations.
    Drop {
        object: ObjectKind,
        names: Vec<Name>,
        if_exists: bool,
        cascade: bool,
    },
    DropRoutine {
        object: RoutineObject,
        routines: Vec<RoutineName>,
        if_exists: bool,
        cascade: bool,
    },
    AlterTable {
        /// The word after ALTER.
        object: ObjectKind,
        name: Name,
        if_exists: bool,
        actions: Vec<Action>,
    },
    Truncate {
        names: Vec<Name>,
        restart: bool,
        cascade: bool,
    },
    /// A statement without an effect here, of relations that must exist.
    Accepted {
        relations: Vec<Name>,
    },
    /// `CREATE SCHEMA` of the one that is there, `CREATE EXTENSION`.
    Existing {
        if_not_exists: bool,
        /// `schema "public"`.
        what: String,
        code: &'static str,
    },
}

/// The kind of a relation in a DROP or an ALTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Table,
    View,
    Index,
    Sequence,
    Assertion,
    Type,
}

/// The word after DROP, for routines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoutineObject {
    Function,
    Procedure,
    Routine,
}

/// A routine in a DROP.
#[derive(Clone, Debug)]
pub(crate) struct RoutineName {
    pub(crate) name: Name,
    /// The types of its input parameters, if they are given.
    pub(crate) arguments: Option<Vec<anabranch_types::DataType>>,
}

/// An action of an ALTER TABLE.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    AddConstraint {
        constraint: ConstraintDeclaration,
        not_valid: bool,
    },
    /// `ADD [CONSTRAINT name] PRIMARY KEY | UNIQUE USING INDEX index`.
    AddUsingIndex {
        name: Option<Name>,
        primary: bool,
        index: Name,
    },
    AddColumn {
        column: ColumnDeclaration,
        constraints: Vec<ConstraintDeclaration>,
        if_not_exists: bool,
    },
    DropColumn {
        column: Name,
        if_exists: bool,
        cascade: bool,
    },
    DropConstraint {
        name: Name,
        if_exists: bool,
        cascade: bool,
    },
    ValidateConstraint(Name),
    AlterConstraint {
        name: Name,
        deferrability: Deferrability,
    },
    SetType {
        column: Name,
        declared: Declared,
        using: Option<(ast::Expr, Span)>,
    },
    /// SET DEFAULT, DROP DEFAULT.
    SetDefault {
        column: Name,
        default: crate::catalog::ColumnDefault,
    },
    SetNotNull {
        column: Name,
        not_null: bool,
    },
    AddIdentity {
        column: Name,
        always: bool,
    },
    SetGenerated {
        column: Name,
        always: bool,
    },
    DropIdentity {
        column: Name,
        if_exists: bool,
    },
    DropExpression {
        column: Name,
        if_exists: bool,
    },
    RenameRelation(Name),
    RenameColumn {
        column: Name,
        to: Name,
    },
    RenameConstraint {
        name: Name,
        to: Name,
    },
    /// What tells PostgreSQL who owns a relation or how it is stored. With the column that must exist.
    Accepted {
        column: Option<Name>,
    },
}
