-- Wikipedia: pages, their revisions, and who watches them. After the benchmark of that name in
-- OLTP-Bench, without its logs.

CREATE TABLE useracct (
    user_id        integer      NOT NULL,
    user_name      varchar(255) NOT NULL,
    user_editcount integer      NOT NULL,
    user_touched   timestamp    NOT NULL,
    PRIMARY KEY (user_id),
    UNIQUE (user_name)
);

CREATE TABLE page (
    page_id        integer      NOT NULL,
    page_namespace integer      NOT NULL,
    page_title     varchar(255) NOT NULL,
    page_latest    uuid,
    page_touched   timestamp    NOT NULL,
    page_len       integer      NOT NULL,
    PRIMARY KEY (page_id),
    UNIQUE (page_namespace, page_title)
);

CREATE TABLE revision (
    rev_id        uuid         NOT NULL DEFAULT gen_random_uuid(),
    rev_page      integer      NOT NULL,
    rev_user      integer      NOT NULL,
    rev_text      text         NOT NULL,
    rev_timestamp timestamp    NOT NULL,
    rev_parent_id uuid,
    PRIMARY KEY (rev_id),
    FOREIGN KEY (rev_page) REFERENCES page (page_id),
    FOREIGN KEY (rev_user) REFERENCES useracct (user_id)
);

CREATE INDEX revision_by_page ON revision (rev_page);

CREATE TABLE watchlist (
    wl_user      integer      NOT NULL,
    wl_namespace integer      NOT NULL,
    wl_title     varchar(255) NOT NULL,
    wl_since     timestamp,
    PRIMARY KEY (wl_user, wl_namespace, wl_title),
    FOREIGN KEY (wl_user) REFERENCES useracct (user_id)
);
