//! What New-Order's SQL costs by itself: run it under an instruction counter.
//!
//! `new_order [CALLS]` calls TPC-C's New-Order so many times (20,000 unless told) with ten lines
//! each, over rows in memory. Writes are counted and dropped, but for row programs, which are
//! applied: what is left is the work of this crate.

use std::{collections::BTreeMap, sync::Arc};

use anabranch_sql::{
    Application, SourceFile, Transaction, TransactionError, load,
    summary::StatementId,
    testing::{Store, ready},
    transaction::{NoSequences, Sequences},
};
use anabranch_types::{
    ColumnSet, Effect, Fetched, Key, Patch, Read, Row, RowPrograms, SlotId, TableId, Value,
};

const ITEMS: i64 = 1000;
const LINES: i64 = 10;

/// A transaction on rows that never change.
struct Still<'s> {
    rows: &'s BTreeMap<(u16, Key), Row>,
    programs: &'s Arc<dyn RowPrograms>,
    slots: u16,
    written: u64,
}

impl Still<'_> {
    #[inline(never)]
    fn look_up(&self, read: &Read) -> Fetched {
        match read {
            Read::Point { table, key } => {
                Fetched::Point(self.rows.get(&(table.0, key.clone())).cloned())
            }
            Read::Range { .. } => Fetched::Range(Vec::new()),
        }
    }

    #[inline(never)]
    fn apply(&mut self, effect: &Effect) -> Result<(), TransactionError> {
        self.written += 1;
        if let Effect::Update {
            table,
            key,
            program,
            arguments,
            ..
        } = effect
        {
            let row = self.row(*table, key);
            let applied = self
                .programs
                .apply(*program, &row, arguments, ColumnSet::EMPTY);
            std::hint::black_box(applied.map_err(TransactionError::Failed)?);
        }
        Ok(())
    }

    #[inline(never)]
    fn row(&self, table: TableId, key: &Key) -> Row {
        self.rows[&(table.0, key.clone())].clone()
    }
}

impl Transaction for Still<'_> {
    async fn read(
        &mut self,
        _: StatementId,
        _: bool,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        Ok(reads.iter().map(|read| self.look_up(read)).collect())
    }

    fn write(&mut self, _: StatementId, effect: Effect) -> Result<(), TransactionError> {
        self.apply(&effect)
    }

    fn defers(&self, _: StatementId) -> bool {
        true
    }

    fn is_known(&mut self, _: TableId, _: &Key, _: &[Patch]) -> bool {
        true
    }

    fn slots(&mut self, count: u16) -> SlotId {
        self.slots += count;
        SlotId(self.slots - count)
    }

    fn unique(&mut self) -> u128 {
        unreachable!("New-Order draws no numbers")
    }

    fn sequences(&self) -> std::rc::Rc<dyn Sequences> {
        std::rc::Rc::new(NoSequences)
    }

    fn timestamp(&self) -> i64 {
        0
    }
}

fn application() -> Application {
    let file = |name: &str| {
        let path = format!("{}/../../examples/tpcc/{name}", env!("CARGO_MANIFEST_DIR"));
        SourceFile::new(
            name,
            std::fs::read_to_string(path).expect("the file is there"),
        )
    };
    let files = vec![file("schema.sql"), file("procedures.sql")];
    Application::compile(load(files).expect("it loads")).expect("it compiles")
}

fn rows(application: &Application) -> BTreeMap<(u16, Key), Row> {
    let mut store = Store::new(application);
    for text in [
        "INSERT INTO warehouse SELECT w, 'name', 's1', 's2', 'city', 'ST', '123456789', 0.1, 300000 FROM generate_series(1, 2) w".to_string(),
        "INSERT INTO district SELECT w, d, 'dist', 's1', 's2', 'city', 'ST', '123456789', 0.05, 30000, 3001 FROM generate_series(1, 2) w, generate_series(1, 10) d".to_string(),
        "INSERT INTO customer SELECT w, d, c, 'first' || c, 'OE', 'OUGHT', 's1', 's2', 'city', 'ST', '123456789', '0123456789012345', '2024-01-01 00:00:00', 'GC', 50000, 0.25, -10, 10, 1, 0, 'data' FROM generate_series(1, 2) w, generate_series(1, 10) d, generate_series(1, 10) c".to_string(),
        format!("INSERT INTO item SELECT i, 1, 'item' || i, 1 + i * 0.5, 'data' FROM generate_series(1, {ITEMS}) i"),
        format!("INSERT INTO stock SELECT w, i, 50, 'd01xxxxxxxxxxxxxxxxxxxxx', 'd02xxxxxxxxxxxxxxxxxxxxx', 'd03xxxxxxxxxxxxxxxxxxxxx', 'd04xxxxxxxxxxxxxxxxxxxxx', 'd05xxxxxxxxxxxxxxxxxxxxx', 'd06xxxxxxxxxxxxxxxxxxxxx', 'd07xxxxxxxxxxxxxxxxxxxxx', 'd08xxxxxxxxxxxxxxxxxxxxx', 'd09xxxxxxxxxxxxxxxxxxxxx', 'd10xxxxxxxxxxxxxxxxxxxxx', 0, 0, 0, 'data' FROM generate_series(1, 2) w, generate_series(1, {ITEMS}) i"),
    ] {
        let statement = application.statement(&text).expect("it compiles");
        let mut transaction = store.begin();
        ready(statement.execute(&mut transaction, &[])).expect("it runs");
    }
    let mut rows = BTreeMap::new();
    for table in &application.schema().tables {
        for values in store.rows(&table.name) {
            let row = table.layout.encode(&values).expect("it fits");
            let mut key = Key::empty();
            for column in &table.primary_key {
                let described = &table.columns[column.index()];
                key.push_value(
                    &described.data_type,
                    described.nullable,
                    &values[column.index()],
                );
            }
            rows.insert((table.id.0, key), row);
        }
    }
    rows
}

fn main() {
    let calls = std::env::args()
        .nth(1)
        .map_or(20_000, |calls| calls.parse().expect("a number of calls"));
    let application = application();
    let rows = rows(&application);
    let programs = application.programs();
    let procedure = application.find("new_order").expect("New-Order is there");
    let ints =
        |of: &dyn Fn(i64) -> i64| Value::Array((0..LINES).map(|l| Value::Int(of(l))).collect());
    let mut written = 0;
    let mut seed = 1i64;
    for call in 0..calls {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        let first = seed % (ITEMS - 10 * LINES);
        let arguments = [
            Value::Int(call % 2 + 1),
            Value::Int(seed % 10 + 1),
            Value::Int(seed / 10 % 10 + 1),
            Value::Timestamp(call),
            ints(&|line| first + line * 7 + 1),
            ints(&|_| call % 2 + 1),
            ints(&|line| line % 10 + 1),
        ];
        let mut transaction = Still {
            rows: &rows,
            programs: &programs,
            slots: 0,
            written: 0,
        };
        let result = ready(procedure.call(&mut transaction, &arguments)).expect("it runs");
        std::hint::black_box(result);
        written += transaction.written;
    }
    println!("{calls} calls, {written} writes");
}
