//! SQL that a transaction runs indirectly: through libraries that generate SQL, functions in a map, statements
//! prepared elsewhere, methods of other classes. Each must be found or reported as unknown; otherwise a transaction
//! that writes counts as read-only.

use crate::support::writes::each_that_writes_is_found;

#[test]
fn functions_in_a_map_that_get_a_connection() {
    each_that_writes_is_found(&[(
        "a.go",
        r#"package bank
var steps = []func(tx *sql.Tx, id int) error{
	func(tx *sql.Tx, id int) error {
		_, err := tx.Exec(`UPDATE account SET balance = balance - 10 WHERE id = $1`, id)
		return err
	},
}
func WritesBySteps(db *sql.DB, id int) error {
	tx, err := db.Begin()
	if err != nil { return err }
	var b int
	if err := tx.QueryRow(`SELECT owner FROM account WHERE id = $1`, id).Scan(&b); err != nil { return err }
	for i := range steps {
		if err := steps[i](tx, id); err != nil { return err }
	}
	return tx.Commit()
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.py",
        r#"
def take(cur, id):
    cur.execute("UPDATE account SET balance = balance - 1 WHERE id = %s", (id,))

OPS = {"take": take}

def writes_by_name(cur, name, id):
    cur.execute("SELECT owner FROM account WHERE id = %s", (id,))
    OPS[name](cur, id)

def writes_by_a_library(cur, id):
    cur.execute("SELECT owner FROM account WHERE id = %s", (id,))
    take_all(cur)

def reads_and_tells(cur, id):
    cur.execute("SELECT owner FROM account WHERE id = %s", (id,))
    log.info("read", cur)
    return dict(cur.fetchone())
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
async function take(c, id) { await c.query("UPDATE account SET balance = 0 WHERE id = $1", [id]); }
const handlers = { take };
export async function writesByKind(c: PoolClient, kind: string, id: number) {
    await c.query("SELECT owner FROM account WHERE id = $1", [id]);
    await handlers[kind](c, id);
}
export async function writesByIt(c, id: number) {
    await c.query("SELECT owner FROM account WHERE id = $1", [id]);
    await take(c, id);
}
export async function readsAlone(c, id: number) {
    await c.query("SELECT owner FROM account WHERE id = $1", [id]);
}
"#,
    )]);
}

#[test]
fn a_statement_prepared_elsewhere() {
    each_that_writes_is_found(&[(
        "a.go",
        r#"package bank
type Bank struct { take, look *sql.Stmt; db *sql.DB }
func Open(db *sql.DB) (*Bank, error) {
	b := &Bank{db: db}
	var err error
	b.take, err = db.Prepare("UPDATE account SET balance = balance - $1 WHERE id = $2")
	return b, err
}
func (b *Bank) WritesPlain(id int) error { _, err := b.take.Exec(1, id); return err }
func (b *Bank) WritesWithin(ctx context.Context, id int) error {
	tx, _ := b.db.BeginTx(ctx, nil)
	if _, err := tx.StmtContext(ctx, b.take).ExecContext(ctx, 1, id); err != nil { return err }
	return tx.Commit()
}
func (b *Bank) WritesLater(id int) error {
	tx, _ := b.db.Begin()
	st := tx.Stmt(b.take)
	var o int
	tx.QueryRow("SELECT owner FROM account WHERE id = $1", id).Scan(&o)
	st.Exec(1, id)
	return tx.Commit()
}
func WritesCopy(ctx context.Context, pool *pgxpool.Pool, rows [][]any) error {
	_, err := pool.CopyFrom(ctx, pgx.Identifier{"audit"}, []string{"id"}, pgx.CopyFromRows(rows))
	return err
}
func WritesBuilt(db *sql.DB, id int) error {
	_, err := squirrel.Update("account").Set("balance", 0).RunWith(db).Exec()
	return err
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "A.java",
        r#"class A {
    void writesFirst(Connection c, PreparedStatement[] all, int id) throws Exception {
        c.prepareStatement("SELECT owner FROM account WHERE id = " + id).executeQuery();
        all[0].executeUpdate();
    }
    String sql;
    String sql() { return sql; }
    static void writesOwn(Connection c, A a) throws Exception { c.createStatement().execute(a.sql()); }
    void writesRow(Connection c, int id) throws Exception {
        ResultSet r = c.prepareStatement("SELECT id, balance FROM account").executeQuery();
        r.updateRow();
    }
    int readsRow(Connection c, int id) throws Exception {
        ResultSet r = c.prepareStatement("SELECT id, balance FROM account").executeQuery();
        return r.getInt(1);
    }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
class Bank {
    private $take;
    function writesHeld($id) {
        $this->db->query("SELECT owner FROM account");
        $this->take->execute([$id]);
    }
    function readsHeld($id) { return $this->db->query("SELECT owner FROM account")->fetchAll(); }
}
"#,
    )]);
}

#[test]
fn sql_that_libraries_generate() {
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
export async function writesPrisma(id: number) {
    await prisma.$queryRaw`SELECT owner FROM account WHERE id = ${id}`;
    await prisma.account.update({ where: { id }, data: { balance: { decrement: 1 } } });
}
export async function writesInTx(id: number) {
    await prisma.$transaction(async (tx) => {
        await tx.$queryRaw`SELECT owner FROM account WHERE id = ${id}`;
        await tx.account.create({ data: { id } });
    });
}
export async function writesDeleted(id: number) {
    await prisma.$queryRaw`SELECT owner FROM account WHERE id = ${id}`;
    await prisma.account.delete({ where: { id } });
}
export async function writesKysely(trx, id: number) {
    await trx.updateTable('account').set({ balance: 0 }).where('id', '=', id).execute();
}
export async function writesKnex(id: number) {
    await knex.raw("SELECT owner FROM account");
    await knex('account').where({ id }).decrement('balance', 1);
}
export async function writesByManager(qr, id: number) {
    await qr.query("SELECT owner FROM account");
    await qr.manager.getRepository('account').decrement({ id }, 'balance', 1);
}
export async function writesItself(db, account) {
    await db.query("SELECT owner FROM account");
    await account.save();
}
export async function readsAndCounts(db, seen: Map<string, number>) {
    await db.query("SELECT owner FROM account");
    seen.delete("x");
    seen.set("y", 1);
    metrics.increment("reads");
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.py",
        r#"
def writes_added(db, id):
    db.execute("SELECT owner FROM account WHERE id = %s", (id,))
    db.add(Account(id=id))

def writes_found(s, id):
    s.execute("SELECT owner FROM account WHERE id = %s", (id,))
    s.query(Account).filter(Account.id == id).delete()

def writes_one(cur, a):
    cur.execute("SELECT owner FROM account")
    a.save()

def writes_all(cur, owner):
    cur.execute("SELECT owner FROM account")
    qs = Account.objects.filter(owner=owner)
    qs.delete()

def writes_set(cur, owner):
    cur.execute("SELECT owner FROM account")
    owner.account_set.create(id=1)

def writes_copied(cur, f):
    cur.execute("SELECT owner FROM account")
    cur.copy_from(f, "audit")

def reads_into(cur, found, names):
    cur.execute("SELECT owner FROM account")
    for row in cur.fetchall():
        names.add(row[0])
        found.update(row)
    return names
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
function writes_table($db, $id) {
    $db->query("SELECT owner FROM account");
    DB::table('account')->where('id', $id)->decrement('balance');
}
function writes_model($db, $id) {
    $db->query("SELECT owner FROM account");
    $a = Account::find($id);
    $a->save();
}
function writes_created($db, $id) {
    $db->query("SELECT owner FROM account");
    Account::create(['id' => $id]);
}
function reads_plain($db, $id) {
    $db->query("SELECT owner FROM account");
    return array_merge([], [$id]);
}
"#,
    )]);
}

