//! Quoting of words in commands that are printed to be run.

use std::borrow::Cow;

/// The word for a POSIX shell: unchanged, or in single quotes.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+=".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_are_one_word_for_a_shell() {
        for plain in ["storm", "wan:examples/networks/a-b.txt", "/tmp/case.jsonl"] {
            assert_eq!(quoted(plain), plain);
        }
        assert_eq!(quoted("my plan.txt"), "'my plan.txt'");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
        assert_eq!(quoted("$(echo no)"), "'$(echo no)'");
        assert_eq!(quoted(""), "''");
        for word in [
            "my plan.txt",
            "a'b",
            "$HOME",
            "*",
            "",
            "~",
            "a\nb",
            "\"",
            "\\",
        ] {
            let echo = format!("printf %s {}", quoted(word));
            let shell = std::process::Command::new("sh")
                .args(["-c", &echo])
                .output();
            let output = shell.expect("there is a shell").stdout;
            assert_eq!(String::from_utf8(output).as_deref(), Ok(word));
        }
    }
}
