-- SmallBank: customers of a bank, each with a savings and a checking account.
--
-- After M. Alomari, M. Cahill, A. Fekete, U. Röhm: The Cost of Serializability on Platforms That
-- Use Snapshot Isolation (ICDE 2008).

-- Customers are known to the outside by name, inside by number.
CREATE TABLE account (
    name        varchar(64) NOT NULL,
    customer_id integer     NOT NULL,
    PRIMARY KEY (name),
    UNIQUE (customer_id)
);

-- Savings are never overdrawn.
CREATE TABLE savings (
    customer_id integer        NOT NULL,
    balance     numeric(12, 2) NOT NULL CHECK (balance >= 0),
    PRIMARY KEY (customer_id),
    FOREIGN KEY (customer_id) REFERENCES account (customer_id)
);

-- Checking accounts may be, by a check that both accounts together do not cover.
CREATE TABLE checking (
    customer_id integer        NOT NULL,
    balance     numeric(12, 2) NOT NULL,
    PRIMARY KEY (customer_id),
    FOREIGN KEY (customer_id) REFERENCES account (customer_id)
);
