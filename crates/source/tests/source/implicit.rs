//! Code that runs without a call by name, and SQL that libraries generate: each is found or reported as unknown.

use anabranch_sql::SourceFile;

use crate::support::analysed_files;
use crate::support::writes::each_that_writes_is_found;

#[test]
fn accessors_run_where_fields_are_read_and_written() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
class Account:
    def __init__(self, conn):
        self.conn = conn
    @property
    def fee(self):
        self.conn.execute("UPDATE account SET balance = balance - 1")
        return 1
    @cached_property
    def owner(self):
        return self.conn.execute("SELECT owner FROM account")
    @property
    def label(self):
        return "label"

class Loose:
    fee = 3

def writes_by_a_property(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = %s", (id,))
    return Account(conn).fee

def writes_by_what_is_kept(conn, id):
    account = Account(conn)
    conn.execute("SELECT owner FROM account WHERE id = %s", (id,))
    rate = account.fee

class Rated:
    def __init__(self, conn):
        self.account = Account(conn)
    def rate(self):
        return self.account.fee

class Flat(Rated):
    def rate(self):
        return self.account.conn.execute("SELECT owner FROM account")

def writes_by_one_of_several(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = %s", (id,))
    return Rated(conn).rate()

def reads_by_a_property(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = %s", (id,))
    return Account(conn).owner, Account(conn).label

@transaction.atomic
def reads_what_may_be_anything(conn, thing):
    conn.execute("SELECT owner FROM account WHERE id = %s", (thing.id,))
    return thing.fee

def reads_another_of_that_name(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = %s", (id,))
    return Loose().fee
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
export class Bank {
    #client: PoolClient;
    constructor(c: PoolClient) { this.#client = c; }
    get fee() { return this.#client.query("UPDATE account SET balance = balance - 1 WHERE id = $1", [1]); }
    set owed(v: number) { this.#client.query("UPDATE account SET balance = balance - $1", [v]); }
    get size() { return 1; }
    async writesByReading(i: number) {
        await this.#client.query("SELECT owner FROM account WHERE id = $1", [i]);
        await this.fee;
    }
    async writesByWriting(i: number) {
        await this.#client.query("SELECT owner FROM account WHERE id = $1", [i]);
        this.owed = i;
    }
    async readsItsSize(i: number) {
        await this.#client.query("SELECT owner FROM account WHERE id = $1", [i]);
        return this.size;
    }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
class Magic {
    private $pdo;
    function __construct(PDO $p) { $this->pdo = $p; }
    function __get($name) { return $this->pdo->exec("UPDATE account SET balance = balance - 1 WHERE id = 1"); }
}
class Plain { public $anything = 1; }
function writes_by_magic(PDO $pdo) {
    $pdo->query("SELECT owner FROM account WHERE id = 1");
    $m = new Magic($pdo);
    return $m->anything;
}
function reads_a_plain_one(PDO $pdo) {
    $pdo->query("SELECT owner FROM account WHERE id = 1");
    $m = new Plain();
    return $m->anything;
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.py",
        r#"
class Items:
    def __init__(self, conn):
        self.conn = conn
    def __getitem__(self, id):
        return self.conn.execute("UPDATE account SET balance = balance - 1 WHERE id = %s", (id,))
    def __call__(self, id):
        return self.conn.execute("UPDATE account SET balance = balance - 1 WHERE id = %s", (id,))

class Other:
    def __init__(self, conn):
        self.conn = conn
    def take(self, id):
        pass

def writes_by_an_element(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = %s", (id,))
    return Items(conn)[id]

def writes_by_a_call(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = %s", (id,))
    take = Items(conn)
    take(id)

def reads_an_element(conn, id):
    conn.execute("SELECT owner FROM account WHERE id = %s", (id,))
    return {1: 2}[id]
"#,
    )]);
}

#[test]
fn what_runs_at_the_end_of_a_block() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
class Unit:
    def __init__(self, conn):
        self._c = conn
    def __enter__(self):
        self._cur = self._c.cursor()
        return self._cur
    def __exit__(self, *a):
        self._cur.execute("UPDATE account SET balance = balance - 1 WHERE id = 1")

class Entering:
    def __init__(self, conn):
        self.conn = conn
    def __enter__(self):
        self.conn.execute("UPDATE account SET balance = balance - 1 WHERE id = 1")
        return self
    def __exit__(self, *a):
        self.conn.close()

class Quiet:
    def __init__(self, conn):
        self.conn = conn
    def __enter__(self):
        return self.conn
    def __exit__(self, *a):
        self.conn.close()

def writes_behind(conn, id):
    with Unit(conn) as cur:
        cur.execute("SELECT owner FROM account WHERE id = %s", (id,))

def writes_behind_a_return(conn, id):
    with Unit(conn) as cur:
        return cur.execute("SELECT owner FROM account WHERE id = %s", (id,))

def writes_before(conn, id):
    with Entering(conn):
        conn.execute("SELECT owner FROM account WHERE id = %s", (id,))

def reads_alone(conn, id):
    with Quiet(conn) as c, closing(conn.cursor()) as cur:
        c.execute("SELECT owner FROM account WHERE id = %s", (id,))
        cur.execute("SELECT owner FROM account WHERE id = %s", (id,))
"#,
    )]);
    each_that_writes_is_found(&[(
        "A.java",
        r#"
class A {
    public void writesByClosing(Connection c, int i) throws Exception {
        PreparedStatement r = c.prepareStatement("SELECT owner FROM account WHERE id = ?"); r.setInt(1, i); r.executeQuery();
        try (Closer x = new Closer(c)) { }
    }
    public void readsByClosing(Connection c, int i) throws Exception {
        try (PreparedStatement r = c.prepareStatement("SELECT owner FROM account WHERE id = ?")) {
            r.setInt(1, i);
            try (ResultSet rs = r.executeQuery()) { rs.next(); }
        }
    }
    @Transactional
    public void writesByMaking(JdbcTemplate jdbc, int i) {
        jdbc.queryForObject("SELECT owner FROM account WHERE id = ?", String.class, i);
        new ArrayList<Integer>() {{ jdbc.update("UPDATE account SET balance = balance - 1 WHERE id = ?", i); }};
    }
}
class Closer implements AutoCloseable {
    final Connection c;
    Closer(Connection c) { this.c = c; }
    public void close() throws Exception { c.createStatement().executeUpdate("UPDATE account SET balance = balance - 1 WHERE id = 1"); }
}
"#,
    )]);
}

#[test]
fn what_stands_around_a_function_and_behind_a_statement() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
def audited(f):
    def inner(conn, i):
        found = f(conn, i)
        conn.execute("UPDATE account SET balance = balance - 1 WHERE id = %s", (i,))
        return found
    return inner

def traced(f):
    def inner(*a):
        log.info("called", state.get("name"))
        return f(*a)
    return inner

@audited
def writes_by_its_decorator(conn, i):
    conn.execute("SELECT owner FROM account WHERE id = %s", (i,))

def writes_by_anothers(conn, i):
    conn.execute("SELECT owner FROM account WHERE id = %s", (i,))
    writes_by_its_decorator(conn, i)

@db_session
def writes_by_pony(conn, i):
    conn.execute("SELECT owner FROM account WHERE id = %s", (i,))
    account = Account[i]
    account.balance -= 1

@traced
def reads_and_is_traced(conn, i):
    conn.execute("SELECT owner FROM account WHERE id = %s", (i,))

def writes_on_a_thread(conn, i):
    conn.execute("SELECT owner FROM account WHERE id = %s", (i,))
    Thread(target=conn.execute, args=("UPDATE account SET balance = balance - 1 WHERE id = %s", (i,))).start()

def writes_by_mapping(conn):
    conn.execute("SELECT owner FROM account")
    list(map(conn.execute, ["UPDATE account SET balance = balance - 1 WHERE id = 1"]))

def pay(i):
    pass

class Elsewhere:
    def debit(self):
        return 1

def writes_by_a_library(conn, i):
    conn.execute("SELECT owner FROM account WHERE id = %s", (i,))
    queries.debit(conn, id=i)

def writes_by_what_is_imported(conn, i):
    conn.execute("SELECT owner FROM account WHERE id = %s", (i,))
    debit(conn)

def writes_by_a_choice(conn, i, what):
    conn.execute("SELECT owner FROM account WHERE id = %s", (i,))
    actions = {"pay": lambda: conn.execute("UPDATE account SET balance = balance - 1 WHERE id = %s", (i,))}
    actions[what]()
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
const handlers: Record<string, (i: number) => Promise<any>> = {
    pay: async (i) => pool.query("UPDATE account SET balance = balance - 1 WHERE id = $1", [i]),
};
// Each statement on the pool is a transaction of its own: pay() is one.
export async function readsBesideAPayment(i: number, what: string) {
    await pool.query("SELECT owner FROM account WHERE id = $1", [i]);
    await handlers[what](i);
}
export async function writesInACallback(i: number, done: any) {
    const client = await pool.connect();
    client.query('BEGIN', (e) => {
        client.query("SELECT owner FROM account WHERE id = $1", [i], (e1, r) => {
            client.query("UPDATE account SET balance = balance - 1 WHERE id = $1", [i], (e2) => {
                client.query('COMMIT', done);
            });
        });
    });
}
export function readsInACallback(client: PoolClient, i: number, done: any) {
    client.query("SELECT owner FROM account WHERE id = $1", [i], (e, r) => done(r.rows[0]));
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.go",
        r#"package bank
func WritesAgain(db *sql.DB, id int64) {
	q := "SELECT owner FROM account WHERE id = $1"
again:
	db.QueryRow(q, id)
	if q != "" {
		q = "UPDATE account SET balance = balance - 1 WHERE id = $1"
		goto again
	}
}
"#,
    )]);
}

