//! Queries after which a program writes nothing if they find a row.

use anabranch_source::read;
use anabranch_sql::SourceFile;
use anabranch_sql::script::Step;

/// Whether the first statement of the only transaction finds no row in each call that writes.
fn finds_none(name: &str, text: &str) -> bool {
    fn first(steps: &[Step]) -> Option<bool> {
        steps.iter().find_map(|step| match step {
            Step::Run(statement) => Some(statement.finds_none),
            Step::Either(branches) => branches.iter().find_map(|(_, inner)| first(inner)),
            Step::Repeat(inner) => first(inner),
        })
    }
    let program = read(&[SourceFile::new(name, text)]);
    let [client] = program.clients.as_slice() else {
        panic!("{text}\n{:#?}", program.clients);
    };
    first(&client.steps).expect("a statement")
}

const LOOK: &str = "conn.execute(\"SELECT reply FROM request WHERE token = %s\", (token,))";
const PUT: &str =
    "conn.execute(\"INSERT INTO request (token, reply) VALUES (%s, 'paid')\", (token,))";

fn python(body: &str) -> bool {
    let body = body.replace("LOOK", LOOK).replace("PUT", PUT);
    let lines: Vec<String> = body.lines().map(|line| format!("    {line}")).collect();
    finds_none(
        "f.py",
        &format!("def pay(conn, token, force):\n{}\n", lines.join("\n")),
    )
}

#[test]
fn a_call_that_finds_a_row_leaves() {
    for body in [
        "seen = LOOK.fetchone()\nif seen:\n    return seen[0]\nPUT",
        "seen = LOOK.fetchone()\nif seen is not None:\n    raise ValueError()\nPUT",
        "if LOOK.fetchone():\n    return\nPUT",
        "with conn.transaction():\n    seen = LOOK.fetchall()\n    if len(seen) > 0:\n        raise ValueError()\n    PUT",
    ] {
        // `len()` of the rows is not followed: that is on the safe side.
        assert_eq!(python(body), !body.contains("len("), "{body}");
    }
    assert!(finds_none(
        "a.js",
        r#"
async function rent(boat, from, to) {
  const c = await pool.connect();
  try {
    await c.query('BEGIN');
    const clash = await c.query('SELECT 1 FROM rental WHERE boat_id = $1 AND from_at < $3 AND to_at > $2 LIMIT 1', [boat, from, to]);
    if (clash.rows.length > 0) throw new Error('taken');
    await c.query('INSERT INTO rental (boat_id, from_at, to_at) VALUES ($1, $2, $3)', [boat, from, to]);
    await c.query('COMMIT');
  } catch (e) { await c.query('ROLLBACK'); throw e; } finally { c.release(); }
}
"#
    ));
}

#[test]
fn a_call_that_may_go_on_is_not_taken_for_one() {
    for body in [
        "seen = LOOK.fetchone()\nif seen and not force:\n    return\nPUT",
        "seen = LOOK.fetchone()\nif not seen:\n    return\nPUT",
        "seen = LOOK.fetchone()\nif seen:\n    log(seen)\nPUT",
        "seen = LOOK.fetchone()\nif seen:\n    PUT\n    return\nPUT",
        "seen = LOOK.fetchone()\nif force:\n    if seen:\n        return\nPUT",
        "try:\n    seen = LOOK.fetchone()\n    if seen:\n        raise ValueError()\nexcept ValueError:\n    pass\nPUT",
        "try:\n    seen = LOOK.fetchone()\n    if seen:\n        return\n    PUT\nfinally:\n    conn.execute(\"UPDATE request SET reply = 'x' WHERE token = %s\", (token,))",
        "for token in force:\n    seen = LOOK.fetchone()\n    if seen:\n        return\n    PUT",
        "seen = conn.execute(\"SELECT 1 FROM request HAVING count(*) < 3\").fetchone()\nif seen:\n    return\nPUT",
    ] {
        assert!(!python(body), "{body}");
    }
}
