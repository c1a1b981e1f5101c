CREATE TABLE account (
    id      integr PRIMARY KEY,
    details jsonb,
    balance money NOT NULL
);
