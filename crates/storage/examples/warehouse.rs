//! How long a TPC-C warehouse takes to load, how much memory it takes, and what New-Order's and
//! Delivery's accesses cost. `cargo run --release -p anabranch-storage --example warehouse`; the first
//! argument is the number of warehouses. `snapshots`: readers may hold snapshots, so that superseded
//! versions are kept for the window.
//!
//! Data are of TPC-C's cardinalities and row sizes; procedures are reduced to their storage
//! accesses, so this measures the store alone.

use std::sync::Arc;
use std::time::Instant;

use anabranch_storage::{Commit, CommitSequence, SlotValues, Store, StoreSettings};
use anabranch_types::{
    Applied, ColumnIndex, ColumnSchema, ColumnSet, DataType, Decimal, Effect, EffectError, IndexId,
    IndexSchema, Key, KeyRange, Merging, NodeId, NumericBounds, ProgramId, Read, Row, RowBuilder,
    RowLayout, RowPrograms, Schema, SplitMix64, TableId, TableSchema, Ticks, Timestamp, Value,
};
use smallvec::{SmallVec, smallvec};

const DISTRICT: TableId = TableId(0);
const CUSTOMER: TableId = TableId(1);
const STOCK: TableId = TableId(2);
const ORDERS: TableId = TableId(3);
const NEW_ORDER: TableId = TableId(4);
const ORDER_LINE: TableId = TableId(5);
const HISTORY: TableId = TableId(6);

/// Column types by letter: `i`nteger, `s`mallint-like integer, `n`umeric(12,2), `t`imestamp, then
/// `a`: text of 24, `m`: text of 16, `b`: text of 30-50, `c`: text of 300-500; upper case nullable.
fn table(
    id: TableId,
    name: &str,
    columns: &str,
    key: u16,
    index_columns: Option<&[u16]>,
) -> TableSchema {
    let columns: Vec<ColumnSchema> = columns
        .chars()
        .map(|letter| ColumnSchema {
            name: letter.to_string(),
            data_type: match letter.to_ascii_lowercase() {
                'i' => DataType::Int4,
                'n' => DataType::Numeric(Some(NumericBounds {
                    precision: 12,
                    scale: 2,
                })),
                't' => DataType::Timestamp,
                _ => DataType::Text,
            },
            nullable: letter.is_ascii_uppercase(),
            is_hidden: false,
        })
        .collect();
    let layout = RowLayout::new(columns.iter().map(|c| (&c.data_type, c.nullable)));
    let index = |columns: &[u16]| IndexSchema {
        id: IndexId(0),
        name: format!("{name}_index"),
        columns: columns.iter().map(|column| ColumnIndex(*column)).collect(),
        unique: false,
    };
    TableSchema {
        id,
        name: name.to_owned(),
        columns,
        primary_key: (0..key).map(ColumnIndex).collect(),
        indexes: index_columns.into_iter().map(index).collect(),
        layout,
    }
}

fn schema() -> Schema {
    let tables = [
        table(DISTRICT, "district", "iimaaaannni", 2, None),
        table(
            CUSTOMER,
            "customer",
            "iiimmmaaaaammtnnnniic",
            3,
            Some(&[0, 1, 5]),
        ),
        table(STOCK, "stock", "iiiiiiaaaaaaaaaab", 2, None),
        table(ORDERS, "orders", "iiiitIii", 3, Some(&[0, 1, 3])),
        table(NEW_ORDER, "new_order", "iii", 3, None),
        table(ORDER_LINE, "order_line", "iiiiiiTina", 4, None),
        table(HISTORY, "history", "iiiiitna", 0, None),
    ];
    Schema {
        tables: tables.into_iter().map(Arc::new).collect(),
    }
}

/// Fills the columns after the key.
struct Rows {
    schema: Schema,
    random: SplitMix64,
    builder: RowBuilder,
}

