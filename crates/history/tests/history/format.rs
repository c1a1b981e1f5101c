//! A written history is read back unchanged; a damaged one is refused with its line.

use anabranch_history::record::{
    Header, Operation, Order, Outcome, PartitionSequence, Read, Scan, Transaction, VersionName,
    Write, WriteKind,
};
use anabranch_history::{
    History, HistoryError, HistoryReader, HistoryWriter, Model, Problem, Record,
};

fn everything() -> (Header, Vec<Transaction>, Order) {
    let header = Header {
        protocol: "ramp-fast".into(),
        workload: "tpcc".into(),
        seed: 7,
        nodes: 2,
        models: vec![Model::ReadAtomic],
        ..Header::default()
    };
    let at = Some(PartitionSequence {
        partition: 1,
        sequence: 5,
    });
    let read = Read {
        item: "orders:80".into(),
        version: Some(VersionName {
            writer: "4@n1".into(),
            ordinal: Some(2),
        }),
        value: Some("\"1\"\n".into()),
        at,
    };
    let first = Transaction {
        id: "n1.1".into(),
        version: Some("4@n1".into()),
        stamp: Some(u64::MAX),
        session: Some("c1".into()),
        node: Some(1),
        invoked: Some(1),
        completed: Some(2),
        procedure: Some("new_order".into()),
        arguments: vec!["1".into(), "'x'".into()],
        outcome: Outcome::Committed,
        operations: vec![
            Operation::Read(read.clone()),
            Operation::Scan(Scan {
                space: "orders".into(),
                lower: Some("80".into()),
                upper: None,
                found: vec![read],
                at,
            }),
            Operation::Write(Write {
                item: "orders:80".into(),
                kind: WriteKind::Apply,
                value: None,
                positions: [("orders.i1".to_string(), "80".to_string())].into(),
                at,
            }),
        ],
    };
    let aborted = Transaction {
        id: "n1.2".into(),
        outcome: Outcome::Aborted("conflict".into()),
        ..Transaction::default()
    };
    let unknown = Transaction {
        id: "n1.3".into(),
        outcome: Outcome::Unknown,
        ..Transaction::default()
    };
    let order = Order {
        item: "x".into(),
        versions: vec!["4@n1".into()],
    };
    (header, vec![first, aborted, unknown], order)
}

