-- The operator classes of patterns order text as indexes do here anyway.
CREATE TABLE words (id integer PRIMARY KEY, word text, short varchar(20), fixed char(4));
CREATE INDEX words_word_like ON words (word text_pattern_ops);
CREATE INDEX words_short_like ON words USING btree (short varchar_pattern_ops DESC NULLS LAST);
CREATE INDEX words_fixed_like ON words (fixed bpchar_pattern_ops, word COLLATE "C" pg_catalog.text_pattern_ops);
CREATE UNIQUE INDEX words_both ON words (word COLLATE "C", id);
INSERT INTO words VALUES (1, 'beta', 'b', 'bb'), (2, 'alpha', 'a', 'aa'), (3, 'Beta', 'B', 'BB');
SELECT id FROM words WHERE word LIKE 'b%';
SELECT id FROM words WHERE short LIKE 'a%' ORDER BY id;
SELECT id FROM words WHERE fixed = 'aa';
DROP TABLE words;
