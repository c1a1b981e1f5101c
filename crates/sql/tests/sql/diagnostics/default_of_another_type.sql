CREATE TABLE t (
    a integer PRIMARY KEY,
    b integer DEFAULT true,
    c date DEFAULT 'yesterweek',
    d integer DEFAULT nosuch(1)
);