#[test]
fn variables_that_other_code_changes() {
    each_that_writes_is_found(&[
        (
            "a.php",
            r#"<?php
function writes_by_reference(PDO $pdo) {
    $q = "SELECT owner FROM account WHERE id = 1";
    change($q);
    $pdo->query($q);
}
function change(&$q) { $q = "UPDATE account SET balance = balance - 1 WHERE id = 1"; }
function keep($q) { $q = "UPDATE account SET balance = balance - 1 WHERE id = 1"; }
function writes_by_an_alias(PDO $pdo) {
    $q = "SELECT owner FROM account WHERE id = 1";
    $r = &$q;
    $r = "UPDATE account SET balance = balance - 1 WHERE id = 1";
    $pdo->query($q);
}
function writes_what_is_extracted(PDO $pdo, $o) {
    $q = "SELECT owner FROM account WHERE id = 1";
    extract($o);
    $pdo->query($q);
}
function writes_by_any_name(PDO $pdo, $n, $text) {
    $q = "SELECT owner FROM account WHERE id = 1";
    $$n = $text;
    $pdo->query($q);
}
function writes_by_source(PDO $pdo, $code) {
    $pdo->query("SELECT owner FROM account WHERE id = 1");
    eval($code);
}
function writes_by_a_file(PDO $pdo) {
    $pdo->query("SELECT owner FROM account WHERE id = 1");
    include 'pay.php';
}
function writes_by_some_file(PDO $pdo, $file) {
    $pdo->query("SELECT owner FROM account WHERE id = 1");
    include $file;
}
function reads_by_value(PDO $pdo) {
    $q = "SELECT owner FROM account WHERE id = 1";
    keep($q);
    $pdo->query($q);
}
function reads_a_library(PDO $pdo) {
    require_once __DIR__ . '/vendor/autoload.php';
    include 'names.php';
    $pdo->query("SELECT owner FROM account WHERE id = 1");
}
"#,
        ),
        (
            "pay.php",
            r#"<?php $pdo->exec("UPDATE account SET balance = balance - 1 WHERE id = 1");"#,
        ),
        ("names.php", r#"<?php $names = ['a', 'b'];"#),
    ]);
}

#[test]
fn writes_by_library_specific_names() {
    each_that_writes_is_found(&[(
        "A.java",
        r#"
class Account { }
interface AccountMapper {
    @Update("UPDATE account SET balance = balance - 1 WHERE id = #{id}")
    int pay(int id);
    int payElsewhere(int id);
    Account getAccount(int id);
}
interface AccountJpa extends JpaRepository<Account, Integer> {
    void deleteByOwner(String owner);
}
class A {
    EntityManager em; JdbcTemplate jdbc; DSLContext dsl; AccountMapper mapper; AccountJpa jpa;
    static final String READ = "SELECT owner FROM account WHERE id = ?";
    @Transactional
    public void writesByChanging(int i) {
        em.createNativeQuery(READ).setParameter(1, i).getSingleResult();
        Account a = em.find(Account.class, i);
        a.setBalance(a.getBalance() - 1);
    }
    @Transactional
    public void writesARecord(int i) {
        dsl.fetch(READ, i);
        var r = dsl.fetchOne(ACCOUNT, ACCOUNT.ID.eq(i));
        r.setBalance(0);
        r.store();
    }
    @Transactional
    public void writesByAnnotation(int i) {
        jdbc.queryForObject(READ, String.class, i);
        mapper.pay(i);
    }
    @Transactional
    public void writesElsewhere(int i) {
        jdbc.queryForObject(READ, String.class, i);
        mapper.payElsewhere(i);
    }
    @Transactional
    public void writesByItsName(String n) {
        jdbc.queryForObject(READ, String.class, 1);
        jpa.deleteByOwner(n);
    }
    public void writesByItsClass(int i) {
        jdbc.queryForObject(READ, String.class, i);
        AccountRecord.update("balance = balance - 1 where id = ?1", i);
    }
    public void writesByReflection(int i) throws Exception {
        jdbc.queryForObject(READ, String.class, i);
        A.class.getMethod("pay", int.class).invoke(this, i);
    }
    public void writesByAnEvent(ApplicationEventPublisher p, int i) {
        jdbc.queryForObject(READ, String.class, i);
        p.publishEvent(new Paid(i));
    }
    @EventListener
    public void onPaid(Paid p) { jdbc.update("UPDATE account SET balance = balance - 1 WHERE id = ?", p.i()); }
    record Paid(int i) {}
    @Transactional
    public void readsByAMapper(int i) {
        jdbc.queryForObject(READ, String.class, i);
        mapper.getAccount(i);
    }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
function writes_by_columns($c, $i) {
    pg_query($c, "SELECT owner FROM account WHERE id = 1");
    pg_update($c, 'account', ['balance' => 0], ['id' => $i]);
}
function writes_copies($c, $rows) {
    pg_query($c, "SELECT owner FROM account WHERE id = 1");
    pg_copy_from($c, 'account', $rows);
}
function writes_beans($i) {
    R::getCell('SELECT owner FROM account WHERE id = ?', [$i]);
    $a = R::load('account', $i);
    $a->balance = 0;
    R::store($a);
}
function writes_by_itself($db) {
    $db->GetOne("SELECT owner FROM account WHERE id = 1");
    $db->AutoExecute("account", ['balance' => 0], 'UPDATE', 'id = 1');
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
const dz = drizzle(pool);
const supabase = createClient('a', 'b');
const READ = "SELECT owner FROM account WHERE id = $1";
export async function writesByDrizzle(i: number) {
    await pool.query(READ, [i]);
    await dz.update(account).set({ balance: 0 });
}
export async function writesBySupabase(i: number) {
    await pool.query(READ, [i]);
    await supabase.from('account').update({ balance: 0 }).eq('id', i);
}
export async function writesByKnex(i: number) {
    await pool.query(READ, [i]);
    await knex.table('account').where({ id: i }).del();
}
export async function writesByObjection(i: number) {
    await pool.query(READ, [i]);
    await AccountModel.query().findById(i).patch({ balance: 0 });
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.go",
        r#"package bank
func WritesByXorm(e *xorm.Engine, a *Account) {
	e.QueryString("SELECT owner FROM account WHERE id = 1")
	e.ID(a.ID).Cols("balance").Update(a)
}
func WritesByGen(db *sql.DB, id int64) {
	db.QueryRow("SELECT owner FROM account WHERE id = $1", id)
	query.Account.Where(query.Account.ID.Eq(id)).Update(query.Account.Balance, 0)
}
func ReadsAndRenders(db *sql.DB, id int64) {
	db.QueryRow("SELECT owner FROM account WHERE id = $1", id)
	tpl := template.New("a").Funcs(funcs)
	tpl.ExecuteTemplate(w, "a", id)
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.py",
        r#"
def writes_by_pandas(engine, frame):
    with engine.connect() as c:
        c.execute("SELECT owner FROM account WHERE id = 1")
    frame.to_sql("account", engine, if_exists="append")
"#,
    )]);
}

/// Variables of a script behave like those of a function.
#[test]
fn script_variables_that_other_code_changes() {
    let told = |line: &str| {
        let text = format!(
            "<?php\n$q = 'SELECT owner FROM account WHERE id = 1';\n{line}\n$pdo->query($q);\n"
        );
        let sql = vec![SourceFile::new(
            "schema.sql",
            "CREATE TABLE account (id bigint PRIMARY KEY, owner bigint);",
        )];
        let (program, _) = analysed_files(sql, vec![SourceFile::new("a.php", text)]);
        crate::support::told(&program)
    };
    assert!(!told("").contains('!'), "{}", told(""));
    for line in [
        "extract($_GET);",
        "$r = &$q; $r = $_GET['q'];",
        "$$n = $_GET['q'];",
    ] {
        let found = told(line);
        assert!(
            found.contains("the SQL that pdo.query() runs is not known"),
            "{found}"
        );
    }
}
