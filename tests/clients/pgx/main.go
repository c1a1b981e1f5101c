// pgx against a server: pgx HOST PORT [--transactions] [--schema]
//
// `--transactions` adds transactions of several statements, `--schema` changes of the schema and COPY.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const heavy = "SELECT count(*) FROM generate_series(1, 2000) AS a, generate_series(1, 2000) AS b, generate_series(1, 2000) AS c"

// The driver's ways to run a query: prepared once, described once, described each time, without a description, and
// by the simple protocol.
var modes = []struct {
	name string
	mode pgx.QueryExecMode
}{
	{"cached statement", pgx.QueryExecModeCacheStatement},
	{"cached description", pgx.QueryExecModeCacheDescribe},
	{"described", pgx.QueryExecModeDescribeExec},
	{"not described", pgx.QueryExecModeExec},
	{"simple", pgx.QueryExecModeSimpleProtocol},
}

var (
	ctx     = context.Background()
	address string
)

func main() {
	host, port, flags := os.Args[1], os.Args[2], os.Args[3:]
	address = fmt.Sprintf("postgres://anabranch@%s:%s/anabranch?sslmode=prefer", host, port)
	connection, err := connect("")
	if err != nil {
		check("connect", err.Error(), "")
		os.Exit(finish())
	}
	defer connection.Close(ctx)
	connecting(connection)
	types(connection)
	tables(connection)
	zones()
	calls(connection)
	failures(connection)
	statements(connection)
	pools()
	// They read on one connection what another has written and not committed: under locks, such a program waits for
	// itself, and the harness leaves the flag out.
	if slices.Contains(flags, "--transactions") {
		transactions(connection)
	}
	if slices.Contains(flags, "--schema") {
		schema(connection)
	}
	os.Exit(finish())
}

func connect(options string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, address+options)
}

// one is the only value of the only row, in the type that the driver chooses.
func one(connection *pgx.Conn, query string, arguments ...any) (any, error) {
	rows, err := connection.Query(ctx, query, arguments...)
	if err != nil {
		return nil, err
	}
	values, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	if err != nil {
		return nil, err
	}
	if len(values) != 1 {
		return nil, fmt.Errorf("%d columns", len(values))
	}
	return inUTC(values[0]), nil
}

// inUTC leaves the zone out of times: the driver gives the process's own.
func inUTC(value any) any {
	switch value := value.(type) {
	case time.Time:
		return value.UTC()
	case []any:
		for index := range value {
			value[index] = inUTC(value[index])
		}
		return value
	default:
		return value
	}
}

// text is the only value of the only row as the server prints it.
func text(connection *pgx.Conn, query string, arguments ...any) (any, error) {
	var got *string
	arguments = append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, arguments...)
	rows, err := connection.Query(ctx, query, arguments...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if raw := rows.RawValues()[0]; raw != nil {
			value := string(raw)
			got = &value
		}
	}
	if rows.Err() != nil {
		return nil, rows.Err()
	}
	if got == nil {
		return nil, nil
	}
	return *got, nil
}

func exec(connection *pgx.Conn, query string, arguments ...any) (any, error) {
	tag, err := connection.Exec(ctx, query, arguments...)
	return tag.String(), err
}

func connecting(connection *pgx.Conn) {
	version := connection.PgConn().ParameterStatus("server_version")
	fmt.Printf("server_version: %s\n", version)
	check("connect: version", version[:2], "15")
	for _, parameter := range [][2]string{
		{"client_encoding", "UTF8"}, {"server_encoding", "UTF8"}, {"DateStyle", "ISO, MDY"}, {"IntervalStyle", "postgres"},
		{"integer_datetimes", "on"}, {"standard_conforming_strings", "on"}, {"TimeZone", "UTC"},
	} {
		check("connect: parameter "+parameter[0], connection.PgConn().ParameterStatus(parameter[0]), parameter[1])
	}
	attempt("connect: ping", nil, func() (any, error) { return nil, connection.Ping(ctx) })
	attempt("connect: an empty query", "", func() (any, error) { return exec(connection, "") })
	other, err := connect("&application_name=checks&options=-c%20TimeZone%3DAsia/Tokyo&statement_timeout=60000")
	if err != nil {
		check("connect: with parameters", err.Error(), "")
		return
	}
	defer other.Close(ctx)
	check("connect: application_name", other.PgConn().ParameterStatus("application_name"), "checks")
	check("connect: options", other.PgConn().ParameterStatus("TimeZone"), "Asia/Tokyo")
	attempt("connect: statement_timeout", "1min", func() (any, error) { return one(other, "SHOW statement_timeout") })
	attempt("connect: another database", "3D000", func() (any, error) {
		_, err := pgx.Connect(ctx, strings.Replace(address, "/anabranch?", "/no_such_database?", 1))
		return sqlState(err), nil
	})
}

