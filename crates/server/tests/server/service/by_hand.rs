//! A client that writes its messages byte by byte, for what no driver does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A message: its letter, its length and its body.
pub(crate) fn message(letter: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut bytes = vec![letter];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

pub(crate) fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"])
}

/// Parse of the unnamed statement, whose parameters' types are to be inferred.
pub(crate) fn parse(text: &str) -> Vec<u8> {
    message(b'P', &[b"\0", text.as_bytes(), b"\0\0\0"])
}

/// Bind of the unnamed portal to the unnamed statement, with parameters and results in text.
pub(crate) fn bind(parameters: &[&str]) -> Vec<u8> {
    let mut values = Vec::new();
    for parameter in parameters {
        values.extend((parameter.len() as u32).to_be_bytes());
        values.extend(parameter.as_bytes());
    }
    let count = (parameters.len() as u16).to_be_bytes();
    message(b'B', &[b"\0\0\0\0", &count, &values, b"\0\0"])
}

/// Describe of the unnamed portal.
pub(crate) fn describe() -> Vec<u8> {
    message(b'D', &[b"P\0"])
}

/// Execute of the unnamed portal, for all rows.
pub(crate) fn execute() -> Vec<u8> {
    message(b'E', &[b"\0\0\0\0\0"])
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', &[])
}

/// A start-up packet of protocol 3.0.
pub(crate) fn start_up(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![0, 3, 0, 0];
    for (name, value) in parameters {
        for text in [name, value] {
            body.extend(text.as_bytes());
            body.push(0);
        }
    }
    body.push(0);
    packet(&body)
}

/// A packet without a letter.
pub(crate) fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// A socket that gives up after a time that only a hang needs.
pub(crate) fn open(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("it connects");
    let limit = Some(Duration::from_secs(60));
    socket.set_read_timeout(limit).expect("it is set");
    socket.set_write_timeout(limit).expect("it is set");
    socket
}

/// A client that was let in.
pub(crate) struct ByHand {
    pub(crate) socket: TcpStream,
    /// What BackendKeyData has: the process and the secret.
    pub(crate) key: Vec<u8>,
}

impl ByHand {
    pub(crate) fn connect(address: SocketAddr) -> ByHand {
        let mut socket = open(address);
        let start = start_up(&[("user", "ann"), ("database", "anabranch")]);
        socket.write_all(&start).expect("it sends");
        let mut client = ByHand {
            socket,
            key: Vec::new(),
        };
        let answer = client.read_to_ready();
        let key = messages(&answer).find(|(letter, _)| *letter == b'K');
        client.key = key.expect("it has a key").1.to_vec();
        client
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("it sends");
    }

    /// The messages up to ReadyForQuery.
    pub(crate) fn read_to_ready(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        loop {
            let start = read.len();
            read.resize(start + 5, 0);
            self.socket
                .read_exact(&mut read[start..])
                .expect("a message comes");
            let letter = read[start];
            let length = u32::from_be_bytes(read[start + 1..].try_into().expect("four bytes"));
            read.resize(start + 1 + length as usize, 0);
            self.socket
                .read_exact(&mut read[start + 5..])
                .expect("its body comes");
            if letter == b'Z' {
                return read;
            }
        }
    }

    /// Sends messages and reads what answers them.
    pub(crate) fn ask(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.send(bytes);
        self.read_to_ready()
    }
}

/// Sends a CancelRequest with this key, and waits until it is taken.
pub(crate) fn cancel(address: SocketAddr, key: &[u8]) {
    let mut socket = open(address);
    let request = packet(&[&[4, 210, 22, 46], key].concat());
    socket.write_all(&request).expect("it sends");
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).expect("it is closed");
    assert_eq!(rest, b"", "a cancel request is not answered");
}

/// The letter and body of each message.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<5>()?;
        let length = u32::from_be_bytes(head[1..].try_into().ok()?) as usize - 4;
        let (body, rest) = rest.split_at(length);
        bytes = rest;
        Some((head[0], body))
    })
}

/// A field of each error: `C` for the SQLSTATE, `M` for the message, `H` for the hint.
pub(crate) fn error_fields(answer: &[u8], field: u8) -> Vec<String> {
    let errors = messages(answer).filter(|(letter, _)| *letter == b'E');
    let of = |body: &[u8]| {
        let mut fields = body.split(|byte| *byte == 0);
        let found = fields.find(|text| text.first() == Some(&field));
        found.map(|text| String::from_utf8_lossy(&text[1..]).into_owned())
    };
    errors.filter_map(|(_, body)| of(body)).collect()
}
