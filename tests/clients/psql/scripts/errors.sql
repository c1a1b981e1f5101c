SELEC 1;
SELECT 1 FROM FROM notes;
SELECT *
FROM notes
WHERE no_such_column = 1;
SELECT 'äöü', no_such_column FROM notes;
SELECT * FROM no_such_table;
SELECT 1 / 0;
SELECT 'x'::integer;
SELECT 2147483647 + 1;
SELECT 'not a uuid'::uuid;
SELECT 1::no_such_type;
SELECT id FROM customers, orders;
SELECT email, count(*) FROM customers GROUP BY id, age;
SELECT 1 WHERE 'a' = 1;
INSERT INTO customers VALUES (1, 'a@example.org', 30);
INSERT INTO customers VALUES (1, 'b@example.org', 30);
INSERT INTO customers VALUES (2, 'a@example.org', 30);
INSERT INTO customers VALUES (2, 'b@example.org', -1);
INSERT INTO customers VALUES (2, NULL, 30);
INSERT INTO customers (id, email, age, extra) VALUES (2, 'b@example.org', 30, 1);
INSERT INTO customers VALUES (2, 'b@example.org', 30, 1);
INSERT INTO orders VALUES (1, 99, 5);
INSERT INTO orders VALUES (1, 1, 123456789);
INSERT INTO orders VALUES (1, 1, 5);
DELETE FROM customers WHERE id = 1;
UPDATE customers SET id = 5 WHERE id = 1;
\errverbose
\set VERBOSITY sqlstate
SELECT 1 / 0;
\set VERBOSITY terse
SELECT * FROM no_such_table;
\set VERBOSITY verbose
INSERT INTO customers VALUES (1, 'b@example.org', 30);
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT refuse('with a reason');
SELECT 'unterminated;
'
;
SELECT "unterminated
"
;
SELECT 1 AS still_works \; SELECT 1 / 0 \; SELECT 2 AS not_reached;
SELECT 3 AS goes_on;
