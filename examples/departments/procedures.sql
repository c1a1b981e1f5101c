-- anabranch: keeps staff_is_counted
CREATE PROCEDURE found(p_dept integer)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO depts (id, staff) VALUES (p_dept, 0) ON CONFLICT DO NOTHING;
END;

-- Refused if there is no such department.
CREATE PROCEDURE enter(p_member bigint, p_dept integer)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO members (id, dept_id) VALUES (p_member, p_dept);
    UPDATE depts SET staff = staff + 1 WHERE id = p_dept;
END;

-- A person who is no member changes nothing.
--
-- anabranch: keeps staff_is_counted
CREATE PROCEDURE leave(p_member bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_dept integer;
BEGIN
    DELETE FROM members WHERE id = p_member RETURNING dept_id INTO v_dept;
    IF v_dept IS NOT NULL THEN
        UPDATE depts SET staff = staff - 1 WHERE id = v_dept;
    END IF;
END;
$$;

-- Members go with it. Refused while it has a room.
--
-- anabranch: keeps staff_is_counted
CREATE PROCEDURE close(p_dept integer)
LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM depts WHERE id = p_dept;
END;

CREATE PROCEDURE take_room(p_room integer, p_dept integer)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO rooms (id, dept_id) VALUES (p_room, p_dept);
END;

CREATE PROCEDURE leave_room(p_room integer)
LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM rooms WHERE id = p_room;
END;

-- What a department says of its staff (nothing, if it is not there), and what refers to it.
CREATE FUNCTION look(p_dept integer, OUT said bigint, OUT counted bigint, OUT in_rooms bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT staff INTO said FROM depts WHERE id = p_dept;
    SELECT count(*) INTO counted FROM members WHERE dept_id = p_dept;
    SELECT count(*) INTO in_rooms FROM rooms WHERE dept_id = p_dept;
END;
$$;

-- The staff that all departments count, the members, and those that refer to no department.
CREATE FUNCTION audit(OUT said numeric, OUT counted bigint, OUT dangling bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_homeless bigint;
BEGIN
    SELECT sum(staff) INTO said FROM depts;
    SELECT count(*) INTO counted FROM members;
    SELECT count(*) INTO v_homeless FROM rooms WHERE NOT EXISTS (SELECT * FROM depts WHERE depts.id = rooms.dept_id);
    SELECT v_homeless + count(*) INTO dangling FROM members
     WHERE NOT EXISTS (SELECT * FROM depts WHERE depts.id = members.dept_id);
END;
$$;
