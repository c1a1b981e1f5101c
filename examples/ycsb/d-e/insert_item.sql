-- What workloads D and E insert, beside the others: it stands in a folder of its own because it is the
-- only operation that has a guard. Two clients could choose the same key.
CREATE PROCEDURE insert_item(p_key bigint, p_value text)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO usertable (ycsb_key, field0) VALUES (p_key, p_value);
END;
