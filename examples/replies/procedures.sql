-- A thread has three posts: a comment, its copy on a wall, and a reply.

-- Writes a comment in both places at once.
CREATE PROCEDURE comment(p_ids integer[], p_body bigint)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE posts SET body = p_body FROM unnest(p_ids) AS chosen (chosen_id)
     WHERE id = chosen_id;
END;

-- Reads a comment and replies to it: the reply quotes it.
CREATE PROCEDURE reply(p_comment integer, p_reply integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_comment bigint;
BEGIN
    SELECT body INTO STRICT v_comment FROM posts WHERE id = p_comment;
    UPDATE posts SET body = v_comment WHERE id = p_reply;
END;
$$;

-- Reads the wall and the reply at once, the older one of them first.
CREATE FUNCTION look(p_ids integer[], OUT oldest bigint, OUT newest bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT min(body), max(body) INTO oldest, newest FROM posts WHERE id = ANY (p_ids);
END;
$$;

-- Reads the wall and the reply one after the other, in either order.
CREATE FUNCTION look_in_turn(p_first integer, p_second integer,
                             OUT first_body bigint, OUT second_body bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT body INTO STRICT first_body FROM posts WHERE id = p_first;
    SELECT body INTO STRICT second_body FROM posts WHERE id = p_second;
END;
$$;
