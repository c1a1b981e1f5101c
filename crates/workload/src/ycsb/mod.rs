//! YCSB (B. F. Cooper et al., *Benchmarking Cloud Serving Systems with YCSB*, SoCC 2010), and its variant in ramp.txt
//! §5.1.
//!
//! The application is `examples/ycsb/`, with the file in `d-e` for workloads D and E, and that in `f` for F.
//! [`Form::Transactions`] is RAMP's variant: transactions of several operations that all read or all write; by
//! default four operations, and 95% read transactions. [`Form::Letter`] is one of the published workloads A to F,
//! with transactions of a single operation.
//!
//! Departures: a record has one field of any size instead of ten fields of a hundred bytes (RAMP's evaluation uses
//! one byte). The items of a transaction are distinct. Each client inserts keys of its own, and under
//! [`Distribution::Latest`] the newest item is the last one that the client itself inserted; it may not exist yet if
//! the client has several open calls.

mod draw;

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

pub use draw::Distribution;
use draw::{Zipf, scattered};

/// YCSB's zipfian constant.
pub const ZIPFIAN_CONSTANT: f64 = 0.99;

/// The most items of a scan in workload E.
const SCANNED_MAX: i64 = 100;

/// A published workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Letter {
    /// Half reads, half updates.
    A,
    /// 95% reads, 5% updates.
    B,
    /// Reads alone.
    C,
    /// 95% reads of new items, 5% inserts.
    D,
    /// 95% scans of up to a hundred items, 5% inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

/// The percentage of each kind of operation.
struct Shares {
    read: u8,
    update: u8,
    insert: u8,
    scan: u8,
}

impl Letter {
    /// All of them.
    pub const ALL: [Letter; 6] = [
        Letter::A,
        Letter::B,
        Letter::C,
        Letter::D,
        Letter::E,
        Letter::F,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Letter::A => "a",
            Letter::B => "b",
            Letter::C => "c",
            Letter::D => "d",
            Letter::E => "e",
            Letter::F => "f",
        }
    }

    /// The workload of this name.
    pub fn by_name(name: &str) -> Option<Letter> {
        Letter::ALL.into_iter().find(|letter| letter.name() == name)
    }

    /// The distribution of its items.
    pub fn distribution(self) -> Distribution {
        match self {
            Letter::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }

    /// The remaining percentage: read-modify-writes.
    fn shares(self) -> Shares {
        let (read, update, insert, scan) = match self {
            Letter::A => (50, 50, 0, 0),
            Letter::B => (95, 5, 0, 0),
            Letter::C => (100, 0, 0, 0),
            Letter::D => (95, 0, 5, 0),
            Letter::E => (0, 0, 5, 95),
            Letter::F => (50, 0, 0, 0),
        };
        Shares {
            read,
            update,
            insert,
            scan,
        }
    }
}

/// The kind of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// Transactions of several operations, all of one kind (ramp.txt §5.1).
    Transactions {
        /// Operations of each.
        length: usize,
        /// The percentage of read transactions; the others write.
        reads_percent: f64,
    },
    /// Single operations, as published.
    Letter(Letter),
}

impl Form {
    /// The defaults of ramp.txt §5.1.
    pub const RAMP: Form = Form::Transactions {
        length: 4,
        reads_percent: 95.0,
    };
}

/// The parameters of a YCSB workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The number of items at the start.
    pub items: u64,
    /// The operations.
    pub form: Form,
    /// The distribution of items.
    pub distribution: Distribution,
    /// The constant of [`Distribution::Zipfian`] and [`Distribution::Latest`], between 0 and 1.
    pub zipfian_constant: f64,
    /// The size of a value.
    pub value_bytes: usize,
}

impl Parameters {
    /// The defaults of ramp.txt §5.1: a million items of one byte.
    pub const RAMP: Parameters = Parameters {
        items: 1_000_000,
        form: Form::RAMP,
        distribution: Distribution::Zipfian,
        zipfian_constant: ZIPFIAN_CONSTANT,
        value_bytes: 1,
    };

    /// The item operations of a transaction, in which throughput is measured.
    pub fn operations(&self) -> usize {
        match self.form {
            Form::Transactions { length, .. } => length,
            Form::Letter(_) => 1,
        }
    }
}

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} has to be {permitted}")]
pub struct ParameterError {
    /// The parameter: a field of [`Parameters`] or [`Form`].
    pub name: &'static str,
    /// Its permitted values.
    pub permitted: String,
}

/// The most items, so that their numbers fit beside those of inserted ones.
pub const ITEMS_MAX: u64 = 1 << 40;
/// The most operations of a transaction.
pub const LENGTH_MAX: usize = 10_000;
/// The largest value.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The YCSB workload.
#[derive(Clone, Debug)]
pub struct Ycsb {
    parameters: Parameters,
    zipf: Zipf,
}

