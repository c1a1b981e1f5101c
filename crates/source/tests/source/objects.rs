//! Objects that keep a connection and run SQL on it: calls of their methods belong to the caller's transaction.

use crate::support::writes::each_that_writes_is_found;

#[test]
fn an_object_constructed_with_a_connection() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
class Repo:
    def __init__(self, conn):
        self.conn = conn
    def put(self, i):
        self.conn.execute("UPDATE account SET balance = balance - 1 WHERE id = ?", (i,))
    def look(self, i):
        return self.conn.execute("SELECT owner FROM account WHERE id = ?", (i,)).fetchone()

class Service:
    def __init__(self, conn):
        self.repo = Repo(conn)
        self.names = []
    def writes_by_it(self, i):
        self.repo.look(i)
        self.repo.put(i)
    @property
    def other(self):
        return Repo(self.conn)
    def writes_by_a_property(self, i):
        self.repo.look(i)
        self.other.put(i)
    def reads_by_it(self, i):
        self.names.append(i)
        return self.repo.look(i)
"#,
    )]);
    each_that_writes_is_found(&[(
        "A.java",
        r#"class Accounts {
    private final Connection c;
    Accounts(Connection c) { this.c = c; }
    public int readsOwner(int id) throws SQLException { return c.prepareStatement("SELECT owner FROM account WHERE id = 1").executeQuery().getInt(1); }
    public void put(int id) throws SQLException { c.prepareStatement("UPDATE account SET balance = 1 WHERE id = 1").executeUpdate(); }
}
class Cache { public void put(int id) { } }
class Bank {
    private final Accounts accounts;
    private final Cache cache = new Cache();
    Bank(Connection c) { accounts = new Accounts(c); }
    public void writesThere(int id) throws SQLException { accounts.readsOwner(id); accounts.put(id); }
    public void readsThere(int id) throws SQLException { accounts.readsOwner(id); cache.put(id); }
}
record All(Accounts accounts) {}
class Till {
    void writesOfARecord(Connection c, All all, int id) throws SQLException { c.prepareStatement("SELECT owner FROM account").executeQuery(); all.accounts().put(id); }
    void writesIfThere(Connection c, Optional<Accounts> it, int id) throws SQLException { c.prepareStatement("SELECT owner FROM account").executeQuery(); it.ifPresent(one -> one.put(id)); }
    void writesTheFirst(Connection c, List<Accounts> all, int id) throws SQLException { c.prepareStatement("SELECT owner FROM account").executeQuery(); all.get(0).put(id); }
    void readsIfThere(Connection c, Optional<Cache> it, int id) throws SQLException { c.prepareStatement("SELECT owner FROM account").executeQuery(); it.ifPresent(one -> one.put(id)); }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
class Accounts {
    public function __construct(private PDO $pdo) {}
    public function put($id) { $this->pdo->exec("UPDATE account SET balance = 0"); }
    public function look($id) { return $this->pdo->query("SELECT owner FROM account")->fetchAll(); }
}
class Bank {
    public function __construct(private PDO $pdo, private Accounts $accounts) {}
    public function writesThere($id) {
        $this->pdo->beginTransaction();
        $this->accounts->look($id);
        $this->accounts->put($id);
        $this->pdo->commit();
    }
    public function readsThere($id) {
        $this->pdo->beginTransaction();
        $this->accounts->look($id);
        $this->pdo->commit();
    }
}
"#,
    )]);
}

#[test]
fn an_object_passed_through_lists_choices_and_setters() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
import functools

class Repo:
    def __init__(self, conn):
        self.conn = conn
    def put(self, i):
        self.conn.execute("UPDATE account SET balance = balance - 1 WHERE id = ?", (i,))
    def look(self, i):
        return self.conn.execute("SELECT owner FROM account WHERE id = ?", (i,)).fetchone()

class Other:
    def put(self, i):
        return i

def writes_in_turn(conn, i):
    conn.execute("SELECT owner FROM account")
    for repo in [Repo(conn), Repo(conn)]:
        repo.put(i)

