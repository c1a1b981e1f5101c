CREATE TABLE many (id int PRIMARY KEY, v int)
INSERT INTO many VALUES (1, 4), (2, 5), (3, 6)
-- Cursors that are held
DECLARE c CURSOR WITH HOLD FOR SELECT id FROM many ORDER BY id
SELECT name, statement, is_holdable, is_binary, is_scrollable, creation_time IS NOT NULL FROM pg_cursors
FETCH 2 FROM c
BEGIN
DECLARE d SCROLL CURSOR WITH HOLD FOR SELECT v FROM many ORDER BY id
DECLARE e CURSOR FOR SELECT 1
SELECT name, is_holdable, is_scrollable FROM pg_cursors WHERE name <> 'e' ORDER BY name
SELECT count(*) FROM pg_cursors
COMMIT
SELECT name FROM pg_cursors ORDER BY name
FETCH d
FETCH e
BEGIN
DECLARE f CURSOR WITH HOLD FOR SELECT 1
ROLLBACK
FETCH f
FETCH ALL FROM c
CLOSE c
SELECT 1 FROM pg_cursors WHERE name = 'c'
CLOSE ALL
SELECT count(*) FROM pg_cursors
DECLARE g CURSOR FOR SELECT 1
