//! Which values of a program are certainly numbers: by their types, and by the calls that return them.

use crate::language::Language;

/// Whether a type's values are numbers as in SQL.
pub(crate) fn is_number(of_type: &str) -> bool {
    let name = of_type
        .trim()
        .trim_start_matches([':', '?', ' '])
        .to_ascii_lowercase();
    matches!(
        name.as_str(),
        "int"
            | "long"
            | "short"
            | "byte"
            | "integer"
            | "double"
            | "float"
            | "number"
            | "bigint"
            | "int64"
            | "int32"
            | "int16"
            | "uint"
            | "uint32"
            | "uint64"
            | "float64"
            | "float32"
            | "bigdecimal"
            | "decimal"
    )
}

/// Whether the values of a declared type have that type in this language.
pub(crate) fn is_typed(language: Language) -> bool {
    matches!(language, Language::Java | Language::Go | Language::Php)
}

/// Returns a number in every class of the language's library.
pub(crate) fn counts(name: &str, language: Language) -> bool {
    match language {
        Language::Java => matches!(
            name,
            "ordinal"
                | "hashCode"
                | "size"
                | "length"
                | "intValue"
                | "longValue"
                | "doubleValue"
                | "nextInt"
                | "nextLong"
                | "currentTimeMillis"
                | "nanoTime"
        ),
        Language::Python | Language::Go => name == "len",
        Language::Php => matches!(name, "count" | "strlen" | "sizeof"),
        Language::JavaScript | Language::TypeScript => false,
    }
}
