-- The benchmark's updates, and two of its five queries. All of the updates overwrite one value.

CREATE PROCEDURE update_user_name(p_u_id integer, p_name varchar(128))
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE useracct SET name = p_name WHERE u_id = p_u_id;
END;

CREATE PROCEDURE update_item_title(p_i_id integer, p_title varchar(128))
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE item SET title = p_title WHERE i_id = p_i_id;
END;

CREATE PROCEDURE update_review_rating(p_u_id integer, p_i_id integer, p_rating integer)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE review SET rating = p_rating WHERE i_id = p_i_id AND u_id = p_u_id;
END;

CREATE PROCEDURE update_trust_rating(p_source integer, p_target integer, p_trust integer)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE trust SET trust = p_trust WHERE source_u_id = p_source AND target_u_id = p_target;
END;

CREATE FUNCTION get_average_rating(p_i_id integer, OUT average numeric)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT avg(rating) INTO average FROM review WHERE i_id = p_i_id;
END;
$$;

CREATE FUNCTION get_average_rating_of_trusted(p_u_id integer, p_i_id integer, OUT average numeric)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT avg(r.rating) INTO average
    FROM review AS r
    JOIN trust AS t ON t.target_u_id = r.u_id
    WHERE r.i_id = p_i_id AND t.source_u_id = p_u_id;
END;
$$;
