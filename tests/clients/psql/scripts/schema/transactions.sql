-- What changes the schema is a part of its transaction.
BEGIN;
CREATE TABLE parts (id integer PRIMARY KEY, name text);
INSERT INTO parts VALUES (1, 'one'), (2, 'two');
ALTER TABLE parts ADD COLUMN size integer DEFAULT 5;
UPDATE parts SET size = id WHERE id = 2;
SELECT * FROM parts ORDER BY id;
ROLLBACK;
SELECT * FROM parts;
BEGIN;
CREATE TABLE parts (id integer PRIMARY KEY, name text);
COPY parts FROM STDIN;
1	one
2	two
\.
COMMIT;
BEGIN;
INSERT INTO parts VALUES (3, 'three');
ALTER TABLE parts ADD CONSTRAINT few CHECK (id < 3);
SELECT 1;
COMMIT;
SELECT count(*) FROM parts;
BEGIN;
INSERT INTO parts VALUES (3, 'three');
CREATE INDEX ON parts (name);
DELETE FROM parts WHERE id = 1;
COMMIT;
SELECT * FROM parts ORDER BY id;
CREATE TABLE part_a (id integer) \; CREATE TABLE parts (id integer) \; CREATE TABLE part_b (id integer);
SELECT * FROM part_a;
BEGIN READ ONLY;
DROP TABLE parts;
ROLLBACK;
DROP TABLE parts;
