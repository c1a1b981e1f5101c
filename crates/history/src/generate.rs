//! Generated histories of a strictly serializable cluster, of any length.
//!
//! They serve to measure the checkers, and as input for tests that damage a valid history. Transactions take effect
//! one after another. Clients' calls overlap, and the file lists them in the order of completion, which is not the
//! serial order. A seed determines the history.

use anabranch_types::SplitMix64;

use crate::record::{
    Header, Operation, Outcome, PartitionSequence, Read, Scan, Transaction, VersionName, Write,
    WriteKind,
};
use crate::{Model, record};

/// Clients, each with one open call.
const CLIENTS: u64 = 64;
/// From one transaction to the next, in ticks.
const STEP: u64 = 10_000;
/// A call takes effect at most this long after its invocation and before its completion.
const HALF_MAX: u64 = 30 * STEP;
const PARTITIONS: u16 = 8;
const COUNTERS: u64 = 100;
const SCANNED: u64 = 16;

/// Generates transactions one by one.
#[derive(Debug)]
pub struct Generator {
    left: u64,
    number: u64,
    rows: u64,
    random: SplitMix64,
    /// By row: the last writer's number, from 1; 0 is none.
    row_writers: Vec<u64>,
    counter_writers: Vec<u64>,
    sequences: [u64; PARTITIONS as usize],
    /// Transactions that have not completed; later ones may complete before them.
    waiting: Vec<(u64, Transaction)>,
}

impl Generator {
    /// A history of this many transactions. There are a tenth as many rows, and a hundred counters.
    pub fn new(seed: u64, transactions: u64) -> Generator {
        let rows = (transactions / 10).max(64);
        Generator {
            left: transactions,
            number: 0,
            rows,
            random: SplitMix64::new(seed),
            row_writers: vec![0; rows as usize],
            counter_writers: vec![0; COUNTERS as usize],
            sequences: [0; PARTITIONS as usize],
            waiting: Vec::new(),
        }
    }

    /// The header of such a history.
    pub fn header(seed: u64) -> Header {
        Header {
            workload: "generated".into(),
            seed,
            nodes: PARTITIONS,
            models: vec![Model::StrictSerializable, Model::Sessions],
            ..Header::default()
        }
    }

    /// The next number (Steele et al., *Fast Splittable Pseudorandom Number Generators*, 2014).
    fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound
    }

    fn make(&mut self) -> Transaction {
        self.number += 1;
        let number = self.number;
        let now = number * STEP + HALF_MAX;
        let mut operations = Vec::new();
        match self.below(20) {
            // An order: three rows read, two of them written.
            0..=11 => {
                let first = self.below(self.rows - 3);
                for row in first..first + 3 {
                    operations.push(self.read_row(row));
                }
                operations.push(self.write_row(first));
                operations.push(self.write_row(first + 2));
            }
            // A payment: a contended counter, and a row.
            12..=15 => {
                let counter = self.below(COUNTERS);
                let row = self.below(self.rows);
                operations.push(self.write_counter(counter));
                operations.push(self.read_row(row));
                operations.push(self.write_row(row));
            }
            16..=18 => {
                for _ in 0..4 {
                    let row = self.below(self.rows);
                    operations.push(self.read_row(row));
                }
                let counter = self.below(COUNTERS);
                operations.push(self.read_counter(counter));
            }
            _ => {
                let first = self.below(self.rows - SCANNED);
                operations.extend((0..PARTITIONS).map(|partition| self.scan(partition, first)));
            }
        }
        let (before, after) = (self.below(HALF_MAX), self.below(HALF_MAX));
        Transaction {
            id: format!("T{number}"),
            session: Some(format!("c{}", number % CLIENTS)),
            invoked: Some(now - before),
            completed: Some(now + after),
            outcome: Outcome::Committed,
            operations,
            ..Transaction::default()
        }
    }

    fn read_row(&mut self, row: u64) -> Operation {
        Operation::Read(self.row(row))
    }

    fn row(&self, row: u64) -> Read {
        let partition = partition_of(row);
        Read {
            item: row_name(row),
            version: named(self.row_writers[row as usize]),
            value: None,
            at: Some(self.place(partition)),
        }
    }

    fn write_row(&mut self, row: u64) -> Operation {
        let at = self.install(partition_of(row));
        self.row_writers[row as usize] = self.number;
        written(row_name(row), WriteKind::Assign, at)
    }

    fn read_counter(&mut self, counter: u64) -> Operation {
        Operation::Read(Read {
            item: counter_name(counter),
            version: named(self.counter_writers[counter as usize]),
            value: None,
            at: Some(self.place(partition_of(counter))),
        })
    }

    fn write_counter(&mut self, counter: u64) -> Operation {
        let at = self.install(partition_of(counter));
        self.counter_writers[counter as usize] = self.number;
        written(counter_name(counter), WriteKind::Apply, at)
    }

    /// A scan of one partition's rows from `first` on.
    fn scan(&mut self, partition: u16, first: u64) -> Operation {
        let rows = (first..first + SCANNED).filter(|row| partition_of(*row) == partition);
        Operation::Scan(Scan {
            space: "rows".into(),
            lower: Some(position(first)),
            upper: Some(position(first + SCANNED)),
            found: rows.map(|row| self.row(row)).collect(),
            at: Some(self.place(partition)),
        })
    }

    fn place(&self, partition: u16) -> PartitionSequence {
        PartitionSequence {
            partition,
            sequence: self.sequences[usize::from(partition)],
        }
    }

    /// The next sequence of installation on a partition.
    fn install(&mut self, partition: u16) -> PartitionSequence {
        self.sequences[usize::from(partition)] += 1;
        self.place(partition)
    }
}

impl Iterator for Generator {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        loop {
            let first = (0..self.waiting.len()).min_by_key(|at| self.waiting[*at].0);
            // A transaction that takes effect later completes later.
            let now = (self.number + 1) * STEP + HALF_MAX;
            if let Some(at) = first
                && (self.left == 0 || self.waiting[at].0 <= now)
            {
                return Some(self.waiting.swap_remove(at).1);
            }
            if self.left == 0 {
                return None;
            }
            self.left -= 1;
            let transaction = self.make();
            let answered = transaction.completed.unwrap_or_default();
            self.waiting.push((answered, transaction));
        }
    }
}

fn written(item: String, kind: WriteKind, at: PartitionSequence) -> Operation {
    Operation::Write(Write {
        item,
        kind,
        at: Some(at),
        ..Write::default()
    })
}

fn named(writer: u64) -> Option<VersionName> {
    (writer > 0).then(|| VersionName::of(format!("T{writer}")))
}

fn partition_of(number: u64) -> u16 {
    (number % u64::from(PARTITIONS)) as u16
}

fn position(row: u64) -> String {
    record::position(&(row as u32).to_be_bytes())
}

fn row_name(row: u64) -> String {
    record::item_name("rows", &(row as u32).to_be_bytes())
}

fn counter_name(counter: u64) -> String {
    record::item_name("counters", &(counter as u32).to_be_bytes())
}
