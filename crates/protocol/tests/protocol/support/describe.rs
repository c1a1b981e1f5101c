//! Short texts of requests, replies, reads, rows and effects of the [`fixture`](super::fixture), for readable
//! transcripts.

use anabranch_protocol::{PartitionEffects, Reply, Request};
use anabranch_types::{DataType, Effect, Fetched, Key, KeyReader, Read, SlotId, TableId, Value};

use super::fixture::{ADD, ENTRY, ITEM, NEXT, SET, TAKE, columns};

/// A request.
pub fn request(request: &Request) -> String {
    match request {
        Request::Declare(_) => "declare".to_string(),
        Request::Read(reads) => {
            let reads = reads.iter().map(|on| read(&on.read));
            format!("read {}", list(reads))
        }
        Request::Commit(on) if on.is_empty() => "commit".to_string(),
        Request::Commit(on) => {
            let all = on
                .iter()
                .flat_map(|PartitionEffects { effects, .. }| effects);
            format!("commit {}", list(all.map(effect)))
        }
        Request::CommitReads => "commit reads".to_string(),
        Request::Abort => "abort".to_string(),
        _ => "?".to_string(),
    }
}

/// A reply.
pub fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Declared => "declared".to_string(),
        Reply::Fetched(fetched) => list(fetched.iter().map(rows)),
        Reply::Committed {
            timestamp, slots, ..
        } if slots.is_empty() => {
            format!("committed at {timestamp}")
        }
        Reply::Committed {
            timestamp, slots, ..
        } => {
            format!("committed at {timestamp}, {}", self::slots(slots))
        }
        Reply::Aborted(reason) => format!("aborted: {}", reason.name()),
        _ => "?".to_string(),
    }
}

/// The values of deferred effects.
pub fn slots(slots: &[(SlotId, Value)]) -> String {
    list(slots.iter().map(|(slot, value)| match value {
        Value::Int(int) => format!("{slot} = {int}"),
        other => format!("{slot} = {other:?}"),
    }))
}

/// One read.
pub fn read(read: &Read) -> String {
    match read {
        Read::Point { table, key } => item(*table, key),
        Read::Range { table, index, .. } => {
            let by = if index.is_some() { " by owner" } else { "" };
            format!("a range of {}{by}", name(*table))
        }
    }
}

/// One answer.
pub fn rows(fetched: &Fetched) -> String {
    let row = |row| {
        // The two tables share their layout up to the second column's width, and the answer has no table. In
        // transcripts only items are read by key.
        let [part, id, register, count] = columns(ITEM, row);
        format!("item({part},{id}) = {register}, count {count}")
    };
    match fetched.answer() {
        Fetched::Point(None) => "no row".to_string(),
        Fetched::Point(Some(found)) => row(found),
        Fetched::Range(rows) => format!("{} rows", rows.len()),
        Fetched::Locked | Fetched::Recorded(_) => unreachable!("an answer is a point or a range"),
    }
}

/// One effect.
pub fn effect(effect: &Effect) -> String {
    let at = item(effect.table(), effect.key());
    match effect {
        Effect::Insert { patches, table, .. } if !patches.is_empty() => {
            format!("insert into {} with {}", name(*table), patches[0].slot)
        }
        Effect::Insert { .. } => format!("insert {at}"),
        Effect::Delete { .. } => format!("delete {at}"),
        Effect::Update {
            program, arguments, ..
        } => match (*program, arguments.first()) {
            (SET, Some(Value::Int(value))) => format!("{at} := {value}"),
            (ADD, Some(Value::Int(value))) => format!("{at} += {value}"),
            (TAKE, Some(Value::Int(value))) => format!("{at} -= {value}"),
            (NEXT, _) => format!("draw from {at}"),
            other => format!("{other:?}"),
        },
    }
}

/// A list.
pub fn list(things: impl Iterator<Item = String>) -> String {
    things.collect::<Vec<_>>().join("; ")
}

fn name(table: TableId) -> &'static str {
    if table == ENTRY { "entry" } else { "item" }
}

fn item(table: TableId, key: &Key) -> String {
    let mut reader = KeyReader::new(key.as_bytes());
    let part = reader
        .read_int(&DataType::Int4)
        .expect("a key of the fixture");
    let id = if table == ENTRY {
        DataType::Int8
    } else {
        DataType::Int4
    };
    let id = reader.read_int(&id).expect("a key of the fixture");
    format!("{}({part},{id})", name(table))
}
