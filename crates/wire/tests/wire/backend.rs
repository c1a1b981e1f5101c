//! Reads what a server sends, as strictly as the protocol is written: every message has its length, every text its end,
//! and nothing is left.

use std::fmt::Write;

/// A message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its letter; `n/a` messages of the start have none: see [`read`].
    pub(crate) letter: u8,
    /// All of its bytes.
    pub(crate) bytes: Vec<u8>,
    /// Its name and fields.
    pub(crate) text: String,
}

/// Reads messages up to the end of the bytes. Before the first message, `N` alone answers a request for encryption, and
/// an error may have the form of protocol 2: neither has a length. `has_begun` tells whether a message came before.
pub(crate) fn read(bytes: &[u8], mut has_begun: bool) -> Result<Vec<Message>, String> {
    let mut messages = Vec::new();
    let mut rest = bytes;
    while let [letter, behind @ ..] = rest {
        let (length, text) = if !has_begun && *letter == b'N' {
            (1, "encryption refused".to_owned())
        } else if !has_begun && rest.starts_with(b"EFATAL:  ") {
            let end = behind.iter().position(|byte| *byte == 0).ok_or("no end")?;
            let line = String::from_utf8(behind[..end].to_vec()).map_err(|_| "not UTF-8")?;
            (end + 2, format!("error of protocol 2 {line:?}"))
        } else {
            has_begun = true;
            let head = behind.get(..4).ok_or("no length")?;
            let length = u32::from_be_bytes(head.try_into().unwrap()) as usize;
            let body = behind.get(4..length).ok_or_else(|| {
                format!(
                    "{:?} of {length} bytes, of which {} are there",
                    *letter as char,
                    behind.len()
                )
            })?;
            if is_short(*letter) && length > 30_000 {
                return Err(format!("{:?} of {length} bytes", *letter as char));
            }
            let mut fields = Fields(body);
            let text = fields.describe(*letter)?;
            if !fields.0.is_empty() {
                return Err(format!("{text} and {:?}", fields.0));
            }
            (length + 1, text)
        };
        messages.push(Message {
            letter: *letter,
            bytes: rest[..length].to_vec(),
            text,
        });
        rest = &rest[length..];
    }
    Ok(messages)
}

/// Messages that libpq takes for a lost connection if they are long.
fn is_short(letter: u8) -> bool {
    !b"TDdVENAt".contains(&letter)
}

struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("too short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_be_bytes(self.take(2)?.try_into().unwrap()))
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_be_bytes(self.take(4)?.try_into().unwrap()))
    }

    fn i32(&mut self) -> Result<i32, String> {
        Ok(self.u32()? as i32)
    }

    fn text(&mut self) -> Result<String, String> {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .ok_or("a text without end")?;
        let text = self.take(end)?.to_vec();
        self.take(1)?;
        String::from_utf8(text).map_err(|_| "a text that is not UTF-8".to_owned())
    }

    /// The message's name and fields.
    fn describe(&mut self, letter: u8) -> Result<String, String> {
        let mut out = String::new();
        match letter {
            b'1' => out.push_str("ParseComplete"),
            b'2' => out.push_str("BindComplete"),
            b'3' => out.push_str("CloseComplete"),
            b'n' => out.push_str("NoData"),
            b's' => out.push_str("PortalSuspended"),
            b'I' => out.push_str("EmptyQueryResponse"),
            b'R' => match self.u32()? {
                0 => out.push_str("AuthenticationOk"),
                other => return Err(format!("authentication {other}")),
            },
            b'S' => write!(out, "ParameterStatus {:?} {:?}", self.text()?, self.text()?).unwrap(),
            b'A' => {
                let (process, channel, payload) = (self.i32()?, self.text()?, self.text()?);
                write!(
                    out,
                    "NotificationResponse {process} {channel:?} {payload:?}"
                )
                .unwrap();
            }
            b'K' => {
                write!(out, "BackendKeyData {}", self.i32()?).unwrap();
                let secret = self.take(self.0.len())?;
                if ![4, 32].contains(&secret.len()) {
                    return Err(format!("a secret of {} bytes", secret.len()));
                }
                write!(out, " {}", hex(secret)).unwrap();
            }
            b'v' => {
                let version = self.u32()?;
                write!(
                    out,
                    "NegotiateProtocolVersion {}.{}",
                    version >> 16,
                    version & 0xffff
                )
                .unwrap();
                for _ in 0..self.u32()? {
                    write!(out, " {:?}", self.text()?).unwrap();
                }
            }
            b'Z' => match self.take(1)? {
                b"I" => out.push_str("ReadyForQuery idle"),
                b"T" => out.push_str("ReadyForQuery open"),
                b"E" => out.push_str("ReadyForQuery failed"),
                other => return Err(format!("ready {other:?}")),
            },
            b'C' => write!(out, "CommandComplete {:?}", self.text()?).unwrap(),
            b'E' | b'N' => {
                out.push_str(if letter == b'E' {
                    "ErrorResponse"
                } else {
                    "NoticeResponse"
                });
                let mut seen = String::new();
                loop {
                    match self.take(1)? {
                        [0] => break,
                        [field] => {
                            seen.push(*field as char);
                            write!(out, " {}{:?}", *field as char, self.text()?).unwrap();
                        }
                        _ => unreachable!(),
                    }
                }
                if !seen.starts_with("SVCM") {
                    return Err(format!("fields {seen}"));
                }
            }
            b't' => {
                out.push_str("ParameterDescription");
                for _ in 0..self.u16()? {
                    write!(out, " {}", self.u32()?).unwrap();
                }
            }
            b'G' | b'H' => {
                out.push_str(if letter == b'G' {
                    "CopyInResponse"
                } else {
                    "CopyOutResponse"
                });
                write!(out, " {}", self.take(1)?[0]).unwrap();
                for _ in 0..self.u16()? {
                    write!(out, " {}", self.u16()?).unwrap();
                }
            }
            b'd' => {
                let data = self.take(self.0.len())?;
                write!(out, "CopyData \"{}\"", data.escape_ascii()).unwrap();
            }
            b'c' => out.push_str("CopyDone"),
            b'T' => {
                out.push_str("RowDescription");
                for _ in 0..self.u16()? {
                    let name = self.text()?;
                    let (table, column, oid) = (self.u32()?, self.u16()?, self.u32()?);
                    let (length, modifier) = (self.u16()? as i16, self.i32()?);
                    let format = self.u16()?;
                    write!(
                        out,
                        " [{name:?} {table}.{column} {oid} {length} {modifier} {format}]"
                    )
                    .unwrap();
                }
            }
            b'D' => {
                out.push_str("DataRow");
                for _ in 0..self.u16()? {
                    match self.i32()? {
                        -1 => out.push_str(" null"),
                        length => {
                            let bytes =
                                self.take(usize::try_from(length).map_err(|_| "a length")?)?;
                            write!(out, " \"{}\"", bytes.escape_ascii()).unwrap();
                        }
                    }
                }
            }
            other => return Err(format!("an unknown message {:?}", other as char)),
        }
        Ok(out)
    }
}

/// Bytes as pairs of hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