#[test]
fn a_method_of_the_same_object_runs_in_its_transaction() {
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
class Bank {
    function take($id) { $this->db->exec("UPDATE account SET balance = balance - 1"); }
    function writes_all($id) {
        $this->db->beginTransaction();
        $this->db->query("SELECT owner FROM account");
        $this->take($id);
        $this->db->commit();
    }
    function reads_all($id) { $this->db->query("SELECT owner FROM account"); }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "Pub.java",
        r#"class Pub {
    private final Connection c;
    public void writesAndCommits() throws SQLException {
        c.prepareStatement("SELECT owner FROM account WHERE id = 1").executeQuery();
        pub();
        c.commit();
    }
    public void pub() throws SQLException { c.prepareStatement("UPDATE account SET balance = balance - 1 WHERE id = 1").executeUpdate(); }
    public void readsOnly() throws SQLException { c.prepareStatement("SELECT owner FROM account WHERE id = 1").executeQuery(); }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
export class A {
  async write() { await this.db.query('UPDATE account SET balance = balance - 1 WHERE id = 1'); }
  async writesOwn() { await this.db.query('BEGIN'); await this.db.query('SELECT owner FROM account WHERE id = 1'); await this.write(); await this.db.query('COMMIT'); }
}
export class B extends A {
  async writesInherited() { await this.db.query('BEGIN'); await this.db.query('SELECT owner FROM account WHERE id = 1'); await super.write(); await this.db.query('COMMIT'); }
}
"#,
    )]);
}

