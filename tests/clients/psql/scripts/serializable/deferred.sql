-- Foreign keys that are checked at the end of the transaction.
\set VERBOSITY verbose
CREATE TABLE parents (id integer PRIMARY KEY, code text UNIQUE);
CREATE TABLE children (
    id integer PRIMARY KEY,
    parent integer CONSTRAINT to_parent REFERENCES parents DEFERRABLE INITIALLY DEFERRED,
    code text CONSTRAINT to_code REFERENCES parents (code) DEFERRABLE
);
CREATE TABLE strict (id integer PRIMARY KEY, parent integer CONSTRAINT at_once REFERENCES parents);
SELECT conname, condeferrable, condeferred, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE contype = 'f' AND conname IN ('to_parent', 'to_code', 'at_once') ORDER BY conname;
SELECT constraint_name, is_deferrable, initially_deferred FROM information_schema.table_constraints
    WHERE constraint_name IN ('to_parent', 'to_code', 'at_once') ORDER BY constraint_name;
\d children
-- A statement by itself is a transaction.
INSERT INTO children VALUES (1, 1, NULL);
-- The parent comes later.
BEGIN;
INSERT INTO children VALUES (1, 1, NULL), (2, 2, NULL), (3, NULL, NULL);
INSERT INTO parents VALUES (1, 'one'), (2, 'two');
COMMIT;
-- It does not.
BEGIN;
INSERT INTO children VALUES (4, 4, NULL);
INSERT INTO children VALUES (5, 5, NULL);
COMMIT;
SELECT id FROM children ORDER BY id;
-- What was wrong has gone, or is right, at the end.
BEGIN;
INSERT INTO children VALUES (4, 4, NULL), (5, 5, NULL);
DELETE FROM children WHERE id = 4;
UPDATE children SET parent = 2 WHERE id = 5;
COMMIT;
-- A parent goes and comes back.
BEGIN;
DELETE FROM parents WHERE id = 1;
INSERT INTO parents VALUES (1, 'again');
COMMIT;
BEGIN;
DELETE FROM parents WHERE id = 1;
SELECT count(*) FROM parents;
COMMIT;
BEGIN;
UPDATE parents SET id = 10 WHERE id = 1;
UPDATE children SET parent = 10 WHERE parent = 1;
COMMIT;
BEGIN;
UPDATE parents SET id = 11 WHERE id = 10;
COMMIT;
-- The first one that is violated is told.
BEGIN;
DELETE FROM parents WHERE id = 2;
INSERT INTO children VALUES (6, 6, NULL);
COMMIT;
BEGIN;
INSERT INTO children VALUES (6, 6, NULL);
DELETE FROM parents WHERE id = 2;
COMMIT;
-- A key of the child changes.
BEGIN;
INSERT INTO children VALUES (6, 6, NULL);
UPDATE children SET id = 7 WHERE id = 6;
COMMIT;
-- SET CONSTRAINTS.
SET CONSTRAINTS ALL DEFERRED;
SET CONSTRAINTS nothing DEFERRED;
BEGIN;
SET CONSTRAINTS to_parent, at_once DEFERRED;
ROLLBACK;
BEGIN;
SET CONSTRAINTS at_once IMMEDIATE;
SET CONSTRAINTS children_pkey DEFERRED;
ROLLBACK;
BEGIN;
SET CONSTRAINTS to_parent, nothing IMMEDIATE;
ROLLBACK;
BEGIN;
INSERT INTO children VALUES (6, 2, 'six');
ROLLBACK;
BEGIN;
SET CONSTRAINTS public.to_code DEFERRED;
INSERT INTO children VALUES (6, 2, 'six');
INSERT INTO parents VALUES (6, 'six');
COMMIT;
BEGIN;
SET CONSTRAINTS to_parent IMMEDIATE;
INSERT INTO children VALUES (7, 7, NULL);
ROLLBACK;
BEGIN;
INSERT INTO children VALUES (7, 7, NULL);
SET CONSTRAINTS to_code IMMEDIATE;
SET CONSTRAINTS to_parent IMMEDIATE;
SELECT 1;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO children VALUES (7, 7, 'seven');
INSERT INTO strict VALUES (1, 7);
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS to_parent DEFERRED;
INSERT INTO children VALUES (7, 7, NULL);
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO parents VALUES (7, 'seven');
SET CONSTRAINTS ALL IMMEDIATE;
DELETE FROM parents WHERE id = 7;
ROLLBACK;
-- What has passed is not looked at again; what a savepoint takes back is.
BEGIN;
INSERT INTO children VALUES (7, 7, NULL);
INSERT INTO parents VALUES (7, 'seven');
SAVEPOINT before;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO before;
DELETE FROM parents WHERE id = 7;
COMMIT;
BEGIN;
SAVEPOINT before;
INSERT INTO children VALUES (7, 7, NULL);
ROLLBACK TO before;
COMMIT;
BEGIN;
SAVEPOINT before;
SET CONSTRAINTS to_parent IMMEDIATE;
ROLLBACK TO before;
INSERT INTO children VALUES (7, 7, NULL);
DELETE FROM children WHERE id = 7;
COMMIT;
BEGIN;
INSERT INTO children VALUES (7, 7, NULL);
SAVEPOINT before;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO before;
INSERT INTO parents VALUES (7, 'seven');
COMMIT;
-- Several statements in one text.
SET CONSTRAINTS ALL DEFERRED \; INSERT INTO children VALUES (8, 8, 'eight') \; INSERT INTO parents VALUES (8, 'eight');
SELECT * FROM children ORDER BY id;
SELECT * FROM parents ORDER BY id;
-- ALTER CONSTRAINT.
ALTER TABLE children ALTER CONSTRAINT to_parent NOT DEFERRABLE, ALTER CONSTRAINT to_code DEFERRABLE INITIALLY DEFERRED;
SELECT conname, condeferrable, condeferred, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE contype = 'f' AND conname IN ('to_parent', 'to_code', 'at_once') ORDER BY conname;
INSERT INTO children VALUES (9, 9, NULL);
BEGIN;
INSERT INTO children VALUES (9, 8, 'nine');
INSERT INTO parents VALUES (9, 'nine');
COMMIT;
ALTER TABLE children ALTER CONSTRAINT nothing DEFERRABLE;
ALTER TABLE children ALTER CONSTRAINT children_pkey DEFERRABLE;
ALTER TABLE children ALTER CONSTRAINT to_code NOT DEFERRABLE INITIALLY DEFERRED;
CREATE TABLE wrong (id integer CHECK (id > 0) DEFERRABLE);
CREATE TABLE wrong (id integer REFERENCES parents DEFERRABLE NOT DEFERRABLE);
CREATE TABLE wrong (id integer REFERENCES parents INITIALLY DEFERRED INITIALLY IMMEDIATE);
-- Actions do not wait.
CREATE TABLE followers (
    id integer PRIMARY KEY,
    parent integer REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE TABLE keepers (parent integer REFERENCES parents ON DELETE RESTRICT DEFERRABLE INITIALLY DEFERRED);
INSERT INTO parents VALUES (20, 'twenty'), (21, 'twenty-one');
INSERT INTO followers VALUES (1, 20);
INSERT INTO keepers VALUES (21);
BEGIN;
UPDATE parents SET id = 22 WHERE id = 20;
SELECT * FROM followers;
DELETE FROM parents WHERE id = 22;
SELECT * FROM followers;
DELETE FROM parents WHERE id = 21;
ROLLBACK;
-- A table that refers to itself.
CREATE TABLE nodes (id integer PRIMARY KEY, above integer REFERENCES nodes DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO nodes VALUES (1, 2);
INSERT INTO nodes VALUES (2, 1);
COMMIT;
BEGIN;
DELETE FROM nodes WHERE id = 1;
DELETE FROM nodes WHERE id = 2;
COMMIT;
DROP TABLE nodes, keepers, followers, strict, children, parents;
