//! What a statement is for the middleware: the beginning or end of a transaction, a setting, a statement of the
//! application, or something that cannot be forwarded.

use std::ops::Range;

use crate::lex::{self, LexError, Token, TokenKind};

/// What a statement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing but spaces and comments.
    Empty,
    /// A SELECT, an INSERT and their like, a CALL: what operations consist of.
    Statement,
    /// A SELECT that only draws a number from a sequence (`nextval`), or asks for the last one that was drawn (`currval`).
    /// It runs once, whatever becomes of its transaction: what is drawn stays drawn.
    Draw,
    /// It concerns the connection alone, and runs on the own server whatever it is: SHOW, EXPLAIN without ANALYZE.
    Local,
    /// BEGIN or START TRANSACTION. Its modes, without the isolation level, which is always serializable.
    Begin(String),
    /// COMMIT or END.
    Commit,
    /// ROLLBACK or ABORT.
    Rollback,
    /// SAVEPOINT, RELEASE, FETCH and others that mean something within a transaction only.
    WithinTransaction,
    /// ROLLBACK TO: a transaction that has failed goes on.
    RollbackTo,
    /// SET TRANSACTION, or SET SESSION CHARACTERISTICS: only the isolation level is set, which is always serializable.
    IsolationLevel,
    /// SET, RESET, PREPARE, DEALLOCATE and others: part of the state of the connection.
    Setting,
    /// What takes away what the middleware has set on the connection as well: DISCARD, RESET ALL.
    ResetsAll,
    /// `EXPLAIN COORDINATION` and the place of what it explains.
    ExplainCoordination(Range<usize>),
    /// DECLARE, and the place of its query.
    Declare(Range<usize>),
    /// `CALL anabranch.remove_server('name')`: the operator says that a server will not return.
    RemoveServer(String),
    /// `CALL anabranch.catch_up(hop)`: waits for what was committed under a hold.
    CatchUp(u64),
    /// `EXECUTE` of a statement that was prepared by SQL: its name.
    Execute(String),
    /// It is not forwarded.
    Refused {
        /// The SQLSTATE.
        code: &'static str,
        /// Why.
        message: String,
        /// What to do.
        hint: &'static str,
    },
}

/// Settings on which the middleware relies.
const OWN_SETTINGS: [&str; 4] = [
    "session_replication_role",
    "standard_conforming_strings",
    "backslash_quote",
    "quote_all_identifiers",
];

/// Whether a setting, whose name is in lower case, belongs to anabranch.
fn is_anabranchs(name: &str) -> bool {
    let rest = name.strip_prefix("anabranch");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Reads what a statement is.
///
/// # Errors
/// When a constant, a name or a comment does not end, or a constant is in several pieces.
pub fn command(text: &str) -> Result<Command, LexError> {
    let tokens: Vec<Token> = lex::tokens(text)?
        .into_iter()
        .filter(|token| token.kind != TokenKind::Comment)
        .skip_while(|token| token.kind == TokenKind::Semicolon)
        .collect();
    Ok(Words {
        text,
        tokens: &tokens,
    }
    .command())
}

fn refused(what: &str, hint: &'static str) -> Command {
    Command::Refused {
        code: "0A000",
        message: format!("{what} is not supported by the belt's middleware"),
        hint,
    }
}

struct Words<'t> {
    text: &'t str,
    tokens: &'t [Token],
}

