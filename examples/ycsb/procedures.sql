-- Several reads, or several writes, as one transaction: what ramp.txt, section 5.1, makes of the
-- benchmark's single operations. All items are asked for in one statement, so they are read in one
-- round, whatever partitions they lie on.

CREATE FUNCTION get_all(p_keys bigint[]) RETURNS TABLE (item bigint, field text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT ycsb_key, field0 FROM usertable WHERE ycsb_key = ANY (p_keys);
END;

-- The keys come from a list beside the table, so that they are known before any row is read: the
-- UPDATE is shipped to the rows' owners as it is, and reads nothing.
CREATE PROCEDURE put_all(p_keys bigint[], p_value text)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE usertable SET field0 = p_value FROM unnest(p_keys) AS chosen (chosen_key)
     WHERE ycsb_key = chosen_key;
END;

-- The benchmark's own operations, each a transaction.

CREATE FUNCTION read_item(p_key bigint) RETURNS TABLE (item bigint, field text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT ycsb_key, field0 FROM usertable WHERE ycsb_key = p_key;
END;

CREATE PROCEDURE update_item(p_key bigint, p_value text)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE usertable SET field0 = p_value WHERE ycsb_key = p_key;
END;

CREATE FUNCTION scan_items(p_from bigint, p_count integer) RETURNS TABLE (item bigint, field text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT ycsb_key, field0 FROM usertable WHERE ycsb_key >= p_from ORDER BY ycsb_key LIMIT p_count;
END;
