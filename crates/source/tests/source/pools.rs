//! Pools that an application makes itself, and numbers that it writes into its SQL.

use anabranch_sql::SourceFile;

use crate::support::{analysed_files, told};

const SCHEMA: &str = "CREATE TABLE a (id bigint PRIMARY KEY, n bigint NOT NULL);
";

fn of(name: &str, text: &str) -> String {
    let schema = vec![SourceFile::new("schema.sql", SCHEMA)];
    let (program, _) = analysed_files(schema, vec![SourceFile::new(name, text)]);
    told(&program)
}

const RAISED: &str = "  UPDATE a SET n = n + 1 WHERE id = <:id>";

#[test]
fn a_connection_may_wait_in_a_collection() {
    for (field, take, give) in [
        (
            "Vector free = new Vector();",
            "(Connection) free.remove(0)",
            "free.addElement(c)",
        ),
        (
            "Vector free = new Vector();",
            "(Connection) free.firstElement()",
            "free.insertElementAt(c, 0)",
        ),
        (
            "ArrayDeque<Connection> free = new ArrayDeque<>();",
            "free.poll()",
            "free.offerFirst(c)",
        ),
        (
            "BlockingQueue<Connection> free = new LinkedBlockingQueue<>();",
            "free.take()",
            "free.offer(c)",
        ),
        (
            "Set<Connection> free = new HashSet<>();",
            "free.iterator().next()",
            "free.remove(c)",
        ),
        (
            "Connection[] free = new Connection[8];",
            "free[0]",
            "free[0] = c",
        ),
        (
            "ThreadLocal<Connection> free = new ThreadLocal<>();",
            "free.get()",
            "free.set(c)",
        ),
        (
            "Map<Thread, Connection> free = new HashMap<>();",
            "free.get(Thread.currentThread())",
            "free.put(Thread.currentThread(), c)",
        ),
    ] {
        let text = format!(
            r#"class Shelf {{
  private static final {field}
  static synchronized Connection take() {{ return {take}; }}
  static synchronized void give(Connection c) {{ {give}; }}
  static void raise(long id) throws SQLException {{
    Connection c = take();
    PreparedStatement s = c.prepareStatement("UPDATE a SET n = n + 1 WHERE id = ?");
    s.setLong(1, id);
    s.executeUpdate();
    c.commit();
    give(c);
  }}
}}
"#
        );
        let found = of("Shelf.java", &text);
        assert_eq!(found.trim_end(), format!("Shelf.raise\n{RAISED}"), "{text}");
    }
    for (made, take, give) in [
        ("queue.Queue()", "free.get()", "free.put(conn)"),
        ("queue.LifoQueue()", "free.get()", "free.put_nowait(conn)"),
        (
            "collections.deque()",
            "free.popleft()",
            "free.appendleft(conn)",
        ),
        ("[]", "free.pop()", "free.append(conn)"),
        ("{}", "free[ident()]", "free[ident()] = conn"),
    ] {
        let text = format!(
            r#"
free = {made}

def raise_it(id):
    conn = {take}
    conn.execute("UPDATE a SET n = n + 1 WHERE id = %s", (id,))
    conn.commit()
    {give}
"#
        );
        let found = of("f.py", &text);
        assert_eq!(found.trim_end(), format!("raise_it\n{RAISED}"), "{text}");
    }
    let found = of(
        "a.go",
        r#"package p
var free = make(chan *sql.Conn, 8)
func raise(ctx context.Context, id int) error {
	conn := <-free
	defer func() { free <- conn }()
	_, err := conn.ExecContext(ctx, "UPDATE a SET n = n + 1 WHERE id = $1", id)
	return err
}
"#,
    );
    assert_eq!(found.trim_end(), format!("raise\n{RAISED}"));
}

