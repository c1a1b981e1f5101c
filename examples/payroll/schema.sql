-- Payroll: the employees of a small business and their departments. The running example of
-- P. Bailis et al.: Coordination Avoidance in Database Systems (VLDB 2015), sections 2, 4 and 5.

-- total_salary is kept: the sum of its employees' salaries (assertions.sql).
CREATE TABLE departments (
    id           uuid           NOT NULL DEFAULT gen_random_uuid(),
    name         varchar(40)    NOT NULL,
    total_salary numeric(14, 2) NOT NULL DEFAULT 0,
    PRIMARY KEY (id)
);

-- Each employee has an id of their own and belongs to exactly one department.
CREATE TABLE employees (
    id            uuid           NOT NULL DEFAULT gen_random_uuid(),
    last_name     varchar(40)    NOT NULL,
    department_id uuid           NOT NULL,
    salary        numeric(12, 2) NOT NULL CHECK (salary >= 0),
    PRIMARY KEY (id),
    FOREIGN KEY (department_id) REFERENCES departments (id)
);

CREATE INDEX employees_by_department ON employees (department_id);