impl Ycsb {
    /// The parameters of ramp.txt §5.1, but with a thousand items for each node (YCSB's own default), so that
    /// transactions conflict.
    pub fn new(nodes: u16) -> Ycsb {
        let parameters = Parameters {
            items: 1_000 * u64::from(nodes.max(1)),
            ..Parameters::RAMP
        };
        Ycsb {
            parameters,
            zipf: Zipf::new(parameters.items, parameters.zipfian_constant),
        }
    }

    /// A workload with these parameters. Takes noticeable time for each million items.
    ///
    /// # Errors
    /// If a parameter is invalid.
    pub fn with(parameters: Parameters) -> Result<Ycsb, ParameterError> {
        let refused = |name, permitted: String| Err(ParameterError { name, permitted });
        let Parameters {
            items,
            form,
            zipfian_constant,
            value_bytes,
            ..
        } = parameters;
        if let Form::Transactions {
            length,
            reads_percent,
        } = form
        {
            if !(1..=LENGTH_MAX).contains(&length) {
                return refused("length", format!("between 1 and {LENGTH_MAX}"));
            }
            if !(0.0..=100.0).contains(&reads_percent) {
                return refused("reads", "between 0 and 100 percent".to_owned());
            }
        }
        // Each transaction draws until its items are distinct, which requires enough items.
        let least = (2 * parameters.operations()) as u64;
        if !(least..=ITEMS_MAX).contains(&items) {
            let why = match least {
                2 => String::new(),
                _ => ", twice as many as a transaction's operations at least".to_owned(),
            };
            return refused("items", format!("between {least} and {ITEMS_MAX}{why}"));
        }
        if !(zipfian_constant > 0.0 && zipfian_constant < 1.0) {
            let permitted = "above 0 and below 1 (uniform is a distribution of its own)";
            return refused("zipfian-constant", permitted.to_owned());
        }
        if value_bytes > VALUE_BYTES_MAX {
            return refused("value-bytes", format!("at most {VALUE_BYTES_MAX}"));
        }
        let ranks = match parameters.distribution {
            Distribution::Uniform => 1,
            Distribution::Zipfian | Distribution::Latest => items,
        };
        Ok(Ycsb {
            parameters,
            zipf: Zipf::new(ranks, zipfian_constant),
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn more(&self) -> More {
        match self.parameters.form {
            Form::Letter(Letter::D | Letter::E) => More::Inserts,
            Form::Letter(Letter::F) => More::Modifies,
            Form::Letter(Letter::A | Letter::B | Letter::C) | Form::Transactions { .. } => {
                More::Nothing
            }
        }
    }

    fn calls(&self, seed: u64, place: ClientPlacement) -> YcsbCaller {
        let mut rng = Rng::with_seed(seed);
        let value = |_| Value::Text(text(&mut rng, self.parameters.value_bytes).into());
        YcsbCaller {
            values: (0..VALUES).map(value).collect(),
            rng,
            parameters: self.parameters,
            zipf: self.zipf,
            client: u64::from(place.client),
            inserted: 0,
            drawn: Vec::new(),
        }
    }
}

/// The values that a client writes; each call draws one.
const VALUES: usize = 16;

fn text(rng: &mut Rng, bytes: usize) -> String {
    (0..bytes).map(|_| rng.alphanumeric()).collect()
}

/// The operations in addition to those without coordination.
enum More {
    Nothing,
    Inserts,
    Modifies,
}

/// The operations, as indices in [`Workload::procedures`].
const GET_ALL: usize = 0;
const PUT_ALL: usize = 1;
const READ: usize = 2;
const UPDATE: usize = 3;
const SCAN: usize = 4;
/// Only for workloads D and E, in place of the next one.
const INSERT: usize = 5;
/// Only for workload F: with it, every write needs coordination.
const READ_MODIFY_WRITE: usize = 5;

const PROCEDURES: [&str; 5] = [
    "get_all",
    "put_all",
    "read_item",
    "update_item",
    "scan_items",
];
const WITH_INSERTS: [&str; 6] = and(PROCEDURES, "insert_item");
const WITH_MODIFIES: [&str; 6] = and(PROCEDURES, "read_modify_write");

const fn and([a, b, c, d, e]: [&'static str; 5], more: &'static str) -> [&'static str; 6] {
    [a, b, c, d, e, more]
}

const SCHEMA: (&str, &str) = (
    "examples/ycsb/schema.sql",
    include_str!("../../../../examples/ycsb/schema.sql"),
);
const OPERATIONS: (&str, &str) = (
    "examples/ycsb/procedures.sql",
    include_str!("../../../../examples/ycsb/procedures.sql"),
);
const INSERTS: (&str, &str) = (
    "examples/ycsb/d-e/insert_item.sql",
    include_str!("../../../../examples/ycsb/d-e/insert_item.sql"),
);
const MODIFIES: (&str, &str) = (
    "examples/ycsb/f/read_modify_write.sql",
    include_str!("../../../../examples/ycsb/f/read_modify_write.sql"),
);

impl Workload for Ycsb {
    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        match self.more() {
            More::Nothing => &[SCHEMA, OPERATIONS],
            More::Inserts => &[SCHEMA, OPERATIONS, INSERTS],
            More::Modifies => &[SCHEMA, OPERATIONS, MODIFIES],
        }
    }

    fn procedures(&self) -> &'static [&'static str] {
        match self.more() {
            More::Nothing => &PROCEDURES,
            More::Inserts => &WITH_INSERTS,
            More::Modifies => &WITH_MODIFIES,
        }
    }

    fn rows(&self, seed: u64, take: &mut RowSink<'_>) {
        let mut rng = Rng::with_seed(seed);
        let values: Vec<String> = (0..VALUES)
            .map(|_| text(&mut rng, self.parameters.value_bytes))
            .collect();
        for key in 0..self.parameters.items {
            let value = &values[key as usize % VALUES];
            let row = [Value::Int(key as i64), Value::Text(value.as_str().into())];
            take("usertable", &["ycsb_key", "field0"], &row);
        }
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(self.calls(seed, place))
    }

    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        let expected = match (operation.procedure, &operation.arguments[..]) {
            (GET_ALL, [Value::Array(keys)]) => keys.len(),
            (READ, [Value::Int(key)]) => {
                // An inserted item may not exist yet.
                let loaded = (*key as u64) < self.parameters.items;
                rows.len().min(1).max(usize::from(loaded))
            }
            // A scan at the end of the table returns fewer.
            (SCAN, [_, Value::Int(most)]) => rows.len().clamp(1, *most as usize),
            (READ_MODIFY_WRITE, _) if matches!(self.more(), More::Modifies) => 1,
            _ => 0,
        };
        match rows.len() {
            found if found == expected => Ok(()),
            found => Err(format!("{found} items were found, not {expected}")),
        }
    }

    fn may_fracture(&self) -> bool {
        matches!(self.parameters.form, Form::Transactions { length, .. } if length > 1)
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

struct YcsbCaller {
    rng: Rng,
    parameters: Parameters,
    zipf: Zipf,
    values: Vec<Value>,
    client: u64,
    /// The number of items that this client inserted.
    inserted: u64,
    /// The items of the current transaction.
    drawn: Vec<i64>,
}

/// The first number of clients' own items; the client's number follows.
const CLIENT_SHIFT: u32 = 40;

impl YcsbCaller {
    /// The `nth` item that this client has inserted.
    fn own(&self, nth: u64) -> i64 {
        ((self.client + 1) << CLIENT_SHIFT | nth) as i64
    }

    fn draw(&mut self) -> i64 {
        let items = self.parameters.items;
        match self.parameters.distribution {
            Distribution::Uniform => self.rng.u64(0..items) as i64,
            Distribution::Zipfian => scattered(self.zipf.rank(&mut self.rng), items) as i64,
            Distribution::Latest => {
                self.zipf.grow_to(items + self.inserted);
                let age = self.zipf.rank(&mut self.rng);
                if age < self.inserted {
                    self.own(self.inserted - 1 - age)
                } else {
                    (items - 1 - (age - self.inserted)) as i64
                }
            }
        }
    }

    fn value(&mut self) -> Value {
        let place = self.rng.usize(0..self.values.len());
        self.values[place].clone()
    }

    fn transaction(&mut self, length: usize, reads_percent: f64) -> Operation {
        let mut drawn = std::mem::take(&mut self.drawn);
        drawn.clear();
        while drawn.len() < length {
            let key = self.draw();
            if !drawn.contains(&key) {
                drawn.push(key);
            }
        }
        let keys = Value::Array(drawn.iter().copied().map(Value::Int).collect());
        self.drawn = drawn;
        if self.rng.f64() * 100.0 < reads_percent {
            return operation(GET_ALL, [keys]);
        }
        let value = self.value();
        operation(PUT_ALL, [keys, value])
    }

    fn single(&mut self, letter: Letter) -> Operation {
        let Shares {
            read,
            update,
            insert,
            scan,
        } = letter.shares();
        let drawn = self.rng.u8(0..100);
        if drawn < read {
            let key = self.draw();
            return operation(READ, [Value::Int(key)]);
        }
        if drawn < read + update {
            let (key, value) = (self.draw(), self.value());
            return operation(UPDATE, [Value::Int(key), value]);
        }
        if drawn < read + update + insert {
            let (key, value) = (self.own(self.inserted), self.value());
            self.inserted += 1;
            return operation(INSERT, [Value::Int(key), value]);
        }
        let key = Value::Int(self.draw());
        if drawn < read + update + insert + scan {
            let count = Value::Int(self.rng.i64(1..=SCANNED_MAX));
            return operation(SCAN, [key, count]);
        }
        let value = self.value();
        operation(READ_MODIFY_WRITE, [key, value])
    }
}

fn operation<const N: usize>(procedure: usize, arguments: [Value; N]) -> Operation {
    Operation {
        procedure,
        arguments: Arc::new(arguments),
    }
}

impl Caller for YcsbCaller {
    fn next(&mut self) -> Operation {
        match self.parameters.form {
            Form::Transactions {
                length,
                reads_percent,
            } => self.transaction(length, reads_percent),
            Form::Letter(letter) => self.single(letter),
        }
    }
}

#[cfg(test)]
mod tests;
