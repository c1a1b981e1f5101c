//! Comparison with pgwire's codec: what it encodes as a client is decoded to the same here, and what is encoded here it
//! decodes to the same.

use anabranch_types::SplitMix64;
use anabranch_wire::{
    BackendKey, Connection, ErrorFields, Field, Format, Formats, Limits, Request, Target,
    TransactionStatus,
};
use bytes::{BufMut, Bytes, BytesMut};
use pgwire::messages::{
    DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion, extendedquery,
    simplequery, startup, terminate,
};

use crate::{frontend, session::SECRET};

fn open() -> Connection {
    let mut connection = Connection::new(Limits::default());
    connection.receive(&frontend::startup(2, &["user", "ann"]));
    connection.next_request().unwrap();
    connection.accept(&[], &BackendKey::new(7, SECRET));
    connection.ready(TransactionStatus::Idle);
    let count = connection.output().len();
    connection.sent(count);
    connection
}

fn decoded(message: &PgWireFrontendMessage) -> Request {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes).unwrap();
    let mut connection = open();
    connection.receive(&bytes);
    let request = connection.next_request();
    request.unwrap_or_else(|| panic!("{message:?}: {}", connection.output().escape_ascii()))
}

/// A text of a few characters; empty often, for which pgwire has `None`.
fn text(random: &mut SplitMix64) -> Option<String> {
    let count = random.below(12);
    let characters = ['a', 'Z', '$', ' ', '\n', 'ä', '€', '𝄞'];
    let text: String = (0..count)
        .map(|_| characters[random.below(8) as usize])
        .collect();
    (!text.is_empty()).then_some(text)
}

fn given(name: &Option<String>) -> String {
    name.clone().unwrap_or_default()
}

#[test]
fn what_a_client_encodes_is_decoded_to_the_same() {
    for seed in 0..2_000 {
        let random = &mut SplitMix64::stream(seed, "client", 0);
        let (name, other) = (text(random), text(random));
        match random.below(7) {
            0 => {
                let message = simplequery::Query::new(given(&name));
                let request = decoded(&PgWireFrontendMessage::Query(message));
                assert!(matches!(request, Request::Query { text } if text == given(&name)));
            }
            1 => {
                let types: Vec<u32> = (0..random.below(9)).map(|_| random.bits() as u32).collect();
                let message = extendedquery::Parse::new(name.clone(), given(&other), types.clone());
                let Request::Parse {
                    statement,
                    text,
                    parameter_types,
                } = decoded(&PgWireFrontendMessage::Parse(message))
                else {
                    panic!("another request")
                };
                assert_eq!((statement, text), (given(&name), given(&other)));
                assert_eq!(parameter_types, types);
            }
            2 => bind(random, &name, &other),
            3 => {
                let kind = if random.percent(50) { b'S' } else { b'P' };
                let expected = match kind {
                    b'S' => Target::Statement(given(&name)),
                    _ => Target::Portal(given(&name)),
                };
                let message = extendedquery::Describe::new(kind, name.clone());
                let request = decoded(&PgWireFrontendMessage::Describe(message));
                assert!(matches!(request, Request::Describe(target) if target == expected));
                let message = extendedquery::Close::new(kind, name.clone());
                let request = decoded(&PgWireFrontendMessage::Close(message));
                assert!(matches!(request, Request::Close(target) if target == expected));
            }
            4 => {
                let rows = random.bits() as i32;
                let message = extendedquery::Execute::new(name.clone(), rows);
                let Request::Execute { portal, rows_max } =
                    decoded(&PgWireFrontendMessage::Execute(message))
                else {
                    panic!("another request")
                };
                assert_eq!(portal, given(&name));
                assert_eq!(rows_max, rows.max(0) as u32);
            }
            5 => {
                let sync = PgWireFrontendMessage::Sync(extendedquery::Sync::new());
                assert!(matches!(decoded(&sync), Request::Sync));
                let flush = PgWireFrontendMessage::Flush(extendedquery::Flush::new());
                assert!(matches!(decoded(&flush), Request::Flush));
                let end = PgWireFrontendMessage::Terminate(terminate::Terminate::new());
                assert!(matches!(decoded(&end), Request::Terminate));
            }
            _ => start(random, &name, &other),
        }
    }
}

