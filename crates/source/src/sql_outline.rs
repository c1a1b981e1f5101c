//! A rough outline of a statement from its tokens, sufficient to describe what a check in the code checks. The
//! analyser itself parses statements.

use std::ops::Range;

/// Statements that control transactions or touch no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Commit,
    Rollback,
    Utility,
}

impl Control {
    /// Classifies a text by its beginning; `None` if one of its statements reads or writes rows.
    pub(crate) fn of(head: &str) -> Option<Control> {
        let mut statements = statements(head)
            .into_iter()
            .map(|range| &head[range])
            .filter(|s| !s.trim().is_empty());
        let first = statements.next()?;
        let found = Control::of_one(first)?;
        for other in statements {
            if Control::of_one(other)? != found {
                // `BEGIN; COMMIT` and the like.
                return None;
            }
        }
        Some(found)
    }

    fn of_one(head: &str) -> Option<Control> {
        let head = without_leading_comments(head);
        let mut words = head
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|w| !w.is_empty())
            .map(str::to_ascii_lowercase);
        let first = words.next()?;
        let second = words.next();
        let second = second.as_deref();
        Some(match first.as_str() {
            "commit" => Control::Commit,
            "end" if second.is_none() => Control::Commit,
            "rollback" | "abort" if second != Some("to") => Control::Rollback,
            "begin" | "start" | "savepoint" | "release" | "rollback" | "pragma" | "show"
            | "use" | "analyze" | "vacuum" | "explain" | "listen" | "notify" | "lock" => {
                Control::Utility
            }
            "set" if head.trim_start().len() > 3 => Control::Utility,
            "create" | "alter" | "drop" | "grant" | "comment" => Control::Utility,
            _ => return None,
        })
    }
}

/// Splits a text into statements at semicolons outside of quotes, comments and bodies.
pub(crate) fn statements(text: &str) -> Vec<Range<usize>> {
    let lower = text.to_ascii_lowercase();
    let has_body = [
        "function",
        "procedure",
        "trigger",
        "event",
        "rule",
        "package",
    ]
    .iter()
    .any(|kind| lower.split_whitespace().take(5).any(|word| word == *kind));
    if has_body {
        return std::iter::once(0..text.len()).collect();
    }
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let first = rest.chars().next().unwrap_or(' ');
        let past = |opening: usize, close: &str| {
            let inside = rest.get(opening..).unwrap_or_default();
            inside
                .find(close)
                .map_or(rest.len(), |end| opening + end + close.len())
        };
        at += match first {
            '\'' => past(1, "'"),
            '"' => past(1, "\""),
            '`' => past(1, "`"),
            _ if rest.starts_with("--") => past(2, "\n"),
            _ if rest.starts_with("/*") => past(2, "*/"),
            _ if rest.starts_with("$$") => past(2, "$$"),
            ';' => {
                found.push(start..at);
                start = at + 1;
                1
            }
            _ => first.len_utf8(),
        };
    }
    found.push(start..text.len());
    found
}

/// Whether a statement creates or alters a schema object.
pub(crate) fn declares(statement: &str) -> bool {
    let first = without_leading_comments(statement)
        .get(..6)
        .unwrap_or_default();
    let first = first.to_ascii_lowercase();
    first == "create" || first.starts_with("alter")
}

/// Strips leading comments; an unterminated comment leaves nothing.
pub(crate) fn without_leading_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("--").or_else(|| rest.strip_prefix("/*")) {
        let end = match rest.starts_with("--") {
            true => comment.find('\n').map(|at| at + 1),
            false => comment.find("*/").map(|at| at + 2),
        };
        rest = end.map_or("", |end| comment[end..].trim_start());
    }
    rest
}

/// Whether SQL only reads.
pub(crate) fn is_read(sql: &str) -> bool {
    let text = sql.trim_start().to_ascii_lowercase();
    text.starts_with("select") && !text.contains("nextval") && !text.contains(" into ")
}

/// Whether SQL is a query of the rows of one table: a deletion adds no row to its result.
pub(crate) fn is_lookup(sql: &str) -> bool {
    const OTHERS: [&str; 17] = [
        "group by",
        "having",
        "over",
        "count",
        "sum",
        "min",
        "max",
        "avg",
        "exists",
        "offset",
        "union",
        "except",
        "intersect",
        "join",
        "distinct on",
        "not in",
        "agg",
    ];
    let text = sql.trim_start().to_ascii_lowercase();
    is_read(sql) && !OTHERS.iter().any(|word| text.contains(word)) && !text[6..].contains("select")
}

