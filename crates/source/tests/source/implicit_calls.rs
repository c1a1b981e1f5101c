//! Operators, loops, conversions and destruction run methods without a call in the source; these are found by the
//! object's class.

use crate::support::writes::each_that_writes_is_found;

#[test]
fn pythons_special_methods() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"class Base:
    def __init__(self, conn):
        self.conn = conn
    def w(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")

class Iadd(Base):
    def __iadd__(self, n):
        self.w()
        return self
class Add(Base):
    def __add__(self, n):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return self
class Item(Base):
    def __getitem__(self, k):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return 1
class SetItem(Base):
    def __setitem__(self, k, v):
        self.conn.execute("UPDATE account SET balance = balance - 1")
class DelItem(Base):
    def __delitem__(self, k):
        self.conn.execute("UPDATE account SET balance = balance - 1")
class Contains(Base):
    def __contains__(self, k):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return True
class Iter(Base):
    def __iter__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        yield 1
class Len(Base):
    def __len__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return 1
class Boolish(Base):
    def __bool__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return True
class Eq(Base):
    def __eq__(self, other):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return True
class Callme(Base):
    def __call__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")
class Str(Base):
    def __str__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return "x"
class Del(Base):
    def __del__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")
class Getattr(Base):
    def __getattr__(self, name):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return 1
class Lshift(Base):
    def __lshift__(self, n):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return self
class Neg(Base):
    def __neg__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return self
class Post(Base):
    def __post_init__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")

class Setter(Base):
    def __setattr__(self, name, value):
        self.conn.execute("UPDATE account SET balance = balance - 1")
class Forgetter(Base):
    def __delattr__(self, name):
        self.conn.execute("UPDATE account SET balance = balance - 1")

def writes_by_setattr(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    s = Setter(conn)
    s.x = 5
def writes_by_delattr(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    s = Forgetter(conn)
    del s.x
def writes_by_iadd(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    a = Iadd(conn)
    a += 1
def writes_by_iadd_param(conn, id, a: Iadd):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    a += 1
def writes_by_add(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    a = Add(conn)
    return a + 1
def writes_by_item(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    return Item(conn)["x"]
def writes_by_setitem(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    a = SetItem(conn)
    a["x"] = 5
def writes_by_delitem(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    a = DelItem(conn)
    del a["x"]
def writes_by_contains(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    return 1 in Contains(conn)
def writes_by_iter(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    for x in Iter(conn):
        print(x)
def writes_by_list(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    return list(Iter(conn))
def writes_by_len(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    return len(Len(conn))
def writes_by_bool(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    if Boolish(conn):
        return 1
def writes_by_eq(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    return Eq(conn) == 3
def writes_by_call(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    a = Callme(conn)
    a()
def writes_by_str(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    return f"{Str(conn)}"
def writes_by_str2(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    return str(Str(conn))
def writes_by_del(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    a = Del(conn)
def writes_by_getattr(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    return Getattr(conn).anything
def writes_by_lshift(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    Lshift(conn) << 3
def writes_by_neg(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    -Neg(conn)
def writes_by_post(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    Post(conn)
def reads_plainly(conn, id, n):
    conn.execute("SELECT owner FROM account WHERE id = ?", (id,))
    n += 1
    xs = [1, 2]
    return f"{n}", xs[0], len(xs), 3 in xs, -n, n == 3
"#,
    )]);
}

#[test]
fn phps_magic_methods_and_interfaces() {
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
class Text { 
  function __construct(private PDO $db) {}
  function __toString(): string { $this->db->exec("UPDATE account SET balance = balance - 1"); return "x"; } }
class Gone { 
  function __construct(private PDO $db) {}
  function __destruct() { $this->db->exec("UPDATE account SET balance = balance - 1"); } }
class Arr implements ArrayAccess { 
  function __construct(private PDO $db) {}
  function offsetGet($k): mixed { $this->db->exec("UPDATE account SET balance = balance - 1"); return 1; }
  function offsetSet($k, $v): void { $this->db->exec("UPDATE account SET balance = balance - 1"); } }
class Its implements IteratorAggregate { 
  function __construct(private PDO $db) {}
  function getIterator(): Iterator { $this->db->exec("UPDATE account SET balance = balance - 1"); return new X(); } }
class Inv { 
  function __construct(private PDO $db) {}
  function __invoke() { $this->db->exec("UPDATE account SET balance = balance - 1"); } }
class Cnt implements Countable { 
  function __construct(private PDO $db) {}
  function count(): int { $this->db->exec("UPDATE account SET balance = balance - 1"); return 1; } }
function writes_by_text(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); $t = new Text($db); return "a" . $t; }
function writes_by_text2(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); $t = new Text($db); echo "a $t"; }
function writes_by_gone(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); $t = new Gone($db); }
function writes_by_arr(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); $t = new Arr($db); return $t["x"]; }
function writes_by_arrset(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); $t = new Arr($db); $t["x"] = 5; }
function writes_by_its(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); foreach (new Its($db) as $x) { echo $x; } }
function writes_by_inv(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); $t = new Inv($db); $t(); }
function writes_by_cnt(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); return count(new Cnt($db)); }
class Loose {
  function __construct(private PDO $db) {}
  function __set($name, $value) { $this->db->exec("UPDATE account SET balance = balance - 1"); } }
function writes_by_set(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); $t = new Loose($db); $t->x = 5; }
class Basket { function count() { return 3; } function next() { return 4; } }
function reads_a_basket(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); return count(new Basket()); }
class Counted { function __construct(private PDO $db) {} function count() { $this->db->exec("UPDATE account SET balance = balance - 1"); return 1; } }
function reads_what_is_not_countable(PDO $db, $id) { $s = $db->prepare("SELECT owner FROM account WHERE id = ?"); $s->execute([$id]); $c = new Counted($db); return $c; }
"#,
    )]);
}

#[test]
fn what_typescript_calls_by_symbols_and_conversions() {
    each_that_writes_is_found(&[(
        "a.ts",
        r#"class Text { constructor(private client: Client) {} toString() { this.client.query("UPDATE account SET balance = balance - 1"); return "x"; } }
class Val { constructor(private client: Client) {} valueOf() { this.client.query("UPDATE account SET balance = balance - 1"); return 1; } }
class Its { constructor(private client: Client) {} *[Symbol.iterator]() { this.client.query("UPDATE account SET balance = balance - 1"); yield 1; } }
class AIts { constructor(private client: Client) {} async *[Symbol.asyncIterator]() { await this.client.query("UPDATE account SET balance = balance - 1"); yield 1; } }
class Disp { constructor(private client: Client) {} async [Symbol.asyncDispose]() { await this.client.query("UPDATE account SET balance = balance - 1"); } }
class Json { constructor(private client: Client) {} toJSON() { this.client.query("UPDATE account SET balance = balance - 1"); return 1; } }
class Then { constructor(private client: Client) {} then(done: any) { this.client.query("UPDATE account SET balance = balance - 1").then(done); } }
async function writes_by_text(client: Client, id: number) { await client.query("SELECT owner FROM account WHERE id = $1", [id]); const t = new Text(client); return `a ${t}`; }
async function writes_by_val(client: Client, id: number) { await client.query("SELECT owner FROM account WHERE id = $1", [id]); const t = new Val(client); return t + 1; }
async function writes_by_its(client: Client, id: number) { await client.query("SELECT owner FROM account WHERE id = $1", [id]); for (const x of new Its(client)) { console.log(x); } }
async function writes_by_spread(client: Client, id: number) { await client.query("SELECT owner FROM account WHERE id = $1", [id]); return [...new Its(client)]; }
async function writes_by_aits(client: Client, id: number) { await client.query("SELECT owner FROM account WHERE id = $1", [id]); for await (const x of new AIts(client)) { console.log(x); } }
async function writes_by_disp(client: Client, id: number) { await client.query("SELECT owner FROM account WHERE id = $1", [id]); await using d = new Disp(client); }
async function writes_by_json(client: Client, id: number) { await client.query("SELECT owner FROM account WHERE id = $1", [id]); return JSON.stringify(new Json(client)); }
async function writes_by_then(client: Client, id: number) { await client.query("SELECT owner FROM account WHERE id = $1", [id]); await new Then(client); }
"#,
    )]);
}

#[test]
fn javas_conversions_and_loops() {
    each_that_writes_is_found(&[(
        "A.java",
        r#"class Txt { Connection c; Txt(Connection c) { this.c = c; } public String toString() { try { c.createStatement().executeUpdate("UPDATE account SET balance = balance - 1"); } catch (SQLException e) {} return ""; } }
class Its implements Iterable<Integer> { Connection c; Its(Connection c) { this.c = c; } public Iterator<Integer> iterator() { try { c.createStatement().executeUpdate("UPDATE account SET balance = balance - 1"); } catch (SQLException e) {} return null; } }
class A {
  void writes_by_text(Connection c, int id) throws SQLException { c.setAutoCommit(false); PreparedStatement s = c.prepareStatement("SELECT owner FROM account WHERE id = ?"); s.setInt(1, id); s.executeQuery(); Txt t = new Txt(c); String x = "a" + t; c.commit(); }
  void writes_by_its(Connection c, int id) throws SQLException { c.setAutoCommit(false); PreparedStatement s = c.prepareStatement("SELECT owner FROM account WHERE id = ?"); s.setInt(1, id); s.executeQuery(); for (int x : new Its(c)) { System.out.println(x); } c.commit(); }
}
"#,
    )]);
}

#[test]
fn gos_conversions_and_sequences() {
    each_that_writes_is_found(&[(
        "g.go",
        r#"package g
type Txt struct { tx *sql.Tx }
func (t Txt) String() string { t.tx.Exec("UPDATE account SET balance = balance - 1"); return "" }
func WritesByText(tx *sql.Tx, id int) { tx.QueryRow("SELECT owner FROM account WHERE id = $1", id); t := Txt{tx}; fmt.Println(t) }
func GSeq(tx *sql.Tx) iter.Seq[int] { return func(yield func(int) bool) { tx.Exec("UPDATE account SET balance = balance - 1"); yield(1) } }
func WritesByRange(tx *sql.Tx, id int) { tx.QueryRow("SELECT owner FROM account WHERE id = $1", id); for x := range GSeq(tx) { fmt.Println(x) } }
func WritesByAKeyedOne(tx *sql.Tx, id int) string { tx.QueryRow("SELECT owner FROM account WHERE id = $1", id); t := Txt{tx: tx}; return fmt.Sprintf("%s", t) }
type Plain struct { tx *sql.Tx }
func (p Plain) String() string { return "plain" }
func ReadsPlainly(tx *sql.Tx, id int) string { tx.QueryRow("SELECT owner FROM account WHERE id = $1", id); p := Plain{tx}; return fmt.Sprint(p) }
"#,
    )]);
}
