//! The languages, by the names of their files.

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
