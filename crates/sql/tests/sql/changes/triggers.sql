CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at = now(); RETURN NEW; END $$;
CREATE FUNCTION

CREATE TABLE items (id integer PRIMARY KEY, name text, price numeric(6,2) NOT NULL DEFAULT 1, at timestamptz, code varchar(4), sold integer DEFAULT 0, twice numeric GENERATED ALWAYS AS (price * 2) STORED);
CREATE TABLE

CREATE TRIGGER touch BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER

INSERT INTO items (id, name) VALUES (1, 'pen'), (2, 'ink');
#2

UPDATE items SET price = 3 WHERE id = 1;
#1

SELECT id, price, at IS NULL, twice FROM items ORDER BY id;
1|3.00|f|6.00; 2|1.00|t|2.00

UPDATE items SET at = '2020-01-01 00:00:00+00' WHERE id = 2;
#1

SELECT id FROM items WHERE at < '2021-01-01 00:00:00+00';


CREATE TRIGGER touch BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION touch();
42710 trigger "touch" for relation "items" already exists

CREATE TRIGGER x BEFORE UPDATE ON nothing FOR EACH ROW EXECUTE FUNCTION touch();
42P01 relation "nothing" does not exist

CREATE TRIGGER x BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION nothing();
42883 function nothing() does not exist

CREATE FUNCTION one() RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION

CREATE TRIGGER x BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION one();
42P17 function one must return type trigger

CREATE TRIGGER x BEFORE UPDATE OF nothing ON items FOR EACH ROW EXECUTE FUNCTION touch();
42703 column "nothing" of relation "items" does not exist

CREATE TRIGGER x BEFORE UPDATE OF name, name ON items FOR EACH ROW EXECUTE FUNCTION touch();
42701 column "name" specified more than once

CREATE TRIGGER x BEFORE INSERT ON items FOR EACH ROW WHEN (OLD.id = 1) EXECUTE FUNCTION touch();
42P17 INSERT trigger's WHEN condition cannot reference OLD values

CREATE TRIGGER x BEFORE INSERT OR UPDATE ON items FOR EACH ROW WHEN (OLD.id = 1) EXECUTE FUNCTION touch();
42P17 INSERT trigger's WHEN condition cannot reference OLD values

CREATE TRIGGER x BEFORE UPDATE ON items FOR EACH ROW WHEN (id = 1) EXECUTE FUNCTION touch();
42702 column reference "id" is ambiguous

CREATE TRIGGER x BEFORE UPDATE ON items FOR EACH ROW WHEN (NEW.id) EXECUTE FUNCTION touch();
42804 argument of WHEN must be type boolean, not type integer

CREATE TRIGGER x BEFORE UPDATE ON items FOR EACH ROW WHEN (NEW.nothing = 1) EXECUTE FUNCTION touch();
42703 column new.nothing does not exist

CREATE TRIGGER x BEFORE UPDATE ON items FOR EACH ROW WHEN (NEW.twice = 1) EXECUTE FUNCTION touch();
42P17 BEFORE trigger's WHEN condition cannot reference NEW generated columns (Column "twice" is a generated column.)

CREATE TRIGGER x BEFORE UPDATE ON items FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch();
42P17 BEFORE trigger's WHEN condition cannot reference NEW generated columns (A whole-row reference is used and the table contains generated columns.)

CREATE TRIGGER x BEFORE UPDATE ON items FOR EACH ROW WHEN ((SELECT 1) = 1) EXECUTE FUNCTION touch();
0A000 cannot use subquery in trigger WHEN condition

CREATE VIEW cheap AS SELECT id FROM items WHERE price < 2;
CREATE VIEW

CREATE TRIGGER x BEFORE UPDATE ON cheap FOR EACH ROW EXECUTE FUNCTION touch();
42809 "cheap" is a view (Views cannot have row-level BEFORE or AFTER triggers.)

