//! The application files of the repository load, with the expected tables and procedures.

use std::{fs, path::Path};

use anabranch_sql::{Catalog, SourceFile, load, render};

fn files(application: &str) -> Vec<SourceFile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(application);
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".sql"))
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let text = fs::read_to_string(folder.join(&name)).unwrap();
            SourceFile::new(format!("examples/{application}/{name}"), text)
        })
        .collect()
}

fn catalog(application: &str) -> Catalog {
    let files = files(application);
    assert!(!files.is_empty());
    load(files.clone()).unwrap_or_else(|errors| panic!("{}", render(&errors, &files)))
}

#[test]
fn tpcc_loads() {
    let catalog = catalog("tpcc");
    assert_eq!(catalog.tables.len(), 9);
    assert_eq!(catalog.procedures.len(), 5);
}

#[test]
fn smallbank_and_payroll_load() {
    for application in ["smallbank", "payroll"] {
        let catalog = catalog(application);
        assert!(
            !catalog.tables.is_empty() && !catalog.procedures.is_empty(),
            "{application}"
        );
    }
}
