CREATE TABLE t (id integer PRIMARY KEY, email text, a integer, b integer, g integer GENERATED ALWAYS AS (a + 1) STORED, ts timestamptz, arr integer[], j jsonb);
CREATE TABLE

CREATE INDEX ON t (lower(email));
CREATE INDEX

CREATE UNIQUE INDEX ON t (lower(email), (a + b));
CREATE INDEX

CREATE INDEX ON t ((a + b), (a - b), lower(email), lower(email));
CREATE INDEX

CREATE INDEX ON t ((a));
CREATE INDEX

CREATE INDEX ON t ((email || 'x'));
CREATE INDEX

CREATE INDEX ON t ((email::varchar(3)));
CREATE INDEX

CREATE INDEX ON t (coalesce(a, b));
CREATE INDEX

CREATE INDEX ON t (greatest(a, b));
CREATE INDEX

CREATE INDEX ON t ((a IS NULL));
CREATE INDEX

CREATE INDEX ON t ((j ->> 'k'));
CREATE INDEX

CREATE INDEX ON t ((g * 2));
CREATE INDEX

CREATE INDEX ON t ((1));
CREATE INDEX

CREATE INDEX ON t (substring(email from 1 for 2));
CREATE INDEX

CREATE INDEX ON t (cast(a AS bigint));
CREATE INDEX

CREATE INDEX ON t (upper(lower(email)) DESC NULLS LAST, a);
CREATE INDEX

CREATE INDEX ON t (a) WHERE b > 1;
CREATE INDEX

CREATE UNIQUE INDEX ON t (a, lower(email)) WHERE b > 1 AND email IS NOT NULL;
CREATE INDEX

CREATE INDEX ON t (random());
42P17 functions in index expression must be marked IMMUTABLE

CREATE INDEX ON t (now());
42P17 functions in index expression must be marked IMMUTABLE

CREATE INDEX ON t ((ts::date));
42P17 functions in index expression must be marked IMMUTABLE

CREATE INDEX ON t (a) WHERE ts > now();
42P17 functions in index predicate must be marked IMMUTABLE

CREATE INDEX ON t (a) WHERE b;
42804 argument of WHERE must be type boolean, not type integer

CREATE INDEX ON t (a) WHERE (SELECT true);
0A000 cannot use subquery in index predicate

CREATE INDEX ON t (sum(a));
42803 aggregate functions are not allowed in index expressions

CREATE INDEX ON t (a) WHERE sum(a) > 1;
42803 aggregate functions are not allowed in index predicates

CREATE INDEX ON t (x);
42703 column "x" does not exist

CREATE INDEX ON t (lower(x));
42703 column "x" does not exist

CREATE INDEX ON t (lower(a));
42883 function lower(integer) does not exist

CREATE INDEX ON t (a + b);
42601 syntax error at or near "+"

CREATE INDEX ON t (a) WHERE x = 1;
42703 column "x" does not exist

CREATE INDEX ON t (concat(email, 'x'));
42P17 functions in index expression must be marked IMMUTABLE

CREATE INDEX ON t (nosuch(a));
42883 function nosuch(integer) does not exist

SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 't' ORDER BY 1;
t_a_idx|CREATE INDEX t_a_idx ON public.t USING btree (a); t_a_idx1|CREATE INDEX t_a_idx1 ON public.t USING btree (((a)::bigint)); t_a_idx2|CREATE INDEX t_a_idx2 ON public.t USING btree (a) WHERE (b > 1); t_a_lower_idx|CREATE UNIQUE INDEX t_a_lower_idx ON public.t USING btree (a, lower(email)) WHERE ((b > 1) AND (email IS NOT NULL)); t_coalesce_idx|CREATE INDEX t_coalesce_idx ON public.t USING btree (COALESCE(a, b)); t_email_idx|CREATE INDEX t_email_idx ON public.t USING btree (((email)::character varying(3))); t_expr_expr1_lower_lower1_idx|CREATE INDEX t_expr_expr1_lower_lower1_idx ON public.t USING btree (((a + b)), ((a - b)), lower(email), lower(email)); t_expr_idx|CREATE INDEX t_expr_idx ON public.t USING btree (((email || 'x'::text))); t_expr_idx1|CREATE INDEX t_expr_idx1 ON public.t USING btree (((a IS NULL))); t_expr_idx2|CREATE INDEX t_expr_idx2 ON public.t USING btree (((j ->> 'k'))); t_expr_idx3|CREATE INDEX t_expr_idx3 ON public.t USING btree (((g * 2))); t_expr_idx4|CREATE INDEX t_expr_idx4 ON public.t USING btree ((1)); t_greatest_idx|CREATE INDEX t_greatest_idx ON public.t USING btree (GREATEST(a, b)); t_lower_expr_idx|CREATE UNIQUE INDEX t_lower_expr_idx ON public.t USING btree (lower(email), ((a + b))); t_lower_idx|CREATE INDEX t_lower_idx ON public.t USING btree (lower(email)); t_pkey|CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id); t_substring_idx|CREATE INDEX t_substring_idx ON public.t USING btree (SUBSTRING(email FROM 1 FOR 2)); t_upper_a_idx|CREATE INDEX t_upper_a_idx ON public.t USING btree (upper(lower(email)), a)