CREATE TRIGGER x BEFORE UPDATE ON items_pkey FOR EACH ROW EXECUTE FUNCTION touch();
42809 "items_pkey" is an index

CREATE SEQUENCE numbers;
CREATE SEQUENCE

CREATE TRIGGER x BEFORE UPDATE ON numbers FOR EACH ROW EXECUTE FUNCTION touch();
42809 relation "numbers" cannot have triggers (This operation is not supported for sequences.)

DROP TRIGGER x ON items;
42704 trigger "x" for table "items" does not exist

DROP TRIGGER x ON nothing;
42P01 relation "nothing" does not exist

DROP TRIGGER IF EXISTS x ON items;
NOTICE trigger "x" for relation "items" does not exist, skipping
DROP TRIGGER (nothing)

DROP TRIGGER IF EXISTS x ON nothing;
NOTICE relation "nothing" does not exist, skipping
DROP TRIGGER (nothing)

ALTER TRIGGER x ON items RENAME TO y;
42704 trigger "x" for table "items" does not exist

ALTER TRIGGER x ON nothing RENAME TO y;
42P01 relation "nothing" does not exist

ALTER TRIGGER touch ON items RENAME TO touch;
ALTER TRIGGER (nothing)

COMMENT ON TRIGGER touch ON items IS 'the time of the last change';
COMMENT (nothing)

COMMENT ON TRIGGER x ON items IS 'nothing';
42704 trigger "x" for table "items" does not exist

DROP FUNCTION touch();
2BP01 cannot drop function touch() because other objects depend on it (trigger touch on table items depends on function touch()) (Use DROP ... CASCADE to drop the dependent objects too.)

SELECT touch();
0A000 trigger functions can only be called as triggers

CREATE FUNCTION wrong(a integer) RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
42P13 trigger functions cannot have declared arguments (The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead.)

CREATE FUNCTION wrong() RETURNS trigger LANGUAGE sql AS 'SELECT 1';
42P13 SQL functions cannot return type trigger

CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
42723 function "touch" already exists

CREATE FUNCTION norm() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name := lower(trim(NEW.name)); IF NEW.name = '' THEN NEW.name := NULL; END IF; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER a_norm BEFORE INSERT OR UPDATE OF name ON items FOR EACH ROW EXECUTE PROCEDURE norm();
CREATE TRIGGER

INSERT INTO items (id, name) VALUES (3, '  Cup '), (4, '  ') RETURNING id, name;
3|cup; 4|-

UPDATE items SET name = ' CAP' WHERE id = 3 RETURNING name;
cap

UPDATE items SET sold = 1 WHERE id = 3 RETURNING name, sold;
cap|1

CREATE FUNCTION code() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.code := upper(left(NEW.name, 4)); RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER b_code BEFORE INSERT OR UPDATE ON items FOR EACH ROW WHEN (NEW.code IS NULL) EXECUTE FUNCTION code();
CREATE TRIGGER

INSERT INTO items (id, name) VALUES (5, ' Bottle'), (6, NULL) RETURNING id, name, code;
5|bottle|BOTT; 6|-|-

INSERT INTO items (id, name, code) VALUES (7, ' Bottle', 'x') RETURNING id, name, code;
7|bottle|x

UPDATE items SET code = NULL, name = ' Jar ' WHERE id = 7 RETURNING name, code;
jar|JAR

INSERT INTO items (id, name) VALUES (7, ' Pot ') ON CONFLICT (id) DO UPDATE SET name = excluded.name || '!' , code = excluded.code RETURNING name, code;
pot!|POT

INSERT INTO items (id, name) VALUES (7, ' Pan ') ON CONFLICT (id) DO UPDATE SET sold = items.sold + 1 RETURNING name, code, sold, at IS NULL;
pot!|POT|1|f

INSERT INTO items (id, name) VALUES (7, ' Pan ') ON CONFLICT DO NOTHING;
#0

