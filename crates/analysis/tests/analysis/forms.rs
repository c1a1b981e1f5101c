//! Attacks on plans, as in `soundness.rs`, of applications that use other forms of SQL: ON CONFLICT DO UPDATE,
//! INSERT … SELECT, UPDATE … FROM and DELETE … USING, subqueries in conditions and assignments, views, tables that
//! refer to themselves or twice to one other, and uniqueness among some rows.
//!
//! Five hundred applications are tried in each run of the tests; `ANABRANCH_ANALYSIS_SEEDS=FIRST..LAST` tries
//! others.

use std::fmt::Write;

use crate::soundness::{Random, attacked_as_usual};

/// Accounts, links between two of them, and a tree of nodes; sometimes a view of accounts.
fn schema(random: &mut Random) -> String {
    let mut text = "CREATE TABLE acct (id integer PRIMARY KEY, owner integer".to_owned();
    text += random.of(&["", "", " NOT NULL", " UNIQUE"]);
    text += ", n integer NOT NULL DEFAULT 0";
    text += random.of(&["", "", " CHECK (n >= 0)", " CHECK (n < 4)"]);
    text += ", m integer";
    text += random.of(&["", " NOT NULL DEFAULT 0", " CHECK (m <> 2)"]);
    text += ", live boolean NOT NULL DEFAULT ";
    text += random.of(&["true", "false"]);
    text += ", t text";
    text += random.of(&["", "", " CHECK (t IN ('a', 'b'))", " DEFAULT 'a' NOT NULL"]);
    text += random.of(&[
        "",
        "",
        "",
        ", UNIQUE (owner, t)",
        ", UNIQUE (n, m)",
        ", UNIQUE (t)",
        ", CHECK (NOT live OR n > 0)",
        ", CHECK (m IS NULL OR m >= n)",
        ", CHECK (live OR t IS NULL)",
    ]);
    text += ");\nCREATE TABLE link (a integer";
    let actions = [
        "",
        " REFERENCES acct (id)",
        " REFERENCES acct (id)",
        " REFERENCES acct (id) ON DELETE CASCADE",
    ];
    text += random.of(&actions);
    text += ", b integer";
    text += random.of(&actions);
    text += ", n integer DEFAULT 0";
    text += random.of(&[
        ", PRIMARY KEY (a, b)",
        ", PRIMARY KEY (a, b), CHECK (a <> b)",
        ", PRIMARY KEY (a), UNIQUE (a, b)",
        ", PRIMARY KEY (a, b), UNIQUE (b)",
        ", PRIMARY KEY (b, a), CHECK (n < 3)",
    ]);
    text += ");\nCREATE TABLE node (id integer PRIMARY KEY, up integer";
    text += random.of(&[
        "",
        " REFERENCES node (id)",
        " REFERENCES node (id) ON DELETE CASCADE",
        " REFERENCES node (id) ON DELETE SET NULL",
        " REFERENCES acct (id)",
        " REFERENCES acct (id) ON DELETE SET NULL",
    ]);
    text += ", n integer NOT NULL DEFAULT 0, live boolean";
    text += random.of(&["", "", ", UNIQUE (up, n)", ", CHECK (up <> id)"]);
    text += ");\n";
    text += random.of(&[
        "",
        "CREATE VIEW shown AS SELECT id, owner, n, m FROM acct WHERE live;\n",
        "CREATE VIEW shown AS SELECT x.id, x.owner, l.n, x.m FROM acct AS x JOIN link AS l ON l.a = x.id;\n",
        "CREATE VIEW shown AS SELECT owner AS id, owner, sum(n) AS n, max(m) AS m FROM acct GROUP BY owner;\n",
    ]);
    for number in 0..random.below(3) {
        let condition = assertion(random);
        let _ = writeln!(text, "CREATE ASSERTION it_{number} CHECK ({condition});");
    }
    text
}

