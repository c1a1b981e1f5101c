//! Rows as compact bytes, decoded a column at a time.
//!
//! A row is, in this order:
//!
//! 1. **flags**: a bit that says how wide the end offsets are (tables with variable columns only),
//!    then a bit for each nullable column, 1 when it is NULL; whole bytes;
//! 2. **fixed columns** at offsets that the layout knows: integers, `boolean`, floats, `date`,
//!    timestamps, `uuid`, and `numeric(p, s)` with p at most 18, as an integer scaled by 10^s (4
//!    bytes up to p = 9, else 8); little-endian; zeros when NULL;
//! 3. **end offsets** of the variable columns, relative to 4, of 2 bytes each, or 4 in a row whose
//!    variable part exceeds 65,535 bytes;
//! 4. **variable columns**: text, `bytea`, other `numeric`, JSON, arrays; empty when NULL.
//!
//! So any column is found in constant time, and changing a fixed one is a copy and a store.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{ColumnIndex, DataType, Decimal, Jsonb, Value, ValueRef};

/// No row, and no value in one, is longer than this many bytes (as PostgreSQL's fields).
pub const ROW_BYTES_MAX: usize = 1 << 30;

/// A row would exceed [`ROW_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row is too long: at most 1 GiB")]
pub struct RowTooLong;

/// An encoded row. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Arc<[u8]>);

/// How the rows of a table are laid out, derived from the types of its columns.
#[derive(Clone, Debug, Default)]
pub struct RowLayout {
    fields: Vec<Field>,
    fixed_end: usize,
    variables: usize,
}

#[derive(Clone, Debug)]
struct Field {
    place: FieldPosition,
    kind: Kind,
    /// The bit that says that the column is NULL, if it may be.
    null_bit: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum FieldPosition {
    Fixed { offset: u32, width: u8 },
    Variable { number: u32 },
}

/// How a column's bytes are read.
#[derive(Clone, Debug)]
enum Kind {
    Bool,
    Int,
    Scaled(u16),
    Real,
    Double,
    Date,
    Timestamp,
    Uuid,
    Text,
    Bytes,
    Decimal,
    Jsonb,
    Array(Box<Kind>),
}

impl Kind {
    fn of(data_type: &DataType) -> (Kind, Option<u8>) {
        match data_type {
            DataType::Bool => (Kind::Bool, Some(1)),
            DataType::Int2 => (Kind::Int, Some(2)),
            DataType::Int4 => (Kind::Int, Some(4)),
            DataType::Int8 => (Kind::Int, Some(8)),
            DataType::Numeric(_) => match data_type.scaled_width() {
                Some((width, scale)) => (Kind::Scaled(scale), Some(width as u8)),
                None => (Kind::Decimal, None),
            },
            DataType::Real => (Kind::Real, Some(4)),
            DataType::Double => (Kind::Double, Some(8)),
            DataType::Oid | DataType::OidAlias(_) => (Kind::Int, Some(8)),
            DataType::Bytea => (Kind::Bytes, None),
            DataType::Uuid => (Kind::Uuid, Some(16)),
            DataType::Timestamp | DataType::TimestampTz => (Kind::Timestamp, Some(8)),
            DataType::Date => (Kind::Date, Some(4)),
            DataType::Array(element) => (Kind::Array(Box::new(Kind::of(element).0)), None),
            DataType::Int2Vector | DataType::OidVector => (Kind::Array(Box::new(Kind::Int)), None),
            DataType::Text
            | DataType::Varchar(_)
            | DataType::Char(_)
            | DataType::Enum(_)
            | DataType::Json
            | DataType::Name
            | DataType::SingleByte => (Kind::Text, None),
            DataType::Jsonb => (Kind::Jsonb, None),
            DataType::Record(_) | DataType::Void => panic!("no column is a {data_type}"),
        }
    }
}

impl RowLayout {
    /// The layout of rows with these columns: type and nullability of each, in order.
    pub fn new<'t>(columns: impl IntoIterator<Item = (&'t DataType, bool)>) -> RowLayout {
        let mut fields = Vec::new();
        let mut fixed_len = 0;
        let (mut variables, mut nullables) = (0, 0);
        for (data_type, nullable) in columns {
            let (kind, width) = Kind::of(data_type);
            let place = match width {
                Some(width) => {
                    fixed_len += u32::from(width);
                    FieldPosition::Fixed {
                        offset: fixed_len - u32::from(width),
                        width,
                    }
                }
                None => {
                    variables += 1;
                    FieldPosition::Variable {
                        number: variables - 1,
                    }
                }
            };
            nullables += u32::from(nullable);
            fields.push(Field {
                place,
                kind,
                null_bit: nullable.then(|| nullables - 1),
            });
        }
        let first_null_bit = u32::from(variables > 0);
        let flag_bytes = (first_null_bit + nullables).div_ceil(8);
        for field in &mut fields {
            field.null_bit = field.null_bit.map(|bit| bit + first_null_bit);
            if let FieldPosition::Fixed { offset, .. } = &mut field.place {
                *offset += flag_bytes;
            }
        }
        RowLayout {
            fields,
            fixed_end: (flag_bytes + fixed_len) as usize,
            variables: variables as usize,
        }
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.fields.len()
    }

    /// Encodes a row. [`Value::Pending`] is encoded as the integer 0, to be patched at commit.
    ///
    /// # Errors
    /// When the row would be too long.
    ///
    /// # Panics
    /// When the values are not one for each column, coerced to its type.
    pub fn encode(&self, values: &[Value]) -> Result<Row, RowTooLong> {
        RowBuilder::default().build(self, values)
    }

    /// Where rows have an integer, or the scaled integer of a `numeric(p, s)` with p at most 18;
    /// `None` for a column of another kind.
    #[inline]
    pub fn stored_int(&self, column: ColumnIndex) -> Option<StoredInt> {
        let field = self.field(column);
        match (&field.kind, field.place) {
            (Kind::Int | Kind::Scaled(_), FieldPosition::Fixed { offset, width }) => {
                Some(StoredInt {
                    offset,
                    width,
                    null_bit: field.null_bit.unwrap_or(NEVER_NULL),
                })
            }
            _ => None,
        }
    }

    /// Whether a column is a text.
    #[inline]
    pub fn is_text(&self, column: ColumnIndex) -> bool {
        matches!(self.field(column).kind, Kind::Text)
    }

    /// Whether a column's bytes have the same place in every row, which [`RowTemplate`]s fill.
    #[inline]
    pub fn is_fixed(&self, column: ColumnIndex) -> bool {
        matches!(self.field(column).place, FieldPosition::Fixed { .. })
    }

    #[inline]
    fn field(&self, column: ColumnIndex) -> &Field {
        &self.fields[column.index()]
    }
}