INSERT INTO t (id, email, a, b) VALUES (1, 'Ann', 1, 2), (2, 'ANN', 2, 2), (3, NULL, 3, 3);
#3

INSERT INTO t (id, email, a, b) VALUES (4, 'ann', 0, 3);
23505 duplicate key value violates unique constraint

SELECT * FROM t ORDER BY id;
1|Ann|1|2|2|-|-|-; 2|ANN|2|2|3|-|-|-; 3|-|3|3|4|-|-|-

SELECT lower FROM t;
42703 column "lower" does not exist

SELECT t."lower(email)" FROM t;
42703 column t.lower(email) does not exist

INSERT INTO t VALUES (5, 'x', 1, 1, DEFAULT, NULL, NULL, NULL, 7);
42601 INSERT has more expressions than target columns

ALTER TABLE t ADD c integer DEFAULT 4, DROP COLUMN j;
ALTER TABLE

SELECT * FROM t ORDER BY id;
1|Ann|1|2|2|-|-|4; 2|ANN|2|2|3|-|-|4; 3|-|3|3|4|-|-|4

SELECT indexname FROM pg_indexes WHERE tablename = 't' ORDER BY 1;
t_a_idx; t_a_idx1; t_a_idx2; t_a_lower_idx; t_coalesce_idx; t_email_idx; t_expr_expr1_lower_lower1_idx; t_expr_idx; t_expr_idx1; t_expr_idx3; t_expr_idx4; t_greatest_idx; t_lower_expr_idx; t_lower_idx; t_pkey; t_substring_idx; t_upper_a_idx

DROP TABLE t;
DROP TABLE

CREATE TABLE u (id integer PRIMARY KEY, email text, a integer, b integer);
CREATE TABLE

CREATE UNIQUE INDEX u_email ON u (lower(email));
CREATE INDEX

CREATE UNIQUE INDEX u_ab ON u ((a + b)) WHERE a > 0;
CREATE INDEX

CREATE UNIQUE INDEX u_a ON u (a) WHERE b IS NULL;
CREATE INDEX

INSERT INTO u VALUES (1, 'Ann', 1, 2);
#1

INSERT INTO u VALUES (2, 'ANN', 9, 9);
23505 duplicate key value violates unique constraint

INSERT INTO u VALUES (2, 'bob', 2, 1);
23505 duplicate key value violates unique constraint

INSERT INTO u VALUES (2, 'bob', -2, 5);
#1

INSERT INTO u VALUES (3, 'Bob', 4, 5) ON CONFLICT (lower(email)) DO UPDATE SET email = excluded.email || 'x' RETURNING *;
2|Bobx|-2|5

INSERT INTO u VALUES (4, 'c', 2, 1) ON CONFLICT ((a + b)) WHERE a > 0 DO UPDATE SET b = 100 RETURNING *;
1|Ann|1|100

INSERT INTO u VALUES (4, 'c', 2, 1) ON CONFLICT ((a + b)) DO NOTHING;
42P10 there is no unique or exclusion constraint matching the ON CONFLICT specification

INSERT INTO u VALUES (4, 'c', 2, 1) ON CONFLICT (lower(email)) WHERE a > 1 DO NOTHING RETURNING *;
4|c|2|1

INSERT INTO u VALUES (5, 'c', 2, 7) ON CONFLICT DO NOTHING;
#0

INSERT INTO u VALUES (5, 'd', 2, 7) ON CONFLICT (email) DO NOTHING;
42P10 there is no unique or exclusion constraint matching the ON CONFLICT specification

