//! Hostile statements: what the tests of SQL send, with mistakes in it, to a server that runs. The same seed gives the same
//! bytes. The server has to answer each message to its end, as a client may expect it, and to live on.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anabranch_server::service::Guarantee;
use anabranch_types::SplitMix64;

use crate::support::{PROCEDURES, SHOP, options, start_with};

/// How long an answer may take. The server ends a statement after [`STATEMENT_MS`].
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long a statement may take, in milliseconds.
const STATEMENT_MS: u64 = 500;

/// How many inputs a connection gets.
const INPUTS_OF_A_CONNECTION: u64 = 50;

/// How many inputs a server gets: what they create stays.
const INPUTS_OF_A_SERVER: u64 = 5_000;

/// What the tests of SQL send. Lines that begin with `> ` are statements; in the first text all are, behind a mark.
const SCHEMA: &str = include_str!("../../../sql/tests/sql/client/schema.sql");
const STATEMENTS: &str = include_str!("../../../bench/tests/bench/clients/statements.txt");
const TRANSCRIPTS: [&str; 9] = [
    include_str!("../../../sql/tests/sql/functions.txt"),
    include_str!("../../../sql/tests/sql/joins.txt"),
    include_str!("../../../sql/tests/sql/json.txt"),
    include_str!("../../../sql/tests/sql/window.txt"),
    include_str!("../../../sql/tests/sql/recursive.txt"),
    include_str!("../../../sql/tests/sql/enums.txt"),
    include_str!("../../../sql/tests/sql/client/statements.txt"),
    include_str!("../../../sql/tests/sql/client/control.txt"),
    include_str!("../../../sql/tests/sql/client/settings.txt"),
];

/// Statements over the shop's tables, and such as change what there is.
const OWN: &[&str] = &[
    "INSERT INTO items VALUES (1, 'a', 10), (2, 'b', 20) ON CONFLICT (id) DO UPDATE SET stock = items.stock + excluded.stock RETURNING *",
    "INSERT INTO sales (item, quantity) SELECT id, stock FROM items WHERE stock > 0 RETURNING id",
    "UPDATE items SET stock = stock - 1, name = name || 'x' WHERE id = $1 RETURNING id, stock",
    "UPDATE items i SET stock = s.quantity FROM sales s WHERE s.item = i.id AND s.id < $1",
    "DELETE FROM sales WHERE item IN (SELECT id FROM items WHERE stock < $1) RETURNING *",
    "MERGE INTO items t USING sales s ON t.id = s.item WHEN MATCHED THEN UPDATE SET stock = s.quantity WHEN NOT MATCHED THEN DO NOTHING",
    "SELECT * FROM items i LEFT JOIN sales s ON s.item = i.id WHERE i.stock BETWEEN 1 AND 5 ORDER BY 1, 2 DESC LIMIT 3 OFFSET 1",
    "SELECT name, count(*), sum(stock) FILTER (WHERE id > 1) FROM items GROUP BY ROLLUP (name) HAVING count(*) > 0",
    "CREATE TABLE t (a integer PRIMARY KEY, b text DEFAULT 'x' CHECK (length(b) < 9), c numeric(9, 2)[], UNIQUE (b, a))",
    "ALTER TABLE items ADD COLUMN more jsonb DEFAULT '{}', ALTER COLUMN name TYPE varchar(20), DROP CONSTRAINT stock_is_positive",
    "CREATE INDEX by_stock ON items (stock, name)",
    "CREATE UNIQUE INDEX by_lower ON items (lower(name), (stock + 1)) WHERE stock > 0 AND name <> 'x'",
    "INSERT INTO items VALUES (4, 'D', 1) ON CONFLICT (lower(name), (stock + 1)) WHERE stock > 0 AND name <> 'x' DO UPDATE SET name = 'e'",
    "CREATE TABLE g (a integer PRIMARY KEY, b text, c text GENERATED ALWAYS AS (lower(b) || a) STORED UNIQUE)",
    "ALTER TABLE items ADD COLUMN low text GENERATED ALWAYS AS (lower(name)) STORED NOT NULL, ALTER COLUMN low DROP EXPRESSION",
    "CREATE VIEW v AS SELECT id, stock * 2 AS twice FROM items WHERE name LIKE 'a%'",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE FUNCTION f(n integer) RETURNS integer LANGUAGE plpgsql AS $$ DECLARE s integer := 0; BEGIN FOR i IN 1..n LOOP s := s + i; END LOOP; RETURN s; EXCEPTION WHEN OTHERS THEN RETURN -1; END $$",
    "DO $$ BEGIN IF (SELECT count(*) FROM items) > 1 THEN RAISE EXCEPTION 'no %', 1; END IF; END $$",
    "DROP TABLE IF EXISTS t, sales CASCADE",
    "TRUNCATE items CASCADE",
    "BEGIN ISOLATION LEVEL SERIALIZABLE; SAVEPOINT s; INSERT INTO items VALUES (9, 'z', 1); ROLLBACK TO s; COMMIT",
    "DECLARE c CURSOR FOR SELECT * FROM items; FETCH 2 FROM c; MOVE 1 IN c; CLOSE c",
    "PREPARE p (integer) AS SELECT * FROM items WHERE id = $1; EXECUTE p (1); DEALLOCATE p",
    "EXPLAIN ANALYZE SELECT * FROM items JOIN sales ON item = items.id",
    "EXPLAIN COORDINATION UPDATE items SET stock = stock + 1 WHERE id = 3",
    "SELECT pg_advisory_xact_lock(7), nextval('sales_id_seq'), currval('sales_id_seq')",
    "SELECT sell(1, 2); CALL restock(1, 5); SELECT * FROM sell(1, 3)",
    "COPY items TO STDOUT (FORMAT csv, HEADER)",
    "SELECT json_agg(i), array_agg(stock ORDER BY id), string_agg(name, ',') FROM items i",
    "SELECT count(gen_random_uuid()), random() > 2 FROM items WHERE random() < 0.5 GROUP BY random() < 1 HAVING random() < 1 LIMIT (random() * 3)::int",
    "INSERT INTO items VALUES (5, 'e', 1) ON CONFLICT (id) DO UPDATE SET name = gen_random_uuid()::text WHERE random() < 1 RETURNING random()",
];

