//! No silent all-clear: nothing analysed ends with 2, and a part that is skipped is reported and ends with 1.

use std::path::PathBuf;

use serde_json::Value;

use crate::cli::{anabranch, anabranch_in, scratch, text};

const SCHEMA: &str = "CREATE TABLE vouchers (id bigserial PRIMARY KEY, used int NOT NULL, max_uses int NOT NULL, \
                      CHECK (used <= max_uses));\n";
const REDEEM: &str =
    "class Voucher < ApplicationRecord\n  def redeem!\n    update!(used: used + 1)\n  end\nend\n";
const READ: &str = "def used(conn, voucher):\n    return conn.execute(\"SELECT used FROM vouchers WHERE id = %s\", \
                    (voucher,)).fetchone()\n";

/// A folder with these files.
fn application(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = scratch(name);
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    folder
}

/// The exit code of `analyze`, with its whole output.
fn analysed(name: &str, files: &[(&str, &str)], more: &[&str]) -> (i32, String) {
    let folder = application(name, files);
    let ran = anabranch_in(&folder, &[&["analyze", "."], more].concat());
    (ran.code, ran.out + &ran.err)
}

#[track_caller]
fn says(name: &str, files: &[(&str, &str)], code: i32, words: &[&str]) {
    let (found, out) = analysed(name, files, &["--no-counterexamples"]);
    assert_eq!(found, code, "{name}: {out}");
    for words in words {
        assert!(out.contains(words), "{name} should say {words:?}: {out}");
    }
}

#[test]
fn an_application_in_a_language_that_is_not_read_ends_with_2() {
    for (file, told) in [
        ("voucher.rb", "1 Ruby file is not read: voucher.rb"),
        ("Shop/Voucher.cs", "1 C# file is not read: Shop/Voucher.cs"),
        ("src/Redeem.kt", "1 Kotlin file"),
        ("src/Redeem.scala", "1 Scala file"),
        ("src/main.rs", "1 Rust file"),
        ("lib/voucher.ex", "1 Elixir file"),
        ("src/voucher.clj", "1 Clojure file"),
        ("Sources/Voucher.swift", "1 Swift file"),
        ("voucher.pl", "1 Perl file"),
        ("voucher.cpp", "1 C++ file"),
        ("voucher.pgc", "1 C file"),
    ] {
        let files = [("schema.sql", SCHEMA), (file, REDEEM)];
        says(
            "skipped-language",
            &files,
            2,
            &[
                told,
                "found no SQL to analyse in .: 1 table, no procedures",
                "Give procedures or queries as SQL files",
                "no all-clear",
            ],
        );
    }
    // Neither does one without any SQL file.
    says("skipped-alone", &[("a.rb", REDEEM)], 2, &["1 Ruby file"]);
    says(
        "skipped-nothing",
        &[("schema.sql", SCHEMA)],
        2,
        &["1 table"],
    );
}

#[test]
fn a_part_that_is_not_read_ends_with_1() {
    let files = [
        ("schema.sql", SCHEMA),
        ("app.py", READ),
        ("Redeem.kt", "fun redeem() {}\n"),
        ("jobs/Close.kt", "fun close() {}\n"),
    ];
    let told = [
        "used  free",
        "2 Kotlin files are not read: Redeem.kt, jobs/Close.kt",
        "no verdict on others considers them",
        "no all-clear",
    ];
    says("skipped-part", &files, 1, &told);
    // A Rails application with migrations and named queries in SQL.
    let query = "-- name: Used :one\nSELECT used FROM vouchers WHERE id = $1;\n";
    let files = [
        ("db/migrations/1_vouchers.sql", SCHEMA),
        ("queries/vouchers.sql", query),
        ("app/models/voucher.rb", REDEEM),
    ];
    says("skipped-rails", &files, 1, &["Used  free", "1 Ruby file"]);
    // One that is named is read like any other.
    let folder = application(
        "skipped-named",
        &[("schema.sql", SCHEMA), ("a.py", READ), ("b.rb", REDEEM)],
    );
    let named = ["analyze", "a.py", "b.rb", "--schema", "schema.sql"];
    let ran = anabranch_in(&folder, &named);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("1 Ruby file is not read: b.rb"),
        "{}",
        ran.out
    );
}

