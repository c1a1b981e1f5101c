DELETE FROM notes;
COPY notes FROM STDIN;
1	one
2	two\nlines
3	back\\slash
\.
COPY notes (body, id) FROM STDIN WITH (FORMAT csv, HEADER);
body,id
"quoted, ""four""",4
five,5
\.
COPY notes FROM STDIN CSV DELIMITER ';' QUOTE '''';
6;'six'
\.
COPY (SELECT id, body FROM notes ORDER BY id) TO STDOUT;
COPY (SELECT id, body FROM notes ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER, FORCE_QUOTE (body));
COPY (SELECT id, nullif(body, 'five') AS body FROM notes WHERE id > 3 ORDER BY id) TO STDOUT (NULL 'nothing', DELIMITER '|');
\copy notes from stdin
7
\.
\copy notes from stdin
8	eight
x	nine
\.
\copy notes from stdin
8	eight	more
\.
COPY notes FROM STDIN (FORMAT csv, DELIMITER 'xx');
COPY notes FROM STDIN (FORMAT xml);
COPY notes (nothing) FROM STDIN;
COPY nothing TO STDOUT;
SELECT count(*) FROM notes;
DELETE FROM notes;