CREATE FUNCTION price() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'INSERT' THEN NEW.price := NEW.price + 0.555; ELSIF NEW.price > OLD.price * 2 THEN NEW.price := OLD.price * 2; ELSE NEW.sold := NEW.sold + 1; END IF; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER c_price BEFORE INSERT OR UPDATE OF price ON items FOR EACH ROW EXECUTE FUNCTION price();
CREATE TRIGGER

INSERT INTO items (id, name, price) VALUES (8, 'Hat', 4), (9, 'Tie', 1.25) RETURNING price, twice;
4.56|9.12; 1.81|3.62

UPDATE items SET price = 100 WHERE id = 8 RETURNING price, twice, sold;
9.12|18.24|0

UPDATE items SET price = price - 1 WHERE id = 8 RETURNING price, twice, sold;
8.12|16.24|1

UPDATE items SET price = NULL WHERE id = 8;
23502 null value in column "price" of relation "items" violates not-null constraint (Failing row contains (8, hat, null, 2000-01-01 00:00:00+00, HAT, 2, null).)

UPDATE items SET price = 1, sold = 10 WHERE id IN (8, 9) RETURNING id, price, sold;
8|1.00|11; 9|1.00|11

UPDATE items SET price = DEFAULT, twice = DEFAULT WHERE id = 8 RETURNING price, twice, sold;
1.00|2.00|12

UPDATE items SET price = i.price * 3 FROM items AS i WHERE i.id = items.id AND items.id = 9 RETURNING items.price, items.twice;
2.00|4.00

WITH w AS (SELECT 20 AS id) INSERT INTO items (id, name) SELECT id, ' W' FROM w RETURNING name, code, price;
w|W|1.56

INSERT INTO items (id, name) SELECT 21, ' A' UNION ALL SELECT 22, ' B' RETURNING name, code, price;
a|A|1.56; b|B|1.56

INSERT INTO items (id, name, price) VALUES (23, 'x', 1 / 0);
22012 division by zero

DROP TRIGGER a_norm ON items;
DROP TRIGGER

ALTER TRIGGER b_code ON items RENAME TO c_price;
42710 trigger "c_price" for relation "items" already exists

ALTER TRIGGER b_code ON items RENAME TO z_code;
ALTER TRIGGER

INSERT INTO items (id, name) VALUES (30, ' N') RETURNING name, code;
 N| N

CREATE OR REPLACE TRIGGER z_code BEFORE INSERT ON items FOR EACH ROW WHEN (NEW.id > 31) EXECUTE FUNCTION code();
CREATE TRIGGER

INSERT INTO items (id, name) VALUES (31, 'nnn'), (32, 'mmm') RETURNING name, code;
nnn|-; mmm|MMM

CREATE OR REPLACE FUNCTION code() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.code := TG_NAME; RETURN NEW; END $$;
CREATE FUNCTION

INSERT INTO items (id, name) VALUES (33, 'mmm') RETURNING name, code;
22001 value too long for type character varying(4)

ALTER TRIGGER z_code ON items RENAME TO zc;
ALTER TRIGGER

INSERT INTO items (id, name) VALUES (33, 'mmm') RETURNING name, code;
mmm|zc

SELECT tgname, tgrelid::regclass::text, tgfoid::regproc::text, tgtype, tgattr, tgqual IS NULL, tgenabled, tgnargs, tgisinternal FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1;
c_price|items|price|23|3|t|O|0|f; touch|items|touch|19||t|O|0|f; zc|items|code|7||f|O|0|f

SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname;
CREATE TRIGGER c_price BEFORE INSERT OR UPDATE OF price ON public.items FOR EACH ROW EXECUTE FUNCTION price(); CREATE TRIGGER touch BEFORE UPDATE ON public.items FOR EACH ROW EXECUTE FUNCTION touch(); CREATE TRIGGER zc BEFORE INSERT ON public.items FOR EACH ROW WHEN ((new.id > 31)) EXECUTE FUNCTION code()

