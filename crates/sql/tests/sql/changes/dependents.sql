CREATE TABLE p (id int PRIMARY KEY, a int UNIQUE, b int);
CREATE TABLE

CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, a int REFERENCES p (a));
CREATE TABLE

CREATE VIEW v AS SELECT id, b FROM p WHERE a > 0;
CREATE VIEW

CREATE VIEW w AS SELECT v.b FROM v JOIN c ON c.p = v.id;
CREATE VIEW

CREATE OR REPLACE VIEW v AS SELECT id, b FROM p WHERE a > 1;
CREATE VIEW

CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql AS $$ SELECT b FROM p WHERE id = x $$;
CREATE FUNCTION

CREATE ASSERTION few CHECK ((SELECT count(*) FROM c) < 3);
CREATE ASSERTION

INSERT INTO p VALUES (1, 1, 1);
#1

INSERT INTO c VALUES (1, 1, 1);
#1

DROP TABLE p;
2BP01 cannot drop table p because other objects depend on it (constraint c_p_fkey on table c depends on table p; constraint c_a_fkey on table c depends on table p; view v depends on table p; view w depends on view v) (Use DROP ... CASCADE to drop the dependent objects too.)

ALTER TABLE p DROP CONSTRAINT p_pkey;
2BP01 cannot drop constraint p_pkey on table p because other objects depend on it (constraint c_p_fkey on table c depends on index p_pkey) (Use DROP ... CASCADE to drop the dependent objects too.)

ALTER TABLE p DROP COLUMN a;
2BP01 cannot drop column a of table p because other objects depend on it (constraint c_a_fkey on table c depends on column a of table p; view v depends on column a of table p; view w depends on view v) (Use DROP ... CASCADE to drop the dependent objects too.)

ALTER TABLE p ALTER b TYPE bigint;
0A000 cannot alter type of a column used by a view or rule (rule _RETURN on view v depends on column "b")

ALTER TABLE p RENAME b TO d;
0A000 cannot rename column "b" of table "p" because other objects name it (function f(integer): column "b" does not exist) (drop these objects, make the change, and create them again)

ALTER TABLE p RENAME TO q;
0A000 cannot rename table "p" because other objects name it (function f(integer): relation "p" does not exist) (drop these objects, make the change, and create them again)

DROP VIEW v;
2BP01 cannot drop view v because other objects depend on it (view w depends on view v) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP FUNCTION f(text);
42883 function f(text) does not exist

DROP FUNCTION g;
42883 could not find a function named "g"

DROP FUNCTION f(int);
DROP FUNCTION

DROP VIEW v CASCADE;
NOTICE drop cascades to view w
DROP VIEW

ALTER TABLE p DROP COLUMN a;
2BP01 cannot drop column a of table p because other objects depend on it (constraint c_a_fkey on table c depends on column a of table p) (Use DROP ... CASCADE to drop the dependent objects too.)

ALTER TABLE p DROP COLUMN a CASCADE;
NOTICE drop cascades to constraint c_a_fkey on table c
ALTER TABLE

ALTER TABLE p RENAME TO q;
ALTER TABLE

SELECT * FROM q;
1|1

CREATE VIEW v AS SELECT * FROM q;
CREATE VIEW

ALTER TABLE q ADD COLUMN z int;
0A000 cannot make this change because view "v" would have other columns (name the columns of the view instead of *, or drop it and create it again)

DROP TABLE c;
2BP01 cannot drop table c because other objects depend on it (assertion few depends on table c) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP TABLE c CASCADE;
NOTICE drop cascades to assertion few
DROP TABLE

CREATE ASSERTION few CHECK ((SELECT count(*) FROM q) > 0);
CREATE ASSERTION

TRUNCATE q;
23514 existing rows violate assertion "few"

DROP ASSERTION few;
DROP ASSERTION

TRUNCATE q;
TRUNCATE TABLE

CREATE FUNCTION later(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT y FROM coming WHERE id = x); END $$;
CREATE FUNCTION

CREATE FUNCTION wrong(x int) RETURNS int LANGUAGE sql AS $$ SELECT y FROM coming WHERE id = x $$;
42P01 relation "coming" does not exist

