//! The words of a statement, and which relations and functions they name.
//!
//! This reads tokens, not a syntax tree: it has to find the names in every statement that PostgreSQL accepts, also in
//! one that no parser of ours knows.

use std::collections::BTreeSet;

use crate::lex::{TokenKind, tokens};

/// A token of a statement, without comments.
#[derive(Clone, Debug)]
pub(super) struct Lexeme {
    pub(super) kind: TokenKind,
    /// A name as PostgreSQL folds it; any other token as it is written.
    pub(super) text: String,
    /// How many brackets are open around it.
    pub(super) depth: u32,
    /// Its place in the statement, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Lexeme {
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.text == keyword
    }

    pub(super) fn is_any(&self, keywords: &[&str]) -> bool {
        self.kind == TokenKind::Word && keywords.contains(&self.text.as_str())
    }

    pub(super) fn is_symbol(&self, symbol: char) -> bool {
        self.kind == TokenKind::Symbol && self.text.starts_with(symbol)
    }

    pub(super) fn is_name(&self) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::QuotedWord)
    }
}

/// The tokens of a statement, without a semicolon at its end. `None` if a constant, a name or a comment does not end, or
/// a name is written with escapes.
pub(super) fn lexemes(statement: &str) -> Option<Vec<Lexeme>> {
    let mut depth = 0_u32;
    let mut found = Vec::new();
    for token in tokens(statement).ok()? {
        let text = token.text(statement);
        let opens = token.kind == TokenKind::Symbol && matches!(text, "(" | "[");
        let closes = token.kind == TokenKind::Symbol && matches!(text, ")" | "]");
        if closes {
            depth = depth.saturating_sub(1);
        }
        let text = match token.kind {
            TokenKind::Comment | TokenKind::Semicolon => continue,
            TokenKind::Word => text.to_lowercase(),
            TokenKind::QuotedWord if !text.starts_with('"') => return None,
            TokenKind::QuotedWord => text[1..text.len() - 1].replace("\"\"", "\""),
            _ => text.to_owned(),
        };
        found.push(Lexeme {
            kind: token.kind,
            text,
            depth,
            start: token.start,
            end: token.end,
        });
        if opens {
            depth += 1;
        }
    }
    Some(found)
}

/// What a statement does with a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Insert,
    Update,
    Delete,
    /// MERGE: any of them.
    Merge,
}

/// A relation that a statement names.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub(super) schema: Option<String>,
    pub(super) name: String,
    /// The name by which the statement refers to its columns.
    pub(super) alias: String,
    pub(super) used: Use,
    /// The place of its name, and the one behind its alias.
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) depth: u32,
}

/// Words that end a list of relations.
const CLAUSES: [&str; 20] = [
    "where",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "fetch",
    "window",
    "returning",
    "union",
    "intersect",
    "except",
    "for",
    "set",
    "when",
    "values",
    "select",
    "default",
    "overriding",
    "do",
];

/// Words that may follow a relation and are no alias.
const BEHIND: [&str; 16] = [
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "natural",
    "on",
    "using",
    "tablesample",
    "as",
    "with",
    "cascade",
    "restrict",
    "restart",
    "in",
];

/// Words that a bracket may follow without a call: keywords, and names of types.
const NO_CALL: [&str; 66] = [
    "in",
    "values",
    "and",
    "or",
    "not",
    "as",
    "on",
    "using",
    "exists",
    "any",
    "all",
    "some",
    "select",
    "from",
    "where",
    "over",
    "by",
    "with",
    "filter",
    "within",
    "order",
    "when",
    "then",
    "else",
    "case",
    "is",
    "like",
    "ilike",
    "between",
    "union",
    "intersect",
    "except",
    "returning",
    "limit",
    "offset",
    "fetch",
    "first",
    "next",
    "set",
    "conflict",
    "distinct",
    "rollup",
    "cube",
    "sets",
    "materialized",
    "only",
    "lateral",
    "join",
    "having",
    "window",
    "partition",
    "numeric",
    "decimal",
    "varchar",
    "character",
    "char",
    "varying",
    "bit",
    "timestamp",
    "timestamptz",
    "time",
    "interval",
    "float",
    "array",
    "row",
    "escape",
];

