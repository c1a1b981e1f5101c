//! Every type in both formats: as a result, as a parameter, in a table, through a function.

use std::fmt::Debug;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

use crate::checks::{Attempt, Checks};
use crate::values::{InText, Numeric};

/// The only value of the first row that a simple query returns: text, or NULL.
pub(crate) async fn simple(client: &Client, query: &str) -> Attempt<Option<String>> {
    let messages = client.simple_query(query).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(row.and_then(|row| row.get(0)).map(str::to_owned))
}

/// The only value of the only row, by the extended protocol; the driver asks for binary.
pub(crate) async fn one<T: FromSqlOwned>(
    client: &Client,
    query: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Attempt<T> {
    client
        .query_one(query, parameters)
        .await
        .and_then(|row| row.try_get(0))
}

struct Types<'a> {
    checks: &'a mut Checks,
    client: &'a Client,
}

impl Types<'_> {
    /// One value of a type, by its text and as the driver has it; `None` is NULL.
    async fn value<T>(&mut self, name: &str, text: Option<&'static str>, value: Option<T>)
    where
        T: FromSqlOwned + ToSql + Sync + Debug,
    {
        let shown = text.map_or("NULL".into(), |text| text.escape_default().to_string());
        let shown: String = shown.chars().take(40).collect();
        let label = format!("types: {name} {shown}");
        let literal = match text {
            Some(text) => format!("'{}'::{name}", text.replace('\'', "''")),
            None => format!("NULL::{name}"),
        };

        let got = simple(self.client, &format!("SELECT {literal}")).await;
        self.checks.attempt(&format!("{label}, text"), got, text);
        let got = one::<Option<T>>(self.client, &format!("SELECT {literal}"), &[]).await;
        self.checks
            .attempt(&format!("{label}, binary"), got, &value);
        let sent = format!("SELECT $1::{name}");
        let got = one::<Option<T>>(self.client, &sent, &[&value]).await;
        self.checks
            .attempt(&format!("{label}, sent binary"), got, &value);
        let got = one::<Option<T>>(self.client, &sent, &[&InText(text)]).await;
        self.checks
            .attempt(&format!("{label}, sent text"), got, &value);

        let prepared = self.client.prepare(&sent).await;
        let types = prepared.map(|prepared| {
            let parameter = prepared.params()[0].clone();
            (parameter, prepared.columns()[0].type_().clone())
        });
        let expected = described(name).map(|expected| (expected.clone(), expected));
        let types = types.map(Some);
        self.checks
            .attempt(&format!("{label}, described"), types, expected);
    }

    /// A function that returns its argument.
    async fn function<T>(&mut self, name: &str, value: T)
    where
        T: FromSqlOwned + ToSql + Sync + Debug,
    {
        let call = format!("SELECT same_{name}($1)");
        for value in [Some(&value), None] {
            let got = one::<Option<T>>(self.client, &call, &[&value]).await;
            let label = format!("calls: same_{name}({})", value.map_or("NULL", |_| "value"));
            self.checks.attempt(&label, got, value);
        }
    }
}

/// The driver's name for a type without bounds.
fn described(name: &str) -> Option<tokio_postgres::types::Type> {
    use tokio_postgres::types::Type;
    Some(match name {
        "bool" => Type::BOOL,
        "int2" => Type::INT2,
        "int4" => Type::INT4,
        "int8" => Type::INT8,
        "numeric" | "numeric(12,2)" => Type::NUMERIC,
        "float4" => Type::FLOAT4,
        "float8" => Type::FLOAT8,
        "text" => Type::TEXT,
        "varchar(12)" => Type::VARCHAR,
        "char(6)" => Type::BPCHAR,
        "bytea" => Type::BYTEA,
        "uuid" => Type::UUID,
        "timestamp" => Type::TIMESTAMP,
        "timestamptz" => Type::TIMESTAMPTZ,
        "date" => Type::DATE,
        "bool[]" => Type::BOOL_ARRAY,
        "int4[]" => Type::INT4_ARRAY,
        "int8[]" => Type::INT8_ARRAY,
        "numeric[]" => Type::NUMERIC_ARRAY,
        "text[]" => Type::TEXT_ARRAY,
        "timestamptz[]" => Type::TIMESTAMPTZ_ARRAY,
        _ => return None,
    })
}

const BYTES: &str = "\\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f\
303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b\
6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7\
a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3\
e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

fn timestamp(text: &str) -> NaiveDateTime {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").expect("the program's own")
}

fn date(text: &str) -> NaiveDate {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").expect("the program's own")
}