/// A type that `client/schema.sql` has, too.
const MOOD: &str = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');";

/// Tables that the statements name, beside the shop's and those of `client/schema.sql`.
const TABLES: &str = "
CREATE TABLE t (id integer PRIMARY KEY, m mood, ms mood[], n integer, i smallint, f double precision, s text, a text, b integer);
CREATE TABLE ta (id integer PRIMARY KEY, v integer, k integer);
CREATE TABLE tb (id integer PRIMARY KEY, w text, k integer);
CREATE TABLE tc (id integer PRIMARY KEY, z integer);
CREATE TABLE sale (id integer PRIMARY KEY, shop integer, day date, amount numeric(9, 2));
CREATE TABLE part (id integer PRIMARY KEY, parent integer, name text);
INSERT INTO items VALUES (1, 'a', 10), (2, 'b', 0), (3, 'c', 5);
INSERT INTO sales (item, quantity) VALUES (1, 1), (1, 2), (3, NULL);
INSERT INTO t VALUES (1, 'sad', '{ok,sad}', 1, 1, 1.5, 'x', 'a', 7), (2, NULL, NULL, NULL, NULL, 'NaN', NULL, NULL, NULL);
INSERT INTO ta VALUES (1, 10, 10), (2, 20, 20); INSERT INTO tb VALUES (2, 'b', 20), (3, 'c', 31); INSERT INTO tc VALUES (2, 7);
INSERT INTO sale SELECT g, g % 3, '2024-01-01'::date + g, g * 1.5 FROM generate_series(1, 20) g;
INSERT INTO part VALUES (1, NULL, 'root'), (2, 1, 'leaf'), (3, 2, 'tip');
";

/// Statements that take rows from the client.
const COPIES: &[&str] = &[
    "COPY items FROM STDIN",
    "COPY items (id, name, stock) FROM STDIN (FORMAT csv, HEADER, NULL 'x')",
    "COPY sales (item, quantity) FROM STDIN WITH (FORMAT text, DELIMITER '|')",
];

const COPIED: &[&[u8]] = &[
    b"1\ta\t10\n2\tb\\tc\t20\n3\t\\N\t1\n\\.\n",
    b"id,name,stock\n1,\"a, \"\"b\"\"\",5\n2,x,7\n",
    b"1|2\n3|4\n\\N|\\N\n",
];

