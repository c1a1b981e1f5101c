CREATE TABLE t (a numeric(0), b varchar(0));
CREATE TABLE u (a numeric(60, 2));
CREATE TABLE v (a numeric(4, 6));
CREATE TABLE w (a integer[] PRIMARY KEY);
