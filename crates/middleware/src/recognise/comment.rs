//! The comment by which a program names its operation: `/*action='do_cart'*/`, also with other keys, as sqlcommenter
//! writes it: `/*action='do_cart',controller='shop'*/`.

use crate::lex::{TokenKind, tokens};

/// The name that a comment of a statement gives to the operation.
pub(super) fn action(statement: &str) -> Option<String> {
    if !statement.contains("action") {
        return None;
    }
    let tokens = tokens(statement).ok()?;
    let comments = tokens
        .iter()
        .filter(|token| token.kind == TokenKind::Comment);
    comments.into_iter().find_map(|token| {
        let text = token.text(statement);
        let inside = text.strip_prefix("/*")?.strip_suffix("*/")?;
        inside.split(',').find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            let name = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
            (key.trim() == "action" && !name.is_empty()).then(|| name.to_owned())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::action;

    #[test]
    fn actions_are_found_in_comments_alone() {
        for text in [
            "/*action='do_cart'*/ SELECT 1",
            "SELECT 1 /* action = 'do_cart' */",
            "SELECT 1 /*controller='a',action='do_cart',route='%2F'*/",
        ] {
            assert_eq!(action(text).as_deref(), Some("do_cart"), "{text}");
        }
        for text in [
            "SELECT '/*action=''do_cart''*/'",
            "SELECT 1 -- action='do_cart'",
            "/*transaction='do_cart'*/ SELECT 1",
            "/*action=''*/ SELECT 1",
            "/*action=do_cart*/ SELECT 1",
        ] {
            assert_eq!(action(text), None, "{text}");
        }
    }
}
