CREATE TABLE t (a integer, b text);
CREATE INDEX i ON t (lower(b));
CREATE INDEX j ON t (a) WHERE a > 0;
CREATE INDEX k ON t USING hash (a);
CREATE UNIQUE INDEX l ON t (a) NULLS NOT DISTINCT;
CREATE INDEX m ON missing (a);
