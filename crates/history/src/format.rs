//! Histories as text: JSON, one value for each line.
//!
//! The first line is the [`Header`]; the last one counts the lines between, so that a truncated file is noticed
//! wherever it was cut. A line that violates the format is an error with its number, and an incomplete history gets
//! no verdict.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write as Sink};

use serde::{Deserialize, Serialize};

use crate::error::{HistoryError, Problem};
use crate::record::{
    FORMAT_VERSION, Header, Operation, Order, Outcome, PartitionSequence, Read, Scan, Transaction,
    VersionName, Write, WriteKind,
};

/// Writes a history line by line.
#[derive(Debug)]
pub struct HistoryWriter<W: Sink> {
    sink: W,
    counts: Counts,
}

impl<W: Sink> HistoryWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// The sink's error.
    pub fn new(sink: W, header: &Header) -> io::Result<HistoryWriter<W>> {
        let mut writer = HistoryWriter {
            sink,
            counts: Counts::default(),
        };
        writer.line(header)?;
        Ok(writer)
    }

    /// Writes a transaction.
    ///
    /// # Errors
    /// The sink's error.
    pub fn transaction(&mut self, transaction: &Transaction) -> io::Result<()> {
        self.counts.transactions += 1;
        self.line(&TransactionLine::from(transaction))
    }

    /// Writes the version order of an item.
    ///
    /// # Errors
    /// The sink's error.
    pub fn order(&mut self, order: &Order) -> io::Result<()> {
        self.counts.orders += 1;
        self.line(order)
    }

    /// Ends the history. A history without its end counts as truncated.
    ///
    /// # Errors
    /// The sink's error.
    pub fn finish(mut self) -> io::Result<W> {
        let end = EndLine { end: self.counts };
        self.line(&end)?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.sink, value)?;
        self.sink.write_all(b"\n")
    }
}

/// One line between the first and the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A transaction.
    Transaction(Transaction),
    /// The version order of an item.
    Order(Order),
}

/// Reads a history line by line.
#[derive(Debug)]
pub struct HistoryReader<R> {
    input: R,
    header: Header,
    line: u64,
    counts: Counts,
    text: Vec<u8>,
}

impl<R: BufRead> HistoryReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`HistoryError`] when there is none, or one of a newer format.
    pub fn new(input: R) -> Result<HistoryReader<R>, HistoryError> {
        let mut reader = HistoryReader {
            input,
            header: Header::default(),
            line: 0,
            counts: Counts::default(),
            text: Vec::new(),
        };
        if !reader.next_line()? {
            return Err(reader.error(Problem::Empty));
        }
        // Reads the version first: a newer header may hold unknown fields.
        let version: FormatLine = match serde_json::from_slice(&reader.text) {
            Ok(version) => version,
            Err(error) => return Err(reader.error(Problem::NoHeader(in_line(&error)))),
        };
        if version.format > u64::from(FORMAT_VERSION) || version.format == 0 {
            return Err(reader.error(Problem::Newer {
                found: version.format,
                known: FORMAT_VERSION,
            }));
        }
        reader.header = match serde_json::from_slice(&reader.text) {
            Ok(header) => header,
            Err(error) => return Err(reader.error(Problem::Header(in_line(&error)))),
        };
        Ok(reader)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of the line that was read last, from 1 on.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next record; `None` at the end, once the counts agree.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn next_record(&mut self) -> Result<Option<Record>, HistoryError> {
        if !self.next_line()? {
            return Err(self.error(Problem::Truncated));
        }
        let whole = self.text.last() == Some(&b'\n');
        match self.parse() {
            Ok(Line::Transaction(transaction)) => {
                self.counts.transactions += 1;
                let record = transaction.into_transaction();
                Ok(Some(Record::Transaction(
                    record.map_err(|problem| self.error(problem))?,
                )))
            }
            Ok(Line::Order(order)) => {
                self.counts.orders += 1;
                Ok(Some(Record::Order(order)))
            }
            Ok(Line::End(counts)) if counts != self.counts => Err(self.error(Problem::Counts {
                promised: counts.to_string(),
                found: self.counts.to_string(),
            })),
            Ok(Line::End(_)) => {
                if self.next_line()? {
                    return Err(self.error(Problem::AfterEnd));
                }
                Ok(None)
            }
            Err(_) if !whole => Err(self.error(Problem::Truncated)),
            Err(problem) => Err(self.error(problem)),
        }
    }

    fn parse(&self) -> Result<Line, Problem> {
        let invalid = |error: serde_json::Error| Problem::Invalid(in_line(&error));
        let text = self.text.as_slice();
        // This program writes the key that tells a line's kind first. Other programs may order keys differently.
        if text.starts_with(b"{\"transaction\"") {
            return Ok(Line::Transaction(
                serde_json::from_slice(text).map_err(invalid)?,
            ));
        }
        let keys: BTreeMap<String, serde::de::IgnoredAny> =
            serde_json::from_slice(text).map_err(invalid)?;
        if keys.contains_key("transaction") {
            Ok(Line::Transaction(
                serde_json::from_slice(text).map_err(invalid)?,
            ))
        } else if keys.contains_key("order") {
            Ok(Line::Order(serde_json::from_slice(text).map_err(invalid)?))
        } else if keys.contains_key("end") {
            let line: EndLine = serde_json::from_slice(text).map_err(invalid)?;
            Ok(Line::End(line.end))
        } else {
            Err(Problem::Invalid(
                "a line is a \"transaction\", an \"order\" or the \"end\"".into(),
            ))
        }
    }

    /// Reads the next line that is not blank; false at the end of the input.
    fn next_line(&mut self) -> Result<bool, HistoryError> {
        loop {
            self.text.clear();
            let read = self.input.read_until(b'\n', &mut self.text);
            self.line += 1;
            match read {
                Ok(0) => return Ok(false),
                Ok(_) if self.text.trim_ascii().is_empty() => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(self.error(Problem::Unreadable(error.to_string()))),
            }
        }
    }

    fn error(&self, problem: Problem) -> HistoryError {
        HistoryError {
            line: self.line,
            problem,
        }
    }
}

