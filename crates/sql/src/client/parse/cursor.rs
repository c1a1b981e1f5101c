//! Parses DECLARE, FETCH, MOVE and CLOSE.

use sqlparser::tokenizer::Token as Kind;

use super::runnable::{self, runnable};
use crate::{
    client::{
        cursor::{CursorDeclaration, FetchDirection},
        statement::ClientStatementKind,
    },
    parse::cursor::{Cursor, Parsed},
};

/// The statement about a cursor that stands here; `None` if it is another. The text begins at `start` of the message.
pub(super) fn statement(
    cursor: &mut Cursor<'_>,
    start: usize,
) -> Parsed<Option<ClientStatementKind>> {
    if cursor.eat_word("declare") {
        return declare(cursor, start).map(Some);
    }
    let found = if cursor.eat_word("fetch") {
        fetch(cursor, false)?
    } else if cursor.eat_word("move") {
        fetch(cursor, true)?
    } else if cursor.eat_word("close") {
        ClientStatementKind::CloseCursor(match cursor.eat_word("all") {
            true => None,
            false => Some(cursor.name("a cursor's name")?.text),
        })
    } else {
        return Ok(None);
    };
    cursor.finish("the end of the statement")?;
    Ok(Some(found))
}

fn declare(cursor: &mut Cursor<'_>, start: usize) -> Parsed<ClientStatementKind> {
    let name = cursor.name("a cursor's name")?.text;
    let (mut binary, mut scroll) = (false, None);
    loop {
        if cursor.eat_word("binary") {
            binary = true;
        } else if cursor.eat_words(&["no", "scroll"]) {
            scroll = Some(false);
        } else if cursor.eat_word("scroll") {
            scroll = Some(true);
        } else if !cursor.eat_word("insensitive") && !cursor.eat_word("asensitive") {
            break;
        }
    }
    cursor.expect_words(&["cursor"])?;
    let holds = cursor.eat_words(&["with", "hold"]);
    if !holds {
        cursor.eat_words(&["without", "hold"]);
    }
    cursor.expect_words(&["for"])?;
    let is_query = ["select", "values", "table", "with"];
    let opens = cursor.at(&Kind::LParen) || cursor.at_any(&is_query);
    if !runnable::begins(cursor) || !opens {
        return Err(cursor.expected("SELECT, VALUES, TABLE or WITH"));
    }
    Ok(ClientStatementKind::DeclareCursor(Box::new(
        CursorDeclaration {
            name,
            binary,
            scroll,
            holds,
            query: runnable(cursor, start)?,
        },
    )))
}

fn fetch(cursor: &mut Cursor<'_>, moves: bool) -> Parsed<ClientStatementKind> {
    let direction = direction(cursor)?;
    let _ = cursor.eat_word("from") || cursor.eat_word("in");
    Ok(ClientStatementKind::Fetch {
        direction,
        name: cursor.name("a cursor's name")?.text,
        moves,
    })
}

fn direction(cursor: &mut Cursor<'_>) -> Parsed<FetchDirection> {
    use FetchDirection::{Absolute, BackwardAll, Forward, Relative};
    let words = [
        ("next", Forward(Some(1))),
        ("prior", Forward(Some(-1))),
        ("first", Absolute(1)),
        ("last", Absolute(-1)),
        ("all", Forward(None)),
    ];
    for (word, direction) in words {
        // A cursor may have a direction's name.
        if cursor.at_word(word) && cursor.peek_at(1).is_some() {
            cursor.next();
            return Ok(direction);
        }
    }
    if cursor.eat_word("absolute") {
        return Ok(Absolute(count(cursor)?));
    }
    if cursor.eat_word("relative") {
        return Ok(Relative(count(cursor)?));
    }
    for (word, sign) in [("forward", 1), ("backward", -1)] {
        if cursor.at_word(word) && cursor.peek_at(1).is_some() {
            cursor.next();
            if cursor.eat_word("all") {
                return Ok(if sign > 0 { Forward(None) } else { BackwardAll });
            }
            return Ok(Forward(Some(match at_count(cursor) {
                true => sign * count(cursor)?,
                false => sign,
            })));
        }
    }
    match at_count(cursor) {
        true => Ok(Forward(Some(count(cursor)?))),
        false => Ok(Forward(Some(1))),
    }
}

fn at_count(cursor: &Cursor<'_>) -> bool {
    let kind = cursor.peek().map(|token| &token.kind);
    matches!(kind, Some(Kind::Number(..) | Kind::Minus | Kind::Plus))
}

fn count(cursor: &mut Cursor<'_>) -> Parsed<i64> {
    let is_negative = cursor.eat(&Kind::Minus);
    if !is_negative {
        cursor.eat(&Kind::Plus);
    }
    let (number, _) = cursor.integer()?;
    Ok(if is_negative {
        -i64::from(number)
    } else {
        i64::from(number)
    })
}
