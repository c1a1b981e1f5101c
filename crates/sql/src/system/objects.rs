//! The objects of an application, as the system catalogs describe and number them.
//!
//! An OID follows from the object's place among its kind, so it is stable: a table has a block of OIDs of its own, for
//! itself, its indexes, constraints, sequences and defaults. What another table declares moves none of them. The first
//! table has 16384, as in PostgreSQL. That of a type follows from its name.

use std::{collections::BTreeSet, sync::Arc};

use anabranch_types::{ColumnIndex, DataType, EnumType, IndexId, SequenceId, TableId};

use crate::{deferred::Deferrability, sequence::ResolvedSequence};

/// The first OID that is none of PostgreSQL's own.
const FIRST: u32 = 16_384;
/// The OIDs of a table.
const BLOCK: u32 = 16_384;
/// Places in a table's block.
const INDEXES: u32 = 2;
const CONSTRAINTS: u32 = 2_048;
const SEQUENCES: u32 = 8_192;
const DEFAULTS: u32 = 12_288;
/// Beyond the blocks of all tables, whose numbers have 16 bits.
const VIEWS: u32 = FIRST + (1 << 16) * BLOCK;
const NAMED_SEQUENCES: u32 = VIEWS + (1 << 27);
const PROCEDURES: u32 = VIEWS + (1 << 28);
const TRIGGER_FUNCTIONS: u32 = PROCEDURES + (1 << 26);
const TRIGGERS: u32 = PROCEDURES + (1 << 27);
/// The OIDs of enumerations, each with a block for itself, its arrays and its labels. Clients that take an OID for a signed
/// number of 32 bits find it positive.
const TYPES: u32 = VIEWS + (1 << 29);
const TYPE_BLOCK: u32 = 4_096;
const TYPE_BLOCKS: u32 = 131_000;

/// The OIDs of schemas.
pub(crate) const PG_CATALOG: u32 = 11;
pub(crate) const PUBLIC: u32 = 2_200;
pub(crate) const INFORMATION_SCHEMA: u32 = 13_207;
/// The OID of the role that owns everything: the session's own.
pub(crate) const OWNER: u32 = 10;

/// The OID of a table.
pub(crate) fn table_oid(table: TableId) -> u32 {
    FIRST + u32::from(table.0) * BLOCK
}

/// The OID of a table's index; `None` is the primary key.
pub(crate) fn index_oid(table: TableId, index: Option<IndexId>) -> u32 {
    let place = index.map_or(0, |index| 1 + u32::from(index.0));
    table_oid(table) + INDEXES + place
}

/// The OID of a table's constraint, by its place among all of them.
pub(crate) fn constraint_oid(table: TableId, place: u32) -> u32 {
    table_oid(table) + CONSTRAINTS + place
}

/// The OID of the sequence of a column.
fn sequence_oid(table: TableId, column: ColumnIndex) -> u32 {
    table_oid(table) + SEQUENCES + u32::from(column.0)
}

/// The OID of a sequence.
pub(crate) fn oid_of_sequence(sequence: SequenceId) -> u32 {
    match sequence {
        SequenceId::Column(table, column) => sequence_oid(table, column),
        SequenceId::Named(number) => NAMED_SEQUENCES + u32::from(number),
    }
}

/// The OID of a column's default.
pub(crate) fn default_oid(table: TableId, column: ColumnIndex) -> u32 {
    table_oid(table) + DEFAULTS + u32::from(column.0)
}

/// The OID of a view, by its place among them.
pub(crate) fn view_oid(place: u32) -> u32 {
    VIEWS + place
}

/// The OID of a procedure, by its place among them.
pub(crate) fn procedure_oid(place: u32) -> u32 {
    PROCEDURES + place
}

/// The OID of a trigger function, by its place among them.
pub(crate) fn trigger_function_oid(place: u32) -> u32 {
    TRIGGER_FUNCTIONS + place
}