/// What is put where a token was.
const REPLACEMENTS: &[&str] = &[
    "0",
    "-1",
    "1",
    "NULL",
    "2147483648",
    "-9223372036854775808",
    "9223372036854775807",
    "1e400",
    "1e-400",
    "0.1",
    "'NaN'::float8",
    "''",
    "'{}'",
    "E'\\\\x00'",
    "$1",
    "$65535",
    "*",
    "(SELECT 1)",
    "ARRAY[1, NULL]",
    "(1, 'a', NULL)",
    "items",
    "(",
    ")",
    "[",
    "]",
    ",",
    "::",
    ".",
    "OVER (PARTITION BY 1 ORDER BY 1)",
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r)",
    "UNION ALL SELECT",
    "LATERAL",
    "DISTINCT",
    "ORDER BY 1",
    "LIMIT 0",
    "FOR UPDATE",
    "RETURNING *",
    "é",
    "\u{1F980}",
    "unnest(ARRAY[1, 2])",
    "generate_series(1, 3)",
    "CASE WHEN",
    "END",
    "CAST",
    "AS x",
    "IS NOT DISTINCT FROM",
    "= ANY",
    "AT TIME ZONE 'UTC'",
    "'2024-02-30'::date",
    "'infinity'::timestamp",
];

/// What becomes of the inputs.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) statements: u64,
    pub(crate) completed: u64,
    /// By SQLSTATE.
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) copies: u64,
}

/// All statements.
pub(crate) struct Corpus {
    statements: Vec<Vec<&'static str>>,
}

impl Corpus {
    pub(crate) fn new() -> Corpus {
        let marked = STATEMENTS.lines().filter(|line| !line.starts_with('#'));
        let marked = marked.map(|line| line.rsplit_once(" | ").map_or(line, |(_, text)| text));
        let shown = TRANSCRIPTS.iter().flat_map(|text| text.lines());
        let shown = shown.filter_map(|line| line.strip_prefix("> "));
        let all = marked.chain(shown).chain(OWN.iter().copied());
        Corpus {
            statements: all.map(tokens).filter(|of| !of.is_empty()).collect(),
        }
    }

    fn pick(&self, random: &mut SplitMix64) -> &[&'static str] {
        &self.statements[random.below(self.statements.len() as u64) as usize]
    }

    /// A statement with up to three mistakes in it, or with none.
    fn statement(&self, random: &mut SplitMix64) -> String {
        let mut tokens = self.pick(random).to_vec();
        for _ in 0..random.below(4) {
            self.mutate(random, &mut tokens);
        }
        tokens.join(" ")
    }

    fn mutate(&self, random: &mut SplitMix64, tokens: &mut Vec<&'static str>) {
        let place =
            |random: &mut SplitMix64, length: usize| random.below(length as u64 + 1) as usize;
        let at = place(random, tokens.len());
        let end = (at + place(random, 4)).min(tokens.len());
        match random.below(14) {
            // A token of another statement that looks alike.
            8.. if at < tokens.len() => {
                let other = self.pick(random);
                let new = other[place(random, other.len() - 1)];
                if kind(new) == kind(tokens[at]) {
                    tokens[at] = new;
                }
            }
            0 => drop(tokens.drain(at..end)),
            1 => {
                let again = tokens[at..end].to_vec();
                let to = place(random, tokens.len());
                tokens.splice(to..to, again);
            }
            2 if !tokens.is_empty() => {
                let other = place(random, tokens.len() - 1);
                let at = at.min(tokens.len() - 1);
                tokens.swap(at, other);
            }
            // A part of another statement in place of one of this.
            3 | 4 => {
                let other = self.pick(random);
                let from = place(random, other.len());
                let to = (from + place(random, 8)).min(other.len());
                tokens.splice(at..end, other[from..to].iter().copied());
            }
            // The same brackets many times.
            5 if random.below(20) == 0 => {
                let count = 1 << random.below(12);
                tokens.splice(at..at, std::iter::repeat_n("(", count));
                if random.below(2) == 0 {
                    tokens.extend(std::iter::repeat_n(")", count));
                }
            }
            _ => {
                let new = random.below(REPLACEMENTS.len() as u64) as usize;
                tokens.splice(at..end, [REPLACEMENTS[new]]);
            }
        }
        tokens.truncate(20_000);
    }
}

/// What stands where another of the kind may stand: a value, a word, an operator, or a certain sign.
fn kind(token: &str) -> u8 {
    match token.as_bytes().first() {
        Some(b'0'..=b'9' | b'\'' | b'$') => 0,
        Some(letter) if letter.is_ascii_alphabetic() || *letter == b'_' => 1,
        Some(b'+' | b'-' | b'*' | b'/' | b'<' | b'=' | b'>' | b'~' | b'|' | b'@' | b'#') => 2,
        Some(letter) => *letter,
        None => 0,
    }
}