fn moment(text: &str) -> DateTime<Utc> {
    timestamp(text).and_utc()
}

/// Each type's values in both formats and both directions.
pub(crate) async fn types(checks: &mut Checks, client: &Client) {
    let mut types = Types { checks, client };
    types.value("bool", Some("t"), Some(true)).await;
    types.value("bool", Some("f"), Some(false)).await;
    types.value::<bool>("bool", None, None).await;
    for (text, value) in [("0", 0), ("-32768", i16::MIN), ("32767", i16::MAX)] {
        types.value("int2", Some(text), Some(value)).await;
    }
    types.value::<i16>("int2", None, None).await;
    for (text, value) in [("-2147483648", i32::MIN), ("2147483647", i32::MAX)] {
        types.value("int4", Some(text), Some(value)).await;
    }
    types.value::<i32>("int4", None, None).await;
    for (text, value) in [
        ("-9223372036854775808", i64::MIN),
        ("9223372036854775807", i64::MAX),
    ] {
        types.value("int8", Some(text), Some(value)).await;
    }
    types.value::<i64>("int8", None, None).await;
    for text in [
        "0",
        "0.00",
        "1",
        "-1.5",
        "9999",
        "10000",
        "100000000",
        "0.0001",
        "0.00001",
        "-0.00001234",
        "100000000.0000",
        "12345678901234567890.123456789012345678",
        "-99999999999999999999999999999999999999",
    ] {
        types
            .value("numeric", Some(text), Some(Numeric::from(text)))
            .await;
    }
    types.value::<Numeric>("numeric", None, None).await;
    let bounded = "-1234567890.50";
    types
        .value("numeric(12,2)", Some(bounded), Some(Numeric::from(bounded)))
        .await;
    for (text, value) in [
        ("1.5", 1.5),
        ("-0", -0.0),
        ("3.4028235e+38", f32::MAX),
        ("NaN", f32::NAN),
        ("-Infinity", f32::NEG_INFINITY),
    ] {
        types.value("float4", Some(text), Some(value)).await;
    }
    types.value::<f32>("float4", None, None).await;
    for (text, value) in [
        ("0.1", 0.1),
        ("-0", -0.0),
        ("1e+300", 1e300),
        ("5e-324", 5e-324),
        ("NaN", f64::NAN),
        ("Infinity", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
    ] {
        types.value("float8", Some(text), Some(value)).await;
    }
    types.value::<f64>("float8", None, None).await;
    for text in [
        "",
        "plain",
        "it's \"quoted\" \\ and %",
        "Grüße, 世界 🌍",
        "line\r\nand\ttab",
    ] {
        types.value("text", Some(text), Some(text.to_owned())).await;
    }
    types.value::<String>("text", None, None).await;
    for text in ["twelve chars", "ä"] {
        types
            .value("varchar(12)", Some(text), Some(text.to_owned()))
            .await;
    }
    types.value::<String>("varchar(12)", None, None).await;
    for text in ["abc   ", "      "] {
        types
            .value("char(6)", Some(text), Some(text.to_owned()))
            .await;
    }
    types.value::<String>("char(6)", None, None).await;
    types
        .value("bytea", Some("\\x"), Some(Vec::<u8>::new()))
        .await;
    types.value("bytea", Some("\\x00"), Some(vec![0u8])).await;
    let all: Vec<u8> = (0..=255).collect();
    types.value("bytea", Some(BYTES), Some(all)).await;
    types.value::<Vec<u8>>("bytea", None, None).await;
    for text in [
        "00000000-0000-0000-0000-000000000000",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ] {
        let uuid: Uuid = text.parse().expect("the program's own");
        types.value("uuid", Some(text), Some(uuid)).await;
    }
    types.value::<Uuid>("uuid", None, None).await;
    for text in [
        "2024-02-29 12:34:56.789012",
        "1999-12-31 23:59:59",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
    ] {
        types
            .value("timestamp", Some(text), Some(timestamp(text)))
            .await;
    }
    types.value::<NaiveDateTime>("timestamp", None, None).await;
    for (text, value) in [
        (
            "2024-02-29 12:34:56.789012+00",
            "2024-02-29 12:34:56.789012",
        ),
        ("1970-01-01 00:00:00+00", "1970-01-01 00:00:00"),
    ] {
        types
            .value("timestamptz", Some(text), Some(moment(value)))
            .await;
    }
    types
        .value::<DateTime<Utc>>("timestamptz", None, None)
        .await;
    for text in ["2024-02-29", "0001-01-01", "9999-12-31"] {
        types.value("date", Some(text), Some(date(text))).await;
    }
    types.value::<NaiveDate>("date", None, None).await;
    arrays(&mut types).await;

    types.function("bool", true).await;
    types.function("int2", 7i16).await;
    types.function("int4", 1i32 << 20).await;
    types.function("int8", 1i64 << 40).await;
    types.function("numeric", Numeric::from("1.10")).await;
    types.function("float4", 0.5f32).await;
    types.function("float8", 0.1f64).await;
    types.function("text", "ü".to_owned()).await;
    types.function("bytea", vec![0u8, 255]).await;
    types.function("uuid", Uuid::from_u128(1)).await;
    types
        .function("timestamp", timestamp("2024-01-01 00:00:00"))
        .await;
    types
        .function("timestamptz", moment("2024-01-01 00:00:00"))
        .await;
    types.function("date", date("2024-01-01")).await;
}

async fn arrays(types: &mut Types<'_>) {
    let bools = vec![Some(true), None, Some(false)];
    types.value("bool[]", Some("{t,NULL,f}"), Some(bools)).await;
    types
        .value("int4[]", Some("{}"), Some(Vec::<Option<i32>>::new()))
        .await;
    let ints = vec![Some(1), None, Some(i32::MIN)];
    types
        .value("int4[]", Some("{1,NULL,-2147483648}"), Some(ints))
        .await;
    let longs = vec![Some(i64::MAX), None, Some(0)];
    types
        .value("int8[]", Some("{9223372036854775807,NULL,0}"), Some(longs))
        .await;
    let numerics = vec![
        Some(Numeric::from("0.10")),
        None,
        Some(Numeric::from("-12345.6789")),
    ];
    types
        .value("numeric[]", Some("{0.10,NULL,-12345.6789}"), Some(numerics))
        .await;
    let texts = ["", "NULL", "a,b", "{x}", "\"q\" \\", "ü 🌍", "plain"];
    let mut texts: Vec<Option<String>> = texts.map(|text| Some(text.to_owned())).into();
    texts.insert(1, None);
    let text = r#"{"",NULL,"NULL","a,b","{x}","\"q\" \\","ü 🌍",plain}"#;
    types.value("text[]", Some(text), Some(texts)).await;
    let moments = vec![Some(moment("2024-02-29 12:34:56")), None];
    let text = r#"{"2024-02-29 12:34:56+00",NULL}"#;
    types
        .value("timestamptz[]", Some(text), Some(moments))
        .await;
    types.value::<Vec<Option<i32>>>("int4[]", None, None).await;
    types
        .value::<Vec<Option<String>>>("text[]", None, None)
        .await;
}

/// Columns of `every_type` with a value each, as text and as the driver has it.
type Column = (&'static str, &'static str, Box<dyn ToSql + Sync>);

fn columns() -> Vec<Column> {
    let bytes: Vec<u8> = (0..=255).collect();
    let uuid: Uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
        .parse()
        .expect("the program's own");
    vec![
        ("a_bool", "t", Box::new(true)),
        ("an_int2", "-2", Box::new(-2i16)),
        ("an_int4", "40000", Box::new(40000i32)),
        ("an_int8", "1099511627776", Box::new(1i64 << 40)),
        (
            "a_numeric",
            "123456789.000100",
            Box::new(Numeric::from("123456789.000100")),
        ),
        ("a_money", "-0.05", Box::new(Numeric::from("-0.05"))),
        ("a_float4", "0.25", Box::new(0.25f32)),
        ("a_float8", "-1e-05", Box::new(-1e-5f64)),
        (
            "a_text",
            "größer 'than' \"life\"",
            Box::new("größer 'than' \"life\""),
        ),
        ("a_varchar", "twelve chars", Box::new("twelve chars")),
        ("a_char", "pad   ", Box::new("pad   ")),
        ("a_bytea", BYTES, Box::new(bytes)),
        (
            "a_uuid",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            Box::new(uuid),
        ),
        (
            "a_timestamp",
            "2024-02-29 23:59:59.000001",
            Box::new(timestamp("2024-02-29 23:59:59.000001")),
        ),
        (
            "a_timestamptz",
            "2024-02-29 23:59:59.999999+00",
            Box::new(moment("2024-02-29 23:59:59.999999")),
        ),
        ("a_date", "2000-01-01", Box::new(date("2000-01-01"))),
    ]
}

fn array_columns() -> Vec<Column> {
    vec![
        (
            "some_bool",
            "{t,NULL,f}",
            Box::new(vec![Some(true), None, Some(false)]),
        ),
        (
            "some_int4",
            "{1,NULL,-1}",
            Box::new(vec![Some(1), None, Some(-1)]),
        ),
        (
            "some_int8",
            "{1099511627776,NULL}",
            Box::new(vec![Some(1i64 << 40), None]),
        ),
        (
            "some_numeric",
            "{1.50,NULL}",
            Box::new(vec![Some(Numeric::from("1.50")), None]),
        ),
        (
            "some_text",
            r#"{a,NULL,"","b \"c\", d"}"#,
            Box::new(vec![Some("a"), None, Some(""), Some("b \"c\", d")]),
        ),
        (
            "some_timestamptz",
            r#"{"2024-01-01 00:00:00+00",NULL}"#,
            Box::new(vec![Some(moment("2024-01-01 00:00:00")), None]),
        ),
    ]
}

/// Rows of every type: written by parameters in binary and in text form, read back in both.
pub(crate) async fn tables(checks: &mut Checks, client: &Client) {
    for (table, columns) in [("every_type", columns()), ("every_array", array_columns())] {
        let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
        let places: Vec<String> = (0..columns.len())
            .map(|place| format!("${}", place + 2))
            .collect();
        let insert = format!(
            "INSERT INTO {table} (id, {}) VALUES ($1, {})",
            names.join(", "),
            places.join(", ")
        );
        let texts: Vec<InText> = columns
            .iter()
            .map(|(_, text, _)| InText(Some(text)))
            .collect();
        let nulls: Vec<InText> = columns.iter().map(|_| InText(None)).collect();
        let binary: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|(.., value)| &**value).collect();
        let in_text: Vec<&(dyn ToSql + Sync)> = texts.iter().map(|text| text as _).collect();
        let in_nulls: Vec<&(dyn ToSql + Sync)> = nulls.iter().map(|text| text as _).collect();
        for (id, label, values) in [
            (1i32, "binary", binary),
            (2, "text", in_text),
            (3, "NULLs", in_nulls),
        ] {
            let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&id];
            parameters.extend(values);
            let written = client.execute(&insert, &parameters).await;
            checks.attempt(&format!("{table}: written, {label}"), written, 1);
            for (name, text, _) in &columns {
                let query = format!("SELECT {name} FROM {table} WHERE id = {id}");
                let expected = (id < 3).then_some(*text);
                let got = simple(client, &query).await;
                checks.attempt(
                    &format!("{table}: {name} written {label}, read in text"),
                    got,
                    expected,
                );
            }
        }
        // What was read in text was checked above; so the rows have to be the same when compared in binary.
        for (name, ..) in &columns {
            let query = format!("SELECT {name} FROM {table} WHERE id = $1");
            let mut raw = Vec::new();
            for id in 1..=3i32 {
                let got = client.query_one(&query, &[&id]).await;
                raw.push(got.and_then(|row| row.try_get::<_, Option<Raw>>(0)));
            }
            let [first, second, third] = <[_; 3]>::try_from(raw).expect("three were read");
            let label = format!("{table}: {name} read in binary");
            match (first, second) {
                (Ok(first), second) => {
                    checks.equal(&format!("{label} is there"), first.is_some(), true);
                    checks.attempt(&label, second, first);
                }
                (Err(error), _) => checks.attempt::<(), _>(&label, Err(error), "bytes"),
            }
            checks.attempt(&format!("{label}, NULL"), third, None::<Raw>);
        }
    }
    let counted = client
        .execute(
            "UPDATE every_type SET an_int4 = an_int4 + $1 WHERE an_int4 = $2",
            &[&1i32, &40000i32],
        )
        .await;
    checks.attempt("tables: UPDATE counts", counted, 2);
    let returned = client
        .query_one(
            "UPDATE every_type SET an_int4 = an_int4 + 1 WHERE id = $1 RETURNING an_int4, a_text",
            &[&1i32],
        )
        .await
        .map(|row| (row.get::<_, i32>(0), row.get::<_, String>(1)));
    checks.attempt(
        "tables: RETURNING",
        returned,
        (40002, "größer 'than' \"life\""),
    );
    let counted = client
        .execute("DELETE FROM every_type WHERE id = $1", &[&3i32])
        .await;
    checks.attempt("tables: DELETE counts", counted, 1);
    let none = client
        .query_opt("SELECT id FROM every_type WHERE id = -1", &[])
        .await
        .map(|row| row.is_some());
    checks.attempt("tables: no row", none, false);
}

/// A value's bytes as the server sent them.
#[derive(Debug, PartialEq)]
struct Raw(Vec<u8>);

impl<'a> tokio_postgres::types::FromSql<'a> for Raw {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        raw: &'a [u8],
    ) -> Result<Raw, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw.to_vec()))
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }
}
