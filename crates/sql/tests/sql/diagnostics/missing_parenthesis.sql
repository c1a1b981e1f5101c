CREATE TABLE t (
    a integer PRIMARY KEY,
    b integer;

CREATE TABLE u (c integr);
