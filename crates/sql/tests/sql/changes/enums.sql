CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE

CREATE TYPE public.mood AS ENUM ('a');
42710 type "mood" already exists

CREATE TYPE other AS ENUM ('a', 'a');
23505 duplicate key value violates unique constraint "pg_enum_typid_label_index" (The label "a" of type "other" already exists.)

CREATE TYPE other AS (a integer);
0A000 CREATE TYPE other than AS ENUM is not supported

CREATE TYPE empty AS ENUM ();
CREATE TYPE

CREATE TABLE mood (id integer PRIMARY KEY);
42710 type "mood" already exists (A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.)

CREATE VIEW mood AS SELECT 1 AS a;
42710 type "mood" already exists (A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.)

CREATE SEQUENCE mood;
42710 type "mood" already exists (A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.)

CREATE TABLE t (id integer PRIMARY KEY, m nothing);
42704 type "nothing" does not exist

CREATE TABLE t (id integer PRIMARY KEY, m public.mood DEFAULT 'bad');
22P02 invalid input value for enum mood: "bad"

CREATE TABLE t (id integer PRIMARY KEY, m public.mood DEFAULT 'sad', x text, CHECK (m IN ('sad', 'ok')));
CREATE TABLE

CREATE TYPE t AS ENUM ('a');
42710 type "t" already exists

ALTER TABLE t RENAME TO mood;
42710 type "mood" already exists (A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.)

CREATE INDEX t_m ON t (m);
CREATE INDEX

INSERT INTO t VALUES (1, 'ok', 'ok'), (2, DEFAULT, 'sad');
#2

INSERT INTO t VALUES (3, 'happy', NULL);
22P02 invalid input value for enum mood: "happy"

ALTER TYPE mood ADD VALUE 'happy';
ALTER TYPE

ALTER TYPE mood ADD VALUE 'happy';
42710 enum label "happy" already exists

ALTER TYPE mood ADD VALUE IF NOT EXISTS 'happy';
NOTICE enum label "happy" already exists, skipping
ALTER TYPE (nothing)

ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok';
ALTER TYPE

ALTER TYPE mood ADD VALUE 'fine' AFTER 'nothing';
22023 "nothing" is not an existing enum label

ALTER TYPE nothing ADD VALUE 'fine';
42704 type "nothing" does not exist

ALTER TYPE t ADD VALUE 'fine';
42809 t is not an enum

ALTER TYPE integer ADD VALUE 'fine';
42809 integer is not an enum

INSERT INTO t VALUES (3, 'happy', NULL);
23514 new row for relation "t" violates check constraint "t_m_check" (Failing row contains (3, happy, null).)

ALTER TABLE t DROP CONSTRAINT t_m_check;
ALTER TABLE

INSERT INTO t VALUES (3, 'happy', NULL), (4, 'meh', 'bad');
#2

SELECT id, m FROM t ORDER BY m;
2|sad; 4|meh; 1|ok; 3|happy

ALTER TABLE t ADD CHECK (m > 'sad');
23514 check constraint "t_m_check" of relation "t" is violated by some row

ALTER TABLE t ADD CHECK (m >= 'sad');
ALTER TABLE

ALTER TABLE t ALTER COLUMN x TYPE mood;
42804 column "x" cannot be cast automatically to type mood (You might need to specify "USING x::mood".)

ALTER TABLE t ALTER COLUMN x TYPE mood USING x::mood;
22P02 invalid input value for enum mood: "bad"

DELETE FROM t WHERE x = 'bad';
#1

ALTER TABLE t ALTER COLUMN x TYPE mood USING x::mood;
ALTER TABLE

ALTER TABLE t ADD COLUMN z mood NOT NULL DEFAULT 'ok', ADD COLUMN zs mood[];
ALTER TABLE

SELECT * FROM t ORDER BY x, id;
2|sad|sad|ok|-; 1|ok|ok|ok|-; 3|happy|-|ok|-

ALTER TABLE t ALTER COLUMN x TYPE text;
ALTER TABLE

ALTER TABLE t ALTER COLUMN m TYPE text;
23514 check constraint "t_m_check" of relation "t" is violated by some row

DROP TYPE nothing;
42704 type "nothing" does not exist

DROP TYPE IF EXISTS nothing;
NOTICE type "nothing" does not exist, skipping
DROP TYPE (nothing)

DROP TYPE integer;
2BP01 cannot drop type integer because it is required by the database system

DROP TYPE t;
2BP01 cannot drop type t because table t requires it (You can drop table t instead.)

DROP TYPE mood;
2BP01 cannot drop type mood because other objects depend on it (column m of table t depends on type mood; column z of table t depends on type mood; column zs of table t depends on type mood) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP TYPE mood CASCADE;
0A000 DROP TYPE … CASCADE is not supported where other objects depend on the type (column m of table t depends on type mood; column z of table t depends on type mood; column zs of table t depends on type mood) (Drop these objects first.)

CREATE FUNCTION f(m mood) RETURNS mood LANGUAGE sql AS 'SELECT m';
CREATE FUNCTION

DROP TYPE mood;
2BP01 cannot drop type mood because other objects depend on it (column m of table t depends on type mood; column z of table t depends on type mood; column zs of table t depends on type mood; function f(mood) depends on type mood) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP FUNCTION f(text);
42883 function f(text) does not exist

DROP FUNCTION f(nothing);
42704 type "nothing" does not exist

DROP FUNCTION IF EXISTS f(nothing);
NOTICE function f(nothing) does not exist, skipping
DROP FUNCTION (nothing)

DROP FUNCTION f(mood);
DROP FUNCTION

CREATE VIEW v AS SELECT 'ok'::mood AS m;
CREATE VIEW

ALTER TABLE t DROP COLUMN m, DROP COLUMN z, DROP COLUMN zs;
ALTER TABLE

DROP TYPE mood;
2BP01 cannot drop type mood because other objects depend on it (view v depends on type mood) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP VIEW v;
DROP VIEW

COMMENT ON TYPE mood IS 'how it feels';
COMMENT (nothing)

COMMENT ON TYPE nothing IS NULL;
42704 type "nothing" does not exist

ALTER TYPE mood OWNER TO postgres;
ALTER TYPE (nothing)

ALTER TYPE nothing OWNER TO postgres;
42704 type "nothing" does not exist

ALTER TYPE mood RENAME TO feeling;
0A000 ALTER TYPE … RENAME TO is not supported

ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
0A000 ALTER TYPE … RENAME VALUE is not supported

ALTER TYPE mood SET SCHEMA app;
0A000 ALTER TYPE … SET SCHEMA is not supported

CREATE TYPE "Two words" AS ENUM ('it''s', 'back\slash', '');
CREATE TYPE

CREATE TABLE q (w "Two words" PRIMARY KEY, "order" "Two words"[]);
CREATE TABLE

INSERT INTO q VALUES ('it''s', ARRAY['', 'back\slash']::"Two words"[]);
#1

SELECT * FROM q WHERE w < 'back\slash';
it's|{"","back\\slash"}

DROP TYPE mood, empty RESTRICT;
DROP TYPE

CREATE TYPE mood AS ENUM ('only');
CREATE TYPE

DROP TABLE q;
DROP TABLE

DROP TYPE mood, "Two words" CASCADE;
DROP TYPE

SELECT id, x FROM t ORDER BY id;
1|ok; 2|sad; 3|-
