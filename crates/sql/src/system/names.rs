//! Names as SQL writes them.

/// A name as SQL writes it: in quotes where it needs them.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && name.chars().all(is_plain) && !is_reserved(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether PostgreSQL puts this word in quotes where it is a name: its keywords but the unreserved ones.
fn is_reserved(word: &str) -> bool {
    const WORDS: &str = " all analyse analyze and any array as asc asymmetric authorization between bigint binary bit \
        boolean both case cast char character check coalesce collate collation column concurrently constraint create \
        cross current_catalog current_date current_role current_schema current_time current_timestamp current_user dec \
        decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign freeze \
        from full grant greatest group grouping having ilike in initially inner inout int integer intersect interval \
        into is isnull join lateral leading least left like limit localtime localtimestamp national natural nchar none \
        normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay placing position \
        precision primary real references returning right row select session_user setof similar smallint some symmetric \
        substring table tablesample then time timestamp to trailing treat trim true union unique user using values \
        varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest \
        xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable ";
    WORDS.split_ascii_whitespace().any(|of| of == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_need_it() {
        for (name, text) in [
            ("orders", "orders"),
            ("Orders", "\"Orders\""),
            ("order", "\"order\""),
            ("a b", "\"a b\""),
            ("1a", "\"1a\""),
            ("a\"b", "\"a\"\"b\""),
            ("name", "name"),
        ] {
            assert_eq!(quoted(name), text);
        }
    }
}
