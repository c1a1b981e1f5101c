//! Functions that run one of several others in a transaction: each of the others is a transaction type.

use anabranch_sql::SourceFile;

use crate::support::{analysed_files, told};

const SCHEMA: &str = "CREATE TABLE a (id bigint PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE b (id bigint PRIMARY KEY, n bigint NOT NULL);
";

fn of(files: &[(&str, &str)]) -> String {
    let programs = files
        .iter()
        .map(|(name, text)| SourceFile::new(*name, *text));
    let schema = vec![SourceFile::new("schema.sql", SCHEMA)];
    let (program, _) = analysed_files(schema, programs.collect());
    told(&program)
}

#[track_caller]
fn is(files: &[(&str, &str)], expected: &str) {
    let found = of(files);
    assert_eq!(found.trim_end(), expected.trim_end(), "\n{found}");
}

const TWO_IN_PYTHON: &str = r#"
def raise_it(conn, job):
    conn.execute("UPDATE a SET n = n + 1 WHERE id = %s", (job["id"],))

def drop_it(conn, job):
    conn.execute("DELETE FROM b WHERE id = %s", (job["id"],))
"#;

const RAISED_OR_DROPPED: &str = r#"
run[raise_it]
  UPDATE a SET n = n + 1 WHERE id = <job["id"]>
run[drop_it]
  DELETE FROM b WHERE id = <job["id"]>"#;

/// A Python function `run` beside `raise_it` and `drop_it`.
#[track_caller]
fn python(run: &str, expected: &str) {
    let text = format!("{TWO_IN_PYTHON}\n{run}");
    is(&[("f.py", &text)], expected.trim_start());
}

#[test]
fn a_chain_of_conditions() {
    python(
        r#"
def run(conn, job):
    if job["kind"] == "raise":
        raise_it(conn, job)
    elif job["kind"] == "drop":
        drop_it(conn, job)
    else:
        raise ValueError(job["kind"])
"#,
        RAISED_OR_DROPPED,
    );
}

#[test]
fn a_chain_that_ends_with_a_rollback() {
    python(
        r#"
def run(conn, job):
    if job["kind"] == "raise":
        raise_it(conn, job)
        conn.commit()
    elif job["kind"] == "drop":
        drop_it(conn, job)
        conn.commit()
    else:
        conn.rollback()
"#,
        RAISED_OR_DROPPED,
    );
}

#[test]
fn a_chain_of_returns() {
    python(
        r#"
def run(conn, job):
    if job["kind"] == "raise":
        return raise_it(conn, job)
    if job["kind"] == "drop":
        return drop_it(conn, job)
    raise ValueError(job["kind"])
"#,
        RAISED_OR_DROPPED,
    );
}

#[test]
fn a_match() {
    python(
        r#"
def run(conn, job):
    with conn.transaction():
        match job["kind"]:
            case "raise":
                raise_it(conn, job)
            case _:
                drop_it(conn, job)
"#,
        RAISED_OR_DROPPED,
    );
}

#[test]
fn a_table_of_functions() {
    for run in [
        r#"
HANDLERS = {"raise": raise_it, "drop": drop_it}

def run(conn, job):
    HANDLERS[job["kind"]](conn, job)
"#,
        r#"
HANDLERS = {}
HANDLERS["raise"] = raise_it
HANDLERS["drop"] = drop_it

def run(conn, job):
    handler = HANDLERS.get(job["kind"])
    if handler is None:
        raise ValueError(job["kind"])
    handler(conn, job)
"#,
        r#"
HANDLERS = [raise_it, drop_it]

def run(conn, job):
    handler = HANDLERS[job["kind"]]
    with conn.transaction():
        handler(conn, job)
"#,
        r#"
def run(conn, job):
    handler = raise_it if job["kind"] == "raise" else drop_it
    handler(conn, job)
"#,
    ] {
        python(run, RAISED_OR_DROPPED);
    }
}