func types(connection *pgx.Conn) {
	for _, value := range values {
		label := fmt.Sprintf("types: %s %.40q", value.name, value.printed)
		literal := fmt.Sprintf("SELECT '%s'::%s", strings.ReplaceAll(value.printed, "'", "''"), value.name)
		attempt(label+", text", value.printed, func() (any, error) { return text(connection, literal) })
		attempt(label+", parsed", value.parsed, func() (any, error) { return one(connection, literal) })
		for _, mode := range modes {
			query := fmt.Sprintf("SELECT $1::%s", value.name)
			attempt(label+", sent, "+mode.name, value.printed, func() (any, error) {
				return text(connection, query, mode.mode, sent(value, mode.mode))
			})
			attempt(label+", sent and parsed, "+mode.name, value.parsed, func() (any, error) {
				return one(connection, query, mode.mode, sent(value, mode.mode))
			})
		}
		attempt(label+", described", value.oid, func() (any, error) {
			described, err := connection.Prepare(ctx, "", fmt.Sprintf("SELECT $1::%s AS it", value.name))
			if err != nil {
				return nil, err
			}
			return described.Fields[0].DataTypeOID, nil
		})
	}
	for _, mode := range modes {
		attempt("types: NULL, "+mode.name, nil, func() (any, error) { return one(connection, "SELECT $1::int4", mode.mode, nil) })
	}
	attempt("types: int4 chosen by the server", int32(7), func() (any, error) { return one(connection, "SELECT $1 + 1", 6) })
	attempt("types: a result of no type is text", "words", func() (any, error) { return one(connection, "SELECT 'words'") })
}

// sent is what a caller passes: where the statement is not described, the driver goes by the value's own Go type, and some
// have none; those are sent as text.
func sent(value value, mode pgx.QueryExecMode) any {
	isDescribed := mode != pgx.QueryExecModeExec && mode != pgx.QueryExecModeSimpleProtocol
	switch value.parsed.(type) {
	case bool, int16, int32, int64, float32, float64, string, []byte:
		return value.parsed
	}
	if isDescribed {
		return value.parsed
	}
	return value.printed
}

