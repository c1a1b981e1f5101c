//! Routing of items to partitions.
//!
//! A table is placed by columns of its key ([`Placement`]). The values of those columns determine the
//! partition of a row, of a key and of a range of keys. A single integer column is taken modulo the
//! number of partitions, so that consecutive ids spread evenly and people can see where a row is; any
//! other value is hashed.

use anabranch_types::random::mix;
use anabranch_types::{
    ColumnIndex, DataType, IndexId, Key, KeyRange, PartitionId, Placement, Read, Row, Schema,
    TableId, Value, key::KeyReader,
};

/// The partitions of a read or an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This partition.
    One(PartitionId),
    /// Any partition: each has all of it.
    Anywhere,
    /// All partitions: each has a part of it.
    Everywhere,
}

/// Routes items, for one schema, its placements and a number of partitions.
#[derive(Clone, Debug)]
pub struct Router {
    partitions: u16,
    tables: Vec<TableRoute>,
}

#[derive(Clone, Debug)]
struct TableRoute {
    placement: Placement,
    /// How to find the placement's columns in the primary key (`None` where it lacks some), then
    /// in each secondary index's key.
    keys: Vec<Option<KeyRoute>>,
    /// Types and nullability of the placement's columns, to encode them from a row.
    columns: Vec<(ColumnIndex, DataType, bool)>,
    /// The same without the columns.
    placing_types: Vec<(DataType, bool)>,
    layout: anabranch_types::RowLayout,
}

/// How to find the placement's columns in an encoded key.
#[derive(Clone, Debug)]
enum KeyRoute {
    /// The placement is one integer column, the first of the key.
    LeadingInteger(DataType),
    /// The general case: the types of the key's columns up to the last one needed, and which of
    /// them make the placement, in its order.
    Columns {
        types: Vec<(DataType, bool)>,
        positions: Vec<usize>,
    },
}

impl Router {
    /// A router over `partitions` partitions.
    ///
    /// # Panics
    /// When `partitions` is 0 or there is not one placement for each table.
    pub fn new(schema: &Schema, placements: &[Placement], partitions: u16) -> Router {
        assert!(partitions > 0, "a cluster has at least one partition");
        assert_eq!(
            schema.tables.len(),
            placements.len(),
            "one placement a table"
        );
        let tables = schema
            .tables
            .iter()
            .zip(placements)
            .map(|(table, placement)| {
                let placed_by = match placement {
                    Placement::Columns(columns) => columns.as_slice(),
                    Placement::Replicated | Placement::Whole => &[],
                };
                let typed = |column: &ColumnIndex| {
                    let column = &table.columns[column.index()];
                    (column.data_type.clone(), column.nullable)
                };
                let route = |index: Option<IndexId>| {
                    let key: Vec<_> = table.key_columns(index).to_vec();
                    let positions: Option<Vec<usize>> = placed_by
                        .iter()
                        .map(|c| key.iter().position(|k| k == c))
                        .collect();
                    let positions = positions?;
                    let needed = positions.iter().max()? + 1;
                    let types: Vec<_> = key[..needed].iter().map(typed).collect();
                    Some(match (&types[..], &positions[..]) {
                        ([(first, false)], [0]) if first.is_integer() => {
                            KeyRoute::LeadingInteger(first.clone())
                        }
                        _ => KeyRoute::Columns { types, positions },
                    })
                };
                let mut keys = vec![route(None)];
                keys.extend(table.indexes.iter().map(|index| route(Some(index.id))));
                TableRoute {
                    placement: placement.clone(),
                    keys,
                    columns: placed_by
                        .iter()
                        .map(|c| {
                            let (data_type, nullable) = typed(c);
                            (*c, data_type, nullable)
                        })
                        .collect(),
                    placing_types: placed_by.iter().map(typed).collect(),
                    layout: table.layout.clone(),
                }
            })
            .collect();
        Router { partitions, tables }
    }

