//! Source files that the analyser does not read: their languages, recognised by file name.
//!
//! A program in such a language may run any SQL. So its files are counted and reported, and never passed over in
//! silence. A file of a language in which applications are written counts by itself. Files that mostly do other
//! things (shell scripts, headers, templates, notebooks) count if their text looks as if it used a database. Build
//! files and settings are no programs.

/// A source file that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The name of the file's language.
    pub language: &'static str,
    /// Whether the file counts only if [`mentions_database`] of its text.
    pub by_text: bool,
}

/// Languages of applications, each with its file name extensions.
const APPLICATIONS: [(&str, &str); 27] = [
    ("Ruby", "rb ru rake"),
    ("C#", "cs"),
    ("F#", "fs fsx"),
    ("Visual Basic", "vb bas vbs"),
    ("Kotlin", "kt kts"),
    ("Scala", "scala sc"),
    ("Groovy", "groovy"),
    ("Rust", "rs"),
    ("C", "c ec pc pgc sqc"),
    ("C++", "cc cpp cxx c++ ixx"),
    ("Swift", "swift"),
    ("Elixir", "ex exs"),
    ("Erlang", "erl"),
    ("Gleam", "gleam"),
    ("Clojure", "clj cljc cljs bb"),
    ("Perl", "pl pm psgi"),
    ("Dart", "dart"),
    ("Haskell", "hs lhs"),
    ("Crystal", "cr"),
    ("Nim", "nim"),
    ("Zig", "zig"),
    ("Julia", "jl"),
    ("Pascal", "pas dpr"),
    ("COBOL", "cob cbl cobol"),
    ("ColdFusion", "cfm cfc"),
    ("CoffeeScript", "coffee"),
    ("Cython", "pyx"),
];

/// Languages of files that mostly do not use a database, each with its file name extensions.
const OTHERS: [(&str, &str); 21] = [
    ("Objective-C", "m mm"),
    ("OCaml", "ml"),
    ("Lua", "lua"),
    ("D", "d"),
    ("V", "v"),
    ("shell", "sh bash zsh ksh"),
    ("PowerShell", "ps1 psm1"),
    ("Windows batch", "bat cmd"),
    ("C/C++ header", "h hh hpp hxx"),
    ("R", "r rmd"),
    ("Tcl", "tcl"),
    ("Jupyter notebook", "ipynb"),
    ("Vue", "vue"),
    ("Svelte", "svelte"),
    ("Astro", "astro"),
    ("ERB", "erb"),
    ("JSP", "jsp jspx"),
    ("Razor", "cshtml razor"),
    ("ASP", "asp aspx ascx"),
    ("Apex", "cls trigger"),
    ("PHP", "php3 php4 php5 php7 php8 phps module install ctp"),
];

/// Files of build tools and settings that are written in a language of applications.
const SETTINGS: [&str; 22] = [
    "config.ru",
    "guardfile.rb",
    "puma.rb",
    "unicorn.rb",
    "package.swift",
    "build.rs",
    "build.zig",
    "mix.exs",
    ".formatter.exs",
    ".credo.exs",
    "rebar.config.script",
    "project.clj",
    "build.sc",
    "build.cs",
    "assemblyinfo.cs",
    "globalusings.cs",
    "setup.hs",
    "makefile.pl",
    "build.pl",
    "jenkinsfile.groovy",
    "shard.cr",
    "myst.cr",
];

/// Interpreters of scripts without an extension, as a script's first line names them.
const INTERPRETERS: [(&str, &str); 12] = [
    ("ruby", "Ruby"),
    ("perl", "Perl"),
    ("python", "Python"),
    ("php", "PHP"),
    ("node", "JavaScript"),
    ("deno", "TypeScript"),
    ("bash", "shell"),
    ("zsh", "shell"),
    ("sh", "shell"),
    ("elixir", "Elixir"),
    ("kotlin", "Kotlin"),
    ("lua", "Lua"),
];

/// What a file is, by its name, if it is a source file that is not read. Files of build tools and settings are not.
pub fn unread(path: &str) -> Option<Unread> {
    let file = path.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
    let (stem, extension) = file.rsplit_once('.')?;
    let is_setting = SETTINGS.contains(&file.as_str())
        || extension == "kts" && (stem.ends_with(".gradle") || stem.ends_with(".main"))
        || extension == "cs" && (stem.ends_with(".g") || stem.ends_with(".designer"))
        || extension == "exs" && path.split(['/', '\\']).any(|folder| folder == "config");
    if is_setting || stem.is_empty() {
        return None;
    }
    let language = |of: &[(&'static str, &str)]| {
        let mut all = of.iter();
        let found = all.find(|(_, ends)| ends.split(' ').any(|end| end == extension));
        found.map(|(language, _)| *language)
    };
    let application = language(&APPLICATIONS).map(|language| (language, false));
    let (language, by_text) =
        application.or_else(|| language(&OTHERS).map(|language| (language, true)))?;
    Some(Unread { language, by_text })
}

/// The language of a script without an extension, by its first line (`#!/usr/bin/env ruby`).
pub fn script_language(text: &str) -> Option<&'static str> {
    let line = text.strip_prefix("#!")?.lines().next()?;
    let words = line
        .split_whitespace()
        .filter(|word| !word.starts_with('-'));
    let mut programs = words.map(|word| word.rsplit('/').next().unwrap_or(word));
    let program = programs.find(|program| *program != "env")?;
    let found = INTERPRETERS.iter().find(|(name, _)| {
        let version = program.strip_prefix(name);
        version.is_some_and(|of| of.chars().all(|c| c.is_ascii_digit() || c == '.'))
    });
    found.map(|(_, language)| *language)
}

