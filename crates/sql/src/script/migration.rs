//! Migrations: down migrations are not declared, and the statements of up migrations run once, so they are no
//! transactions.

use std::ops::Range;

/// Markers before down and up migrations, each on a line of its own: goose, sql-migrate, dbmate, tern.
const DOWN: [&str; 4] = [
    "+goose down",
    "+migrate down",
    "migrate:down",
    "create above / drop below",
];
const UP: [&str; 3] = ["+goose up", "+migrate up", "migrate:up"];

/// Whether a file is a migration: by its folder and number, its name (Flyway, golang-migrate), or its markers.
pub(super) fn is_step(name: &str, text: &str) -> bool {
    let name = name.to_lowercase();
    let mut parts = name.rsplit(['/', '\\']);
    let file = parts.next().unwrap_or_default();
    let (folder, above) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let is_folder = |part: &str| part.contains("migration") || part == "migrate";
    let is_numbered = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let by_folder =
        (is_folder(folder) || is_folder(above)) && (is_numbered(file) || is_numbered(folder));
    let by_name = file.ends_with(".up.sql") || is_version(file, 'v');
    let mut marks = text.lines().filter_map(mark);
    let is_mark = |comment: String| {
        let mut all = DOWN.iter().chain(&UP);
        all.any(|mark| comment.starts_with(mark))
    };
    by_folder || by_name || marks.any(is_mark)
}

/// Whether a file has Flyway's name for a migration (`V2__name.sql`) or for its undo (`U2__name.sql`).
fn is_version(file: &str, kind: char) -> bool {
    let version = file.strip_prefix(kind);
    let version = version.and_then(|rest| rest.split_once("__"));
    version.is_some_and(|(version, _)| {
        !version.is_empty()
            && version
                .bytes()
                .all(|b| b.is_ascii_digit() || b == b'.' || b == b'_')
    })
}

/// The text of a line comment, as markers are compared.
fn mark(line: &str) -> Option<String> {
    let comment = line.trim().strip_prefix("--")?;
    Some(comment.trim_matches([' ', '\t', '-']).to_lowercase())
}

/// The ranges of a file that are down migrations.
pub(super) fn down_migrations(name: &str, text: &str) -> Vec<Range<usize>> {
    let file = name
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(name)
        .to_lowercase();
    // golang-migrate and others.
    if file.ends_with(".down.sql") || is_version(&file, 'u') {
        return std::iter::once(0..text.len()).collect();
    }
    let mut found = Vec::new();
    let mut begun = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if let Some(comment) = mark(line) {
            let is = |marks: &[&str]| marks.iter().any(|mark| comment.starts_with(mark));
            if is(&DOWN) {
                begun.get_or_insert(end);
            } else if is(&UP) {
                found.extend(begun.take().map(|start| start..at));
            }
        }
        at = end;
    }
    found.extend(begun.map(|start| start..text.len()));
    found
}

/// The text with blanks in place of these ranges.
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
    fn a_down_migration_ends_where_the_next_up_migration_begins() {
        let text =
            "-- +goose Up\na;\n-- +goose Down\nb;\n-- +goose Up\nc;\n  ---- migrate:down\nd;";
        let back = down_migrations("001.sql", text);
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
    fn migrations_are_recognised_by_folder_name_and_markers() {
        for (name, text, is) in [
            ("db/migrations/0001_a.sql", "", true),
            ("src\\Migrations\\2_a.sql", "", true),
            ("db/migrate/20240101_a.sql", "", true),
            ("prisma/migrations/20240101_a/migration.sql", "", true),
            ("migration/queries.sql", "", false),
            ("migration/of/all/2_queries.sql", "", false),
            ("db/V1_2__a.sql", "", true),
            ("db/1_a.up.sql", "", true),
            ("db/a.sql", "x;\n-- migrate:up\ny;", true),
            ("db/queries.sql", "-- migrates nothing\n", false),
            ("emigrate.sql", "", false),
            ("db/vx__a.sql", "", false),
        ] {
            assert_eq!(is_step(name, text), is, "{name}");
        }
    }

    #[test]
    fn whole_files_are_down_migrations() {
        for (name, all) in [
            ("db/1_init.down.sql", true),
            ("db/U2.1__undo.sql", true),
            ("db/up__x.sql", false),
            ("db/1_init.up.sql", false),
            ("users.sql", false),
        ] {
            assert_eq!(
                down_migrations(name, "x;").first() == Some(&(0..2)),
                all,
                "{name}"
            );
        }
    }
}