/// The position of an integer in the rows of a layout, determined once: see [`RowLayout::stored_int`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredInt {
    offset: u32,
    width: u8,
    /// The bit that says that it is NULL, or [`NEVER_NULL`].
    null_bit: u32,
}

/// Stands for the number of a bit that does not exist.
const NEVER_NULL: u32 = u32::MAX;

impl StoredInt {
    #[inline]
    fn get(self, row: &[u8]) -> Option<i64> {
        if self.null_bit != NEVER_NULL
            && row[(self.null_bit / 8) as usize] >> (self.null_bit % 8) & 1 == 1
        {
            return None;
        }
        let bytes = &row[self.offset as usize..];
        // Of a constant length each, so that none is a call.
        match self.width {
            4 => bytes
                .first_chunk()
                .map(|chunk| i64::from(i32::from_le_bytes(*chunk))),
            8 => bytes.first_chunk().map(|chunk| i64::from_le_bytes(*chunk)),
            _ => bytes
                .first_chunk()
                .map(|chunk| i64::from(i16::from_le_bytes(*chunk))),
        }
    }

    /// False, and nothing is changed, when the integer needs more bytes.
    #[inline]
    fn set(self, row: &mut [u8], int: i64) -> bool {
        let bytes = &mut row[self.offset as usize..];
        let set = match self.width {
            4 => match (bytes.first_chunk_mut(), i32::try_from(int)) {
                (Some(chunk), Ok(int)) => {
                    *chunk = int.to_le_bytes();
                    true
                }
                _ => false,
            },
            8 => bytes.first_chunk_mut().is_some_and(|chunk| {
                *chunk = int.to_le_bytes();
                true
            }),
            _ => match (bytes.first_chunk_mut(), i16::try_from(int)) {
                (Some(chunk), Ok(int)) => {
                    *chunk = int.to_le_bytes();
                    true
                }
                _ => false,
            },
        };
        if set && self.null_bit != NEVER_NULL {
            row[(self.null_bit / 8) as usize] &= !(1 << (self.null_bit % 8));
        }
        set
    }
}

