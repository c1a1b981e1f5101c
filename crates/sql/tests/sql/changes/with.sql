CREATE TABLE team (id bigint PRIMARY KEY, name text NOT NULL UNIQUE, n integer NOT NULL CHECK (n >= 0));
CREATE TABLE

CREATE TABLE player (id bigint PRIMARY KEY, team bigint NOT NULL REFERENCES team, goals integer NOT NULL);
CREATE TABLE

CREATE TABLE past (id bigint PRIMARY KEY, goals integer NOT NULL, said text DEFAULT 'none');
CREATE TABLE

CREATE TABLE log (n integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, said text);
CREATE TABLE

INSERT INTO team VALUES (1, 'red', 0), (2, 'blue', 10), (3, 'none', 5);
#3

INSERT INTO player VALUES (1, 1, 3), (2, 1, 4), (3, 2, 1);
#3

WITH gone AS (DELETE FROM player WHERE id = 3 RETURNING id, goals) INSERT INTO past (id, goals) SELECT * FROM gone RETURNING *;
3|1|none

SELECT id FROM player ORDER BY id;
1; 2

WITH gone AS (DELETE FROM past RETURNING *) SELECT * FROM gone;
3|1|none

SELECT count(*) FROM past;
0

WITH t AS (INSERT INTO team VALUES (4, 'green', 1) RETURNING id) INSERT INTO player SELECT 40 + g, t.id, 0 FROM t, generate_series(1, 2) AS g;
#2

WITH p AS (INSERT INTO player VALUES (50, 5, 1) RETURNING team) INSERT INTO team SELECT team, 'black', 0 FROM p;
#1

WITH p AS (DELETE FROM player WHERE team = 5) DELETE FROM team WHERE id = 5;
#1

WITH t AS (DELETE FROM team WHERE id = 4) DELETE FROM player WHERE team = 4 RETURNING id;
41; 42

WITH t AS (DELETE FROM team WHERE id = 1) DELETE FROM player WHERE id = 1;
23503 update or delete on table "team" violates foreign key constraint "player_team_fkey" on table "player" (Key (id)=(1) is still referenced from table "player".)

WITH p AS (INSERT INTO player VALUES (60, 6, 1) RETURNING team) INSERT INTO team SELECT team + 1, 'black', 0 FROM p;
23503 insert or update on table "player" violates foreign key constraint "player_team_fkey" (Key (team)=(6) is not present in table "team".)

SELECT id, n FROM team ORDER BY id;
1|0; 2|10; 3|5

SELECT id, team FROM player ORDER BY id;
1|1; 2|1

WITH up AS (UPDATE team SET n = n + 1 RETURNING id, n) SELECT team.id, team.n, up.n FROM team JOIN up USING (id) ORDER BY 1;
1|0|1; 2|10|11; 3|5|6

WITH new AS (INSERT INTO team VALUES (9, 'new', 9) RETURNING id) SELECT id FROM new UNION ALL SELECT id FROM team WHERE name = 'new';
9

WITH new AS (INSERT INTO team VALUES (9, 'new', 9) ON CONFLICT DO NOTHING RETURNING id) SELECT id FROM new UNION ALL SELECT id FROM team WHERE name = 'new';
9

WITH gone AS (DELETE FROM team WHERE id = 9) SELECT count(*) FROM team;
4

WITH one AS (INSERT INTO log (said) VALUES ('a') RETURNING n), two AS (INSERT INTO log (said) SELECT 'b' || n FROM one RETURNING n) SELECT one.n, two.n, (SELECT count(*) FROM log) FROM one, two;
1|2|0

WITH new AS (INSERT INTO past VALUES (1, 1)) UPDATE past SET goals = 7;
#0

SELECT * FROM past;
1|1|none

WITH goals AS (SELECT team, sum(goals)::int AS goals FROM player GROUP BY team), up AS (UPDATE team SET n = goals.goals FROM goals WHERE goals.team = team.id RETURNING team.id, team.n), told AS (SELECT 'team ' || id || ' has ' || n AS said FROM up) INSERT INTO log (said) SELECT said FROM told RETURNING n, said;
3|team 1 has 7

WITH a AS (DELETE FROM log WHERE said LIKE 'b%' RETURNING n), b AS (SELECT max(n) AS n FROM a), c AS (INSERT INTO log (said) SELECT 'max ' || n FROM b RETURNING said) SELECT * FROM c;
max 2

WITH a (x, y) AS (UPDATE past SET goals = goals + 1 RETURNING id, goals) SELECT y, x FROM a WHERE x > 0;
2|1