impl Rows {
    fn row(&mut self, table: TableId, key: &[i64]) -> Row {
        let described = self.schema.table(table);
        let random = &mut self.random;
        let mut text = |least: u64, most: u64| {
            let len = least + random.below(most - least + 1);
            Value::text("x".repeat(len as usize))
        };
        let values: Vec<Value> = described
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| match (key.get(at), column.name.as_str()) {
                (Some(part), _) => Value::Int(*part),
                (_, "I" | "T") => Value::Null,
                (_, "i") => Value::Int(10),
                (_, "n") => Value::Numeric(Decimal::from_scaled(1_000, 2)),
                (_, "t") => Value::Timestamp(0),
                (_, "m") => text(8, 16),
                (_, "b") => text(26, 50),
                (_, "c") => text(300, 500),
                _ => text(24, 24),
            })
            .collect();
        self.builder
            .build(&described.layout, &values)
            .expect("rows are short")
    }
}

fn key(parts: &[i64]) -> Key {
    let mut key = Key::empty();
    for part in parts {
        key.push_int(4, *part).expect("keys are small");
    }
    key
}

fn load(store: &mut Store, rows: &mut Rows, warehouse: i64) {
    let mut put = |store: &mut Store, table, parts: &[i64]| {
        let row = rows.row(table, parts);
        let key = match table {
            HISTORY => Key::hidden(
                Timestamp::ZERO,
                (parts[0] * 1_000_000 + parts[1] * 10_000 + parts[2]) as u64,
            ),
            ORDERS => key(&parts[..3]),
            _ => key(parts),
        };
        store.load(table, key, row).expect("keys differ");
    };
    for item in 1..=100_000 {
        put(store, STOCK, &[warehouse, item]);
    }
    for district in 1..=10 {
        put(store, DISTRICT, &[warehouse, district]);
        for customer in 1..=3_000 {
            put(store, CUSTOMER, &[warehouse, district, customer]);
            put(store, HISTORY, &[warehouse, district, customer]);
        }
        for order in 1..=3_000 {
            put(
                store,
                ORDERS,
                &[warehouse, district, order, (order * 7) % 3_000 + 1],
            );
            for line in 1..=5 + (order * 7919 + district) % 11 {
                put(store, ORDER_LINE, &[warehouse, district, order, line]);
            }
            if order > 2_100 {
                put(store, NEW_ORDER, &[warehouse, district, order]);
            }
        }
    }
}

/// The one program: takes argument 0 from column argument 1 and gives the column back.
struct Programs(Schema);

const NEXT_ORDER: ProgramId = ProgramId(0);
const TAKE_STOCK: ProgramId = ProgramId(1);

impl RowPrograms for Programs {
    fn apply(
        &self,
        program: ProgramId,
        row: &Row,
        arguments: &[Value],
        _skip: ColumnSet,
    ) -> Result<Applied, EffectError> {
        let Value::Int(amount) = arguments[0] else {
            panic!("an integer is passed")
        };
        let mut outputs: SmallVec<[Value; 1]> = smallvec![];
        let row = if program == NEXT_ORDER {
            let layout = &self.0.table(DISTRICT).layout;
            let next = row.get_int(layout, ColumnIndex(10)).expect("not null");
            outputs.push(Value::Int(next));
            row.with(layout, &[(ColumnIndex(10), Value::Int(next + amount))])
        } else {
            let layout = &self.0.table(STOCK).layout;
            let int = |column| row.get_int(layout, ColumnIndex(column)).expect("not null");
            let left = int(2) - amount;
            let left = if left < 10 { left + 91 } else { left };
            let changes = [
                (ColumnIndex(2), Value::Int(left)),
                (ColumnIndex(3), Value::Int(int(3) + amount)),
                (ColumnIndex(4), Value::Int(int(4) + 1)),
                (ColumnIndex(5), Value::Int(int(5))),
            ];
            row.with(layout, &changes)
        };
        Ok(Applied {
            row: row.expect("rows are short"),
            outputs,
        })
    }

