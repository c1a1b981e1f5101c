//! The languages, by the names of their files.

use std::borrow::Cow;

use tree_sitter::Language as Grammar;

/// A language whose source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Language {
    /// Java.
    Java,
    /// Python.
    Python,
    /// Go.
    Go,
    /// TypeScript.
    TypeScript,
    /// JavaScript, and both with markup in it: TypeScript's grammar for JSX reads all of it.
    JavaScript,
    /// PHP.
    Php,
}

impl Language {
    /// The language of a file, by the end of its name.
    pub fn of(name: &str) -> Option<Language> {
        let file = name.rsplit(['/', '\\']).next()?;
        let (_, extension) = file.rsplit_once('.')?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "java" => Language::Java,
            "py" => Language::Python,
            "go" => Language::Go,
            "ts" | "mts" | "cts" => Language::TypeScript,
            "js" | "mjs" | "cjs" | "jsx" | "tsx" => Language::JavaScript,
            "php" | "phtml" | "inc" => Language::Php,
            _ => return None,
        })
    }

    /// Whether a file is one of tests, by the name that its language's runners look for.
    pub fn is_test(name: &str) -> bool {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let Some((stem, _)) = file.rsplit_once('.') else {
            return false;
        };
        match Language::of(file) {
            Some(Language::Go) => stem.ends_with("_test"),
            Some(Language::Python) => {
                stem.starts_with("test_") || stem.ends_with("_test") || stem == "conftest"
            }
            Some(Language::TypeScript | Language::JavaScript) => {
                stem.ends_with(".test") || stem.ends_with(".spec")
            }
            Some(Language::Java) => {
                let ends = ["Test", "Tests", "TestCase", "IT"];
                ends.iter().any(|end| stem.ends_with(end))
            }
            Some(Language::Php) => stem.ends_with("Test"),
            None => false,
        }
    }

    /// A text of as many bytes that the grammar can read, where it is behind its language.
    pub(crate) fn readable(self, text: &str) -> Cow<'_, str> {
        match self {
            Language::Go => pointers_to_values(text),
            _ => Cow::Borrowed(text),
        }
    }

    pub(crate) fn grammar(self) -> Grammar {
        match self {
            Language::Java => tree_sitter_java::LANGUAGE.into(),
            Language::Python => tree_sitter_python::LANGUAGE.into(),
            Language::Go => tree_sitter_go::LANGUAGE.into(),
            Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Language::JavaScript => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Language::Php => tree_sitter_php::LANGUAGE_PHP.into(),
        }
    }
}

/// Go's `new` of a value, which the grammar knows of types alone (Go 1.26), as a call of something else.
fn pointers_to_values(text: &str) -> Cow<'_, str> {
    const NEW: &str = "new(";
    let mut found: Vec<usize> = Vec::new();
    for (at, _) in text.match_indices(NEW) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let inside = !text[..at].ends_with(|c: char| is_word(c) || c == '.');
        if inside && is_value(text[at + NEW.len()..].trim_start()) {
            found.push(at);
        }
    }
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut read = text.to_owned();
    for at in found {
        read.replace_range(at..at + 3, "NEW");
    }
    Cow::Owned(read)
}

/// Whether what stands behind `new(` is a value, and no type.
fn is_value(argument: &str) -> bool {
    const TYPES: [&str; 5] = ["struct", "map", "func", "chan", "interface"];
    if argument.starts_with(['"', '`', '\'', '-', '!', '&']) {
        return true;
    }
    if argument.starts_with(|c: char| c.is_ascii_digit()) {
        return true;
    }
    let name = argument.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
    let (name, rest) = argument.split_at(name.unwrap_or(argument.len()));
    let called = rest.starts_with(['(', '{', '+', '-', ' ']);
    !name.is_empty() && called && !TYPES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_to_a_value_is_read_as_a_call() {
        let text = "a(new(\"x\"), new(T), new(p.T), new(f(x)), new(1), renew(\"y\"), new(map[k]v), new(struct {}))";
        let read = Language::Go.readable(text);
        let expected = "a(NEW(\"x\"), new(T), new(p.T), NEW(f(x)), NEW(1), renew(\"y\"), new(map[k]v), new(struct {}))";
        assert_eq!(read, expected);
    }

    #[test]
    fn tests_are_known_by_the_names_that_runners_look_for() {
        for (name, is) in [
            ("a/b_test.go", true),
            ("a/test_b.py", true),
            ("a/conftest.py", true),
            ("a/b.spec.ts", true),
            ("a/b.test.jsx", true),
            ("a/ShopIT.java", true),
            ("a/ShopTest.php", true),
            ("a/latest.go", false),
            ("a/contest.py", false),
            ("test/shop.py", false),
            ("a/spec.ts", false),
            ("a/Testing.java", false),
        ] {
            assert_eq!(Language::is_test(name), is, "{name}");
        }
    }
}