def writes_the_one_or_the_other(conn, given, i):
    conn.execute("SELECT owner FROM account")
    it = given or Repo(conn)
    it.put(i)

def writes_maybe(conn, i):
    conn.execute("SELECT owner FROM account")
    it = Repo(conn) if i else None
    it.put(i)

def writes_by_its_name(conn, i):
    conn.execute("SELECT owner FROM account")
    repo = Repo(conn)
    getattr(repo, "put")(i)

def writes_partly_bound(conn, i):
    conn.execute("SELECT owner FROM account")
    repo = Repo(conn)
    f = functools.partial(repo.put, i)
    f()

def writes_bound(conn, i):
    conn.execute("SELECT owner FROM account")
    f = Repo(conn).put
    f(i)

def writes_out_of_a_map(conn, kind, i):
    conn.execute("SELECT owner FROM account")
    made = {"put": Repo(conn).put}
    made[kind](i)

def reads_in_turn(conn, i):
    conn.execute("SELECT owner FROM account")
    for repo in [Repo(conn), Repo(conn)]:
        repo.look(i)

def reads_beside(conn, i):
    conn.execute("SELECT owner FROM account")
    other = Other()
    other.put(i)
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
class Accounts {
  private client: any;
  setConnection(client) { this.client = client; }
  async look(id: number) { return this.client.query('SELECT owner FROM account WHERE id = $1', [id]); }
  async take(id: number) { await this.client.query('UPDATE account SET balance = 0 WHERE id = $1', [id]); }
}
export async function writesAfterwards(client: PoolClient, id: number) {
  await client.query('SELECT owner FROM account');
  const accounts = new Accounts();
  accounts.setConnection(client);
  await accounts.take(id);
}
export async function writesIfAsked(client: PoolClient, flag: boolean, id: number) {
  await client.query('SELECT owner FROM account');
  const it = flag ? new Accounts() : null;
  it?.setConnection(client);
  await it?.take(id);
}
export async function writesOneOfTwo(client: PoolClient, flag: boolean) {
  await client.query('SELECT owner FROM account');
  const run = flag ? () => client.query('UPDATE account SET balance = 0') : () => client.query('SELECT 1 FROM account');
  await run();
}
export async function readsAfterwards(client: PoolClient, id: number) {
  const accounts = new Accounts();
  accounts.setConnection(client);
  await accounts.look(id);
}
"#,
    )]);
}

#[test]
fn an_object_passed_to_an_untyped_parameter() {
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
class Accounts {
  constructor(private client: PoolClient) {}
  async look(id: number) { return this.client.query('SELECT owner FROM account WHERE id = $1', [id]); }
  async take(id: number) { await this.client.query('UPDATE account SET balance = 0 WHERE id = $1', [id]); }
}
class Cache {
  take(id: number) { return id; }
}
async function settle(it, id) { await it.take(id); }
async function peek(it, id) { await it.look(id); }
export async function writesByHelper(client: PoolClient, id: number) {
  await client.query('SELECT owner FROM account');
  await settle(new Accounts(client), id);
}
export async function readsByHelper(client: PoolClient, id: number) {
  await client.query('SELECT owner FROM account');
  await peek(new Accounts(client), id);
}
"#,
    )]);
}

#[test]
fn a_constructor_that_runs_something_itself() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
class Transfer:
    def __init__(self, conn, i):
        conn.execute("UPDATE account SET balance = 0 WHERE id = ?", (i,))

class Look:
    def __init__(self, conn, i):
        self.found = conn.execute("SELECT owner FROM account WHERE id = ?", (i,)).fetchone()

def writes_by_making(conn, i):
    conn.execute("SELECT owner FROM account")
    Transfer(conn, i)

def reads_by_making(conn, i):
    conn.execute("SELECT owner FROM account")
    return Look(conn, i).found
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
class Transfer {
  constructor(private client: PoolClient, id: number) { client.query('UPDATE account SET balance = 0 WHERE id = $1', [id]); }
}
export async function writesByMaking(client: PoolClient, id: number) {
  await client.query('SELECT owner FROM account');
  new Transfer(client, id);
}
export async function readsByMaking(client: PoolClient, id: number) {
  await client.query('SELECT owner FROM account');
  return new Map();
}
"#,
    )]);
}