    fn assigned(&self, _: ProgramId) -> ColumnSet {
        ColumnSet::EMPTY
    }

    fn may_violate(&self, _: ProgramId) -> bool {
        false
    }

    fn replaces(&self, _: ProgramId) -> Option<ColumnSet> {
        None
    }

    fn merging(&self, _: ProgramId) -> Option<Merging> {
        None
    }

    fn are_compatible(&self, _: &Row, _: &[(ProgramId, &[Value])]) -> bool {
        true
    }
}

struct Bench {
    store: Store,
    rows: Rows,
    programs: Programs,
    now: Ticks,
    clock: u64,
    next_order: [i64; 11],
    next_delivery: [i64; 11],
    warehouses: u64,
    /// Whether readers may hold snapshots.
    snapshots: bool,
}

impl Bench {
    fn commit(&mut self, effects: Vec<Effect>) -> CommitSequence {
        self.clock += 1;
        // 30,000 transactions a second.
        self.now = self.now + Ticks(33_333);
        let commit = Commit {
            timestamp: Timestamp::new(self.clock, NodeId(0)),
            effects,
        };
        let mut slots = SlotValues::default();
        if !self.snapshots {
            self.store.discard_history(Timestamp::MAX);
        }
        let committed = self
            .store
            .apply(self.now, commit, &mut slots, &self.programs);
        self.store.collect(self.now, 32);
        committed.expect("nothing conflicts")
    }

    fn read(&self, table: TableId, parts: &[i64]) -> usize {
        let read = Read::Point {
            table,
            key: key(parts),
        };
        let mut found = 0;
        self.store
            .read(&read, Some(self.store.last()), &mut |_, _, version| {
                found += version
                    .and_then(|version| version.row())
                    .map_or(0, |r| r.as_bytes().len());
            })
            .expect("the newest is above the floor");
        found
    }

    /// The storage accesses of a New-Order of ten lines. `lines` and `order` are rows to insert:
    /// making them is not the store's.
    fn new_order(&mut self, lines: &[Row], order: &Row, new_order: &Row) {
        let warehouse = self.rows.random.below(self.warehouses) as i64 + 1;
        let district = self.rows.random.below(10) as i64 + 1;
        let customer = self.rows.random.below(3_000) as i64 + 1;
        assert!(self.read(CUSTOMER, &[warehouse, district, customer]) > 0);
        assert!(self.read(DISTRICT, &[warehouse, district]) > 0);
        let id = self.next_order[district as usize];
        self.next_order[district as usize] += 1;
        let mut effects = Vec::with_capacity(23);
        let update = |table, key, program| Effect::Update {
            table,
            key,
            program,
            arguments: Box::new([Value::Int(1)]),
            outputs: None,
        };
        effects.push(update(DISTRICT, key(&[warehouse, district]), NEXT_ORDER));
        let insert = |table, parts: &[i64], row: &Row| Effect::Insert {
            table,
            key: key(parts),
            row: row.clone(),
            patches: smallvec![],
        };
        effects.push(insert(ORDERS, &[warehouse, district, id], order));
        effects.push(insert(NEW_ORDER, &[warehouse, district, id], new_order));
        let items: Vec<i64> = lines
            .iter()
            .map(|_| self.rows.random.below(100_000) as i64 + 1)
            .collect();
        for ((line, row), item) in (1..).zip(lines).zip(items) {
            assert!(self.read(STOCK, &[warehouse, item]) > 0);
            effects.push(update(STOCK, key(&[warehouse, item]), TAKE_STOCK));
            effects.push(insert(ORDER_LINE, &[warehouse, district, id, line], row));
        }
        self.commit(effects);
    }

