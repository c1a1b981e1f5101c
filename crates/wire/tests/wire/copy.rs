//! The data of a COPY, in pieces of every size, and what is wrong with it. What is expected is PostgreSQL 15's.

use anabranch_types::{DataType, TimeZone, Value};
use anabranch_wire::copy::{CopyFormat, CopyHeader, CopyOptions, CopyReader, CopyWriter};
use bytes::BytesMut;

fn columns() -> Vec<(String, DataType)> {
    vec![
        ("id".to_owned(), DataType::Int4),
        ("name".to_owned(), DataType::Text),
    ]
}

/// The rows of the data, which comes in pieces of this size; or what is wrong with it, and where.
fn read(options: &CopyOptions, data: &[u8], piece: usize) -> Result<Vec<Vec<Value>>, String> {
    let mut reader = CopyReader::new(options.clone(), columns(), TimeZone::UTC);
    let mut rows = Vec::new();
    let mut row = |values| rows.push(values);
    let read = data
        .chunks(piece)
        .try_for_each(|piece| reader.read(piece, &mut row))
        .and_then(|()| reader.finish(&mut row));
    match read {
        Ok(()) => Ok(rows),
        Err(wrong) => Err(format!(
            "{} {} [{}]",
            wrong.error.code, wrong.error.message, wrong.place
        )),
    }
}

fn rows(expected: &[(i64, Option<&str>)]) -> Vec<Vec<Value>> {
    let row = |(id, name): &(i64, Option<&str>)| {
        vec![Value::Int(*id), name.map_or(Value::Null, Value::text)]
    };
    expected.iter().map(row).collect()
}

/// The rows, whatever the pieces.
fn assert_rows(options: &CopyOptions, data: &[u8], expected: &[(i64, Option<&str>)]) {
    for piece in [1, 2, 3, 7, 1000] {
        assert_eq!(read(options, data, piece), Ok(rows(expected)), "{piece}");
    }
}

fn assert_wrong(options: &CopyOptions, data: &[u8], expected: &str) {
    for piece in [1, 3, 1000] {
        assert_eq!(
            read(options, data, piece),
            Err(expected.to_owned()),
            "{piece}"
        );
    }
}

#[test]
fn text_has_escapes() {
    let options = CopyOptions::of(CopyFormat::Text);
    assert_rows(
        &options,
        b"1\ta\n2\t\\N\n3\t\n",
        &[(1, Some("a")), (2, None), (3, Some(""))],
    );
    assert_rows(
        &options,
        b"1\ta\\tb\\nc\\\\N\n2\t\\101\\x42\\q\n3\tx\\\ny\n",
        &[(1, Some("a\tb\nc\\N")), (2, Some("ABq")), (3, Some("x\ny"))],
    );
    assert_rows(
        &options,
        b"1\ta\r\n2\tb\r\n",
        &[(1, Some("a")), (2, Some("b"))],
    );
    assert_rows(&options, b"1\ta\r2\tb\r", &[(1, Some("a")), (2, Some("b"))]);
    assert_rows(&options, b"1\ta\n2\tb", &[(1, Some("a")), (2, Some("b"))]);
    assert_rows(&options, b"1\ta\n\\.\nwhatever", &[(1, Some("a"))]);
    // Only the text for NULL itself is NULL, and not what its escapes stand for.
    assert_rows(&options, b"1\tN\n", &[(1, Some("N"))]);
    assert_rows(&options, b"", &[]);
}

#[test]
fn text_that_is_wrong_is_told_with_its_line() {
    let options = CopyOptions::of(CopyFormat::Text);
    assert_wrong(
        &options,
        b"1\ta\n2\n",
        "22P04 missing data for column \"name\" [line 2: \"2\"]",
    );
    assert_wrong(
        &options,
        b"1\ta\n2\tb\tc\n",
        "22P04 extra data after last expected column [line 2: \"2\tb\tc\"]",
    );
    assert_wrong(
        &options,
        b"1\ta\nx\tb\n",
        "22P02 invalid input syntax for type integer: \"x\" [line 2, column id: \"x\"]",
    );
    assert_wrong(
        &options,
        b"1\t\xff\n",
        "22021 invalid byte sequence for encoding \"UTF8\": 0xff [line 1, column name: \"\u{fffd}\"]",
    );
    let mixed = read(&options, b"1\ta\n2\tb\r\n", 1000).unwrap_err();
    assert!(
        mixed.starts_with("22P04 literal carriage return found in data"),
        "{mixed}"
    );
}

#[test]
fn csv_has_quotes() {
    let options = CopyOptions::of(CopyFormat::Csv);
    assert_rows(
        &options,
        b"1,a\n2,\n3,\"\"\n4,\"x,\"\"y\"\"\nz\"\n5, b\n",
        &[
            (1, Some("a")),
            (2, None),
            (3, Some("")),
            (4, Some("x,\"y\"\nz")),
            (5, Some(" b")),
        ],
    );
    let options = CopyOptions {
        delimiter: b';',
        null: "NULL".to_owned(),
        quote: b'\'',
        escape: b'\\',
        force_null: vec![1],
        ..CopyOptions::of(CopyFormat::Csv)
    };
    assert_rows(
        &options,
        b"1;NULL\n2;'NULL'\n3;'a\\'b\\\\'\n4;\n",
        &[(1, None), (2, None), (3, Some("a'b\\")), (4, Some(""))],
    );
    let options = CopyOptions {
        force_not_null: vec![1],
        ..CopyOptions::of(CopyFormat::Csv)
    };
    assert_rows(&options, b"1,\n", &[(1, Some(""))]);
}