#[test]
fn what_is_no_program_is_not_counted() {
    let files = [
        ("schema.sql", SCHEMA),
        ("app.py", READ),
        ("build.gradle.kts", "plugins { kotlin(\"jvm\") }\n"),
        ("pom.xml", "<project/>\n"),
        ("settings.yml", "database: shop\n"),
        ("config/runtime.exs", "import Config\n"),
        ("Makefile", "test:\n\tpytest\n"),
        ("README.md", "UPDATE vouchers SET used = 0\n"),
        ("deploy.sh", "#!/bin/sh\nset -e\npsql -f schema.sql\n"),
        ("include/limits.h", "#define MAX 3\n"),
        ("spec/voucher_spec.rb", "describe Voucher do\nend\n"),
        ("node_modules/a/b.rb", REDEEM),
    ];
    let (code, out) = analysed("skipped-none", &files, &[]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("spec/voucher_spec.rb is a test file"), "{out}");
    assert!(!out.contains("no all-clear"), "{out}");
}

#[test]
fn files_that_mostly_do_other_things_count_by_their_text() {
    for (file, text, told) in [
        (
            "close.sh",
            "psql -c \"UPDATE vouchers SET used = 0\"\n",
            "1 shell file",
        ),
        (
            "bin/close",
            "#!/usr/bin/env ruby\nDB.run 'DELETE FROM vouchers'\n",
            "1 Ruby file",
        ),
        (
            "bin/open",
            "#!/usr/bin/python3\nc.execute('DELETE FROM vouchers')\n",
            "1 Python file",
        ),
        (
            "shop.ipynb",
            "{\"source\": [\"c.execute('DELETE FROM vouchers')\"]}\n",
            "1 Jupyter notebook file",
        ),
        (
            "Shop.vue",
            "<script>db.run('DELETE FROM vouchers')</script>\n",
            "1 Vue file",
        ),
    ] {
        let files = [("schema.sql", SCHEMA), ("app.py", READ), (file, text)];
        says("skipped-by-text", &files, 1, &[told]);
    }
}