/// The OID of a trigger, by its place among them.
pub(crate) fn trigger_oid(place: u32) -> u32 {
    TRIGGERS + place
}

/// The OIDs of enumerations with these names. They follow from the names, since clients remember the numbers of types:
/// dropping a type does not move the others, two apart whose names have one hash.
pub(crate) fn enum_oids<'n>(names: impl Iterator<Item = &'n str>) -> Vec<u32> {
    let mut taken = BTreeSet::new();
    let oids = names.map(|name| {
        // FNV-1a
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let mut block = hash % TYPE_BLOCKS;
        while !taken.insert(block) {
            block = (block + 1) % TYPE_BLOCKS;
        }
        TYPES + block * TYPE_BLOCK
    });
    oids.collect()
}

/// The objects of an application.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) types: Vec<Arc<EnumType>>,
    pub(crate) relations: Vec<Relation>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) constraints: Vec<Constraint>,
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) procedures: Vec<Procedure>,
    pub(crate) triggers: Vec<Trigger>,
}

impl Objects {
    /// Whether a table has triggers. PostgreSQL keeps foreign keys by triggers of both tables.
    pub(crate) fn has_triggers(&self, table: u32) -> bool {
        let is_referential = |c: &Constraint| match &c.kind {
            ConstraintKind::ForeignKey(key) => c.table == table || key.parent == table,
            _ => false,
        };
        self.constraints.iter().any(is_referential)
            || self.triggers.iter().any(|of| of.table == table)
    }
}

/// The kind of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelationKind {
    Table,
    Index,
    View,
    Sequence,
}

impl RelationKind {
    /// Its abbreviation, `pg_class.relkind`.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            RelationKind::Table => "r",
            RelationKind::Index => "i",
            RelationKind::View => "v",
            RelationKind::Sequence => "S",
        }
    }
}

/// A relation: a table, index, view or sequence.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(crate) oid: u32,
    pub(crate) schema: u32,
    pub(crate) name: String,
    pub(crate) kind: RelationKind,
    pub(crate) columns: Vec<Column>,
    /// The query of a view.
    pub(crate) definition: Option<String>,
}

/// A column of a relation.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) not_null: bool,
    pub(crate) default: Option<Default>,
    /// `a` for GENERATED ALWAYS AS IDENTITY, `d` for BY DEFAULT, empty otherwise.
    pub(crate) identity: &'static str,
    /// Of a generated column, whose `default` is its expression: the numbers of the columns that it reads.
    pub(crate) generated: Option<Vec<i64>>,
}

impl Column {
    /// A column without a default.
    pub(crate) fn plain(name: &str, data_type: DataType) -> Column {
        Column {
            name: name.to_owned(),
            data_type,
            not_null: false,
            default: None,
            identity: "",
            generated: None,
        }
    }
}

/// A column's default.
#[derive(Debug)]
pub(crate) struct Default {
    pub(crate) oid: u32,
    pub(crate) text: Written,
}

/// An expression as PostgreSQL writes it: with all parentheses, and with those alone that are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) full: String,
    pub(crate) pretty: String,
}

/// An index.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// Its table, as an OID.
    pub(crate) table: u32,
    pub(crate) table_name: String,
    /// The places of its columns in the table, from 1, with their names and types; an expression has place 0.
    pub(crate) columns: Vec<(i64, String, DataType)>,
    /// Its columns and expressions as its declaration has them.
    pub(crate) parts: Vec<Written>,
    /// Its expressions, if it has some.
    pub(crate) expressions: Option<Written>,
    /// The condition of a partial index.
    pub(crate) predicate: Option<Written>,
    pub(crate) unique: bool,
    pub(crate) primary: bool,
}

/// A constraint.
#[derive(Debug)]
pub(crate) struct Constraint {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// Its table, as an OID.
    pub(crate) table: u32,
    /// The places of its columns, from 1.
    pub(crate) columns: Vec<i64>,
    pub(crate) kind: ConstraintKind,
    /// As SQL.
    pub(crate) text: Written,
}

