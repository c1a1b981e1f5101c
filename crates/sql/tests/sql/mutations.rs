//! Loading a mutated file always ends, with a catalog or with diagnostics that can be rendered.

use std::{fs, path::Path};

use anabranch_sql::{SourceFile, load, render, script::read};
use proptest::{prelude::*, test_runner::Config};

fn originals() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for folder in [
        "../../examples/tpcc",
        "../../examples/smallbank",
        "../../examples/payroll",
    ] {
        let mut paths: Vec<_> = fs::read_dir(root.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
        // The files of an application, as one.
        texts.push(
            paths
                .iter()
                .map(|path| fs::read_to_string(path).unwrap())
                .collect(),
        );
    }
    let bad = root.join("tests/sql/diagnostics");
    let mut paths: Vec<_> = fs::read_dir(bad)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    texts.extend(paths.iter().map(|path| fs::read_to_string(path).unwrap()));
    texts
}

#[derive(Clone, Debug)]
enum Mutation {
    Delete {
        at: usize,
        count: usize,
    },
    Swap {
        left: usize,
        right: usize,
        count: usize,
    },
    Duplicate {
        from: usize,
        count: usize,
        to: usize,
    },
    Insert {
        at: usize,
        what: usize,
    },
}

const INSERTED: [&str; 24] = [
    "'", "\"", "$$", "$a$", "(", ")", "/*", "*/", "--", ";", "E'\\", "\\", "..", ":=", "é", "\0",
    "[", "]", " end ", " case ", " begin ", " not ", " select ", "1e",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let any = || 0..usize::MAX;
    prop_oneof![
        (any(), 1..40_usize).prop_map(|(at, count)| Mutation::Delete { at, count }),
        (any(), any(), 1..20_usize).prop_map(|(left, right, count)| Mutation::Swap {
            left,
            right,
            count
        }),
        (any(), 1..60_usize, any()).prop_map(|(from, count, to)| Mutation::Duplicate {
            from,
            count,
            to
        }),
        (any(), 0..INSERTED.len()).prop_map(|(at, what)| Mutation::Insert { at, what }),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let length = bytes.len();
    if length == 0 {
        return;
    }
    let stretch = |at: usize, count: usize| at % length..(at % length + count).min(length);
    match *mutation {
        Mutation::Delete { at, count } => {
            bytes.drain(stretch(at, count));
        }
        Mutation::Swap { left, right, count } => {
            for offset in 0..count {
                let (left, right) = (left.wrapping_add(offset), right.wrapping_add(offset));
                bytes.swap(left % length, right % length);
            }
        }
        Mutation::Duplicate { from, count, to } => {
            let copy = bytes[stretch(from, count)].to_vec();
            let to = to % length;
            bytes.splice(to..to, copy);
        }
        Mutation::Insert { at, what } => {
            let at = at % length;
            bytes.splice(at..at, INSERTED[what].bytes());
        }
    }
}

proptest! {
    // More with PROPTEST_CASES.
    #![proptest_config(Config {
        cases: Config::default().cases.max(400),
        failure_persistence: None,
        ..Config::default()
    })]

    /// Scripts of clients: PostgreSQL's, MySQL's, and both together.
    #[test]
    fn no_mutation_makes_reading_panic(
        which in 0..3_usize,
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let shop = include_str!("postgres/shop.sql");
        let mysql = [include_str!("mysql/dump.sql"), include_str!("mysql/queries.sql")].concat();
        let text = [shop.to_owned(), mysql.clone(), format!("{shop}{mysql}")][which].clone();
        let mut bytes = text.into_bytes();
        for mutation in &mutations {
            mutate(&mut bytes, mutation);
        }
        let file = SourceFile::new("mutated.sql", String::from_utf8_lossy(&bytes).into_owned());
        match read(vec![file.clone()]) {
            Ok(script) => {
                let told = script.skipped.iter().map(|left| left.diagnostic.clone());
                let told: Vec<_> = told.collect();
                let shown = render(&told, &script.application.catalog().files);
                prop_assert!(told.is_empty() || shown.contains("error["));
            }
            Err(errors) => prop_assert!(!render(&errors, &[file]).is_empty()),
        }
    }

    #[test]
    fn no_mutation_makes_loading_panic(
        which in 0..usize::MAX,
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let originals = originals();
        let mut bytes = originals[which % originals.len()].clone().into_bytes();
        for mutation in &mutations {
            mutate(&mut bytes, mutation);
        }
        let file = SourceFile::new("mutated.sql", String::from_utf8_lossy(&bytes).into_owned());
        if let Err(errors) = load(vec![file.clone()]) {
            prop_assert!(!errors.is_empty());
            let shown = render(&errors, &[file]);
            prop_assert!(shown.contains("error["));
        }
    }
}