/// The common part of many rows: the values of some of the columns with a fixed position, and which
/// columns are NULL. [`RowBuilder::start_like`] begins a row with it.
#[derive(Debug)]
pub struct RowTemplate<'l> {
    layout: &'l RowLayout,
    head: SmallVec<[u8; 64]>,
}

impl<'l> RowTemplate<'l> {
    /// A template that says nothing yet: 0 in every column.
    pub fn new(layout: &'l RowLayout) -> RowTemplate<'l> {
        RowTemplate {
            layout,
            head: SmallVec::from_elem(0, layout.fixed_end),
        }
    }

    /// Sets a column with a fixed place, or any to NULL.
    ///
    /// # Panics
    /// When the value is not coerced to the column's type, or the column has no fixed place.
    pub fn set(&mut self, column: ColumnIndex, value: ValueRef<'_>) {
        set_fixed(self.layout.field(column), &mut self.head, value);
    }
}

/// Builds rows one after the other in the same memory.
#[derive(Debug, Default)]
pub struct RowBuilder {
    head: Vec<u8>,
    tail: Vec<u8>,
    ends: Vec<u32>,
}

impl RowBuilder {
    /// Encodes a row, as [`RowLayout::encode`].
    ///
    /// # Errors
    /// When the row would be too long.
    ///
    /// # Panics
    /// When the values are not one for each column, coerced to its type.
    pub fn build(&mut self, layout: &RowLayout, values: &[Value]) -> Result<Row, RowTooLong> {
        assert_eq!(
            values.len(),
            layout.fields.len(),
            "a row has one value for each column"
        );
        let mut writer = self.start(layout);
        for value in values {
            writer.push(value.borrowed())?;
        }
        writer.finish()
    }

    /// Begins a row; its columns are then pushed in order.
    pub fn start<'b>(&'b mut self, layout: &'b RowLayout) -> RowWriter<'b> {
        self.begin(layout);
        RowWriter {
            builder: self,
            layout,
            fields: layout.fields.iter(),
        }
    }

    /// Begins a row with what a template says. The other columns with a fixed place are set in any
    /// order, and those without are pushed in theirs.
    pub fn start_like<'b>(&'b mut self, template: &RowTemplate<'b>) -> LikeWriter<'b> {
        self.head.clear();
        self.head.extend_from_slice(&template.head);
        self.tail.clear();
        self.ends.clear();
        LikeWriter {
            builder: self,
            layout: template.layout,
        }
    }

    fn begin(&mut self, layout: &RowLayout) {
        self.head.clear();
        // Room for most rows at once.
        self.head
            .reserve(layout.fixed_end + layout.variables * (2 + 24));
        self.head.resize(layout.fixed_end, 0);
        self.tail.clear();
        self.tail.reserve(layout.variables * 24);
        self.ends.clear();
    }

    #[inline]
    fn put(&mut self, field: &Field, value: ValueRef<'_>) -> Result<(), RowTooLong> {
        match field.place {
            _ if value.is_null() => {
                let bit = field
                    .null_bit
                    .expect("NULL in a column that is not nullable");
                self.head[(bit / 8) as usize] |= 1 << (bit % 8);
                match field.place {
                    FieldPosition::Fixed { .. } => Ok(()),
                    FieldPosition::Variable { .. } => self.end_variable(),
                }
            }
            FieldPosition::Fixed { offset, width } => {
                let bytes = &mut self.head[offset as usize..][..usize::from(width)];
                put_fixed(&field.kind, bytes, value);
                Ok(())
            }
            FieldPosition::Variable { .. } => {
                put_variable(&field.kind, &mut self.tail, value)?;
                self.end_variable()
            }
        }
    }

    /// Takes a variable column's bytes as another row has them.
    fn put_raw(&mut self, bytes: &[u8]) -> Result<(), RowTooLong> {
        self.tail.extend_from_slice(bytes);
        self.end_variable()
    }

    fn end_variable(&mut self) -> Result<(), RowTooLong> {
        if self.tail.len() > ROW_BYTES_MAX {
            return Err(RowTooLong);
        }
        self.ends.push(self.tail.len() as u32);
        Ok(())
    }

