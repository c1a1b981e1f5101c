CREATE TABLE t (id serial PRIMARY KEY, a int, b text DEFAULT 'x' NOT NULL, UNIQUE (a), CHECK (a > 0));
CREATE TABLE

CREATE TABLE t (a int);
42P07 relation "t" already exists

CREATE TABLE IF NOT EXISTS t (a int);
NOTICE relation "t" already exists, skipping
CREATE TABLE (nothing)

CREATE TABLE u (t_id int REFERENCES t, t_a int REFERENCES t (a) ON DELETE CASCADE, id bigint GENERATED ALWAYS AS IDENTITY);
CREATE TABLE

CREATE TABLE v (x int REFERENCES missing);
42P01 relation "missing" does not exist

CREATE TABLE v (x int REFERENCES t (b));
42830 there is no unique constraint matching given keys for referenced table "t"

CREATE TABLE v (x int, x int);
42701 column "x" specified more than once

CREATE TABLE v (x int, PRIMARY KEY (y));
42703 column "y" named in key does not exist

CREATE TABLE v (x int PRIMARY KEY, y int PRIMARY KEY);
42P16 multiple primary keys for table "v" are not allowed

CREATE TABLE v (x int CHECK (z > 0));
42703 column "z" does not exist

CREATE TABLE v (x int DEFAULT 'y'::date);
22007 invalid input syntax for type date: "y"

INSERT INTO t (a) VALUES (1), (2);
#2

INSERT INTO t (a) VALUES (0);
23514 new row for relation "t" violates check constraint "t_a_check" (Failing row contains (3, 0, x).)

INSERT INTO u (t_id, t_a) VALUES (1, 1), (2, NULL);
#2

CREATE INDEX ON u (t_id);
CREATE INDEX

CREATE INDEX u_t_a ON u (t_a);
CREATE INDEX

CREATE UNIQUE INDEX IF NOT EXISTS u_t_a ON u (t_a);
NOTICE relation "u_t_a" already exists, skipping
CREATE INDEX (nothing)

CREATE INDEX u_t_a ON u (t_a);
42P07 relation "u_t_a" already exists

CREATE INDEX ON missing (a);
42P01 relation "missing" does not exist

CREATE INDEX ON u (a);
42703 column "a" does not exist

CREATE UNIQUE INDEX CONCURRENTLY t_b ON t (b);
23505 could not create unique index "t_b" (Key (b)=(x) is duplicated.)

DROP INDEX t_a_key;
2BP01 cannot drop index t_a_key because constraint t_a_key on table t requires it (You can drop constraint t_a_key on table t instead.)

DROP INDEX missing;
42704 index "missing" does not exist

DROP INDEX IF EXISTS missing;
NOTICE index "missing" does not exist, skipping
DROP INDEX (nothing)

DROP INDEX u_t_a, u_t_id_idx;
DROP INDEX

SELECT * FROM u WHERE t_a = 1;
1|1|1

TRUNCATE t;
0A000 cannot truncate a table referenced in a foreign key constraint (Table "u" references "t".) (Truncate table "u" at the same time, or use TRUNCATE ... CASCADE.)

TRUNCATE missing;
42P01 relation "missing" does not exist

TRUNCATE t, u;
TRUNCATE TABLE

SELECT count(*) FROM t;
0

INSERT INTO t (a) VALUES (3);
#1

SELECT id FROM t;
4

TRUNCATE t RESTART IDENTITY CASCADE;
NOTICE truncate cascades to table "u"
TRUNCATE TABLE

INSERT INTO t (a) VALUES (4);
#1

SELECT id FROM t;
1

DROP TABLE t;
2BP01 cannot drop table t because other objects depend on it (constraint u_t_id_fkey on table u depends on table t; constraint u_t_a_fkey on table u depends on table t) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP TABLE missing;
42P01 table "missing" does not exist

DROP TABLE IF EXISTS missing;
NOTICE table "missing" does not exist, skipping
DROP TABLE (nothing)

DROP VIEW t;
42809 "t" is not a view (Use DROP TABLE to remove a table.)

CREATE TABLE w (a int);
CREATE TABLE

INSERT INTO w VALUES (7);
#1

DROP TABLE t CASCADE;
NOTICE drop cascades to 2 other objects (drop cascades to constraint u_t_id_fkey on table u; drop cascades to constraint u_t_a_fkey on table u)
DROP TABLE

SELECT * FROM w;
7

INSERT INTO u (t_id) VALUES (99);
#1

SELECT * FROM u;
99|-|1

DROP TABLE u, w;
DROP TABLE

CREATE SEQUENCE s;
CREATE SEQUENCE

CREATE SEQUENCE s;
42P07 relation "s" already exists

CREATE TABLE s (a int);
42P07 relation "s" already exists

DROP SEQUENCE s;
DROP SEQUENCE

CREATE SCHEMA IF NOT EXISTS public;
NOTICE schema "public" already exists, skipping
CREATE SCHEMA (nothing)

CREATE SCHEMA public;
42P06 schema "public" already exists

CREATE EXTENSION IF NOT EXISTS plpgsql;
NOTICE extension "plpgsql" already exists, skipping
CREATE EXTENSION (nothing)