fn bind(random: &mut SplitMix64, portal: &Option<String>, statement: &Option<String>) {
    let count = random.below(5) as usize;
    let values: Vec<Option<Bytes>> = (0..count)
        .map(|_| {
            let length = random.below(30);
            let bytes: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
            random.percent(80).then(|| bytes.into())
        })
        .collect();
    let mut codes = |some: usize| -> Vec<i16> {
        let count = [0, 1, some][random.below(3) as usize];
        (0..count).map(|_| random.below(2) as i16).collect()
    };
    let (formats, result_formats) = (codes(count), codes(3));
    let message = extendedquery::Bind::new(
        portal.clone(),
        statement.clone(),
        formats.clone(),
        values.clone(),
        result_formats.clone(),
    );
    let request = decoded(&PgWireFrontendMessage::Bind(message));
    let Request::Bind {
        portal: found,
        statement: of,
        parameter_formats,
        parameters,
        result_formats: results,
    } = request
    else {
        panic!("another request")
    };
    assert_eq!((found, of), (given(portal), given(statement)));
    assert_eq!(parameters, values);
    assert_eq!(parameter_formats, expected_formats(&formats));
    assert_eq!(results, expected_formats(&result_formats));
}

fn expected_formats(codes: &[i16]) -> Formats {
    let format = |code: i16| {
        if code == 0 {
            Format::Text
        } else {
            Format::Binary
        }
    };
    match codes {
        [] => Formats::All(Format::Text),
        [one] => Formats::All(format(*one)),
        many => Formats::Each(many.iter().map(|code| format(*code)).collect()),
    }
}

fn start(random: &mut SplitMix64, name: &Option<String>, other: &Option<String>) {
    let mut message = startup::Startup::default();
    message.protocol_number_minor = random.below(5) as u16;
    message
        .parameters
        .insert("user".to_owned(), format!("u{}", given(name)));
    message
        .parameters
        .insert("setting".to_owned(), given(other));
    let mut bytes = BytesMut::new();
    PgWireFrontendMessage::Startup(message)
        .encode(&mut bytes)
        .unwrap();
    let mut connection = Connection::new(Limits::default());
    connection.receive(&bytes);
    let Some(Request::Start(startup)) = connection.next_request() else {
        panic!("another request")
    };
    assert_eq!(startup.user, format!("u{}", given(name)));
    assert_eq!(startup.database, startup.user);
    assert_eq!(startup.parameters, [("setting".to_owned(), given(other))]);
}

/// What pgwire decodes from all that was sent.
fn sent(connection: &mut Connection) -> Vec<PgWireBackendMessage> {
    let mut bytes = BytesMut::from(connection.output());
    let count = bytes.len();
    connection.sent(count);
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_2);
    context.awaiting_frontend_ssl = false;
    context.awaiting_frontend_startup = false;
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        messages.push(
            PgWireBackendMessage::decode(&mut bytes, &context)
                .unwrap()
                .unwrap(),
        );
    }
    messages
}

#[test]
fn the_start_is_decoded_to_the_same() {
    let mut connection = Connection::new(Limits::default());
    connection.receive(&frontend::startup(7, &["user", "ann", "_pq_.x", "1"]));
    connection.next_request().unwrap();
    connection.accept(&[("TimeZone", "UTC")], &BackendKey::new(-7, SECRET));
    connection.ready(TransactionStatus::Open);
    connection.notice(&ErrorFields::error("01000", "note").with_detail("more"));
    connection.notification(-7, "news", "hello");
    let messages = sent(&mut connection);
    let shown = format!("{messages:?}");
    let [
        PgWireBackendMessage::NegotiateProtocolVersion(version),
        PgWireBackendMessage::Authentication(startup::Authentication::Ok),
        PgWireBackendMessage::ParameterStatus(status),
        PgWireBackendMessage::BackendKeyData(key),
        PgWireBackendMessage::ReadyForQuery(_),
        PgWireBackendMessage::NoticeResponse(notice),
        PgWireBackendMessage::NotificationResponse(notification),
    ] = messages.as_slice()
    else {
        panic!("{shown}")
    };
    assert_eq!(
        version.newest_minor_protocol,
        i32::from(ProtocolVersion::PROTOCOL3_2)
    );
    assert_eq!(version.unsupported_options, ["_pq_.x"]);
    assert_eq!(
        (status.name.as_str(), status.value.as_str()),
        ("TimeZone", "UTC")
    );
    assert_eq!(key.pid, -7);
    assert_eq!(
        key.secret_key,
        startup::SecretKey::Bytes(Bytes::from_static(&SECRET))
    );
    let fields: Vec<(u8, &str)> = notice
        .fields
        .iter()
        .map(|(letter, text)| (*letter, text.as_str()))
        .collect();
    let expected = [
        (b'S', "ERROR"),
        (b'V', "ERROR"),
        (b'C', "01000"),
        (b'M', "note"),
        (b'D', "more"),
    ];
    assert_eq!(fields, expected);
    let (channel, payload) = (&*notification.channel, &*notification.payload);
    assert_eq!((notification.pid, channel, payload), (-7, "news", "hello"));
}