func tables(connection *pgx.Conn) {
	when := at("2024-02-29 23:59:59.999999")
	columns := "id, a_bool, an_int2, an_int4, an_int8, a_numeric, a_money, a_float4, a_float8, a_text, a_varchar, a_char, a_bytea, a_uuid, a_timestamp, a_timestamptz, a_date"
	row := []any{
		int32(1), true, int16(-2), int32(40000), int64(1) << 40, number("123456789.000100"), number("-0.05"), float32(0.25), -1e-5,
		"größer 'than' \"life\"", "twelve chars", "pad   ", allBytes(), [16]byte{1, 2, 3}, at("2024-02-29 23:59:59.000001"), when,
		at("2000-01-01 00:00:00"),
	}
	insert := "INSERT INTO every_type (" + columns + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"
	attempt("every_type: written", "INSERT 0 1", func() (any, error) { return exec(connection, insert, row...) })
	attempt("every_type: NULLs written", "INSERT 0 1", func() (any, error) {
		nulls := make([]any, len(row))
		nulls[0] = int32(2)
		return exec(connection, insert, nulls...)
	})
	for index, name := range strings.Split(columns, ", ") {
		query := "SELECT " + name + " FROM every_type WHERE id = $1"
		attempt("every_type: "+name, row[index], func() (any, error) { return one(connection, query, 1) })
		if name != "id" {
			attempt("every_type: "+name+" is NULL", nil, func() (any, error) { return one(connection, query, 2) })
		}
	}
	arrays := map[string]any{
		"some_bool": []any{true, nil, false}, "some_int4": []any{int32(1), nil, int32(-1)}, "some_int8": []any{int64(1) << 40, nil},
		"some_numeric": []any{number("1.50"), nil}, "some_text": []any{"a", nil, "", `b "c", d`}, "some_timestamptz": []any{when, nil},
	}
	attempt("every_array: written", "INSERT 0 1", func() (any, error) { return exec(connection, "INSERT INTO every_array (id) VALUES (1)") })
	for _, name := range []string{"some_bool", "some_int4", "some_int8", "some_numeric", "some_text", "some_timestamptz"} {
		attempt("every_array: "+name+" written", "UPDATE 1", func() (any, error) {
			return exec(connection, "UPDATE every_array SET "+name+" = $1 WHERE id = 1", arrays[name])
		})
		attempt("every_array: "+name, arrays[name], func() (any, error) { return one(connection, "SELECT "+name+" FROM every_array WHERE id = 1") })
	}
	attempt("tables: found by an array of keys", int64(2), func() (any, error) {
		return one(connection, "SELECT count(*) FROM every_type WHERE id = ANY($1)", []int32{1, 2, 3})
	})
	attempt("tables: RETURNING", int32(40001), func() (any, error) {
		return one(connection, "UPDATE every_type SET an_int4 = an_int4 + 1 WHERE id = $1 RETURNING an_int4", 1)
	})
	attempt("tables: into a struct", []struct {
		ID   int32
		Text string
	}{{1, "größer 'than' \"life\""}}, func() (any, error) {
		rows, err := connection.Query(ctx, "SELECT id, a_text FROM every_type WHERE id = 1")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			ID   int32
			Text string
		}])
	})
	attempt("tables: DELETE counts", "DELETE 1", func() (any, error) { return exec(connection, "DELETE FROM every_type WHERE id = 2") })
	attempt("tables: no row", true, func() (any, error) {
		_, err := one(connection, "SELECT id FROM every_type WHERE id = -1")
		return errors.Is(err, pgx.ErrNoRows), nil
	})
}

func zones() {
	connection, err := connect("&timezone=Europe/Berlin")
	if err != nil {
		check("zone: connect", err.Error(), "")
		return
	}
	defer connection.Close(ctx)
	check("zone: reported", connection.PgConn().ParameterStatus("TimeZone"), "Europe/Berlin")
	summer := at("2024-07-01 12:00:00")
	for _, mode := range modes {
		attempt("zone: printed, "+mode.name, "2024-07-01 14:00:00+02", func() (any, error) { return text(connection, "SELECT $1::timestamptz", mode.mode, summer) })
		attempt("zone: parsed, "+mode.name, summer, func() (any, error) { return one(connection, "SELECT $1::timestamptz", mode.mode, summer) })
	}
	attempt("zone: changed", "SET", func() (any, error) { return exec(connection, "SET TimeZone TO 'Asia/Tokyo'") })
	check("zone: the change is reported", connection.PgConn().ParameterStatus("TimeZone"), "Asia/Tokyo")
}

