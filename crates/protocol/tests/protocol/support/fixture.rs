//! A small database for the protocols' tests.
//!
//! `item(part int4, id int4, register int8, count int8)` has a register, for which the last writer
//! wins, and a counter. `entry(part int4, id int8, owner int8, amount int8)` is inserted into, with
//! ids given by the caller or drawn at commit from an item's counter, and has an index on
//! `(part, owner)`. Both are partitioned by `part`.

use std::ops::Bound;
use std::sync::Arc;

use anabranch_protocol::{PartitionEffects, PartitionRead};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{
    Access, Applied, ColumnIndex, ColumnSchema, ColumnSet, DataType, Effect, EffectError, Fetched,
    IndexId, IndexSchema, Key, KeyRange, Merging, PartitionId, Patch, ProgramId, Read, Row,
    RowLayout, RowPrograms, Schema, SlotId, TableId, TableSchema, Ticks, Value,
};

/// The table of registers and counters.
pub const ITEM: TableId = TableId(0);
/// The table that is inserted into.
pub const ENTRY: TableId = TableId(1);
/// `entry`'s index on `(part, owner)`.
pub const BY_OWNER: IndexId = IndexId(0);

/// `register = $1`, up to [`REGISTER_MAX`].
pub const SET: ProgramId = ProgramId(0);
/// `count = count + $1`, in a domain that ends at [`COUNT_MAX`].
pub const ADD: ProgramId = ProgramId(1);
/// `count = count + 1 RETURNING count`
pub const NEXT: ProgramId = ProgramId(2);
/// `count = count - $1` under `CHECK (count >= 0)`
pub const TAKE: ProgramId = ProgramId(3);

/// The maximum of a register. A higher value is refused for any row.
pub const REGISTER_MAX: i64 = 1 << 40;

/// The end of a counter's domain, above and below.
pub const COUNT_MAX: i64 = 2_000_000;

const REGISTER: ColumnIndex = ColumnIndex(2);
const COUNT: ColumnIndex = ColumnIndex(3);
const ID: ColumnIndex = ColumnIndex(1);

/// A store with items `0..items` of one partition, all zero.
pub fn store(part: u16, items: i64, window: Ticks) -> Store {
    store_of(&schema(), part, items, window)
}

/// The same, with a unique secondary index of `item` on the columns of its primary key.
pub fn store_with_unique_index(part: u16, items: i64, window: Ticks) -> Store {
    let by_id = IndexSchema {
        id: IndexId(0),
        name: "item_by_id".to_string(),
        columns: vec![ColumnIndex(0), ColumnIndex(1)],
        unique: true,
    };
    store_of(&schema_with(vec![by_id]), part, items, window)
}

/// A store with items `0..items` of one partition, whose index of `entry` on `(part, owner)` is unique.
pub fn store_with_unique_owners(part: u16, items: i64, window: Ticks) -> Store {
    let mut tables = schema().tables.clone();
    let mut entry = (*tables[ENTRY.index()]).clone();
    entry.indexes[BY_OWNER.index()].unique = true;
    tables[ENTRY.index()] = Arc::new(entry);
    store_of(&Arc::new(Schema { tables }), part, items, window)
}

fn store_of(schema: &Arc<Schema>, part: u16, items: i64, window: Ticks) -> Store {
    let mut store = Store::new(schema, StoreSettings { window });
    for id in 0..items {
        let row = item_row(part, id, 0, 0);
        store
            .load(ITEM, item_key(part, id), row)
            .expect("each item is loaded once");
    }
    store
}

/// The two tables.
pub fn schema() -> Arc<Schema> {
    schema_with(Vec::new())
}

fn schema_with(item_indexes: Vec<IndexSchema>) -> Arc<Schema> {
    let table = |id, name: &str, columns: &[(&str, DataType)], indexes| {
        let columns: Vec<ColumnSchema> = columns
            .iter()
            .map(|(name, data_type)| ColumnSchema {
                name: name.to_string(),
                data_type: data_type.clone(),
                nullable: false,
                is_hidden: false,
            })
            .collect();
        let layout = RowLayout::new(columns.iter().map(|c| (&c.data_type, c.nullable)));
        Arc::new(TableSchema {
            id,
            name: name.to_string(),
            columns,
            primary_key: vec![ColumnIndex(0), ColumnIndex(1)],
            indexes,
            layout,
        })
    };
    let by_owner = IndexSchema {
        id: BY_OWNER,
        name: "entry_by_owner".to_string(),
        columns: vec![ColumnIndex(0), ColumnIndex(2)],
        unique: false,
    };
    use DataType::{Int4, Int8};
    Arc::new(Schema {
        tables: vec![
            table(
                ITEM,
                "item",
                &[
                    ("part", Int4),
                    ("id", Int4),
                    ("register", Int8),
                    ("count", Int8),
                ],
                item_indexes,
            ),
            table(
                ENTRY,
                "entry",
                &[
                    ("part", Int4),
                    ("id", Int8),
                    ("owner", Int8),
                    ("amount", Int8),
                ],
                vec![by_owner],
            ),
        ],
    })
}