fn assertion(random: &mut Random) -> &'static str {
    random.of(&[
        // Unique among some rows.
        "NOT EXISTS (SELECT owner FROM acct WHERE live GROUP BY owner HAVING count(*) > 1)",
        "NOT EXISTS (SELECT owner FROM acct WHERE owner IS NOT NULL AND t = 'a' GROUP BY owner HAVING count(*) > 1)",
        "NOT EXISTS (SELECT lower(t) FROM acct WHERE t IS NOT NULL GROUP BY lower(t) HAVING count(*) > 1)",
        "NOT EXISTS (SELECT * FROM acct AS x JOIN acct AS y ON x.owner = y.owner AND x.id <> y.id WHERE x.live AND y.live)",
        "NOT EXISTS (SELECT * FROM acct AS x JOIN acct AS y ON x.id <> y.id AND x.n < y.m AND y.n < x.m)",
        "NOT EXISTS (SELECT up, n FROM node WHERE live GROUP BY up, n HAVING count(*) > 1)",
        // Rows that depend on each other.
        "NOT EXISTS (SELECT * FROM link AS l JOIN acct AS x ON x.id = l.a WHERE NOT x.live)",
        "NOT EXISTS (SELECT * FROM link AS l WHERE NOT EXISTS (SELECT * FROM link AS k WHERE k.a = l.b AND k.b = l.a))",
        "NOT EXISTS (SELECT * FROM link AS l WHERE EXISTS (SELECT * FROM link AS k WHERE k.a = l.b AND k.b = l.a))",
        "NOT EXISTS (SELECT * FROM link AS l JOIN acct AS x ON x.id = l.a JOIN acct AS y ON y.id = l.b WHERE x.owner <> y.owner)",
        "NOT EXISTS (SELECT * FROM node AS c JOIN node AS p ON p.id = c.up WHERE p.n >= c.n)",
        "NOT EXISTS (SELECT * FROM node AS c WHERE c.live AND NOT EXISTS (SELECT * FROM node AS p WHERE p.id = c.up AND p.live))",
        "NOT EXISTS (SELECT * FROM node AS p WHERE p.live AND NOT EXISTS (SELECT * FROM node AS c WHERE c.up = p.id))",
        "(SELECT count(*) FROM node WHERE up IS NULL) <= 1",
        "NOT EXISTS (SELECT * FROM acct AS x WHERE x.live AND NOT EXISTS (SELECT * FROM link AS l WHERE l.a = x.id OR l.b = x.id))",
        "NOT EXISTS (SELECT * FROM acct AS x WHERE x.m IS NOT NULL AND x.m NOT IN (SELECT id FROM node))",
        // Numbers compared with numbers.
        "NOT EXISTS (SELECT * FROM acct AS x WHERE x.n < (SELECT count(*) FROM link AS l WHERE l.a = x.id))",
        "NOT EXISTS (SELECT * FROM acct AS x WHERE x.n <> (SELECT count(*) FROM link AS l WHERE l.b = x.id))",
        "NOT EXISTS (SELECT * FROM acct AS x WHERE x.n < (SELECT coalesce(sum(l.n), 0) FROM link AS l WHERE l.a = x.id))",
        "NOT EXISTS (SELECT * FROM node AS p WHERE p.n <> (SELECT count(*) FROM node AS c WHERE c.up = p.id))",
        "NOT EXISTS (SELECT * FROM node AS p WHERE p.n < (SELECT max(c.n) FROM node AS c WHERE c.up = p.id))",
        "NOT EXISTS (SELECT owner FROM acct GROUP BY owner HAVING sum(n) > 3)",
        "NOT EXISTS (SELECT owner FROM acct WHERE live GROUP BY owner HAVING sum(n) < 0)",
        "NOT EXISTS (SELECT a FROM link GROUP BY a HAVING min(n) < 0)",
        "(SELECT count(*) FROM acct WHERE live) >= (SELECT count(*) FROM node WHERE live)",
        "(SELECT max(n) FROM acct) >= (SELECT max(n) FROM node)",
        "EXISTS (SELECT * FROM acct WHERE live) OR NOT EXISTS (SELECT * FROM node)",
        "NOT EXISTS (SELECT * FROM acct WHERE live AND n = 0) OR EXISTS (SELECT * FROM node WHERE live)",
    ])
}