/// Whether a source file that is not read contains tests, by the names and folders that its language's test runners
/// look for.
pub fn is_unread_test(path: &str) -> bool {
    let mut parts = path.rsplit(['/', '\\']);
    let file = parts.next().unwrap_or(path);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let by_name = stem.ends_with("_test")
        || stem.ends_with("_spec")
        || stem.ends_with("_SUITE")
        || stem.starts_with("test_")
        || ["Test", "Tests", "Spec", "Specs", "TestCase"]
            .iter()
            .any(|end| stem.ends_with(end));
    let in_folder = |folder: &str| {
        matches!(
            folder,
            "test" | "tests" | "spec" | "Tests" | "specs" | "androidTest"
        ) || folder.ends_with(".Tests")
            || folder.ends_with(".Test")
    };
    by_name || parts.any(in_folder)
}

/// Whether a text looks as if it used a relational database: it has a statement of SQL, or names a client of one.
pub fn mentions_database(text: &str) -> bool {
    const CLIENTS: [&str; 22] = [
        "exec sql",
        "libpq",
        "pqexec",
        "pqconnect",
        "mysql_query",
        "pqxx",
        "odbc",
        "jdbc:",
        "<sql:",
        "dbi::",
        "rpostgre",
        "sqlalchemy",
        "psycopg",
        "sequelize",
        "prisma",
        "typeorm",
        "drizzle",
        "activerecord",
        "dbcontext",
        "npgsql",
        "sqlconnection",
        "postgresql://",
    ];
    let lower = text.to_ascii_lowercase();
    // Commands of a shell end as statements do.
    CLIENTS.iter().any(|client| lower.contains(client))
        || lower.split([';', '&']).any(has_statement)
}

/// Whether a lower-case text has a statement of SQL.
fn has_statement(lower: &str) -> bool {
    // The words that begin a statement, and the word that follows, at most `words` later.
    const STATEMENTS: [(&str, &str, usize); 4] = [
        ("select", "from", 40),
        ("insert", "into", 1),
        ("update", "set", 4),
        ("delete", "from", 1),
    ];
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().enumerate().any(|(at, word)| {
        let of = STATEMENTS.iter().find(|(first, ..)| first == word);
        of.is_some_and(|(_, second, within)| {
            let behind = words[at + 1..].iter().take(*within);
            behind.into_iter().any(|word| word == second)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_known_by_file_names() {
        for (name, language) in [
            ("app/models/voucher.rb", Some("Ruby")),
            ("lib/tasks/close.rake", Some("Ruby")),
            ("Shop/Orders.cs", Some("C#")),
            ("Redeem.kt", Some("Kotlin")),
            ("a/Redeem.SCALA", Some("Scala")),
            ("src/main.rs", Some("Rust")),
            ("lib/shop/orders.ex", Some("Elixir")),
            ("orders.pgc", Some("C")),
            ("orders.cpp", Some("C++")),
            ("orders.clj", Some("Clojure")),
            ("Orders.swift", Some("Swift")),
            ("orders.pm", Some("Perl")),
            ("deploy.sh", Some("shell")),
            ("build.gradle.kts", None),
            ("config/runtime.exs", None),
            ("mix.exs", None),
            ("build.rs", None),
            ("Package.swift", None),
            ("Model.Designer.cs", None),
            ("pom.xml", None),
            ("settings.yml", None),
            ("README.md", None),
            ("Makefile", None),
            (".rb", None),
            ("a.java", None),
            ("a.sql", None),
        ] {
            assert_eq!(unread(name).map(|of| of.language), language, "{name}");
        }
    }

    #[test]
    fn a_file_that_mostly_does_other_things_counts_by_its_text() {
        assert!(unread("deploy.sh").is_some_and(|of| of.by_text));
        assert!(unread("orders.rb").is_some_and(|of| !of.by_text));
        for text in [
            "psql -c \"DELETE FROM t WHERE id = $1\"",
            "EXEC SQL UPDATE t SET n = 1;",
            "run(\"update accounts set balance = 0\")",
            "q('INSERT INTO t VALUES (1)')",
            "SELECT a,\n b FROM t",
        ] {
            assert!(mentions_database(text), "{text}");
        }
        for text in [
            "apt-get update; set -e",
            "select an option from below",
            "psql -f schema.sql",
            "git update-index; insert coin",
        ] {
            // `select … from` in prose is taken for SQL: the report then says too much, not too little.
            let is_prose = text.starts_with("select");
            assert_eq!(mentions_database(text), is_prose, "{text}");
        }
    }

    #[test]
    fn scripts_without_an_extension_name_their_interpreter() {
        for (text, language) in [
            ("#!/usr/bin/env ruby\n", Some("Ruby")),
            ("#!/usr/bin/env -S python3.11 -u\n", Some("Python")),
            ("#!/bin/sh -e\n", Some("shell")),
            ("#!/usr/bin/make -f\n", None),
            ("ruby\n", None),
        ] {
            assert_eq!(script_language(text), language, "{text}");
        }
    }

    #[test]
    fn tests_of_unread_languages_are_known_by_names_and_folders() {
        for (name, is) in [
            ("spec/models/voucher_spec.rb", true),
            ("test/support/helper.exs", true),
            ("Shop.Tests/Orders.cs", true),
            ("src/OrdersTest.kt", true),
            ("src/Latest.kt", false),
            ("app/spectrum.rb", false),
            ("app/contest.rb", false),
        ] {
            assert_eq!(is_unread_test(name), is, "{name}");
        }
    }
}