/// The parts of a statement that guards compare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SqlOutline {
    /// The columns of a SELECT by name or alias; an expression as it is written.
    pub(crate) columns: Vec<String>,
    /// Whether it returns every column (`*`).
    pub(crate) all: bool,
    /// The table, or the first of several.
    pub(crate) table: Option<String>,
    /// The first keyword, in lower case.
    pub(crate) verb: String,
    /// The assignments of an UPDATE: column and expression.
    pub(crate) sets: Vec<(String, String)>,
    /// The column list of an INSERT.
    pub(crate) inserted: Vec<String>,
    /// The columns that a WHERE clause compares with `=`.
    pub(crate) equal: Vec<String>,
    /// The WHERE clause as it is written, if it compares in other ways as well.
    pub(crate) condition: Option<String>,
    /// The column that each placeholder is compared with or assigned to.
    pub(crate) placed: Vec<(usize, String)>,
}

impl SqlOutline {
    pub(crate) fn of(text: &str) -> SqlOutline {
        let words = tokens(text);
        let is = |at: usize, word: &str| {
            words
                .get(at)
                .is_some_and(|w: &&str| w.eq_ignore_ascii_case(word))
        };
        let find = |from: usize, word: &str| {
            let mut depth = 0_i32;
            (from..words.len()).find(|at| {
                match words[*at] {
                    "(" => depth += 1,
                    ")" => depth -= 1,
                    _ => {}
                }
                depth <= 0 && is(*at, word)
            })
        };
        let mut outline = SqlOutline {
            verb: words
                .first()
                .map_or_else(String::new, |w| w.to_ascii_lowercase()),
            ..SqlOutline::default()
        };
        let name_at = |at: usize| words.get(at).map(|w| last_part(w));
        match outline.verb.as_str() {
            "select" => {
                let from = find(1, "from").unwrap_or(words.len());
                let list = words.get(1..from).unwrap_or_default();
                for item in split(list) {
                    let item: Vec<&str> = item
                        .iter()
                        .copied()
                        .filter(|w| !w.eq_ignore_ascii_case("distinct"))
                        .collect();
                    match item.as_slice() {
                        [] => {}
                        [star] if star.ends_with('*') => outline.all = true,
                        [one] => outline.columns.push(last_part(one)),
                        [.., before, alias] if before.eq_ignore_ascii_case("as") => {
                            outline.columns.push(last_part(alias))
                        }
                        [.., ")", alias] if is_name(alias) => {
                            outline.columns.push(last_part(alias))
                        }
                        [_, alias] if is_name(alias) => outline.columns.push(last_part(alias)),
                        parts => outline.columns.push(parts.concat().to_ascii_lowercase()),
                    }
                }
                outline.table = name_at(from + 1);
            }
            "update" => {
                outline.table = name_at(1);
                let set = find(1, "set").unwrap_or(words.len());
                let end = find(set, "where").unwrap_or(words.len());
                for item in split(words.get(set + 1..end).unwrap_or_default()) {
                    if let [column, "=", value @ ..] = item {
                        outline.sets.push((last_part(column), value.join(" ")));
                    }
                }
            }
            "insert" | "replace" => {
                let into = find(1, "into").unwrap_or(0);
                outline.table = name_at(into + 1);
                if words.get(into + 2) == Some(&"(") {
                    let end = (into + 2..words.len())
                        .find(|at| words[*at] == ")")
                        .unwrap_or(words.len());
                    for item in split(words.get(into + 3..end).unwrap_or_default()) {
                        outline.inserted.extend(item.first().map(|w| last_part(w)));
                    }
                }
            }
            "delete" => {
                let from = find(1, "from").unwrap_or(0);
                outline.table = name_at(from + 1);
            }
            _ => {}
        }
        if let Some(at) = find(1, "where") {
            for at in at + 1..words.len() {
                if words[at] == "=" && at > 0 && is_name(words[at - 1]) {
                    outline.equal.push(last_part(words[at - 1]));
                }
            }
            let ends = [
                "limit",
                "order",
                "group",
                "for",
                "offset",
                "fetch",
                "returning",
            ];
            let end = ends.iter().filter_map(|word| find(at + 1, word)).min();
            let clause = &words[at + 1..end.unwrap_or(words.len())];
            let compares = clause.iter().any(|word| matches!(*word, "<" | ">"));
            outline.condition =
                compares.then(|| clause.join(" ").replace("< =", "<=").replace("> =", ">="));
        }
        outline
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '"' | '`'))
}

