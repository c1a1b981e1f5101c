//! The lines of transcripts: words, texts in quotes and lists.

use anabranch_wire::{Connection, ErrorFields, Field, Format, Severity, TransactionStatus};
use bytes::BufMut;

use crate::{frontend, session::SECRET};

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A word, such as a message's name, a number or `null`.
    Word(String),
    /// A text in quotes, with the escapes `\0`, `\n`, `\"`, `\\` and `\xNN`.
    Text(Vec<u8>),
    /// Tokens in brackets.
    List(Vec<Token>),
}

/// The words of a line that have not been read.
struct Line(std::vec::IntoIter<Token>);

/// The bytes of a line `F …`.
pub(crate) fn client_bytes(line: &str) -> Vec<u8> {
    let mut line = Line::new(line);
    let name = line.word();
    match name.as_str() {
        "SSLRequest" => frontend::ssl_request(),
        "GSSENCRequest" => frontend::gss_request(),
        "CancelRequest" => frontend::cancel_request(line.number() as i32, &line.text_bytes()),
        "Startup" => {
            let version = line.word();
            let (major, minor) = version.split_once('.').expect("a version");
            let mut rest = Vec::new();
            for word in line.0.by_ref() {
                rest.extend(word.into_bytes());
                rest.push(0);
            }
            rest.push(0);
            frontend::packet(major.parse().unwrap(), minor.parse().unwrap(), &rest)
        }
        "Query" => frontend::query(&line.text()),
        "Parse" => {
            let (name, text) = (line.text(), line.text());
            let types: Vec<u32> = line.numbers().map(|oid| oid as u32).collect();
            frontend::parse(&name, &text, &types)
        }
        "Bind" => {
            let (portal, statement) = (line.text(), line.text());
            let formats: Vec<i16> = line.numbers().map(|code| code as i16).collect();
            let values: Vec<Option<Vec<u8>>> = line.values();
            let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
            let result_formats: Vec<i16> = line.numbers().map(|code| code as i16).collect();
            frontend::bind(&portal, &statement, &formats, &values, &result_formats)
        }
        "Describe" | "Close" => {
            let kind = line.word().as_bytes()[0];
            // The first letters of their names are their messages'.
            frontend::target(name.as_bytes()[0], kind, &line.text())
        }
        "Execute" => frontend::execute(&line.text(), line.number() as i32),
        "Flush" => frontend::flush(),
        "Sync" => frontend::sync(),
        "Terminate" => frontend::terminate(),
        "CopyData" => frontend::message(b'd', &line.text_bytes()),
        "CopyDone" => frontend::message(b'c', &[]),
        "CopyFail" => frontend::message(b'f', &[line.text_bytes(), vec![0]].concat()),
        "FunctionCall" => frontend::message(b'F', &line.text_bytes()),
        "Password" => frontend::message(b'p', &[line.text_bytes(), vec![0]].concat()),
        // A letter and a body, whatever they are.
        "message" => frontend::message(line.word().as_bytes()[0], &line.text_bytes()),
        // Bytes that need not be a message.
        "bytes" => line.text_bytes(),
        other => panic!("no message of a client is called {other}"),
    }
}

/// Answers as a line `A …` says.
pub(crate) fn answer(connection: &mut Connection, line: &str) {
    let mut line = Line::new(line);
    let name = line.word();
    match name.as_str() {
        "accept" => {
            let key = anabranch_wire::BackendKey::new(line.number() as i32, SECRET);
            let mut words = Vec::new();
            for token in line.0.by_ref() {
                words.push(String::from_utf8(token.into_bytes()).unwrap());
            }
            let settings: Vec<(&str, &str)> = words
                .chunks(2)
                .map(|pair| (pair[0].as_str(), pair[1].as_str()))
                .collect();
            connection.accept(&settings, &key);
        }
        "ready" => connection.ready(match line.word().as_str() {
            "idle" => TransactionStatus::Idle,
            "open" => TransactionStatus::Open,
            "failed" => TransactionStatus::Failed,
            other => panic!("no status {other}"),
        }),
        "parse_complete" => connection.parse_complete(),
        "bind_complete" => connection.bind_complete(),
        "close_complete" => connection.close_complete(),
        "no_data" => connection.no_data(),
        "portal_suspended" => connection.portal_suspended(),
        "empty_query" => connection.empty_query(),
        "command_complete" => connection.command_complete(&line.text()),
        "parameter_status" => connection.parameter_status(&line.text(), &line.text()),
        "notification" => {
            let process = line.number() as i32;
            connection.notification(process, &line.text(), &line.text());
        }
        "parameter_description" => {
            let oids: Vec<u32> = line.numbers().map(|oid| oid as u32).collect();
            connection.parameter_description(&oids);
        }
        "row_description" => connection.row_description(&line.fields()),
        "row" => {
            let values = line.values();
            let mut row = connection.data_row(values.len());
            for value in values {
                match value {
                    None => row.buffer().put_i32(-1),
                    Some(bytes) => {
                        row.buffer().put_u32(bytes.len() as u32);
                        row.buffer().put_slice(&bytes);
                    }
                }
            }
            row.finish();
        }
        "row_given_up" => {
            let mut row = connection.data_row(2);
            row.buffer().put_u32(1);
            drop(row);
        }
        "copy_in" => {
            let format = Format::from_code(line.number() as i16).unwrap();
            connection.copy_in(format, line.number() as usize);
        }
        "copy_out" => {
            let format = Format::from_code(line.number() as i16).unwrap();
            connection.copy_out(format, line.number() as usize);
        }
        "copy_data" => {
            let data = line.text_bytes();
            let written = connection.copy_data(|out| {
                out.put_slice(&data);
                Ok::<(), ()>(())
            });
            written.unwrap();
        }
        "copy_done" => connection.copy_done(),
        "error" => connection.error(&line.error(Severity::Error)),
        "fatal" => connection.fatal(&line.error(Severity::Fatal)),
        "notice" => connection.notice(&line.error(Severity::Notice)),
        "warning" => connection.notice(&line.error(Severity::Warning)),
        other => panic!("no answer is called {other}"),
    }
}

