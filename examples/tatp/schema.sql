-- TATP: the home location register of a mobile telephone network. After the Telecom Application
-- Transaction Processing benchmark, as OLTP-Bench has it; of the subscriber's thirty bit, hex and byte
-- columns one each.

CREATE TABLE subscriber (
    s_id         integer     NOT NULL,
    sub_nbr      varchar(15) NOT NULL,
    bit_1        smallint    NOT NULL CHECK (bit_1 IN (0, 1)),
    hex_1        smallint    NOT NULL CHECK (hex_1 BETWEEN 0 AND 15),
    byte2_1      smallint    NOT NULL CHECK (byte2_1 BETWEEN 0 AND 255),
    msc_location integer     NOT NULL,
    vlr_location integer     NOT NULL,
    PRIMARY KEY (s_id),
    UNIQUE (sub_nbr)
);

CREATE TABLE access_info (
    s_id    integer    NOT NULL,
    ai_type smallint   NOT NULL CHECK (ai_type BETWEEN 1 AND 4),
    data1   smallint   NOT NULL,
    data2   smallint   NOT NULL,
    data3   varchar(3) NOT NULL,
    data4   varchar(5) NOT NULL,
    PRIMARY KEY (s_id, ai_type),
    FOREIGN KEY (s_id) REFERENCES subscriber (s_id)
);

CREATE TABLE special_facility (
    s_id        integer    NOT NULL,
    sf_type     smallint   NOT NULL CHECK (sf_type BETWEEN 1 AND 4),
    is_active   smallint   NOT NULL CHECK (is_active IN (0, 1)),
    error_cntrl smallint   NOT NULL,
    data_a      smallint   NOT NULL,
    data_b      varchar(5) NOT NULL,
    PRIMARY KEY (s_id, sf_type),
    FOREIGN KEY (s_id) REFERENCES subscriber (s_id)
);

CREATE TABLE call_forwarding (
    s_id       integer     NOT NULL,
    sf_type    smallint    NOT NULL,
    start_time smallint    NOT NULL CHECK (start_time IN (0, 8, 16)),
    end_time   smallint    NOT NULL,
    numberx    varchar(15) NOT NULL,
    PRIMARY KEY (s_id, sf_type, start_time),
    FOREIGN KEY (s_id, sf_type) REFERENCES special_facility (s_id, sf_type)
);