/// The kind of a constraint.
#[derive(Debug)]
pub(crate) enum ConstraintKind {
    /// With its condition.
    Check(Written),
    ForeignKey(Box<ForeignKey>),
    /// With its index.
    PrimaryKey(u32),
    /// With its index.
    Unique(u32),
}

impl ConstraintKind {
    /// Its abbreviation, `pg_constraint.contype`.
    pub(crate) fn letter(&self) -> &'static str {
        match self {
            ConstraintKind::Check(_) => "c",
            ConstraintKind::ForeignKey(_) => "f",
            ConstraintKind::PrimaryKey(_) => "p",
            ConstraintKind::Unique(_) => "u",
        }
    }
}

/// What a foreign key refers to.
#[derive(Debug)]
pub(crate) struct ForeignKey {
    /// The referenced table.
    pub(crate) parent: u32,
    pub(crate) parent_columns: Vec<i64>,
    /// The index of the referenced key, and its constraint's name if it has one.
    pub(crate) index: u32,
    pub(crate) key_name: Option<String>,
    pub(crate) on_update: Action,
    pub(crate) on_delete: Action,
    pub(crate) deferrability: Deferrability,
}

/// The action of a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl Action {
    /// Its abbreviation, as in `pg_constraint.confdeltype`.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Action::Nothing => "a",
            Action::Restrict => "r",
            Action::Cascade => "c",
            Action::SetNull => "n",
            Action::SetDefault => "d",
        }
    }

    /// Its words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Action::Nothing => "NO ACTION",
            Action::Restrict => "RESTRICT",
            Action::Cascade => "CASCADE",
            Action::SetNull => "SET NULL",
            Action::SetDefault => "SET DEFAULT",
        }
    }
}

/// A sequence.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) oid: u32,
    pub(crate) sequence: Arc<ResolvedSequence>,
    /// The column that owns it.
    pub(crate) owner: Option<SequenceOwner>,
    /// Whether it is that of an identity column.
    pub(crate) is_identity: bool,
}

/// The column that owns a sequence.
#[derive(Debug)]
pub(crate) struct SequenceOwner {
    /// Its table, as an OID.
    pub(crate) table: u32,
    /// Its place, from 1, and its name.
    pub(crate) column: i64,
    pub(crate) column_name: String,
}

/// A procedure or function.
#[derive(Debug)]
pub(crate) struct Procedure {
    pub(crate) oid: u32,
    pub(crate) name: String,
    pub(crate) is_function: bool,
    pub(crate) is_strict: bool,
    pub(crate) returns_set: bool,
    /// The type that it returns, as an OID.
    pub(crate) result: u32,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) language: &'static str,
    /// Its whole declaration, and its body.
    pub(crate) declaration: String,
    pub(crate) body: String,
}

/// A trigger BEFORE the writing of each row.
#[derive(Debug)]
pub(crate) struct Trigger {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// Its table, as an OID.
    pub(crate) table: u32,
    pub(crate) table_name: String,
    pub(crate) on_insert: bool,
    pub(crate) on_update: bool,
    /// The places of the columns of UPDATE OF, from 1, and their names.
    pub(crate) columns: Vec<(i64, String)>,
    /// WHEN.
    pub(crate) condition: Option<Written>,
    /// Its function, as an OID, and the name of that.
    pub(crate) function: u32,
    pub(crate) function_name: String,
}

/// A parameter of a procedure, or a column of the table that it returns.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// `i`, `o`, `b` for both, `t` for a column of the result.
    pub(crate) mode: &'static str,
    pub(crate) default: Option<String>,
}

impl Parameter {
    /// Whether the caller gives it.
    pub(crate) fn is_input(&self) -> bool {
        matches!(self.mode, "i" | "b")
    }
}
