//! Lines of the text format.

use anabranch_types::EffectError;

use super::{
    CopyOptions, bad_format,
    lines::{Cut, Fields, LineEnd, line_end},
};

/// Cuts the first line.
pub(super) fn cut(
    data: &[u8],
    known: &mut Option<LineEnd>,
    is_end: bool,
) -> Result<Cut, EffectError> {
    let mut at = 0;
    while at < data.len() {
        match data[at] {
            // What follows is part of the line, whatever it is.
            b'\\' if at + 1 < data.len() => at += 2,
            b'\\' if !is_end => return Ok(Cut::Incomplete),
            b'\n' | b'\r' => match line_end(data, at, known, is_end) {
                None => return Ok(Cut::Incomplete),
                Some(Ok(next)) => return Ok(Cut::Line { end: at, next }),
                Some(Err(what)) => return Err(literal(what)),
            },
            _ => at += 1,
        }
    }
    match is_end {
        true => Ok(Cut::Line {
            end: data.len(),
            next: data.len(),
        }),
        false => Ok(Cut::Incomplete),
    }
}

fn literal(what: &str) -> EffectError {
    bad_format(format!("literal {what} found in data"))
}

/// The fields of a line.
pub(super) fn fields(line: &[u8], options: &CopyOptions) -> Fields {
    let mut fields = Vec::new();
    let mut start = 0;
    let mut at = 0;
    loop {
        match line.get(at) {
            Some(b'\\') => at += 2,
            Some(byte) if *byte != options.delimiter => at += 1,
            found => {
                let raw = &line[start..at.min(line.len())];
                fields.push((raw != options.null.as_bytes()).then(|| unescaped(raw)));
                if found.is_none() {
                    return fields;
                }
                at += 1;
                start = at;
            }
        }
    }
}

fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(byte) = bytes.next() else {
            out.push(b'\\');
            break;
        };
        out.push(match byte {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    match bytes.next_if(|next| (b'0'..=b'7').contains(next)) {
                        Some(digit) => code = code << 3 | u32::from(digit - b'0'),
                        None => break,
                    }
                }
                (code & 0xff) as u8
            }
            b'x' if bytes.peek().is_some_and(u8::is_ascii_hexdigit) => {
                let mut code = 0;
                for _ in 0..2 {
                    match bytes.next_if(u8::is_ascii_hexdigit) {
                        Some(digit) => {
                            let digit = char::from(digit).to_digit(16).unwrap_or_default();
                            code = code << 4 | digit;
                        }
                        None => break,
                    }
                }
                code as u8
            }
            other => other,
        });
    }
    out
}
