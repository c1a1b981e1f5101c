-- Departments, their members and their rooms: the smallest application in which a reference may be made
-- beside the deletion of what it refers to (P. Bailis et al.: Coordination Avoidance in Database Systems, table 2;
-- Scalable Atomic Visibility with RAMP Transactions, section 2). Its members are deleted with a
-- department; a department that has a room cannot be deleted.
CREATE TABLE depts (
    id    integer NOT NULL,
    staff bigint  NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE members (
    id      bigint  NOT NULL,
    dept_id integer NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (dept_id) REFERENCES depts (id) ON DELETE CASCADE
);

CREATE INDEX members_of_dept ON members (dept_id);

CREATE TABLE rooms (
    id      integer NOT NULL,
    dept_id integer NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (dept_id) REFERENCES depts (id) ON DELETE RESTRICT
);

CREATE INDEX rooms_of_dept ON rooms (dept_id);
