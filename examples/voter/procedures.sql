-- Vote: a call counts if the contestant exists and the telephone has not voted too often.
CREATE FUNCTION vote(p_phone_number bigint, p_contestant_number integer, p_votes_max bigint,
                     p_created timestamp, OUT accepted boolean)
LANGUAGE plpgsql AS $$
DECLARE
    contestant integer;
    cast_votes bigint;
    from_state varchar(2);
BEGIN
    accepted := false;

    SELECT contestant_number INTO contestant
    FROM contestants
    WHERE contestant_number = p_contestant_number;
    IF contestant IS NULL THEN
        RETURN;
    END IF;

    SELECT count(*) INTO cast_votes FROM votes WHERE phone_number = p_phone_number;
    IF cast_votes >= p_votes_max THEN
        RETURN;
    END IF;

    SELECT state INTO from_state
    FROM area_code_state
    WHERE area_code = p_phone_number / 10000000;

    INSERT INTO votes (phone_number, state, contestant_number, created)
    VALUES (p_phone_number, coalesce(from_state, 'XX'), p_contestant_number, p_created);
    accepted := true;
END;
$$;
