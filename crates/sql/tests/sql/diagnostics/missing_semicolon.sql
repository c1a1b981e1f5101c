CREATE TABLE t (
    a integer PRIMARY KEY
)
CREATE TABLE u (b integer);
