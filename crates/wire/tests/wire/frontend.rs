//! Encodes what clients send. It checks nothing, so that tests can send what no client would.

/// A message: its letter, its length and its body.
pub(crate) fn message(letter: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![letter];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A packet of the start: without a letter.
pub(crate) fn packet(major: u16, minor: u16, rest: &[u8]) -> Vec<u8> {
    let mut bytes = (rest.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(major.to_be_bytes());
    bytes.extend(minor.to_be_bytes());
    bytes.extend(rest);
    bytes
}

pub(crate) fn ssl_request() -> Vec<u8> {
    packet(1234, 5679, &[])
}

pub(crate) fn gss_request() -> Vec<u8> {
    packet(1234, 5680, &[])
}

pub(crate) fn cancel_request(process: i32, secret: &[u8]) -> Vec<u8> {
    packet(1234, 5678, &[&process.to_be_bytes(), secret].concat())
}

/// A start-up packet: names and values in turns.
pub(crate) fn startup(minor: u16, words: &[&str]) -> Vec<u8> {
    let mut rest: Vec<u8> = words.iter().flat_map(|word| text(word)).collect();
    rest.push(0);
    packet(3, minor, &rest)
}

pub(crate) fn query(statements: &str) -> Vec<u8> {
    message(b'Q', &text(statements))
}

pub(crate) fn parse(statement: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = [text(statement), text(sql)].concat();
    body.extend((types.len() as u16).to_be_bytes());
    for oid in types {
        body.extend(oid.to_be_bytes());
    }
    message(b'P', &body)
}

pub(crate) fn bind(
    portal: &str,
    statement: &str,
    formats: &[i16],
    values: &[Option<&[u8]>],
    result_formats: &[i16],
) -> Vec<u8> {
    let mut body = [text(portal), text(statement)].concat();
    codes(&mut body, formats);
    body.extend((values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            None => body.extend((-1_i32).to_be_bytes()),
            Some(bytes) => {
                body.extend((bytes.len() as u32).to_be_bytes());
                body.extend(*bytes);
            }
        }
    }
    codes(&mut body, result_formats);
    message(b'B', &body)
}

/// Describe (`D`) or Close (`C`) of a statement (`S`) or portal (`P`).
pub(crate) fn target(letter: u8, kind: u8, name: &str) -> Vec<u8> {
    message(letter, &[vec![kind], text(name)].concat())
}

pub(crate) fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    message(
        b'E',
        &[text(portal), rows_max.to_be_bytes().to_vec()].concat(),
    )
}

pub(crate) fn flush() -> Vec<u8> {
    message(b'H', &[])
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', &[])
}

pub(crate) fn terminate() -> Vec<u8> {
    message(b'X', &[])
}

fn codes(body: &mut Vec<u8>, formats: &[i16]) {
    body.extend((formats.len() as u16).to_be_bytes());
    for format in formats {
        body.extend(format.to_be_bytes());
    }
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}
