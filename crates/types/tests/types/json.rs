//! JSON: normal texts, equality and order agree with each other, on random documents.

use std::cmp::Ordering;

use anabranch_types::json::{Kind, Node, check, contains, write_string};
use anabranch_types::{DataType, Jsonb, TimeZone, Value, text::parse_value};
use proptest::prelude::*;

/// A JSON text in any form, with blanks, exponents and keys that come again.
fn document() -> impl Strategy<Value = String> {
    let string = "[a-c\"\\\\\u{1}é😀]{0,3}".prop_map(|content| {
        let mut out = String::new();
        write_string(&mut out, &content);
        out
    });
    let key = prop_oneof![
        Just("\"a\""),
        Just("\"b\""),
        Just("\"aa\""),
        Just("\"\\u0062\"")
    ];
    let scalar = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        "-?(0|[1-9][0-9]{0,2})(\\.[0-9]{1,3})?([eE][+-]?[0-3])?",
        string,
    ];
    scalar.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|list| format!("[ {}]", list.join(" ,"))),
            prop::collection::vec((key.clone(), inner), 0..4).prop_map(|list| {
                let members: Vec<String> = list
                    .into_iter()
                    .map(|(key, value)| format!("{key}:\t{value}"))
                    .collect();
                format!("{{{} }}", members.join(", "))
            }),
        ]
    })
}

fn jsonb(text: &str) -> Jsonb {
    Jsonb::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

proptest! {
    #[test]
    fn a_normal_text_is_its_own(text in document()) {
        prop_assert_eq!(check(&text), Ok(()));
        let normal = jsonb(&text);
        let again = jsonb(normal.as_str());
        prop_assert_eq!(normal.as_str(), again.as_str());
        prop_assert_eq!(&normal, &again);
        prop_assert!(contains(&normal.root(), &again.root()));
        // Each part of it is normal as well.
        if let Kind::Array(parts) = normal.root().kind {
            for part in parts {
                let of_part = jsonb(&part.text);
                prop_assert_eq!(of_part.as_str(), &*part.text);
            }
        }
    }

    #[test]
    fn equal_values_have_one_canonical_text(left in document(), right in document()) {
        let (left, right) = (jsonb(&left), jsonb(&right));
        prop_assert_eq!(left == right, left.canonical() == right.canonical());
        prop_assert_eq!(left.cmp(&right), right.cmp(&left).reverse());
    }

    #[test]
    fn the_order_is_total(a in document(), b in document(), c in document()) {
        let mut sorted = [jsonb(&a), jsonb(&b), jsonb(&c)];
        sorted.sort();
        let [a, b, c] = &sorted;
        prop_assert_ne!(a.cmp(b), Ordering::Greater);
        prop_assert_ne!(b.cmp(c), Ordering::Greater);
        prop_assert_ne!(a.cmp(c), Ordering::Greater);
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}\",:0-9eE.+\\\\utrfnl \u{0}-\u{1f}é-]{0,20}") {
        let parsed = Jsonb::parse(&text);
        // A `json` may have characters that no text has.
        prop_assert!(parsed.is_err() || check(&text).is_ok());
    }
}

/// The deepest document is read, and a deeper one refused, on the stack of a test.
#[test]
fn levels_are_limited() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deepest = jsonb(&nested(250));
    assert!(deepest > jsonb("[]"));
    assert_eq!(deepest.canonical(), nested(250));
    assert_eq!(Jsonb::parse(&nested(251)).unwrap_err().code, "54001");
    let around = Node {
        text: "".into(),
        kind: Kind::Array(vec![deepest.root()]),
    };
    assert_eq!(Jsonb::of(&around).unwrap_err().code, "54001");
    let open = "{\"a\":".repeat(100_000);
    assert_eq!(Node::parse(&open).unwrap_err().code, "54001");
}

#[test]
fn zeros_behind_a_point_make_no_other_value() {
    for (one, other) in [
        ("[1]", "[1.0]"),
        ("[1, \"a.b\", 2]", "[1.00, \"a.b\", 2.0]"),
        ("{\"a\": 1, \"b\": []}", "{\"a\": 1.0, \"b\": []}"),
    ] {
        let (one, other) = (jsonb(one), jsonb(other));
        assert_eq!(one, other);
        assert_eq!(one.canonical(), other.canonical());
    }
}

/// A few digits with an exponent are a number of many thousands.
#[test]
fn a_value_that_would_be_too_long_is_refused() {
    let numbers = vec!["1e131000"; 1_000].join(",");
    assert_eq!(
        Jsonb::parse(&format!("[{numbers}]")).unwrap_err().code,
        "54000"
    );
}

#[test]
fn errors_say_what_postgresql_says() {
    for (text, detail) in [
        ("", "The input string ended unexpectedly."),
        ("{", "The input string ended unexpectedly."),
        ("{\"a\"", "The input string ended unexpectedly."),
        ("[1", "The input string ended unexpectedly."),
        ("\"a", "Token \"\"a\" is invalid."),
        ("{a:1}", "Token \"a\" is invalid."),
        ("[tru]", "Token \"tru\" is invalid."),
        ("01", "Token \"01\" is invalid."),
        ("-", "Token \"-\" is invalid."),
        ("%", "Token \"%\" is invalid."),
        ("]", "Expected JSON value, but found \"]\"."),
        ("{1:2}", "Expected string or \"}\", but found \"1\"."),
        ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
        (
            "{\"a\":1 \"b\"}",
            "Expected \",\" or \"}\", but found \"\"b\"\".",
        ),
        ("{\"a\":1,}", "Expected string, but found \"}\"."),
        ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
        ("[1,]", "Expected JSON value, but found \"]\"."),
        ("1 2", "Expected end of input, but found \"2\"."),
        ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
        ("\"\t\"", "Character with value 0x09 must be escaped."),
        (
            "\"\\u12g4\"",
            "\"\\u\" must be followed by four hexadecimal digits.",
        ),
        (
            "\"\\ud800x\"",
            "Unicode low surrogate must follow a high surrogate.",
        ),
    ] {
        let error = parse_value(text, &DataType::Jsonb, &TimeZone::UTC).unwrap_err();
        assert_eq!(error.code, "22P02", "{text}");
        assert_eq!(
            error.message, "invalid input syntax for type json",
            "{text}"
        );
        assert_eq!(error.detail(), Some(detail), "{text}");
    }
    let error = Jsonb::parse("\"\\u0000\"").unwrap_err();
    assert_eq!(error.code, "22P05");
}

#[test]
fn a_json_keeps_its_text_and_a_jsonb_does_not() {
    let text = " {\"bb\" : 1.50, \"a\":[1, 2], \"bb\":2.0 } ";
    let of = |data_type| parse_value(text, &data_type, &TimeZone::UTC).unwrap();
    assert_eq!(of(DataType::Json), Value::text(text));
    let Value::Jsonb(json) = of(DataType::Jsonb) else {
        panic!("it is a jsonb");
    };
    assert_eq!(json.as_str(), "{\"a\": [1, 2], \"bb\": 2.0}");
}