/// A statement's words, numbers, texts and other signs.
fn tokens(text: &'static str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
        let is_number = |letter: char| is_word(letter) || letter == '.';
        let is_operator = |letter: char| "+-*/<>=~!@#%^&|?:".contains(letter);
        let run = |of: &dyn Fn(char) -> bool| rest.find(|letter| !of(letter)).unwrap_or(rest.len());
        let text = |from: usize| {
            rest[from..]
                .find('\'')
                .map_or(rest.len(), |at| from + at + 1)
        };
        let length = match first {
            '\'' => text(1),
            'E' | 'B' | 'X' | 'e' | 'b' | 'x' if rest[1..].starts_with('\'') => text(2),
            '0'..='9' => run(&is_number),
            _ if is_word(first) => run(&is_word),
            _ if is_operator(first) => run(&is_operator),
            _ => first.len_utf8(),
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

/// A connection, and what is read of its answers.
struct Connection {
    socket: TcpStream,
    received: Vec<u8>,
}

/// What ends the messages of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Ready,
    /// The server waits for rows.
    CopyIn,
}

fn message(letter: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![letter];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn text_message(letter: u8, before: &[u8], text: &str, after: &[u8]) -> Vec<u8> {
    message(letter, &[before, text.as_bytes(), b"\0", after].concat())
}

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Connection> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_MAX))?;
        let mut connection = Connection {
            socket,
            received: Vec::new(),
        };
        let timeout = format!("-c statement_timeout={STATEMENT_MS}");
        let body = [
            &196_608_u32.to_be_bytes()[..],
            b"user\0ann\0database\0anabranch\0options\0",
            timeout.as_bytes(),
            b"\0\0",
        ]
        .concat();
        let length = (body.len() as u32 + 4).to_be_bytes();
        connection
            .socket
            .write_all(&[&length[..], &body].concat())?;
        connection.answer(&mut Counts::default())?;
        Ok(connection)
    }

    /// Reads to the end of an answer.
    fn answer(&mut self, counts: &mut Counts) -> io::Result<Ends> {
        let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let mut buffer = [0; 1 << 14];
        loop {
            while let Some([letter, length @ ..]) = self.received.first_chunk::<5>().copied() {
                let length = u32::from_be_bytes(length) as usize;
                if self.received.len() < length + 1 {
                    break;
                }
                let body: Vec<u8> = self.received.drain(..=length).skip(5).collect();
                match letter {
                    b'Z' => return Ok(Ends::Ready),
                    b'G' => return Ok(Ends::CopyIn),
                    b'C' => counts.completed += 1,
                    b'E' => {
                        let field = |letter| {
                            let mut fields = body.split(|byte| *byte == 0);
                            let found = fields.find(|field| field.first() == Some(&letter));
                            String::from_utf8_lossy(&found.unwrap_or_default()[1..]).into_owned()
                        };
                        let code = field(b'C');
                        // PostgreSQL's own code for a binary jsonb of an unknown version.
                        let is_internal = code == "XX000" && !field(b'M').contains("jsonb version");
                        if code.len() != 5 || is_internal {
                            return wrong(format!("{code}: {}", field(b'M')));
                        }
                        *counts.refused.entry(code).or_default() += 1;
                    }
                    _ => {}
                }
            }
            match self.socket.read(&mut buffer)? {
                0 => return wrong("the server has closed the connection".to_owned()),
                count => self.received.extend_from_slice(&buffer[..count]),
            }
        }
    }

    /// A query by text.
    fn simple(
        &mut self,
        text: &str,
        random: &mut SplitMix64,
        counts: &mut Counts,
    ) -> io::Result<()> {
        self.socket.write_all(&text_message(b'Q', b"", text, b""))?;
        while self.answer(counts)? == Ends::CopyIn {
            self.copy(random, counts)?;
        }
        Ok(())
    }

    /// The rows of a COPY, with mistakes in them.
    fn copy(&mut self, random: &mut SplitMix64, counts: &mut Counts) -> io::Result<()> {
        counts.copies += 1;
        let mut data = COPIED[random.below(COPIED.len() as u64) as usize].to_vec();
        for _ in 0..random.below(4) {
            let at = random.below(data.len() as u64 + 1) as usize;
            match random.below(4) {
                0 => drop(data.drain(at..(at + random.below(5) as usize).min(data.len()))),
                1 => data.insert(at, random.bits() as u8),
                2 => {
                    let signs = b"\\\"\t\n\r,|";
                    data.insert(at, signs[random.below(signs.len() as u64) as usize]);
                }
                _ => data.truncate(at),
            }
        }
        let mut bytes = Vec::new();
        for piece in data.chunks(random.between(1, 40) as usize) {
            bytes.extend(message(b'd', piece));
        }
        bytes.extend(match random.below(8) {
            0 => text_message(b'f', b"", "no", b""),
            _ => message(b'c', b""),
        });
        self.socket.write_all(&bytes)
    }

    /// A statement by the extended protocol, with values of no type for its parameters.
    fn extended(
        &mut self,
        text: &str,
        random: &mut SplitMix64,
        counts: &mut Counts,
    ) -> io::Result<()> {
        const VALUES: &[&[u8]] = &[
            b"1",
            b"",
            b"a",
            b"-7",
            b"{1,2}",
            b"\0\0\0\x01",
            b"2024-02-29",
        ];
        // As many as the statement has, mostly.
        let has = (1..=9)
            .rev()
            .find(|number| text.contains(&format!("${number}")));
        let parameters = match random.below(8) {
            0 => random.below(4) as u16,
            _ => has.unwrap_or(0),
        };
        let mut bind = b"\0\0".to_vec();
        bind.extend(1_u16.to_be_bytes());
        bind.extend((random.below(2) as u16).to_be_bytes());
        bind.extend(parameters.to_be_bytes());
        for _ in 0..parameters {
            let value = VALUES[random.below(VALUES.len() as u64) as usize];
            bind.extend((value.len() as u32).to_be_bytes());
            bind.extend_from_slice(value);
        }
        bind.extend(1_u16.to_be_bytes());
        bind.extend((random.below(2) as u16).to_be_bytes());
        let rows = (random.below(3) as u32).to_be_bytes();
        let bytes = [
            text_message(b'P', b"\0", text, b"\0\0"),
            message(b'D', b"S\0"),
            message(b'B', &bind),
            message(b'D', b"P\0"),
            message(b'E', &[b"\0", &rows[..]].concat()),
            message(b'E', &[b"\0", &rows[..]].concat()),
            message(b'S', b""),
        ];
        self.socket.write_all(&bytes.concat())?;
        self.answer(counts).map(drop)
    }
}