func calls(connection *pgx.Conn) {
	for _, mode := range modes {
		attempt("calls: SELECT f(), "+mode.name, int32(5), func() (any, error) { return one(connection, "SELECT add($1::int4, $2::int4)", mode.mode, 2, 3) })
	}
	attempt("calls: OUT parameters", []int32{3, 2}, func() (any, error) {
		var quotient, remainder int32
		err := connection.QueryRow(ctx, "SELECT * FROM divide($1, $2)", 17, 5).Scan(&quotient, &remainder)
		return []int32{quotient, remainder}, err
	})
	attempt("calls: several values as a record", []any{int32(3), int32(2)}, func() (any, error) { return one(connection, "SELECT divide(17, 5)") })
	attempt("calls: CALL", "CALL", func() (any, error) { return exec(connection, "CALL write_note($1, $2)", 1, "first") })
	attempt("calls: CALL by name", "CALL", func() (any, error) {
		return exec(connection, "CALL write_note(p_body => @body, p_id => @id)", pgx.NamedArgs{"id": 2, "body": "second"})
	})
	attempt("calls: a set of rows", []string{"first", "second"}, func() (any, error) {
		rows, err := connection.Query(ctx, "SELECT body FROM notes_from($1)", 1)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	})
	answer := refused(func() error { _, err := one(connection, "SELECT refuse($1)", "no"); return err })
	check("calls: an error of the application", []string{answer.Code, answer.Message}, []string{"AB123", "refused: no"})
	answer = refused(func() error { _, err := exec(connection, "CALL no_such_procedure(1)"); return err })
	check("calls: unknown procedure", answer.Code, "42883")
}

func failures(connection *pgx.Conn) {
	attempt("errors: a row to meet", "INSERT 0 1", func() (any, error) {
		return exec(connection, "INSERT INTO customers (id, email, age) VALUES (1, 'a@example.org', 30)")
	})
	for _, failure := range []struct {
		name, query string
		arguments   []any
		expected    [5]string
	}{
		{"unique", "INSERT INTO customers VALUES ($1, $2, 1)", []any{2, "a@example.org"}, [5]string{"23505", "public", "customers", "", "customers_email_is_unique"}},
		{"primary key", "INSERT INTO customers VALUES ($1, $2, 1)", []any{1, "b@example.org"}, [5]string{"23505", "public", "customers", "", "customers_pkey"}},
		{"check", "INSERT INTO customers VALUES (3, 'c@example.org', $1)", []any{-1}, [5]string{"23514", "public", "customers", "", "customers_are_born"}},
		{"not null", "INSERT INTO customers VALUES (4, $1, 1)", []any{nil}, [5]string{"23502", "public", "customers", "email", ""}},
		{"foreign key", "INSERT INTO orders VALUES (1, $1, 5)", []any{99}, [5]string{"23503", "public", "orders", "", "orders_have_a_customer"}},
		{"division by zero", "SELECT 1 / $1::int4", []any{0}, [5]string{"22012"}},
		{"out of range", "SELECT $1::int4 + 1", []any{2147483647}, [5]string{"22003"}},
		{"not a number", "SELECT $1::text::int4", []any{"x"}, [5]string{"22P02"}},
		{"syntax", "SELECT 1 FROM FROM x", nil, [5]string{"42601"}},
		{"undefined table", "SELECT * FROM no_such_table", nil, [5]string{"42P01"}},
		{"undefined column", "SELECT no_such_column FROM customers", nil, [5]string{"42703"}},
		{"unknown setting", "SET no_such_setting = 1", nil, [5]string{"42704"}},
		{"undetermined parameter", "SELECT $1 IS NULL", []any{nil}, [5]string{"42P18"}},
	} {
		answer := refused(func() error { _, err := exec(connection, failure.query, failure.arguments...); return err })
		check("errors: "+failure.name, [5]string{answer.Code, answer.SchemaName, answer.TableName, answer.ColumnName, answer.ConstraintName}, failure.expected)
		attempt("errors: works after "+failure.name, int32(1), func() (any, error) { return one(connection, "SELECT 1") })
	}
	answer := refused(func() error { _, err := exec(connection, "SELECT no_such_column FROM customers"); return err })
	check("errors: the position", answer.Position, int32(8))
	answer = refused(func() error {
		_, err := exec(connection, "INSERT INTO customers VALUES (5, 'a@example.org', 1)")
		return err
	})
	check("errors: the detail of a duplicate", answer.Detail, "Key (email)=(a@example.org) already exists.")
}