    fn finish(&mut self, layout: &RowLayout) -> Result<Row, RowTooLong> {
        if layout.variables > 0 {
            let wide = self.tail.len() > usize::from(u16::MAX);
            self.head[0] = self.head[0] & !WIDE | u8::from(wide);
            for end in &self.ends {
                if wide {
                    self.head.extend_from_slice(&end.to_le_bytes());
                } else {
                    self.head.extend_from_slice(&(*end as u16).to_le_bytes());
                }
            }
            self.head.extend_from_slice(&self.tail);
        }
        if self.head.len() > ROW_BYTES_MAX {
            return Err(RowTooLong);
        }
        Ok(Row(Arc::from(self.head.as_slice())))
    }
}

/// A row in the making: see [`RowBuilder::start`].
#[derive(Debug)]
pub struct RowWriter<'b> {
    builder: &'b mut RowBuilder,
    layout: &'b RowLayout,
    /// The columns still to come.
    fields: std::slice::Iter<'b, Field>,
}

impl RowWriter<'_> {
    /// Appends the next column's value.
    ///
    /// # Errors
    /// When the row would be too long.
    ///
    /// # Panics
    /// When there is no further column, or the value is not coerced to the column's type.
    #[inline]
    pub fn push(&mut self, value: ValueRef<'_>) -> Result<(), RowTooLong> {
        let field = self.fields.next().expect("a row has one value a column");
        self.builder.put(field, value)
    }

    /// The row, encoded.
    ///
    /// # Errors
    /// When the row would be too long.
    ///
    /// # Panics
    /// When columns are missing.
    pub fn finish(self) -> Result<Row, RowTooLong> {
        assert_eq!(self.fields.len(), 0, "a row has one value for each column");
        self.builder.finish(self.layout)
    }
}

/// A row under construction: see [`RowBuilder::start_like`].
#[derive(Debug)]
pub struct LikeWriter<'b> {
    builder: &'b mut RowBuilder,
    layout: &'b RowLayout,
}

impl LikeWriter<'_> {
    /// Sets an integer. False, and nothing is changed, when it needs more bytes than the column
    /// has.
    #[inline]
    #[must_use]
    pub fn set_int(&mut self, at: StoredInt, int: i64) -> bool {
        at.set(&mut self.builder.head, int)
    }

    /// Sets a column with a fixed place.
    ///
    /// # Panics
    /// When the value is not coerced to the column's type.
    #[inline]
    pub fn set(&mut self, column: ColumnIndex, value: ValueRef<'_>) {
        set_fixed(self.layout.field(column), &mut self.builder.head, value);
    }

    /// Appends the value of a column without a fixed place: the first such column's, then the
    /// next one's.
    ///
    /// # Errors
    /// When the row would be too long.
    ///
    /// # Panics
    /// When the value is not coerced to the column's type.
    #[inline]
    pub fn push(&mut self, column: ColumnIndex, value: ValueRef<'_>) -> Result<(), RowTooLong> {
        if let ValueRef::Text(text) = value {
            return self.builder.put_raw(text.as_bytes());
        }
        self.builder.put(self.layout.field(column), value)
    }

    /// Appends a text that another row has, as the value of the next column without a fixed place,
    /// which is a text too. False when it is NULL there.
    ///
    /// # Errors
    /// When the row would be too long.
    ///
    /// # Panics
    /// When the other row is not of this layout, or its column is not a text.
    #[inline]
    pub fn push_text_of(
        &mut self,
        row: &Row,
        layout: &RowLayout,
        column: ColumnIndex,
    ) -> Result<bool, RowTooLong> {
        let field = layout.field(column);
        assert!(matches!(field.kind, Kind::Text), "{column} is not a text");
        if row.field_is_null(field) {
            return Ok(false);
        }
        self.builder.put_raw(row.field_bytes(layout, field))?;
        Ok(true)
    }

    /// The row, encoded.
    ///
    /// # Errors
    /// When the row would be too long.
    ///
    /// # Panics
    /// When columns without a fixed place are missing.
    pub fn finish(self) -> Result<Row, RowTooLong> {
        assert_eq!(
            self.builder.ends.len(),
            self.layout.variables,
            "a row has one value for each column"
        );
        self.builder.finish(self.layout)
    }
}

