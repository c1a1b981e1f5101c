CREATE TABLE t (a, b integer);
