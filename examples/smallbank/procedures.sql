-- SmallBank's transactions. To write, an unknown name is an error (SQLSTATE P0002, no data found),
-- and so is an amount that the transaction does not allow (22003, numeric value out of range).

-- Balance: what a customer has in both accounts together; NULL if there is no such customer.
CREATE FUNCTION total_balance(p_name varchar(64)) RETURNS numeric
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT s.balance + c.balance
    FROM account AS a
    JOIN savings AS s ON s.customer_id = a.customer_id
    JOIN checking AS c ON c.customer_id = a.customer_id
    WHERE a.name = p_name;
END;

-- DepositChecking: pays an amount, not negative, into a checking account.
CREATE PROCEDURE deposit_checking(p_name varchar(64), p_amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    customer integer;
BEGIN
    IF p_amount < 0 THEN
        RAISE EXCEPTION 'cannot deposit a negative amount: %', p_amount USING ERRCODE = '22003';
    END IF;

    SELECT customer_id INTO STRICT customer FROM account WHERE name = p_name;

    UPDATE checking SET balance = balance + p_amount WHERE customer_id = customer;
END;
$$;

-- TransactSaving: pays into savings, or takes out of them where the amount is negative. What would
-- overdraw them is refused by the table's check.
CREATE PROCEDURE transact_savings(p_name varchar(64), p_amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    customer integer;
BEGIN
    SELECT customer_id INTO STRICT customer FROM account WHERE name = p_name;

    UPDATE savings SET balance = balance + p_amount WHERE customer_id = customer;
END;
$$;

-- Amalgamate: moves all that one customer has to the checking account of another.
CREATE PROCEDURE amalgamate(p_from varchar(64), p_to varchar(64))
LANGUAGE plpgsql AS $$
DECLARE
    giver   integer;
    taker   integer;
    saved   numeric;
    checked numeric;
BEGIN
    SELECT customer_id INTO STRICT giver FROM account WHERE name = p_from;
    SELECT customer_id INTO STRICT taker FROM account WHERE name = p_to;
    SELECT balance INTO STRICT saved FROM savings WHERE customer_id = giver;
    SELECT balance INTO STRICT checked FROM checking WHERE customer_id = giver;

    -- What was read is what moves: no money is made or lost even where this races with another.
    UPDATE savings SET balance = balance - saved WHERE customer_id = giver;
    UPDATE checking SET balance = balance - checked WHERE customer_id = giver;
    UPDATE checking SET balance = balance + saved + checked WHERE customer_id = taker;
END;
$$;

-- WriteCheck: cashes a check, with a penalty of 1 where both accounts together do not cover it.
-- Under snapshot isolation this and transact_savings, at the same time, can overdraw an account
-- without the penalty: the write skew that SmallBank is known for.
CREATE PROCEDURE write_check(p_name varchar(64), p_amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    customer integer;
    total    numeric;
BEGIN
    SELECT customer_id INTO STRICT customer FROM account WHERE name = p_name;

    SELECT s.balance + c.balance INTO STRICT total
    FROM savings AS s
    JOIN checking AS c ON c.customer_id = s.customer_id
    WHERE s.customer_id = customer;

    IF total < p_amount THEN
        UPDATE checking SET balance = balance - p_amount - 1 WHERE customer_id = customer;
    ELSE
        UPDATE checking SET balance = balance - p_amount WHERE customer_id = customer;
    END IF;
END;
$$;

-- SendPayment: moves an amount between two checking accounts, if the first has it.
CREATE PROCEDURE send_payment(p_from varchar(64), p_to varchar(64), p_amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    giver   integer;
    taker   integer;
    checked numeric;
BEGIN
    SELECT customer_id INTO STRICT giver FROM account WHERE name = p_from;
    SELECT customer_id INTO STRICT taker FROM account WHERE name = p_to;
    SELECT balance INTO STRICT checked FROM checking WHERE customer_id = giver;

    IF checked < p_amount THEN
        RAISE EXCEPTION 'insufficient funds: % of %', checked, p_amount USING ERRCODE = '22003';
    END IF;

    UPDATE checking SET balance = balance - p_amount WHERE customer_id = giver;
    UPDATE checking SET balance = balance + p_amount WHERE customer_id = taker;
END;
$$;
