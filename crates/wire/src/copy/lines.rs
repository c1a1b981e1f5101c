//! Lines: what text and CSV have in common.

/// What ends a line: the first line's end is every line's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    Newline,
    Return,
    Both,
}

/// A field of a line; `None` is NULL.
pub(super) type Fields = Vec<Option<Vec<u8>>>;

/// A line that was cut out of the data.
pub(super) enum Cut {
    /// It ends at this place, behind its end at the other one.
    Line { end: usize, next: usize },
    /// More data has to come.
    Incomplete,
}

/// Where a line ends whose end begins at `at`; `None` if the next byte has to be seen.
pub(super) fn line_end(
    data: &[u8],
    at: usize,
    known: &mut Option<LineEnd>,
    is_end: bool,
) -> Option<Result<usize, &'static str>> {
    let found = match (data[at], data.get(at + 1)) {
        (b'\n', _) => LineEnd::Newline,
        (_, Some(b'\n')) => LineEnd::Both,
        (_, None) if !is_end => return None,
        _ => LineEnd::Return,
    };
    let known = *known.get_or_insert(found);
    if known == found {
        return Some(Ok(if found == LineEnd::Both {
            at + 2
        } else {
            at + 1
        }));
    }
    Some(Err(match found {
        LineEnd::Newline => "newline",
        LineEnd::Return | LineEnd::Both => "carriage return",
    }))
}
