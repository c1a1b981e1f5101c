-- Moves money from one account to another, perhaps of another branch. Overdrawing is refused by
-- the table's check. The caller names accounts and branches that exist: this does not check it.
--
-- anabranch: keeps funds_add_up
CREATE PROCEDURE transfer(p_from_branch integer, p_from integer, p_to_branch integer, p_to integer,
                          p_amount bigint)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE accounts SET balance = balance - p_amount
    WHERE branch_id = p_from_branch AND id = p_from;
    UPDATE branches SET funds = funds - p_amount WHERE id = p_from_branch;
    UPDATE accounts SET balance = balance + p_amount WHERE branch_id = p_to_branch AND id = p_to;
    UPDATE branches SET funds = funds + p_amount WHERE id = p_to_branch;
END;

-- What a branch has, and what is in its accounts.
CREATE FUNCTION audit_branch(p_branch integer, OUT shown bigint, OUT added bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT funds INTO STRICT shown FROM branches WHERE id = p_branch;
    SELECT sum(balance) INTO added FROM accounts WHERE branch_id = p_branch;
END;
$$;

-- All the money there is: the same at any time.
CREATE FUNCTION audit(OUT in_branches numeric, OUT in_accounts numeric)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT sum(funds) INTO in_branches FROM branches;
    SELECT sum(balance) INTO in_accounts FROM accounts;
END;
$$;
