CREATE TABLE t (
    a integer CONSTRAINT positive CHECK (a > 0),
    b integer CONSTRAINT positive CHECK (b > 0)
);