WITH a AS (UPDATE past SET goals = goals + 1 RETURNING *) SELECT one.id, two.goals FROM a AS one, a AS two;
1|3

WITH a AS (UPDATE past SET goals = 0 WHERE false RETURNING *) SELECT count(*) FROM a;
0

WITH up AS (UPDATE past SET goals = 5 WHERE id = 2 RETURNING *) INSERT INTO past SELECT 2, 5 WHERE NOT EXISTS (SELECT 1 FROM up);
#1

WITH up AS (UPDATE past SET goals = 6 WHERE id = 2 RETURNING *) INSERT INTO past SELECT 2, 6 WHERE NOT EXISTS (SELECT 1 FROM up);
#0

SELECT * FROM past ORDER BY id;
1|3|none; 2|6|none

WITH up AS (UPDATE past SET goals = 8 WHERE id = 1) UPDATE past SET goals = 9 WHERE id = 2 RETURNING id;
2

SELECT * FROM past ORDER BY id;
1|8|none; 2|9|none

WITH gone AS (DELETE FROM past WHERE id = 1 RETURNING *) INSERT INTO past SELECT id, goals + 100 FROM gone;
#1

SELECT * FROM past ORDER BY id;
1|108|none; 2|9|none

WITH one AS (INSERT INTO past VALUES (7, 7)) INSERT INTO past VALUES (7, 8);
23505 duplicate key value violates unique constraint

WITH one AS (INSERT INTO past VALUES (7, 7)) DELETE FROM past WHERE id = 7;
#0

SELECT * FROM past ORDER BY id;
1|108|none; 2|9|none; 7|7|none

WITH bad AS (UPDATE team SET n = -1 WHERE id = 2) INSERT INTO log (said) VALUES ('not kept');
23514 new row for relation "team" violates check constraint "team_n_check" (Failing row contains (2, blue, -1).)

SELECT count(*) FROM log WHERE said = 'not kept';
0

WITH a AS (DELETE FROM past) SELECT * FROM a;
0A000 WITH query "a" does not have a RETURNING clause

WITH a (x, y) AS (DELETE FROM past RETURNING id) SELECT x FROM a;
42P10 WITH query "a" has 1 columns available but 2 columns specified

SELECT * FROM (WITH a AS (DELETE FROM past RETURNING id) SELECT id FROM a) AS b;
0A000 WITH clause containing a data-modifying statement must be at the top level

INSERT INTO log (said) WITH a AS (DELETE FROM past RETURNING said) SELECT said FROM a;
0A000 WITH clause containing a data-modifying statement must be at the top level

WITH a AS (INSERT INTO nothing VALUES (1)) SELECT 1;
42P01 relation "nothing" does not exist

WITH a AS (SELECT 1 AS n), a AS (DELETE FROM past RETURNING id) SELECT 1;
42712 WITH query name "a" specified more than once

SELECT count(*) FROM past;
3

CREATE TABLE orders (id integer PRIMARY KEY, total integer);
CREATE TABLE

CREATE TABLE lines (id integer PRIMARY KEY, of integer REFERENCES orders ON DELETE CASCADE, gift integer REFERENCES orders ON DELETE SET NULL);
CREATE TABLE

INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3);
#3

INSERT INTO lines VALUES (1, 1, 2), (2, 1, 3), (3, 2, 1);
#3

WITH l AS (DELETE FROM lines WHERE of = 1 RETURNING id) DELETE FROM orders WHERE id = 1 RETURNING id;
1

SELECT * FROM lines;
3|2|-

WITH o AS (DELETE FROM orders WHERE id = 2) DELETE FROM lines WHERE of = 2 RETURNING id;
3

SELECT * FROM lines;


SELECT * FROM orders;
3|3

CREATE TABLE strict (id integer PRIMARY KEY, of integer REFERENCES orders ON DELETE RESTRICT);
CREATE TABLE

INSERT INTO strict VALUES (1, 3);
#1

WITH s AS (DELETE FROM strict) DELETE FROM orders RETURNING id;
3

SELECT count(*) FROM orders;
0

WITH one AS (INSERT INTO past VALUES (8, 8)) INSERT INTO past VALUES (8, 9) ON CONFLICT DO NOTHING;
0A000 ON CONFLICT of "past" beside a part of the WITH that inserts into it, deletes from it or changes the key is not supported

WITH one AS (UPDATE past SET goals = 8 WHERE id = 2) UPDATE past SET goals = 9 WHERE id = 2;
0A000 two parts of a WITH change the same row (Write them as statements of their own, in a transaction.)

