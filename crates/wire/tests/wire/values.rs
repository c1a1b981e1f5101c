//! Values in text and binary form, as PostgreSQL 15 writes and reads them.
//!
//! `values.tsv` has its answers in the time zone Europe/Berlin: type, text read, text written, binary form; or type,
//! text read, `error` and the SQLSTATE.

use anabranch_types::json::write_string;
use anabranch_types::{DataType, EnumType, Jsonb, NumericBounds, SplitMix64, TimeZone, Value};
use anabranch_wire::format::{
    Format, decode, decode_binary, decode_text, encode, encode_binary, encode_text, oid_of,
    type_length_of,
};
use bytes::BytesMut;
use std::sync::Arc;

const SCALARS: [DataType; 18] = [
    DataType::Bool,
    DataType::Int2,
    DataType::Int4,
    DataType::Int8,
    DataType::Numeric(None),
    DataType::Real,
    DataType::Double,
    DataType::Text,
    DataType::Varchar(None),
    DataType::Varchar(Some(3)),
    DataType::Char(5),
    DataType::Bytea,
    DataType::Uuid,
    DataType::Timestamp,
    DataType::TimestampTz,
    DataType::Date,
    DataType::Json,
    DataType::Jsonb,
];

/// The type that PostgreSQL names so.
fn type_named(name: &str) -> DataType {
    if let Some(element) = name.strip_suffix("[]") {
        return DataType::Array(Box::new(type_named(element)));
    }
    let bounded = [
        DataType::Char(3),
        DataType::Numeric(Some(NumericBounds {
            precision: 10,
            scale: 2,
        })),
        DataType::Numeric(Some(NumericBounds {
            precision: 4,
            scale: 4,
        })),
    ];
    let mut all = SCALARS.iter().chain(&bounded);
    let found = all.find(|data_type| data_type.to_string() == name);
    found.unwrap_or_else(|| panic!("type {name}")).clone()
}

fn berlin() -> TimeZone {
    TimeZone::named("Europe/Berlin").unwrap()
}