#[test]
fn a_table_that_may_change_is_not_known() {
    for change in [
        "HANDLERS.update(plugins())",
        "HANDLERS[name()] = plugin()",
        "register(HANDLERS)",
        "others = HANDLERS",
        "HANDLERS = load()",
    ] {
        let text = format!(
            "{TWO_IN_PYTHON}
HANDLERS = {{\"raise\": raise_it, \"drop\": drop_it}}
{change}

def run(conn, job):
    conn.execute(\"SELECT n FROM a WHERE id = %s\", (1,))
    HANDLERS[job[\"kind\"]](conn, job)
"
        );
        let found = of(&[("f.py", &text)]);
        assert!(
            found.contains("! HANDLERS() is passed conn and is not in the source"),
            "{change}\n{found}"
        );
    }
}

#[test]
fn several_jobs_in_one_transaction_are_one_type() {
    let found = of(&[(
        "f.py",
        &format!(
            "{TWO_IN_PYTHON}
HANDLERS = {{\"raise\": raise_it, \"drop\": drop_it}}

def run(conn, jobs):
    with conn.transaction():
        for job in jobs:
            HANDLERS[job[\"kind\"]](conn, job)
"
        ),
    )]);
    assert!(found.contains("\nrun\n  *\n"), "{found}");
}

#[test]
fn a_loop_that_commits_each_job_is_a_transaction_a_round() {
    for run in [
        r#"
def run(conn, jobs):
    while True:
        job = jobs.get()
        with conn.transaction():
            HANDLERS[job["kind"]](conn, job)
"#,
        r#"
def run(conn, jobs):
    for job in jobs:
        try:
            HANDLERS[job["kind"]](conn, job)
            conn.commit()
        except Exception:
            conn.rollback()
"#,
    ] {
        python(
            &format!("HANDLERS = {{\"raise\": raise_it, \"drop\": drop_it}}\n{run}"),
            RAISED_OR_DROPPED,
        );
    }
}

#[test]
fn a_loop_that_commits_now_and_then_is_one_type() {
    let found = of(&[(
        "f.py",
        &format!(
            "{TWO_IN_PYTHON}
HANDLERS = {{\"raise\": raise_it, \"drop\": drop_it}}

def run(conn, jobs):
    for at, job in enumerate(jobs):
        HANDLERS[job[\"kind\"]](conn, job)
        if at % 100 == 0:
            conn.commit()
"
        ),
    )]);
    assert!(found.contains("\nrun\n  *\n"), "{found}");
}

#[test]
fn what_was_read_may_decide() {
    let found = of(&[(
        "f.py",
        &format!(
            "{TWO_IN_PYTHON}
def run(conn, job):
    kind = conn.execute(\"SELECT n FROM a WHERE id = %s\", (job[\"id\"],)).fetchone()[0]
    if kind == 1:
        raise_it(conn, job)
    else:
        drop_it(conn, job)
"
        ),
    )]);
    assert!(found.contains("\nrun\n  SELECT n FROM a"), "{found}");
}

#[test]
fn what_stands_behind_the_choice_belongs_to_each() {
    python(
        r#"
def run(conn, job):
    if job["kind"] == "raise":
        raise_it(conn, job)
    elif job["kind"] == "drop":
        drop_it(conn, job)
    conn.execute("UPDATE b SET n = 0 WHERE id = %s", (job["id"],))
"#,
        r#"
run[raise_it]
  UPDATE a SET n = n + 1 WHERE id = <job["id"]>
  UPDATE b SET n = 0 WHERE id = <job["id"] (2)>
run[drop_it]
  DELETE FROM b WHERE id = <job["id"]>
  UPDATE b SET n = 0 WHERE id = <job["id"] (2)>
run
  UPDATE b SET n = 0 WHERE id = <job["id"]>"#,
    );
}

/// What one alternative runs that is not known makes only that one unknown.
#[test]
fn unknown_sql_of_one_alternative() {
    python(
        r#"
def custom(conn, job):
    conn.execute(job["sql"])

def run(conn, job):
    if job["kind"] == "raise":
        raise_it(conn, job)
    elif job["kind"] == "custom":
        custom(conn, job)
    else:
        drop_it(conn, job)
"#,
        r#"
run[raise_it]
  UPDATE a SET n = n + 1 WHERE id = <job["id"]>
run[custom]
  ! the SQL that conn.execute() runs is not known
run[drop_it]
  DELETE FROM b WHERE id = <job["id"]>"#,
    );
}

#[test]
fn a_virtual_call_of_one_of_several_classes() {
    is(
        &[
            (
                "Worker.java",
                r#"
class Worker extends Thread {
    private Connection conn;
    public void run() {
        while (!done()) {
            work(next());
        }
    }
    void work(Kind kind) {
        int tries = 0;
        while (tries < 3) {
            try {
                execute(conn, kind);
                conn.commit();
                break;
            } catch (SQLException e) {
                conn.rollback();
                tries++;
            }
        }
    }
    protected void execute(Connection conn, Kind kind) throws SQLException {
        Job job = (Job) procedures.get(kind);
        job.run(conn, kind.id);
    }
}
abstract class Job {
    abstract void run(Connection conn, long id) throws SQLException;
}
"#,
            ),
            (
                "Raise.java",
                r#"
class Raise extends Job {
    void run(Connection conn, long id) throws SQLException {
        PreparedStatement s = conn.prepareStatement("UPDATE a SET n = n + 1 WHERE id = ?");
        s.setLong(1, id);
        s.executeUpdate();
    }
}
"#,
            ),
            (
                "Drop.java",
                r#"
class Drop extends Job {
    void run(Connection conn, long id) throws SQLException {
        PreparedStatement s = conn.prepareStatement("DELETE FROM b WHERE id = ?");
        s.setLong(1, id);
        s.executeUpdate();
    }
}
"#,
            ),
        ],
        r#"
Worker.work[Raise]
  UPDATE a SET n = n + 1 WHERE id = <kind.id>
Worker.work[Drop]
  DELETE FROM b WHERE id = <kind.id>"#
            .trim_start(),
    );
}

#[test]
fn a_switch_and_a_map_in_other_languages() {
    is(
        &[(
            "a.ts",
            r#"
async function raiseIt(c: PoolClient, id: number) { await c.query("UPDATE a SET n = n + 1 WHERE id = $1", [id]); }
async function dropIt(c: PoolClient, id: number) { await c.query("DELETE FROM b WHERE id = $1", [id]); }
const handlers = new Map([["raise", raiseIt], ["drop", dropIt]]);
export async function byMap(pool: Pool, kind: string, id: number) {
  const c = await pool.connect();
  await c.query("BEGIN");
  await handlers.get(kind)(c, id);
  await c.query("COMMIT");
}
export async function bySwitch(pool: Pool, kind: string, id: number) {
  const c = await pool.connect();
  await c.query("BEGIN");
  switch (kind) {
    case "raise": await raiseIt(c, id); break;
    default: await dropIt(c, id);
  }
  await c.query("COMMIT");
}
"#,
        )],
        r#"
byMap[raiseIt]
  UPDATE a SET n = n + 1 WHERE id = <:id>
byMap[dropIt]
  DELETE FROM b WHERE id = <:id>
bySwitch[raiseIt]
  UPDATE a SET n = n + 1 WHERE id = <:id>
bySwitch[dropIt]
  DELETE FROM b WHERE id = <:id>"#
            .trim_start(),
    );
    is(
        &[(
            "a.go",
            r#"package p
func raiseIt(tx *sql.Tx, id int) error { _, err := tx.Exec("UPDATE a SET n = n + 1 WHERE id = $1", id); return err }
func dropIt(tx *sql.Tx, id int) error { _, err := tx.Exec("DELETE FROM b WHERE id = $1", id); return err }
var handlers = map[string]func(*sql.Tx, int) error{"raise": raiseIt, "drop": dropIt}
func Run(db *sql.DB, kind string, id int) error {
	tx, err := db.Begin()
	if err != nil { return err }
	if err := handlers[kind](tx, id); err != nil { tx.Rollback(); return err }
	return tx.Commit()
}
"#,
        )],
        r#"
Run[raiseIt]
  UPDATE a SET n = n + 1 WHERE id = <:id>
Run[dropIt]
  DELETE FROM b WHERE id = <:id>"#
            .trim_start(),
    );
}