fn statement(random: &mut Random) -> &'static str {
    random.of(&[
        // Upserts.
        "INSERT INTO acct (id, owner, n) VALUES (p, q, 1) ON CONFLICT (id) DO UPDATE SET n = acct.n + 1;",
        "INSERT INTO acct (id, owner, n) VALUES (p, q, r) ON CONFLICT (id) DO UPDATE SET n = excluded.n, owner = excluded.owner;",
        "INSERT INTO acct (id, n, m) VALUES (p, r, q) ON CONFLICT (id) DO UPDATE SET m = greatest(acct.m, excluded.m);",
        "INSERT INTO acct (id, live) VALUES (p, true) ON CONFLICT (id) DO UPDATE SET live = NOT acct.live;",
        "INSERT INTO link (a, b, n) VALUES (p, q, 1) ON CONFLICT (a, b) DO UPDATE SET n = link.n + excluded.n;",
        "INSERT INTO link (a, b) VALUES (p, q) ON CONFLICT DO NOTHING;",
        "INSERT INTO node (id, up, n) VALUES (p, q, r) ON CONFLICT (id) DO UPDATE SET up = excluded.up;",
        "INSERT INTO node (id, n, live) VALUES (p, r, true) ON CONFLICT (id) DO UPDATE SET live = false WHERE node.n > 0;",
        // Rows made from rows.
        "INSERT INTO node (id, up, n) SELECT x.id, x.owner, x.n FROM acct AS x WHERE x.owner = p;",
        "INSERT INTO node (id, up, n, live) SELECT q, p, c.n + 1, c.live FROM node AS c WHERE c.id = p;",
        "INSERT INTO link (a, b, n) SELECT p, x.id, r FROM acct AS x WHERE x.live AND x.id = q;",
        "INSERT INTO link (a, b) SELECT b, a FROM link WHERE a = p ON CONFLICT DO NOTHING;",
        "INSERT INTO acct (id, owner, n) SELECT p, q, count(*) FROM link WHERE a = q;",
        "INSERT INTO acct (id, owner) SELECT p, q WHERE NOT EXISTS (SELECT * FROM acct WHERE owner = q);",
        "INSERT INTO acct (id, n, m) SELECT p, q, r WHERE NOT EXISTS (SELECT * FROM acct AS x WHERE x.n < r AND q < x.m);",
        "INSERT INTO link (a, b) SELECT p, q WHERE EXISTS (SELECT * FROM node WHERE id = q AND live);",
        "INSERT INTO node (id, n) SELECT coalesce(max(id), 0) + 1, p FROM node;",
        // Rows found by other rows.
        "UPDATE acct SET n = acct.n + l.n FROM link AS l WHERE l.a = acct.id AND l.b = p;",
        "UPDATE acct SET m = x.n FROM node AS x WHERE x.id = acct.owner AND acct.id = p;",
        "UPDATE link SET n = 0 FROM acct AS x WHERE x.id = link.a AND x.owner = p AND NOT x.live;",
        "UPDATE node SET n = n + 1 WHERE up IN (SELECT id FROM acct WHERE owner = p);",
        "UPDATE node SET live = true WHERE id = p AND EXISTS (SELECT * FROM node AS c WHERE c.id = q AND c.live);",
        "UPDATE acct SET live = false WHERE id = p AND NOT EXISTS (SELECT * FROM link WHERE a = p OR b = p);",
        "UPDATE acct SET live = false WHERE NOT EXISTS (SELECT * FROM link WHERE a = acct.id) AND owner = p;",
        "UPDATE acct SET n = (SELECT count(*) FROM link WHERE b = p) WHERE id = p;",
        "UPDATE acct SET n = (SELECT coalesce(sum(n), 0) FROM node WHERE up = p), m = NULL WHERE id = p;",
        "UPDATE node SET n = (SELECT max(n) FROM node) + 1 WHERE id = p;",
        "DELETE FROM link USING acct AS x WHERE x.id = link.a AND x.owner = p;",
        "DELETE FROM acct WHERE id = p AND NOT EXISTS (SELECT * FROM link WHERE a = p);",
        "DELETE FROM node WHERE up = p AND n < (SELECT max(n) FROM node);",
        // Rows found by a view.
        "UPDATE acct SET m = 1 WHERE id IN (SELECT id FROM shown WHERE n > 0) AND owner = p;",
        "INSERT INTO node (id, n) SELECT p, n FROM shown WHERE id = q;",
        // Plain statements.
        "UPDATE acct SET n = n - 1 WHERE id = p AND n > 0;",
        "UPDATE acct SET n = n + 1 WHERE id = p;",
        "UPDATE acct SET n = n + r, m = m - r WHERE id = p;",
        "UPDATE acct SET live = true WHERE id = p;",
        "UPDATE acct SET live = false WHERE owner = p;",
        "UPDATE acct SET owner = q WHERE id = p;",
        "UPDATE acct SET owner = NULL, t = NULL WHERE id = p;",
        "UPDATE acct SET t = CASE WHEN t = 'a' THEN 'b' ELSE 'a' END WHERE id = p;",
        "UPDATE acct SET t = 'a', live = true WHERE owner = p;",
        "UPDATE acct SET id = q WHERE id = p;",
        "UPDATE link SET b = q WHERE a = p;",
        "UPDATE link SET n = n - 1 WHERE a = p AND b = q;",
        "UPDATE node SET up = q WHERE id = p;",
        "UPDATE node SET up = (SELECT up FROM node AS c WHERE c.id = q) WHERE id = p;",
        "UPDATE node SET live = NOT live, n = n + 1 WHERE id = p;",
        "INSERT INTO acct (id, owner, n, t) VALUES (p, q, r, 'b');",
        "INSERT INTO acct (id, owner, n, live) VALUES (p, q, r, false), (r, q, 1, true);",
        "INSERT INTO link (a, b, n) VALUES (p, q, r), (q, p, r);",
        "INSERT INTO node (id, up) VALUES (p, q);",
        "INSERT INTO node (id, n, live) VALUES (p, r, false);",
        "DELETE FROM acct WHERE id = p;",
        "DELETE FROM acct WHERE NOT live AND owner = p;",
        "DELETE FROM link WHERE a = p;",
        "DELETE FROM link WHERE a = p AND b = q OR a = q AND b = p;",
        "DELETE FROM node WHERE id = p;",
        "DELETE FROM node WHERE NOT live;",
    ])
}