/// The relations that a statement names where relations stand, except its own subqueries (WITH).
pub(super) fn relations(of: &[Lexeme]) -> Vec<Relation> {
    #[derive(Clone, Copy, Default)]
    struct Level {
        in_from: bool,
        expects: Option<Use>,
        /// FROM in the brackets belongs to a function: extract(year FROM x).
        is_argument: bool,
    }
    let own = subqueries(of);
    let mut levels = vec![Level::default()];
    let mut found: Vec<Relation> = Vec::new();
    let mut at = 0;
    while at < of.len() {
        let token = &of[at];
        let before = at.checked_sub(1).map(|before| &of[before]);
        let is_first = before.is_none_or(|before| before.is_symbol('('));
        let after = |keywords: &[&str]| before.is_some_and(|before| before.is_any(keywords));
        let Some(level) = levels.last_mut() else {
            break;
        };
        if token.is_symbol('(') || token.is_symbol('[') {
            let expects = level.expects.take();
            levels.push(Level {
                in_from: expects.is_some(),
                expects,
                is_argument: after(&["extract", "trim", "substring", "overlay", "position"]),
            });
        } else if token.is_symbol(')') || token.is_symbol(']') {
            if levels.len() > 1 {
                levels.pop();
            }
        } else if token.is_symbol(',') {
            if level.in_from {
                level.expects = Some(Use::Read);
            }
        } else if token.is("from") && !level.is_argument && !after(&["distinct"]) {
            level.in_from = true;
            level.expects = Some(match after(&["delete"]) {
                true => Use::Delete,
                false => Use::Read,
            });
        } else if token.is("join") {
            level.expects = Some(Use::Read);
        } else if token.is("using") && !of.get(at + 1).is_some_and(|next| next.is_symbol('(')) {
            level.in_from = true;
            level.expects = Some(Use::Read);
        } else if token.is("into") && after(&["insert"]) {
            level.expects = Some(Use::Insert);
        } else if token.is("into") && after(&["merge"]) {
            level.expects = Some(Use::Merge);
        } else if token.is("update") && is_first {
            level.expects = Some(Use::Update);
        } else if is_first && token.is_any(&["table", "lock"]) {
            level.in_from = true;
            level.expects = Some(Use::Read);
        } else if is_first && token.is("truncate") {
            level.in_from = true;
            level.expects = Some(Use::Delete);
        } else if let Some(used) = level.expects
            && !token.is_any(&["only", "lateral", "table"])
        {
            level.expects = None;
            if token.is_any(&CLAUSES) || !token.is_name() {
                level.in_from &= !token.is_any(&CLAUSES);
            } else {
                let relation = relation(of, at, used);
                let is_call = of
                    .get(relation.at + 1)
                    .is_some_and(|next| next.is_symbol('('))
                    && used == Use::Read;
                let is_own = relation.schema.is_none() && own.contains(relation.name.as_str());
                at = relation.end;
                // TRUNCATE has a list.
                let first = of.first().is_some_and(|first| first.is("truncate"));
                if !is_call && !is_own {
                    found.push(relation);
                }
                if first && of.get(at).is_some_and(|next| next.is_symbol(',')) {
                    level.expects = Some(Use::Delete);
                    at += 1;
                }
                continue;
            }
        } else if token.is_any(&CLAUSES) {
            level.in_from = false;
        }
        at += 1;
    }
    found
}

/// The relation whose name begins at a place.
fn relation(of: &[Lexeme], first: usize, used: Use) -> Relation {
    let mut at = first;
    let mut schema = None;
    while of.get(at + 1).is_some_and(|next| next.is_symbol('.'))
        && of.get(at + 2).is_some_and(Lexeme::is_name)
    {
        schema = Some(of[at].text.clone());
        at += 2;
    }
    let name = of[at].text.clone();
    let mut end = at + 1;
    let named = match of.get(end) {
        Some(next) if next.is("as") => {
            end += 1;
            of.get(end)
        }
        Some(next) if next.is_name() && !next.is_any(&CLAUSES) && !next.is_any(&BEHIND) => {
            Some(next)
        }
        _ => None,
    };
    let alias = named.filter(|alias| alias.is_name());
    end += usize::from(alias.is_some());
    Relation {
        alias: alias.map_or_else(|| name.clone(), |alias| alias.text.clone()),
        schema,
        name,
        used,
        at,
        end,
        depth: of[at].depth,
    }
}