INSERT INTO u VALUES (5, 'd', 2, 7) ON CONFLICT (upper(email)) DO NOTHING;
42P10 there is no unique or exclusion constraint matching the ON CONFLICT specification

INSERT INTO u VALUES (5, 'd', 2, 7) ON CONFLICT (id) WHERE a > 3 DO UPDATE SET b = 8;
#1

INSERT INTO u VALUES (6, 'e', 6, NULL), (7, 'f', 6, 4), (8, 'g', NULL, NULL), (9, 'h', NULL, NULL);
#4

INSERT INTO u VALUES (10, 'i', 6, NULL) ON CONFLICT (a) WHERE b IS NULL DO UPDATE SET email = 'J' RETURNING *;
6|J|6|-

INSERT INTO u VALUES (10, 'i', 6, NULL) ON CONFLICT (a) DO NOTHING;
42P10 there is no unique or exclusion constraint matching the ON CONFLICT specification

UPDATE u SET b = NULL WHERE id = 5;
#1

UPDATE u SET email = NULL WHERE id > 7;
#2

SELECT * FROM u WHERE lower(email) = 'ann';
1|Ann|1|100

SELECT * FROM u WHERE a = 6 AND b IS NULL;
6|J|6|-

SELECT * FROM u ORDER BY id;
1|Ann|1|100; 2|Bobx|-2|5; 4|c|2|1; 5|d|2|-; 6|J|6|-; 7|f|6|4; 8|-|-|-; 9|-|-|-

CREATE UNIQUE INDEX ON u ((id / 100));
23505 could not create unique index "u_expr_idx" (Key ((id / 100))=(0) is duplicated.)

CREATE INDEX ON u ((1 / (id - 1)));
22012 division by zero

CREATE UNIQUE INDEX ON u (a) WHERE id IN (4, 7);
CREATE INDEX

CREATE UNIQUE INDEX ON u (b) WHERE id < 8;
CREATE INDEX

CREATE TABLE v (e text REFERENCES u (email));
42830 there is no unique constraint matching given keys for referenced table "u"

CREATE TABLE v (e integer REFERENCES u (a));
42830 there is no unique constraint matching given keys for referenced table "u"

ALTER TABLE u ADD CONSTRAINT x UNIQUE USING INDEX u_email;
42809 index "u_email" contains expressions (Cannot create a primary key or unique constraint using such an index.)

ALTER TABLE u ADD CONSTRAINT x UNIQUE USING INDEX u_a;
42809 "u_a" is a partial index (Cannot create a primary key or unique constraint using such an index.)

ALTER TABLE u ADD CHECK (a < 100);
ALTER TABLE

UPDATE u SET a = 200 WHERE id = 1;
23514 new row for relation "u" violates check constraint "u_a_check" (Failing row contains (1, Ann, 200, 100).)

ALTER TABLE u DROP COLUMN email;
ALTER TABLE

ALTER TABLE u ALTER a TYPE bigint;
ALTER TABLE

ALTER TABLE u RENAME b TO "B";
ALTER TABLE

ALTER TABLE u RENAME TO uu;
ALTER TABLE

SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'uu' ORDER BY 1;
u_a|CREATE UNIQUE INDEX u_a ON public.uu USING btree (a) WHERE ("B" IS NULL); u_a_idx|CREATE UNIQUE INDEX u_a_idx ON public.uu USING btree (a) WHERE (id = ANY (ARRAY[4, 7])); u_ab|CREATE UNIQUE INDEX u_ab ON public.uu USING btree (((a + "B"))) WHERE (a > 0); u_b_idx|CREATE UNIQUE INDEX u_b_idx ON public.uu USING btree ("B") WHERE (id < 8); u_pkey|CREATE UNIQUE INDEX u_pkey ON public.uu USING btree (id)

INSERT INTO uu VALUES (20, 3, 0);
23505 duplicate key value violates unique constraint

INSERT INTO uu VALUES (20, 6, NULL);
23505 duplicate key value violates unique constraint

DROP INDEX u_ab;
DROP INDEX

INSERT INTO uu VALUES (20, 3, 0);
#1

SELECT * FROM uu ORDER BY id;
1|1|100; 2|-2|5; 4|2|1; 5|2|-; 6|6|-; 7|6|4; 8|-|-; 9|-|-; 20|3|0
