CREATE TABLE t (a text DEFAULT 'open);
CREATE TABLE u (b integer);
