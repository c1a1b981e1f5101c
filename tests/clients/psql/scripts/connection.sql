\conninfo
\encoding
\echo :DBNAME :USER :HOST :ENCODING
SELECT current_setting('server_version_num')::integer / 10000 AS major;
SHOW server_encoding;
SHOW client_encoding;
SHOW standard_conforming_strings;
SHOW integer_datetimes;
SHOW DateStyle;
\timing on
SELECT 1 AS one;
\timing off
-- A connection of its own.
\c
SELECT 2 AS two;