SELECT later(1);
42883 function later(integer) does not exist

CREATE TABLE coming (id int PRIMARY KEY, y int);
CREATE TABLE

INSERT INTO coming VALUES (1, 2);
#1

CREATE OR REPLACE FUNCTION later(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT y FROM coming WHERE id = x); END $$;
CREATE FUNCTION

CREATE PROCEDURE later() LANGUAGE plpgsql AS $$ BEGIN NULL; END $$;
0A000 a second function named "later" is not supported (give each procedure a name of its own)

CREATE FUNCTION bound() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM coming; END;
CREATE FUNCTION

DROP TABLE coming;
2BP01 cannot drop table coming because other objects depend on it (function bound() depends on table coming) (Use DROP ... CASCADE to drop the dependent objects too.)

DROP TABLE coming CASCADE;
NOTICE function later(integer) cannot be called any more: relation "coming" does not exist
NOTICE drop cascades to function bound()
DROP TABLE

DROP FUNCTION later;
DROP FUNCTION

DROP FUNCTION later;
42883 could not find a function named "later"

CREATE TABLE base (id int PRIMARY KEY, amount int, kind text, CHECK (base.amount > 0 AND amount < 100));
CREATE TABLE

CREATE TABLE side (id int PRIMARY KEY, base int REFERENCES base, weight int);
CREATE TABLE

CREATE VIEW sums AS SELECT b.kind, sum(b.amount) AS amount FROM base b JOIN side s ON s.base = b.id GROUP BY b.kind;
CREATE VIEW

CREATE VIEW plain AS SELECT base.amount, amount * 2 AS double FROM base WHERE kind = 'amount';
CREATE VIEW

CREATE VIEW above AS SELECT amount FROM plain;
CREATE VIEW

INSERT INTO base VALUES (1, 5, 'amount');
#1

INSERT INTO side VALUES (1, 1, 3);
#1

ALTER TABLE base RENAME kind TO sort;
ALTER TABLE

ALTER TABLE base RENAME amount TO total;
ALTER TABLE

SELECT * FROM sums;
amount|5

DROP VIEW sums;
DROP VIEW

ALTER TABLE base RENAME amount TO total;
42703 column "amount" does not exist

DROP VIEW above;
DROP VIEW

ALTER TABLE base RENAME amount TO total;
42703 column "amount" does not exist

SELECT amount, double FROM plain;
5|10

ALTER TABLE base RENAME TO ground;
ALTER TABLE

SELECT * FROM plain;
5|10

INSERT INTO ground VALUES (2, 100, 'x');
23514 new row for relation "ground" violates check constraint "base_amount_check" (Failing row contains (2, 100, x).)

ALTER TABLE side RENAME base TO ground;
ALTER TABLE

DELETE FROM ground;
23503 update or delete on table "ground" violates foreign key constraint "side_base_fkey" on table "side" (Key (id)=(1) is still referenced from table "side".)

CREATE TABLE left_one (id int, b int);
CREATE TABLE

CREATE TABLE right_one (id int, b int, d int);
CREATE TABLE

CREATE VIEW both_b AS SELECT l.b AS l, r.b AS r FROM left_one l JOIN right_one r ON l.id = r.id;
CREATE VIEW

ALTER TABLE left_one RENAME b TO d;
0A000 cannot rename column "b" of table "left_one" because other objects name it (view both_b: column l.b does not exist) (drop these objects, make the change, and create them again)

CREATE OR REPLACE VIEW both_b AS SELECT l.b AS l FROM left_one l;
42P16 cannot drop columns from view

CREATE OR REPLACE VIEW both_b AS SELECT l.b AS x, l.b AS r FROM left_one l;
42P16 cannot change name of view column "l" to "x" (Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.)

CREATE OR REPLACE VIEW both_b AS SELECT l.id AS l, l.b AS r, 1 AS one FROM left_one l;
CREATE VIEW

ALTER TABLE left_one RENAME b TO d;
ALTER TABLE

SELECT * FROM both_b;