    /// Delivery's for one district: the oldest new order, its lines, and its deletion.
    fn deliver(&mut self, district: i64) {
        let range = KeyRange::prefix_of(key(&[1, district]));
        let read = Read::Range {
            table: NEW_ORDER,
            index: None,
            range,
            reverse: false,
            limit: Some(1),
        };
        let mut oldest = None;
        let store = &self.store;
        store
            .read(&read, Some(store.last()), &mut |key, _, version| {
                if version.is_some() {
                    oldest = Some(key.clone());
                }
            })
            .expect("the newest is above the floor");
        let Some(oldest) = oldest else { return };
        let range = KeyRange::prefix_of(oldest.clone());
        let lines = Read::Range {
            table: ORDER_LINE,
            index: None,
            range,
            reverse: false,
            limit: None,
        };
        let mut count = 0;
        store
            .read(&lines, Some(store.last()), &mut |_, _, version| {
                count += version.iter().count()
            })
            .expect("the newest is above the floor");
        assert!(count > 0);
        self.next_delivery[district as usize] += 1;
        self.commit(vec![Effect::Delete {
            table: NEW_ORDER,
            key: oldest,
        }]);
    }
}

/// Processor time if the system provides it (other processes do not count), else elapsed time.
struct Clock(Instant, Option<f64>);

impl Clock {
    fn start() -> Clock {
        Clock(Instant::now(), Clock::processor_seconds())
    }

    fn processor_seconds() -> Option<f64> {
        let schedule = std::fs::read_to_string("/proc/self/schedstat").ok()?;
        Some(schedule.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
    }

    fn seconds(&self) -> f64 {
        match (self.1, Clock::processor_seconds()) {
            (Some(begin), Some(end)) => end - begin,
            _ => self.0.elapsed().as_secs_f64(),
        }
    }
}

/// The process's resident bytes, if the system provides them.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn main() {
    let warehouses: u64 = std::env::args()
        .nth(1)
        .map_or(1, |count| count.parse().expect("a number of warehouses"));
    let mut store = Store::new(&schema(), StoreSettings::default());
    let mut rows = Rows {
        schema: schema(),
        random: SplitMix64::new(1),
        builder: RowBuilder::default(),
    };
    let before = resident();
    let begin = Clock::start();
    for warehouse in 1..=warehouses {
        load(&mut store, &mut rows, warehouse as i64);
    }
    let seconds = begin.seconds() / warehouses as f64;
    println!("load: {seconds:.2} s a warehouse, rows made included");
    println!(
        "memory: {} MB a warehouse by estimate",
        store.memory() as u64 / warehouses / 1_000_000
    );
    if let (Some(before), Some(after)) = (before, resident()) {
        println!(
            "memory: {} MB a warehouse resident",
            (after - before) / warehouses / 1_000_000
        );
    }
    let lines: Vec<Row> = (0..10)
        .map(|_| rows.row(ORDER_LINE, &[1, 1, 1, 1]))
        .collect();
    let order = rows.row(ORDERS, &[1, 1, 1, 1]);
    let new_order = rows.row(NEW_ORDER, &[1, 1, 1]);
    let mut bench = Bench {
        store,
        rows,
        programs: Programs(schema()),
        now: Ticks(0),
        clock: 1,
        next_order: [3_001; 11],
        next_delivery: [2_101; 11],
        warehouses,
        snapshots: std::env::args().any(|word| word == "snapshots"),
    };
    for round in 1..=3 {
        let begin = Clock::start();
        let count = 50_000;
        for _ in 0..count {
            bench.new_order(&lines, &order, &new_order);
        }
        let micros = begin.seconds() * 1e6 / f64::from(count);
        println!("new order, round {round}: {micros:.2} us of store time");
        let begin = Clock::start();
        let count = 1_000;
        for _ in 0..count {
            (1..=10).for_each(|district| bench.deliver(district));
        }
        let micros = begin.seconds() * 1e6 / f64::from(count);
        println!("delivery, round {round}: {micros:.2} us of store time");
    }
    println!(
        "memory: {} MB in the end by estimate",
        bench.store.memory() / 1_000_000
    );
    if let Some(after) = resident() {
        println!("memory: {} MB in the end resident", after / 1_000_000);
    }
}