/// The row programs [`SET`], [`ADD`], [`NEXT`] and [`TAKE`].
pub struct Programs {
    layout: RowLayout,
}

/// [`Programs`], shared.
pub fn programs() -> Arc<dyn RowPrograms> {
    Arc::new(Programs {
        layout: schema().table(ITEM).layout.clone(),
    })
}

impl RowPrograms for Programs {
    fn apply(
        &self,
        program: ProgramId,
        row: &Row,
        arguments: &[Value],
        skip: ColumnSet,
    ) -> Result<Applied, EffectError> {
        let argument = || int(&arguments[0]);
        let count = int(&row.get(&self.layout, COUNT));
        let (column, value) = match program {
            SET => (REGISTER, argument()),
            ADD => (COUNT, count + argument()),
            NEXT => (COUNT, count + 1),
            TAKE => (COUNT, count - argument()),
            _ => panic!("no such {program}"),
        };
        if program == TAKE && value < 0 {
            return Err(EffectError::new(
                "23514",
                "new row for relation \"item\" violates check constraint \"count\"",
            )
            .of_constraint("count"));
        }
        let is_out = match program {
            SET => value > REGISTER_MAX,
            _ => value.abs() > COUNT_MAX,
        };
        if is_out {
            return Err(EffectError::new("22003", "bigint out of range"));
        }
        let row = match skip.contains(column) {
            true => row.clone(),
            false => row
                .with(&self.layout, &[(column, Value::Int(value))])
                .expect("a short row is not too long"),
        };
        let outputs = match program {
            NEXT => [Value::Int(value)].into_iter().collect(),
            _ => Default::default(),
        };
        Ok(Applied { row, outputs })
    }

    fn assigned(&self, program: ProgramId) -> ColumnSet {
        match program {
            SET => ColumnSet::EMPTY.with(REGISTER),
            _ => ColumnSet::EMPTY,
        }
    }

    fn may_violate(&self, program: ProgramId) -> bool {
        program == TAKE
    }

    fn replaces(&self, program: ProgramId) -> Option<ColumnSet> {
        (program == SET).then(|| self.assigned(program))
    }

    fn merging(&self, program: ProgramId) -> Option<Merging> {
        match program {
            SET => Some(Merging::LastWriter),
            ADD => Some(Merging::Commuting),
            _ => None,
        }
    }

    fn are_compatible(&self, row: &Row, programs: &[(ProgramId, &[Value])]) -> bool {
        let moves = programs.iter().map(|(program, arguments)| match *program {
            ADD => int(&arguments[0]),
            NEXT => 1,
            _ => 0,
        });
        let (up, down): (Vec<i64>, Vec<i64>) = moves.partition(|by| *by > 0);
        let count = int(&row.get(&self.layout, COUNT));
        count + up.iter().sum::<i64>() <= COUNT_MAX
            && count + down.iter().sum::<i64>() >= -COUNT_MAX
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(int) => *int,
        other => panic!("{other:?} is not an integer"),
    }
}

/// The primary key of an item.
pub fn item_key(part: u16, id: i64) -> Key {
    key(&[(DataType::Int4, i64::from(part)), (DataType::Int4, id)])
}

/// The primary key of an entry.
pub fn entry_key(part: u16, id: i64) -> Key {
    key(&[(DataType::Int4, i64::from(part)), (DataType::Int8, id)])
}

fn key(columns: &[(DataType, i64)]) -> Key {
    let mut key = Key::empty();
    for (data_type, int) in columns {
        key.push_value(data_type, false, &Value::Int(*int));
    }
    key
}

/// The row of an item.
pub fn item_row(part: u16, id: i64, register: i64, count: i64) -> Row {
    row(ITEM, [i64::from(part), id, register, count])
}

fn row(table: TableId, columns: [i64; 4]) -> Row {
    let layout = schema().table(table).layout.clone();
    layout
        .encode(&columns.map(Value::Int))
        .expect("a short row is not too long")
}

/// Reads one item.
pub fn read_item(part: u16, id: i64) -> PartitionRead {
    read(
        part,
        Read::Point {
            table: ITEM,
            key: item_key(part, id),
        },
    )
}

/// Reads one entry.
pub fn read_entry(part: u16, id: i64) -> PartitionRead {
    read(
        part,
        Read::Point {
            table: ENTRY,
            key: entry_key(part, id),
        },
    )
}

/// Reads the items of a partition with ids from `low` up to `high`, both included.
pub fn read_items(part: u16, low: i64, high: i64) -> PartitionRead {
    let bound = |id| Bound::Included(key(&[(DataType::Int4, id)]));
    let prefix = key(&[(DataType::Int4, i64::from(part))]);
    let range = KeyRange {
        prefix,
        lower: bound(low),
        upper: bound(high),
    };
    read(
        part,
        Read::Range {
            table: ITEM,
            index: None,
            range,
            reverse: false,
            limit: None,
        },
    )
}