/// Each format says what was skipped, and that nothing was analysed.
#[test]
fn every_format_reports_languages_and_files() {
    let mixed = [
        ("schema.sql", SCHEMA),
        ("app.py", READ),
        ("a.rb", REDEEM),
        ("b.rb", REDEEM),
    ];
    let nothing = [("schema.sql", SCHEMA), ("a.rb", REDEEM), ("b.rb", REDEEM)];
    for (files, code) in [(&mixed[..], 1), (&nothing[..], 2)] {
        let of = |format: &str| {
            let folder = application("skipped-formats", files);
            let ran = anabranch_in(&folder, &["analyze", ".", "--format", format]);
            assert_eq!(ran.code, code, "{format}: {}{}", ran.out, ran.err);
            assert_eq!(ran.err.contains("found no SQL to analyse"), code == 2);
            ran.out
        };
        let json: Value = serde_json::from_str(&of("json")).expect("it is JSON");
        let skipped = &json["skipped"][0];
        assert_eq!(skipped["language"], "Ruby");
        assert_eq!(skipped["files"], serde_json::json!(["a.rb", "b.rb"]));
        assert_eq!(skipped["missing"], true);
        let sarif: Value = serde_json::from_str(&of("sarif")).expect("it is JSON");
        let invocation = &sarif["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], code == 1);
        let notes = invocation["toolExecutionNotifications"]
            .as_array()
            .expect("notes");
        let ruby = notes.last().expect("one note a language");
        let told = ruby["message"]["text"].as_str().expect("a text");
        assert!(told.contains("2 Ruby files are not read"), "{told}");
        let place = &ruby["locations"][1]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(place, "b.rb");
        let github = of("github");
        assert!(github.contains("::warning file=a.rb,"), "{github}");
        assert_eq!(github.contains("::error "), code == 2, "{github}");
        let html = of("html");
        assert!(html.contains("a.rb, b.rb"), "{html}");
        assert!(html.contains("no all-clear"), "{html}");
    }
}

#[test]
fn a_baseline_knows_what_was_skipped() {
    let files = [("schema.sql", SCHEMA), ("app.py", READ), ("a.rb", REDEEM)];
    let folder = application("skipped-baseline", &files);
    let baseline = folder.with_extension("json");
    let baseline = text(&baseline);
    let wrote = anabranch_in(&folder, &["analyze", ".", "--write-baseline", baseline]);
    assert_eq!(wrote.code, 0, "{}{}", wrote.out, wrote.err);
    std::fs::write(folder.join("b.rb"), REDEEM).expect("written");
    let again = anabranch_in(&folder, &["analyze", ".", "--baseline", baseline]);
    assert_eq!(again.code, 0, "{}", again.out);
    std::fs::write(folder.join("c.kt"), "fun close() {}\n").expect("written");
    let more = anabranch_in(&folder, &["analyze", ".", "--baseline", baseline]);
    assert_eq!(more.code, 1, "{}", more.out);
    let told = "new   skipped: 1 Kotlin file is not read: c.kt";
    assert!(more.out.contains(told), "{}", more.out);
    let json = ["analyze", ".", "--baseline", baseline, "--format", "json"];
    let json: Value = serde_json::from_str(&anabranch_in(&folder, &json).out).expect("JSON");
    let new = &json["against_baseline"]["new_skipped"];
    assert_eq!(new[0]["language"], "Kotlin");
    assert_eq!(new[1], Value::Null);
}

/// An entity that is changed is written at commit; a plain object is not.
#[test]
fn changed_entities_are_not_analysed() {
    let entity = "import jakarta.persistence.*;
@Entity class Voucher { @Id Long id; int used; int getUsed() { return used; } void setUsed(int n) { used = n; } }
class Vouchers {
  @PersistenceContext EntityManager entities;
  @Transactional public void redeem(long id) {
    Voucher voucher = entities.find(Voucher.class, id);
    voucher.setUsed(voucher.getUsed() + 1);
  }
}
";
    let files = [("schema.sql", SCHEMA), ("Vouchers.java", entity)];
    let told = [
        "Vouchers.redeem",
        "Vouchers.java:7:5: an object of the entity class Voucher is changed here",
        "that SQL is not in the source",
    ];
    says("skipped-entity", &files, 1, &told);
    let plain = "class Voucher { int used; void setUsed(int n) { used = n; } }
class Vouchers {
  Connection c;
  @Transactional public Voucher find(long id) throws Exception {
    var s = c.prepareStatement(\"SELECT used FROM vouchers WHERE id = ?\"); s.setLong(1, id);
    var r = s.executeQuery(); r.next();
    Voucher voucher = new Voucher(); voucher.setUsed(r.getInt(1)); return voucher;
  }
}
";
    let files = [("schema.sql", SCHEMA), ("Vouchers.java", plain)];
    says("skipped-plain", &files, 0, &["Vouchers.find  free"]);
}

#[test]
fn replay_ends_alike() {
    let folder = application(
        "skipped-replay",
        &[("schema.sql", SCHEMA), ("a.rb", REDEEM)],
    );
    let nothing = anabranch(&["replay", text(&folder)]);
    assert_eq!((nothing.code, nothing.out.as_str()), (2, ""));
    assert!(
        nothing.err.contains("1 Ruby file is not read"),
        "{}",
        nothing.err
    );
    std::fs::write(folder.join("app.py"), READ).expect("written");
    let part = anabranch(&["replay", text(&folder)]);
    assert_eq!(part.code, 1, "{}{}", part.out, part.err);
    assert!(part.out.contains("1 Ruby file is not read"), "{}", part.out);
    let json = anabranch(&["replay", text(&folder), "--format", "json"]);
    let report: Value = serde_json::from_str(&json.out).expect("it is JSON");
    assert_eq!(
        (json.code, &report["skipped"][0]["language"]),
        (1, &Value::from("Ruby"))
    );
    std::fs::remove_file(folder.join("a.rb")).expect("removed");
    assert_eq!(anabranch(&["replay", text(&folder)]).code, 0);
}
