CREATE TABLE account (id integer PRIMARY KEY, owner text, balance integer NOT NULL CHECK (balance >= 0));
CREATE TABLE

CREATE TABLE entry (id integer, amount integer, note text);
CREATE TABLE

INSERT INTO account VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'cy', 0);
#3

INSERT INTO entry VALUES (1, 5, 'in'), (2, -20, 'out'), (4, 7, 'new');
#3

MERGE INTO account USING entry ON account.id = entry.id WHEN MATCHED THEN UPDATE SET balance = balance + amount WHEN NOT MATCHED THEN INSERT VALUES (entry.id, entry.note, amount);
#3

SELECT * FROM account ORDER BY id;
1|ann|15; 2|bob|0; 3|cy|0; 4|new|7

MERGE INTO account AS a USING entry AS e ON a.id = e.id WHEN MATCHED AND a.balance = 0 THEN DELETE WHEN MATCHED AND amount > 6 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET owner = owner || '!', balance = a.balance + 1 WHEN NOT MATCHED THEN INSERT (id, balance) VALUES (e.id, 1);
#2

SELECT * FROM account ORDER BY id;
1|ann!|16; 3|cy|0; 4|new|7

MERGE INTO account AS a USING (SELECT id, sum(amount)::int AS amount FROM entry GROUP BY id) AS e ON a.id = e.id WHEN NOT MATCHED AND amount > 0 THEN INSERT (id, balance) VALUES (e.id, 1) WHEN NOT MATCHED THEN INSERT (id, owner, balance) VALUES (e.id, 'low', DEFAULT);
23502 null value in column "balance" of relation "account" violates not-null constraint (Failing row contains (2, low, null).)

MERGE INTO account AS a USING (VALUES (1, 2), (8, 9)) AS e (id, amount) ON a.id = e.id WHEN MATCHED THEN UPDATE SET balance = e.amount WHEN NOT MATCHED THEN INSERT (id, balance) VALUES (e.id, e.amount);
#2

SELECT * FROM account ORDER BY id;
1|ann!|2; 3|cy|0; 4|new|7; 8|-|9

INSERT INTO entry VALUES (1, 1, 'twice');
#1

MERGE INTO account USING entry ON account.id = entry.id WHEN MATCHED THEN UPDATE SET balance = balance + amount;
21000 MERGE command cannot affect row a second time (Ensure that not more than one source row matches any one target row.)

MERGE INTO account USING entry ON account.id = entry.id WHEN MATCHED THEN DELETE;
21000 MERGE command cannot affect row a second time (Ensure that not more than one source row matches any one target row.)

MERGE INTO account USING entry ON account.id = entry.id WHEN MATCHED AND note = 'in' THEN UPDATE SET balance = 0 WHEN MATCHED AND note = 'twice' THEN DELETE;
21000 MERGE command cannot affect row a second time (Ensure that not more than one source row matches any one target row.)

MERGE INTO account USING entry ON account.id = entry.id WHEN MATCHED AND note = 'in' THEN UPDATE SET balance = 0 WHEN MATCHED AND note = 'twice' THEN DO NOTHING;
#1

MERGE INTO account USING entry ON account.id = entry.id + 10 WHEN NOT MATCHED AND entry.id = 1 THEN INSERT VALUES (entry.id + 10, note, 1);
23505 duplicate key value violates unique constraint

SELECT * FROM account ORDER BY id;
1|ann!|0; 3|cy|0; 4|new|7; 8|-|9

MERGE INTO account USING (SELECT 1 AS one) AS s ON account.id = 8 WHEN MATCHED THEN UPDATE SET balance = -1;
23514 new row for relation "account" violates check constraint "account_balance_check" (Failing row contains (8, null, -1).)

MERGE INTO account USING (SELECT 1 AS one) AS s ON account.id = 8 WHEN MATCHED THEN UPDATE SET id = 9;
#1

WITH e AS (SELECT id, amount FROM entry WHERE note = 'new') MERGE INTO account AS a USING e ON a.id = e.id WHEN MATCHED THEN UPDATE SET balance = 100 WHEN NOT MATCHED THEN INSERT VALUES (e.id, 'with', e.amount);
#1

SELECT * FROM account ORDER BY id;
1|ann!|0; 3|cy|0; 4|new|100; 9|-|9

MERGE INTO account AS a USING account AS b ON a.id = b.id + 1 WHEN MATCHED THEN UPDATE SET balance = b.balance WHEN NOT MATCHED THEN INSERT VALUES (b.id + 20, 'self', 0);
#4

SELECT * FROM account ORDER BY id;
1|ann!|0; 3|cy|0; 4|new|0; 9|-|9; 21|self|0; 24|self|0; 29|self|0

MERGE INTO nothing USING entry ON true WHEN MATCHED THEN DELETE;
42P01 relation "nothing" does not exist

MERGE INTO account USING entry ON account.id = entry.id WHEN MATCHED THEN UPDATE SET nothing = 1;
42703 column "nothing" of relation "account" does not exist

MERGE INTO account USING entry ON account.id = entry.id WHEN NOT MATCHED THEN INSERT VALUES (account.id, 'x', 1);
42P01 missing FROM-clause entry for table "account"

MERGE INTO account AS a USING (SELECT id, gen_random_uuid() AS drawn FROM entry) AS e ON a.id = e.id WHEN MATCHED THEN UPDATE SET balance = 1 WHEN NOT MATCHED THEN INSERT VALUES (e.id, e.drawn::text, 1);
0A000 a function that draws in the source or a condition of a MERGE is not supported

CREATE TABLE branch (id integer PRIMARY KEY, up integer REFERENCES branch ON UPDATE CASCADE ON DELETE SET NULL);
CREATE TABLE

INSERT INTO branch VALUES (1, 1), (5, NULL), (6, 5);
#3

MERGE INTO branch USING (VALUES (1)) AS s (id) ON branch.id = s.id WHEN MATCHED THEN UPDATE SET id = 2;
#1

MERGE INTO branch USING (VALUES (5), (6)) AS s (id) ON branch.id = s.id WHEN MATCHED AND s.id = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET id = 60;
#2

SELECT id, coalesce(up, 0) FROM branch ORDER BY id;
2|2; 60|0

WITH branch AS (SELECT 99 AS id) MERGE INTO branch USING (VALUES (2), (3)) AS s (id) ON branch.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, NULL);
#1

MERGE INTO branch USING (VALUES (8)) AS s (id) ON id = id WHEN NOT MATCHED THEN INSERT VALUES (s.id, NULL);
42702 column reference "id" is ambiguous

MERGE INTO branch USING branch ON true WHEN NOT MATCHED THEN INSERT VALUES (5, NULL);
42712 table name "branch" specified more than once

MERGE INTO branch USING (VALUES (8)) AS s (id) ON branch.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING;
42601 unreachable WHEN clause specified after unconditional WHEN clause

MERGE INTO branch USING (VALUES (8)) AS s (id) ON branch.id = s.id WHEN MATCHED THEN DO NOTHING;
#0

SELECT count(*) FROM branch;
3