func statements(connection *pgx.Conn) {
	attempt("statements: prepared by name", int32(7), func() (any, error) {
		if _, err := connection.Prepare(ctx, "sum_of", "SELECT $1::int4 + $2::int4"); err != nil {
			return nil, err
		}
		return one(connection, "sum_of", 3, 4)
	})
	attempt("statements: the name is free again", "26000", func() (any, error) {
		if err := connection.Deallocate(ctx, "sum_of"); err != nil {
			return nil, err
		}
		return refused(func() error { _, err := exec(connection, "EXECUTE sum_of(1, 2)"); return err }).Code, nil
	})
	attempt("statements: more than the cache holds", true, func() (any, error) {
		for number := range 600 {
			got, err := one(connection, fmt.Sprintf("SELECT %d + $1::int4", number), 1)
			if err != nil || got != int32(number+1) {
				return got, err
			}
		}
		return true, nil
	})
	attempt("statements: a batch", []any{int32(1), "INSERT 0 1", "two", "UPDATE 1"}, func() (any, error) {
		batch := &pgx.Batch{}
		batch.Queue("SELECT $1::int4", 1)
		batch.Queue("INSERT INTO notes VALUES ($1, $2)", 1001, "one")
		batch.Queue("SELECT $1::text", "two")
		batch.Queue("UPDATE notes SET body = $1 WHERE id = $2", "eleven", 1001)
		results := connection.SendBatch(ctx, batch)
		var number int32
		var words string
		if err := results.QueryRow().Scan(&number); err != nil {
			return nil, errors.Join(err, results.Close())
		}
		inserted, err := results.Exec()
		if err != nil {
			return nil, errors.Join(err, results.Close())
		}
		if err := results.QueryRow().Scan(&words); err != nil {
			return nil, errors.Join(err, results.Close())
		}
		updated, err := results.Exec()
		return []any{number, inserted.String(), words, updated.String()}, errors.Join(err, results.Close())
	})
	attempt("statements: a batch is one transaction", []any{"22012", int64(0)}, func() (any, error) {
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO notes VALUES (1100, 'gone')")
		batch.Queue("SELECT 1 / $1::int4", 0)
		err := connection.SendBatch(ctx, batch).Close()
		count, failure := one(connection, "SELECT count(*) FROM notes WHERE id = 1100")
		return []any{sqlState(err), count}, failure
	})
	attempt("statements: several in one message", []string{"SELECT 1", "INSERT 0 1", "SELECT 2"}, func() (any, error) {
		results, err := connection.PgConn().Exec(ctx, "SELECT 1; INSERT INTO notes VALUES (1200, 'x'); SELECT generate_series(1, 2)").ReadAll()
		tags := []string{}
		for _, result := range results {
			tags = append(tags, result.CommandTag.String())
		}
		return tags, err
	})
	attempt("statements: a pipeline", []string{"SELECT 1", "22012", "SELECT 1"}, func() (any, error) {
		pipeline := connection.PgConn().StartPipeline(ctx)
		for _, divisor := range []string{"1", "0", "2"} {
			pipeline.SendQueryParams("SELECT 6 / $1::int4", [][]byte{[]byte(divisor)}, []uint32{pgtype.Int4OID}, nil, nil)
			if err := pipeline.Sync(); err != nil {
				return nil, err
			}
		}
		got := []string{}
		for {
			results, err := pipeline.GetResults()
			if err != nil {
				got = append(got, sqlState(err))
				continue
			}
			reader, isReader := results.(*pgconn.ResultReader)
			if isReader {
				result := reader.Read()
				if result.Err != nil {
					got = append(got, sqlState(result.Err))
				} else {
					got = append(got, result.CommandTag.String())
				}
			}
			if results == nil {
				break
			}
		}
		return got, pipeline.Close()
	})
	attempt("statements: many rows", 20000, func() (any, error) {
		rows, err := connection.Query(ctx, "SELECT n FROM generate_series(1, $1::int4) AS n", 20000)
		if err != nil {
			return nil, err
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		return len(got), err
	})
	attempt("statements: a large value", 1<<20, func() (any, error) {
		got, err := one(connection, "SELECT $1::text", strings.Repeat("x", 1<<20))
		if err != nil {
			return nil, err
		}
		return len(got.(string)), nil
	})
	attempt("statements: an error after rows", "22012", func() (any, error) {
		rows, err := connection.Query(ctx, "SELECT 10 / (3 - n) FROM generate_series(1, 5) AS n")
		if err != nil {
			return nil, err
		}
		_, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return sqlState(err), nil
	})
	answer := refused(func() error {
		cancelled, err := connect("")
		if err != nil {
			return err
		}
		defer cancelled.Close(ctx)
		go func() {
			time.Sleep(500 * time.Millisecond)
			// What comes of it is told by the statement.
			_ = cancelled.PgConn().CancelRequest(ctx)
		}()
		_, err = cancelled.Exec(ctx, heavy)
		return err
	})
	check("statements: cancelled", []string{answer.Code, answer.Message}, []string{"57014", "canceling statement due to user request"})
	attempt("statements: a deadline of the client closes its connection", true, func() (any, error) {
		hasty, err := connect("")
		if err != nil {
			return nil, err
		}
		short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		defer stop()
		_, err = hasty.Exec(short, heavy)
		return pgconn.Timeout(err) && hasty.IsClosed(), nil
	})
	attempt("statements: works after these", int32(1), func() (any, error) { return one(connection, "SELECT 1") })
}

func pools() {
	pool, err := pgxpool.New(ctx, address+"&pool_max_conns=4")
	if err != nil {
		check("pool: made", err.Error(), "")
		return
	}
	defer pool.Close()
	answers := make(chan string, 40)
	for number := range 40 {
		go func() {
			var got int
			err := pool.QueryRow(ctx, "SELECT $1::int4", number).Scan(&got)
			answers <- fmt.Sprint(got-number, err)
		}()
	}
	wrong := []string{}
	for range 40 {
		if answer := <-answers; answer != "0 <nil>" {
			wrong = append(wrong, answer)
		}
	}
	check("pool: each gets its own answer", wrong, []string{})
	check("pool: no more connections than it may have", pool.Stat().TotalConns() <= 4, true)
}

func transactions(connection *pgx.Conn) {
	other, err := connect("")
	if err != nil {
		check("transactions: connect", err.Error(), "")
		return
	}
	defer other.Close(ctx)
	count := func() (any, error) { return one(other, "SELECT count(*) FROM notes WHERE id > 2000") }
	attempt("transactions: nested", []string{"not seen", "seen"}, func() (any, error) {
		seen := []string{}
		look := func() error {
			got, err := count()
			if got == int64(0) {
				seen = append(seen, "not seen")
			} else if got == int64(1) {
				seen = append(seen, "seen")
			} else {
				seen = append(seen, fmt.Sprint(got))
			}
			return err
		}
		err := pgx.BeginFunc(ctx, connection, func(transaction pgx.Tx) error {
			if _, err := transaction.Exec(ctx, "INSERT INTO notes VALUES ($1, 'kept')", 2001); err != nil {
				return err
			}
			nested, err := transaction.Begin(ctx)
			if err != nil {
				return err
			}
			if _, err := nested.Exec(ctx, "INSERT INTO notes VALUES ($1, 'dropped')", 2002); err != nil {
				return err
			}
			if err := nested.Rollback(ctx); err != nil {
				return err
			}
			return look()
		})
		if err != nil {
			return nil, err
		}
		err = look()
		return seen, err
	})
	attempt("transactions: refused after an error until it ends", "25P02", func() (any, error) {
		transaction, err := connection.Begin(ctx)
		if err != nil {
			return nil, err
		}
		_, _ = transaction.Exec(ctx, "SELECT 1 / 0")
		_, err = transaction.Exec(ctx, "SELECT 1")
		return sqlState(err), transaction.Rollback(ctx)
	})
	attempt("transactions: COMMIT of a failed one", true, func() (any, error) {
		transaction, err := connection.Begin(ctx)
		if err != nil {
			return nil, err
		}
		_, _ = transaction.Exec(ctx, "SELECT 1 / 0")
		return errors.Is(transaction.Commit(ctx), pgx.ErrTxCommitRollback), nil
	})
	attempt("transactions: READ ONLY", "25006", func() (any, error) {
		transaction, err := connection.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.Serializable})
		if err != nil {
			return nil, err
		}
		_, err = transaction.Exec(ctx, "INSERT INTO notes VALUES (2003, 'x')")
		return sqlState(err), transaction.Rollback(ctx)
	})
}

