-- Workload F's own operation, beside the others: it stands in a folder of its own because with it
-- every write needs coordination. A transaction that reads an item in order to change it must not lose what
-- others have written in between. As in the benchmark, what is written does not depend on what was read.
CREATE FUNCTION read_modify_write(p_key bigint, p_value text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    was text;
BEGIN
    SELECT field0 INTO was FROM usertable WHERE ycsb_key = p_key;
    UPDATE usertable SET field0 = p_value WHERE ycsb_key = p_key;
    RETURN was;
END;
$$;