/// The flag of a row with end offsets of 4 bytes.
const WIDE: u8 = 1;

impl Row {
    /// The row with these bytes, as [`Row::as_bytes`] gave them.
    pub fn from_bytes(bytes: &[u8]) -> Row {
        Row(Arc::from(bytes))
    }

    /// The encoded bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// One column's value.
    ///
    /// # Panics
    /// When the row was not encoded with this layout, or has no such column.
    #[inline]
    pub fn get(&self, layout: &RowLayout, column: ColumnIndex) -> Value {
        let field = layout.field(column);
        if self.field_is_null(field) {
            return Value::Null;
        }
        get_value(&field.kind, self.field_bytes(layout, field))
    }

    /// One column's value, borrowed from the row; what cannot be is put into `held`.
    ///
    /// # Panics
    /// As [`Row::get`].
    #[inline]
    pub fn get_ref<'v>(
        &'v self,
        layout: &RowLayout,
        column: ColumnIndex,
        held: &'v mut Value,
    ) -> ValueRef<'v> {
        let field = layout.field(column);
        if self.field_is_null(field) {
            return ValueRef::Null;
        }
        let bytes = self.field_bytes(layout, field);
        match &field.kind {
            Kind::Int => ValueRef::Int(get_int(bytes)),
            Kind::Scaled(scale) => ValueRef::Numeric(Decimal::from_scaled(get_int(bytes), *scale)),
            Kind::Text => ValueRef::Text(get_text(bytes)),
            Kind::Timestamp => ValueRef::Timestamp(get_int(bytes)),
            Kind::Bool => ValueRef::Bool(bytes[0] != 0),
            kind => {
                *held = get_value(kind, bytes);
                held.borrowed()
            }
        }
    }

    /// Every column's value, in order.
    pub fn values(&self, layout: &RowLayout) -> Vec<Value> {
        (0..layout.fields.len())
            .map(|c| self.get(layout, ColumnIndex(c as u16)))
            .collect()
    }

    /// Whether the column is NULL.
    #[inline]
    pub fn is_null(&self, layout: &RowLayout, column: ColumnIndex) -> bool {
        self.field_is_null(layout.field(column))
    }

    /// An integer column's value, or the scaled integer of a `numeric(p, s)` with p at most 18;
    /// `None` for NULL. Also the microseconds of a timestamp and the days of a date.
    ///
    /// # Panics
    /// When the column is none of these.
    #[inline]
    pub fn get_int(&self, layout: &RowLayout, column: ColumnIndex) -> Option<i64> {
        let field = layout.field(column);
        if self.field_is_null(field) {
            return None;
        }
        match field.kind {
            Kind::Int | Kind::Scaled(_) | Kind::Date | Kind::Timestamp => {
                Some(get_int(self.field_bytes(layout, field)))
            }
            _ => panic!("{column} is not stored as an integer"),
        }
    }

    /// An integer where it is known to lie; `None` for NULL.
    ///
    /// # Panics
    /// When the row is not of the layout that gave the position.
    #[inline]
    pub fn stored(&self, at: StoredInt) -> Option<i64> {
        at.get(&self.0)
    }

    /// The row with other integers in some columns; `None` when one needs more bytes than its
    /// column has.
    ///
    /// # Panics
    /// When the row is not of the layout that gave the positions.
    pub fn with_stored(&self, changes: &[(StoredInt, i64)]) -> Option<Row> {
        let mut bytes: Arc<[u8]> = Arc::from(&*self.0);
        let unique = Arc::get_mut(&mut bytes).expect("a new allocation has one owner");
        for (at, int) in changes {
            if !at.set(unique, *int) {
                return None;
            }
        }
        Some(Row(bytes))
    }

    /// A text column's value, borrowed; `None` for NULL.
    ///
    /// # Panics
    /// When the column is not a text.
    #[inline]
    pub fn text(&self, layout: &RowLayout, column: ColumnIndex) -> Option<&str> {
        let field = layout.field(column);
        assert!(matches!(field.kind, Kind::Text), "{column} is not a text");
        (!self.field_is_null(field)).then(|| get_text(self.field_bytes(layout, field)))
    }

    /// The encoded bytes of a column; two rows of one layout agree on a column that is not NULL in
    /// either exactly when these are equal (a `numeric` without bounds also by its scale).
    #[inline]
    pub fn column_bytes(&self, layout: &RowLayout, column: ColumnIndex) -> &[u8] {
        self.field_bytes(layout, layout.field(column))
    }

    /// The row with other values in some columns.
    ///
    /// # Errors
    /// When the row would be too long.
    ///
    /// # Panics
    /// When a value is not coerced to its column's type.
    pub fn with(
        &self,
        layout: &RowLayout,
        changes: &[(ColumnIndex, Value)],
    ) -> Result<Row, RowTooLong> {
        let in_place = |(column, value): &(ColumnIndex, Value)| {
            let field = layout.field(*column);
            matches!(field.place, FieldPosition::Fixed { .. }) && !value.is_null()
        };
        if !changes.iter().all(in_place) {
            return self.rebuilt(layout, changes);
        }
        let mut bytes: Arc<[u8]> = Arc::from(&*self.0);
        let unique = Arc::get_mut(&mut bytes).expect("a new allocation has one owner");
        for (column, value) in changes {
            put_in_place(layout.field(*column), unique, value);
        }
        Ok(Row(bytes))
    }

    fn rebuilt(
        &self,
        layout: &RowLayout,
        changes: &[(ColumnIndex, Value)],
    ) -> Result<Row, RowTooLong> {
        let mut builder = RowBuilder::default();
        builder.begin(layout);
        builder.head.copy_from_slice(&self.0[..layout.fixed_end]);
        for (column, field) in layout.fields.iter().enumerate() {
            let change = changes
                .iter()
                .rev()
                .find(|(changed, _)| changed.index() == column);
            match (change, field.place) {
                (Some((_, value)), _) => {
                    if let Some(bit) = field.null_bit {
                        builder.head[(bit / 8) as usize] &= !(1 << (bit % 8));
                    }
                    if let FieldPosition::Fixed { offset, width } = field.place {
                        builder.head[offset as usize..][..usize::from(width)].fill(0);
                    }
                    builder.put(field, value.borrowed())?;
                }
                (None, FieldPosition::Variable { .. }) => {
                    builder.put_raw(self.field_bytes(layout, field))?
                }
                (None, FieldPosition::Fixed { .. }) => {}
            }
        }
        builder.finish(layout)
    }

    /// Overwrites an integer column, in place if the row is not shared. False, and nothing is
    /// changed, when the integer does not fit the column.
    ///
    /// # Panics
    /// When the column is not an integer.
    #[must_use]
    pub fn patch_int(&mut self, layout: &RowLayout, column: ColumnIndex, int: i64) -> bool {
        let field = layout.field(column);
        let FieldPosition::Fixed { width, .. } = field.place else {
            panic!("{column} is not an integer");
        };
        assert!(
            matches!(field.kind, Kind::Int),
            "{column} is not an integer"
        );
        if width < 8 {
            let limit = 1i64 << (8 * width - 1);
            if !(-limit..limit).contains(&int) {
                return false;
            }
        }
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::from(&*self.0);
        }
        let unique = Arc::get_mut(&mut self.0).expect("a new allocation has one owner");
        put_in_place(field, unique, &Value::Int(int));
        true
    }

    #[inline]
    fn field_is_null(&self, field: &Field) -> bool {
        field
            .null_bit
            .is_some_and(|bit| self.0[(bit / 8) as usize] >> (bit % 8) & 1 == 1)
    }

    #[inline]
    fn field_bytes(&self, layout: &RowLayout, field: &Field) -> &[u8] {
        match field.place {
            FieldPosition::Fixed { offset, width } => {
                &self.0[offset as usize..][..usize::from(width)]
            }
            FieldPosition::Variable { number } => {
                let wide = self.0[0] & WIDE != 0;
                let ends = &self.0[layout.fixed_end..];
                let end = |number: usize| {
                    if wide {
                        let bytes = [0, 1, 2, 3].map(|byte| ends[number * 4 + byte]);
                        u32::from_le_bytes(bytes) as usize
                    } else {
                        usize::from(u16::from_le_bytes([ends[number * 2], ends[number * 2 + 1]]))
                    }
                };
                let number = number as usize;
                let begin = if number == 0 { 0 } else { end(number - 1) };
                let data = layout.variables * if wide { 4 } else { 2 };
                &ends[data + begin..data + end(number)]
            }
        }
    }
}