/// Runs inputs. `on_input` is called with each seed before its input is sent.
///
/// # Panics
/// When the server breaks the protocol, answers with an internal error, does not answer, or is gone.
pub(crate) fn run(first: u64, count: u64, counts: &mut Counts, mut on_input: impl FnMut(u64)) {
    let corpus = Corpus::new();
    let mut seed = first;
    while seed < first + count {
        let end = (first + count).min(seed + INPUTS_OF_A_SERVER);
        let service = match (seed / INPUTS_OF_A_SERVER) % 2 {
            0 => start_with(&[SHOP, SCHEMA], Guarantee::Serializable, options()),
            _ => start_with(&[SHOP, MOOD, PROCEDURES], Guarantee::Invariants, options()),
        };
        let random = &mut SplitMix64::stream(seed, "hostile statements", 1);
        let mut made = Counts::default();
        Connection::open(service.address())
            .and_then(|mut connection| connection.simple(TABLES, random, &mut made))
            .expect("the server answers");
        assert!(made.refused.is_empty(), "{made:?}");
        let mut connection = None;
        while seed < end {
            on_input(seed);
            if seed.is_multiple_of(INPUTS_OF_A_CONNECTION) {
                connection = None;
            }
            let connection = connection.get_or_insert_with(|| {
                Connection::open(service.address()).expect("the server lets a client in")
            });
            let random = &mut SplitMix64::stream(seed, "hostile statements", 0);
            let text = match random.below(20) {
                0 => {
                    let of = random.below(COPIES.len() as u64) as usize;
                    let mut tokens = tokens(COPIES[of]);
                    if random.below(4) == 0 {
                        corpus.mutate(random, &mut tokens);
                    }
                    tokens.join(" ")
                }
                _ => corpus.statement(random),
            };
            counts.statements += 1;
            // A COPY would take what is sent behind it for its rows.
            let takes_rows = text.to_ascii_uppercase().contains("STDIN");
            let done = match random.below(3) {
                0 if !takes_rows => connection.extended(&text, random, counts),
                _ => connection.simple(&text, random, counts),
            };
            // A transaction that stays open refuses whatever comes.
            let done = done.and_then(|()| match random.below(2) {
                0 => connection.simple("ROLLBACK", random, &mut Counts::default()),
                _ => Ok(()),
            });
            if let Err(error) = done {
                panic!("seed {seed}: {error}\n{text}");
            }
            seed += 1;
        }
        drop(connection);
        service.stop().expect("it stops");
    }
}

#[test]
fn hostile_statements_are_answered() {
    let mut counts = Counts::default();
    run(0, 3_000, &mut counts, |_| ());
    assert!(
        counts.completed > 300 && counts.refused.len() > 30 && counts.copies > 10,
        "{counts:?}"
    );
}
