-- Tables come, change and go.
DROP TABLE IF EXISTS memos;
CREATE TABLE memos (id serial PRIMARY KEY, body text NOT NULL);
CREATE TABLE IF NOT EXISTS memos (id integer);
\d memos
INSERT INTO memos (body) VALUES ('one'), ('two') RETURNING body;
ALTER TABLE memos ADD COLUMN author text NOT NULL DEFAULT 'ann', ADD CHECK (length(body) > 2);
CREATE UNIQUE INDEX by_body ON memos (body);
\d memos
INSERT INTO memos (id, body) VALUES (7, 'no');
INSERT INTO memos (body) VALUES ('two');
ALTER TABLE memos ALTER COLUMN body TYPE varchar(10) USING upper(body);
SELECT body, author FROM memos ORDER BY body;
ALTER TABLE memos ADD UNIQUE (author);
ALTER TABLE memos ALTER COLUMN author DROP NOT NULL, ALTER COLUMN author DROP DEFAULT;
INSERT INTO memos (body) VALUES ('THREE') RETURNING author;
ALTER TABLE memos ALTER COLUMN author SET NOT NULL;
ALTER TABLE memos RENAME COLUMN author TO writer;
ALTER TABLE memos RENAME TO remarks;
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