#[test]
fn an_object_made_from_a_connection_runs_on_it() {
    each_that_writes_is_found(&[(
        "u.ts",
        r#"
class Accounts {
  constructor(private readonly client: PoolClient) {}
  async readsBalance(id: number) { return (await this.client.query('SELECT balance FROM account WHERE id = $1', [id])).rows[0].balance; }
  async writesBalance(id: number, b: number) { await this.client.query('UPDATE account SET balance = $2 WHERE id = $1', [id, b]); }
}
export async function writesBoth(pool: Pool, id: number) {
  const client = await pool.connect();
  await client.query('BEGIN');
  const accounts = new Accounts(client);
  const b = await accounts.readsBalance(id);
  await accounts.writesBalance(id, b - 10);
  await client.query('COMMIT');
}
export async function writesByWhatItRunsOn(pool: Pool, kind: string) {
  const c = await pool.connect();
  await c.query('SELECT owner FROM account WHERE id = 1');
  await handlers[kind](c);
}
export async function writesElsewhere(pool: Pool, id: number) {
  const client = await pool.connect();
  await client.query('BEGIN');
  const other = new Others(client);
  await other.save(id);
  await client.query('COMMIT');
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "U.java",
        r#"class Accounts {
    private final Connection conn;
    Accounts(Connection conn) { this.conn = conn; }
    int readsOwner(int id) throws SQLException { return conn.prepareStatement("SELECT owner FROM account WHERE id = 1").executeQuery().getInt(1); }
    void set(int id) throws SQLException { conn.prepareStatement("UPDATE account SET balance = 1 WHERE id = 1").executeUpdate(); }
}
class Bank {
    void writesByObject(DataSource ds, int id) throws SQLException {
        try (Connection conn = ds.getConnection()) {
            Accounts accounts = new Accounts(conn);
            int b = accounts.readsOwner(id);
            accounts.set(id);
        }
    }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "q.go",
        r#"package db
const getOwner = "SELECT owner FROM account WHERE id = $1"
const setBalance = "UPDATE account SET balance = $2 WHERE id = $1"
type Queries struct { db DBTX }
func New(db DBTX) *Queries { return &Queries{db: db} }
func (q *Queries) WithTx(tx *sql.Tx) *Queries { return &Queries{db: tx} }
func (q *Queries) GetOwner(ctx context.Context, id int64) (int64, error) {
	row := q.db.QueryRowContext(ctx, getOwner, id)
	var o int64
	err := row.Scan(&o)
	return o, err
}
func (q *Queries) SetBalance(ctx context.Context, id, b int64) error {
	_, err := q.db.ExecContext(ctx, setBalance, id, b)
	return err
}
type Service struct { Queries *Queries; db *sql.DB }
func (s *Service) WritesWithTx(ctx context.Context, id int64) error {
	tx, err := s.db.Begin()
	if err != nil { return err }
	qtx := s.Queries.WithTx(tx)
	o, err := qtx.GetOwner(ctx, id)
	if err != nil { return err }
	if err := qtx.SetBalance(ctx, id, o); err != nil { return err }
	return tx.Commit()
}
func (s *Service) execTx(ctx context.Context, fn func(*Queries) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil { return err }
	if err := fn(New(tx)); err != nil { return err }
	return tx.Commit()
}
func (s *Service) WritesByFunction(ctx context.Context, id int64) error {
	return s.execTx(ctx, func(q *Queries) error {
		if _, err := q.GetOwner(ctx, id); err != nil { return err }
		return q.SetBalance(ctx, id, 1)
	})
}
"#,
    )]);
}

#[test]
fn functions_of_one_name() {
    each_that_writes_is_found(&[
        (
            "accounts.py",
            "def remove(cur, i):\n    cur.execute('UPDATE account SET balance = balance - 1 WHERE id = %s', (i,))\n",
        ),
        ("cache.py", "def remove(key):\n    pass\n"),
        (
            "main.py",
            "from accounts import remove
def writes_plain(cur, i):
    cur.execute('SELECT owner FROM account WHERE id = %s', (i,))
    remove(cur, i)
def writes_of(cur, i):
    cur.execute('SELECT owner FROM account WHERE id = %s', (i,))
    accounts.remove(cur, i)
",
        ),
    ]);
    each_that_writes_is_found(&[(
        "Over.java",
        r#"class Repo {
    private void put(Connection conn, int id) throws SQLException { conn.prepareStatement("SELECT owner FROM account WHERE id = 2").executeQuery(); }
    private void put(Connection conn, String id) throws SQLException { conn.prepareStatement("UPDATE account SET balance = balance - 1 WHERE id = 1").executeUpdate(); }
    public void writesOver(Connection conn, String id) throws SQLException {
        conn.prepareStatement("SELECT owner FROM account WHERE id = 1").executeQuery();
        put(conn, id);
    }
}
"#,
    )]);
}

