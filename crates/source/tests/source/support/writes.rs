//! Programs with self-describing function names: those that begin with `writes` may write, those that begin with
//! `reads` do not.

use anabranch_sql::SourceFile;
use anabranch_sql::script::Script;
use anabranch_sql::summary::Role;

use crate::support::{analysed_files, told};

const SCHEMA: &str = "CREATE TABLE account (id bigint PRIMARY KEY, owner bigint NOT NULL,
    balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE audit (id bigint PRIMARY KEY, account_id bigint NOT NULL);
";

fn analysed(files: &[(&str, &str)]) -> (String, Script) {
    let sql = vec![SourceFile::new("schema.sql", SCHEMA)];
    let files = files
        .iter()
        .map(|(name, text)| SourceFile::new(*name, *text));
    let (program, script) = analysed_files(sql, files.collect());
    (told(&program), script)
}

/// Whether a transaction may write, by the end of its name.
fn writes(script: &Script, name: &str) -> bool {
    let is_it = |found: &str| found == name || found.ends_with(&format!(".{name}"));
    let of_it = script.summaries.iter().filter(|s| is_it(&s.name));
    let catalog = script.application.catalog();
    let statements = of_it.flat_map(|s| s.possible_statements(catalog));
    let mut accesses = statements.flat_map(|s| s.accesses);
    accesses.any(|access| access.role != Role::Read)
}

/// Checks that exactly the functions named `writes…` may write.
pub(crate) fn each_that_writes_is_found(files: &[(&str, &str)]) {
    let (told, script) = analysed(files);
    let mut seen = 0;
    let mut wrong = Vec::new();
    for word in files
        .iter()
        .flat_map(|(_, text)| text.split(|c: char| !(c.is_alphanumeric() || c == '_')))
    {
        let lower = word.to_ascii_lowercase();
        if lower.starts_with("writes") {
            seen += 1;
            if !writes(&script, word) {
                wrong.push(format!("{word} seems to read alone"));
            }
        } else if lower.starts_with("reads") {
            seen += 1;
            if writes(&script, word) {
                wrong.push(format!("{word} seems to write"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{told}", wrong.join("; "));
    assert!(seen > 0, "nothing is asked for");
}