fn text(value: &Value, data_type: &DataType) -> String {
    let mut out = BytesMut::new();
    encode_text(value, data_type, &berlin(), &mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

fn binary(value: &Value, data_type: &DataType) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode_binary(value, data_type, &mut out).unwrap();
    out.to_vec()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap();
    (0..hexadecimal.len()).step_by(2).map(digit).collect()
}

#[test]
fn forms_are_those_of_postgresql() {
    let zone = berlin();
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in include_str!("values.tsv").lines() {
        rows += 1;
        let fields: Vec<&str> = line.split('\t').collect();
        let data_type = type_named(fields[0]);
        let read = decode_text(fields[1].as_bytes(), &data_type, &zone);
        if let Some(code) = fields[2].strip_prefix("error ") {
            match read {
                Err(error) if error.code == code => {}
                other => wrong.push(format!("{line}\n  here: {other:?}")),
            }
            continue;
        }
        let Ok(value) = read else {
            wrong.push(format!("{line}\n  here: {read:?}"));
            continue;
        };
        let forms = (text(&value, &data_type), binary(&value, &data_type));
        if (&*forms.0, &*hexadecimal(&forms.1)) != (fields[2], fields[3]) {
            let form = hexadecimal(&forms.1);
            wrong.push(format!("{line}\n  here: {}\t{form}", forms.0));
            continue;
        }
        // Both forms say the same value. NaN differs from itself, so the forms are compared.
        for again in [
            decode_text(forms.0.as_bytes(), &data_type, &zone),
            decode_binary(&bytes_of(fields[3]), &data_type),
        ] {
            match again {
                Ok(again) if binary(&again, &data_type) == forms.1 => {}
                other => wrong.push(format!("{line}\n  read again: {other:?}")),
            }
        }
    }
    assert!(rows > 250, "only {rows} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What PostgreSQL takes and this does not: each is refused with a reason.
#[test]
fn values_that_no_type_holds_are_refused() {
    for (data_type, text, code) in [
        (DataType::Numeric(None), "NaN", "0A000"),
        (DataType::Numeric(None), "-Infinity", "0A000"),
        (
            DataType::Numeric(None),
            "100000000000000000000000000000000000000",
            "22003",
        ),
        (DataType::Date, "infinity", "0A000"),
        (DataType::Timestamp, "-infinity", "0A000"),
        (DataType::TimestampTz, "now", "0A000"),
        (
            DataType::Array(Box::new(DataType::Int4)),
            "{{1,2},{3,4}}",
            "0A000",
        ),
        (
            DataType::Array(Box::new(DataType::Int4)),
            "[0:1]={1,2}",
            "0A000",
        ),
    ] {
        let error = decode_text(text.as_bytes(), &data_type, &berlin()).expect_err(text);
        assert_eq!(error.code, code, "{text}: {}", error.message);
    }
    let integers = DataType::Array(Box::new(DataType::Int4));
    for (data_type, form, code, reason) in [
        (
            DataType::Numeric(None),
            "00000000c0000000",
            "0A000",
            "NaN and infinity",
        ),
        (
            DataType::Numeric(None),
            "00000000d0000000",
            "0A000",
            "NaN and infinity",
        ),
        (
            DataType::Numeric(None),
            "00000000f0000000",
            "0A000",
            "NaN and infinity",
        ),
        (
            DataType::Numeric(None),
            "0000000080000000",
            "22P03",
            "invalid sign",
        ),
        (
            DataType::Numeric(None),
            "0001000000004000ffff",
            "22P03",
            "invalid scale",
        ),
        (
            DataType::Numeric(None),
            "00010000000000002710",
            "22P03",
            "invalid digit",
        ),
        (
            DataType::Numeric(None),
            "ffff000000000000",
            "22P03",
            "invalid length",
        ),
        // 10^38, and a digit that no scale reaches.
        (
            DataType::Numeric(None),
            "00010009000000000064",
            "22003",
            "38 digits",
        ),
        (
            DataType::Numeric(None),
            "00017fff000000000001",
            "22003",
            "38 digits",
        ),
        (DataType::Int4, "000000", "08P01", "insufficient data"),
        (DataType::Int4, "0000000000", "22P03", "too many"),
        (DataType::Bool, "", "08P01", "insufficient data"),
        (DataType::Uuid, "00", "08P01", "insufficient data"),
        (DataType::Jsonb, "", "08P01", "insufficient data"),
        (DataType::Jsonb, "027b7d", "XX000", "version number 2"),
        (DataType::Jsonb, "017b", "22P02", "type json"),
        (DataType::Json, "7b", "22P02", "type json"),
        (DataType::Timestamp, "7fffffffffffffff", "0A000", "infinite"),
        (
            DataType::Timestamp,
            "7ffffffffffffffe",
            "22008",
            "out of range",
        ),
        (DataType::Date, "80000000", "0A000", "infinite"),
        (DataType::Date, "80000001", "22008", "out of range"),
        (DataType::Text, "610062", "22021", "0x00"),
        (DataType::Text, "61ff", "22021", "0xff"),
        (DataType::Text, "61e28261", "22021", "0xe2 0x82 0x61"),
        (DataType::Varchar(Some(3)), "61626364", "22001", "too long"),
        // Arrays: two dimensions, a lower bound of 0, seven dimensions, flags, another type, more than there is.
        (
            integers.clone(),
            "00000002000000000000001700000001000000010000000100000001",
            "0A000",
            "several dimensions",
        ),
        (
            integers.clone(),
            "000000010000000000000017000000010000000000000004000000ff",
            "0A000",
            "must be 1",
        ),
        (
            integers.clone(),
            "000000070000000000000017",
            "54000",
            "exceeds the maximum",
        ),
        (
            integers.clone(),
            "ffffffff0000000000000017",
            "22P03",
            "invalid number of dimensions",
        ),
        (
            integers.clone(),
            "000000010000000200000017",
            "22P03",
            "invalid array flags",
        ),
        (
            integers.clone(),
            "000000000000000000000019",
            "42804",
            "expected 23 (integer)",
        ),
        (
            integers.clone(),
            "0000000100000000000000177fffffff00000001",
            "08P01",
            "insufficient data",
        ),
        (
            integers.clone(),
            "000000010000000000000017ffffffff00000001",
            "54000",
            "exceeds the maximum",
        ),
        (
            integers.clone(),
            "00000001000000000000001700000001000000017fffffff00000001",
            "08P01",
            "insufficient data",
        ),
        (
            integers.clone(),
            "0000000100000000000000170000000100000001fffffffe",
            "22P03",
            "insufficient data",
        ),
        (
            integers,
            "00000001000000000000001700000001000000010000000300000001",
            "08P01",
            "insufficient data",
        ),
    ] {
        let error = decode_binary(&bytes_of(form), &data_type).expect_err(form);
        assert_eq!(error.code, code, "{form}: {}", error.message);
        assert!(error.message.contains(reason), "{form}: {}", error.message);
    }
}

/// `SELECT ROW(1, 'a b', NULL, '', 'q"\(,)', 1.50)` in PostgreSQL 15.
#[test]
fn rows_are_records() {
    let number = Value::Numeric("1.50".parse().unwrap());
    let columns = [
        (Value::Int(1), DataType::Int4),
        (Value::text("a b"), DataType::Text),
        (Value::Null, DataType::Text),
        (Value::text(""), DataType::Text),
        (Value::text("q\"\\(,)"), DataType::Text),
        (number, DataType::Numeric(None)),
    ];
    let (values, types): (Vec<Value>, Vec<DataType>) = columns.into_iter().unzip();
    let (row, record) = (Value::Array(values.into()), DataType::Record(types.into()));
    assert_eq!((oid_of(&record), type_length_of(&record)), (2249, -1));
    let mut text = BytesMut::new();
    encode_text(&row, &record, &berlin(), &mut text);
    assert_eq!(&text[..], br#"(1,"a b",,"","q""\\(,)",1.50)"#);
    let mut out = BytesMut::new();
    encode_binary(&row, &record, &mut out).unwrap();
    assert_eq!(
        hexadecimal(&out),
        "0000000600000017000000040000000100000019000000036120620000\
         0019ffffffff000000190000000000000019000000\
         0671225c282c29000006a40000000c000200000000000200011388"
    );
}

#[test]
fn a_value_that_is_not_of_its_type_appends_nothing() {
    let mut out = BytesMut::from(&b"before"[..]);
    let array = Value::Array([Value::Int(1), Value::text("x")].into());
    let data_type = DataType::Array(Box::new(DataType::Int4));
    let error = encode(&array, &data_type, Format::Binary, &berlin(), &mut out).unwrap_err();
    assert_eq!(error.code, "XX000");
    assert_eq!(&out[..], b"before");
    encode(
        &Value::Null,
        &data_type,
        Format::Binary,
        &berlin(),
        &mut out,
    )
    .unwrap();
    assert_eq!(&out[6..], (-1i32).to_be_bytes());
}

/// A random JSON text of so many levels.
fn document(
    random: &mut SplitMix64,
    levels: u32,
    characters: &impl Fn(&mut SplitMix64, u64) -> String,
) -> String {
    let string = |random: &mut SplitMix64| {
        let mut out = String::new();
        write_string(&mut out, &characters(random, 4));
        out
    };
    let kinds = if levels > 0 { 8 } else { 6 };
    match random.below(kinds) {
        0 => "null".to_owned(),
        1 => (if random.bits() & 1 == 1 {
            "true"
        } else {
            "false"
        })
        .to_owned(),
        2 => format!("{}", random.below(2_000) as i64 - 1_000),
        3 => format!("-{}.{:02}0", random.below(100), random.below(100)),
        4 => format!("{}.5e{}", random.below(10), random.below(9) as i64 - 4),
        5 => string(random),
        kind => {
            let parts: Vec<String> = (0..random.below(5))
                .map(|_| {
                    let value = document(random, levels - 1, characters);
                    match kind {
                        6 => value,
                        _ => format!("{} : {value}", string(random)),
                    }
                })
                .collect();
            match kind {
                6 => format!("[{}]", parts.join(" ,")),
                _ => format!("{{{}}}", parts.join(", ")),
            }
        }
    }
}

/// A random value of a type.
fn value(random: &mut SplitMix64, data_type: &DataType) -> Value {
    const CHARACTERS: [char; 12] = [
        'a', ' ', '"', '\\', '{', '}', ',', '\n', 'ß', '😀', '\'', '\t',
    ];
    let bits = random.bits();
    let characters = |random: &mut SplitMix64, most: u64| -> String {
        (0..random.below(most + 1))
            .map(|_| CHARACTERS[random.below(12) as usize])
            .collect()
    };
    match data_type {
        DataType::Bool => Value::Bool(bits & 1 == 1),
        DataType::Int2 => Value::Int((bits as i16).into()),
        DataType::Int4 => Value::Int((bits as i32).into()),
        DataType::Int8 => Value::Int(bits as i64),
        DataType::Numeric(_) => {
            let digits = random.below(39) as u32;
            let wide = i128::from(bits as i64) << 64 | i128::from(random.bits());
            let mantissa = wide % 10i128.pow(digits);
            let scale = random.below(60) as u16;
            Value::Numeric(anabranch_types::Decimal::from_parts(mantissa, scale).unwrap())
        }
        DataType::Real => Value::Float(f64::from(f32::from_bits(bits as u32))),
        DataType::Double => Value::Float(f64::from_bits(bits)),
        DataType::Text | DataType::Varchar(None) => Value::text(characters(random, 12)),
        DataType::Varchar(_) => Value::text(characters(random, 3)),
        DataType::Char(_) => Value::text(characters(random, 5).trim_end_matches(' ')),
        DataType::Bytea => {
            let bytes: Vec<u8> = (0..random.below(9)).map(|_| random.bits() as u8).collect();
            Value::Bytes(bytes.into())
        }
        DataType::Uuid => {
            Value::Uuid((u128::from(bits) << 64 | u128::from(random.bits())).to_be_bytes())
        }
        DataType::Timestamp | DataType::TimestampTz => Value::Timestamp(
            (bits as i64).clamp(-211_813_488_000_000_000, 9_223_371_331_199_999_999)
                >> random.below(40),
        ),
        DataType::Date => {
            Value::Date((bits as i32).clamp(-2_451_545, 2_145_031_948) >> random.below(24))
        }
        DataType::Json => Value::text(document(random, 3, &characters)),
        DataType::Jsonb => {
            let text = document(random, 3, &characters);
            Value::Jsonb(Jsonb::parse(&text).unwrap())
        }
        DataType::Array(element) => {
            let element = |_| match random.below(4) {
                0 => Value::Null,
                _ => value(random, element),
            };
            let elements: Vec<Value> = (0..bits % 6).map(element).collect();
            Value::Array(elements.into())
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_value_is_read_as_it_was_written() {
    let zones = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "+05:45",
        "Pacific/Apia",
    ];
    for seed in 0..30_000 {
        let mut random = SplitMix64::stream(seed, "values", 0);
        let scalar = SCALARS[random.below(SCALARS.len() as u64) as usize].clone();
        let data_type = match random.below(3) {
            0 => DataType::Array(Box::new(scalar)),
            _ => scalar,
        };
        let value = value(&mut random, &data_type);
        let zone = TimeZone::named(zones[random.below(5) as usize]).unwrap();
        for format in [Format::Text, Format::Binary] {
            let mut out = BytesMut::new();
            encode(&value, &data_type, format, &zone, &mut out).unwrap();
            let length = i32::from_be_bytes(out[..4].try_into().unwrap());
            assert_eq!(length as usize, out.len() - 4);
            let again = decode(Some(&out[4..]), &data_type, format, &zone)
                .unwrap_or_else(|error| panic!("seed {seed}: {value:?} {zone}: {error:?}"));
            let mut second = BytesMut::new();
            encode(&again, &data_type, format, &zone, &mut second).unwrap();
            assert_eq!(
                out, second,
                "seed {seed}: {value:?} as {data_type} in {zone}"
            );
            let has_nan = format!("{value:?}").contains("NaN");
            // The text has the offset, so that even a repeated hour is told apart.
            assert!(
                again == value || has_nan,
                "seed {seed}: {value:?} {again:?}"
            );
        }
    }
}

#[test]
fn hostile_bytes_are_refused_or_read() {
    let mut refused = 0;
    for seed in 0..200_000 {
        let mut random = SplitMix64::stream(seed, "values", 0);
        let scalar = SCALARS[random.below(16) as usize].clone();
        let data_type = match random.below(2) {
            0 => DataType::Array(Box::new(scalar)),
            _ => scalar,
        };
        // A true form with a few bytes changed, cut off or added.
        let mut form = binary(&value(&mut random, &data_type), &data_type);
        for _ in 0..random.below(4) {
            match random.below(3) {
                0 => form.push(random.bits() as u8),
                1 => form.truncate(random.below(form.len() as u64 + 1) as usize),
                _ if form.is_empty() => {}
                _ => {
                    let at = random.below(form.len() as u64) as usize;
                    form[at] = match random.below(3) {
                        0 => 0xff,
                        1 => 0,
                        _ => random.bits() as u8,
                    };
                }
            }
        }
        match decode_binary(&form, &data_type) {
            Ok(value) => {
                // What was read can be written, in both forms.
                binary(&value, &data_type);
                text(&value, &data_type);
            }
            Err(_) => refused += 1,
        }
        let _ = decode_text(&form, &data_type, &TimeZone::UTC);
    }
    assert!(refused > 10_000, "only {refused} were refused");
}

#[test]
fn oids_are_those_of_postgresql() {
    use anabranch_wire::format::{
        UNKNOWN, array_oid_of, data_type_of, type_length_of, type_modifier_of,
    };
    for data_type in SCALARS {
        let unbounded = match &data_type {
            DataType::Varchar(_) => DataType::Varchar(None),
            DataType::Char(_) => DataType::BPCHAR,
            other => other.clone(),
        };
        let array = DataType::Array(Box::new(unbounded.clone()));
        assert_eq!(oid_of(&array), array_oid_of(&data_type));
        assert_eq!(data_type_of(oid_of(&data_type)), Ok(Some(unbounded)));
        assert_eq!(data_type_of(oid_of(&array)), Ok(Some(array)));
    }
    assert_eq!(data_type_of(0), Ok(None));
    assert_eq!(data_type_of(UNKNOWN), Ok(None));
    for (oid, code, reason) in [
        (1083, "0A000", "time without time zone"),
        (1186, "0A000", "interval"),
        (869, "0A000", "inet"),
        (2249, "0A000", "record"),
        (999_999, "42704", "999999"),
    ] {
        let error = data_type_of(oid).unwrap_err();
        assert_eq!(error.code, code);
        assert!(error.message.contains(reason), "{}", error.message);
    }
    let bounded = DataType::Numeric(Some(NumericBounds {
        precision: 10,
        scale: 2,
    }));
    assert_eq!(type_modifier_of(&bounded), 655_366);
    assert_eq!(type_modifier_of(&DataType::Varchar(Some(3))), 7);
    assert_eq!(type_modifier_of(&DataType::Char(5)), 9);
    assert_eq!(type_modifier_of(&DataType::Text), -1);
    assert_eq!(type_length_of(&DataType::Uuid), 16);
    assert_eq!(type_length_of(&bounded), -1);
}

/// The binary form of a label is its text. An array names the number of its elements' type.
#[test]
fn labels_are_texts_in_both_forms() {
    let mood = DataType::Enum(Arc::new(EnumType {
        oid: 1_700_000_000,
        name: "mood".into(),
        written: "mood".into(),
        labels: vec!["sad".into(), "ok".into()],
    }));
    let moods = DataType::Array(Box::new(mood.clone()));
    assert_eq!((oid_of(&mood), type_length_of(&mood)), (1_700_000_000, 4));
    assert_eq!(
        (oid_of(&moods), type_length_of(&moods)),
        (1_700_000_001, -1)
    );
    let list = Value::Array(["ok", "sad"].map(Value::text).into());
    for (value, data_type) in [(Value::text("ok"), &mood), (list, &moods)] {
        let mut bytes = BytesMut::new();
        encode_binary(&value, data_type, &mut bytes).unwrap();
        assert_eq!(decode_binary(&bytes, data_type).unwrap(), value);
        let mut bytes = BytesMut::new();
        encode_text(&value, data_type, &TimeZone::UTC, &mut bytes);
        assert_eq!(
            decode_text(&bytes, data_type, &TimeZone::UTC).unwrap(),
            value
        );
    }
    let error = decode_binary(b"bad", &mood).unwrap_err();
    assert_eq!(error.code, "22P02");
    assert_eq!(error.message, "invalid input value for enum mood: \"bad\"");
    let error = decode_text(b"{ok,bad}", &moods, &TimeZone::UTC).unwrap_err();
    assert_eq!(error.code, "22P02");
}
