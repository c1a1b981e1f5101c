//! The vocabulary that all other crates share: identifiers, time, values, rows and keys.
//!
//! Nothing here makes decisions or does IO. A type belongs in this crate when two
//! crates that do not know each other must agree on it. The [glossary] defines the project's terms.
//!
//! [glossary]: https://github.com/anabranch/anabranch/blob/main/docs/glossary.md
//!
//! * [`id`]: newtypes for everything that is numbered.
//! * [`time`]: virtual time ([`Ticks`]) and transaction timestamps ([`Timestamp`]).
//! * [`data_type`], [`value`], [`decimal`]: PostgreSQL's types and the values they hold.
//! * [`json`]: JSON in PostgreSQL's normal form.
//! * [`row`]: rows as compact bytes, decoded a column at a time.
//! * [`key`]: keys as bytes in the order of the values that they encode.
//! * [`bounds`]: the precision of a `numeric(p, s)`, the length of a `varchar(n)`.
//! * [`calendar`]: days and their dates.
//! * [`text`]: values of every type as text.
//! * [`zone`]: time zones.
//! * [`schema`]: what is known of a table below SQL.
//! * [`sequence`]: sequences, and how far each has come.
//! * [`access`], [`effect`]: what a transaction reads, and what it does when it commits.
//! * [`activity`]: the current activity of a node, for a profiler.
//! * [`random`]: seeded random numbers.
//! * [`markup`]: text in SVG and HTML, and the page layout of reports.

pub mod access;
pub mod activity;
pub mod bounds;
pub mod calendar;
pub mod data_type;
pub mod decimal;
pub mod effect;
mod encoded;
pub mod id;
pub mod json;
pub mod key;
pub mod markup;
pub mod random;
pub mod row;
pub mod schema;
pub mod sequence;
pub mod text;
pub mod time;
pub mod value;
pub mod zone;

pub use access::{Access, Fetched, LockPolicy, Read, Recorded, RecordedState};
pub use activity::{Activity, ActivityProbe};
pub use data_type::{DataType, EnumType, NumericBounds, ObjectKind};
pub use decimal::{Decimal, DecimalError};
pub use effect::{
    Applied, ColumnSet, Effect, EffectError, EffectErrorFields, Merging, Patch, RowPrograms,
};
pub use id::{ColumnIndex, IndexId, NodeId, PartitionId, ProgramId, SlotId, TableId};
pub use json::Jsonb;
pub use key::{Key, KeyRange, KeyReader};
pub use random::SplitMix64;
pub use row::{
    LikeWriter, Row, RowBuilder, RowLayout, RowTemplate, RowTooLong, RowWriter, StoredInt,
};
pub use schema::{ColumnSchema, IndexSchema, Placement, Schema, TableSchema};
pub use sequence::{SequenceId, SequencePoint};
pub use time::{HybridClock, Ticks, Timestamp};
pub use value::{Pending, Value, ValueRef};
pub use zone::TimeZone;
