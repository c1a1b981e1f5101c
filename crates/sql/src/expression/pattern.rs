//! LIKE and ILIKE.

use super::{Failure, failure};

/// Whether `text` matches a LIKE pattern: `%` is any text, `_` any character, the escape character
/// (a backslash by default) makes the next one ordinary.
///
/// # Errors
/// When the pattern ends with the escape character.
pub(crate) fn like(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    insensitive: bool,
) -> Result<bool, Failure> {
    if insensitive {
        let (text, pattern) = (text.to_lowercase(), pattern.to_lowercase());
        return matches(&text, &pattern, escape);
    }
    matches(text, pattern, escape)
}

enum Part {
    Any,
    One,
    Literal(char),
}

fn parts(pattern: &str, escape: Option<char>) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        parts.push(match c {
            c if Some(c) == escape => match characters.next() {
                Some(next) => Part::Literal(next),
                None => {
                    let message = "LIKE pattern must not end with escape character";
                    return Err(failure("22025", message));
                }
            },
            '%' => Part::Any,
            '_' => Part::One,
            c => Part::Literal(c),
        });
    }
    Ok(parts)
}

/// Greedy matching with one point to come back to: the last `%`.
fn matches(text: &str, pattern: &str, escape: Option<char>) -> Result<bool, Failure> {
    let parts = parts(pattern, escape)?;
    let text: Vec<char> = text.chars().collect();
    let (mut t, mut p) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match parts.get(p) {
            Some(Part::Any) => {
                back = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(Part::One) => {
                (t, p) = (t + 1, p + 1);
                continue;
            }
            Some(Part::Literal(c)) if *c == text[t] => {
                (t, p) = (t + 1, p + 1);
                continue;
            }
            _ => {}
        }
        let Some((after, from)) = back else {
            return Ok(false);
        };
        back = Some((after, from + 1));
        (t, p) = (from + 1, after);
    }
    Ok(parts[p..].iter().all(|part| matches!(part, Part::Any)))
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn like_matches_as_postgresql_does() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "_b_", true),
            ("abc", "a_", false),
            ("", "%", true),
            ("", "_", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aXbXc", "%X%X%", true),
            ("mississippi", "%iss%pi", true),
            ("mississippi", "%iss%pix", false),
            ("äö", "__", true),
        ];
        for (text, pattern, expected) in cases {
            let found = like(text, pattern, Some('\\'), false).unwrap();
            assert_eq!(found, expected, "{text} LIKE {pattern}");
        }
        assert!(like("ABC", "a%", Some('\\'), true).unwrap());
        assert_eq!(
            like("a", "\\", Some('\\'), false).unwrap_err().code,
            "22025"
        );
    }
}
