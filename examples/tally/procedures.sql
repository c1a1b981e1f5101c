-- Each count for a group changes all of the group alike. So a read that finds two values in one group is
-- fractured.

-- Counts for a group: a sum, the greatest and the least of all amounts, and the latest participant.
CREATE PROCEDURE count_group(p_ids integer[], p_amount bigint, p_by bigint)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE tallies
       SET total = total + p_amount,
           most = greatest(most, p_amount),
           least = least(least, p_amount),
           latest = p_by
      FROM unnest(p_ids) AS chosen (chosen_id)
     WHERE id = chosen_id;
END;

-- Reads a group at once: of each column the smallest value and the largest.
CREATE FUNCTION read_tallies(p_ids integer[],
                             OUT total_from bigint, OUT total_to bigint,
                             OUT most_from bigint, OUT most_to bigint,
                             OUT least_from bigint, OUT least_to bigint,
                             OUT latest_from bigint, OUT latest_to bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT min(total), max(total), min(most), max(most), min(least), max(least), min(latest), max(latest)
      INTO total_from, total_to, most_from, most_to, least_from, least_to, latest_from, latest_to
      FROM tallies WHERE id = ANY (p_ids);
END;
$$;

-- Reads two tallies, one after the other: what comes second must fit what has been seen.
CREATE FUNCTION tallies_in_turn(p_first integer, p_second integer,
                                OUT first_total bigint, OUT second_total bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT total INTO STRICT first_total FROM tallies WHERE id = p_first;
    SELECT total INTO STRICT second_total FROM tallies WHERE id = p_second;
END;
$$;
