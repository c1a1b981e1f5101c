import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TimeZone;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.postgresql.PGConnection;
import org.postgresql.PGStatement;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/**
 * pgjdbc against a server: {@code java Main HOST PORT [--transactions] [--schema]}.
 *
 * <p>{@code --transactions} adds transactions of several statements, or a pipeline of writes that is one: setAutoCommit(false), savepoints, setFetchSize, executeBatch.
 * {@code --schema} adds changes of the schema and COPY.
 */
final class Main {
  private static final String HEAVY = "SELECT count(*) FROM generate_series(1, 2000) AS a, "
      + "generate_series(1, 2000) AS b, generate_series(1, 2000) AS c";

  private final Checks checks = new Checks();
  private final String url;

  private Main(String host, String port) {
    url = "jdbc:postgresql://" + host + ":" + port + "/anabranch";
  }

  private Connection connect(String... options) throws SQLException {
    Properties properties = new Properties();
    properties.setProperty("user", "anabranch");
    for (String option : options) {
      properties.setProperty(option.split("=", 2)[0], option.split("=", 2)[1]);
    }
    return DriverManager.getConnection(url, properties);
  }

  /** The first column of every row. */
  private static List<Object> column(Connection connection, String query, Object... parameters) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(query)) {
      for (int place = 0; place < parameters.length; place++) {
        statement.setObject(place + 1, parameters[place]);
      }
      List<Object> found = new ArrayList<>();
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          found.add(rows.getObject(1));
        }
      }
      return found;
    }
  }

  private static Object one(Connection connection, String query, Object... parameters) throws SQLException {
    List<Object> found = column(connection, query, parameters);
    if (found.size() != 1) {
      throw new IllegalStateException("expected one row, got " + found);
    }
    return found.get(0);
  }

  /** The server's error that a statement has to end with. */
  private static ServerErrorMessage refused(Connection connection, String query, Object... parameters)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(query)) {
      for (int place = 0; place < parameters.length; place++) {
        statement.setObject(place + 1, parameters[place]);
      }
      statement.execute();
    } catch (PSQLException error) {
      if (error.getServerErrorMessage() == null) {
        throw error;
      }
      return error.getServerErrorMessage();
    }
    throw new IllegalStateException("it did not fail");
  }

  private void connecting() throws SQLException {
    try (Connection connection = connect("sslmode=prefer")) {
      Map<String, String> parameters = connection.unwrap(PGConnection.class).getParameterStatuses();
      System.out.println("server_version: " + parameters.get("server_version"));
      checks.equal("connect: version", connection.getMetaData().getDatabaseMajorVersion(), 15);
      checks.equal("connect: parameter client_encoding", parameters.get("client_encoding"), "UTF8");
      checks.equal("connect: parameter server_encoding", parameters.get("server_encoding"), "UTF8");
      checks.equal("connect: parameter DateStyle", parameters.get("DateStyle"), "ISO, MDY");
      checks.equal("connect: parameter integer_datetimes", parameters.get("integer_datetimes"), "on");
      checks.equal("connect: parameter standard_conforming_strings", parameters.get("standard_conforming_strings"), "on");
      checks.equal("connect: the driver's time zone", parameters.get("TimeZone"), TimeZone.getDefault().getID());
      checks.equal("connect: the driver's name", parameters.get("application_name"), "PostgreSQL JDBC Driver");
      checks.attempt("connect: isValid", true, () -> connection.isValid(5));
      checks.attempt("connect: getSchema", "public", connection::getSchema);
      checks.attempt("connect: an isolation level", true, () -> connection.getTransactionIsolation() > 0);
      checks.attempt("connect: extra_float_digits", "1", () -> one(connection, "SHOW extra_float_digits"));
    }
    try (Connection connection = connect("ApplicationName=checks", "options=-c statement_timeout=60000")) {
      checks.attempt("connect: application_name", "checks", () -> one(connection, "SHOW application_name"));
      checks.attempt("connect: statement_timeout", "1min", () -> one(connection, "SHOW statement_timeout"));
      checks.attempt("connect: setReadOnly", true, () -> {
        connection.setReadOnly(true);
        connection.setReadOnly(false);
        return connection.isValid(5);
      });
    }
    checks.attempt("connect: TLS is refused", "08004", () -> {
      try (Connection connection = connect("sslmode=require")) {
        return connection.isValid(5);
      } catch (SQLException error) {
        return error.getSQLState();
      }
    });
  }

  private void zones() throws SQLException {
    TimeZone before = TimeZone.getDefault();
    TimeZone.setDefault(TimeZone.getTimeZone("Europe/Berlin"));
    try {
      for (String mode : List.of("binaryTransfer=true", "binaryTransfer=false")) {
        try (Connection connection = connect(mode, "prepareThreshold=-1")) {
          String label = "zone: " + mode + ": ";
          OffsetDateTime summer = OffsetDateTime.parse("2024-07-01T12:00:00Z");
          checks.attempt(label + "the driver's is the connection's", "Europe/Berlin", () -> one(connection, "SHOW TimeZone"));
          checks.attempt(label + "printed", "2024-07-01 14:00:00+02", () -> one(connection, "SELECT ?::timestamptz::text", summer));
          checks.attempt(label + "read as local", summer.toInstant(),
              () -> ((Timestamp) one(connection, "SELECT '2024-07-01 14:00:00'::timestamptz")).toInstant());
          checks.attempt(label + "a Timestamp sent", summer.toInstant(),
              () -> ((Timestamp) one(connection, "SELECT ?::timestamptz", Timestamp.from(summer.toInstant()))).toInstant());
          checks.attempt(label + "a Timestamp sent, printed", "2024-01-01 13:00:00+01", () -> one(connection,
              "SELECT ?::timestamptz::text", Timestamp.from(OffsetDateTime.parse("2024-01-01T12:00:00Z").toInstant())));
          int key = mode.endsWith("true") ? 901 : 902;
          checks.attempt(label + "written and read", summer.toInstant(), () -> {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO every_type (id, a_timestamptz) VALUES (?, ?)")) {
              insert.setInt(1, key);
              insert.setObject(2, summer);
              insert.executeUpdate();
            }
            return ((Timestamp) one(connection, "SELECT a_timestamptz FROM every_type WHERE id = ?", key)).toInstant();
          });
        }
      }
    } finally {
      TimeZone.setDefault(before);
    }
  }

  private void calls(Connection connection) throws SQLException {
    checks.attempt("calls: {? = call f(?, ?)}", 5, () -> {
      try (CallableStatement call = connection.prepareCall("{? = call add(?, ?)}")) {
        call.registerOutParameter(1, java.sql.Types.INTEGER);
        call.setInt(2, 2);
        call.setInt(3, 3);
        call.execute();
        return call.getInt(1);
      }
    });
    checks.attempt("calls: {call f(…)} with OUT parameters", List.of(3, 2), () -> {
      try (CallableStatement call = connection.prepareCall("{call divide(?, ?, ?, ?)}")) {
        call.setInt(1, 17);
        call.setInt(2, 5);
        call.registerOutParameter(3, java.sql.Types.INTEGER);
        call.registerOutParameter(4, java.sql.Types.INTEGER);
        call.execute();
        return List.of(call.getInt(3), call.getInt(4));
      }
    });
    try (Connection calling = connect("escapeSyntaxCallMode=callIfNoReturn")) {
      checks.attempt("calls: {call p(?, ?)}", false, () -> {
        try (CallableStatement call = calling.prepareCall("{call write_note(?, ?)}")) {
          call.setInt(1, 1);
          call.setString(2, "first");
          return call.execute();
        }
      });
    }
    checks.attempt("calls: CALL p(?, ?)", -1, () -> {
      try (PreparedStatement call = connection.prepareStatement("CALL write_note(?, ?)")) {
        call.setInt(1, 2);
        call.setString(2, "second");
        return call.executeUpdate();
      }
    });
    checks.attempt("calls: CALL without parameters", -1, () -> {
      try (Statement call = connection.createStatement()) {
        return call.executeUpdate("CALL write_note(3, 'third')");
      }
    });
    checks.attempt("calls: SELECT f()", 5, () -> one(connection, "SELECT add(?, ?)", 2, 3));
    checks.attempt("calls: SELECT * FROM f()", 5, () -> one(connection, "SELECT * FROM add(?, ?)", 2, 3));
    checks.attempt("calls: a set of rows", List.of(2, 3), () -> column(connection, "SELECT * FROM notes_from(?)", 2));
    checks.attempt("calls: a set of rows by {call f(?)}", List.of("second", "third"), () -> {
      try (CallableStatement call = connection.prepareCall("{call notes_from(?)}")) {
        call.setInt(1, 2);
        List<String> found = new ArrayList<>();
        try (ResultSet rows = call.executeQuery()) {
          while (rows.next()) {
            found.add(rows.getString("body"));
          }
        }
        return found;
      }
    });
    checks.attempt("calls: an error of the application", List.of("AB123", "refused: no"), () -> {
      ServerErrorMessage error = refused(connection, "SELECT refuse(?)", "no");
      return List.of(error.getSQLState(), error.getMessage());
    });
    checks.attempt("calls: the procedure keeps the key", List.of("23505", "notes_pkey"), () -> {
      ServerErrorMessage error = refused(connection, "CALL write_note(?, ?)", 1, "again");
      return List.of(error.getSQLState(), error.getConstraint());
    });
    checks.attempt("calls: SELECT of a procedure", "42809",
        () -> refused(connection, "SELECT write_note(9, 'x')").getSQLState());
  }

  private void failure(Connection connection, String name, List<String> expected, String query, Object... parameters) {
    checks.attempt("errors: " + name, expected, () -> {
      ServerErrorMessage error = refused(connection, query, parameters);
      List<String> found = new ArrayList<>();
      found.add(error.getSQLState());
      for (String field : new String[] {error.getTable(), error.getColumn(), error.getConstraint()}) {
        if (field != null) {
          found.add(field);
        }
      }
      if (error.getPosition() > 0) {
        found.add("at " + error.getPosition());
      }
      return found;
    });
    checks.attempt("errors: works after " + name, 1, () -> one(connection, "SELECT 1"));
  }

  private void failures(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute("INSERT INTO customers (id, email, age) VALUES (1, 'a@example.org', 30)");
    }
    String insert = "INSERT INTO customers VALUES (?, ?, ?)";
    failure(connection, "unique", List.of("23505", "customers", "customers_email_is_unique"), insert, 2, "a@example.org", 1);
    failure(connection, "primary key", List.of("23505", "customers", "customers_pkey"), insert, 1, "b@example.org", 1);
    failure(connection, "check", List.of("23514", "customers", "customers_are_born"), insert, 3, "c@example.org", -1);
    failure(connection, "not null", List.of("23502", "customers", "email"), "INSERT INTO customers VALUES (?, NULL, 1)", 4);
    failure(connection, "foreign key", List.of("23503", "orders", "orders_have_a_customer"),
        "INSERT INTO orders VALUES (1, ?, 5)", 99);
    failure(connection, "division by zero", List.of("22012"), "SELECT 1 / ?", 0);
    failure(connection, "integer out of range", List.of("22003"), "SELECT ?::int4 + 1", Integer.MAX_VALUE);
    failure(connection, "numeric out of its bounds", List.of("22003"), "SELECT ?::numeric(3, 1)", new BigDecimal("1000"));
    failure(connection, "text too long", List.of("22001"), "INSERT INTO every_type (id, a_varchar) VALUES (50, ?)", "thirteen chars");
    failure(connection, "a number in a text", List.of("22P02"), "SELECT ?::text::int4", "x");
    failure(connection, "syntax", List.of("42601", "at 1"), "SELEC 1");
    failure(connection, "syntax in the middle", List.of("42601", "at 15"), "SELECT 1 FROM FROM x");
    failure(connection, "undefined table", List.of("42P01", "at 15"), "SELECT * FROM no_such_table");
    failure(connection, "undefined column", List.of("42703", "at 8"), "SELECT no_such_column FROM customers");
    failure(connection, "undefined function", List.of("42883", "at 8"), "SELECT no_such_function(?)", 1);
    failure(connection, "a text where a number is", List.of("42883", "at 36"), "SELECT id FROM customers WHERE age = ?", "text");
    failure(connection, "a text for a column of numbers", List.of("42804", "at 45"),
        "INSERT INTO customers VALUES (7, 'd@e.org', ?)", "text");
    failure(connection, "unknown setting", List.of("42704"), "SET no_such_setting = 1");
    checks.attempt("errors: detail and schema of a duplicate", List.of("Key (id)=(1) already exists.", "public", "ERROR"), () -> {
      ServerErrorMessage error = refused(connection, insert, 1, "b@example.org", 1);
      return List.of(error.getDetail(), error.getSchema(), error.getSeverity());
    });
  }

  private void statements(Connection connection) throws SQLException {
    checks.attempt("statements: prepared on the server after three runs", List.of(190, true), () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT ?::int4 * 2")) {
        statement.unwrap(PGStatement.class).setPrepareThreshold(3);
        int sum = 0;
        for (int number = 0; number < 20; number++) {
          statement.setInt(1, number);
          try (ResultSet row = statement.executeQuery()) {
            row.next();
            sum += row.getInt(1) / 2;
          }
        }
        return List.of(sum, statement.unwrap(PGStatement.class).isUseServerPrepare());
      }
    });
    checks.attempt("statements: another type for the same parameter", List.of("1", "one"), () -> {
      List<String> found = new ArrayList<>();
      try (PreparedStatement statement = connection.prepareStatement("SELECT ?::text")) {
        statement.unwrap(PGStatement.class).setPrepareThreshold(1);
        for (Object value : new Object[] {1, "one"}) {
          statement.setObject(1, value);
          try (ResultSet row = statement.executeQuery()) {
            row.next();
            found.add(row.getString(1));
          }
        }
      }
      return found;
    });
    try (Connection few = connect("preparedStatementCacheQueries=2", "prepareThreshold=1")) {
      checks.attempt("statements: closed when there are many", List.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), () -> {
        List<Object> found = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
          found.add(one(few, "SELECT " + number + " + ?::int4", 0));
        }
        return found;
      });
    }
    checks.attempt("statements: an error in a prepared one", List.of("22012", 5), () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT 10 / ?::int4")) {
        statement.unwrap(PGStatement.class).setPrepareThreshold(1);
        String state = "no error";
        statement.setInt(1, 0);
        try {
          statement.executeQuery();
        } catch (SQLException error) {
          state = error.getSQLState();
        }
        statement.setInt(1, 2);
        try (ResultSet row = statement.executeQuery()) {
          row.next();
          return List.of(state, row.getInt(1));
        }
      }
    });
    checks.attempt("statements: a row limit", 10, () -> {
      try (Statement statement = connection.createStatement()) {
        statement.setMaxRows(10);
        int count = 0;
        try (ResultSet rows = statement.executeQuery("SELECT n FROM generate_series(1, 1000) AS n")) {
          while (rows.next()) {
            count++;
          }
        }
        return count;
      }
    });
    checks.attempt("statements: works after a row limit", 1, () -> one(connection, "SELECT 1"));
    checks.attempt("statements: generated keys", 41, () -> {
      try (PreparedStatement statement =
          connection.prepareStatement("INSERT INTO notes VALUES (?, 'returned')", new String[] {"id"})) {
        statement.setInt(1, 41);
        statement.executeUpdate();
        try (ResultSet keys = statement.getGeneratedKeys()) {
          keys.next();
          return keys.getInt(1);
        }
      }
    });
    checks.attempt("statements: several in one", List.of(1, 2), () -> {
      try (Statement statement = connection.createStatement()) {
        List<Integer> found = new ArrayList<>();
        boolean has = statement.execute("SELECT 1; SELECT 2");
        while (has) {
          try (ResultSet row = statement.getResultSet()) {
            row.next();
            found.add(row.getInt(1));
          }
          has = statement.getMoreResults();
        }
        return found;
      }
    });
    try (Connection rewriting = connect("reWriteBatchedInserts=true")) {
      checks.attempt("statements: a batch that the driver makes one INSERT", List.of(8, 8), () -> {
        try (PreparedStatement statement = rewriting.prepareStatement("INSERT INTO notes VALUES (?, ?)")) {
          for (int id = 100; id < 108; id++) {
            statement.setInt(1, id);
            statement.setString(2, "batch");
            statement.addBatch();
          }
          return List.of(statement.executeBatch().length,
              ((Long) one(rewriting, "SELECT count(*) FROM notes WHERE body = 'batch'")).intValue());
        }
      });
    }
    checks.attempt("statements: a large value", 1 << 20,
        () -> ((String) one(connection, "SELECT ?::text", "x".repeat(1 << 20))).length());
    checks.attempt("statements: many rows", 20000,
        () -> column(connection, "SELECT n FROM generate_series(1, ?::int4) AS n", 20000).size());
    checks.attempt("statements: cancelled", List.of("57014", "canceling statement due to user request"), () -> {
      try (Statement statement = connection.createStatement()) {
        CompletableFuture<Void> cancel = CompletableFuture.runAsync(() -> {
          try {
            statement.cancel();
          } catch (SQLException error) {
            throw new IllegalStateException(error);
          }
        }, CompletableFuture.delayedExecutor(500, TimeUnit.MILLISECONDS));
        try {
          statement.executeQuery(HEAVY);
          return "it did not fail";
        } catch (PSQLException error) {
          cancel.join();
          return List.of(error.getSQLState(), String.valueOf(error.getServerErrorMessage().getMessage()));
        }
      }
    });
    checks.attempt("statements: works after a cancel", 1, () -> one(connection, "SELECT 1"));
    checks.attempt("statements: timed out by the driver", "57014", () -> {
      try (Statement statement = connection.createStatement()) {
        statement.setQueryTimeout(1);
        statement.executeQuery(HEAVY);
        return "it did not fail";
      } catch (SQLException error) {
        return error.getSQLState();
      }
    });
    checks.attempt("statements: works after a timeout", 1, () -> one(connection, "SELECT 1"));
  }

  private void transactions(Connection connection) throws SQLException {
    try (Connection own = connect()) {
      // Up to its one Sync, a batch is a transaction.
      checks.attempt("transactions: a batch of writes", List.of(1, 1, 1), () -> {
        try (PreparedStatement statement = own.prepareStatement("INSERT INTO notes VALUES (?, 'batch')")) {
          for (int id = 200; id < 203; id++) {
            statement.setInt(1, id);
            statement.addBatch();
          }
          return Arrays.stream(statement.executeBatch()).boxed().toList();
        }
      });
      own.setAutoCommit(false);
      try (Statement statement = own.createStatement()) {
        statement.executeUpdate("INSERT INTO notes VALUES (2001, 'kept')");
        checks.attempt("transactions: not seen before commit", 0L,
            () -> one(connection, "SELECT count(*) FROM notes WHERE id > 2000"));
        var savepoint = own.setSavepoint();
        statement.executeUpdate("INSERT INTO notes VALUES (2002, 'dropped')");
        own.rollback(savepoint);
        own.commit();
        checks.attempt("transactions: seen after commit", List.of(2001),
            () -> column(connection, "SELECT id FROM notes WHERE id > 2000"));
        statement.setFetchSize(100);
        checks.attempt("transactions: rows in portions", 1000, () -> {
          int count = 0;
          try (ResultSet rows = statement.executeQuery("SELECT n FROM generate_series(1, 1000) AS n")) {
            while (rows.next()) {
              count++;
            }
          }
          return count;
        });
        own.rollback();
        checks.attempt("transactions: an error", "22012", () -> refused(own, "SELECT 1 / 0").getSQLState());
        checks.attempt("transactions: refused until it ends", "25P02", () -> refused(own, "SELECT 1").getSQLState());
        own.rollback();
      }
    }
  }

  /** Changes of the schema, and rows copied in and out. */
  private void schema(Connection connection) throws SQLException {
    CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
    try (Statement statement = connection.createStatement()) {
      checks.attempt("schema: CREATE TABLE", 0, () -> statement.executeUpdate(
          "CREATE TABLE parcels (id bigint PRIMARY KEY, weight numeric(8, 3), label text NOT NULL)"));
      checks.attempt("schema: COPY in, CSV", 3L, () -> copy.copyIn(
          "COPY parcels FROM STDIN (FORMAT csv)", new StringReader("1,1.25,\"a, b\"\n2,,c\n3,0.5,d\n")));
      checks.attempt("schema: COPY out, text", "1\t1.250\ta, b\n2\t\\N\tc\n3\t0.500\td\n", () -> {
        StringWriter out = new StringWriter();
        copy.copyOut("COPY (SELECT * FROM parcels ORDER BY id) TO STDOUT", out);
        return out.toString();
      });
      checks.attempt("schema: COPY of a duplicate", "23505 parcels_pkey", () -> {
        try {
          copy.copyIn("COPY parcels FROM STDIN", new StringReader("4\t1\te\n1\t1\tagain\n"));
          return "no error";
        } catch (PSQLException error) {
          return error.getSQLState() + " " + error.getServerErrorMessage().getConstraint();
        }
      });
      checks.attempt("schema: nothing of it stays", 3L, () -> one(connection, "SELECT count(*) FROM parcels"));
      checks.attempt("schema: ADD COLUMN", 0, () -> statement.executeUpdate(
          "ALTER TABLE parcels ADD COLUMN fragile boolean NOT NULL DEFAULT false"));
      checks.attempt("schema: the new column", false, () -> one(connection, "SELECT fragile FROM parcels WHERE id = ?", 2));
      checks.attempt("schema: a generated key", 1L, () -> {
        statement.executeUpdate("CREATE TABLE scans (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parcel bigint REFERENCES parcels)");
        statement.executeUpdate("INSERT INTO scans (parcel) VALUES (2)", Statement.RETURN_GENERATED_KEYS);
        try (ResultSet keys = statement.getGeneratedKeys()) {
          keys.next();
          return keys.getLong("id");
        }
      });
      checks.attempt("schema: its columns in the driver's metadata", "id int8, parcel int8", () -> {
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = connection.getMetaData().getColumns(null, "public", "scans", "%")) {
          while (rows.next()) {
            columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME").replace("bigserial", "int8"));
          }
        }
        return String.join(", ", columns);
      });
      connection.setAutoCommit(false);
      checks.attempt("schema: rolled back", "42P01", () -> {
        statement.executeUpdate("CREATE TABLE gone (id integer PRIMARY KEY)");
        connection.rollback();
        String state = refused(connection, "SELECT * FROM gone").getSQLState();
        connection.rollback();
        return state;
      });
      connection.setAutoCommit(true);
      checks.attempt("schema: DROP TABLE", 0, () -> statement.executeUpdate("DROP TABLE scans, parcels"));
    }
  }

  private void run(List<String> flags) throws SQLException {
    connecting();
    int first = 1;
    for (String[] options : new String[][] {
        {"binary", "binaryTransfer=true", "prepareThreshold=-1"},
        {"text", "binaryTransfer=false"},
        {"simple", "preferQueryMode=simple"},
        {"default", "prepareThreshold=5"}}) {
      try (Connection connection = connect(Arrays.copyOfRange(options, 1, options.length))) {
        Types.types(checks, connection, options[0]);
        Types.tables(checks, connection, options[0], first);
        Types.functions(checks, connection, options[0]);
      }
      first += 10;
    }
    zones();
    try (Connection connection = connect()) {
      Types.modifiers(checks, connection);
      calls(connection);
      failures(connection);
      statements(connection);
      // They read on one connection what another has written and not committed: under locks, such a program waits for
      // itself, and the harness leaves the flag out.
      if (flags.contains("--transactions")) {
        transactions(connection);
      }
      if (flags.contains("--schema")) {
        schema(connection);
      }
    }
  }

  public static void main(String[] arguments) {
    Main main = new Main(arguments[0], arguments[1]);
    try {
      main.run(Arrays.asList(arguments));
    } catch (SQLException error) {
      main.checks.equal("the program runs to its end", error.getSQLState() + " " + error, "");
      error.printStackTrace();
    }
    System.exit(main.checks.finish());
  }
}
