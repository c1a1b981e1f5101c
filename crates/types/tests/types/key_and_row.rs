//! Keys order as their values do; rows give back what was put in.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use anabranch_types::{
    ColumnIndex, DataType, Decimal, EnumType, Key, KeyRange, KeyReader, NumericBounds, RowLayout,
    Value,
};
use proptest::prelude::*;

fn numeric(precision: u16, scale: u16) -> DataType {
    DataType::Numeric(Some(NumericBounds { precision, scale }))
}

fn mood() -> DataType {
    DataType::Enum(Arc::new(EnumType {
        oid: 1,
        name: "mood".into(),
        written: "mood".into(),
        labels: ["sad", "ok", "happy"].map(str::to_owned).to_vec(),
    }))
}

/// A type together with values of it.
fn typed_values(count: usize) -> impl Strategy<Value = (DataType, Vec<Value>)> {
    let of = |data_type: DataType, value: BoxedStrategy<Value>| {
        prop::collection::vec(value, count).prop_map(move |values| (data_type.clone(), values))
    };
    let scaled = |precision: u16, scale: u16| {
        let limit = 10i64.pow(u32::from(precision)) - 1;
        (-limit..=limit)
            .prop_map(move |n| Value::Numeric(Decimal::from_scaled(n, scale)))
            .boxed()
    };
    prop_oneof![
        of(DataType::Bool, any::<bool>().prop_map(Value::Bool).boxed()),
        of(
            DataType::Int2,
            any::<i16>().prop_map(|n| Value::Int(n.into())).boxed()
        ),
        of(
            DataType::Int4,
            any::<i32>().prop_map(|n| Value::Int(n.into())).boxed()
        ),
        of(DataType::Int8, any::<i64>().prop_map(Value::Int).boxed()),
        of(numeric(4, 4), scaled(4, 4)),
        of(numeric(12, 2), scaled(12, 2)),
        of(
            DataType::Numeric(None),
            (-1_000_000_000i128..1_000_000_000, 0u16..30)
                .prop_map(|(m, s)| Value::Numeric(Decimal::from_parts(m, s).unwrap()))
                .boxed()
        ),
        of(
            DataType::Real,
            any::<f32>().prop_map(|f| Value::Float(f.into())).boxed()
        ),
        of(
            DataType::Double,
            any::<f64>().prop_map(Value::Float).boxed()
        ),
        of(
            DataType::Text,
            "[\u{0}a-c\u{ff}\u{20ac}]{0,6}"
                .prop_map(Value::text)
                .boxed()
        ),
        // Keys have the order of the texts, which is not that of the labels.
        of(
            mood(),
            prop::sample::select(vec!["sad", "ok", "happy"])
                .prop_map(Value::text)
                .boxed()
        ),
        of(
            DataType::Bytea,
            prop::collection::vec(
                prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()],
                0..6
            )
            .prop_map(|b| Value::Bytes(b.into()))
            .boxed()
        ),
        of(
            DataType::Uuid,
            any::<[u8; 16]>().prop_map(Value::Uuid).boxed()
        ),
        of(
            DataType::Timestamp,
            any::<i64>().prop_map(Value::Timestamp).boxed()
        ),
        of(DataType::Date, any::<i32>().prop_map(Value::Date).boxed()),
    ]
}

fn nullable(values: Vec<Value>, nulls: &[bool]) -> Vec<Value> {
    values
        .into_iter()
        .zip(nulls)
        .map(|(v, null)| if *null { Value::Null } else { v })
        .collect()
}