fn put_in_place(field: &Field, row: &mut [u8], value: &Value) {
    let FieldPosition::Fixed { offset, width } = field.place else {
        panic!("a variable column cannot be changed in place");
    };
    if let Some(bit) = field.null_bit {
        row[(bit / 8) as usize] &= !(1 << (bit % 8));
    }
    put_fixed(
        &field.kind,
        &mut row[offset as usize..][..usize::from(width)],
        value.borrowed(),
    );
}

/// Sets a column of a row's fixed part; a variable one can only be NULL there.
fn set_fixed(field: &Field, head: &mut [u8], value: ValueRef<'_>) {
    if value.is_null() {
        let bit = field
            .null_bit
            .expect("NULL in a column that is not nullable");
        head[(bit / 8) as usize] |= 1 << (bit % 8);
        return;
    }
    let FieldPosition::Fixed { offset, width } = field.place else {
        panic!("a column without a fixed place is pushed");
    };
    let bytes = &mut head[offset as usize..][..usize::from(width)];
    put_fixed(&field.kind, bytes, value);
}

fn put_fixed(kind: &Kind, bytes: &mut [u8], value: ValueRef<'_>) {
    match (kind, value) {
        (Kind::Int, ValueRef::Int(int)) => put_int(bytes, int),
        (Kind::Scaled(scale), ValueRef::Numeric(decimal)) => {
            let scaled = decimal
                .to_scaled(*scale)
                .expect("numeric coerced to its column's scale");
            put_int(bytes, scaled);
        }
        (Kind::Bool, ValueRef::Bool(bool)) => bytes[0] = u8::from(bool),
        (Kind::Timestamp, ValueRef::Timestamp(micros)) => put_int(bytes, micros),
        (_, ValueRef::Other(value)) => put_rare(kind, bytes, value),
        _ => mistyped(kind, value),
    }
}

