CREATE TABLE account (
    id bigint PRIMARY KEY,
    owner text NOT NULL,
    balance numeric(12, 2) NOT NULL CHECK (balance >= 0)
);
CREATE TABLE entry (
    id bigserial PRIMARY KEY,
    account_id bigint NOT NULL REFERENCES account (id),
    amount numeric(12, 2) NOT NULL,
    remark text
);