/// The names of the subqueries of WITH.
fn subqueries(of: &[Lexeme]) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (at, token) in of.iter().enumerate().skip(1) {
        let before = &of[at - 1];
        if !token.is_name() || !(before.is_any(&["with", "recursive"]) || before.is_symbol(',')) {
            continue;
        }
        let mut next = at + 1;
        if of.get(next).is_some_and(|next| next.is_symbol('(')) {
            next = closing(of, next) + 1;
        }
        if !of.get(next).is_some_and(|next| next.is("as")) {
            continue;
        }
        next += 1;
        while of
            .get(next)
            .is_some_and(|next| next.is_any(&["not", "materialized"]))
        {
            next += 1;
        }
        if of.get(next).is_some_and(|next| next.is_symbol('(')) {
            found.insert(token.text.as_str());
        }
    }
    found
}

/// The place of the bracket that closes the one at a place; the end if none does.
pub(super) fn closing(of: &[Lexeme], open: usize) -> usize {
    let depth = of[open].depth;
    let mut behind = (open + 1..of.len()).filter(|at| of[*at].depth == depth);
    behind.next().unwrap_or(of.len())
}

/// The functions that a statement calls: their schemas, if these are named, and names.
pub(super) fn functions<'l>(
    of: &'l [Lexeme],
    relations: &[Relation],
) -> BTreeSet<(Option<&'l str>, &'l str)> {
    let own = subqueries(of);
    let mut found = BTreeSet::new();
    for (at, pair) in of.windows(2).enumerate() {
        let [name, open] = pair else { continue };
        if !name.is_name() || !open.is_symbol('(') || name.is_any(&NO_CALL) {
            continue;
        }
        let before = at.checked_sub(1).map(|before| &of[before]);
        // The columns of an INSERT's table, of a relation's alias, and of a subquery.
        let is_list = relations
            .iter()
            .any(|of| at + 1 == of.end && (of.used != Use::Read || of.end > of.at + 1))
            || before.is_some_and(|before| before.is("as") || before.is_symbol(')'))
            // `a OPERATOR(pg_catalog.=) b`
            || name.is("operator") && of.get(at + 2).is_some_and(|of| of.is("pg_catalog"))
            || own.contains(name.text.as_str());
        if is_list {
            continue;
        }
        let schema = match before {
            Some(before) if before.is_symbol('.') && at >= 2 => Some(of[at - 2].text.as_str()),
            _ => None,
        };
        found.insert((schema, name.text.as_str()));
    }
    found
}

/// The conditions that all rows of the statement's outermost query satisfy: the parts of its WHERE that AND connects, as
/// ranges of tokens. Empty if it has none, or is made of several queries.
pub(super) fn conjuncts(of: &[Lexeme]) -> Vec<std::ops::Range<usize>> {
    let outer = |at: &usize| of[*at].depth == 0;
    let several = ["union", "intersect", "except"];
    if (0..of.len())
        .filter(outer)
        .any(|at| of[at].is_any(&several))
    {
        return Vec::new();
    }
    let Some(first) = (0..of.len()).filter(outer).find(|at| of[*at].is("where")) else {
        return Vec::new();
    };
    let ends = |at: &usize| outer(at) && of[*at].is_any(&CLAUSES);
    let end = (first + 1..of.len()).find(ends).unwrap_or(of.len());
    let mut found = Vec::new();
    split(of, first + 1..end, &mut found);
    found
}