proptest! {
    #[test]
    fn keys_order_as_their_values(
        (first_type, first) in typed_values(2),
        (second_type, second) in typed_values(2),
        nulls in any::<[bool; 2]>(),
    ) {
        let first = nullable(first, &nulls);
        let key = |i: usize| {
            let mut key = Key::empty();
            key.push_value(&first_type, true, &first[i]);
            key.push_value(&second_type, false, &second[i]);
            key
        };
        let expected = first[0].total_cmp(&first[1]).then(second[0].total_cmp(&second[1]));
        prop_assert_eq!(key(0).cmp(&key(1)), expected);

        let bytes = key(0);
        let mut reader = KeyReader::new(bytes.as_bytes());
        prop_assert_eq!(reader.read(&first_type, true).unwrap().total_cmp(&first[0]), Ordering::Equal);
        prop_assert_eq!(reader.read(&second_type, false).unwrap().total_cmp(&second[0]), Ordering::Equal);
        prop_assert_eq!(reader.position(), bytes.len());
        let mut skipper = KeyReader::new(bytes.as_bytes());
        skipper.skip(&first_type, true).unwrap();
        skipper.skip(&second_type, false).unwrap();
        prop_assert_eq!(skipper.position(), bytes.len());
    }

    #[test]
    fn rows_keep_their_values(
        columns in prop::collection::vec((typed_values(2), any::<bool>(), any::<[bool; 2]>()), 0..12),
        long in prop_oneof![9 => Just(0usize), 1 => Just(70_000)],
        changed in any::<u16>(),
    ) {
        let layout = RowLayout::new(columns.iter().map(|((t, _), nullable, _)| (t, *nullable)));
        let versions: [Vec<Value>; 2] = [0, 1].map(|version| {
            columns.iter().map(|((_, values), nullable, nulls)| match &values[version] {
                _ if *nullable && nulls[version] => Value::Null,
                Value::Text(text) if long > 0 => Value::text(format!("{text}{}", "x".repeat(long))),
                value => value.clone(),
            }).collect()
        });
        let row = layout.encode(&versions[0]).unwrap();
        let mut expected = versions[0].clone();
        same(&row.values(&layout), &expected)?;
        let mut changes = Vec::new();
        for column in 0..columns.len() {
            if changed >> column & 1 == 1 {
                expected[column] = versions[1][column].clone();
                changes.push((ColumnIndex(column as u16), versions[1][column].clone()));
            }
        }
        let with = row.with(&layout, &changes).unwrap();
        same(&with.values(&layout), &expected)?;
        same(&row.values(&layout), &versions[0])?;
        prop_assert_eq!(with, layout.encode(&expected).unwrap());
    }

    #[test]
    fn ranges_agree_with_their_seek_bounds(
        prefix in small(2), lower in small(2), upper in small(2),
        bounds in any::<(u8, u8)>(), keys in prop::collection::vec(small(4), 20),
    ) {
        let bound = |kind: u8, key: Key| match kind % 3 {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        let range = KeyRange { prefix, lower: bound(bounds.0, lower), upper: bound(bounds.1, upper) };
        let constant = range.constant_prefix();
        for key in keys {
            let within = range.start().is_some_and(|start| key >= start)
                && range.end().is_none_or(|end| key < end);
            prop_assert_eq!(range.contains(&key), within, "{:?} {:?}", &range, &key);
            prop_assert!(!within || key.starts_with(&constant));
        }
    }
}

fn small(len: usize) -> impl Strategy<Value = Key> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(254), Just(255)];
    prop::collection::vec(byte, 0..=len).prop_map(|bytes| Key::from_bytes(&bytes))
}

fn same(left: &[Value], right: &[Value]) -> Result<(), TestCaseError> {
    prop_assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        prop_assert_eq!(
            left.total_cmp(right),
            Ordering::Equal,
            "{:?} {:?}",
            left,
            right
        );
    }
    Ok(())
}

#[test]
fn an_order_line_key_is_inline() {
    assert_eq!(size_of::<Key>(), 24);
    let mut key = Key::empty();
    for part in [1, 2, 3000, 4] {
        key.push_value(&DataType::Int4, false, &Value::Int(part));
    }
    assert_eq!(key.len(), 16);
    key.patch_int(8, 4, 3001).unwrap();
    let mut reader = KeyReader::new(key.as_bytes());
    let parts = [0; 4].map(|_| reader.read_int(&DataType::Int4).unwrap());
    assert_eq!(parts, [1, 2, 3001, 4]);
    assert!(key.patch_int(8, 4, 1 << 31).is_err());
}

#[test]
fn rows_are_patched_in_place() {
    let layout = RowLayout::new([(&DataType::Int4, true), (&DataType::Text, false)]);
    let mut row = layout.encode(&[Value::Int(7), Value::text("x")]).unwrap();
    let shared = row.clone();
    assert!(row.patch_int(&layout, ColumnIndex(0), -9));
    assert!(!row.patch_int(&layout, ColumnIndex(0), 1 << 31));
    assert_eq!(row.get_int(&layout, ColumnIndex(0)), Some(-9));
    assert_eq!(shared.get_int(&layout, ColumnIndex(0)), Some(7));
    assert_eq!(row.text(&layout, ColumnIndex(1)), Some("x"));
}

#[test]
fn a_constant_outside_the_column_has_no_key() {
    let mut key = Key::empty();
    let tenth = Value::Numeric(Decimal::parse("0.12345").unwrap());
    assert!(key.try_push_value(&numeric(4, 4), true, &tenth).is_err());
    assert!(
        key.try_push_value(&DataType::Int2, true, &Value::Int(40_000))
            .is_err()
    );
    assert!(key.is_empty());
}
