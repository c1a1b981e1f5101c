//! Concatenates and formats folded texts, and turns them into statements: placeholders become `$n`, and the values
//! bound to them become parameters.

use std::sync::Arc;

use anabranch_sql::script::{ClientStatement, Placeholder, substitute};

use crate::value::{
    ALTERNATIVES_MAX, FoldedText, PIECES_MAX, Piece, Scalar, TEXT_MAX, deduplicated,
};

/// Concatenates each alternative of `left` with each of `right`.
///
/// # Errors
/// `left` unchanged, if the result has too many alternatives or pieces.
pub(crate) fn concat(
    mut left: Vec<FoldedText>,
    right: &[FoldedText],
) -> Result<Vec<FoldedText>, Vec<FoldedText>> {
    let too_many = left.len() * right.len() > ALTERNATIVES_MAX;
    let pieces = |of: &[FoldedText]| of.iter().map(|text| text.pieces.len()).max().unwrap_or(0);
    if too_many || pieces(&left) + pieces(right) > PIECES_MAX {
        return Err(left);
    }
    if let ([a], [b]) = (left.as_mut_slice(), right) {
        a.pieces.extend(b.pieces.iter().cloned());
        return Ok(left);
    }
    let mut found = Vec::new();
    for a in &left {
        for b in right {
            let mut pieces = a.pieces.clone();
            pieces.extend(b.pieces.iter().cloned());
            found.push(FoldedText { pieces });
        }
    }
    Ok(found)
}

/// The union of two sets of alternatives; `None` if it is too large.
pub(crate) fn either(left: &[FoldedText], right: &[FoldedText]) -> Option<Vec<FoldedText>> {
    let mut found = left.to_vec();
    for text in right {
        if !found.contains(text) {
            found.push(text.clone());
        }
    }
    (found.len() <= ALTERNATIVES_MAX).then_some(found)
}

/// The notation of a format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `%s`, `%d`, `%05.2f`, `%v`, `%1$s`, `%(name)s`.
    Percent,
    /// `{}`, `{0}`, `{name}`.
    Braces,
}

/// Replaces the fields of a format string by values. `value` receives the field's index, its name, and whether only a
/// number can stand there.
pub(crate) fn format(
    text: &FoldedText,
    format: Format,
    mut value: impl FnMut(usize, Option<&str>, bool) -> Vec<Piece>,
) -> FoldedText {
    let mut out = FoldedText::default();
    let mut number = 0;
    for piece in &text.pieces {
        let Piece::Text { file, text, places } = piece else {
            out.pieces.push(piece.clone());
            continue;
        };
        let mut done = 0;
        let known = |from: usize, to: usize, out: &mut FoldedText| {
            if from < to {
                out.pieces.push(Piece::Text {
                    file: *file,
                    text: text[from..to].into(),
                    places: places[from..to].into(),
                });
            }
        };
        while let Some(offset) = text[done..].find(['%', '{', '}']) {
            let at = done + offset;
            let rest = &text[at..];
            let place = match format {
                Format::Percent => percent(rest),
                Format::Braces => braces(rest),
            };
            match place {
                Some(FormatField::Value {
                    length,
                    name,
                    index,
                    is_number,
                }) => {
                    known(done, at, &mut out);
                    let index = index.unwrap_or(number);
                    number += 1;
                    out.pieces.extend(value(index, name, is_number));
                    done = at + length;
                }
                Some(FormatField::Escaped) => {
                    known(done, at + 1, &mut out);
                    done = at + 2;
                }
                None => {
                    known(done, at + 1, &mut out);
                    done = at + 1;
                }
            }
        }
        known(done, text.len(), &mut out);
    }
    out
}

enum FormatField<'t> {
    Value {
        length: usize,
        name: Option<&'t str>,
        index: Option<usize>,
        is_number: bool,
    },
    Escaped,
}

fn percent(rest: &str) -> Option<FormatField<'_>> {
    let mut inside = rest.strip_prefix('%')?;
    if inside.starts_with('%') {
        return Some(FormatField::Escaped);
    }
    let (mut name, mut index) = (None, None);
    if let Some(named) = inside.strip_prefix('(') {
        let end = named.find(')')?;
        name = Some(&named[..end]);
        inside = &named[end + 1..];
    }
    let digits = inside.len()
        - inside
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    if digits > 0 && inside[digits..].starts_with('$') {
        index = inside[..digits]
            .parse::<usize>()
            .ok()
            .and_then(|n| n.checked_sub(1));
        inside = &inside[digits + 1..];
    }
    let inside = inside.trim_start_matches(|c: char| {
        c.is_ascii_digit() || matches!(c, '-' | '+' | '#' | '.' | ',')
    });
    let letter = inside.chars().next()?;
    let is_number = matches!(letter, 'd' | 'i' | 'f' | 'F' | 'u' | 'e' | 'g');
    matches!(
        letter,
        's' | 'v' | 'q' | 'r' | 'd' | 'i' | 'f' | 'F' | 'u' | 'e' | 'g' | 'n'
    )
    .then(|| FormatField::Value {
        length: rest.len() - inside.len() + 1,
        name,
        index,
        is_number,
    })
}

