CREATE TABLE t (
    a integer CHECK (a > ),
    b integer
);
CREATE TABLE u (a integer CHECK a > 0);
