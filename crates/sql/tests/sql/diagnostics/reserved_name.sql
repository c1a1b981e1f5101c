CREATE TABLE order (id integer PRIMARY KEY);
CREATE TABLE t (user text);
