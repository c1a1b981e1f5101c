CREATE TABLE t (
    a integer PRIMARY KEY,
    b integer NOT NULL,
    PRIMARY KEY (a, b)
);
