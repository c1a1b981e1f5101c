//! Collects what the node knows of transactions that have not ended.

use anabranch_protocol::{LockWait, Protocol};
use anabranch_types::{
    DataType, IndexId, Key, KeyReader, TableId, TableSchema, TimeZone, Value, text,
};

use super::{AlarmKind, AttemptStage, Node};
use crate::application::PlannedApplication;
use crate::call::Work;
use crate::open_transactions::{NodeTransactions, NodeWait, OpenTransaction, TransactionClient};

impl<P: Protocol> Node<P> {
    /// What has not ended here, as of now.
    pub fn open_transactions(&self) -> NodeTransactions {
        let open = self.protocol().open_transactions();
        let wait = |wait: LockWait| NodeWait {
            transaction: wait.transaction,
            what: place(&self.planned, wait.table, wait.index, &wait.key),
            blockers: wait.blockers,
        };
        NodeTransactions {
            own: self.own_transactions(),
            waits: open.waits.into_iter().map(wait).collect(),
            prepared: open.prepared,
        }
    }

    /// The transactions that run here, sorted by what they run for.
    fn own_transactions(&self) -> Vec<OpenTransaction> {
        let mut own = Vec::new();
        // tidy: order-free because they are sorted below.
        for (id, block) in &self.blocks {
            let idle = block.attempt.as_ref().map(|attempt| attempt.transaction);
            own.push(OpenTransaction {
                client: TransactionClient::Block(*id),
                transaction: idle,
                is_committing: false,
                attempts: block.attempts,
            });
        }
        // tidy: order-free because they are sorted below.
        for attempt in self.waiting.values() {
            let transaction = Some(attempt.transaction);
            let is_committing = matches!(attempt.stage, AttemptStage::Committing(_));
            match &attempt.block {
                Some((id, _)) => {
                    let client = TransactionClient::Block(*id);
                    let of_block = own.iter_mut().filter(|of| of.client == client);
                    of_block.for_each(|of| {
                        of.transaction = transaction;
                        of.is_committing = is_committing;
                    });
                }
                None => own.push(OpenTransaction {
                    client: TransactionClient::Call(attempt.open.call.id),
                    transaction,
                    is_committing,
                    attempts: attempt.open.attempts,
                }),
            }
        }
        for alarm in &self.alarms {
            if let AlarmKind::Retry(open) = &alarm.0.what
                && !matches!(open.call.work, Work::Step(_))
            {
                own.push(OpenTransaction {
                    client: TransactionClient::Call(open.call.id),
                    transaction: None,
                    is_committing: false,
                    attempts: open.attempts,
                });
            }
        }
        own.sort_unstable_by_key(|of| match of.client {
            TransactionClient::Block(id) => (0, id.0),
            TransactionClient::Call(id) => (1, id.0),
        });
        own
    }
}

/// A place in the lock order, as text: the table, and the values of the key as far as it has them.
fn place(
    planned: &PlannedApplication,
    table: TableId,
    index: Option<IndexId>,
    key: &Key,
) -> String {
    let schema = planned.schema().table(table);
    let columns: &[_] = match index {
        None => &schema.primary_key,
        Some(index) => &schema.indexes[index.index()].columns,
    };
    let mut reader = KeyReader::new(key.as_bytes());
    let mut values = Vec::new();
    for column in columns {
        let column = &schema.columns[column.index()];
        let Some(value) = value(&mut reader, key, &column.data_type, column.nullable) else {
            break;
        };
        values.push(format!("{} = {value}", column.name));
    }
    match values.is_empty() {
        true => format!("{} (a range of rows)", name(schema, index)),
        false => format!("{} ({})", name(schema, index), values.join(", ")),
    }
}

fn name(schema: &TableSchema, index: Option<IndexId>) -> String {
    match index {
        None => schema.name.clone(),
        Some(index) => format!(
            "{}, index {}",
            schema.name,
            schema.indexes[index.index()].name
        ),
    }
}

/// The next value of a key. The key may be a bound between keys, so text is taken as it is there.
fn value(
    reader: &mut KeyReader<'_>,
    key: &Key,
    data_type: &DataType,
    nullable: bool,
) -> Option<String> {
    if data_type.is_text() || data_type.as_enum().is_some() {
        let start = reader.position() + usize::from(nullable);
        reader.skip(data_type, nullable)?;
        let bytes = key.as_bytes().get(start..reader.position())?;
        let text = bytes.strip_suffix(&[0, 0]).unwrap_or(bytes);
        return Some(format!("'{}'", String::from_utf8_lossy(text)));
    }
    match data_type {
        DataType::Bool
        | DataType::Int2
        | DataType::Int4
        | DataType::Int8
        | DataType::Date
        | DataType::Timestamp
        | DataType::TimestampTz
        | DataType::Uuid => match reader.read(data_type, nullable)? {
            Value::Null => Some("NULL".to_owned()),
            value => Some(text::format_value(&value, data_type, &TimeZone::UTC)),
        },
        _ => {
            reader.skip(data_type, nullable)?;
            Some("…".to_owned())
        }
    }
}