    /// The number of partitions.
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// The table's placement.
    pub fn placement(&self, table: TableId) -> &Placement {
        &self.tables[table.index()].placement
    }

    /// Whether the primary key of the table's rows, which may be hidden, does not tell their partition.
    pub fn is_apart(&self, table: TableId) -> bool {
        let route = &self.tables[table.index()];
        let by_columns = matches!(route.placement, Placement::Columns(_));
        by_columns && self.partitions > 1 && route.keys[0].is_none()
    }

    /// The one column that places the rows of a table where [their keys do not](Router::is_apart).
    pub fn placing_column(&self, table: TableId) -> Option<ColumnIndex> {
        match &self.tables[table.index()].columns[..] {
            [(column, ..)] if self.is_apart(table) => Some(*column),
            _ => None,
        }
    }

    /// Whether the value of this column determines the partition of a row.
    pub fn places(&self, table: TableId, column: ColumnIndex) -> bool {
        let mut columns = self.tables[table.index()].columns.iter();
        self.partitions > 1 && columns.any(|(placing, ..)| *placing == column)
    }

    /// The partition of the rows with this value of the one placing column, encoded as in a key.
    pub fn placed_key(&self, table: TableId, value: &Key) -> Target {
        let route = &self.tables[table.index()];
        if let Some(target) = self.whole(route) {
            return target;
        }
        let found = match &route.placing_types[..] {
            types @ [_] => self.of_columns(value, types, &[0]),
            _ => None,
        };
        found.map_or(Target::Everywhere, Target::One)
    }

    /// The partitions of a read.
    pub fn read(&self, read: &Read) -> Target {
        match read {
            Read::Point { table, key } => self.key(*table, key),
            Read::Range {
                table,
                index,
                range,
                ..
            } => self.range(*table, *index, range),
        }
    }

    /// The partition of the row with this primary key; [`Target::Everywhere`] when the key does not
    /// determine it, as a hidden key does not.
    pub fn key(&self, table: TableId, key: &Key) -> Target {
        self.encoded(table, None, key)
    }

    fn range(&self, table: TableId, index: Option<IndexId>, range: &KeyRange) -> Target {
        self.encoded(table, index, &range.prefix)
    }

    /// The partition of a whole table, if all its rows are together.
    #[inline]
    fn whole(&self, route: &TableRoute) -> Option<Target> {
        match route.placement {
            Placement::Replicated => Some(Target::Anywhere),
            Placement::Whole => Some(Target::One(PartitionId(0))),
            Placement::Columns(_) => (self.partitions == 1).then_some(Target::One(PartitionId(0))),
        }
    }

    fn encoded(&self, table: TableId, index: Option<IndexId>, key: &Key) -> Target {
        let route = &self.tables[table.index()];
        if let Some(target) = self.whole(route) {
            return target;
        }
        let slot = index.map_or(0, |index| index.index() + 1);
        let found = match &route.keys[slot] {
            None => None,
            Some(KeyRoute::LeadingInteger(data_type)) => KeyReader::new(key.as_bytes())
                .read_int(data_type)
                .map(|int| self.of_integer(int)),
            Some(KeyRoute::Columns { types, positions }) => self.of_columns(key, types, positions),
        };
        found.map_or(Target::Everywhere, Target::One)
    }

    fn of_columns(
        &self,
        key: &Key,
        types: &[(DataType, bool)],
        positions: &[usize],
    ) -> Option<PartitionId> {
        let mut reader = KeyReader::new(key.as_bytes());
        let mut bounds = Vec::with_capacity(types.len());
        for (data_type, nullable) in types {
            let start = reader.position();
            reader.skip(data_type, *nullable)?;
            bounds.push((start, reader.position()));
        }
        if let [position] = positions
            && types[*position].0.is_integer()
            && !types[*position].1
        {
            let (start, _) = bounds[*position];
            let int = KeyReader::new(&key.as_bytes()[start..]).read_int(&types[*position].0)?;
            return Some(self.of_integer(int));
        }
        let mut hash = Fnv::new();
        for position in positions {
            let (start, end) = bounds[*position];
            hash.write(&key.as_bytes()[start..end]);
        }
        Some(self.of_hash(hash))
    }

