//! Attacks on plans, as in `soundness.rs`, of applications with nested keys: a line's key contains its group's, an
//! item refers to a line by both, and any of them may be changed.
//!
//! Five hundred applications are tried in each run of the tests; `ANABRANCH_ANALYSIS_SEEDS=FIRST..LAST` tries
//! others.

use std::fmt::Write;

use crate::soundness::{Random, attacked_as_usual};

/// Three tables: groups, their lines, and items of lines.
fn schema(random: &mut Random) -> String {
    let mut text =
        "CREATE TABLE grp (id integer PRIMARY KEY, a integer NOT NULL DEFAULT 0, b integer);\n"
            .to_owned();
    text += "CREATE TABLE line (g integer";
    let follows = [
        "",
        " REFERENCES grp (id)",
        " REFERENCES grp (id) ON UPDATE CASCADE",
        " REFERENCES grp (id) ON UPDATE CASCADE",
        " REFERENCES grp (id) ON UPDATE CASCADE ON DELETE CASCADE",
        " REFERENCES grp (id) ON DELETE CASCADE",
    ];
    text += random.of(&follows);
    text += ", n integer, a integer NOT NULL DEFAULT 0, b integer";
    text += random.of(&[
        "",
        "",
        " CHECK (b >= 0)",
        " CHECK (b <= 3)",
        " NOT NULL DEFAULT 0",
    ]);
    text += random.of(&[
        ", PRIMARY KEY (g, n)",
        ", PRIMARY KEY (g, n)",
        ", PRIMARY KEY (n, g)",
        ", PRIMARY KEY (n)",
    ]);
    text += random.of(&["", "", ", UNIQUE (a, b)", ", UNIQUE (b)", ", UNIQUE (g, b)"]);
    text += random.of(&[
        "",
        "",
        ", CHECK (b IS NULL OR a > 0)",
        ", CHECK (a + b <= 4)",
    ]);
    text += ");\nCREATE TABLE item (id integer PRIMARY KEY, g integer, n integer, k integer NOT NULL DEFAULT 0";
    if text.contains("(g, n)") && !random.one_in(3) {
        text += ", FOREIGN KEY (g, n) REFERENCES line (g, n)";
        text += random.of(&[
            "",
            " ON UPDATE CASCADE",
            " ON UPDATE CASCADE",
            " ON UPDATE CASCADE ON DELETE CASCADE",
            " ON DELETE SET NULL",
        ]);
    }
    text += ");\n";
    for number in 0..random.below(3) {
        let condition = random.of(&[
            "NOT EXISTS (SELECT * FROM line AS u WHERE u.a <> (SELECT count(*) FROM item AS d WHERE d.g = u.g AND d.n = u.n))",
            "NOT EXISTS (SELECT * FROM line AS u WHERE u.a <> (SELECT count(*) FROM item AS d WHERE d.k = u.b))",
            "NOT EXISTS (SELECT * FROM grp AS u WHERE u.a <> (SELECT coalesce(sum(d.a), 0) FROM line AS d WHERE d.g = u.id))",
            "NOT EXISTS (SELECT * FROM grp AS u WHERE u.a < (SELECT count(*) FROM line AS d WHERE d.g = u.id))",
            "NOT EXISTS (SELECT * FROM line AS u WHERE (u.b IS NULL) <> EXISTS (SELECT * FROM item AS d WHERE d.g = u.g AND d.n = u.n))",
            "NOT EXISTS (SELECT * FROM line AS u WHERE u.b = 1 AND NOT EXISTS (SELECT * FROM item AS d WHERE d.k = u.n))",
            "EXISTS (SELECT * FROM line WHERE a > 0)",
            "(SELECT coalesce(sum(a), 0) FROM line) <= 3",
            "NOT EXISTS (SELECT g FROM line GROUP BY g HAVING count(*) > 2)",
        ]);
        let _ = writeln!(text, "CREATE ASSERTION it_{number} CHECK ({condition});");
    }
    text
}

fn statement(random: &mut Random) -> &'static str {
    random.of(&[
        "UPDATE grp SET id = q WHERE id = p;",
        "UPDATE grp SET a = a + r WHERE id = p;",
        "UPDATE grp SET a = r WHERE id = p;",
        "DELETE FROM grp WHERE id = p;",
        "INSERT INTO grp (id, a) VALUES (p, 0) ON CONFLICT DO NOTHING;",
        "UPDATE line SET n = q WHERE g = p AND n = r;",
        "UPDATE line SET g = q WHERE g = p AND n = r;",
        "UPDATE line SET n = q WHERE n = p;",
        "UPDATE line SET a = a + 1 WHERE g = p AND n = q;",
        "UPDATE line SET a = a - 1, b = r WHERE g = p AND n = q;",
        "UPDATE line SET b = r WHERE g = p AND n = q;",
        "UPDATE line SET b = b + 1 WHERE g = p;",
        "UPDATE line SET b = nullif(a, r) WHERE g = p AND n = q;",
        "UPDATE line SET b = 1 WHERE a = p;",
        "DELETE FROM line WHERE g = p AND n = q;",
        "DELETE FROM line WHERE n = p;",
        "INSERT INTO line (g, n, a, b) VALUES (p, q, 0, r) ON CONFLICT DO NOTHING;",
        "INSERT INTO line (g, n, a) VALUES (p, q, r);",
        "INSERT INTO item (id, g, n, k) VALUES (p, q, r, 0);",
        "INSERT INTO item (id, k) VALUES (p, q) ON CONFLICT DO NOTHING;",
        "UPDATE item SET k = q WHERE id = p;",
        "UPDATE item SET id = q WHERE id = p;",
        "UPDATE item SET g = q, n = r WHERE id = p;",
        "UPDATE item SET g = NULL, n = NULL WHERE g = p AND n = q;",
        "DELETE FROM item WHERE id = p;",
        "DELETE FROM item WHERE g = p;",
    ])
}

/// An application as SQL.
fn made_up(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut text = schema(&mut random);
    for number in 0..1 + random.below(3) {
        let mut body = statement(&mut random).to_owned();
        if random.one_in(2) {
            body += " ";
            body += statement(&mut random);
        }
        let _ = writeln!(
            text,
            "CREATE PROCEDURE t{number}(p integer, q integer, r integer) LANGUAGE SQL BEGIN ATOMIC {body} END;"
        );
    }
    text
}

#[test]
fn no_plan_over_keys_in_keys_is_broken() {
    if let Some(tally) = attacked_as_usual(0..500, made_up) {
        assert!(tally.refused * 5 < tally.tried, "{tally:#?}");
        assert!(tally.free > 20 && tally.guarded > 100, "{tally:#?}");
    }
}