/// Statements that read first, into `v` and `w`.
fn looking(random: &mut Random) -> String {
    let look = random.of(&[
        "SELECT n INTO v FROM acct WHERE id = p FOR UPDATE;",
        "SELECT count(*) INTO v FROM link WHERE a = p;",
        "SELECT owner INTO v FROM acct WHERE id = p;",
        "SELECT count(*) INTO v FROM acct WHERE owner = q AND live;",
        "SELECT up INTO v FROM node WHERE id = p;",
        "SELECT max(n) INTO v FROM node WHERE up = p;",
        "SELECT n INTO v FROM shown WHERE id = p;",
        "SELECT l.b INTO v FROM link AS l JOIN acct AS x ON x.id = l.b WHERE l.a = p AND x.live;",
    ]);
    let condition = random.of(&["v IS NULL", "v > 0", "v = 0", "NOT FOUND", "v >= r"]);
    let does = match random.below(4) {
        0 => "RAISE EXCEPTION 'no';",
        1 => "RETURN;",
        _ => statement(random),
    };
    let after = random.of(&[
        "UPDATE acct SET n = v WHERE id = q;",
        "UPDATE acct SET n = v + 1 WHERE id = p;",
        "INSERT INTO node (id, up, n) VALUES (q, v, 0);",
        "INSERT INTO link (a, b, n) VALUES (p, q, v);",
        "UPDATE node SET n = n + v WHERE id = p;",
        "DELETE FROM acct WHERE id = v;",
        "",
        "",
    ]);
    format!("{look} IF {condition} THEN {does} END IF; {after}")
}

/// An application as SQL.
fn made_up(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut text = schema(&mut random);
    let viewed = text.contains("CREATE VIEW");
    for number in 0..1 + random.below(3) {
        let mut body = String::new();
        for _ in 0..1 + random.below(2) {
            let next = match random.below(3) {
                0 => looking(&mut random),
                _ => statement(&mut random).to_owned(),
            };
            if viewed || !next.contains("shown") {
                body += &next;
                body += "\n    ";
            }
        }
        let _ = writeln!(
            text,
            "CREATE PROCEDURE t{number}(p integer, q integer, r integer) LANGUAGE plpgsql AS $$\nDECLARE v integer;\nBEGIN\n    {}\nEND; $$;",
            body.trim_end()
        );
    }
    text
}

#[test]
fn no_plan_in_other_forms_is_broken() {
    if let Some(tally) = attacked_as_usual(0..500, made_up) {
        assert!(tally.refused * 5 < tally.tried, "{tally:#?}");
        assert!(tally.free > 20 && tally.guarded > 100, "{tally:#?}");
    }
}

/// Everything in the lists is SQL that the analyser reads.
#[test]
fn every_form_compiles() {
    for seed in 0..2_000 {
        let text = made_up(seed);
        let files = vec![anabranch_sql::SourceFile::new("made_up.sql", text.clone())];
        let compiled = anabranch_sql::load(files).and_then(anabranch_sql::Application::compile);
        if let Err(error) = compiled {
            panic!("{text}\n{error:#?}");
        }
    }
}