WITH one AS (DELETE FROM past WHERE id = 2) DELETE FROM past;
0A000 two parts of a WITH change the same row (Write them as statements of their own, in a transaction.)

WITH RECURSIVE one AS (DELETE FROM past RETURNING id) SELECT * FROM one;
0A000 WITH RECURSIVE with a statement that changes data is not supported

CREATE TABLE staff (id integer PRIMARY KEY, boss integer REFERENCES staff ON DELETE CASCADE);
CREATE TABLE

INSERT INTO staff VALUES (1, 1), (2, 1), (3, 2);
#3

WITH gone AS (DELETE FROM staff WHERE id = 1 RETURNING id) SELECT * FROM gone;
1

SELECT count(*) FROM staff;
0

CREATE TABLE tree (id integer PRIMARY KEY, up integer REFERENCES tree ON UPDATE CASCADE);
CREATE TABLE

INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2);
#3

WITH moved AS (UPDATE tree SET id = id + 10 RETURNING id) SELECT count(*) FROM moved;
3

SELECT id, coalesce(up, 0) FROM tree ORDER BY id;
11|0; 12|11; 13|12

CREATE TABLE p (id integer PRIMARY KEY);
CREATE TABLE

CREATE TABLE pair (a integer REFERENCES p ON UPDATE CASCADE, b integer REFERENCES p ON UPDATE CASCADE, PRIMARY KEY (a, b));
CREATE TABLE

CREATE TABLE two (id integer PRIMARY KEY, a integer REFERENCES p ON DELETE SET NULL, b integer REFERENCES p ON DELETE SET NULL, g integer GENERATED ALWAYS AS (coalesce(a, 0) + coalesce(b, 0)) STORED);
CREATE TABLE

INSERT INTO p VALUES (4), (5);
#2

INSERT INTO pair VALUES (5, 5);
#1

INSERT INTO two (id, a, b) VALUES (9, 4, 4);
#1

WITH moved AS (UPDATE p SET id = 6 WHERE id = 5 RETURNING id) SELECT * FROM moved;
6

SELECT * FROM pair;
6|6

WITH gone AS (DELETE FROM p WHERE id = 4 RETURNING id) SELECT * FROM gone;
4

SELECT id, a IS NULL, b IS NULL, g FROM two;
9|t|t|0

CREATE TABLE kept (id integer PRIMARY KEY, v integer);
CREATE TABLE

CREATE TABLE bound (id integer PRIMARY KEY, of integer REFERENCES kept ON DELETE RESTRICT, also integer REFERENCES kept);
CREATE TABLE

INSERT INTO kept VALUES (1, 1), (2, 1);
#2

INSERT INTO bound VALUES (1, 1, NULL), (2, NULL, 2);
#2

WITH gone AS (DELETE FROM kept WHERE id = 1 RETURNING *) INSERT INTO kept SELECT id, v + 1 FROM gone;
23503 update or delete on table "kept" violates foreign key constraint "bound_of_fkey" on table "bound" (Key (id)=(1) is still referenced from table "bound".)

WITH gone AS (DELETE FROM kept WHERE id = 2 RETURNING *) INSERT INTO kept SELECT id, v + 1 FROM gone;
#1

SELECT * FROM kept ORDER BY id;
1|1; 2|2

CREATE TABLE chi (id integer PRIMARY KEY, of integer REFERENCES kept ON DELETE CASCADE);
CREATE TABLE

WITH b AS (DELETE FROM bound), gone AS (DELETE FROM kept WHERE id = 1 RETURNING id) INSERT INTO chi SELECT 9, id FROM gone;
#1

SELECT count(*) FROM chi;
0

SELECT id FROM kept;
2

WITH kept AS (SELECT 7 AS id) SELECT k.id, kept.id FROM public.kept AS k, kept;
2|7

WITH gone AS (DELETE FROM past WHERE id = 2 RETURNING id, goals) INSERT INTO past SELECT * FROM gone ON CONFLICT DO NOTHING;
0A000 ON CONFLICT of "past" beside a part of the WITH that inserts into it, deletes from it or changes the key is not supported

WITH up AS (UPDATE past SET id = id + 1) INSERT INTO past VALUES (3, 3) ON CONFLICT (id) DO NOTHING;
0A000 ON CONFLICT of "past" beside a part of the WITH that inserts into it, deletes from it or changes the key is not supported

WITH up AS (UPDATE past SET goals = goals + 1 RETURNING id) INSERT INTO past SELECT 2, 2 WHERE NOT EXISTS (SELECT 1 FROM up WHERE id = 2) ON CONFLICT (id) DO NOTHING;
#0
