CREATE TABLE Department (
    id uuid DEFAULT gen_random_uuid() PRIMARY KEY,
    name character varying(40) NOT NULL UNIQUE,
    floor smallint DEFAULT -1 NOT NULL CHECK (floor BETWEEN -2 AND 99),
    budget decimal(12,2) CHECK (budget >= 0) CHECK (budget < 1000000),
    opened date, closed date,
    CHECK (closed > opened),
    UNIQUE (floor, name),
    UNIQUE (name)
);
CREATE TABLE employee (
    id bigserial,
    department uuid REFERENCES department ON DELETE CASCADE ON UPDATE SET NULL,
    room integer,
    floor smallint,
    badge bigint GENERATED ALWAYS AS IDENTITY,
    hired timestamp with time zone DEFAULT now(),
    boss bigint,
    dname varchar(40),
    PRIMARY KEY (id),
    FOREIGN KEY (boss) REFERENCES employee (id) ON DELETE SET NULL,
    CONSTRAINT where_it_is FOREIGN KEY (dname, floor) REFERENCES department (name, floor)
        MATCH SIMPLE ON DELETE NO ACTION DEFERRABLE INITIALLY IMMEDIATE
);
CREATE UNIQUE INDEX ON employee (room, floor DESC NULLS LAST);
CREATE INDEX ON employee (room);
CREATE INDEX by_boss ON public.employee USING btree (boss, id);
ALTER TABLE ONLY employee ADD CONSTRAINT paid CHECK (badge > 0), ADD FOREIGN KEY (department) REFERENCES department;
ALTER TABLE employee ADD UNIQUE (badge);
CREATE VIEW heads (id, name) AS SELECT boss, dname FROM employee;