#[test]
fn csv_that_is_wrong_is_told() {
    let options = CopyOptions::of(CopyFormat::Csv);
    let open = read(&options, b"1,\"a\n", 1000).unwrap_err();
    assert!(
        open.starts_with("22P04 unterminated CSV quoted field"),
        "{open}"
    );
    assert_wrong(
        &options,
        b"1,a,b\n",
        "22P04 extra data after last expected column [line 1: \"1,a,b\"]",
    );
}

#[test]
fn a_header_is_passed_over_or_compared() {
    let with = |header| CopyOptions {
        header,
        ..CopyOptions::of(CopyFormat::Csv)
    };
    assert_rows(
        &with(CopyHeader::Present),
        b"what,ever\n1,a\n",
        &[(1, Some("a"))],
    );
    assert_rows(
        &with(CopyHeader::Match),
        b"id,name\n1,a\n",
        &[(1, Some("a"))],
    );
    assert_wrong(
        &with(CopyHeader::Match),
        b"id,nam\n1,a\n",
        "22P04 column name mismatch in header line field 2: got \"nam\", expected \"name\" [line 1: \"id,nam\"]",
    );
    assert_wrong(
        &with(CopyHeader::Match),
        b"id\n",
        "22P04 wrong number of fields in header line: got 1, expected 2 [line 1: \"id\"]",
    );
}

/// What is written is read again, in every format.
#[test]
fn what_is_written_is_read() {
    let expected = rows(&[
        (1, Some("plain")),
        (-2, None),
        (3, Some("")),
        (4, Some("tab\tnewline\nreturn\rback\\slash")),
        (5, Some("quote\" comma, \\N \\. ü")),
    ]);
    for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
        for header in [CopyHeader::Absent, CopyHeader::Match] {
            if (format, header) == (CopyFormat::Binary, CopyHeader::Match) {
                continue;
            }
            let options = CopyOptions {
                header,
                ..CopyOptions::of(format)
            };
            let mut writer = CopyWriter::new(options.clone());
            let mut out = BytesMut::new();
            let columns = columns();
            writer.begin(columns.iter().map(|(name, _)| name.as_str()), &mut out);
            for row in &expected {
                let values = row.iter().zip(columns.iter().map(|(_, of)| of));
                writer.row(values, &TimeZone::UTC, &mut out).unwrap();
            }
            writer.end(&mut out);
            for piece in [1, 5, 10_000] {
                assert_eq!(
                    read(&options, &out, piece),
                    Ok(expected.clone()),
                    "{format:?} {header:?}"
                );
            }
        }
    }
}

/// As PostgreSQL sends it: drivers that read row by row look for the signature before the first row.
#[test]
fn the_signature_stands_with_the_first_row_or_the_end() {
    let signature = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let mut parts = Vec::new();
    for count in [0, 2] {
        let mut writer = CopyWriter::new(CopyOptions::of(CopyFormat::Binary));
        let mut out = BytesMut::new();
        writer.begin(["id"].into_iter(), &mut out);
        parts.push(out.split());
        for _ in 0..count {
            let row = [(&Value::Int(7), &DataType::Int4)];
            writer
                .row(row.into_iter(), &TimeZone::UTC, &mut out)
                .unwrap();
            parts.push(out.split());
        }
        writer.end(&mut out);
        parts.push(out.split());
    }
    let row = b"\0\x01\0\0\0\x04\0\0\0\x07";
    let first = [&signature[..], row].concat();
    let empty = [&signature[..], b"\xff\xff"].concat();
    assert_eq!(parts, [&b""[..], &empty, b"", &first, row, b"\xff\xff"]);
}

#[test]
fn binary_data_is_held_against_its_form() {
    let options = CopyOptions::of(CopyFormat::Binary);
    let signature = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let with = |rest: &[u8]| [signature, rest].concat();
    assert_rows(&options, &with(b"\xff\xff"), &[]);
    let row = b"\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff";
    assert_rows(
        &options,
        &with(&[&row[..], b"\xff\xff"].concat()),
        &[(7, None)],
    );
    assert_wrong(
        &options,
        b"PGCOPX",
        "22P04 COPY file signature not recognized [line 1]",
    );
    assert_wrong(
        &options,
        &with(b"\0\x01"),
        "22P04 row field count is 1, expected 2 [line 1]",
    );
    assert_wrong(
        &options,
        &with(b"\0\x02\0"),
        "22P04 unexpected EOF in COPY data [line 1]",
    );
    assert_wrong(
        &options,
        &with(b"\0\x02\0\0\0\x03\0\0\0"),
        "08P01 insufficient data left in message for type integer [line 1, column id]",
    );
    let behind = read(&options, &with(b"\xff\xffx"), 1000).unwrap_err();
    assert!(
        behind.starts_with("22P04 received copy data after EOF marker"),
        "{behind}"
    );
}
