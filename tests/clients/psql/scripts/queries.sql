SELECT 1 AS one, 'two' AS two, NULL AS nothing, 3.50 AS three, true AS yes;
\pset null '(null)'
SELECT NULL::integer AS n, ''::text AS empty;
\x on
SELECT 1 AS one, 'zwei'::varchar(10) AS two;
\x off
SELECT 'gx' AS it \gx
SELECT 5 AS number, 'five' AS word \gset the_
\echo :the_number :the_word
SELECT :the_number + 1 AS six, :'the_word' AS word;
SELECT 'SELECT ' || n || ' AS executed' FROM generate_series(1, 3) AS n \gexec
SELECT 1 AS first \; SELECT 2 AS second;
;
VALUES (1, 'one'), (2, 'two');
SELECT n, n * n AS square FROM generate_series(1, 5) AS n ORDER BY n DESC LIMIT 3;
INSERT INTO notes VALUES (101, 'first'), (102, 'second'), (103, 'third');
SELECT * FROM notes ORDER BY id;
SELECT count(*), min(body), max(id) FROM notes;
UPDATE notes SET body = body || '!' WHERE id > 101;
DELETE FROM notes WHERE id = 103 RETURNING *;
TABLE notes;
SELECT * FROM notes WHERE id > 999;
\pset format csv
SELECT * FROM notes ORDER BY id;
\pset format unaligned
SELECT * FROM notes ORDER BY id;
\pset format aligned
\t on
SELECT body FROM notes ORDER BY id;
\t off
SELECT body, id, length(body) AS length FROM notes ORDER BY id, body \crosstabview body id length
SELECT '2024-02-29'::date AS d, '2024-02-29 12:00'::timestamp AS t, '\xdead'::bytea AS b, '{1,NULL,3}'::integer[] AS a;
SELECT 1e10::float8 AS f8, 'NaN'::float4 AS f4, 1::numeric(10, 4) AS n, 'ab'::char(4) AS c, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS u;
SELECT upper('straße') AS upper, length('日本') AS characters, substring('anabranch' FROM 4) AS sub;