fn written() -> String {
    let (header, transactions, order) = everything();
    let mut writer = HistoryWriter::new(Vec::new(), &header).unwrap();
    for transaction in &transactions {
        writer.transaction(transaction).unwrap();
    }
    writer.order(&order).unwrap();
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

fn read(text: &str) -> Result<(Header, Vec<Record>), (u64, Problem)> {
    let fail = |error: anabranch_history::HistoryError| (error.line, error.problem);
    let mut reader = HistoryReader::new(text.as_bytes()).map_err(fail)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().map_err(fail)? {
        records.push(record);
    }
    Ok((reader.header().clone(), records))
}

#[test]
fn what_is_written_is_read_again() {
    let (header, transactions, order) = everything();
    let mut expected: Vec<Record> = transactions.into_iter().map(Record::Transaction).collect();
    expected.push(Record::Order(order));
    assert_eq!(read(&written()).unwrap(), (header, expected));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = written();
    for length in 0..whole.len() - 1 {
        let error = read(&whole[..length]).expect_err("half a history");
        assert!(
            matches!(
                error.1,
                Problem::Empty | Problem::NoHeader(_) | Problem::Truncated
            ),
            "cut at {length}: {error:?}"
        );
    }
}

#[test]
fn a_lost_line_is_refused() {
    let whole = written();
    let lines: Vec<&str> = whole.lines().collect();
    for lost in 1..lines.len() - 1 {
        let mut rest = lines.clone();
        rest.remove(lost);
        let (line, problem) = read(&rest.join("\n")).expect_err("a line is missing");
        assert_eq!(line, lines.len() as u64 - 1);
        assert!(matches!(problem, Problem::Counts { .. }), "{problem}");
    }
}

#[test]
fn a_newer_format_is_refused_whatever_else_it_says() {
    let error = read("{\"anabranch_history\":2,\"news\":[]}\n{\"end\":{}}\n").unwrap_err();
    assert_eq!(error, (1, Problem::Newer { found: 2, known: 1 }));
}

#[test]
fn slips_are_refused_with_their_line() {
    let cases = [
        "{\"transaction\":\"T\",\"outcome\":\"committed\",\"operations\":[{\"read\":\"x\",\"verison\":\"T\"}]}",
        "{\"transaction\":\"T\",\"outcome\":\"committed\",\"operations\":[{\"read\":\"x\",\"kind\":\"assign\"}]}",
        "{\"transaction\":\"T\",\"outcome\":\"committed\",\"operations\":[{\"read\":\"x\",\"ordinal\":1}]}",
        "{\"transaction\":\"T\",\"outcome\":\"committed\",\"operations\":[{\"read\":\"x\",\"write\":\"x\"}]}",
        "{\"transaction\":\"T\",\"outcome\":\"committed\",\"operations\":[{\"scan\":\"x\"}]}",
        "{\"transaction\":\"T\",\"outcome\":\"comitted\"}",
        "{\"transaction\":\"T\"}",
        "{\"ordre\":\"x\"}",
        "[]",
        "nonsense",
    ];
    for case in cases {
        let text =
            format!("{{\"anabranch_history\":1}}\n\n{case}\n{{\"end\":{{\"transactions\":1}}}}\n");
        let (line, problem) = read(&text).expect_err(case);
        assert_eq!(line, 3, "{case}");
        assert!(matches!(problem, Problem::Invalid(_)), "{case}: {problem}");
    }
}

#[test]
fn nothing_may_follow_the_end() {
    let text = written() + "{\"transaction\":\"T\",\"outcome\":\"committed\"}\n";
    assert_eq!(read(&text).unwrap_err().1, Problem::AfterEnd);
}

/// T1 and T2 write x, with a stamp and these other fields of the write; `order` is the line after them.
fn two_writers(
    header: &str,
    writes: [(&str, &str); 2],
    order: &str,
) -> Result<History, HistoryError> {
    let mut text = format!("{{\"anabranch_history\":1{header}}}\n");
    for (name, (stamp, more)) in ["T1", "T2"].iter().zip(writes) {
        text += &format!(
            "{{\"transaction\":\"{name}\"{stamp},\"outcome\":\"committed\",\"operations\":[{{\"write\":\"x\"{more}}}]}}\n"
        );
    }
    let orders = usize::from(!order.is_empty());
    text += &format!("{order}{{\"end\":{{\"transactions\":2,\"orders\":{orders}}}}}\n");
    History::read(text.as_bytes())
}

#[test]
fn an_order_that_differs_from_where_versions_were_installed_is_refused() {
    let placed = [("", ",\"at\":[0,1]"), ("", ",\"at\":[0,2]")];
    let order = |versions: &str| format!("{{\"order\":\"x\",\"versions\":[{versions}]}}\n");
    let agrees = two_writers("", placed, &order("\"T1\",\"T2\""));
    assert!(agrees.is_ok(), "{agrees:?}");
    let differs = two_writers("", placed, &order("\"T2\",\"T1\"")).expect_err("it differs");
    assert_eq!(differs.line, 4);
    let words = "has T2's version of x before T1's, which was installed first";
    assert!(differs.to_string().contains(words), "{differs}");
}

#[test]
fn stamps_tell_the_order_of_assignments() {
    let by_stamp = ",\"assignments\":\"stamp\"";
    let stamped = [(",\"stamp\":5", ""), (",\"stamp\":9", "")];
    let told = two_writers(by_stamp, stamped, "");
    assert!(told.is_ok(), "{told:?}");
    for (header, writes) in [
        ("", stamped),
        (by_stamp, [stamped[0], stamped[0]]),
        (by_stamp, [stamped[0], ("", "")]),
        (
            by_stamp,
            [stamped[0], (",\"stamp\":9", ",\"kind\":\"increment\"")],
        ),
    ] {
        let refused = two_writers(header, writes, "").expect_err("nothing tells");
        assert!(
            refused.to_string().contains("their order is not known"),
            "{refused}"
        );
    }
}

#[test]
fn a_scan_that_found_what_is_not_in_its_range_is_refused() {
    for (place, is_there) in [("1", true), ("3", false), ("7", false)] {
        let text = format!(
            "{{\"anabranch_history\":1}}\n\
             {{\"transaction\":\"T1\",\"outcome\":\"committed\",\"operations\":[{{\"write\":\"t:{place}\"}}]}}\n\
             {{\"transaction\":\"T2\",\"outcome\":\"committed\",\"operations\":[{{\"scan\":\"t\",\
             \"lower\":\"0\",\"upper\":\"3\",\"found\":[{{\"read\":\"t:{place}\",\"version\":\"T1\"}}]}}]}}\n\
             {{\"end\":{{\"transactions\":2}}}}\n"
        );
        match History::read(text.as_bytes()) {
            Ok(_) => assert!(is_there, "{place}"),
            Err(refused) => {
                assert!(!is_there, "{refused}");
                assert_eq!(refused.line, 3);
                assert!(refused.to_string().contains("found t:"), "{refused}");
            }
        }
    }
}
