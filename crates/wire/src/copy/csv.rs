//! Lines of CSV.

use anabranch_types::EffectError;

use super::{
    CopyOptions, bad_format,
    lines::{Cut, Fields, LineEnd, line_end},
};

/// Cuts the first line; a quoted field may go over several.
pub(super) fn cut(
    data: &[u8],
    options: &CopyOptions,
    known: &mut Option<LineEnd>,
    is_end: bool,
) -> Result<Cut, EffectError> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let mut at = 0;
    while at < data.len() {
        let byte = data[at];
        // As PostgreSQL finds the end of a line: an escape before a quote keeps it from ending the field.
        if is_quoted && byte == options.escape && options.escape != options.quote {
            is_escaped = !is_escaped;
        } else if byte == options.quote && !is_escaped {
            is_quoted = !is_quoted;
        }
        if byte != options.escape {
            is_escaped = false;
        }
        if !is_quoted && matches!(byte, b'\n' | b'\r') {
            return match line_end(data, at, known, is_end) {
                None => Ok(Cut::Incomplete),
                Some(Ok(next)) => Ok(Cut::Line { end: at, next }),
                Some(Err(what)) => Err(bad_format(format!("unquoted {what} found in data"))),
            };
        }
        at += 1;
    }
    match (is_end, is_quoted) {
        (false, _) => Ok(Cut::Incomplete),
        (true, true) => Err(bad_format("unterminated CSV quoted field")),
        (true, false) => Ok(Cut::Line {
            end: data.len(),
            next: data.len(),
        }),
    }
}

/// The fields of a line.
pub(super) fn fields(line: &[u8], options: &CopyOptions) -> Fields {
    let mut fields: Fields = Vec::new();
    let mut bytes = line.iter().copied().peekable();
    loop {
        let mut field = Vec::new();
        let mut was_quoted = false;
        let mut is_quoted = false;
        let ended = loop {
            let Some(byte) = bytes.next() else {
                break true;
            };
            if is_quoted {
                let escapes = |next: &u8| *next == options.escape || *next == options.quote;
                if byte == options.escape
                    && let Some(next) = bytes.next_if(escapes)
                {
                    field.push(next);
                } else if byte == options.quote {
                    is_quoted = false;
                } else {
                    field.push(byte);
                }
            } else if byte == options.delimiter {
                break false;
            } else if byte == options.quote {
                is_quoted = true;
                was_quoted = true;
            } else {
                field.push(byte);
            }
        };
        let column = fields.len();
        let may_be_null = match was_quoted {
            true => options.force_null.contains(&column),
            false => !options.force_not_null.contains(&column),
        };
        let is_null = may_be_null && field == options.null.as_bytes();
        fields.push((!is_null).then_some(field));
        if ended {
            return fields;
        }
    }
}