    /// The partition of a row by the values of its placement columns, in the placement's order; equal to
    /// [`Router::row`] of the whole row. [`Target::Anywhere`] when no row can have these values.
    ///
    /// # Panics
    /// When there is not one value for each placement column, or a value has another type.
    pub fn placed(&self, table: TableId, values: &[Value]) -> Target {
        let route = &self.tables[table.index()];
        if let Some(target) = self.whole(route) {
            return target;
        }
        assert_eq!(values.len(), route.columns.len(), "one value a column");
        if let ([(_, data_type, false)], [Value::Int(int)]) = (&route.columns[..], values)
            && data_type.is_integer()
        {
            return Target::One(self.of_integer(*int));
        }
        let mut hash = Fnv::new();
        for ((_, data_type, nullable), value) in route.columns.iter().zip(values) {
            let mut encoded = Key::empty();
            let no_row = value.is_null() && !nullable;
            if no_row || encoded.try_push_value(data_type, *nullable, value).is_err() {
                return Target::Anywhere;
            }
            hash.write(encoded.as_bytes());
        }
        Target::One(self.of_hash(hash))
    }

    /// The partition of a row, by its values.
    pub fn row(&self, table: TableId, row: &Row) -> Target {
        let route = &self.tables[table.index()];
        if let Some(target) = self.whole(route) {
            return target;
        }
        if let [(column, data_type, false)] = &route.columns[..]
            && data_type.is_integer()
            && let Some(int) = row.get_int(&route.layout, *column)
        {
            return Target::One(self.of_integer(int));
        }
        let mut hash = Fnv::new();
        for (column, data_type, nullable) in &route.columns {
            let mut encoded = Key::empty();
            encoded.push_value(data_type, *nullable, &row.get(&route.layout, *column));
            hash.write(encoded.as_bytes());
        }
        Target::One(self.of_hash(hash))
    }

    fn of_integer(&self, int: i64) -> PartitionId {
        PartitionId(int.rem_euclid(i64::from(self.partitions)) as u16)
    }

    fn of_hash(&self, hash: Fnv) -> PartitionId {
        PartitionId((mix(hash.0) % u64::from(self.partitions)) as u16)
    }
}