fn braces(rest: &str) -> Option<FormatField<'_>> {
    if rest.starts_with("{{") || rest.starts_with("}}") {
        return Some(FormatField::Escaped);
    }
    let end = rest.strip_prefix('{')?.find('}')?;
    let inside = &rest[1..=end];
    let (name, shape) = inside.split_once(':').unwrap_or((inside, ""));
    let name = name.split('!').next().unwrap_or(name);
    Some(FormatField::Value {
        length: end + 2,
        name: (!name.is_empty() && name.parse::<usize>().is_err()).then_some(name),
        index: name.parse().ok(),
        is_number: shape.ends_with('d'),
    })
}

/// The value that a placeholder stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlaceholderValue<'t> {
    /// The bound value with this index, from 0.
    Position(usize),
    Named(&'t str),
    /// The value in a hole of the text.
    Hole(&'t Scalar),
}

/// Turns a text into a statement. `file` and `place` are the position where it runs, which pieces from another file
/// take on. `number` gives the parameter for a placeholder; `percent_is_value` says whether `%s` is a placeholder.
///
/// # Errors
/// The first hole that is not known to be a value.
pub(crate) fn statement(
    folded: &FoldedText,
    file: usize,
    place: u32,
    percent_is_value: bool,
    mut number: impl FnMut(PlaceholderValue<'_>) -> String,
) -> Result<ClientStatement, Scalar> {
    if folded.length() > TEXT_MAX {
        return Err(Scalar {
            id: 0,
            shown: "it is too long".into(),
            loops: 0,
            read: Arc::default(),
            number: false,
            database: false,
            minus: None,
        });
    }
    let (text, places, holes) = with_markers(folded, file, place);
    let (text, places, quoted) = close_quotes(&text, &places);
    for (at, (value, sure)) in holes.iter().enumerate() {
        let is_quoted = quoted.iter().any(|(_, inside)| inside.contains(&at));
        if !sure && !is_quoted {
            return Err(value.clone());
        }
    }
    let (text, places) = match percent_is_value {
        true => without_percent(&text, &places),
        false => (text, places),
    };
    let last = places.last().map_or(place, |at| at + 1);
    let mut next = 0;
    let (text, places) = substitute(
        &text,
        |at| places.get(at).copied().unwrap_or(last),
        |placeholder| match placeholder {
            Placeholder::Dollar(n) | Placeholder::Question(Some(n)) => {
                let position = n.parse::<usize>().unwrap_or(usize::MAX);
                number(PlaceholderValue::Position(position.wrapping_sub(1)))
            }
            Placeholder::Question(None) => {
                next += 1;
                number(PlaceholderValue::Position(next - 1))
            }
            Placeholder::Named(_, name) => {
                let at = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
                if let Some((value, _)) = at(HOLE).and_then(|at| holes.get(at)) {
                    return number(PlaceholderValue::Hole(value));
                }
                if let Some((text, inside)) = at(QUOTED).and_then(|at| quoted.get(at)) {
                    let value = joined(text, inside, &holes);
                    return number(PlaceholderValue::Hole(&value));
                }
                if name.starts_with(PERCENT) {
                    return number(PlaceholderValue::Position(
                        at(PERCENT).unwrap_or(usize::MAX),
                    ));
                }
                number(PlaceholderValue::Named(name))
            }
        },
    );
    Ok(ClientStatement {
        text,
        places,
        file,
        finds_none: false,
    })
}

/// A hole, and whether it is certainly a value.
type MarkedHole = (Scalar, bool);

/// The text of a statement with a marker for each hole, the offset of each byte, and the holes.
fn with_markers(
    folded: &FoldedText,
    file: usize,
    place: u32,
) -> (String, Vec<u32>, Vec<MarkedHole>) {
    let mut text = String::new();
    let mut places: Vec<u32> = Vec::new();
    let mut holes: Vec<MarkedHole> = Vec::new();
    for piece in &folded.pieces {
        match piece {
            Piece::Text {
                file: of,
                text: known,
                places: own,
            } => {
                text.push_str(known);
                match *of == file {
                    true => places.extend(own.iter()),
                    false => places.extend(std::iter::repeat_n(place, known.len())),
                }
            }
            Piece::Hole {
                value,
                file: of,
                place: own,
                bound,
            } => {
                let marker = marker(holes.len());
                let own = if *of == file { *own } else { place };
                places.extend(std::iter::repeat_n(own, marker.len()));
                text.push_str(&marker);
                holes.push((value.clone(), *bound || value.number));
            }
        }
    }
    (text, places, holes)
}

const HOLE: &str = "anabranch_hole_";
const QUOTED: &str = "anabranch_quoted_";
const PERCENT: &str = "anabranch_percent_";

fn marker(hole: usize) -> String {
    format!(" :{HOLE}{hole} ")
}

/// The number of the hole with its marker here, and the marker's length.
fn marker_at(rest: &str) -> Option<(usize, usize)> {
    let after = rest.strip_prefix(" :")?.strip_prefix(HOLE)?;
    let digits = after.find(' ')?;
    let number = after[..digits].parse().ok()?;
    Some((number, rest.len() - after.len() + digits + 1))
}

/// A quoted SQL string and the holes in it.
type Quoted = (String, Vec<usize>);

/// Replaces each quoted string with holes by one placeholder: quotes around a hole mean a single value.
fn close_quotes(text: &str, places: &[u32]) -> (String, Vec<u32>, Vec<Quoted>) {
    let mut out = String::new();
    let mut out_places = Vec::new();
    let mut found: Vec<Quoted> = Vec::new();
    let mut open: Option<(usize, usize, Vec<usize>)> = None;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = rest.chars().next().map_or(1, char::len_utf8);
        if let Some((hole, length)) = marker_at(rest) {
            if let Some((_, _, holes)) = &mut open {
                holes.push(hole);
            }
            out.push_str(&rest[..length]);
            out_places.extend(&places[at..at + length]);
            at += length;
            continue;
        }
        out.push_str(&rest[..length]);
        out_places.extend(&places[at..at + length]);
        at += length;
        if rest.starts_with('\'') {
            match open.take() {
                None => open = Some((out.len() - 1, at - 1, Vec::new())),
                Some((start, from, holes)) if !holes.is_empty() => {
                    let place = places[from];
                    let placeholder = format!(":{QUOTED}{}", found.len());
                    out.truncate(start);
                    out_places.truncate(start);
                    out_places.extend(std::iter::repeat_n(place, placeholder.len()));
                    out.push_str(&placeholder);
                    found.push((text[from..at].to_owned(), holes));
                }
                Some(_) => {}
            }
        }
    }
    (out, out_places, found)
}

/// The value of a quoted string with holes.
fn joined(text: &str, inside: &[usize], holes: &[(Scalar, bool)]) -> Scalar {
    let mut shown = text.to_owned();
    for hole in inside {
        if let Some((value, _)) = holes.get(*hole) {
            shown = shown.replace(&marker(*hole), &value.shown);
        }
    }
    let of = inside
        .iter()
        .filter_map(|hole| holes.get(*hole))
        .map(|(value, _)| value);
    let whole = shown.trim_matches('\'');
    let alone = of.clone().count() == 1 && of.clone().any(|value| &*value.shown == whole);
    match of.clone().next() {
        Some(value) if alone => value.clone(),
        first => Scalar {
            // A new identity: the value differs from that in the hole.
            id: first.map_or(u32::MAX, |value| u32::MAX - value.id),
            shown: shown.into(),
            loops: of.clone().map(|value| value.loops).max().unwrap_or(0),
            read: deduplicated(of.flat_map(|value| value.read.iter().cloned()).collect()).into(),
            number: false,
            database: false,
            minus: None,
        },
    }
}

/// Rewrites `%s` and `%(name)s` as placeholders, and `%%` as `%`.
fn without_percent(text: &str, places: &[u32]) -> (String, Vec<u32>) {
    let mut out = String::new();
    let mut out_places = Vec::new();
    let (mut at, mut count, mut quoted) = (0, 0, false);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with('\'') {
            quoted = !quoted;
        }
        let (written, length) = match percent(rest) {
            Some(FormatField::Escaped) => ("%".to_owned(), 2),
            Some(FormatField::Value { length, name, .. }) if !quoted => {
                let name = match name {
                    Some(name) => format!(":{name}"),
                    None => {
                        count += 1;
                        format!(":{PERCENT}{}", count - 1)
                    }
                };
                (name, length)
            }
            _ => {
                let c = rest.chars().next().unwrap_or(' ');
                (c.to_string(), c.len_utf8())
            }
        };
        out_places.extend(std::iter::repeat_n(places[at], written.len()));
        out.push_str(&written);
        at += length;
    }
    (out, out_places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Literal;

    fn known(text: &str) -> FoldedText {
        FoldedText::known(
            0,
            &Literal {
                text: text.into(),
                places: (0..text.len() as u32).collect(),
            },
        )
    }

    fn scalar(id: u32, shown: &str, number: bool) -> Scalar {
        Scalar {
            id,
            shown: shown.into(),
            loops: 0,
            read: Arc::default(),
            number,
            database: false,
            minus: None,
        }
    }

    fn as_statement(folded: &FoldedText, percent: bool) -> Result<(String, Vec<String>), String> {
        let mut placeholders = Vec::new();
        let statement = statement(folded, 0, 0, percent, |a| {
            placeholders.push(match a {
                PlaceholderValue::Position(n) => format!("#{n}"),
                PlaceholderValue::Named(name) => name.to_owned(),
                PlaceholderValue::Hole(value) => value.shown.to_string(),
            });
            format!("${}", placeholders.len())
        });
        let statement = statement.map_err(|value| value.shown.to_string())?;
        assert_eq!(statement.text.len() + 1, statement.places.len());
        Ok((statement.text, placeholders))
    }

    #[test]
    fn placeholders_of_every_kind_are_numbered() {
        let sql = known("SELECT ? , $3, :name, '?', %s FROM `t`");
        let (text, placeholders) = as_statement(&sql, false).unwrap();
        assert_eq!(text, "SELECT $1 , $2, $3, '?', %s FROM \"t\"");
        assert_eq!(placeholders, ["#0", "#2", "name"]);
        let sql = known("UPDATE t SET a = %s, b = %(b)s WHERE c LIKE '10%%' AND d % %s = 1");
        let (text, placeholders) = as_statement(&sql, true).unwrap();
        assert_eq!(
            text,
            "UPDATE t SET a = $1, b = $2 WHERE c LIKE '10%' AND d % $3 = 1"
        );
        assert_eq!(placeholders, ["#0", "b", "#1"]);
    }

    #[test]
    fn a_hole_is_a_value_where_that_is_certain_alone() {
        let with = |value: Scalar, before: &str, after: &str| {
            let mut text = known(before);
            text.pieces.extend(FoldedText::hole(value, 0, 7).pieces);
            text.pieces.extend(known(after).pieces);
            as_statement(&text, false)
        };
        let (text, placeholders) = with(
            scalar(1, "n", true),
            "SELECT a FROM t WHERE b = ",
            " LIMIT 1",
        )
        .unwrap();
        assert_eq!(
            (text.replace("  ", " ").as_str(), placeholders[0].as_str()),
            ("SELECT a FROM t WHERE b = $1 LIMIT 1", "n")
        );
        let (text, placeholders) = with(
            scalar(1, "who", false),
            "SELECT a FROM t WHERE b = '",
            "' AND c = 1",
        )
        .unwrap();
        assert_eq!(
            (text.as_str(), placeholders[0].as_str()),
            ("SELECT a FROM t WHERE b = $1 AND c = 1", "who")
        );
        let (_, placeholders) = with(
            scalar(1, "who", false),
            "SELECT a FROM t WHERE b LIKE '%",
            "%'",
        )
        .unwrap();
        assert_eq!(placeholders, ["'%who%'"]);
        assert_eq!(
            with(scalar(1, "table", false), "SELECT a FROM ", ""),
            Err("table".to_owned())
        );
        assert_eq!(
            with(
                scalar(1, "rest", false),
                "SELECT 'a' FROM t WHERE ",
                " = 'b'"
            ),
            Err("rest".to_owned())
        );
    }

    #[test]
    fn formats_put_values_where_they_go() {
        let put = |text: &str, of: Format| {
            let value = |n: usize, name: Option<&str>, number: bool| {
                let shown = format!(
                    "<{n}{}{}>",
                    name.unwrap_or(""),
                    if number { "#" } else { "" }
                );
                known(&shown).pieces
            };
            format(&known(text), of, value).shown()
        };
        assert_eq!(
            put("a %s b %d 100%% %2$s", Format::Percent),
            "a <0> b <1#> 100% <1>"
        );
        assert_eq!(put("%(who)s %-10v %z", Format::Percent), "<0who> <1> %z");
        assert_eq!(
            put("a {} {0} {who} {{x}} {n:d}", Format::Braces),
            "a <0> <0> <2who> {x} <3n#>"
        );
    }
}