fn put_rare(kind: &Kind, bytes: &mut [u8], value: &Value) {
    match (kind, value) {
        (Kind::Int, Value::Pending(_)) => put_int(bytes, 0),
        (Kind::Real, Value::Float(float)) => bytes.copy_from_slice(&(*float as f32).to_le_bytes()),
        (Kind::Double, Value::Float(float)) => bytes.copy_from_slice(&float.to_le_bytes()),
        (Kind::Date, Value::Date(days)) => put_int(bytes, i64::from(*days)),
        (Kind::Uuid, Value::Uuid(uuid)) => bytes.copy_from_slice(uuid),
        _ => mistyped(kind, value.borrowed()),
    }
}

#[cold]
fn mistyped(kind: &Kind, value: ValueRef<'_>) -> ! {
    panic!("{value:?} is not coerced to its column's type ({kind:?})")
}

#[inline]
fn put_int(bytes: &mut [u8], int: i64) {
    let width = bytes.len();
    let unused = 64 - 8 * width as u32;
    assert_eq!(
        int << unused >> unused,
        int,
        "integer coerced to its column's width"
    );
    // Of a constant length each, so that none is a call.
    match width {
        4 => bytes.copy_from_slice(&(int as i32).to_le_bytes()),
        8 => bytes.copy_from_slice(&int.to_le_bytes()),
        _ => bytes.copy_from_slice(&int.to_le_bytes()[..width]),
    }
}

#[inline]
fn get_int(bytes: &[u8]) -> i64 {
    match bytes.len() {
        8 => i64::from_le_bytes(bytes.try_into().expect("8 bytes")),
        4 => i64::from(i32::from_le_bytes(bytes.try_into().expect("4 bytes"))),
        _ => i64::from(i16::from_le_bytes(bytes.try_into().expect("2 bytes"))),
    }
}

fn get_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("a text column holds UTF-8")
}

fn put_variable(kind: &Kind, tail: &mut Vec<u8>, value: ValueRef<'_>) -> Result<(), RowTooLong> {
    match (kind, value) {
        (Kind::Text, ValueRef::Text(text)) => tail.extend_from_slice(text.as_bytes()),
        (Kind::Bytes, ValueRef::Other(Value::Bytes(bytes))) => tail.extend_from_slice(bytes),
        (Kind::Decimal, ValueRef::Numeric(decimal)) => put_decimal(tail, decimal),
        (Kind::Jsonb, ValueRef::Other(Value::Jsonb(json))) => {
            tail.extend_from_slice(json.as_str().as_bytes());
        }
        (Kind::Array(element), ValueRef::Other(Value::Array(values))) => {
            tail.extend_from_slice(&(values.len() as u32).to_le_bytes());
            for value in values.iter() {
                put_element(element, tail, value)?;
            }
        }
        _ => mistyped(kind, value),
    }
    if tail.len() > ROW_BYTES_MAX {
        Err(RowTooLong)
    } else {
        Ok(())
    }
}

