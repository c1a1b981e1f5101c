CREATE TABLE account (
    id      integr PRIMARY KEY,
    details jsonb
);
CREATE TABLE balance (
    balance money NOT NULL
);
