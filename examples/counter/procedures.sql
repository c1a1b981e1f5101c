-- Adds an entry. Its number has to be its site's own.
CREATE PROCEDURE add_entry(p_site integer, p_number bigint, p_counter integer, p_amount bigint)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO entries (site, number, counter_id, amount)
    VALUES (p_site, p_number, p_counter, p_amount);

    UPDATE counters SET total = total + p_amount WHERE id = p_counter;
END;

-- What a counter shows, and what its entries add up to.
CREATE FUNCTION read_counter(p_counter integer, OUT shown bigint, OUT added bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT total INTO STRICT shown FROM counters WHERE id = p_counter;

    SELECT coalesce(sum(amount), 0) INTO added FROM entries WHERE counter_id = p_counter;
END;
$$;
