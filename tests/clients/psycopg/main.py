"""psycopg 3 against a server: python main.py HOST PORT [--transactions] [--schema]

`--transactions` adds transactions of several statements: BEGIN, savepoints, server-side cursors; `--schema` changes of the
schema and COPY.
"""

import sys
import threading
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from checks import attempt, check, finish

UTC = timezone.utc
TYPES = {
    "bool": (16, 1000),
    "bytea": (17, 1001),
    "int8": (20, 1016),
    "int2": (21, 1005),
    "int4": (23, 1007),
    "text": (25, 1009),
    "float4": (700, 1021),
    "float8": (701, 1022),
    "char": (1042, 1014),
    "varchar": (1043, 1015),
    "date": (1082, 1182),
    "timestamp": (1114, 1115),
    "timestamptz": (1184, 1185),
    "numeric": (1700, 1231),
    "uuid": (2950, 2951),
}

# The type of a row of columns.
RECORD = 2249

# Type, text form as PostgreSQL prints it, value in Python.
VALUES = [
    ("bool", "t", True),
    ("bool", "f", False),
    ("int2", "0", 0),
    ("int2", "-32768", -32768),
    ("int2", "32767", 32767),
    ("int4", "-2147483648", -2147483648),
    ("int4", "2147483647", 2147483647),
    ("int8", "-9223372036854775808", -9223372036854775808),
    ("int8", "9223372036854775807", 9223372036854775807),
    ("numeric", "0", Decimal("0")),
    ("numeric", "0.00", Decimal("0.00")),
    ("numeric", "1", Decimal("1")),
    ("numeric", "-1.5", Decimal("-1.5")),
    ("numeric", "10000", Decimal("10000")),
    ("numeric", "0.0001", Decimal("0.0001")),
    ("numeric", "-0.00001234", Decimal("-0.00001234")),
    ("numeric", "100000000.0000", Decimal("100000000.0000")),
    ("numeric", "12345678901234567890.123456789012345678", Decimal("12345678901234567890.123456789012345678")),
    ("numeric", "-99999999999999999999999999999999999999", Decimal("-99999999999999999999999999999999999999")),
    ("numeric(12,2)", "-1234567890.50", Decimal("-1234567890.50")),
    ("float4", "1.5", 1.5),
    ("float4", "-0", -0.0),
    ("float4", "NaN", float("nan")),
    ("float4", "Infinity", float("inf")),
    ("float8", "0.1", 0.1),
    ("float8", "-0", -0.0),
    ("float8", "1e+300", 1e300),
    ("float8", "5e-324", 5e-324),
    ("float8", "NaN", float("nan")),
    ("float8", "Infinity", float("inf")),
    ("float8", "-Infinity", float("-inf")),
    ("text", "", ""),
    ("text", "plain", "plain"),
    ("text", "it's \"quoted\" \\ and %", "it's \"quoted\" \\ and %"),
    ("text", "Grüße, 世界 🌍", "Grüße, 世界 🌍"),
    ("text", "line\r\nand\ttab", "line\r\nand\ttab"),
    ("varchar(12)", "twelve chars", "twelve chars"),
    ("varchar(12)", "ä", "ä"),
    ("char(6)", "abc   ", "abc   "),
    ("char(6)", "      ", "      "),
    ("bytea", "\\x", b""),
    ("bytea", "\\x00", b"\0"),
    ("bytea", "\\x" + bytes(range(256)).hex(), bytes(range(256))),
    ("uuid", "00000000-0000-0000-0000-000000000000", UUID(int=0)),
    ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    ("timestamp", "2024-02-29 12:34:56.789012", datetime(2024, 2, 29, 12, 34, 56, 789012)),
    ("timestamp", "1999-12-31 23:59:59", datetime(1999, 12, 31, 23, 59, 59)),
    ("timestamp", "0001-01-01 00:00:00", datetime(1, 1, 1)),
    ("timestamp", "9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", "2024-02-29 12:34:56.789012+00", datetime(2024, 2, 29, 12, 34, 56, 789012, UTC)),
    ("timestamptz", "1970-01-01 00:00:00+00", datetime(1970, 1, 1, tzinfo=UTC)),
    ("date", "2024-02-29", date(2024, 2, 29)),
    ("date", "0001-01-01", date(1, 1, 1)),
    ("date", "9999-12-31", date(9999, 12, 31)),
    ("bool[]", "{t,NULL,f}", [True, None, False]),
    ("int4[]", "{}", []),
    ("int4[]", "{1,NULL,-2147483648}", [1, None, -2147483648]),
    ("int8[]", "{9223372036854775807,NULL,0}", [9223372036854775807, None, 0]),
    ("numeric[]", "{0.10,NULL,-12345.6789}", [Decimal("0.10"), None, Decimal("-12345.6789")]),
    ("text[]", '{"",NULL,"NULL","a,b","{x}","\\"q\\" \\\\","ü 🌍",plain}',
     ["", None, "NULL", "a,b", "{x}", '"q" \\', "ü 🌍", "plain"]),
    ("timestamptz[]", '{"2024-02-29 12:34:56+00",NULL}', [datetime(2024, 2, 29, 12, 34, 56, tzinfo=UTC), None]),
]
VALUES += [(name, None, None) for name in dict.fromkeys(name for name, _, _ in VALUES)]


