SELECT 1 AS an_int4, 'x' AS a_text, 2.5::numeric(6, 2) AS a_numeric, now() AS a_timestamptz \gdesc
SELECT a_varchar, a_char, a_money, a_uuid FROM every_type \gdesc
SELECT some_int4, some_text FROM every_array \gdesc
SELECT * FROM divide(1, 2) \gdesc
SELECT divide(1, 2) \gdesc
INSERT INTO notes VALUES (1, 'x') \gdesc
SELECT no_such_column FROM notes \gdesc