/// Splits a condition at its ANDs, also within brackets around the whole of it.
fn split(of: &[Lexeme], range: std::ops::Range<usize>, found: &mut Vec<std::ops::Range<usize>>) {
    let Some(first) = of.get(range.start).filter(|_| !range.is_empty()) else {
        return;
    };
    let depth = first.depth;
    if first.is_symbol('(') && closing(of, range.start) + 1 == range.end {
        return split(of, range.start + 1..range.end - 1, found);
    }
    let here = |at: &usize| of[*at].depth == depth;
    // What AND connects within CASE or beside OR need not hold.
    if range
        .clone()
        .filter(here)
        .any(|at| of[at].is_any(&["or", "case"]))
    {
        return;
    }
    let mut start = range.start;
    let mut is_between = false;
    let mut parts = Vec::new();
    for at in range.clone().filter(here) {
        match &of[at] {
            token if token.is("between") => is_between = true,
            token if token.is("and") && is_between => is_between = false,
            token if token.is("and") => {
                parts.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(start..range.end);
    match parts.as_slice() {
        [_] => found.push(range),
        _ => parts.into_iter().for_each(|part| split(of, part, found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(statement: &str) -> Vec<String> {
        let lexemes = lexemes(statement).unwrap();
        let shown = relations(&lexemes).into_iter().map(|of| {
            let schema = of
                .schema
                .map_or(String::new(), |schema| format!("{schema}."));
            let alias = match of.alias == of.name {
                true => String::new(),
                false => format!(" {}", of.alias),
            };
            format!("{:?} {schema}{}{alias}", of.used, of.name).to_lowercase()
        });
        shown.collect()
    }

    #[test]
    fn relations_are_found_where_they_stand() {
        for (statement, expected) in [
            ("SELECT 1", &[][..]),
            ("SELECT a FROM t", &["read t"]),
            (
                "SELECT a FROM public.t AS x, u y",
                &["read public.t x", "read u y"],
            ),
            (
                "SELECT * FROM a JOIN b ON a.i = b.i LEFT JOIN \"C\" USING (i), d WHERE x IN (SELECT y FROM e)",
                &["read a", "read b", "read c", "read d", "read e"],
            ),
            (
                "SELECT * FROM (a CROSS JOIN b), (SELECT 1 FROM c) z",
                &["read a", "read b", "read c"],
            ),
            (
                "SELECT extract(year FROM x) FROM t WHERE a IS DISTINCT FROM b",
                &["read t"],
            ),
            ("SELECT * FROM f(1) x, LATERAL (SELECT 2) y, t", &["read t"]),
            ("INSERT INTO t (a, b) VALUES (1, 2)", &["insert t"]),
            ("INSERT INTO t SELECT a FROM u", &["insert t", "read u"]),
            (
                "UPDATE ONLY t SET a = 1 FROM u WHERE t.i = u.i",
                &["update t", "read u"],
            ),
            (
                "DELETE FROM t USING u, v WHERE true",
                &["delete t", "read u", "read v"],
            ),
            ("SELECT a FROM t FOR UPDATE OF t", &["read t"]),
            (
                "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 2",
                &["insert t"],
            ),
            (
                "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
                &["merge t", "read u"],
            ),
            ("TRUNCATE TABLE a, b CASCADE", &["delete a", "delete b"]),
            ("TABLE t", &["read t"]),
            (
                "WITH w AS (DELETE FROM t RETURNING i), v(a) AS (SELECT 1) SELECT * FROM w, v, u",
                &["delete t", "read u"],
            ),
        ] {
            assert_eq!(named(statement), expected, "{statement}");
        }
    }

    #[test]
    fn functions_are_found_wherever_they_stand() {
        let of = |statement: &str| {
            let lexemes = lexemes(statement).unwrap();
            let relations = relations(&lexemes);
            let found = functions(&lexemes, &relations);
            let shown = found.into_iter().map(|(schema, name)| {
                schema.map_or(name.to_owned(), |schema| format!("{schema}.{name}"))
            });
            shown.collect::<Vec<String>>()
        };
        assert_eq!(
            of(
                "WITH w(a) AS (SELECT f(1)) SELECT s.g(2), a::numeric(3, 1) FROM h(3) AS x(b int), w WHERE a IN (1)"
            ),
            ["f", "h", "s.g"]
        );
        assert_eq!(of("INSERT INTO t (a) VALUES (lower('x'))"), ["lower"]);
    }

    #[test]
    fn conjuncts_hold_of_every_row() {
        let of = |statement: &str| {
            let lexemes = lexemes(statement).unwrap();
            let text = |range: std::ops::Range<usize>| {
                statement[lexemes[range.start].start..lexemes[range.end - 1].end].to_owned()
            };
            conjuncts(&lexemes)
                .into_iter()
                .map(text)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of("SELECT 1 FROM t WHERE a = 1 AND (b = 2 AND c = 3) AND (d OR e) ORDER BY a"),
            ["a = 1", "b = 2", "c = 3"]
        );
        assert_eq!(
            of("DELETE FROM t WHERE a BETWEEN 1 AND 2 AND b = 3"),
            ["a BETWEEN 1 AND 2", "b = 3"]
        );
        assert_eq!(
            of("SELECT 1 FROM t WHERE a = 1 OR b = 2 AND c = 3"),
            [""; 0]
        );
        assert_eq!(of("SELECT 1 FROM t WHERE a = 1 UNION SELECT 2"), [""; 0]);
        assert_eq!(of("SELECT (SELECT 1 FROM t WHERE a = 1)"), [""; 0]);
    }
}
