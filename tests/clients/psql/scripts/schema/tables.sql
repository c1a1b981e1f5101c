-- Tables come, change and go.
DROP TABLE IF EXISTS notes;
CREATE TABLE notes (id serial PRIMARY KEY, body text NOT NULL);
CREATE TABLE IF NOT EXISTS notes (id integer);
\d notes
INSERT INTO notes (body) VALUES ('one'), ('two') RETURNING body;
ALTER TABLE notes ADD COLUMN author text NOT NULL DEFAULT 'ann', ADD CHECK (length(body) > 2);
CREATE UNIQUE INDEX by_body ON notes (body);
\d notes
INSERT INTO notes (id, body) VALUES (7, 'no');
INSERT INTO notes (body) VALUES ('two');
ALTER TABLE notes ALTER COLUMN body TYPE varchar(10) USING upper(body);
SELECT body, author FROM notes ORDER BY body;
ALTER TABLE notes ADD UNIQUE (author);
ALTER TABLE notes ALTER COLUMN author DROP NOT NULL, ALTER COLUMN author DROP DEFAULT;
INSERT INTO notes (body) VALUES ('THREE') RETURNING author;
ALTER TABLE notes ALTER COLUMN author SET NOT NULL;
ALTER TABLE notes RENAME COLUMN author TO writer;
ALTER TABLE notes RENAME TO remarks;
SELECT writer FROM remarks WHERE body = 'ONE';
CREATE TABLE replies (id integer PRIMARY KEY, remark integer REFERENCES remarks ON DELETE CASCADE);
INSERT INTO replies VALUES (2, 999);
INSERT INTO replies SELECT 1, min(id) FROM remarks;
\d replies
DROP TABLE remarks;
TRUNCATE remarks;
TRUNCATE remarks RESTART IDENTITY CASCADE;
SELECT count(*) FROM replies;
INSERT INTO remarks (body) VALUES ('FOUR') RETURNING id < 9;
CREATE VIEW short AS SELECT id, body FROM remarks WHERE length(body) < 5;
SELECT body FROM short;
DROP TABLE remarks CASCADE;
SELECT * FROM short;
\d replies
DROP TABLE replies;
DROP TABLE replies;