/// Reads all entries of a partition.
pub fn read_entries(part: u16) -> PartitionRead {
    let range = KeyRange::prefix_of(key(&[(DataType::Int4, i64::from(part))]));
    read(
        part,
        Read::Range {
            table: ENTRY,
            index: None,
            range,
            reverse: false,
            limit: None,
        },
    )
}

/// Reads the entries of a partition with this owner.
pub fn read_entries_of(part: u16, owner: i64) -> PartitionRead {
    let prefix = key(&[(DataType::Int4, i64::from(part)), (DataType::Int8, owner)]);
    let range = KeyRange::prefix_of(prefix);
    let index = Some(BY_OWNER);
    read(
        part,
        Read::Range {
            table: ENTRY,
            index,
            range,
            reverse: false,
            limit: None,
        },
    )
}

fn read(part: u16, read: Read) -> PartitionRead {
    PartitionRead {
        partition: PartitionId(part),
        read,
        access: Access::default(),
    }
}

/// The same read, of a guard.
pub fn guarded(mut read: PartitionRead) -> PartitionRead {
    read.access.guard = true;
    read
}

/// The same read, for a write.
pub fn for_write(mut read: PartitionRead) -> PartitionRead {
    read.access.for_write = true;
    read
}

/// Runs a program on an item, without outputs.
pub fn update(program: ProgramId, part: u16, id: i64, argument: i64) -> Effect {
    Effect::Update {
        table: ITEM,
        key: item_key(part, id),
        program,
        arguments: Box::new([Value::Int(argument)]),
        outputs: None,
    }
}

/// Draws the next number from an item's counter into a slot.
pub fn draw(part: u16, id: i64, slot: u16) -> Effect {
    Effect::Update {
        table: ITEM,
        key: item_key(part, id),
        program: NEXT,
        arguments: Box::new([]),
        outputs: Some(SlotId(slot)),
    }
}

/// Inserts an entry.
pub fn insert(part: u16, id: i64, owner: i64, amount: i64) -> Effect {
    Effect::Insert {
        table: ENTRY,
        key: entry_key(part, id),
        row: row(ENTRY, [i64::from(part), id, owner, amount]),
        patches: Default::default(),
    }
}

/// Inserts an entry whose id is a slot's value plus `offset`.
pub fn insert_drawn(part: u16, slot: u16, offset: i64, owner: i64, amount: i64) -> Effect {
    Effect::Insert {
        table: ENTRY,
        key: entry_key(part, 0),
        row: row(ENTRY, [i64::from(part), 0, owner, amount]),
        patches: [Patch {
            slot: SlotId(slot),
            offset,
            column: ID,
        }]
        .into_iter()
        .collect(),
    }
}

/// Inserts an item.
pub fn insert_item(part: u16, id: i64, register: i64, count: i64) -> Effect {
    Effect::Insert {
        table: ITEM,
        key: item_key(part, id),
        row: item_row(part, id, register, count),
        patches: Default::default(),
    }
}

/// Deletes an entry.
pub fn delete(part: u16, id: i64) -> Effect {
    Effect::Delete {
        table: ENTRY,
        key: entry_key(part, id),
    }
}

/// Deletes an item.
pub fn delete_item(part: u16, id: i64) -> Effect {
    Effect::Delete {
        table: ITEM,
        key: item_key(part, id),
    }
}

/// Effects on one partition, none of which writes a guard.
pub fn on(part: u16, effects: Vec<Effect>) -> PartitionEffects {
    PartitionEffects {
        partition: PartitionId(part),
        effects,
        guards: Vec::new(),
    }
}

/// Effects on one partition, all of which write guards.
pub fn guarding(part: u16, effects: Vec<Effect>) -> PartitionEffects {
    let guards = (0..effects.len() as u32).collect();
    PartitionEffects {
        partition: PartitionId(part),
        effects,
        guards,
    }
}

/// A row's four columns.
pub fn columns(table: TableId, row: &Row) -> [i64; 4] {
    let layout = schema().table(table).layout.clone();
    [0, 1, 2, 3].map(|column| int(&row.get(&layout, ColumnIndex(column))))
}

/// The register and the counter of an item that was read.
pub fn item(fetched: &Fetched) -> Option<(i64, i64)> {
    match fetched.answer() {
        Fetched::Point(row) => row.as_ref().map(|row| {
            let [_, _, register, count] = columns(ITEM, row);
            (register, count)
        }),
        Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => {
            panic!("a range instead of a row")
        }
    }
}

/// The columns of every row of a range that was read.
pub fn rows(table: TableId, fetched: &Fetched) -> Vec<[i64; 4]> {
    match fetched.answer() {
        Fetched::Range(rows) => rows.iter().map(|(_, row)| columns(table, row)).collect(),
        Fetched::Point(_) | Fetched::Locked | Fetched::Recorded(_) => {
            panic!("a row instead of a range")
        }
    }
}