/// A connection that is given to something else may run anything.
#[test]
fn what_is_no_collection_may_run_sql() {
    for give in ["auditor.visit(c)", "helper.offerAll(c)", "Ledger.post(c)"] {
        let text = format!(
            r#"class Shelf {{
  static void raise(Connection c, long id) throws SQLException {{
    PreparedStatement s = c.prepareStatement("UPDATE a SET n = n + 1 WHERE id = ?");
    s.setLong(1, id);
    s.executeUpdate();
    {give};
  }}
}}
"#
        );
        let found = of("Shelf.java", &text);
        assert!(
            found.contains("is passed c and is not in the source"),
            "{text}\n{found}"
        );
    }
}

#[test]
fn a_number_is_a_parameter() {
    for (before, number) in [
        ("static int PAGE = 20;", "PAGE"),
        ("static int page; void set(int n) { page = n; }", "page"),
        (
            "static final Integer MAX = Integer.getInteger(\"max\");",
            "MAX",
        ),
        ("enum State { OPEN, CLOSED }", "State.CLOSED.ordinal()"),
        ("int limit() { return settings.read(); }", "limit()"),
        ("", "names.size()"),
        ("static int PAGE = 20;", "(PAGE * 2)"),
        ("static int PAGE = 20;", "(PAGE + 1)"),
    ] {
        let text = format!(
            r#"class A {{
  {before}
  void page(Connection c, List<String> names) throws SQLException {{
    c.prepareStatement("SELECT n FROM a WHERE n > " + {number} + " LIMIT 5").executeQuery();
  }}
}}
"#
        );
        let found = of("A.java", &text);
        assert!(
            !found.contains('!') && found.contains("n > <"),
            "{text}\n{found}"
        );
    }
    for (name, text) in [
        (
            "f.py",
            "PAGE = 20\ndef page(conn):\n    conn.execute(f\"SELECT n FROM a LIMIT {PAGE}\")\n",
        ),
        (
            "f.py",
            "class Limits:\n    PAGE = 20\ndef page(conn):\n    conn.execute(\"SELECT n FROM a LIMIT \" + str(Limits.PAGE))\n",
        ),
        (
            "a.js",
            "const PAGE = 20;\nasync function page(client) { await client.query(`SELECT n FROM a LIMIT ${PAGE}`); }\n",
        ),
        (
            "a.php",
            "<?php\nclass A { const PAGE = 20; function page(PDO $db) { $db->query(\"SELECT n FROM a LIMIT \" . self::PAGE); } }\n",
        ),
        (
            "a.go",
            "package p\nconst Page = 20\nfunc page(db *sql.DB) { db.Query(fmt.Sprintf(\"SELECT n FROM a LIMIT %v\", Page)) }\n",
        ),
    ] {
        let found = of(name, text);
        assert!(
            !found.contains('!') && found.contains("LIMIT <"),
            "{text}\n{found}"
        );
    }
}

/// A name that is ever given anything else may be a text with SQL.
#[test]
fn what_may_be_a_text_is_not_known() {
    for text in [
        "PAGE = 20\nPAGE = input()\ndef page(conn):\n    conn.execute(f\"SELECT n FROM a LIMIT {PAGE}\")\n",
        "PAGE = 20\ndef change(x):\n    global PAGE\n    PAGE = x\ndef page(conn):\n    conn.execute(f\"SELECT n FROM a LIMIT {PAGE}\")\n",
        "PAGE = 20\ndef page(conn, request):\n    conn.execute(f\"SELECT n FROM a LIMIT {request.PAGE}\")\n",
        "class Limits:\n    PAGE = 20\nLimits.PAGE = input()\ndef page(conn):\n    conn.execute(f\"SELECT n FROM a LIMIT {Limits.PAGE}\")\n",
    ] {
        let found = of("f.py", text);
        assert!(
            found.contains("! part of this SQL is not known"),
            "{text}\n{found}"
        );
    }
    let found = of(
        "A.java",
        r#"class A {
  static String PAGE = read();
  void page(Connection c) throws SQLException {
    c.prepareStatement("SELECT n FROM a LIMIT " + PAGE).executeQuery();
  }
}
"#,
    );
    assert!(found.contains("! part of this SQL is not known"), "{found}");
}
