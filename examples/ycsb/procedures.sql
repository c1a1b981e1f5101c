-- Several reads, or several writes, as one transaction: what ramp.txt, section 5.1, makes of the
-- benchmark's single operations.

CREATE FUNCTION get_all(p_keys integer[]) RETURNS TABLE (item integer, field bigint)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT ycsb_key, field0 FROM usertable WHERE ycsb_key = ANY (p_keys);
END;

-- The keys come from a list beside the table, so that they are known before any row is read: the
-- UPDATE is shipped to the rows' owners as it is, and reads nothing.
CREATE PROCEDURE put_all(p_keys integer[], p_value bigint)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE usertable SET field0 = p_value FROM unnest(p_keys) AS chosen (chosen_key)
     WHERE ycsb_key = chosen_key;
END;