SELECT pg_get_triggerdef(oid, true) FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname;
CREATE TRIGGER c_price BEFORE INSERT OR UPDATE OF price ON items FOR EACH ROW EXECUTE FUNCTION price(); CREATE TRIGGER touch BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION touch(); CREATE TRIGGER zc BEFORE INSERT ON items FOR EACH ROW WHEN (new.id > 31) EXECUTE FUNCTION code()

SELECT relname, relhastriggers FROM pg_class WHERE relname IN ('items', 'cheap') ORDER BY 1;
cheap|f; items|t

SELECT proname, prorettype::regtype::text, pg_get_function_result(oid), pronargs, prosrc FROM pg_proc WHERE proname = 'touch';
touch|trigger|trigger|0| BEGIN NEW.at = now(); RETURN NEW; END 

ALTER TABLE items ALTER id TYPE bigint;
0A000 cannot alter type of a column used by a view or rule (rule _RETURN on view cheap depends on column "id")

ALTER TABLE items DROP COLUMN id;
2BP01 cannot drop column id of table items because other objects depend on it (trigger zc on table items depends on column id of table items; view cheap depends on column id of table items) (Use DROP ... CASCADE to drop the dependent objects too.)

ALTER TABLE items RENAME id TO number;
ALTER TABLE

INSERT INTO items (number, name) VALUES (34, 'mmm') RETURNING name, code;
mmm|zc

ALTER TABLE items RENAME TO goods;
ALTER TABLE

INSERT INTO goods (number, name) VALUES (35, 'mmm') RETURNING name, code;
mmm|zc

ALTER TABLE goods DROP COLUMN number;
2BP01 cannot drop column number of table goods because other objects depend on it (trigger zc on table goods depends on column number of table goods; view cheap depends on column number of table goods) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP FUNCTION code(), price();
2BP01 cannot drop desired object(s) because other objects depend on them (trigger zc on table goods depends on function code(); trigger c_price on table goods depends on function price()) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP FUNCTION code() CASCADE;
NOTICE drop cascades to trigger zc on table goods
DROP FUNCTION

INSERT INTO goods (number, name) VALUES (36, 'mmm') RETURNING name, code;
mmm|-

DROP TABLE goods;
2BP01 cannot drop table goods because other objects depend on it (view cheap depends on table goods) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP TABLE goods CASCADE;
NOTICE drop cascades to view cheap
DROP TABLE

DROP FUNCTION price();
DROP FUNCTION

DROP FUNCTION price();
42883 function price() does not exist

CREATE TABLE p (id integer PRIMARY KEY);
CREATE TABLE

CREATE TABLE c (id integer PRIMARY KEY, p integer DEFAULT 9 REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE, log text, n integer NOT NULL DEFAULT 0);
CREATE TABLE

CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.log := coalesce(NEW.log, '') || ' ' || TG_OP || ' ' || TG_TABLE_NAME || ' ' || coalesce(OLD.p::text, '-') || '>' || coalesce(NEW.p::text, '-'); RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER logged BEFORE INSERT OR UPDATE OF p ON c FOR EACH ROW EXECUTE FUNCTION logged();
CREATE TRIGGER

INSERT INTO p VALUES (1), (2), (3);
#3

INSERT INTO c (id, p) VALUES (1, 1), (2, 2), (3, NULL);
#3

UPDATE p SET id = 10 WHERE id = 1;
#1

SELECT id, p, log FROM c ORDER BY id;
1|10| INSERT c ->1 UPDATE c 1>10; 2|2| INSERT c ->2; 3|-| INSERT c ->-

DELETE FROM p WHERE id IN (2, 10);
#2

SELECT id, p, log FROM c ORDER BY id;
1|-| INSERT c ->1 UPDATE c 1>10 UPDATE c 10>-; 2|-| INSERT c ->2 UPDATE c 2>-; 3|-| INSERT c ->-

UPDATE c SET n = 5;
#3