impl Line {
    fn new(line: &str) -> Line {
        let mut characters = line.chars().peekable();
        Line(tokens(&mut characters).into_iter())
    }

    fn next(&mut self) -> Token {
        self.0.next().expect("another word in the line")
    }

    fn word(&mut self) -> String {
        match self.next() {
            Token::Word(word) => word,
            other => panic!("a word, not {other:?}"),
        }
    }

    fn number(&mut self) -> i64 {
        self.word().parse().expect("a number")
    }

    fn text_bytes(&mut self) -> Vec<u8> {
        self.next().into_bytes()
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.text_bytes()).expect("UTF-8; write others with `message`")
    }

    fn list(&mut self) -> Vec<Token> {
        match self.next() {
            Token::List(tokens) => tokens,
            other => panic!("a list, not {other:?}"),
        }
    }

    fn numbers(&mut self) -> impl Iterator<Item = i64> {
        self.list().into_iter().map(|token| match token {
            Token::Word(word) => word.parse().expect("a number"),
            other => panic!("a number, not {other:?}"),
        })
    }

    fn values(&mut self) -> Vec<Option<Vec<u8>>> {
        self.list()
            .into_iter()
            .map(|token| match token {
                Token::Word(word) if word == "null" => None,
                token => Some(token.into_bytes()),
            })
            .collect()
    }

    fn fields(&mut self) -> Vec<Field> {
        let mut fields = Vec::new();
        while let Some(Token::List(tokens)) = self.0.next() {
            let mut line = Line(tokens.into_iter());
            fields.push(Field {
                name: line.text(),
                type_oid: line.number() as u32,
                type_length: line.number() as i16,
                type_modifier: line.number() as i32,
                format: Format::from_code(line.number() as i16).unwrap(),
            });
        }
        fields
    }

    fn error(&mut self, severity: Severity) -> ErrorFields {
        let code: &'static str = self.word().leak();
        let mut error = ErrorFields {
            severity,
            ..ErrorFields::error(code, self.text())
        };
        while let Some(Token::Word(name)) = self.0.next() {
            if name == "position" {
                error.position = Some(self.number() as u32);
                continue;
            }
            let text = self.text();
            match name.as_str() {
                "detail" => error.detail = Some(text),
                "hint" => error.hint = Some(text),
                "context" => error.context = Some(text),
                "schema" => error.schema = Some(text),
                "table" => error.table = Some(text),
                "column" => error.column = Some(text),
                "data_type" => error.data_type = Some(text),
                "constraint" => error.constraint = Some(text),
                "routine" => error.routine = Some(text.leak()),
                other => panic!("no field {other}"),
            }
        }
        error
    }
}

impl Token {
    fn into_bytes(self) -> Vec<u8> {
        match self {
            Token::Text(bytes) => bytes,
            other => panic!("a text, not {other:?}"),
        }
    }
}

fn tokens(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Vec<Token> {
    let mut tokens = Vec::new();
    while let Some(character) = characters.next() {
        match character {
            ' ' => {}
            '"' => tokens.push(Token::Text(quoted(characters))),
            '[' => tokens.push(Token::List(self::tokens(characters))),
            ']' => return tokens,
            _ => {
                let mut word = String::from(character);
                while let Some(next) = characters.next_if(|next| !" []\"".contains(*next)) {
                    word.push(next);
                }
                tokens.push(Token::Word(word));
            }
        }
    }
    tokens
}

fn quoted(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        match characters.next().expect("the end of the text") {
            '"' => return bytes,
            '\\' => match characters.next().expect("an escape") {
                '0' => bytes.push(0),
                'n' => bytes.push(b'\n'),
                'x' => {
                    let digits: String = characters.by_ref().take(2).collect();
                    bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
                }
                other => bytes.push(u8::try_from(other).expect("an ASCII character")),
            },
            other => bytes.extend(other.to_string().as_bytes()),
        }
    }
}