#[test]
fn a_method_that_a_derived_class_overrides() {
    each_that_writes_is_found(&[(
        "D.java",
        r#"class D {
    String verb() { return "SELECT owner FROM account"; }
    void writesVerb(Connection c) throws SQLException { c.createStatement().execute(verb()); }
}
class E extends D { @Override String verb() { return "DELETE FROM account"; } }
class F { String verb() { return "SELECT owner FROM account"; }
    void readsVerb(Connection c) throws SQLException { c.createStatement().execute(verb()); } }
"#,
    )]);
    each_that_writes_is_found(&[(
        "d.py",
        "class Base:
    def writes_hooked(self, cur):
        cur.execute('SELECT owner FROM account')
        self._hook(cur)
    def _hook(self, cur):
        pass

class Taking(Base):
    def _hook(self, cur):
        cur.execute('UPDATE account SET balance = 0')
",
    )]);
}

#[test]
fn a_text_whose_table_is_not_known() {
    each_that_writes_is_found(&[(
        "t.ts",
        r#"
export async function writesTable(id: number) {
  await sql`SELECT owner FROM account WHERE id = ${id}`;
  await sql`UPDATE ${sql('account')} SET balance = balance - 1 WHERE id = ${id}`;
}
export async function writesNamed(db, t: string, id: number) {
  await db.query('SELECT owner FROM account');
  await db.query(`UPDATE ${t} SET balance = 0 WHERE id = $1`, [id]);
}
export async function readsOnly(id: number) {
  await sql`SELECT owner FROM account WHERE id = ${id}`;
}
"#,
    )]);
}

#[test]
fn a_helper_that_hands_on_its_text() {
    each_that_writes_is_found(&[(
        "one.ts",
        r#"
export class Db {
  constructor(private pool: Pool) {}
  async perform(text: string) { return this.pool.query(text); }
}
export class Svc {
  constructor(private db: Db) {}
  async writesUnknown(x: Plan) {
    await this.db.perform('SELECT owner FROM account WHERE id = 1');
    await this.db.perform(x.sql());
  }
  async readsKnown() { await this.db.perform('SELECT owner FROM account WHERE id = 1'); }
}
"#,
    )]);
}

#[test]
fn a_method_by_its_name() {
    each_that_writes_is_found(&[(
        "J.java",
        r#"class J {
    interface Step { void run(Connection c, int id) throws SQLException; }
    void inTx(Connection c, Step step) throws SQLException { step.run(c, 1); }
    void take(Connection c, int id) throws SQLException {
        c.prepareStatement("UPDATE account SET balance = 0 WHERE id = " + id).executeUpdate();
    }
    void look(Connection c, int id) throws SQLException {
        c.prepareStatement("SELECT owner FROM account WHERE id = " + id).executeQuery();
    }
    void writesHanded(Connection c) throws SQLException { look(c, 1); inTx(c, this::take); }
    void writesEither(Connection c, boolean t) throws SQLException {
        look(c, 1);
        Step f = t ? this::take : this::look;
        f.run(c, 1);
    }
    void writesEach(JdbcTemplate jdbc, List<String> texts) {
        jdbc.queryForList("SELECT owner FROM account");
        texts.stream().forEach(jdbc::execute);
    }
    void readsEach(JdbcTemplate jdbc, List<String> texts) {
        jdbc.queryForList("SELECT owner FROM account");
        texts.stream().map(String::trim).forEach(System.out::println);
    }
}
"#,
    )]);
}

#[test]
fn a_field_that_other_code_reassigns() {
    each_that_writes_is_found(&[(
        "K.java",
        r#"class K {
    public String q = "SELECT owner FROM account";
    String other = "SELECT owner FROM account";
    protected String low = "SELECT owner FROM account";
    void writesQ(Connection c) throws SQLException { c.createStatement().execute(q); }
    void writesLow(Connection c) throws SQLException { c.createStatement().execute(low); }
    void readsOther(Connection c) throws SQLException { c.createStatement().execute(other); }
}
class L { void change(K k) { k.q = "DELETE FROM account"; } }
class M extends K { void lower() { low = "DELETE FROM account"; } }
"#,
    )]);
}

