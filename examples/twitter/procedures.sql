-- The benchmark's five transactions. None of them adds a follower: the graph is loaded before.

CREATE FUNCTION get_tweet(p_id bigint) RETURNS TABLE (text varchar(140))
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT t.text FROM tweets AS t WHERE t.id = p_id;
END;

CREATE FUNCTION get_tweets_from_following(p_uid integer) RETURNS TABLE (text varchar(140))
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT t.text FROM follows AS f JOIN tweets AS t ON t.uid = f.f2 WHERE f.f1 = p_uid;
END;

CREATE FUNCTION get_followers(p_uid integer) RETURNS TABLE (uid integer, name varchar(255))
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT u.uid, u.name FROM follows AS f JOIN user_profiles AS u ON u.uid = f.f1 WHERE f.f2 = p_uid;
END;

CREATE FUNCTION get_user_tweets(p_uid integer) RETURNS TABLE (text varchar(140))
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT t.text FROM tweets AS t WHERE t.uid = p_uid;
END;

CREATE PROCEDURE insert_tweet(p_uid integer, p_text varchar(140), p_createdate timestamp)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO tweets (uid, text, createdate) VALUES (p_uid, p_text, p_createdate);
END;