impl Words<'_> {
    fn is(&self, place: usize, keyword: &str) -> bool {
        let token = self.tokens.get(place);
        token.is_some_and(|token| token.is(self.text, keyword))
    }

    fn is_any(&self, place: usize, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(place, keyword))
    }

    fn has(&self, keyword: &str) -> bool {
        self.tokens.iter().any(|t| t.is(self.text, keyword))
    }

    /// A name as PostgreSQL reads it: in lower case without quotes.
    fn name(&self, place: usize) -> Option<String> {
        let token = self.tokens.get(place)?;
        let text = token.text(self.text);
        match token.kind {
            TokenKind::Word => Some(text.to_lowercase()),
            TokenKind::QuotedWord => Some(text.trim_matches('"').replace("\"\"", "\"")),
            _ => None,
        }
    }

    fn command(&self) -> Command {
        if self.tokens.is_empty() {
            return Command::Empty;
        }
        if let Some(refused) = self.set_by_function().or_else(|| self.of_one_server()) {
            return refused;
        }
        let Some(word) = self.name(0) else {
            // A query in brackets, or what PostgreSQL will call a syntax error.
            return Command::Statement;
        };
        match word.as_str() {
            "begin" => self.begin(1),
            "start" => self.begin(2),
            "commit" | "end" if self.is(1, "prepared") => refused(
                "COMMIT PREPARED",
                "Transactions in two phases are the middleware's own matter.",
            ),
            "commit" | "end" | "abort" => self.end(word != "abort"),
            "rollback" if self.is(1, "prepared") => refused(
                "ROLLBACK PREPARED",
                "Transactions in two phases are the middleware's own matter.",
            ),
            "rollback" if self.has("to") => Command::RollbackTo,
            "rollback" => self.end(false),
            "savepoint" | "release" | "fetch" | "move" | "close" => Command::WithinTransaction,
            "declare"
                if (1..self.tokens.len())
                    .any(|at| self.is(at - 1, "with") && self.is(at, "hold")) =>
            {
                refused(
                    "a cursor WITH HOLD",
                    "Declare it without HOLD, and read it within the transaction.",
                )
            }
            "declare" => self.declare(),
            "prepare" if self.is(1, "transaction") => {
                refused("PREPARE TRANSACTION", "Commit the transaction.")
            }
            "prepare" | "deallocate" => Command::Setting,
            "execute" => match self.name(1) {
                Some(name) => Command::Execute(name),
                None => Command::Statement,
            },
            "select" if self.draws() => Command::Draw,
            "call" if self.is(1, "anabranch") && self.is(3, "remove_server") => {
                let name = self.tokens.get(5).filter(|t| t.kind == TokenKind::Text);
                match name {
                    Some(name) => {
                        Command::RemoveServer(name.text(self.text).trim_matches('\'').to_owned())
                    }
                    None => Command::Refused {
                        code: "42601",
                        message: "anabranch.remove_server takes the name of a server".to_owned(),
                        hint: "CALL anabranch.remove_server('name')",
                    },
                }
            }
            "call" if self.is(1, "anabranch") && self.is(3, "catch_up") => {
                let hop = self.tokens.get(5).filter(|t| t.kind == TokenKind::Number);
                match hop.and_then(|hop| hop.text(self.text).parse().ok()) {
                    Some(hop) => Command::CatchUp(hop),
                    None => Command::Refused {
                        code: "42601",
                        message: "anabranch.catch_up takes the number of a hop".to_owned(),
                        hint: "CALL anabranch.catch_up(17)",
                    },
                }
            }
            "show" => Command::Local,
            "set" => self.set(),
            "reset" if self.is(1, "all") => Command::ResetsAll,
            "reset" => self.setting(1).unwrap_or(Command::Setting),
            "discard" => Command::ResetsAll,
            "explain" if self.is(1, "coordination") => {
                let begin = self.tokens.get(2).map_or(self.text.len(), |t| t.start);
                Command::ExplainCoordination(begin..self.text.len())
            }
            "explain" => self.explain(),
            "truncate" if self.has("restart") => refused(
                "TRUNCATE … RESTART IDENTITY",
                "The numbers of a sequence tell the server that gave them. Leave RESTART IDENTITY out.",
            ),
            "copy" => refused(
                "COPY",
                "Use INSERT and SELECT, or connect to the database itself to read.",
            ),
            "listen" | "unlisten" | "notify" => refused(
                &word.to_uppercase(),
                "Notifications of one server do not reach the others.",
            ),
            "do" => refused(
                "DO",
                "Declare the block as a procedure of the application, and CALL it.",
            ),
            "create" | "alter" | "drop" | "comment" | "grant" | "revoke" | "reassign"
            | "security" | "import" | "refresh" | "reindex" | "cluster" => refused(
                &format!("{} of objects", word.to_uppercase()),
                "Stop the middlewares, and have anabranch belt migrate run it on all servers (an embedded ring: end it, and begin again).",
            ),
            "vacuum" | "analyze" | "checkpoint" | "load" => {
                refused(&word.to_uppercase(), "Connect to the database itself.")
            }
            _ => Command::Statement,
        }
    }

    /// BEGIN and its modes, which start at a place.
    fn begin(&self, from: usize) -> Command {
        let from = match self.is_any(from, &["work", "transaction"]) && from == 1 {
            true => from + 1,
            false => from,
        };
        let mut modes = Vec::new();
        let mut at = from;
        while at < self.tokens.len() {
            match () {
                () if self.is(at, "isolation") && self.is(at + 1, "level") => {
                    at += match self.is_any(at + 2, &["read", "repeatable"]) {
                        true => 4,
                        false => 3,
                    };
                }
                () if self.is(at, "read") && self.is(at + 1, "only") => {
                    modes.push("READ ONLY");
                    at += 2;
                }
                () if self.is(at, "read") && self.is(at + 1, "write") => {
                    modes.push("READ WRITE");
                    at += 2;
                }
                () if self.is(at, "not") && self.is(at + 1, "deferrable") => at += 2,
                // A read-only transaction that waits for a safe snapshot: it may wait for long, and need not.
                () if self.is(at, "deferrable") => at += 1,
                () if self.tokens[at].is_symbol(self.text, ',') => at += 1,
                () => {
                    return Command::Refused {
                        code: "42601",
                        message: format!(
                            "syntax error at or near \"{}\"",
                            self.tokens[at].text(self.text)
                        ),
                        hint: "The modes of a transaction are ISOLATION LEVEL …, READ ONLY, READ WRITE, DEFERRABLE.",
                    };
                }
            }
        }
        Command::Begin(modes.join(", "))
    }

    /// `SELECT nextval('s')`, with a schema before it, a cast in it and a name behind it, and nothing else.
    fn draws(&self) -> bool {
        let mut at = 1;
        if self.is(at, "pg_catalog") {
            at += 2;
        }
        let is_open = |at: usize, symbol| {
            let token = self.tokens.get(at);
            token.is_some_and(|token| token.is_symbol(self.text, symbol))
        };
        if !self.is_any(at, &["nextval", "currval"]) || !is_open(at + 1, '(') {
            return false;
        }
        let Some(close) = (at + 2..self.tokens.len()).find(|at| is_open(*at, ')')) else {
            return false;
        };
        let inner = &self.tokens[at + 2..close];
        let is_name = inner.iter().all(|token| match token.kind {
            TokenKind::Text | TokenKind::Parameter => true,
            TokenKind::Symbol => token.is_symbol(self.text, ':'),
            TokenKind::Word => token.is(self.text, "regclass") || token.is(self.text, "text"),
            _ => false,
        });
        let behind = &self.tokens[close + 1..];
        is_name
            && match behind {
                [] => true,
                [name] => name.kind == TokenKind::Word || name.kind == TokenKind::QuotedWord,
                [of, name] => of.is(self.text, "as") && name.kind != TokenKind::Symbol,
                _ => false,
            }
    }

    fn declare(&self) -> Command {
        let at = (0..self.tokens.len()).find(|at| self.is(*at, "for"));
        let query = at.and_then(|at| self.tokens.get(at + 1));
        match query {
            Some(query) => Command::Declare(query.start..self.text.len()),
            None => Command::Statement,
        }
    }

    fn end(&self, commits: bool) -> Command {
        let chains = self.has("chain") && !self.has("no");
        match (chains, commits) {
            (true, _) => refused(
                "AND CHAIN",
                "End the transaction, and begin another with BEGIN.",
            ),
            (false, true) => Command::Commit,
            (false, false) => Command::Rollback,
        }
    }

    fn set(&self) -> Command {
        let at = match self.is_any(1, &["session", "local"]) {
            true => 2,
            false => 1,
        };
        match self.name(at).as_deref() {
            Some("characteristics") => match self.characteristics(at + 1, "transaction") {
                Command::WithinTransaction => Command::Setting,
                other => other,
            },
            Some("transaction") if self.is(at + 1, "snapshot") => refused(
                "SET TRANSACTION SNAPSHOT",
                "A transaction may run again with another snapshot.",
            ),
            Some("transaction") => self.characteristics(at, "transaction"),
            Some("authorization") if at == 2 => Command::Setting,
            // They are checked where the transaction ends anyway, or where it says so.
            Some("constraints") => Command::WithinTransaction,
            Some("time" | "role" | "names" | "schema" | "xml" | "catalog") => {
                self.setting(at).unwrap_or(Command::Setting)
            }
            _ => self.setting(at).unwrap_or(Command::Setting),
        }
    }

    /// SET TRANSACTION and SET SESSION CHARACTERISTICS: what is behind the word.
    fn characteristics(&self, from: usize, word: &str) -> Command {
        let at = (from..self.tokens.len())
            .find(|at| self.is(*at, word))
            .map_or(from, |at| at + 1);
        match (self.begin_modes(at), self.has("isolation")) {
            (true, _) => Command::IsolationLevel,
            (false, false) => Command::WithinTransaction,
            (false, true) => refused(
                "READ ONLY beside an isolation level in SET",
                "Leave the isolation level out: it is always serializable.",
            ),
        }
    }

    /// Whether the modes from a place on are isolation levels alone, or say that writing is allowed.
    fn begin_modes(&self, at: usize) -> bool {
        match self.begin(at.max(2)) {
            Command::Begin(modes) => !modes.contains("READ ONLY"),
            _ => false,
        }
    }

    /// Why a setting, whose name is at a place, may not be set. `None` if it may.
    fn setting(&self, at: usize) -> Option<Command> {
        let given = self.tokens.get(at)?;
        if given.kind == TokenKind::QuotedWord && !given.text(self.text).starts_with('"') {
            return Some(refused("a name with escapes", "Write the name as it is."));
        }
        // Names of settings are the same in upper and lower case, in quotes as well.
        let name = self.name(at)?.to_lowercase();
        if self
            .tokens
            .get(at + 1)
            .is_some_and(|t| t.is_symbol(self.text, '.'))
        {
            return is_anabranchs(&name).then(|| self.own("anabranch's settings"));
        }
        // In quotes, a name may have its point within.
        if is_anabranchs(&name) {
            return Some(self.own("anabranch's settings"));
        }
        match name.as_str() {
            "default_transaction_isolation" | "transaction_isolation" => {
                Some(Command::IsolationLevel)
            }
            "search_path" | "schema" => self.search_path(at + 1),
            "client_encoding" | "names" => self.encoding(at + 1),
            _ if OWN_SETTINGS.contains(&name.as_str()) => Some(self.own(&name)),
            _ => None,
        }
    }

    fn own(&self, what: &str) -> Command {
        Command::Refused {
            code: "42501",
            message: format!("the belt relies on {what}"),
            hint: "Leave it as it is.",
        }
    }

    /// Names have to mean the application's tables: the schema "public" comes first.
    fn search_path(&self, from: usize) -> Option<Command> {
        let mut names = self.tokens[from.min(self.tokens.len())..]
            .iter()
            .filter(|t| !matches!(t.kind, TokenKind::Symbol | TokenKind::Semicolon))
            .filter(|t| !t.is(self.text, "to"))
            .map(|t| t.text(self.text).trim_matches(['"', '\'']))
            .filter(|name| !matches!(*name, "$user" | "pg_catalog"));
        match names.next() {
            Some("public") | None => None,
            Some(name) if name.eq_ignore_ascii_case("default") => None,
            Some(_) => Some(refused(
                "another schema than \"public\" in search_path",
                "Write the name of the schema before the name of the table.",
            )),
        }
    }

    /// In encodings that only clients have, a byte of a character may look like a quote.
    fn encoding(&self, from: usize) -> Option<Command> {
        const UNSAFE: [&str; 7] = [
            "sjis",
            "shiftjis",
            "shiftjis2004",
            "big5",
            "gbk",
            "uhc",
            "gb18030",
        ];
        let named = self.tokens.iter().skip(from).any(|token| {
            let text: String = token
                .text(self.text)
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .collect();
            let text = text.to_ascii_lowercase();
            UNSAFE.contains(&text.as_str())
                || matches!(
                    text.as_str(),
                    "johab"
                        | "mskanji"
                        | "win936"
                        | "win949"
                        | "win950"
                        | "win932"
                        | "windows936"
                        | "windows949"
                        | "windows950"
                        | "windows932"
                        | "shift"
                )
        });
        named.then(|| refused("this client encoding", "Use UTF8."))
    }

    /// EXPLAIN: with ANALYZE it runs its statement, which has to be one of the application.
    fn explain(&self) -> Command {
        let runs = (0..self.tokens.len())
            .any(|at| matches!(self.name(at).as_deref(), Some("analyze" | "analyse")));
        if !runs {
            return Command::Local;
        }
        let explained = match self.tokens.get(1) {
            Some(open) if open.is_symbol(self.text, '(') => {
                let mut closed = self.tokens.iter().enumerate();
                closed
                    .find(|(_, token)| token.is_symbol(self.text, ')'))
                    .map_or(self.tokens.len(), |(at, _)| at + 1)
            }
            _ => (1..self.tokens.len())
                .find(|at| !self.is_any(*at, &["analyze", "analyse", "verbose"]))
                .unwrap_or(self.tokens.len()),
        };
        match self.is_any(
            explained,
            &[
                "select", "with", "insert", "update", "delete", "merge", "values", "table",
            ],
        ) {
            true => Command::Statement,
            false => refused("EXPLAIN ANALYZE of this statement", "Leave ANALYZE out."),
        }
    }

    /// `set_config('name', …)` sets like SET. Nothing that could read rows may stand beside it.
    fn set_by_function(&self) -> Option<Command> {
        let is_call = |at: &usize| {
            let name = self.name(*at).map(|name| name.to_lowercase());
            name.as_deref() == Some("set_config")
        };
        let calls: Vec<usize> = (0..self.tokens.len()).filter(is_call).collect();
        if calls.is_empty() {
            return None;
        }
        let is_fine = |at: &usize| {
            let Some(given) = self.tokens.get(at + 2) else {
                return false;
            };
            let name = given
                .text(self.text)
                .trim_matches('\'')
                .to_ascii_lowercase();
            let is_constant =
                given.kind == TokenKind::Text && given.text(self.text).starts_with('\'');
            let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let is_own = OWN_SETTINGS.contains(&name.as_str())
                || is_anabranchs(&name)
                || matches!(
                    name.as_str(),
                    "search_path"
                        | "default_transaction_isolation"
                        | "transaction_isolation"
                        | "client_encoding"
                );
            is_constant && is_plain && !is_own
        };
        let opened = self.tokens.iter().filter(|t| t.is_symbol(self.text, '('));
        let is_alone = opened.count() == calls.len()
            && self.is(0, "select")
            && !(1..self.tokens.len()).any(|at| {
                self.is_any(
                    at,
                    &[
                        "select", "from", "into", "where", "table", "values", "union",
                    ],
                )
            });
        Some(match is_alone && calls.iter().all(is_fine) {
            true => Command::Setting,
            false => refused(
                "set_config with this setting, or beside other things",
                "Use SET with the setting's name.",
            ),
        })
    }

    /// What means something on one server alone, and would be taken for the whole ring's.
    fn of_one_server(&self) -> Option<Command> {
        let named = |at: usize| {
            let is_called = self
                .tokens
                .get(at + 1)
                .is_some_and(|t| t.is_symbol(self.text, '('));
            self.name(at).filter(|_| is_called)
        };
        let draws = self.is(0, "select") && self.draws();
        let called = (0..self.tokens.len()).filter_map(named);
        for name in called {
            let name = name.to_lowercase();
            if name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_") {
                return Some(refused(
                    "an advisory lock",
                    "It would hold on one server alone. Write a row that others write as well.",
                ));
            }
            if name == "pg_notify" {
                return Some(refused(
                    "NOTIFY",
                    "Notifications of one server do not reach the others.",
                ));
            }
            if name == "setval" {
                return Some(refused(
                    "setval",
                    "The numbers of a sequence tell the server that gave them, and are in steps.",
                ));
            }
            if name == "lastval" {
                return Some(refused(
                    "lastval",
                    "Use INSERT … RETURNING, or currval with the name of the sequence.",
                ));
            }
            if name == "currval" && !draws {
                return Some(refused(
                    "currval within another statement",
                    "Use INSERT … RETURNING, or SELECT currval by itself, and write the number.",
                ));
            }
            if name.starts_with("lo_") {
                return Some(refused(
                    "a large object",
                    "Keep it in a column of type bytea.",
                ));
            }
            if matches!(name.as_str(), "ts_stat" | "ts_rewrite") || name.contains("_to_xml") {
                return Some(refused(
                    "a function that runs a text as a query",
                    "Write the query itself.",
                ));
            }
        }
        let makes_table = (1..self.tokens.len())
            .any(|at| self.is(at, "into") && !self.is_any(at - 1, &["insert", "merge"]));
        let selects = self.is_any(0, &["select", "with"]);
        (selects && makes_table).then(|| {
            refused(
                "SELECT INTO",
                "The schema is the same on all servers, and stays as it is.",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Command {
        command(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn transactions_begin_and_end() {
        for (text, modes) in [
            ("BEGIN", ""),
            ("begin work", ""),
            (
                "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
                "READ ONLY",
            ),
            ("START TRANSACTION READ WRITE", "READ WRITE"),
            (
                "/* a */ BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
                "READ ONLY",
            ),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ NOT DEFERRABLE", ""),
        ] {
            assert_eq!(read(text), Command::Begin(modes.to_owned()), "{text}");
        }
        for text in [
            "COMMIT",
            "END TRANSACTION",
            "commit work",
            "COMMIT AND NO CHAIN",
        ] {
            assert_eq!(read(text), Command::Commit, "{text}");
        }
        for text in ["ROLLBACK", "abort", "ROLLBACK TRANSACTION"] {
            assert_eq!(read(text), Command::Rollback, "{text}");
        }
        for text in [
            "SAVEPOINT a",
            "RELEASE a",
            "FETCH 10 FROM c",
            "SET TRANSACTION READ ONLY",
            "SET CONSTRAINTS ALL DEFERRED",
        ] {
            assert_eq!(read(text), Command::WithinTransaction, "{text}");
        }
        for text in ["ROLLBACK TO SAVEPOINT a", "rollback to a"] {
            assert_eq!(read(text), Command::RollbackTo, "{text}");
        }
        assert!(matches!(
            read("BEGIN SLOWLY"),
            Command::Refused { code: "42601", .. }
        ));
        assert!(matches!(read("COMMIT AND CHAIN"), Command::Refused { .. }));
    }

    #[test]
    fn settings_are_told_apart() {
        for text in [
            "SET client_encoding TO 'UTF8'",
            "SET LOCAL statement_timeout = 5",
            "RESET statement_timeout",
            "SET search_path TO public",
            "SET search_path = \"$user\", public",
            "set extra_float_digits = 3",
            "SET \"anabranches.hop\" = 1",
            "SELECT set_config('TimeZone', 'UTC', false)",
            "PREPARE a AS SELECT 1",
            "DEALLOCATE ALL",
        ] {
            assert_eq!(read(text), Command::Setting, "{text}");
        }
        for text in [
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "SET default_transaction_isolation TO 'read committed'",
        ] {
            assert_eq!(read(text), Command::IsolationLevel, "{text}");
        }
        for text in [
            "SET anabranch.hop = 'local'",
            "SET session_replication_role = replica",
            "SET standard_conforming_strings = off",
            "SET search_path = other",
            "SELECT set_config('anabranch.hop', 'local', false)",
            "SELECT pg_catalog.set_config('search_path', '', false)",
            "UPDATE t SET a = set_config($1, '', false)",
            "COPY t FROM STDIN",
            "LISTEN a",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "CREATE TABLE t (a int)",
            "PREPARE TRANSACTION 'a'",
            "DO $$ BEGIN END $$",
            "SELECT pg_advisory_lock(1)",
            "SELECT set_config('application_name', 'x', false), set_config('anabranch.hop', 'provisional', false)",
            "SELECT set_config('application_name', 'x', true), (SELECT count(*) FROM customers)",
            "(SELECT pg_catalog.set_config('anabranch.hop', 'local', false))",
            "(SELECT pg_catalog.setval('s', 1))",
            "SET \"Anabranch\".hop = 'local'",
            "SET \"anabranch.hop\" = 'local'",
            "SET LOCAL \"Anabranch.Hop\" TO 'local'",
            "SET SESSION \"anabranch\" = 'local'",
            "RESET \"anabranch.hop\"",
            "RESET anabranch.hop",
            "SELECT set_config('anabranch', 'local', false)",
            "SET U&\"\\0061nabranch\".hop = 'local'",
            "SET \"Standard_conforming_strings\" = off",
            "; SET anabranch.hop = 'local'",
            "SET TRANSACTION READ ONLY, ISOLATION LEVEL READ COMMITTED",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, ISOLATION LEVEL READ COMMITTED",
            "SET client_encoding = 'SJIS'",
            "SET NAMES 'BIG5'",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1 AS without",
            "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
            "EXPLAIN ANALYZE EXECUTE p",
            "EXPLAIN (\"analyze\") EXECUTE p",
            "TRUNCATE t RESTART IDENTITY",
            "INSERT INTO t VALUES (currval('s'))",
            "SELECT lastval()",
            "SELECT * FROM ts_stat('SELECT a FROM t')",
            "SELECT pg_notify('a', '')",
            "SELECT setval('s', 1)",
            "SELECT a INTO b FROM t",
        ] {
            assert!(matches!(read(text), Command::Refused { .. }), "{text}");
        }
        assert_eq!(read("DISCARD ALL"), Command::ResetsAll);
        assert_eq!(
            read("CALL anabranch.remove_server('japan')"),
            Command::RemoveServer("japan".to_owned())
        );
        assert_eq!(read("CALL anabranch.catch_up(17)"), Command::CatchUp(17));
        for wrong in ["CALL anabranch.catch_up()", "CALL anabranch.catch_up(-1)"] {
            assert!(
                matches!(read(wrong), Command::Refused { code: "42601", .. }),
                "{wrong}"
            );
        }
        assert_eq!(read("EXECUTE a(1)"), Command::Execute("a".to_owned()));
    }

    #[test]
    fn the_rest_is_the_applications() {
        for text in [
            "SELECT 1",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "(SELECT 1)",
            "CALL f(1)",
            "EXPLAIN ANALYZE UPDATE t SET a = 1",
            "WITH a AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * FROM a",
            "LOCK TABLE t",
            "TRUNCATE t",
        ] {
            assert_eq!(read(text), Command::Statement, "{text}");
        }
        for text in [
            "DECLARE c CURSOR FOR SELECT 1",
            "DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1",
        ] {
            let from = text.len() - "SELECT 1".len();
            assert_eq!(read(text), Command::Declare(from..text.len()), "{text}");
        }
        assert_eq!(read(" -- nothing"), Command::Empty);
        assert_eq!(read("EXPLAIN SELECT 1"), Command::Local);
        assert_eq!(
            read("EXPLAIN COORDINATION CALL f(1)"),
            Command::ExplainCoordination(21..30)
        );
        for text in [
            "SELECT nextval('s')",
            "SELECT pg_catalog.nextval('public.s'::regclass) AS id",
            "SELECT currval($1::regclass)",
        ] {
            assert_eq!(read(text), Command::Draw, "{text}");
        }
        for text in [
            "SELECT nextval('s') FROM t",
            "SELECT nextval('s') + 1",
            "SELECT nextval((SELECT a FROM t))",
        ] {
            assert_eq!(read(text), Command::Statement, "{text}");
        }
        // A syntax error is PostgreSQL's to tell.
        assert_eq!(read("SELEC 1"), Command::Statement);
    }
}
