-- PostgreSQL has no assertions; load the other files without this one there.

-- A department's staff is how many members it has: a view that its writers keep.
CREATE ASSERTION staff_is_counted CHECK (NOT EXISTS (
    SELECT * FROM depts
    WHERE staff <> (SELECT count(*) FROM members WHERE dept_id = depts.id)));