enum Line {
    Transaction(TransactionLine),
    Order(Order),
    End(Counts),
}

#[derive(Deserialize)]
struct FormatLine {
    #[serde(rename = "anabranch_history")]
    format: u64,
}

/// How many lines of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    transactions: u64,
    #[serde(default)]
    orders: u64,
}

/// The error of a line. The reader adds the line's number, so only the column is kept.
fn in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what}, at column {}", error.column()),
        None => text,
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} transactions and {} orders",
            self.transactions, self.orders
        )
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    end: Counts,
}

/// A transaction in the form of its line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransactionLine {
    transaction: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invoked: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    procedure: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<String>,
    outcome: OutcomeLine,
    #[serde(default)]
    operations: Vec<OperationLine>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OutcomeLine {
    Committed,
    Aborted(String),
    Unknown,
}

/// An operation in the form of its line: one of `read`, `scan` and `write` gives its kind.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scan: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ordinal: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<WriteKind>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    positions: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lower: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upper: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    found: Option<Vec<OperationLine>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<PartitionSequence>,
}

impl From<&Transaction> for TransactionLine {
    fn from(transaction: &Transaction) -> TransactionLine {
        let operations = transaction
            .operations
            .iter()
            .map(|operation| match operation {
                Operation::Read(read) => OperationLine::from(read),
                Operation::Scan(scan) => OperationLine::from(scan),
                Operation::Write(write) => OperationLine::from(write),
            });
        TransactionLine {
            transaction: transaction.id.clone(),
            version: transaction.version.clone(),
            stamp: transaction.stamp,
            session: transaction.session.clone(),
            node: transaction.node,
            invoked: transaction.invoked,
            completed: transaction.completed,
            procedure: transaction.procedure.clone(),
            arguments: transaction.arguments.clone(),
            outcome: match &transaction.outcome {
                Outcome::Committed => OutcomeLine::Committed,
                Outcome::Aborted(reason) => OutcomeLine::Aborted(reason.clone()),
                Outcome::Unknown => OutcomeLine::Unknown,
            },
            operations: operations.collect(),
        }
    }
}

impl From<&Read> for OperationLine {
    fn from(read: &Read) -> OperationLine {
        OperationLine {
            read: Some(read.item.clone()),
            version: read.version.as_ref().map(|version| version.writer.clone()),
            ordinal: read.version.as_ref().and_then(|version| version.ordinal),
            value: read.value.clone(),
            at: read.at,
            ..OperationLine::default()
        }
    }
}

