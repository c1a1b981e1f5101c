//! A small table, and row programs over it.

use std::sync::Arc;

use anabranch_types::{
    Applied, ColumnIndex, ColumnSchema, ColumnSet, DataType, EffectError, IndexId, IndexSchema,
    Key, Merging, ProgramId, Row, RowLayout, RowPrograms, Schema, TableId, TableSchema, Value,
};
use smallvec::smallvec;

pub(crate) const TABLE: TableId = TableId(0);
pub(crate) const BY_GROUP: IndexId = IndexId(0);
pub(crate) const BY_NAME: IndexId = IndexId(1);

pub(crate) const ID: ColumnIndex = ColumnIndex(1);
pub(crate) const GROUP: ColumnIndex = ColumnIndex(2);
pub(crate) const NAME: ColumnIndex = ColumnIndex(3);
pub(crate) const TOTAL: ColumnIndex = ColumnIndex(4);

/// Adds argument 0 to `total`; returns the new total.
pub(crate) const ADD: ProgramId = ProgramId(0);
/// Sets `grp` and `name` to the arguments.
pub(crate) const ASSIGN: ProgramId = ProgramId(1);
/// Sets `total` to the argument.
pub(crate) const RESET: ProgramId = ProgramId(3);
/// Always fails.
pub(crate) const REFUSE: ProgramId = ProgramId(2);

/// `item (shard int, id int, grp int, name text, total bigint, primary key (shard, id))`, an index
/// on `grp` and a unique one on `name`.
pub(crate) fn schema() -> Schema {
    let columns = [
        ("shard", DataType::Int4, false),
        ("id", DataType::Int4, false),
        ("grp", DataType::Int4, true),
        ("name", DataType::Text, true),
        ("total", DataType::Int8, false),
    ];
    let columns: Vec<ColumnSchema> = columns
        .map(|(name, data_type, nullable)| ColumnSchema {
            name: name.into(),
            data_type,
            nullable,
            is_hidden: false,
        })
        .into();
    let layout = RowLayout::new(columns.iter().map(|c| (&c.data_type, c.nullable)));
    let index = |id, name: &str, column, unique| IndexSchema {
        id,
        name: name.into(),
        columns: vec![column],
        unique,
    };
    Schema {
        tables: vec![Arc::new(TableSchema {
            id: TABLE,
            name: "item".into(),
            columns,
            primary_key: vec![ColumnIndex(0), ColumnIndex(1)],
            indexes: vec![
                index(BY_GROUP, "item_grp", GROUP, false),
                index(BY_NAME, "item_name_key", NAME, true),
            ],
            layout,
        })],
    }
}

pub(crate) fn key(id: i32) -> Key {
    let mut key = Key::empty();
    for part in [id % 2, id] {
        key.push_value(&DataType::Int4, false, &Value::Int(part.into()));
    }
    key
}

pub(crate) fn row(
    schema: &Schema,
    id: i32,
    group: Option<i32>,
    name: Option<&str>,
    total: i64,
) -> Row {
    let values = [
        Value::Int((id % 2).into()),
        Value::Int(id.into()),
        group.map_or(Value::Null, |group| Value::Int(group.into())),
        name.map_or(Value::Null, Value::text),
        Value::Int(total),
    ];
    schema.table(TABLE).layout.encode(&values).unwrap()
}

/// The programs [`ADD`], [`ASSIGN`] and [`REFUSE`].
pub(crate) struct Programs(pub(crate) Schema);

impl RowPrograms for Programs {
    fn apply(
        &self,
        program: ProgramId,
        row: &Row,
        arguments: &[Value],
        skip: ColumnSet,
    ) -> Result<Applied, EffectError> {
        let layout = &self.0.table(TABLE).layout;
        let applied = |changes: &[(ColumnIndex, Value)], output: Option<Value>| Applied {
            row: row.with(layout, changes).unwrap(),
            outputs: output.map_or(smallvec![], |output| smallvec![output]),
        };
        match program {
            ADD => {
                let Value::Int(added) = arguments[0] else {
                    panic!("ADD takes an integer")
                };
                let added = if skip.contains(TOTAL) { 0 } else { added };
                let total = Value::Int(row.get_int(layout, TOTAL).unwrap() + added);
                Ok(applied(&[(TOTAL, total.clone())], Some(total)))
            }
            RESET if skip.contains(TOTAL) => Ok(applied(&[], None)),
            RESET => Ok(applied(&[(TOTAL, arguments[0].clone())], None)),
            ASSIGN => {
                let mut changes = vec![(GROUP, arguments[0].clone()), (NAME, arguments[1].clone())];
                changes.retain(|(column, _)| !skip.contains(*column));
                Ok(applied(&changes, None))
            }
            _ => Err(EffectError::new("23514", "refused").of_constraint("check")),
        }
    }

    fn assigned(&self, program: ProgramId) -> ColumnSet {
        match program {
            ASSIGN => ColumnSet::EMPTY.with(GROUP).with(NAME),
            RESET => ColumnSet::EMPTY.with(TOTAL),
            _ => ColumnSet::EMPTY,
        }
    }

    fn may_violate(&self, program: ProgramId) -> bool {
        program == REFUSE
    }

    fn replaces(&self, program: ProgramId) -> Option<ColumnSet> {
        matches!(program, ASSIGN | RESET).then(|| self.assigned(program))
    }

    fn merging(&self, _: ProgramId) -> Option<Merging> {
        None
    }

    fn are_compatible(&self, _: &Row, _: &[(ProgramId, &[Value])]) -> bool {
        true
    }
}