#[test]
fn an_object_of_go_that_is_written_out() {
    each_that_writes_is_found(&[(
        "a.go",
        r#"package bank
type Accounts struct { tx *sql.Tx }
type Cache struct { names map[int]string }
func (a *Accounts) Look(id int) error { return a.tx.QueryRow("SELECT owner FROM account WHERE id = $1", id).Scan(&id) }
func (a *Accounts) Put(id int) error { _, err := a.tx.Exec("UPDATE account SET balance = 0 WHERE id = $1", id); return err }
func (c *Cache) Put(id int) error { c.names[id] = ""; return nil }
func WritesOut(tx *sql.Tx, id int) error {
	a := &Accounts{tx: tx}
	if err := a.Look(id); err != nil { return err }
	return a.Put(id)
}
func ReadsOut(tx *sql.Tx, id int) error {
	a := &Accounts{tx: tx}
	c := &Cache{}
	c.Put(id)
	return a.Look(id)
}
type Service struct { accounts *Accounts; cache *Cache }
func (s *Service) WritesKept(id int) error {
	if err := s.accounts.Look(id); err != nil { return err }
	return s.accounts.Put(id)
}
func (s *Service) ReadsKept(id int) error {
	s.cache.Put(id)
	return s.accounts.Look(id)
}
"#,
    )]);
}

#[test]
fn an_object_from_a_context() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
class Queries:
    driver: Driver
    async def install(self):
        await self.driver.execute("UPDATE account SET balance = 0")
    async def look(self):
        return await self.driver.fetch("SELECT owner FROM account")

class Cli:
    async def install(self):
        pass

@asynccontextmanager
async def queries() -> AsyncGenerator[Queries]:
    yield Queries(await connect())

async def writes_in_it():
    async with queries() as q:
        await q.look()
        await q.install()

async def reads_in_it():
    async with queries() as q:
        await q.look()
"#,
    )]);
}

#[test]
fn a_connection_nested_in_an_argument() {
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
export async function writesWithin(client: PoolClient, id: number) {
  await client.query('SELECT owner FROM account');
  await doIt({ client, id });
}
export async function writesNamedWithin(client: PoolClient, id: number) {
  await client.query('SELECT owner FROM account');
  await doIt({ by: { using: client }, id });
}
export async function readsWithout(client: PoolClient, id: number) {
  const found = await client.query('SELECT owner FROM account');
  return render({ found, id });
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.py",
        r#"
class Repo:
    def __init__(self, conn):
        self.conn = conn
    def put(self, i):
        self.conn.execute("UPDATE account SET balance = balance - 1 WHERE id = ?", (i,))

def writes_spread(conn, i):
    conn.execute("SELECT owner FROM account")
    do_it(*[conn, i])

def writes_by_a_job(conn, i):
    conn.execute("SELECT owner FROM account")
    TransferJob(conn).go(i)

def writes_by_a_job_of_its_own(conn, i):
    conn.execute("SELECT owner FROM account")
    job = TransferJob(conn, i)
    job.go()

def writes_by_who_has_it(conn, i):
    conn.execute("SELECT owner FROM account")
    repo = Repo(conn)
    settle_all(repo, i)

def reads_by_a_cursor(conn, i):
    cur = DictCursor(conn)
    cur.execute("SELECT owner FROM account")
    return cur.fetchone()
"#,
    )]);
}

