-- The application that a ring of the Conveyor Belt is installed for when the programs of this folder talk to it. It declares
-- one table of types.sql, with an operation that is global. The programs' own statements fit none of its operations, so
-- all of them are global, and every server gets what they write.

CREATE TABLE notes (
    id   integer PRIMARY KEY,
    body text NOT NULL
);

CREATE PROCEDURE append_to_all(p_body text) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE notes SET body = body || p_body;
END;