// schema changes the schema and copies rows in and out.
func schema(connection *pgx.Conn) {
	attempt("schema: CREATE TABLE", "CREATE TABLE", func() (any, error) {
		return exec(connection, "CREATE TABLE parcels (id bigint PRIMARY KEY, weight numeric(8, 3), label text NOT NULL, sent timestamptz)")
	})
	const count = 5000
	sent := at("2024-03-01 08:00:00")
	attempt("schema: COPY in, binary", int64(count), func() (any, error) {
		rows := pgx.CopyFromSlice(count, func(index int) ([]any, error) {
			return []any{int64(index), number("1.250"), fmt.Sprintf("parcel %d", index), sent}, nil
		})
		return connection.CopyFrom(ctx, pgx.Identifier{"parcels"}, []string{"id", "weight", "label", "sent"}, rows)
	})
	attempt("schema: what was copied", []any{"parcel 4999", number("1.250"), sent}, func() (any, error) {
		rows, err := connection.Query(ctx, "SELECT label, weight, sent FROM parcels ORDER BY id DESC LIMIT 1")
		if err != nil {
			return nil, err
		}
		got, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		if err != nil {
			return nil, err
		}
		return inUTC(got), nil
	})
	attempt("schema: COPY out, text", "7\t1.250\tparcel 7\t2024-03-01 08:00:00+00\n", func() (any, error) {
		var out bytes.Buffer
		_, err := connection.PgConn().CopyTo(ctx, &out, "COPY (SELECT * FROM parcels WHERE id = 7) TO STDOUT")
		return out.String(), err
	})
	attempt("schema: COPY in, CSV", "COPY 2", func() (any, error) {
		tag, err := connection.PgConn().CopyFrom(ctx, strings.NewReader("id,label\n9001,\"a, b\"\n9002,c\n"), "COPY parcels (id, label) FROM STDIN (FORMAT csv, HEADER)")
		return tag.String(), err
	})
	answer := refused(func() error {
		_, err := connection.PgConn().CopyFrom(ctx, strings.NewReader("9003\tx\n9001\ty\n"), "COPY parcels (id, label) FROM STDIN")
		return err
	})
	check("schema: COPY of a duplicate", []string{answer.Code, answer.ConstraintName}, []string{"23505", "parcels_pkey"})
	attempt("schema: nothing of it stays", int64(count+2), func() (any, error) { return one(connection, "SELECT count(*) FROM parcels") })
	attempt("schema: ADD COLUMN", "ALTER TABLE", func() (any, error) {
		return exec(connection, "ALTER TABLE parcels ADD COLUMN fragile boolean NOT NULL DEFAULT false")
	})
	// The driver has described this query before the table had the column.
	for index := range 2 {
		attempt(fmt.Sprintf("schema: the new column, %d", index), []string{"id", "fragile"}, func() (any, error) {
			rows, err := connection.Query(ctx, "SELECT id, fragile FROM parcels WHERE id = $1", 1)
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			names := []string{}
			for _, field := range rows.FieldDescriptions() {
				names = append(names, field.Name)
			}
			return names, rows.Err()
		})
	}
	attempt("schema: an index", "CREATE INDEX", func() (any, error) { return exec(connection, "CREATE INDEX ON parcels (label)") })
	attempt("schema: in a transaction, rolled back", "42P01", func() (any, error) {
		transaction, err := connection.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := transaction.Exec(ctx, "CREATE TABLE gone (id integer PRIMARY KEY)"); err != nil {
			return nil, errors.Join(err, transaction.Rollback(ctx))
		}
		if err := transaction.Rollback(ctx); err != nil {
			return nil, err
		}
		return refused(func() error { _, err := exec(connection, "SELECT * FROM gone"); return err }).Code, nil
	})
	attempt("schema: DROP TABLE", "DROP TABLE", func() (any, error) { return exec(connection, "DROP TABLE parcels") })
}