/// FNV-1a, which is stable across versions and machines, as a placement has to be.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;
    use std::sync::Arc;

    use anabranch_types::{ColumnSchema, IndexSchema, RowLayout, TableSchema};

    use super::*;

    /// `t(name text, w int not null, d int, PRIMARY KEY (key))` with an index on `index`.
    fn table(key: &[u16], index: &[u16]) -> TableSchema {
        let columns = vec![
            ("name", DataType::Text, false),
            ("w", DataType::Int4, false),
            ("d", DataType::Int4, true),
        ];
        let columns: Vec<ColumnSchema> = columns
            .into_iter()
            .map(|(name, data_type, nullable)| ColumnSchema {
                name: name.to_owned(),
                data_type,
                nullable,
                is_hidden: false,
            })
            .collect();
        let layout = RowLayout::new(columns.iter().map(|c| (&c.data_type, c.nullable)));
        TableSchema {
            id: TableId(0),
            name: "t".to_owned(),
            columns,
            primary_key: key.iter().copied().map(ColumnIndex).collect(),
            indexes: vec![IndexSchema {
                id: IndexId(0),
                name: "t_index".to_owned(),
                columns: index.iter().copied().map(ColumnIndex).collect(),
                unique: false,
            }],
            layout,
        }
    }

    fn router(table: &TableSchema, by: &[u16], partitions: u16) -> Router {
        let schema = Schema {
            tables: vec![Arc::new(table.clone())],
        };
        let columns = by.iter().copied().map(ColumnIndex).collect();
        Router::new(&schema, &[Placement::Columns(columns)], partitions)
    }

    fn key(table: &TableSchema, columns: &[u16], values: &[Value]) -> Key {
        let mut key = Key::empty();
        for (column, value) in columns.iter().zip(values) {
            let declared = &table.columns[usize::from(*column)];
            key.push_value(&declared.data_type, declared.nullable, value);
        }
        key
    }

    fn prefix_range(prefix: Key) -> KeyRange {
        KeyRange {
            prefix,
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
        }
    }

    #[test]
    fn keys_rows_and_ranges_of_the_same_values_are_at_one_place() {
        // By one integer that leads the key, one that does not, and by text and integer together.
        for (columns, by) in [
            (&[1u16, 2][..], &[1u16][..]),
            (&[0, 1], &[1]),
            (&[0, 1], &[0, 1]),
            (&[0, 2], &[2]),
        ] {
            let table = table(columns, columns);
            let router = router(&table, by, 5);
            let mut seen = std::collections::BTreeSet::new();
            for number in -40i64..40 {
                let row = [
                    Value::text(format!("name {number}")),
                    Value::Int(number),
                    Value::Int(number * 7),
                ];
                let of_key: Vec<Value> = columns
                    .iter()
                    .map(|c| row[usize::from(*c)].clone())
                    .collect();
                let key = key(&table, columns, &of_key);
                let encoded = table.layout.encode(&row).expect("short");
                let place = router.row(TableId(0), &encoded);
                let read = Read::Point {
                    table: TableId(0),
                    key: key.clone(),
                };
                assert_eq!(router.read(&read), place, "{by:?} of {columns:?}, {number}");
                let placing: Vec<Value> = by.iter().map(|c| row[usize::from(*c)].clone()).collect();
                assert_eq!(router.placed(TableId(0), &placing), place);
                let range = prefix_range(key);
                assert_eq!(router.range(TableId(0), Some(IndexId(0)), &range), place);
                let Target::One(partition) = place else {
                    panic!("{place:?}")
                };
                seen.insert(partition);
            }
            assert_eq!(seen.len(), 5, "every partition gets a share: {by:?}");
        }
    }

    #[test]
    fn consecutive_integers_go_around_the_partitions() {
        let table = table(&[1], &[1]);
        let router = router(&table, &[1], 3);
        let places: Vec<Target> = (1..=4)
            .map(|w| router.key(TableId(0), &key(&table, &[1], &[Value::Int(w)])))
            .collect();
        let one = |n| Target::One(PartitionId(n));
        assert_eq!(places, [one(1), one(2), one(0), one(1)]);
    }

    #[test]
    fn a_range_that_leaves_the_placement_open_is_everywhere() {
        let table = table(&[0, 1], &[2, 1]);
        let router = router(&table, &[1], 4);
        let by_name = key(&table, &[0], &[Value::text("x")]);
        assert_eq!(
            router.range(TableId(0), None, &prefix_range(by_name)),
            Target::Everywhere
        );
        let by_d = key(&table, &[2], &[Value::Int(1)]);
        let range = prefix_range(by_d);
        assert_eq!(
            router.range(TableId(0), Some(IndexId(0)), &range),
            Target::Everywhere
        );
    }

    #[test]
    fn a_table_on_every_partition_is_read_anywhere() {
        let table = table(&[1], &[1]);
        let schema = Schema {
            tables: vec![Arc::new(table.clone())],
        };
        let router = Router::new(&schema, &[Placement::Replicated], 2);
        assert_eq!(
            router.key(TableId(0), &key(&table, &[1], &[Value::Int(1)])),
            Target::Anywhere
        );
        let router = Router::new(&schema, &[Placement::Whole], 2);
        let place = router.key(TableId(0), &key(&table, &[1], &[Value::Int(1)]));
        assert_eq!(place, Target::One(PartitionId(0)));
    }
}
