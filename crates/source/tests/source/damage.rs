//! Damaged files: pieces lost, moved or doubled, strings left open, bytes of other languages inserted. The reader
//! must not fail, and every reported range must lie within its file.
//!
//! `ANABRANCH_SOURCE_SEEDS=1000..2000` runs other seeds.

use std::ops::Range;
use std::path::Path;

use anabranch_sql::SourceFile;
use anabranch_sql::script::Step;

use crate::support::{analysed_files, told};

/// A pseudorandom generator (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap_or(0)
    }
}

/// The files of every application, SQL and source.
fn corpus() -> Vec<SourceFile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/source/applications");
    let mut paths = Vec::new();
    for application in std::fs::read_dir(folder).expect("it is there") {
        let application = application.expect("it can be listed").path();
        for file in std::fs::read_dir(application).expect("it is a folder") {
            paths.push(file.expect("it can be listed").path());
        }
    }
    paths.sort();
    let file = |path: &std::path::PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        SourceFile::new(name, std::fs::read_to_string(path).expect("it is text"))
    };
    paths
        .iter()
        .map(file)
        .filter(|f| !f.name.ends_with(".txt"))
        .collect()
}

fn damaged(text: &str, chance: &mut Chance) -> String {
    const THROWN_IN: [&str; 24] = [
        "\"",
        "'",
        "`",
        "\"\"\"",
        "{",
        "}",
        "(",
        ")",
        "${",
        "<?php",
        "?>",
        "\\",
        "\u{0}",
        "é",
        "\u{feff}",
        "/*",
        "//",
        "#",
        "EOT",
        " + ",
        "\n\n",
        "; DELETE FROM b",
        "class {",
        "=>",
    ];
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=chance.below(4) {
        let length = characters.len();
        let at = chance.below(length);
        let end = (at + chance.below(40)).min(length);
        match chance.below(6) {
            0 => characters.truncate(at),
            1 => drop(characters.drain(at..end)),
            2 => {
                let piece: Vec<char> = characters[at..end].to_vec();
                let to = chance.below(length);
                characters.splice(to..to, piece);
            }
            3 => {
                let other = chance.below(length);
                if at < length && other < length {
                    characters.swap(at, other);
                }
            }
            _ => {
                let piece = THROWN_IN[chance.below(THROWN_IN.len())];
                characters.splice(at..at, piece.chars());
            }
        }
    }
    characters.into_iter().collect()
}

fn seeds() -> Range<u64> {
    let asked = std::env::var("ANABRANCH_SOURCE_SEEDS").ok();
    let asked = asked.as_deref().and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    asked.unwrap_or(0..600)
}

#[test]
fn damaged_files_do_no_harm() {
    let (sql, programs): (Vec<_>, Vec<_>) =
        corpus().into_iter().partition(|f| f.name.ends_with(".sql"));
    let sql = SourceFile::new(
        "schema.sql",
        sql.iter().map(|f| &*f.text).collect::<String>(),
    );
    let mut unknown = 0_usize;
    for seed in seeds() {
        let mut chance = Chance(seed);
        let at = chance.below(programs.len());
        let file = &programs[at];
        let file = SourceFile::new(file.name.clone(), damaged(&file.text, &mut chance));
        let (program, script) = analysed_files(vec![sql.clone()], vec![file.clone()]);
        let _ = told(&program);
        for client in &program.clients {
            assert!(client.range.end <= file.text.len(), "seed {seed}");
            unknown += usize::from(!client.unresolved.is_empty());
            let mut waiting: Vec<&Step> = client.steps.iter().collect();
            while let Some(step) = waiting.pop() {
                match step {
                    Step::Run(run) => {
                        assert_eq!(
                            run.places.len(),
                            run.text.len() + 1,
                            "seed {seed}: {}",
                            run.text
                        );
                        let inside = run.places.iter().all(|at| *at as usize <= file.text.len());
                        assert!(inside, "seed {seed}: {}", run.text);
                    }
                    Step::Either(branches) => {
                        waiting.extend(branches.iter().flat_map(|(_, inner)| inner))
                    }
                    Step::Repeat(inner) => waiting.extend(inner),
                }
            }
        }
        assert!(
            script.summaries.len() >= program.clients.len(),
            "seed {seed}"
        );
        for broken in &program.broken {
            assert!(broken.range.end <= file.text.len(), "seed {seed}");
        }
    }
    assert!(unknown > 0, "no damage made anything unknown");
}