#[test]
fn answers_are_decoded_to_the_same() {
    for seed in 0..500 {
        let random = &mut SplitMix64::stream(seed, "server", 0);
        let mut connection = open();
        connection.receive(&frontend::query("q"));
        connection.next_request().unwrap();
        let fields: Vec<Field> = (0..random.below(6))
            .map(|_| Field {
                name: given(&text(random)),
                type_oid: random.bits() as u32,
                type_length: random.bits() as i16,
                type_modifier: random.bits() as i32,
                format: if random.percent(50) {
                    Format::Text
                } else {
                    Format::Binary
                },
            })
            .collect();
        connection.row_description(&fields);
        let values: Vec<Option<String>> = fields.iter().map(|_| text(random)).collect();
        let mut row = connection.data_row(values.len());
        for value in &values {
            match value {
                None => row.buffer().put_i32(-1),
                Some(text) => {
                    row.buffer().put_u32(text.len() as u32);
                    row.buffer().put_slice(text.as_bytes());
                }
            }
        }
        row.finish();
        let tag = given(&text(random));
        connection.command_complete(&tag);
        let error = ErrorFields {
            position: Some(random.bits() as u32),
            constraint: text(random),
            ..ErrorFields::error("23505", given(&text(random)))
        };
        connection.error(&error);
        connection.ready(TransactionStatus::Failed);
        let messages = sent(&mut connection);
        let [
            PgWireBackendMessage::RowDescription(description),
            PgWireBackendMessage::DataRow(row),
            PgWireBackendMessage::CommandComplete(complete),
            PgWireBackendMessage::ErrorResponse(failure),
            PgWireBackendMessage::ReadyForQuery(ready),
        ] = messages.as_slice()
        else {
            panic!("seed {seed}: {messages:?}")
        };
        assert_eq!(description.fields.len(), fields.len());
        for (found, field) in description.fields.iter().zip(&fields) {
            assert_eq!(found.name, field.name);
            assert_eq!((found.table_id, found.column_id), (0, 0));
            assert_eq!(
                (found.type_id, found.type_size),
                (field.type_oid, field.type_length)
            );
            assert_eq!(
                (found.type_modifier, found.format_code),
                (field.type_modifier, field.format.code())
            );
        }
        assert_eq!(usize::from(row.field_count as u16), values.len());
        let mut expected = BytesMut::new();
        for value in &values {
            match value {
                None => expected.put_i32(-1),
                Some(text) => {
                    expected.put_u32(text.len() as u32);
                    expected.put_slice(text.as_bytes());
                }
            }
        }
        assert_eq!(row.data, expected);
        assert_eq!(complete.tag, tag);
        assert_eq!(ready.status as u8, b'E');
        let field = |letter: u8| {
            let found = failure.fields.iter().find(|(found, _)| *found == letter);
            found.map(|(_, text)| text.clone())
        };
        assert_eq!(field(b'C').as_deref(), Some("23505"));
        assert_eq!(field(b'M').unwrap_or_default(), error.message);
        assert_eq!(
            field(b'P'),
            error.position.map(|position| position.to_string())
        );
        assert_eq!(field(b'n'), error.constraint);
    }
}

#[test]
fn answers_of_the_extended_protocol_are_decoded_to_the_same() {
    let mut connection = open();
    let requests = [
        frontend::parse("", "x", &[]),
        frontend::target(b'D', b'S', ""),
        frontend::bind("", "", &[], &[], &[]),
        frontend::target(b'D', b'P', ""),
        frontend::execute("", 1),
        frontend::execute("", 1),
        frontend::target(b'C', b'P', ""),
        frontend::sync(),
    ];
    connection.receive(&requests.concat());
    let answers: [fn(&mut Connection); 8] = [
        |it| it.parse_complete(),
        |it| {
            it.parameter_description(&[23, u32::MAX]);
            it.no_data();
        },
        |it| it.bind_complete(),
        |it| it.no_data(),
        |it| it.portal_suspended(),
        |it| it.empty_query(),
        |it| it.close_complete(),
        |it| it.ready(TransactionStatus::Idle),
    ];
    for answer in answers {
        connection.next_request().unwrap();
        answer(&mut connection);
    }
    let messages = sent(&mut connection);
    let shown = format!("{messages:?}");
    let [
        PgWireBackendMessage::ParseComplete(_),
        PgWireBackendMessage::ParameterDescription(parameters),
        PgWireBackendMessage::NoData(_),
        PgWireBackendMessage::BindComplete(_),
        PgWireBackendMessage::NoData(_),
        PgWireBackendMessage::PortalSuspended(_),
        PgWireBackendMessage::EmptyQueryResponse(_),
        PgWireBackendMessage::CloseComplete(_),
        PgWireBackendMessage::ReadyForQuery(_),
    ] = messages.as_slice()
    else {
        panic!("{shown}")
    };
    assert_eq!(parameters.types, [23, u32::MAX]);
}
