-- Each write of a group of registers writes the same value to all of it. So a read that finds two
-- values in one group is fractured.

-- Writes a group. The ids come from a list beside the table, so that the keys are known before any
-- row is read: the UPDATE is shipped to the rows' owners as it is, and reads nothing.
CREATE PROCEDURE write_group(p_ids integer[], p_value bigint)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE registers SET value = p_value FROM unnest(p_ids) AS chosen (chosen_id)
     WHERE id = chosen_id;
END;

-- Reads a group at once: its smallest value and its largest.
CREATE FUNCTION read_group(p_ids integer[], OUT smallest bigint, OUT largest bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT min(value), max(value) INTO smallest, largest FROM registers WHERE id = ANY (p_ids);
END;
$$;

-- Reads two registers, one after the other: what comes second must fit what has been seen.
CREATE FUNCTION read_in_turn(p_first integer, p_second integer,
                             OUT first_value bigint, OUT second_value bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT value INTO STRICT first_value FROM registers WHERE id = p_first;
    SELECT value INTO STRICT second_value FROM registers WHERE id = p_second;
END;
$$;
