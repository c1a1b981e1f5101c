//! What is recorded of a run, one value a line of the file.
//!
//! Everything is named by text, so that histories of other programs fit in: transactions, items,
//! spaces. docs/histories.md defines each field; this is the same in types. What a file says is
//! not believed here: [`crate::History`] holds it against itself.

use std::collections::BTreeMap;

use anabranch_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Model;

/// The newest version of the format that this program reads, and the one that it writes.
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
    /// What the run promised; what `anabranch check` checks when it is not told.
    #[serde(default)]
    pub models: Vec<Model>,
    /// What decides between two assignments of one item.
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

/// What decides between two assignments of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AssignmentOrder {
    /// The one that was installed later stands.
    #[default]
    Installation,
    /// The one with the higher [`Transaction::stamp`] stands, whichever was installed first: last
    /// writer wins. Such assignments commute.
    Stamp,
    /// The same, where several copies install them, each in an order of its own: a read names the
    /// version that its copy shows, and not the one that was installed last.
    Copies,
}

/// One attempt of one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Its name, unique in the history.
    pub id: String,
    /// What its versions are called in reads; the id if nothing else is said. Unique as well.
    pub version: Option<String>,
    /// Its place among the writers of a register (see [`AssignmentOrder::Stamp`]).
    pub stamp: Option<u64>,
    /// The client's session. A session's transactions are in its order in the file.
    pub session: Option<String>,
    /// The node that coordinated it.
    pub node: Option<u16>,
    /// When the client asked, in ticks (nanoseconds) since the start of the run.
    pub invoked: Option<u64>,
    /// When the client was answered, in ticks. None for an unknown outcome.
    pub completed: Option<u64>,
    /// The procedure, for those who read the explanation.
    pub procedure: Option<String>,
    /// Its arguments, as text.
    pub arguments: Vec<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// What it did, in order.
    pub operations: Vec<Operation>,
}

/// What became of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It has committed.
    #[default]
    Committed,
    /// It left no trace, for this reason.
    Aborted(String),
    /// Nobody was told. It counts as committed if a version of it was installed or read.
    Unknown,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It read one item.
    Read(Read),
    /// It read all items in a range.
    Scan(Scan),
    /// It wrote one item.
    Write(Write),
}

/// A read of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Which item.
    pub item: String,
    /// The version that it got: the newest that what it saw includes. None is the initial version,
    /// which no transaction of the history wrote.
    pub version: Option<VersionName>,
    /// The value, for those who read the explanation.
    pub value: Option<String>,
    /// The state of the item's partition that it was read from.
    pub at: Option<Place>,
}

/// Names a version: who wrote it, and which of his writes of the item it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionName {
    /// The writer's [`Transaction::version`].
    pub writer: String,
    /// Counted from 1 among the writer's writes of the item; None is the last one.
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
    /// covers what it has passed, not what it was asked.
    pub upper: Option<String>,
    /// The items found there.
    pub found: Vec<Read>,
    /// The state of the partition that it was read from; items of other partitions are not
    /// concerned. None: all are.
    pub at: Option<Place>,
}

/// A write of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// Which item.
    pub item: String,
    /// What kind of write.
    pub kind: WriteKind,
    /// The value, for those who read the explanation.
    pub value: Option<String>,
    /// Where the version is found in spaces other than the item's own, by space.
    pub positions: BTreeMap<String, String>,
    /// Where and when it was installed. None: the item's version order is told by an [`Order`], or
    /// it was not installed.
    pub at: Option<Place>,
}

/// What a write makes of what was there. Which writes commute follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteKind {
    /// The item gets a value that does not depend on the one before.
    #[default]
    Assign,
    /// The item grows by an amount: increments commute.
    Increment,
    /// A function of the item's value, applied by its owner when it was installed: a deferred
    /// effect. The order is the owner's.
    Apply,
    /// The item grows at its end: what was there stays visible, and the order shows.
    Append,
    /// The item comes into being.
    Insert,
    /// The item goes.
    Delete,
}

/// A state of one partition: what had been installed there up to this sequence. JSON: `[3, 17]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u16, u64)", into = "(u16, u64)")]
pub struct Place {
    /// Which partition.
    pub partition: u16,
    /// Its sequence of installation; 0 is what was loaded.
    pub sequence: u64,
}

impl From<(u16, u64)> for Place {
    fn from((partition, sequence): (u16, u64)) -> Place {
        Place {
            partition,
            sequence,
        }
    }
}

impl From<Place> for (u16, u64) {
    fn from(place: Place) -> (u16, u64) {
        (place.partition, place.sequence)
    }
}

/// The version order of one item whose writes do not say where they were installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Which item.
    #[serde(rename = "order")]
    pub item: String,
    /// Its writers, by [`Transaction::version`], the first one first.
    pub versions: Vec<String>,
}

/// How a timestamp is written as the name of a version: logical time and node, `1234@n0`.
pub fn version_name(timestamp: Timestamp) -> String {
    timestamp.to_string()
}

/// How a row is named: its table, a colon, and the bytes of its key in hexadecimal, whose order as
/// text is the order of the keys.
pub fn item_name(table: &str, key: &[u8]) -> String {
    let mut name = String::with_capacity(table.len() + 1 + 2 * key.len());
    name.push_str(table);
    name.push(':');
    push_hexadecimal(&mut name, key);
    name
}

/// A position in a space made of a key's bytes: hexadecimal, so that text keeps their order.
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

/// An item's own space and its position there: what stands before and after the first colon.
pub fn split_item(item: &str) -> (&str, &str) {
    item.split_once(':').unwrap_or(("", item))
}
