-- The benchmark's five transactions.

CREATE PROCEDURE add_watch_list(p_user integer, p_namespace integer, p_title varchar(255),
                                p_now timestamp)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO watchlist (wl_user, wl_namespace, wl_title) VALUES (p_user, p_namespace, p_title)
    ON CONFLICT DO NOTHING;
    UPDATE useracct SET user_touched = p_now WHERE user_id = p_user;
END;

CREATE PROCEDURE remove_watch_list(p_user integer, p_namespace integer, p_title varchar(255),
                                   p_now timestamp)
LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM watchlist
    WHERE wl_user = p_user AND wl_namespace = p_namespace AND wl_title = p_title;
    UPDATE useracct SET user_touched = p_now WHERE user_id = p_user;
END;

CREATE FUNCTION get_page(p_namespace integer, p_title varchar(255))
RETURNS TABLE (page integer, latest uuid)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT page_id, page_latest FROM page WHERE page_namespace = p_namespace AND page_title = p_title;
END;

CREATE FUNCTION get_revision(p_revision uuid) RETURNS TABLE (body text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT rev_text FROM revision WHERE rev_id = p_revision;
END;

-- UpdatePage: a new revision, which becomes the page's latest one; its author's edits are counted.
CREATE PROCEDURE update_page(p_page integer, p_user integer, p_text text, p_parent uuid, p_now timestamp)
LANGUAGE plpgsql AS $$
DECLARE
    revision_id uuid;
BEGIN
    INSERT INTO revision (rev_page, rev_user, rev_text, rev_timestamp, rev_parent_id)
    VALUES (p_page, p_user, p_text, p_now, p_parent)
    RETURNING rev_id INTO revision_id;

    UPDATE page
    SET page_latest = revision_id, page_touched = p_now, page_len = length(p_text)
    WHERE page_id = p_page;

    UPDATE useracct
    SET user_editcount = user_editcount + 1, user_touched = p_now
    WHERE user_id = p_user;
END;
$$;
