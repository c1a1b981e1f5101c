-- What an embedded ring of the Conveyor Belt is told beside types.sql. An operation without a key writes each table, so that
-- every operation on one is global, and all servers have all rows: no program of this folder knows of keys.

CREATE PROCEDURE replace_all() LANGUAGE SQL
BEGIN ATOMIC
    UPDATE every_type SET a_text = a_text || '.';
    UPDATE every_array SET some_text = NULL;
    UPDATE customers SET email = email || '.';
    UPDATE orders SET amount = amount + 1;
    UPDATE notes SET body = body || '.';
END;
