//! Invalid input and its exact diagnostics: each `diagnostics/NAME.sql` with the output `NAME.txt` beside it.
//! `UPDATE_DIAGNOSTICS=1` rewrites the latter.

use std::{env, fs, path::Path};

use anabranch_sql::{Application, SourceFile, load, render};

#[test]
fn invalid_input_gives_these_diagnostics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/diagnostics");
    let update = env::var_os("UPDATE_DIAGNOSTICS").is_some();
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".sql").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(names.len() >= 30, "only {} bad inputs", names.len());
    let mut different = Vec::new();
    for name in names {
        let text = fs::read_to_string(folder.join(format!("{name}.sql"))).unwrap();
        let file = SourceFile::new(format!("{name}.sql"), text);
        let shown = match load(vec![file.clone()]).and_then(Application::compile) {
            Ok(_) => "compiles\n".to_owned(),
            Err(errors) => render(&errors, &[file]),
        };
        let golden = folder.join(format!("{name}.txt"));
        if update {
            fs::write(&golden, &shown).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if expected != shown {
            different.push(format!("{name}:\n{}", difference(&expected, &shown)));
        }
        assert_ne!(shown, "compiles\n", "{name} is bad input, and compiles");
    }
    assert!(
        different.is_empty(),
        "{}\nUPDATE_DIAGNOSTICS=1 accepts what is shown now",
        different.join("\n")
    );
}

/// The lines that differ, `-` expected and `+` shown, by their longest common subsequence.
fn difference(expected: &str, shown: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), shown.lines().collect());
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut text = String::new();
    while i < old.len() || j < new.len() {
        let (sign, line) = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            (' ', old[i - 1])
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            i += 1;
            ('-', old[i - 1])
        } else {
            j += 1;
            ('+', new[j - 1])
        };
        text.push_str(&format!("{sign}{line}\n"));
    }
    text
}