impl From<&Scan> for OperationLine {
    fn from(scan: &Scan) -> OperationLine {
        OperationLine {
            scan: Some(scan.space.clone()),
            lower: scan.lower.clone(),
            upper: scan.upper.clone(),
            found: Some(scan.found.iter().map(OperationLine::from).collect()),
            at: scan.at,
            ..OperationLine::default()
        }
    }
}

impl From<&Write> for OperationLine {
    fn from(write: &Write) -> OperationLine {
        OperationLine {
            write: Some(write.item.clone()),
            kind: Some(write.kind),
            value: write.value.clone(),
            positions: write.positions.clone(),
            at: write.at,
            ..OperationLine::default()
        }
    }
}

impl TransactionLine {
    fn into_transaction(self) -> Result<Transaction, Problem> {
        let operations: Result<Vec<Operation>, Problem> = self
            .operations
            .into_iter()
            .map(OperationLine::into_operation)
            .collect();
        Ok(Transaction {
            id: self.transaction,
            version: self.version,
            stamp: self.stamp,
            session: self.session,
            node: self.node,
            invoked: self.invoked,
            completed: self.completed,
            procedure: self.procedure,
            arguments: self.arguments,
            outcome: match self.outcome {
                OutcomeLine::Committed => Outcome::Committed,
                OutcomeLine::Aborted(reason) => Outcome::Aborted(reason),
                OutcomeLine::Unknown => Outcome::Unknown,
            },
            operations: operations?,
        })
    }
}

impl OperationLine {
    fn into_operation(mut self) -> Result<Operation, Problem> {
        match (self.read.take(), self.scan.take(), self.write.take()) {
            (Some(item), None, None) => {
                self.refuse_all_but("read", &["version", "ordinal", "value", "at"])?;
                self.into_read(item).map(Operation::Read)
            }
            (None, Some(space), None) => {
                self.refuse_all_but("scan", &["lower", "upper", "found", "at"])?;
                let found = self.found.take().ok_or_else(|| {
                    Problem::Invalid("a scan needs \"found\", which may be []".into())
                })?;
                let found: Result<Vec<Read>, Problem> = found
                    .into_iter()
                    .map(|line| match line.into_operation()? {
                        Operation::Read(read) => Ok(read),
                        _ => Err(Problem::Invalid("a scan finds reads".into())),
                    })
                    .collect();
                Ok(Operation::Scan(Scan {
                    space,
                    lower: self.lower,
                    upper: self.upper,
                    found: found?,
                    at: self.at,
                }))
            }
            (None, None, Some(item)) => {
                self.refuse_all_but("write", &["kind", "value", "positions", "at"])?;
                Ok(Operation::Write(Write {
                    item,
                    kind: self.kind.unwrap_or_default(),
                    value: self.value,
                    positions: self.positions,
                    at: self.at,
                }))
            }
            _ => Err(Problem::Invalid(
                "an operation is one of \"read\", \"scan\" and \"write\"".into(),
            )),
        }
    }

    fn into_read(self, item: String) -> Result<Read, Problem> {
        let version = match (self.version, self.ordinal) {
            (Some(writer), ordinal) if ordinal != Some(0) => Some(VersionName { writer, ordinal }),
            (None, None) => None,
            _ => {
                return Err(Problem::Invalid(
                    "an ordinal counts a writer's versions from 1".into(),
                ));
            }
        };
        Ok(Read {
            item,
            version,
            value: self.value,
            at: self.at,
        })
    }

    /// Refuses a field that does not belong to the operation: ignoring it could change the verdict.
    fn refuse_all_but(&self, kind: &str, allowed: &[&str]) -> Result<(), Problem> {
        let present = [
            ("version", self.version.is_some()),
            ("ordinal", self.ordinal.is_some()),
            ("value", self.value.is_some()),
            ("kind", self.kind.is_some()),
            ("positions", !self.positions.is_empty()),
            ("lower", self.lower.is_some()),
            ("upper", self.upper.is_some()),
            ("found", self.found.is_some()),
            ("at", self.at.is_some()),
        ];
        match present
            .iter()
            .find(|(name, there)| *there && !allowed.contains(name))
        {
            None => Ok(()),
            Some((name, _)) => Err(Problem::Invalid(format!("a {kind} has no \"{name}\""))),
        }
    }
}
