CREATE TABLE t (a integer); /* never /* closed */