SELECT id, p, log, n FROM c ORDER BY id;
1|-| INSERT c ->1 UPDATE c 1>10 UPDATE c 10>-|5; 2|-| INSERT c ->2 UPDATE c 2>-|5; 3|-| INSERT c ->-|5

CREATE TABLE w (a integer, b text, n numeric(4,1), v varchar(3), f boolean, d date, e integer[]);
CREATE TABLE

CREATE FUNCTION casts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.b; NEW.n := NEW.b; NEW.v := NEW.n; NEW.d := '2024-02-03'; NEW.e := '{1,2}'; NEW.f := 'yes'; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER casts BEFORE INSERT ON w FOR EACH ROW EXECUTE FUNCTION casts();
CREATE TRIGGER

INSERT INTO w (b) VALUES ('7') RETURNING *;
7|7|7.0|7.0|t|2024-02-03|{1,2}

INSERT INTO w (b) VALUES ('12345') RETURNING *;
22003 numeric field overflow (A field with precision 4, scale 1 must round to an absolute value less than 10^3.)

INSERT INTO w (b) VALUES ('twelve') RETURNING *;
22P02 invalid input syntax for type integer: "twelve"

INSERT INTO w (b) VALUES ('77') RETURNING *;
22001 value too long for type character varying(3)

DROP TRIGGER casts ON w CASCADE;
DROP TRIGGER

CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF (NEW IS DISTINCT FROM OLD AND NEW.v IS NOT DISTINCT FROM OLD.v) THEN NEW.v := 'new'; END IF; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER changed BEFORE UPDATE ON w FOR EACH ROW EXECUTE FUNCTION changed();
CREATE TRIGGER

UPDATE w SET v = 'x' RETURNING a, v;
7|x

UPDATE w SET a = 1 RETURNING a, v;
1|new

UPDATE w SET v = 'y' RETURNING a, v;
1|y

UPDATE w SET a = 1 RETURNING a, v;
1|y

UPDATE w SET a = 2, v = 'z' RETURNING a, v;
2|z

DROP TRIGGER changed ON w;
DROP TRIGGER

CREATE TRIGGER whole BEFORE UPDATE ON w FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION casts();
CREATE TRIGGER

UPDATE w SET a = a, b = '8' RETURNING *;
8|8|8.0|8.0|t|2024-02-03|{1,2}

UPDATE w SET a = 8 RETURNING *;
8|8|8.0|8.0|t|2024-02-03|{1,2}

ALTER TRIGGER whole ON w RENAME TO "Whole";
ALTER TRIGGER

SELECT pg_get_triggerdef(oid), pg_get_triggerdef(oid, true) FROM pg_trigger WHERE tgrelid = 'w'::regclass ORDER BY tgname;
CREATE TRIGGER "Whole" BEFORE UPDATE ON public.w FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION casts()|CREATE TRIGGER "Whole" BEFORE UPDATE ON w FOR EACH ROW WHEN (old.* IS DISTINCT FROM new.*) EXECUTE FUNCTION casts()

DROP TRIGGER "Whole" ON w;
DROP TRIGGER

CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := 'm' || NEW.v; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER parts BEFORE UPDATE OF v ON w FOR EACH ROW WHEN (NEW.a > 1 AND (NEW.b IS NOT DISTINCT FROM OLD.b OR NOT OLD.f)) EXECUTE FUNCTION mark();
CREATE TRIGGER

UPDATE w SET v = 'a' RETURNING v;
ma

SELECT pg_get_triggerdef(oid), pg_get_triggerdef(oid, true) FROM pg_trigger WHERE tgrelid = 'w'::regclass ORDER BY tgname;
CREATE TRIGGER parts BEFORE UPDATE OF v ON public.w FOR EACH ROW WHEN (((new.a > 1) AND ((NOT (new.b IS DISTINCT FROM old.b)) OR (NOT old.f)))) EXECUTE FUNCTION mark()|CREATE TRIGGER parts BEFORE UPDATE OF v ON w FOR EACH ROW WHEN (new.a > 1 AND (NOT new.b IS DISTINCT FROM old.b OR NOT old.f)) EXECUTE FUNCTION mark()