#[test]
fn a_transaction_callback_gets_its_connection() {
    each_that_writes_is_found(&[(
        "h.ts",
        r#"
class Accounts {
  constructor(private readonly client) {}
  async setBalance(id: number) { await this.client.query('UPDATE account SET balance = 0 WHERE id = $1', [id]); }
}
export async function inTx(fn) {
  const client = await pool.connect();
  await client.query('BEGIN');
  await fn(new Accounts(client));
  await client.query('COMMIT');
}
export async function writesHanded(id: number) {
  await inTx(async (accounts) => { await accounts.setBalance(id); });
}
"#,
    )]);
}

#[test]
fn a_variable_is_no_method_of_the_same_name() {
    each_that_writes_is_found(&[(
        "V.java",
        r#"class V extends W {
    private void total(Connection c) throws SQLException { c.createStatement().execute("DELETE FROM account"); }
    void readsTotal(Connection c, List<Long> all) throws SQLException {
        c.createStatement().executeQuery("SELECT owner FROM account");
        all.add(total);
    }
    void writesTotal(Connection c) throws SQLException {
        c.createStatement().executeQuery("SELECT owner FROM account");
        total(c);
    }
}
"#,
    )]);
}

#[test]
fn names_match_by_words_and_not_by_prefixes() {
    each_that_writes_is_found(&[(
        "h.py",
        r#"
def writes_issued(cursor):
    cursor.execute("SELECT owner FROM account")
    issue_refund(cursor, 5)

def writes_logged(conn):
    conn.execute("SELECT owner FROM account")
    log_change(conn, 5)

def writes_beside(conn, on_done):
    conn.execute("SELECT owner FROM account")
    transfer(conn, 1, on_done)

def on_done():
    pass

def reads_and_gives_back(pool, conn):
    conn.execute("SELECT owner FROM account")
    pool.putconn(conn)
    is_closed(conn)

def reads_and_draws(cur, img):
    cur.execute("SELECT owner FROM account")
    img.save("account.png")
"#,
    )]);
    each_that_writes_is_found(&[(
        "h.ts",
        r#"
export async function writesModel(db) {
    await db.query("SELECT owner FROM account");
    await User.update({ a: 1 }, { where: { id: 1 } });
}
export async function readsForVisitors(db, req) {
    await db.query("SELECT owner FROM account");
    req.session.save();
    Object.create(null);
}
"#,
    )]);
}

#[test]
fn super_means_the_inherited_method() {
    each_that_writes_is_found(&[(
        "S.java",
        r#"class Sup0 { void sv(Connection conn) { conn.createStatement().executeUpdate("UPDATE account SET balance = 13"); } }
class Sub1 extends Sup0 {
    @Override void sv(Connection conn) { super.sv(conn); }
    void writesBySuper(Connection conn) { conn.createStatement().executeQuery("SELECT owner FROM account"); sv(conn); }
    void readsAlone(Connection conn) { conn.createStatement().executeQuery("SELECT owner FROM account"); }
}
"#,
    )]);
}

#[test]
fn own_methods_and_callbacks_of_functions_that_open_transactions() {
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
class Base {
  async look() { await this.db.query('SELECT owner FROM account WHERE id = 1'); }
}
class Derived extends Base {
  async look() { await this.db.query('UPDATE account SET balance = 0 WHERE id = 1'); }
  async readsInherited() { await this.db.query('BEGIN'); await super.look(); await this.db.query('COMMIT'); }
  async writesItsOwn() { await this.db.query('BEGIN'); await this.look(); await this.db.query('COMMIT'); }
}
export async function writesByWhatItIsHanded(db) {
  await db.transaction(async (w) => {
    await w.query('SELECT owner FROM account WHERE id = 1');
    await w.account.update({ balance: 0 });
  });
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "A.java",
        r#"
class A {
    DataSource ds; Connection conn;
    public void writesOnWhatItHasOpened(int i) throws SQLException {
        conn = ds.getConnection();
        conn.prepareStatement("SELECT owner FROM account WHERE id = 1").executeQuery();
        put(i);
    }
    public void put(int i) throws SQLException {
        conn.prepareStatement("UPDATE account SET balance = 0 WHERE id = 1").executeUpdate();
    }
}
"#,
    )]);
}
