//! Reads a history in either format.

use std::io::BufRead;

use crate::builder::HistoryBuilder;
use crate::error::HistoryError;
use crate::format::{HistoryReader, Record};
use crate::history::History;
use crate::jepsen;

impl History {
    /// Reads a history: this program's format ([`crate::format`]), or a Jepsen history in EDN.
    ///
    /// # Errors
    /// [`HistoryError`], with the line.
    pub fn read(mut input: impl BufRead) -> Result<History, HistoryError> {
        if input.fill_buf().is_ok_and(jepsen::begins) {
            return jepsen::read(input);
        }
        let mut reader = HistoryReader::new(input)?;
        let mut builder = HistoryBuilder::new(reader.header().clone());
        while let Some(record) = reader.next_record()? {
            match record {
                Record::Transaction(transaction) => builder.add(reader.line(), transaction)?,
                Record::Order(order) => builder.add_order(reader.line(), &order)?,
            }
        }
        builder.finish()
    }
}
