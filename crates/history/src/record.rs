//! The records of a history file, one JSON value for each line.
//!
//! Everything is named by text, so that histories of other programs fit: transactions, items, spaces.
//! docs/histories.md defines each field. These types hold what a file says; [`crate::History`] checks it for
//! contradictions.

use std::collections::BTreeMap;

use anabranch_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Model;

/// The newest format version that this program reads, and the one that it writes.
pub const FORMAT_VERSION: u32 = 1;

/// The first line: what ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT_VERSION`] of the program that wrote the file.
    #[serde(rename = "anabranch_history")]
    pub format: u32,
    /// The protocol, such as `ramp-fast`; empty for histories from elsewhere.
    #[serde(default)]
    pub protocol: String,
    /// The workload, such as `tpcc`.
    #[serde(default)]
    pub workload: String,
    /// The run's seed.
    #[serde(default)]
    pub seed: u64,
    /// How many nodes took part.
    #[serde(default)]
    pub nodes: u16,
    /// The models that the run promised, which `anabranch check` checks by default.
    #[serde(default)]
    pub models: Vec<Model>,
    /// Which of two assignments to one item wins.
    #[serde(default)]
    pub assignments: AssignmentOrder,
}

impl Default for Header {
    fn default() -> Self {
        Header {
            format: FORMAT_VERSION,
            protocol: String::new(),
            workload: String::new(),
            seed: 0,
            nodes: 0,
            models: Vec::new(),
            assignments: AssignmentOrder::Installation,
        }
    }
}

/// Which of two assignments to one item wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AssignmentOrder {
    /// The one that was installed later.
    #[default]
    Installation,
    /// The one with the higher [`Transaction::stamp`], in any order of installation: last writer wins. Such
    /// assignments commute.
    Stamp,
    /// As `Stamp`, where several copies install in orders of their own: a read names the version that its copy shows,
    /// which may not be the last one installed.
    Copies,
}

/// One attempt of one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Its name, unique in the history.
    pub id: String,
    /// The name of its versions in reads; the id by default. Unique as well.
    pub version: Option<String>,
    /// Its position among the writers of a register (see [`AssignmentOrder::Stamp`]).
    pub stamp: Option<u64>,
    /// The client's session. A session's transactions are in its order in the file.
    pub session: Option<String>,
    /// The node that coordinated it.
    pub node: Option<u16>,
    /// When the client invoked it, in ticks (nanoseconds) since the start of the run.
    pub invoked: Option<u64>,
    /// When the client received the result, in ticks. `None` for an unknown outcome.
    pub completed: Option<u64>,
    /// The procedure, for explanations.
    pub procedure: Option<String>,
    /// Its arguments, as text.
    pub arguments: Vec<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// Its operations, in order.
    pub operations: Vec<Operation>,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Committed.
    #[default]
    Committed,
    /// Aborted without effect, for this reason.
    Aborted(String),
    /// The client received no outcome. Counts as committed if a version of it was installed or read.
    Unknown,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read of one item.
    Read(Read),
    /// A read of all items in a range.
    Scan(Scan),
    /// A write of one item.
    Write(Write),
}

/// A read of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The item.
    pub item: String,
    /// The newest version that the result includes. `None` is the initial version, which no transaction of the
    /// history wrote.
    pub version: Option<VersionName>,
    /// The value, for explanations.
    pub value: Option<String>,
    /// The state of the item's partition at the read.
    pub at: Option<PartitionSequence>,
}

/// Names a version: its writer, and its number among the writer's writes of the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionName {
    /// The writer's [`Transaction::version`].
    pub writer: String,
    /// The number among the writer's writes of the item, from 1; `None` is the last one.
    pub ordinal: Option<u32>,
}

impl VersionName {
    /// The last version that this transaction wrote.
    pub fn of(writer: impl Into<String>) -> VersionName {
        VersionName {
            writer: writer.into(),
            ordinal: None,
        }
    }
}

/// A read of all items in a range of one space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The space: a table's name (its primary key), or whatever [`Write::positions`] name.
    pub space: String,
    /// The first position that belongs to the range; none: from the beginning.
    pub lower: Option<String>,
    /// The first position beyond the range; none: to the end. A scan that stopped at a limit
    /// covers the range that it passed, not the range requested.
    pub upper: Option<String>,
    /// The items found there.
    pub found: Vec<Read>,
    /// The state of the partition that it was read from; items of other partitions are not
    /// concerned. None: all are.
    pub at: Option<PartitionSequence>,
}

/// A write of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The item.
    pub item: String,
    /// The kind of write.
    pub kind: WriteKind,
    /// The value, for explanations.
    pub value: Option<String>,
    /// The version's positions in spaces other than the item's own, by space.
    pub positions: BTreeMap<String, String>,
    /// The partition and sequence of its installation. `None` if an [`Order`] gives the version order, or if it was
    /// not installed.
    pub at: Option<PartitionSequence>,
}

/// How a write changes an item. It decides which writes commute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteKind {
    /// The item gets a value independent of the previous one.
    #[default]
    Assign,
    /// The item grows by an amount; increments commute.
    Increment,
    /// A function of the item's value that the owner applies at installation: a deferred effect. The owner decides
    /// the order.
    Apply,
    /// The item grows at its end; the earlier content and its order stay visible.
    Append,
    /// The item is created.
    Insert,
    /// The item is removed.
    Delete,
}

/// A state of one partition: everything installed there up to this sequence. JSON: `[3, 17]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u16, u64)", into = "(u16, u64)")]
pub struct PartitionSequence {
    /// The partition.
    pub partition: u16,
    /// Its sequence of installation; 0 is what was loaded.
    pub sequence: u64,
}

impl From<(u16, u64)> for PartitionSequence {
    fn from((partition, sequence): (u16, u64)) -> PartitionSequence {
        PartitionSequence {
            partition,
            sequence,
        }
    }
}

impl From<PartitionSequence> for (u16, u64) {
    fn from(place: PartitionSequence) -> (u16, u64) {
        (place.partition, place.sequence)
    }
}

/// The version order of one item, given where its writes have no sequences of installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The item.
    #[serde(rename = "order")]
    pub item: String,
    /// Its writers, by [`Transaction::version`], the first one first.
    pub versions: Vec<String>,
}

/// A timestamp as the name of a version: logical time and node, `1234@n0`.
pub fn version_name(timestamp: Timestamp) -> String {
    timestamp.to_string()
}

/// The name of a row: its table, a colon, and its key in hexadecimal, so that text order is key order.
pub fn item_name(table: &str, key: &[u8]) -> String {
    let mut name = String::with_capacity(table.len() + 1 + 2 * key.len());
    name.push_str(table);
    name.push(':');
    push_hexadecimal(&mut name, key);
    name
}

/// A key as a position in a space: hexadecimal, so that text order is key order.
pub fn position(key: &[u8]) -> String {
    let mut text = String::with_capacity(2 * key.len());
    push_hexadecimal(&mut text, key);
    text
}

fn push_hexadecimal(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// An item's own space and its position there: the text before and after the first colon.
pub fn split_item(item: &str) -> (&str, &str) {
    item.split_once(':').unwrap_or(("", item))
}
