-- What payroll relies on beyond the schema's keys, foreign keys and checks. Load it when there
-- is somebody on the payroll. CREATE ASSERTION is SQL-92's; PostgreSQL has not got it, but can
-- evaluate each CHECK by hand: SELECT (...).

-- Section 4.1: somebody is always employed.
CREATE ASSERTION somebody_is_employed CHECK (
    EXISTS (SELECT * FROM employees)
);

-- Section 5.2: a department's total is the sum of its employees' salaries.
CREATE ASSERTION totals_add_up CHECK (
    NOT EXISTS (
        SELECT *
        FROM departments
        WHERE total_salary <> (SELECT coalesce(sum(salary), 0) FROM employees
                               WHERE department_id = departments.id)
    )
);
