CREAT TABLE t (a integer);
CREATE TABEL u (b integer);