ALTER TABLE w ALTER f TYPE text;
0A000 cannot alter type of a column used in a trigger definition (trigger parts on table w depends on column "f")

DROP TRIGGER parts ON w;
DROP TRIGGER

CREATE TRIGGER whole BEFORE UPDATE ON w FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION casts();
CREATE TRIGGER

CREATE OR REPLACE FUNCTION casts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a > 5 THEN NEW.b := 'many'; RETURN NEW; END IF; IF NEW.a > 3 THEN NEW.b := 'some'; ELSE NEW.b := 'few'; NEW.a := NEW.a + 1; END IF; NEW.n := NEW.a; RETURN NEW; END $$;
CREATE FUNCTION

UPDATE w SET a = 6 RETURNING a, b, n;
6|many|8.0

UPDATE w SET a = 4 RETURNING a, b, n;
4|some|4.0

UPDATE w SET a = 2 RETURNING a, b, n;
3|few|3.0

UPDATE w SET a = NULL RETURNING a, b, n;
-|few|-

CREATE TABLE k (id serial PRIMARY KEY, u integer UNIQUE, v integer CHECK (v < 100));
CREATE TABLE

CREATE FUNCTION keys() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.v * 10; NEW.u := NEW.v; NEW.v := NEW.v + 1; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER keys BEFORE INSERT OR UPDATE ON k FOR EACH ROW EXECUTE FUNCTION keys();
CREATE TRIGGER

INSERT INTO k (v) VALUES (1), (2) RETURNING id, u, v;
10|1|2; 20|2|3

INSERT INTO k (v) VALUES (1);
23505 duplicate key value violates unique constraint

INSERT INTO k (id, v) VALUES (500, 3) RETURNING id, u, v;
30|3|4

INSERT INTO k (v) VALUES (99);
23514 new row for relation "k" violates check constraint "k_v_check" (Failing row contains (990, 99, 100).)

UPDATE k SET v = 7 WHERE id = 10 RETURNING id, u, v;
70|7|8

UPDATE k SET v = 2 WHERE id = 70;
23505 duplicate key value violates unique constraint

UPDATE k SET id = 1 WHERE id = 70 RETURNING id, u, v;
80|8|9

INSERT INTO k (v) VALUES (4) ON CONFLICT (u) DO NOTHING RETURNING id, u, v;
40|4|5

INSERT INTO k (v) VALUES (4) ON CONFLICT (u) DO NOTHING RETURNING id, u, v;


DROP TRIGGER keys ON k;
DROP TRIGGER

CREATE TABLE posts (id integer PRIMARY KEY, title text NOT NULL, slug text NOT NULL, email text, status text DEFAULT 'draft', changed integer NOT NULL DEFAULT 0, version integer NOT NULL, created integer, "updatedAt" timestamp, qty integer, price numeric(8,2), total numeric(10,2), tags text[], note jsonb);
CREATE TABLE

CREATE FUNCTION post() RETURNS trigger AS 'begin new.slug = lower(regexp_replace(trim(new.title), ''[^a-zA-Z0-9]+'', ''-'', ''g'')); new.email = LOWER(new.email); new.version := coalesce(old.version, 0) + 1; if tg_op = ''UPDATE'' and new.created <> old.created then new.created := old.created; elsif new.created is null then new.created := 1; end if; new.total := new.qty * new.price; new."updatedAt" = now() at time zone ''utc''; return new; end;' LANGUAGE plpgsql;
CREATE FUNCTION

CREATE TRIGGER post BEFORE INSERT OR UPDATE ON posts FOR EACH ROW EXECUTE FUNCTION post();
CREATE TRIGGER