def oid_of(name):
    """The object id of a type by its name with or without bounds and brackets."""
    plain, array = TYPES[name.removesuffix("[]").partition("(")[0]]
    return array if name.endswith("[]") else plain


def literal(text):
    """A text as an SQL literal that no setting reads differently."""
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def shortened(text):
    """A text as a check's name shows it."""
    return "NULL" if text is None else ascii(text)[1:-1][:40]


def one(connection, query, parameters=None, binary=None):
    """The only value of the only row."""
    with connection.cursor() as cursor:
        rows = cursor.execute(query, parameters, binary=binary).fetchall()
    if len(rows) != 1 or len(rows[0]) != 1:
        raise AssertionError(f"expected one value, got {rows!r}")
    return rows[0][0]


def connecting(address):
    """Parameters that the server reports, and those that the client asks for."""
    with psycopg.connect(**address, sslmode="prefer", autocommit=True) as connection:
        info = connection.info
        print("server_version:", info.parameter_status("server_version"))
        check("connect: TLS falls back", connection.pgconn.ssl_in_use, False)
        check("connect: version", info.server_version // 10000, 15)
        for name, expected in [
            ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("IntervalStyle", "postgres"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
            ("TimeZone", "UTC"),
            ("in_hot_standby", "off"),
            ("default_transaction_read_only", "off"),
        ]:
            check(f"connect: parameter {name}", info.parameter_status(name), expected)
        check("connect: parameter session_authorization", info.parameter_status("session_authorization"), info.user)
        check("connect: status", info.transaction_status, TransactionStatus.IDLE)
        check("connect: backend's id", info.backend_pid > 0, True)
        attempt("connect: server_version by SHOW", info.parameter_status("server_version"),
                lambda: one(connection, "SHOW server_version"))
        attempt("connect: empty query", "", lambda: connection.execute("").statusmessage or "")
    options = dict(application_name="checks", options="-c TimeZone=Asia/Tokyo -c statement_timeout=60000")
    with psycopg.connect(**address, **options, autocommit=True) as connection:
        check("connect: application_name", connection.info.parameter_status("application_name"), "checks")
        check("connect: options", connection.info.parameter_status("TimeZone"), "Asia/Tokyo")
        attempt("connect: application_name by SHOW", "checks", lambda: one(connection, "SHOW application_name"))
        attempt("connect: statement_timeout", "1min", lambda: one(connection, "SHOW statement_timeout"))
    with psycopg.connect(**address, autocommit=True, client_encoding="utf8") as connection:
        attempt("connect: client_encoding", "UTF8", lambda: one(connection, "SHOW client_encoding"))


def described(cursor):
    """The type of the only column and the format that its values have."""
    return cursor.description[0].type_code, cursor.pgresult.fformat(0)


def types(connection):
    """Every value in both formats: read, and sent as a parameter."""
    for name, text, value in VALUES:
        label = f"types: {name} {shortened(text)}"
        for binary in [False, True]:
            form = "binary" if binary else "text"

            def fetch(query, *parameters):
                with connection.cursor() as cursor:
                    got = cursor.execute(query, parameters or None, binary=binary).fetchone()[0]
                    return [got, *described(cursor)]

            expected = [value, oid_of(name), int(binary)]
            attempt(f"{label}, {form}", expected, lambda: fetch(f"SELECT {literal(text)}::{name}"))
            for placeholder, sent in [("%t", "text"), ("%b", "binary")]:
                attempt(f"{label}, sent {sent}, {form}", expected,
                        lambda: fetch(f"SELECT {placeholder}::{name}", value))
        # A parameter without a type of its own and a result that is cast to text: the server's own words.
        if text is not None and not name.startswith("char"):
            words = {"t": "true", "f": "false"}.get(text, text) if name == "bool" else text
            attempt(f"{label}, printed", words, lambda: one(connection, f"SELECT %t::{name}::text", [text]))
    client = psycopg.ClientCursor(connection)
    for name, text, value in VALUES:
        if text == "-0":
            continue  # the driver writes -0.0, which is a numeric to the server, and zero
        attempt(f"types: {name} {shortened(text)}, written into the statement", value,
                lambda: client.execute(f"SELECT CAST(%s AS {name})", [value]).fetchone()[0])
    attempt("types: a result of no type is text", ["words", 25],
            lambda: (lambda cursor: [cursor.fetchone()[0], described(cursor)[0]])(connection.execute("SELECT 'words'")))
    attempt("types: many columns, mixed", [(1, "two", None, Decimal("3.0"), [4])],
            lambda: connection.execute("SELECT %s::int4, %s::text, %s::date, %s::numeric, %s::int8[]",
                                       [1, "two", None, Decimal("3.0"), [4]]).fetchall())


COLUMNS = {
    "a_bool": True,
    "an_int2": -2,
    "an_int4": 40000,
    "an_int8": 1 << 40,
    "a_numeric": Decimal("123456789.000100"),
    "a_money": Decimal("-0.05"),
    "a_float4": 0.25,
    "a_float8": -1e-5,
    "a_text": "größer 'than' \"life\"",
    "a_varchar": "twelve chars",
    "a_char": "pad   ",
    "a_bytea": bytes(range(255, -1, -1)),
    "a_uuid": UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "a_timestamp": datetime(2024, 2, 29, 23, 59, 59, 1),
    "a_timestamptz": datetime(2024, 2, 29, 23, 59, 59, 999999, UTC),
    "a_date": date(2000, 1, 1),
}
ARRAYS = {
    "some_bool": [True, None, False],
    "some_int4": [1, None, -1],
    "some_int8": [1 << 40, None],
    "some_numeric": [Decimal("1.50"), None],
    "some_text": ["a", None, "", 'b "c", d'],
    "some_timestamptz": [datetime(2024, 1, 1, tzinfo=UTC), None],
}


def tables(connection):
    """Rows of every type: written by parameters, read back by column."""
    number = 0
    for table, columns in [("every_type", COLUMNS), ("every_array", ARRAYS)]:
        names = ", ".join(columns)
        for placeholder, sent in [("%t", "text"), ("%b", "binary")]:
            for label, values in [("values", list(columns.values())), ("NULLs", [None] * len(columns))]:
                number += 1
                places = ", ".join([placeholder] * len(columns))
                insert = f"INSERT INTO {table} (id, {names}) VALUES (%s, {places})"
                attempt(f"{table}: {label} written, {sent}", "INSERT 0 1",
                        lambda: connection.execute(insert, [number, *values]).statusmessage)
                for binary in [False, True]:
                    form = "binary" if binary else "text"
                    for column, value in zip(columns, values):
                        attempt(f"{table}: {column} of {label} sent {sent}, read {form}", value,
                                lambda: one(connection, f"SELECT {column} FROM {table} WHERE id = %s", [number], binary))
        attempt(f"{table}: found by a value", number - 1,
                lambda: one(connection, f"SELECT max(id) FROM {table} WHERE {next(iter(columns))} IS NOT NULL"))
    attempt("tables: UPDATE counts", "UPDATE 2",
            lambda: connection.execute("UPDATE every_type SET an_int4 = an_int4 + %s WHERE an_int4 = %s",
                                       [1, 40000]).statusmessage)
    attempt("tables: RETURNING", [(40002, "größer 'than' \"life\"")],
            lambda: connection.execute("UPDATE every_type SET an_int4 = an_int4 + 1 WHERE id = %s "
                                       "RETURNING an_int4, a_text", [1]).fetchall())
    attempt("tables: DELETE counts", "DELETE 1",
            lambda: connection.execute("DELETE FROM every_type WHERE id = %s", [2]).statusmessage)
    attempt("tables: SELECT counts", "SELECT 3", lambda: connection.execute("SELECT id FROM every_type").statusmessage)
    attempt("tables: no row", None, lambda: connection.execute("SELECT id FROM every_type WHERE id = -1").fetchone())


def zones(connection):
    """The connection's time zone, in text and binary."""
    summer, winter = datetime(2024, 7, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 12, tzinfo=UTC)
    connection.execute("SET TimeZone TO 'Europe/Berlin'")
    check("zone: reported", connection.info.parameter_status("TimeZone"), "Europe/Berlin")
    attempt("zone: shown", "Europe/Berlin", lambda: one(connection, "SHOW TimeZone"))
    attempt("zone: summer printed", "2024-07-01 14:00:00+02",
            lambda: one(connection, "SELECT '2024-07-01 12:00:00+00'::timestamptz::text"))
    attempt("zone: winter printed", "2024-01-01 13:00:00+01",
            lambda: one(connection, "SELECT '2024-01-01 12:00:00+00'::timestamptz::text"))
    attempt("zone: read as local", "2024-07-01 12:00:00+02",
            lambda: one(connection, "SELECT '2024-07-01 12:00:00'::timestamptz::text"))
    attempt("zone: cast of a timestamp", "2024-01-01 12:00:00+01",
            lambda: one(connection, "SELECT '2024-01-01 12:00:00'::timestamp::timestamptz::text"))
    attempt("zone: cast to a timestamp", datetime(2024, 7, 1, 14),
            lambda: one(connection, "SELECT %s::timestamptz::timestamp", [summer]))
    attempt("zone: cast to a date", date(2024, 7, 2),
            lambda: one(connection, "SELECT '2024-07-01 23:00:00+00'::timestamptz::date"))
    number = 100
    for value, name in [(summer, "summer"), (winter, "winter")]:
        for placeholder, sent in [("%t", "text"), ("%b", "binary")]:
            number += 1
            connection.execute(f"INSERT INTO every_type (id, a_timestamptz) VALUES (%s, {placeholder})", [number, value])
            for binary in [False, True]:
                form = "binary" if binary else "text"
                attempt(f"zone: {name} sent {sent}, read {form}", [value, value.timestamp() == summer.timestamp()],
                        lambda: (lambda got: [got, got.utcoffset() == timedelta(hours=2)])(
                            one(connection, "SELECT a_timestamptz FROM every_type WHERE id = %s", [number], binary)))
    attempt("zone: unknown", "22023",
            lambda: refused(connection, "SET TimeZone TO 'Mars/Olympus'").sqlstate)
    connection.execute("RESET TimeZone")
    check("zone: reset", connection.info.parameter_status("TimeZone"), "UTC")
    attempt("zone: set_config", ["Asia/Tokyo", "Asia/Tokyo"],
            lambda: list(connection.execute("SELECT set_config('TimeZone', %s, false), %s::text",
                                            ["Asia/Tokyo", "Asia/Tokyo"]).fetchone()))
    attempt("zone: current_setting", "Asia/Tokyo", lambda: one(connection, "SELECT current_setting('TimeZone')"))
    check("zone: set_config is reported", connection.info.parameter_status("TimeZone"), "Asia/Tokyo")
    connection.execute("RESET ALL")
    check("zone: reset with all", connection.info.parameter_status("TimeZone"), "UTC")


def calls(connection):
    """Functions and procedures, each by its ways to be called."""
    attempt("calls: SELECT f()", 5, lambda: one(connection, "SELECT add(%s, %s)", [2, 3]))
    attempt("calls: SELECT * FROM f()", [(5,)], lambda: connection.execute("SELECT * FROM add(2, 3)").fetchall())
    attempt("calls: column named by the function", "add",
            lambda: connection.execute("SELECT add(2, 3)").description[0].name)
    attempt("calls: arguments by name", 5, lambda: one(connection, "SELECT add(p_b => %s, p_a => %s)", [3, 2]))
    attempt("calls: OUT parameters", [(3, 2)],
            lambda: connection.execute("SELECT * FROM divide(%s, %s)", [17, 5]).fetchall())
    attempt("calls: columns of OUT parameters", ["quotient", "remainder"],
            lambda: [column.name for column in connection.execute("SELECT * FROM divide(17, 5)").description])
    for binary, expected in [(False, ("3", "2")), (True, (3, 2))]:
        form = "binary" if binary else "text"
        attempt(f"calls: several values as a record, {form}", [expected, RECORD, int(binary)],
                lambda: (lambda cursor: [cursor.fetchone()[0], *described(cursor)])(
                    connection.execute("SELECT divide(17, 5)", binary=binary)))
    attempt("calls: CALL", "CALL",
            lambda: connection.execute("CALL write_note(%s, %s)", [1, "first"]).statusmessage)
    attempt("calls: CALL without parameters", "CALL",
            lambda: connection.execute("CALL write_note(2, 'second')").statusmessage)
    attempt("calls: CALL in binary", "CALL",
            lambda: connection.execute("CALL write_note(%b::int4, %b)", [3, "third"]).statusmessage)
    attempt("calls: a set of rows", [(2, "second"), (3, "third")],
            lambda: connection.execute("SELECT * FROM notes_from(%s)", [2]).fetchall())
    attempt("calls: a set of rows, binary", [(3, "third")],
            lambda: connection.execute("SELECT id, body FROM notes_from(%s)", [3], binary=True).fetchall())
    for name, value in [
        ("bool", True), ("int2", 7), ("int4", 1 << 20), ("int8", 1 << 40), ("numeric", Decimal("1.10")),
        ("float4", 0.5), ("float8", 0.1), ("text", "ü"), ("bytea", b"\0\xff"), ("uuid", UUID(int=1)),
        ("timestamp", datetime(2024, 1, 1)), ("timestamptz", datetime(2024, 1, 1, tzinfo=UTC)), ("date", date(2024, 1, 1)),
    ]:
        for binary, placeholder in [(False, "%t"), (True, "%b")]:
            form = "binary" if binary else "text"
            attempt(f"calls: same_{name}, {form}", value,
                    lambda: one(connection, f"SELECT same_{name}({placeholder}::{name})", [value], binary))
            attempt(f"calls: same_{name} of NULL, {form}", None,
                    lambda: one(connection, f"SELECT same_{name}({placeholder}::{name})", [None], binary))
    attempt("calls: an error of the application", ["AB123", "refused: no"],
            lambda: (lambda d: [d.sqlstate, d.message_primary])(refused(connection, "SELECT refuse(%s)", ["no"])))
    attempt("calls: unknown function", "42883", lambda: refused(connection, "SELECT no_such_function(1)").sqlstate)
    attempt("calls: unknown procedure", "42883", lambda: refused(connection, "CALL no_such_procedure(1)").sqlstate)
    attempt("calls: a procedure is not a function", "42809",
            lambda: refused(connection, "SELECT write_note(9, 'x')").sqlstate)
    attempt("calls: the procedure keeps the key", ["23505", "notes_pkey"],
            lambda: (lambda d: [d.sqlstate, d.constraint_name])(refused(connection, "CALL write_note(1, 'again')")))


def refused(connection, query, parameters=None):
    """The diagnostics of the error that a statement has to end with."""
    try:
        connection.execute(query, parameters)
    except psycopg.Error as error:
        return error.diag
    raise AssertionError("it did not fail")


def failures(connection):
    """Errors by class, with the fields that clients read; the connection goes on after each."""
    connection.execute("INSERT INTO customers (id, email, age) VALUES (1, 'a@example.org', 30)")
    constraint = ["sqlstate", "severity", "schema_name", "table_name", "column_name", "constraint_name"]
    for label, query, parameters, fields, expected in [
        ("unique", "INSERT INTO customers VALUES (%s, %s, 1)", [2, "a@example.org"], constraint,
         ["23505", "ERROR", "public", "customers", None, "customers_email_is_unique"]),
        ("primary key", "INSERT INTO customers VALUES (%s, %s, 1)", [1, "b@example.org"], constraint,
         ["23505", "ERROR", "public", "customers", None, "customers_pkey"]),
        ("check", "INSERT INTO customers VALUES (3, 'c@example.org', %s)", [-1], constraint,
         ["23514", "ERROR", "public", "customers", None, "customers_are_born"]),
        ("not null", "INSERT INTO customers VALUES (4, %s, 1)", [None], constraint,
         ["23502", "ERROR", "public", "customers", "email", None]),
        ("foreign key", "INSERT INTO orders VALUES (1, %s, 5)", [99], constraint,
         ["23503", "ERROR", "public", "orders", None, "orders_have_a_customer"]),
        ("division by zero", "SELECT 1 / %s::int4", [0], ["sqlstate", "message_primary"], ["22012", "division by zero"]),
        ("integer out of range", "SELECT %s::int4 + 1", [2147483647], ["sqlstate"], ["22003"]),
        ("numeric out of its bounds", "SELECT %s::numeric(3, 1)", [Decimal("1000")], ["sqlstate"], ["22003"]),
        ("text too long", "INSERT INTO every_type (id, a_varchar) VALUES (50, %s)", ["thirteen chars"],
         ["sqlstate"], ["22001"]),
        ("not a number", "SELECT %s::text::int4", ["x"], ["sqlstate"], ["22P02"]),
        ("not a uuid", "SELECT 'zzz'::uuid", None, ["sqlstate", "statement_position"], ["22P02", "8"]),
        ("not a date", "SELECT '2024-13-01'::date", None, ["sqlstate"], ["22008"]),
        ("syntax", "SELEC 1", None, ["sqlstate", "statement_position"], ["42601", "1"]),
        ("syntax in the middle", "SELECT 1 FROM FROM x", None, ["sqlstate", "statement_position"], ["42601", "15"]),
        ("syntax after characters of several bytes", "SELECT 'äöü' FROM FROM x", None,
         ["sqlstate", "statement_position"], ["42601", "19"]),
        ("undefined table", "SELECT * FROM no_such_table", None,
         ["sqlstate", "statement_position", "message_primary"],
         ["42P01", "15", 'relation "no_such_table" does not exist']),
        ("undefined column", "SELECT no_such_column FROM customers", None,
         ["sqlstate", "statement_position", "message_primary"],
         ["42703", "8", 'column "no_such_column" does not exist']),
        ("undefined type", "SELECT 1::no_such_type", None, ["sqlstate"], ["42704"]),
        ("ambiguous column", "SELECT id FROM customers, orders", None, ["sqlstate"], ["42702"]),
        ("no such operator", "SELECT * FROM customers WHERE email = 1", None, ["sqlstate"], ["42883"]),
        ("ungrouped column", "SELECT id, count(*) FROM customers GROUP BY email", None, ["sqlstate"], ["42803"]),
        ("unknown setting", "SET no_such_setting = 1", None, ["sqlstate"], ["42704"]),
        ("setting out of range", "SET statement_timeout = -5", None, ["sqlstate"], ["22023"]),
        ("several statements with parameters", "SELECT 1; SELECT %s", [1], ["sqlstate"], ["42601"]),
        ("undetermined parameter", "SELECT %s IS NULL", [None], ["sqlstate"], ["42P18"]),
        ("more than one row", "SELECT (SELECT n FROM generate_series(1, 2) AS n)", None, ["sqlstate"], ["21000"]),
    ]:
        def fields_of(diagnostics):
            return [getattr(diagnostics, field) for field in fields]

        attempt(f"errors: {label}", expected, lambda: fields_of(refused(connection, query, parameters)))
        attempt(f"errors: works after {label}", 1, lambda: one(connection, "SELECT 1"))
    check("errors: idle", connection.info.transaction_status, TransactionStatus.IDLE)
    attempt("errors: class of the exception", True,
            lambda: isinstance(exception(connection, "SELECT 1 / 0"), errors.DivisionByZero))
    attempt("errors: detail of a duplicate", "Key (email)=(a@example.org) already exists.",
            lambda: refused(connection, "INSERT INTO customers VALUES (5, 'a@example.org', 1)").message_detail)
    # The driver counts placeholders itself, so this goes below it.
    for given in [1, 3]:
        result = connection.pgconn.exec_params(b"SELECT $1::int4 + $2::int4", [b"1"] * given)
        check(f"errors: {given} parameters instead of 2", psycopg.errors.lookup("08P01").sqlstate,
              result.error_field(psycopg.pq.DiagnosticField.SQLSTATE).decode())
    attempt("errors: works after that", 1, lambda: one(connection, "SELECT 1"))
    attempt("errors: nothing was written", [(1, "a@example.org", 30)],
            lambda: connection.execute("SELECT * FROM customers").fetchall())


def exception(connection, query):
    """The exception of a statement."""
    try:
        connection.execute(query)
    except psycopg.Error as error:
        return error
    raise AssertionError("it did not fail")


def statements(address, connection):
    """Prepared statements, pipelines, rows in portions, cancelling."""
    connection.prepare_threshold = 3
    attempt("statements: prepared by use", [number * 2 for number in range(50)],
            lambda: [one(connection, "SELECT %s::int4 * 2", [number]) for number in range(50)])
    attempt("statements: prepared, binary", [number * 3 for number in range(20)],
            lambda: [one(connection, "SELECT %b::int4 * 3", [number], True) for number in range(20)])
    # More statements than are kept: the oldest are closed.
    connection.prepared_max = 3
    attempt("statements: closed when there are many", [[number + place for place in range(8)] for number in range(3)],
            lambda: [[connection.execute(f"SELECT %s::int4 + {place}", [number], prepare=True).fetchone()[0]
                      for place in range(8)] for number in range(3)])
    attempt("statements: a failing one is prepared anew", ["22012", 5],
            lambda: [(lambda: refused(connection, "SELECT 10 / %s::int4", [0]).sqlstate)(),
                     connection.execute("SELECT 10 / %s::int4", [2], prepare=True).fetchone()[0]])
    attempt("statements: PREPARE, EXECUTE, DEALLOCATE", ["PREPARE", 12, "DEALLOCATE", "26000"],
            lambda: [connection.execute("PREPARE plus_two(int4) AS SELECT $1 + 2").statusmessage,
                     one(connection, "EXECUTE plus_two(10)"),
                     connection.execute("DEALLOCATE plus_two").statusmessage,
                     refused(connection, "EXECUTE plus_two(10)").sqlstate])
    attempt("statements: DISCARD ALL", "DISCARD ALL", lambda: connection.execute("DISCARD ALL").statusmessage)
    connection.prepare_threshold = None
    connection.execute("DEALLOCATE ALL")

    def pipeline():
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int4 * %s::int4", [number, number]) for number in range(100)]
        return [cursor.fetchone()[0] for cursor in cursors]

    attempt("statements: a pipeline", [number * number for number in range(100)], pipeline)

    def failing_pipeline():
        outcomes, cursors = [], [connection.cursor() for _ in range(3)]
        with connection.pipeline() as pipeline:
            try:
                for cursor, number in zip(cursors, [2, 0, 1]):
                    cursor.execute("SELECT 6 / %s::int4", [number])
                pipeline.sync()
            except psycopg.Error as error:
                outcomes.append(error.sqlstate)
        outcomes.append(cursors[0].fetchone()[0])
        outcomes += ["no result" if cursor.pgresult is None or cursor.pgresult.ntuples == 0 else cursor.fetchone()
                     for cursor in cursors[1:]]
        return outcomes + [one(connection, "SELECT 1")]

    attempt("statements: an error ends a pipeline, not the connection",
            ["22012", 3, "no result", "no result", 1], failing_pipeline)

    def synced_pipeline():
        with connection.pipeline() as pipeline:
            first = connection.execute("INSERT INTO notes VALUES (%s, 'one')", [1001])
            pipeline.sync()
            second = connection.execute("INSERT INTO notes VALUES (%s, 'two')", [1002])
            pipeline.sync()
            third = connection.execute("SELECT id, body FROM notes WHERE id > %s ORDER BY id", [1000])
        return [first.statusmessage, second.statusmessage, third.fetchall()]

    attempt("statements: writes with a Sync between them",
            ["INSERT 0 1", "INSERT 0 1", [(1001, "one"), (1002, "two")]], synced_pipeline)
    def many():
        cursor = connection.cursor()
        cursor.executemany("SELECT %s::int4 + 1", [(number,) for number in range(20)], returning=True)
        return [result.fetchone()[0] for result in cursor.results()]

    attempt("statements: executemany", list(range(1, 21)), many)
    attempt("statements: rows one by one", list(range(1, 1001)),
            lambda: [row[0] for row in connection.cursor().stream("SELECT n FROM generate_series(1, 1000) AS n")])
    attempt("statements: a large value", 1 << 20, lambda: len(one(connection, "SELECT %s::text", ["x" * (1 << 20)])))
    attempt("statements: a large value, binary", bytes(1 << 20),
            lambda: one(connection, "SELECT %b::bytea", [bytes(1 << 20)], True))
    attempt("statements: many parameters", 1000 * 999 // 2,
            lambda: one(connection, "SELECT " + " + ".join(["%s::int4"] * 1000), list(range(1000))))
    heavy = ("SELECT count(*) FROM generate_series(1, 2000) AS a, generate_series(1, 2000) AS b, "
             "generate_series(1, 2000) AS c")
    for label, cancel in [("cancelled", connection.cancel), ("cancelled safely", connection.cancel_safe)]:
        def cancelled():
            timer = threading.Timer(0.5, cancel)
            timer.start()
            try:
                return (lambda d: [d.sqlstate, d.message_primary])(refused(connection, heavy))
            finally:
                timer.join()

        attempt(f"statements: {label}", ["57014", "canceling statement due to user request"], cancelled)
        attempt(f"statements: works after it was {label}", 1, lambda: one(connection, "SELECT 1"))
    # A cancel that finds nothing to cancel does nothing to the next statement.
    attempt("statements: a late cancel", 1, lambda: (connection.cancel_safe(), one(connection, "SELECT 1"))[1])
    connection.execute("SET statement_timeout = '300ms'")
    attempt("statements: timed out", ["57014", "canceling statement due to statement timeout"],
            lambda: (lambda d: [d.sqlstate, d.message_primary])(refused(connection, heavy)))
    connection.execute("RESET statement_timeout")
    attempt("statements: several in one simple query", ["first", "second"],
            lambda: (lambda cursor: [cursor.fetchone()[0], cursor.nextset() and cursor.fetchone()[0]])(
                connection.execute("SELECT 'first'; SELECT 'second'")))
    with psycopg.connect(**address, autocommit=True) as other:
        attempt("statements: another connection sees the rows", 2,
                lambda: one(other, "SELECT count(*) FROM notes WHERE id > 1000"))


def transactions(address, connection):
    """BEGIN, savepoints, cursors. The server has to keep a transaction between statements."""
    with psycopg.connect(**address) as own:
        own.execute("INSERT INTO notes VALUES (2001, 'kept')")
        check("transactions: open", own.info.transaction_status, TransactionStatus.INTRANS)
        attempt("transactions: not seen before commit", 0,
                lambda: one(connection, "SELECT count(*) FROM notes WHERE id = 2001"))
        own.commit()
        attempt("transactions: seen after commit", 1,
                lambda: one(connection, "SELECT count(*) FROM notes WHERE id = 2001"))
        own.execute("INSERT INTO notes VALUES (2002, 'dropped')")
        own.rollback()
        attempt("transactions: rolled back", 0, lambda: one(connection, "SELECT count(*) FROM notes WHERE id = 2002"))
        attempt("transactions: an error", "22012", lambda: refused(own, "SELECT 1 / 0").sqlstate)
        check("transactions: failed", own.info.transaction_status, TransactionStatus.INERROR)
        attempt("transactions: refused until it ends", "25P02", lambda: refused(own, "SELECT 1").sqlstate)
        own.rollback()
        try:
            with own.transaction():
                own.execute("INSERT INTO notes VALUES (2003, 'outer')")
                try:
                    with own.transaction():
                        own.execute("INSERT INTO notes VALUES (2004, 'inner')")
                        raise ValueError("rolls the savepoint back")
                except ValueError:
                    pass
        except psycopg.Error as error:
            check("transactions: savepoint", str(error), "")
        attempt("transactions: a savepoint rolled back", [(2003,)],
                lambda: connection.execute("SELECT id FROM notes WHERE id IN (2003, 2004)").fetchall())
        with own.cursor("portions") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT n FROM generate_series(1, 1000) AS n")
            attempt("transactions: a cursor in portions", list(range(1, 1001)), lambda: [row[0] for row in cursor])


def schema(connection):
    """Changes of the schema, and rows copied in and out."""
    attempt("schema: CREATE TABLE", "CREATE TABLE",
            lambda: connection.execute("CREATE TABLE parcels (id bigint PRIMARY KEY, weight numeric(8, 3), label text NOT NULL, "
                                       "sent timestamptz, tags text[])").statusmessage)
    sent = datetime(2024, 3, 1, 8, tzinfo=UTC)
    rows = [(number, Decimal("1.250"), f"parcel {number}\t", sent, ["a", None]) for number in range(2000)]

    def copied(options, types, rows):
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY parcels FROM STDIN {options}") as copy:
                if types:
                    copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
            return cursor.statusmessage

    attempt("schema: COPY in, text", "COPY 2000", lambda: copied("", None, rows))
    attempt("schema: COPY in, binary", "COPY 1",
            lambda: copied("(FORMAT binary)", ["int8", "numeric", "text", "timestamptz", "text[]"],
                           [(5000, Decimal("0.5"), "binary", None, [])]))
    attempt("schema: what was copied", rows[-1:] + [(5000, Decimal("0.500"), "binary", None, [])],
            lambda: connection.execute("SELECT * FROM parcels WHERE id >= 1999 ORDER BY id").fetchall())

    def copied_out(options, types):
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY (SELECT * FROM parcels WHERE id < 3 ORDER BY id) TO STDOUT {options}") as copy:
                copy.set_types(types)
                return list(copy.rows())

    types = ["int8", "numeric", "text", "timestamptz", "text[]"]
    for form in ["text", "binary"]:
        attempt(f"schema: COPY out, {form}", rows[:3], lambda: copied_out(f"(FORMAT {form})", types))

    def copy_refused():
        try:
            copied("", None, [(6000, None, "new", None, None), (1, None, "again", None, None)])
        except psycopg.Error as error:
            return [error.diag.sqlstate, error.diag.constraint_name]

    attempt("schema: COPY of a duplicate", ["23505", "parcels_pkey"], copy_refused)
    attempt("schema: nothing of it stays", 2001, lambda: one(connection, "SELECT count(*) FROM parcels"))
    attempt("schema: a foreign key and an index", "CREATE INDEX",
            lambda: [connection.execute("CREATE TABLE scans (parcel bigint REFERENCES parcels ON DELETE CASCADE, at timestamptz, "
                                        "PRIMARY KEY (parcel, at))"),
                     connection.execute("CREATE INDEX scans_by_time ON scans (at)")][-1].statusmessage)
    attempt("schema: the foreign key holds", ["23503", "scans_parcel_fkey"],
            lambda: (lambda d: [d.sqlstate, d.constraint_name])(refused(connection, "INSERT INTO scans VALUES (777777, now())")))
    attempt("schema: ADD COLUMN", [(1, False)],
            lambda: [connection.execute("ALTER TABLE parcels ADD COLUMN fragile boolean NOT NULL DEFAULT false"),
                     connection.execute("SELECT id, fragile FROM parcels WHERE id = 1")][-1].fetchall())
    with connection.transaction(force_rollback=True):
        connection.execute("CREATE TABLE gone (id integer PRIMARY KEY)")
        attempt("schema: seen by its own transaction", 0, lambda: one(connection, "SELECT count(*) FROM gone"))
    attempt("schema: rolled back", "42P01", lambda: refused(connection, "SELECT * FROM gone").sqlstate)
    attempt("schema: DROP TABLE", "DROP TABLE", lambda: connection.execute("DROP TABLE scans, parcels").statusmessage)


def main():
    host, port, *flags = sys.argv[1:]
    address = dict(host=host, port=port, user="anabranch", dbname="anabranch")
    connecting(address)
    with psycopg.connect(**address, autocommit=True) as connection:
        types(connection)
        tables(connection)
        zones(connection)
        calls(connection)
        failures(connection)
        statements(address, connection)
        # They read on one connection what another has written and not committed: under locks, such a program waits for
        # itself, and the harness leaves the flag out.
        if "--transactions" in flags:
            transactions(address, connection)
        if "--schema" in flags:
            schema(connection)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