/// `t.column` without its table, and without quotes.
fn last_part(word: &str) -> String {
    let word = word.rsplit('.').next().unwrap_or(word);
    word.trim_matches(['"', '`', '[', ']']).to_ascii_lowercase()
}

/// Splits a token list at top-level commas.
fn split<'w>(words: &'w [&'w str]) -> Vec<&'w [&'w str]> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, word) in words.iter().enumerate() {
        match *word {
            "(" => depth += 1,
            ")" => depth -= 1,
            "," if depth == 0 => {
                found.push(&words[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&words[start..]);
    found
}

/// Tokens: qualified names, numbers, strings and signs.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let first = rest.chars().next().unwrap_or(' ');
        let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '`' | '$');
        let length = if first == '\'' {
            rest[1..].find('\'').map_or(rest.len(), |n| n + 2)
        } else if of_name(first) {
            let end = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
            // `t.*`
            end + usize::from(rest[..end].ends_with('.') && rest[end..].starts_with('*'))
        } else if rest.starts_with("--") {
            let end = rest.find('\n').unwrap_or(rest.len());
            at += end;
            continue;
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            found.push(&rest[..length]);
        }
        at += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_outlined_by_its_tokens() {
        let of = |text: &str| SqlOutline::of(text);
        let select = of(
            "SELECT a.balance, count(*) AS n, max(x) top, t.* FROM account a WHERE a.id = ? AND owner = $2",
        );
        assert_eq!(select.columns, ["balance", "n", "top"]);
        assert!(select.all);
        assert_eq!(
            (select.table.as_deref(), select.equal.as_slice()),
            (
                Some("account"),
                ["id".to_owned(), "owner".to_owned()].as_slice()
            )
        );
        assert_eq!(of("select max(id) + 1 from t").columns, ["max(id)+1"]);
        let update = of("UPDATE \"account\" SET balance = balance - ?, n = 1 WHERE id = ?");
        assert_eq!(
            update.sets,
            [
                ("balance".to_owned(), "balance - ?".to_owned()),
                ("n".to_owned(), "1".to_owned())
            ]
        );
        assert_eq!(update.table.as_deref(), Some("account"));
        let insert = of("INSERT INTO `log` (who, `when`) VALUES (?, now())");
        assert_eq!(
            (insert.table.as_deref(), insert.inserted.as_slice()),
            (
                Some("log"),
                ["who".to_owned(), "when".to_owned()].as_slice()
            )
        );
    }

    #[test]
    fn utility_statements_are_recognised() {
        assert_eq!(Control::of("COMMIT"), Some(Control::Commit));
        assert_eq!(Control::of("rollback;"), Some(Control::Rollback));
        assert_eq!(
            Control::of("ROLLBACK TO SAVEPOINT a"),
            Some(Control::Utility)
        );
        assert_eq!(
            Control::of(" SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
            Some(Control::Utility)
        );
        assert_eq!(Control::of("SELECT 1"), None);
        for sql in [
            "BEGIN; UPDATE t SET n = 1; COMMIT",
            "CREATE TABLE t (n int); DELETE FROM u",
            "SET a = 1;DELETE FROM u;",
        ] {
            assert_eq!(Control::of(sql), None, "{sql}");
        }
        for sql in [
            "CREATE TABLE a (n text DEFAULT ';x'); CREATE TABLE b (n int);",
            "CREATE FUNCTION f() RETURNS int AS $$ BEGIN DELETE FROM t; END $$ LANGUAGE plpgsql",
            "create trigger g AFTER INSERT ON t BEGIN UPDATE t SET n = 1; END;",
            "set names 'utf8;'; SET a = 1 -- ; DELETE",
        ] {
            assert_eq!(Control::of(sql), Some(Control::Utility), "{sql}");
        }
        assert_eq!(Control::of(""), None);
    }
}
