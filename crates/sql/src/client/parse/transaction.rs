//! Parses BEGIN, COMMIT, ROLLBACK, savepoints, and transaction modes.

use sqlparser::tokenizer::Token as Kind;

use crate::{
    client::{
        statement::ClientStatementKind,
        transaction::{IsolationLevel, TransactionModes, TransactionStatement},
    },
    diagnostic::Diagnostic,
    parse::cursor::{Cursor, Parsed},
};

/// Transactions that are prepared by hand.
const TWO_PHASE: [[&str; 2]; 3] = [
    ["commit", "prepared"],
    ["rollback", "prepared"],
    ["prepare", "transaction"],
];

/// The transaction statement that stands here; `None` if it is another.
pub(super) fn statement(cursor: &mut Cursor<'_>) -> Parsed<Option<ClientStatementKind>> {
    let found = if cursor.eat_word("begin") {
        work(cursor);
        let modes = modes(cursor, false)?;
        TransactionStatement::Begin {
            modes,
            start: false,
        }
    } else if cursor.at_word("start") {
        cursor.expect_words(&["start", "transaction"])?;
        let modes = modes(cursor, false)?;
        TransactionStatement::Begin { modes, start: true }
    } else if TWO_PHASE.iter().any(|words| cursor.at_words(words)) {
        return two_phase(cursor).map(Some);
    } else if cursor.eat_word("commit") || cursor.eat_word("end") {
        work(cursor);
        let chain = chain(cursor)?;
        TransactionStatement::Commit { chain }
    } else if cursor.eat_word("rollback") {
        work(cursor);
        if cursor.eat_word("to") {
            cursor.eat_word("savepoint");
            TransactionStatement::RollbackTo(savepoint(cursor)?)
        } else {
            let chain = chain(cursor)?;
            TransactionStatement::Rollback { chain }
        }
    } else if cursor.eat_word("abort") {
        work(cursor);
        let chain = chain(cursor)?;
        TransactionStatement::Rollback { chain }
    } else if cursor.eat_word("savepoint") {
        TransactionStatement::Savepoint(savepoint(cursor)?)
    } else if cursor.eat_word("release") {
        cursor.eat_word("savepoint");
        TransactionStatement::Release(savepoint(cursor)?)
    } else {
        return Ok(None);
    };
    Ok(Some(ClientStatementKind::Transaction(found)))
}

/// PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
fn two_phase(cursor: &mut Cursor<'_>) -> Parsed<ClientStatementKind> {
    let words = cursor.take(2).whole_span();
    cursor.string()?;
    let construct = cursor.file().slice(words).to_uppercase();
    Ok(ClientStatementKind::Unsupported(
        Diagnostic::unsupported(construct, words)
            .help("end the transaction with COMMIT or ROLLBACK"),
    ))
}

fn work(cursor: &mut Cursor<'_>) {
    let _ = cursor.eat_word("work") || cursor.eat_word("transaction");
}

fn savepoint(cursor: &mut Cursor<'_>) -> Parsed<String> {
    Ok(cursor.name("a savepoint's name")?.text)
}

fn chain(cursor: &mut Cursor<'_>) -> Parsed<bool> {
    if !cursor.eat_word("and") {
        return Ok(false);
    }
    let no = cursor.eat_word("no");
    cursor.expect_words(&["chain"])?;
    Ok(!no)
}

/// Transaction modes up to the end; at least one if `needed`.
pub(super) fn modes(cursor: &mut Cursor<'_>, needed: bool) -> Parsed<TransactionModes> {
    let mut modes = TransactionModes::default();
    let mut first = true;
    while !cursor.is_done() || (first && needed) {
        if !first {
            cursor.eat(&Kind::Comma);
        }
        first = false;
        if cursor.eat_words(&["isolation", "level"]) {
            modes.isolation = Some(level(cursor)?);
        } else if cursor.eat_words(&["read", "only"]) {
            modes.read_only = Some(true);
        } else if cursor.eat_words(&["read", "write"]) {
            modes.read_only = Some(false);
        } else if cursor.eat_word("deferrable") {
            modes.deferrable = Some(true);
        } else if cursor.eat_words(&["not", "deferrable"]) {
            modes.deferrable = Some(false);
        } else {
            return Err(cursor.expected("ISOLATION LEVEL, READ ONLY, READ WRITE or DEFERRABLE"));
        }
    }
    Ok(modes)
}

fn level(cursor: &mut Cursor<'_>) -> Parsed<IsolationLevel> {
    const LEVELS: [(&[&str], IsolationLevel); 4] = [
        (&["serializable"], IsolationLevel::Serializable),
        (&["repeatable", "read"], IsolationLevel::RepeatableRead),
        (&["read", "committed"], IsolationLevel::ReadCommitted),
        (&["read", "uncommitted"], IsolationLevel::ReadUncommitted),
    ];
    for (words, level) in LEVELS {
        if cursor.eat_words(words) {
            return Ok(level);
        }
    }
    Err(cursor.expected("SERIALIZABLE, REPEATABLE READ, READ COMMITTED or READ UNCOMMITTED"))
}
