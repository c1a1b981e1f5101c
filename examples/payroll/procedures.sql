-- Payroll's transactions, in pairs: what needs no coordination and its neighbour that does.
-- A raise or a cut that is not positive is an error (SQLSTATE 22003, numeric value out of range);
-- to change or dismiss an employee who does not exist changes nothing.
--
-- Amounts have two decimals at most: then a salary and its department's total are rounded alike, and
-- the directive below (anabranch: keeps totals_add_up) is right.

-- Opens a department, under an id that the database chooses.
CREATE FUNCTION open_department(p_name varchar(40), OUT department_id uuid)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO departments (name) VALUES (p_name) RETURNING id INTO department_id;
END;
$$;

-- Closes a department without employees. Not confluent with hiring: a person may be hired into it
-- at the same time.
CREATE PROCEDURE close_department(p_department_id uuid)
LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM departments WHERE id = p_department_id;
END;

-- Hires an employee under some unique id. Confluent: sites choose from ids of their own.
-- anabranch: keeps totals_add_up
CREATE FUNCTION hire(p_last_name varchar(40), p_department_id uuid, p_salary numeric,
                     OUT employee_id uuid)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO employees (last_name, department_id, salary)
    VALUES (p_last_name, p_department_id, p_salary)
    RETURNING id INTO employee_id;

    UPDATE departments
    SET total_salary = total_salary + p_salary
    WHERE id = p_department_id;
END;
$$;

-- Hires a person under this specific id. Not confluent: another site may give it to another.
-- anabranch: keeps totals_add_up
CREATE PROCEDURE hire_as(p_employee_id uuid, p_last_name varchar(40), p_department_id uuid,
                         p_salary numeric)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO employees (id, last_name, department_id, salary)
    VALUES (p_employee_id, p_last_name, p_department_id, p_salary);

    UPDATE departments
    SET total_salary = total_salary + p_salary
    WHERE id = p_department_id;
END;

-- Dismisses an employee. Confluent with unique ids, but not with the invariant that somebody is employed.
CREATE PROCEDURE dismiss(p_employee_id uuid)
LANGUAGE plpgsql AS $$
DECLARE
    department  uuid;
    last_salary numeric;
BEGIN
    DELETE FROM employees
    WHERE id = p_employee_id
    RETURNING department_id, salary INTO department, last_salary;

    UPDATE departments
    SET total_salary = total_salary - last_salary
    WHERE id = department;
END;
$$;

-- Raises a salary. Confluent: increments commute and cannot make it negative.
-- anabranch: keeps totals_add_up
CREATE PROCEDURE raise_salary(p_employee_id uuid, p_amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    department uuid;
BEGIN
    IF p_amount <= 0 THEN
        RAISE EXCEPTION 'not a raise: %', p_amount USING ERRCODE = '22003';
    END IF;

    UPDATE employees
    SET salary = salary + p_amount
    WHERE id = p_employee_id
    RETURNING department_id INTO department;

    UPDATE departments
    SET total_salary = total_salary + p_amount
    WHERE id = department;
END;
$$;

-- Cuts a salary. Not confluent: two cuts that are each possible may not be together.
-- anabranch: keeps totals_add_up
CREATE PROCEDURE cut_salary(p_employee_id uuid, p_amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    department uuid;
BEGIN
    IF p_amount <= 0 THEN
        RAISE EXCEPTION 'not a cut: %', p_amount USING ERRCODE = '22003';
    END IF;

    UPDATE employees
    SET salary = salary - p_amount
    WHERE id = p_employee_id
    RETURNING department_id INTO department;

    UPDATE departments
    SET total_salary = total_salary - p_amount
    WHERE id = department;
END;
$$;

-- What a department costs and how many it employs.
CREATE FUNCTION department_cost(p_department_id uuid, OUT cost numeric, OUT employed bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT total_salary INTO STRICT cost FROM departments WHERE id = p_department_id;

    SELECT count(*) INTO employed FROM employees WHERE department_id = p_department_id;
END;
$$;