CREATE FUNCTION status() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF (OLD.status IS DISTINCT FROM NEW.status) THEN NEW.changed = CASE NEW.status WHEN 'done' THEN 100 ELSE OLD.changed + 1 END; END IF; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER status BEFORE UPDATE ON posts FOR EACH ROW EXECUTE FUNCTION status();
CREATE TRIGGER

INSERT INTO posts (id, title, email, qty, price) VALUES (1, ' Hello, World! ', 'Ann@Example.ORG', 3, 1.5) RETURNING slug, email, version, created, total, changed, "updatedAt" IS NULL;
hello-world-|ann@example.org|1|1|4.50|0|f

INSERT INTO posts (id, title, created, version) VALUES (2, 'Two', 7, 50) RETURNING slug, email, version, created, total;
two|-|1|7|-

UPDATE posts SET created = 9, status = 'open' RETURNING id, version, created, changed;
1|2|1|1; 2|2|7|1

UPDATE posts SET status = 'done', version = NULL WHERE id = 1 RETURNING id, version, created, changed;
1|3|1|100

UPDATE posts SET title = NULL WHERE id = 1;
23502 null value in column "title" of relation "posts" violates not-null constraint (Failing row contains (1, null, null, ann@example.org, done, 100, 4, 1, 2000-01-01 00:00:00, 3, 1.50, 4.50, null, null).)

INSERT INTO posts (id) VALUES (3);
23502 null value in column "title" of relation "posts" violates not-null constraint (Failing row contains (3, null, null, null, draft, 0, 1, 1, 2000-01-01 00:00:00, null, null, null, null, null).)

CREATE FUNCTION rows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF ROW(NEW.*) IS DISTINCT FROM ROW(OLD.*) THEN NEW.note := jsonb_build_object('was', OLD.status); NEW.tags := array_append(NEW.tags, NEW.status); END IF; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER a_rows BEFORE UPDATE OF status ON posts FOR EACH ROW EXECUTE FUNCTION rows();
CREATE TRIGGER

UPDATE posts SET status = 'open' WHERE id = 1 RETURNING id, tags, note;
1|{open}|{"was": "done"}

UPDATE posts SET status = 'open' WHERE id = 1 RETURNING id, tags, note;
1|{open}|{"was": "done"}

UPDATE posts SET qty = 2 WHERE id = 1 RETURNING id, tags, note;
1|{open}|{"was": "done"}

CREATE TABLE m (id integer PRIMARY KEY, a integer, b integer, c integer);
CREATE TABLE

CREATE FUNCTION m2() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN BEGIN NEW.c := NEW.b; IF NEW.c > 5 THEN NEW.c := 5; RETURN NEW; END IF; END; CASE WHEN NEW.a > 3 THEN NEW.a := -NEW.a; ELSE NULL; END CASE; RETURN NEW; NEW.a := 0; END $$;
CREATE FUNCTION

CREATE TRIGGER z BEFORE INSERT OR UPDATE ON m FOR EACH ROW EXECUTE FUNCTION m2();
CREATE TRIGGER

CREATE FUNCTION m3() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.b := NEW.a * 2; RETURN NEW; END $$;
CREATE FUNCTION

CREATE TRIGGER "A" BEFORE INSERT OR UPDATE ON m FOR EACH ROW EXECUTE FUNCTION m3();
CREATE TRIGGER

INSERT INTO m VALUES (1, 1, 1, 1), (2, 2, 0, 0), (3, 3, 0, 0), (4, 4, 0, 0) RETURNING *;
1|1|2|2; 2|2|4|4; 3|3|6|5; 4|4|8|5

UPDATE m SET b = 100, c = 100 RETURNING *;
1|1|2|2; 2|2|4|4; 3|3|6|5; 4|4|8|5

UPDATE m SET a = m.a + n.b FROM m AS n WHERE n.id = m.id - 1 RETURNING m.*;
2|4|8|5; 3|7|14|5; 4|10|20|5
