//! Weights of transaction types from the call counts of `pg_stat_statements`, live or as a CSV file of its columns
//! `query` and `calls`.
//!
//! A query that only calls a routine counts for the routine. Any other query counts for each transaction type of a
//! client that has a statement of the same text, except for constants, placeholders, white space and the case of
//! letters. A type with several statements has the count of the one that ran most often.

use std::collections::BTreeMap;

use anabranch_analysis::WEIGHT_MAX;
use anabranch_sql::script::Script;

/// A query and the number of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) calls: u64,
}

/// Parses a CSV file with a header line that has the columns `query` and `calls`.
///
/// # Errors
/// When the text is not such a file; the message says why.
pub(crate) fn parse(text: &str) -> Result<Vec<Query>, String> {
    let mut records = records(text)?.into_iter();
    let names = records.next().unwrap_or_default();
    let at = |name: &str| {
        let place = names
            .iter()
            .position(|n| n.trim().eq_ignore_ascii_case(name));
        place.ok_or_else(|| {
            format!(
                "neither a JSON object nor CSV with the columns query and calls: its first line has no {name}"
            )
        })
    };
    let (query, calls) = (at("query")?, at("calls")?);
    let mut found = Vec::new();
    for (number, record) in records.enumerate() {
        let field = |at: usize| record.get(at).map_or("", String::as_str);
        let Ok(calls) = field(calls).trim().parse() else {
            return Err(format!(
                "the calls of record {} are not a whole number: {:?}",
                number + 2,
                field(calls)
            ));
        };
        let text = field(query).to_owned();
        found.push(Query { text, calls });
    }
    Ok(found)
}

/// The records of a CSV file (RFC 4180).
fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut records = Vec::new();
    let (mut record, mut field) = (Vec::new(), String::new());
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' if quoted || field.is_empty() => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted && characters.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    if quoted {
        return Err("a quoted field is never closed".to_owned());
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    records.retain(|record: &Vec<String>| record.iter().any(|field| !field.is_empty()));
    Ok(records)
}

/// The weights of transaction types by these queries, and the number of queries that belong to no type.
pub(crate) fn weights(queries: &[Query], script: &Script) -> (BTreeMap<String, u64>, usize) {
    let mut of_routines: BTreeMap<String, u64> = BTreeMap::new();
    let mut of_texts: BTreeMap<String, u64> = BTreeMap::new();
    for query in queries {
        let (map, key) = match called(&query.text) {
            Some(routine) if script.summaries.iter().any(|s| s.name == routine) => {
                (&mut of_routines, routine)
            }
            _ => (&mut of_texts, normal(&query.text)),
        };
        let calls = map.entry(key).or_default();
        *calls = calls.saturating_add(query.calls);
    }
    let files = &script.application.catalog().files;
    let slice = |span: anabranch_sql::Span| {
        files
            .get(usize::from(span.file))
            .map_or("", |file| file.slice(span))
    };
    let mut matched = std::collections::BTreeSet::new();
    let mut weights = BTreeMap::new();
    for summary in &script.summaries {
        let mut weight = of_routines.get(&summary.name).copied();
        // A routine's statements are not a client's.
        if !normal(slice(summary.span)).starts_with("create") {
            let spans = summary.statements.iter().map(|s| s.span);
            for span in spans.chain([summary.span]) {
                let text = normal(slice(span));
                if let Some(calls) = of_texts.get(&text) {
                    weight = weight.max(Some(*calls));
                    matched.insert(text);
                }
            }
        }
        if let Some(weight) = weight {
            weights.insert(summary.name.clone(), weight);
        }
    }
    let most = weights.values().copied().max().unwrap_or(0);
    let scale = most.div_ceil(WEIGHT_MAX).max(1);
    for weight in weights.values_mut() {
        // Rounded up, so that each type that ran has a weight.
        *weight = weight.div_ceil(scale);
    }
    (weights, of_texts.len() - matched.len())
}

/// The normal form of a query, without comments, white space, the case of letters, constants, and the form of
/// placeholders.
pub(crate) fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut tokens = tokens(text).into_iter().peekable();
    while let Some(token) = tokens.next() {
        let next = tokens.peek().copied().unwrap_or_default();
        let first = token.chars().next().unwrap_or(' ');
        let shown = match first {
            '\'' => "?".to_owned(),
            '"' | '`' => token[1..token.len() - 1].to_lowercase(),
            '$' | '?' => "?".to_owned(),
            c if c.is_ascii_digit() => "?".to_owned(),
            ':' | '@' if next.starts_with(is_word) && !out.ends_with(':') => {
                tokens.next();
                "?".to_owned()
            }
            _ => token.to_lowercase(),
        };
        if out.ends_with(is_word) && shown.starts_with(|c| is_word(c) || c == '?')
            || out.ends_with('?') && shown.starts_with(is_word)
        {
            out.push(' ');
        }
        out.push_str(&shown);
    }
    while out.ends_with(';') {
        out.pop();
    }
    out
}

