//! Migrations: what leads back is not what is declared.

use std::ops::Range;

/// What stands before a way back, and before a way forth, each on a line of its own: goose, sql-migrate, dbmate, tern.
const BACK: [&str; 4] = [
    "+goose down",
    "+migrate down",
    "migrate:down",
    "create above / drop below",
];
const FORTH: [&str; 3] = ["+goose up", "+migrate up", "migrate:up"];

/// The stretches of a file that undo what it, or another, does.
pub(super) fn ways_back(name: &str, text: &str) -> Vec<Range<usize>> {
    let file = name
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(name)
        .to_lowercase();
    // golang-migrate and others; Flyway's U2__name.sql.
    let undo = file
        .strip_prefix('u')
        .and_then(|rest| rest.split_once("__"));
    let is_undo = undo.is_some_and(|(version, _)| {
        !version.is_empty()
            && version
                .bytes()
                .all(|b| b.is_ascii_digit() || b == b'.' || b == b'_')
    });
    if file.ends_with(".down.sql") || is_undo {
        return std::iter::once(0..text.len()).collect();
    }
    let mut found = Vec::new();
    let mut begun = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if let Some(comment) = line.trim().strip_prefix("--") {
            let comment = comment.trim_matches([' ', '\t', '-']).to_lowercase();
            let is = |marks: &[&str]| marks.iter().any(|mark| comment.starts_with(mark));
            if is(&BACK) {
                begun.get_or_insert(end);
            } else if is(&FORTH) {
                found.extend(begun.take().map(|start| start..at));
            }
        }
        at = end;
    }
    found.extend(begun.map(|start| start..text.len()));
    found
}

/// The text with blanks in place of these stretches.
pub(super) fn without(text: &str, stretches: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c == '\n' || !stretches.iter().any(|range| range.contains(&at)) {
            true => out.push(c),
            false => out.extend(std::iter::repeat_n(' ', c.len_utf8())),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_ends_where_the_next_way_forth_begins() {
        let text =
            "-- +goose Up\na;\n-- +goose Down\nb;\n-- +goose Up\nc;\n  ---- migrate:down\nd;";
        let back = ways_back("001.sql", text);
        let shown: Vec<&str> = back.iter().map(|range| &text[range.clone()]).collect();
        assert_eq!(shown, ["b;\n", "d;"]);
        let kept = without(text, &back);
        assert_eq!(kept.len(), text.len());
        assert_eq!(
            kept.split_whitespace()
                .filter(|w| w.ends_with(';'))
                .collect::<String>(),
            "a;c;"
        );
    }

    #[test]
    fn whole_files_lead_back() {
        for (name, all) in [
            ("db/1_init.down.sql", true),
            ("db/U2.1__undo.sql", true),
            ("db/up__x.sql", false),
            ("db/1_init.up.sql", false),
            ("users.sql", false),
        ] {
            assert_eq!(
                ways_back(name, "x;").first() == Some(&(0..2)),
                all,
                "{name}"
            );
        }
    }
}