/// The scale, then the mantissa in as few little-endian bytes as keep its sign.
fn put_decimal(tail: &mut Vec<u8>, decimal: Decimal) {
    tail.extend_from_slice(&decimal.scale().to_le_bytes());
    let mantissa = decimal.mantissa();
    let bits = 128 - mantissa.unsigned_abs().leading_zeros() + 1;
    tail.extend_from_slice(&mantissa.to_le_bytes()[..bits.div_ceil(8) as usize]);
}

fn get_decimal(bytes: &[u8]) -> Decimal {
    let (scale, mantissa) = bytes.split_at(2);
    let fill = if mantissa[mantissa.len() - 1] >> 7 == 1 {
        0xFF
    } else {
        0
    };
    let mut wide = [fill; 16];
    wide[..mantissa.len()].copy_from_slice(mantissa);
    Decimal::from_parts(
        i128::from_le_bytes(wide),
        u16::from_le_bytes([scale[0], scale[1]]),
    )
    .expect("a stored numeric is in range")
}

const ELEMENT_NULL: u32 = u32::MAX;

/// An array's element: its length (or [`ELEMENT_NULL`]), then its bytes.
fn put_element(kind: &Kind, tail: &mut Vec<u8>, value: &Value) -> Result<(), RowTooLong> {
    if value.is_null() {
        tail.extend_from_slice(&ELEMENT_NULL.to_le_bytes());
        return Ok(());
    }
    let at = tail.len();
    tail.extend_from_slice(&[0; 4]);
    let fixed = match kind {
        Kind::Bool => 1,
        Kind::Int | Kind::Scaled(_) | Kind::Double | Kind::Timestamp => 8,
        Kind::Real | Kind::Date => 4,
        Kind::Uuid => 16,
        _ => 0,
    };
    if fixed > 0 {
        let mut bytes: SmallVec<[u8; 16]> = SmallVec::from_elem(0, fixed);
        put_fixed(kind, &mut bytes, value.borrowed());
        tail.extend_from_slice(&bytes);
    } else {
        put_variable(kind, tail, value.borrowed())?;
    }
    let len = (tail.len() - at - 4) as u32;
    tail[at..at + 4].copy_from_slice(&len.to_le_bytes());
    Ok(())
}

fn get_array(element: &Kind, bytes: &[u8]) -> Value {
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
    let mut at = 4;
    let mut next = || {
        let len = word(at);
        at += 4;
        if len == ELEMENT_NULL {
            return Value::Null;
        }
        let value = get_value(element, &bytes[at..at + len as usize]);
        at += len as usize;
        value
    };
    Value::Array((0..word(0)).map(|_| next()).collect())
}

#[inline]
fn get_value(kind: &Kind, bytes: &[u8]) -> Value {
    match kind {
        Kind::Bool => Value::Bool(bytes[0] != 0),
        Kind::Int => Value::Int(get_int(bytes)),
        Kind::Scaled(scale) => Value::Numeric(Decimal::from_scaled(get_int(bytes), *scale)),
        Kind::Real => Value::Float(f64::from(f32::from_le_bytes(
            bytes.try_into().expect("4 bytes"),
        ))),
        Kind::Double => Value::Float(f64::from_le_bytes(bytes.try_into().expect("8 bytes"))),
        Kind::Date => Value::Date(get_int(bytes) as i32),
        Kind::Timestamp => Value::Timestamp(get_int(bytes)),
        Kind::Uuid => Value::Uuid(bytes.try_into().expect("16 bytes")),
        Kind::Text => Value::text(get_text(bytes)),
        Kind::Bytes => Value::Bytes(bytes.into()),
        Kind::Decimal => Value::Numeric(get_decimal(bytes)),
        Kind::Jsonb => Value::Jsonb(Jsonb::of_normal(get_text(bytes))),
        Kind::Array(element) => get_array(element, bytes),
    }
}