/// The routine of a query that only calls it: `CALL f(…)`, `SELECT f(…)` or `SELECT * FROM f(…)`, with constants and
/// placeholders.
pub(crate) fn called(text: &str) -> Option<String> {
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    let is = |token: Option<&&str>, word: &str| token.is_some_and(|t| t.eq_ignore_ascii_case(word));
    if is(rest.first(), "call") || is(rest.first(), "select") {
        let selects = is(rest.first(), "select");
        rest = &rest[1..];
        if selects && is(rest.first(), "*") && is(rest.get(1), "from") {
            rest = &rest[2..];
        }
    } else {
        return None;
    }
    if is(rest.first(), "public") && is(rest.get(1), ".") {
        rest = &rest[2..];
    }
    let (name, arguments) = rest.split_first()?;
    let name = match name.strip_prefix('"') {
        Some(quoted) => quoted.trim_end_matches('"').to_owned(),
        None if name.starts_with(|c: char| c.is_alphabetic() || c == '_') => name.to_lowercase(),
        None => return None,
    };
    let (open, arguments) = arguments.split_first()?;
    let close = arguments.iter().position(|t| *t == ")")?;
    let behind = &arguments[close + 1..];
    if *open != "(" || behind.iter().any(|t| *t != ";") {
        return None;
    }
    let mut before = "";
    for (at, token) in arguments[..close].iter().enumerate() {
        let next = arguments[at + 1];
        let word = token.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"');
        let known = ["true", "false", "null"]
            .iter()
            .any(|w| token.eq_ignore_ascii_case(w));
        // A type, or the name of a parameter.
        let of_type = before == ":" || before == "." || next == "=" || next == ":" || next == ".";
        if *token == "(" || word && !known && !of_type {
            return None;
        }
        before = token;
    }
    Some(name)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The tokens of a query: words, numbers, strings, quoted names, punctuation, and placeholders as `$1` and `?1`.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if c.is_whitespace() => {
                rest = rest.trim_start();
                continue;
            }
            '-' if rest.starts_with("--") => {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
                continue;
            }
            '\'' | '"' | '`' => {
                let mut end = 1;
                loop {
                    match rest[end..].find(first) {
                        None => return found,
                        Some(at) if rest[end + at + 1..].starts_with(first) => end += at + 2,
                        Some(at) => break end + at + 1,
                    }
                }
            }
            '$' | '?' => {
                1 + rest[1..]
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(rest.len() - 1)
            }
            c if c.is_ascii_digit() => {
                let number = |c: char| c.is_ascii_alphanumeric() || c == '.';
                rest.find(|c| !number(c)).unwrap_or(rest.len())
            }
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        found.push(&rest[..length]);
        rest = &rest[length..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_forms_of_equivalent_queries_are_equal() {
        let one = normal("SELECT a FROM t WHERE b = $1 AND c = 'x''y' AND d = :name AND e = 1.5;");
        let other = normal(
            "/* x */ select  A\nfrom `T` where b=? and C = $12 AND d = @other AND e = $2 -- so",
        );
        assert_eq!(one, other);
        assert_eq!(
            one,
            "select a from t where b=?and c=?and d=?and e=?".replace("?and", "? and")
        );
        assert_ne!(normal("SELECT a FROM t"), normal("SELECT b FROM t"));
        assert_eq!(normal("SELECT $1::int"), "select ?::int");
    }

    #[test]
    fn queries_that_only_call_a_routine_are_found() {
        for text in [
            "CALL f($1, $2)",
            "select f(1, 'a''b', $2::int, NULL)",
            "SELECT * FROM public.f(p => $1, q := $2);",
            "/* x */ SELECT \"f\"()",
        ] {
            assert_eq!(called(text).as_deref(), Some("f"), "{text}");
        }
        for text in [
            "SELECT f(a) FROM t",
            "SELECT f(g($1))",
            "SELECT f($1) + 1",
            "SELECT a FROM f($1)",
            "UPDATE t SET a = f(1)",
            "SELECT * FROM f($1) WHERE x",
        ] {
            assert_eq!(called(text), None, "{text}");
        }
    }

    #[test]
    fn csv_has_queries_and_calls() {
        let read =
            parse("userid,QUERY,calls\n1,\"SELECT \"\"a\"\",\n b\",7\r\n2,SELECT 1,1\n").unwrap();
        let query = |text: &str, calls| Query {
            text: text.to_owned(),
            calls,
        };
        assert_eq!(read, [query("SELECT \"a\",\n b", 7), query("SELECT 1", 1)]);
        assert!(
            parse("query,calls\nSELECT 1,x\n")
                .unwrap_err()
                .contains("record 2")
        );
        assert!(parse("a,b\n").unwrap_err().contains("no query"));
        assert!(
            parse("query,calls\n\"a")
                .unwrap_err()
                .contains("never closed")
        );
    }
}