#[test]
fn what_runs_in_a_transaction_that_is_declared() {
    each_that_writes_is_found(&[(
        "Bank.java",
        r#"interface Accounts { int look(int id); void put(int id); }
class JdbcAccounts implements Accounts {
    private final JdbcTemplate jdbc;
    JdbcAccounts(JdbcTemplate jdbc) { this.jdbc = jdbc; }
    @Override public int look(int id) { return jdbc.queryForObject("SELECT owner FROM account WHERE id = ?", Integer.class, id); }
    @Override public void put(int id) { jdbc.update("UPDATE account SET balance = 0 WHERE id = ?", id); }
}
class Bank {
    private final Accounts accounts;
    private final List<Integer> seen = new ArrayList<>();
    Bank(Accounts accounts) { this.accounts = accounts; }
    @Transactional
    public void writesDeclared(int id) { accounts.look(id); accounts.put(id); }
    @Transactional
    public int readsDeclared(int id) { seen.add(id); return accounts.look(id); }
}
@Transactional
class Shop {
    private Accounts accounts;
    public void writesByClass(int id) { accounts.look(id); accounts.put(id); }
}
class Till {
    private Accounts accounts;
    private TransactionTemplate transactions;
    public void writesByTemplate(int id) {
        transactions.executeWithoutResult(status -> { accounts.look(id); accounts.put(id); });
    }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.py",
        r#"
def put(i):
    connection.execute("UPDATE account SET balance = 0 WHERE id = %s", (i,))

def look(i):
    return connection.execute("SELECT owner FROM account WHERE id = %s", (i,))

@transaction.atomic
def writes_declared(i):
    look(i)
    put(i)

def writes_within(i):
    with transaction.atomic():
        look(i)
        put(i)

def writes_entered(i):
    with connection:
        look(i)
        put(i)

@transaction.atomic
def reads_declared(i):
    return look(i)

class Bank:
    def put(self, i):
        self.conn.execute("UPDATE account SET balance = 0 WHERE id = ?", (i,))
    def look(self, i):
        return self.conn.execute("SELECT owner FROM account WHERE id = ?", (i,))
    def writes_with_it(self, i):
        with self.conn:
            self.look(i)
            self.put(i)
"#,
    )]);
}

#[test]
fn methods_with_their_sql_as_argument() {
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
trait Writing {
    public function put($id) { $this->db->exec("UPDATE account SET balance = 0"); }
}
class Bank {
    use Writing { put as protected putAway; }
    public function look($id) { return $this->db->query("SELECT owner FROM account"); }
    public function writesAliased($id) {
        $this->db->beginTransaction();
        $this->db->query("SELECT owner FROM account");
        $this->putAway($id);
        $this->db->commit();
    }
    public function writesByText($id) {
        $this->db->beginTransaction();
        $this->db->query("SELECT owner FROM account");
        call_user_func('take_all', $id);
        $this->db->commit();
    }
    public function writesCalledBack($id) {
        $this->db->query("SELECT owner FROM account");
        call_user_func([$this, 'put'], $id);
    }
    public function writesEach($ids) {
        $this->db->query("SELECT owner FROM account");
        array_map([$this, 'put'], $ids);
    }
    public function writesByVariable($id, $how) {
        $this->db->query("SELECT owner FROM account");
        $this->$how($id);
    }
    public function readsCalledBack($id) {
        call_user_func([$this, 'look'], $id);
        call_user_func('trim', $id);
    }
}
function take_all($db) { $db->exec("UPDATE account SET balance = 0"); }
class Proxy {
    public function __call($name, $arguments) { $this->db->exec("UPDATE account SET balance = 0"); }
    public function writesProxied($id) {
        $this->db->beginTransaction();
        $this->db->query("SELECT owner FROM account");
        $this->anything($id);
        $this->db->commit();
    }
}
"#,
    )]);
}

#[test]
fn what_only_looks_like_a_write() {
    each_that_writes_is_found(&[(
        "a.go",
        r#"package bank
func ReadsAndCaches(ctx context.Context, tx *sql.Tx, rdb *redis.Client, id int) error {
	pipe := rdb.Pipeline()
	pipe.Incr(ctx, "reads")
	pipe.Exec(ctx)
	return tx.QueryRow("SELECT owner FROM account WHERE id = $1", id).Scan(&id)
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.py",
        r#"
def reads_and_counts(cur, limiter, es):
    cur.execute("SELECT owner FROM account")
    limiter.increment()
    es.update(index="account")

def reads_lines(db):
    return db.execute(["SELECT owner FROM account", " WHERE id = 1"])

def writes_lines(db):
    db.execute(["UPDATE account SET balance = 0", " WHERE id = 1"])
"#,
    )]);
}
