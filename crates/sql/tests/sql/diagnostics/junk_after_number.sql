CREATE TABLE t (a integer DEFAULT 12abc);
