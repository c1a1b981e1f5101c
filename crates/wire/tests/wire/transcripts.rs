//! Golden transcripts: `transcripts/*.txt`, a conversation each. `UPDATE_TRANSCRIPTS=1` rewrites them.
//!
//! | line | meaning |
//! |---|---|
//! | `# …` | a remark |
//! | `F …` | the client sends a message, whose bytes stand below |
//! | `A …` | the owner of the connection answers |
//! | `R …` | the request that the connection gives to its owner |
//! | `B …` | the connection sends a message, whose bytes stand below |
//! | `closing` | the connection closes |
//!
//! `F` and `A` are read; the others are written, and compared.
//!
//! PostgreSQL 15 answers what clients send here with the same messages, SQLSTATEs and texts, but for these:
//!
//! | message | PostgreSQL 15 | here |
//! |---|---|---|
//! | an invalid length | closes without a word | tells why, then closes |
//! | a user's name that is not UTF-8 | looks for the user (28000) | 22021 |
//! | an unknown result format | 22023 once it encodes a value | 22023 at Bind |
//! | a Bind that its frame contradicts, of an unknown statement | 26000 | 08P01 |
//! | FunctionCall | calls | 0A000 |

use std::{env, fmt::Write, fs, path::Path};

use anabranch_wire::{Connection, Limits};

use crate::{backend, script};

#[test]
fn every_transcript_is_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/transcripts");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() > 5, "transcripts are there");
    let mut differing = String::new();
    for path in paths {
        let expected = fs::read_to_string(&path).unwrap();
        let found = run(&expected);
        if env::var_os("UPDATE_TRANSCRIPTS").is_some() {
            fs::write(&path, &found).unwrap();
        } else if found != expected {
            let lines = expected.lines().zip(found.lines());
            let (number, (left, right)) = lines
                .enumerate()
                .find(|(_, (left, right))| left != right)
                .unwrap_or((expected.lines().count(), ("its end", "more or fewer lines")));
            let name = path.file_name().unwrap().to_string_lossy();
            writeln!(
                differing,
                "{name}:{}:\n  expected {left}\n  found    {right}",
                number + 1
            )
            .unwrap();
        }
    }
    assert!(
        differing.is_empty(),
        "UPDATE_TRANSCRIPTS=1 accepts what is found:\n{differing}"
    );
}

/// The transcript with what is written in it written anew.
fn run(transcript: &str) -> String {
    let mut run = Run {
        connection: Connection::new(Limits::default()),
        out: String::new(),
        has_begun: false,
        is_closing: false,
    };
    for line in transcript.lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("F", words) => {
                let bytes = script::client_bytes(words);
                run.line(line, &bytes);
                run.connection.receive(&bytes);
                run.advance();
            }
            ("A", words) => {
                run.line(line, &[]);
                script::answer(&mut run.connection, words);
                run.advance();
            }
            ("#" | "", _) if !line.starts_with(' ') => run.line(line, &[]),
            _ => {}
        }
    }
    run.out
}

struct Run {
    connection: Connection,
    out: String,
    /// Whether a message with a length has been sent.
    has_begun: bool,
    is_closing: bool,
}

impl Run {
    /// Writes what the connection does with what it has.
    fn advance(&mut self) {
        loop {
            let request = self.connection.next_request();
            let bytes = self.connection.output().to_vec();
            let messages = backend::read(&bytes, self.has_begun).expect("messages of a server");
            for message in &messages {
                self.has_begun |= message.bytes.len() > 1;
                self.line(&format!("B {}", message.text), &message.bytes);
            }
            self.connection.sent(bytes.len());
            match request {
                Some(request) => self.line(&format!("R {request:?}"), &[]),
                None => break,
            }
        }
        if self.connection.is_closing() && !std::mem::replace(&mut self.is_closing, true) {
            self.line("closing", &[]);
        }
    }

    /// Writes a line, and bytes below it.
    fn line(&mut self, line: &str, bytes: &[u8]) {
        self.out.push_str(line);
        self.out.push('\n');
        for (number, row) in bytes.chunks(16).enumerate() {
            if number == 8 {
                writeln!(self.out, "      … {} bytes", bytes.len()).unwrap();
                break;
            }
            let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            let characters: String = row
                .iter()
                .map(|byte| {
                    if byte.is_ascii_graphic() {
                        *byte as char
                    } else {
                        '.'
                    }
                })
                .collect();
            writeln!(self.out, "      {:47}  {characters}", digits.join(" ")).unwrap();
        }
    }
}
