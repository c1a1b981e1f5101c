//! Refuses what PostgreSQL and `sqlparser` group differently:
//!
//! * `- a ^ b`: PostgreSQL takes it for `(- a) ^ b`, `sqlparser` for `- (a ^ b)`;
//! * `a ~ b || c`: PostgreSQL takes it for `(a ~ b) || c`, `sqlparser` for `a ~ (b || c)`;
//! * `~ a + b`: PostgreSQL takes it for `~ (a + b)`, `sqlparser` for `(~ a) + b`; so for `@`, `|/` and `||/`.
//!
//! They are the only differences between the two that tests with random expressions found. The expression gets a
//! diagnostic instead of one of the two meanings.

use sqlparser::tokenizer::Token as Kind;

use super::{keyword::is_reserved, lexer::Token};
use crate::diagnostic::Diagnostic;

/// Refuses a sign before the left operand of `^`, and an operator of patterns before the left operand of `||`.
pub(super) fn check(tokens: &[Token]) -> Result<(), Diagnostic> {
    for (position, token) in tokens.iter().enumerate() {
        let is_prefix = match token.kind {
            // `OPERATOR(pg_catalog.~)` names one.
            Kind::Tilde | Kind::AtSign => {
                let before = &tokens[..position];
                let is_name = before
                    .last()
                    .is_some_and(|token| token.kind == Kind::Period);
                !is_name && is_unary(before)
            }
            Kind::PGSquareRoot | Kind::PGCubeRoot => true,
            _ => false,
        };
        if is_prefix && !stands_alone(&tokens[position + 1..]) {
            let construct = format!("{} before several operands", token.kind);
            return Err(Diagnostic::unsupported(construct, token.span)
                .help("put the operator and what it belongs to in parentheses"));
        }
        if !matches!(token.kind, Kind::Caret | Kind::StringConcat) {
            continue;
        }
        let Some(before) = before_operand(&tokens[..position]) else {
            continue;
        };
        let span = tokens[before].span.to(token.span);
        match (&token.kind, &tokens[before].kind) {
            (Kind::Caret, Kind::Minus | Kind::Plus) if is_unary(&tokens[..before]) => {
                return Err(
                    Diagnostic::unsupported("a sign before an operand of ^", span)
                        .help("put the sign and what it belongs to in parentheses"),
                );
            }
            (Kind::StringConcat, operator) if is_pattern(operator) => {
                let construct = format!("{operator} before an operand of ||");
                return Err(Diagnostic::unsupported(construct, span)
                    .help("put || and its operands in parentheses"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether these tokens begin with an operand, and no operator of arithmetic stands behind it.
fn stands_alone(tokens: &[Token]) -> bool {
    let mut rest = tokens.iter().map(|token| &token.kind).peekable();
    if rest.peek() == Some(&&Kind::Minus) {
        rest.next();
    }
    let mut depth = 0_usize;
    let mut is_begun = false;
    for kind in rest {
        match kind {
            Kind::LParen | Kind::LBracket => depth += 1,
            Kind::RParen | Kind::RBracket if depth == 0 => return is_begun,
            Kind::RParen | Kind::RBracket => depth -= 1,
            _ if depth > 0 => {}
            kind if is_of_operand(kind) => {}
            Kind::Plus | Kind::Minus | Kind::Mul | Kind::Div | Kind::Mod | Kind::Caret => {
                return false;
            }
            _ => return is_begun,
        }
        is_begun = true;
    }
    is_begun
}

/// Whether an operand has such tokens outside its brackets.
fn is_of_operand(kind: &Kind) -> bool {
    match kind {
        Kind::Number(..)
        | Kind::SingleQuotedString(_)
        | Kind::Placeholder(_)
        | Kind::Period
        | Kind::DoubleColon => true,
        Kind::Word(word) => word.quote_style.is_some() || !is_reserved(&word.value),
        _ => false,
    }
}

/// Whether this is an operator of regular expressions, or of LIKE.
fn is_pattern(operator: &Kind) -> bool {
    matches!(
        operator,
        Kind::Tilde
            | Kind::TildeAsterisk
            | Kind::ExclamationMarkTilde
            | Kind::ExclamationMarkTildeAsterisk
            | Kind::DoubleTilde
            | Kind::DoubleTildeAsterisk
            | Kind::ExclamationMarkDoubleTilde
            | Kind::ExclamationMarkDoubleTildeAsterisk
    )
}

/// The position of the last token before the operand that these tokens end with.
fn before_operand(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    for (position, token) in tokens.iter().enumerate().rev() {
        match &token.kind {
            Kind::RParen | Kind::RBracket => depth += 1,
            Kind::LParen | Kind::LBracket if depth == 0 => return Some(position),
            Kind::LParen | Kind::LBracket => depth -= 1,
            _ if depth > 0 => {}
            kind if is_of_operand(kind) => {}
            _ => return Some(position),
        }
    }
    None
}

/// Whether a sign after these tokens has nothing to its left to be subtracted from or added to.
fn is_unary(before: &[Token]) -> bool {
    match before.last().map(|token| &token.kind) {
        Some(Kind::Word(word)) => {
            // Words that stand before an expression and are no reserved ones.
            const OTHERS: [&str; 6] = ["between", "by", "escape", "ilike", "is", "like"];
            let word_before = |word: &str| is_reserved(word) && word != "end";
            word.quote_style.is_none()
                && (word_before(&word.value) || OTHERS.contains(&word.value.as_str()))
        }
        Some(
            Kind::Number(..)
            | Kind::SingleQuotedString(_)
            | Kind::Placeholder(_)
            | Kind::RParen
            | Kind::RBracket,
        ) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::lexer::{Places, Text, lex};

    #[test]
    fn what_is_grouped_differently_is_refused() {
        for (text, refused) in [
            ("- 2 ^ 2", true),
            ("1 * - a.b ^ 2", true),
            ("(-abs(x + 1)::numeric ^ 2)", true),
            ("CASE WHEN - x ^ 2 > 1 THEN 1 END", true),
            ("x BETWEEN - 2 ^ 2 AND 3", true),
            ("ORDER BY - x ^ 2", true),
            ("(- 2) ^ 2", false),
            ("1 - 2 ^ 2", false),
            ("(1) - x ^ 2", false),
            ("2 ^ -1", false),
            ("a[1] - f(-1) ^ 2", false),
            ("a ~ 'b' || c", true),
            ("x.a !~* f(b)::text || c || d", true),
            ("a ~~ (b) || c", true),
            ("a ~ ('b' || c)", false),
            ("SELECT ~ a + 1", true),
            ("SELECT ~ f(a) * 2", true),
            ("SELECT |/ a::numeric - 1", true),
            ("SELECT ~ CASE WHEN a THEN 1 END", true),
            ("SELECT ~ - a, @ (b + 1) AS c", false),
            ("SELECT ~ a[1] & b FROM t", false),
            ("a ~ b + c", false),
            ("a OPERATOR(pg_catalog.~) b + c", false),
            ("a || b ~ c AND d || e LIKE f || g", false),
        ] {
            let (tokens, _) = lex(Text {
                file: 0,
                text,
                places: Places::From(0),
            });
            assert_eq!(check(&tokens).is_err(), refused, "{text}");
        }
    }
}
