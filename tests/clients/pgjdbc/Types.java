import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** Every type: as a result, as a parameter, in a table, through a function. */
final class Types {
  /** A value of a type: as the server prints it, and as the driver has it. */
  record Value(String type, String text, Object value, Class<?> as) {
    String label() {
      String shown = text == null ? "NULL" : text.replace("\r", "\\r").replace("\n", "\\n");
      return type + " " + shown.substring(0, Math.min(40, shown.length()));
    }

    String literal() {
      return (text == null ? "NULL" : "'" + text.replace("'", "''") + "'") + "::" + type;
    }
  }

  static final List<Value> VALUES = values();

  private static byte[] allBytes() {
    byte[] bytes = new byte[256];
    for (int index = 0; index < 256; index++) {
      bytes[index] = (byte) index;
    }
    return bytes;
  }

  private static List<Value> values() {
    List<Value> values = new ArrayList<>();
    values.add(new Value("bool", "t", true, Boolean.class));
    values.add(new Value("bool", "f", false, Boolean.class));
    for (short number : new short[] {0, -32768, 32767}) {
      values.add(new Value("int2", Short.toString(number), number, Short.class));
    }
    for (int number : new int[] {Integer.MIN_VALUE, 0, Integer.MAX_VALUE}) {
      values.add(new Value("int4", Integer.toString(number), number, Integer.class));
    }
    for (long number : new long[] {Long.MIN_VALUE, 0, Long.MAX_VALUE}) {
      values.add(new Value("int8", Long.toString(number), number, Long.class));
    }
    for (String text :
        List.of("0", "0.00", "1", "-1.5", "9999", "10000", "0.0001", "0.00001", "-0.00001234", "100000000.0000",
            "12345678901234567890.123456789012345678", "-99999999999999999999999999999999999999")) {
      values.add(new Value("numeric", text, new BigDecimal(text), BigDecimal.class));
    }
    values.add(new Value("numeric(12,2)", "-1234567890.50", new BigDecimal("-1234567890.50"), BigDecimal.class));
    values.add(new Value("float4", "1.5", 1.5f, Float.class));
    values.add(new Value("float4", "-0", -0.0f, Float.class));
    values.add(new Value("float4", "3.4028235e+38", Float.MAX_VALUE, Float.class));
    values.add(new Value("float4", "NaN", Float.NaN, Float.class));
    values.add(new Value("float4", "-Infinity", Float.NEGATIVE_INFINITY, Float.class));
    values.add(new Value("float8", "0.1", 0.1, Double.class));
    values.add(new Value("float8", "-0", -0.0, Double.class));
    values.add(new Value("float8", "1e+300", 1e300, Double.class));
    values.add(new Value("float8", "NaN", Double.NaN, Double.class));
    values.add(new Value("float8", "Infinity", Double.POSITIVE_INFINITY, Double.class));
    for (String text : List.of("", "plain", "it's \"quoted\" \\ and ?", "Grüße, 世界 🌍", "line\r\nand\ttab")) {
      values.add(new Value("text", text, text, String.class));
    }
    values.add(new Value("varchar(12)", "twelve chars", "twelve chars", String.class));
    values.add(new Value("varchar(12)", "ä", "ä", String.class));
    values.add(new Value("char(6)", "abc   ", "abc   ", String.class));
    values.add(new Value("char(6)", "      ", "      ", String.class));
    for (byte[] bytes : List.of(new byte[0], new byte[] {0}, allBytes())) {
      values.add(new Value("bytea", "\\x" + java.util.HexFormat.of().formatHex(bytes), bytes, byte[].class));
    }
    for (String text : List.of("00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")) {
      values.add(new Value("uuid", text, UUID.fromString(text), UUID.class));
    }
    for (String text :
        List.of("2024-02-29 12:34:56.789012", "1999-12-31 23:59:59", "0001-01-01 00:00:00",
            "9999-12-31 23:59:59.999999")) {
      values.add(new Value("timestamp", text, LocalDateTime.parse(text.replace(' ', 'T')), LocalDateTime.class));
    }
    for (String text : List.of("2024-02-29 12:34:56.789012", "1970-01-01 00:00:00")) {
      OffsetDateTime value = OffsetDateTime.parse(text.replace(' ', 'T') + "Z");
      values.add(new Value("timestamptz", text + "+00", value, OffsetDateTime.class));
    }
    for (String text : List.of("2024-02-29", "0001-01-01", "9999-12-31")) {
      values.add(new Value("date", text, LocalDate.parse(text), LocalDate.class));
    }
    values.add(new Value("bool[]", "{t,NULL,f}", new Boolean[] {true, null, false}, Array.class));
    values.add(new Value("int4[]", "{}", new Integer[] {}, Array.class));
    values.add(new Value("int4[]", "{1,NULL,-2147483648}", new Integer[] {1, null, Integer.MIN_VALUE}, Array.class));
    values.add(new Value("int8[]", "{9223372036854775807,NULL,0}", new Long[] {Long.MAX_VALUE, null, 0L}, Array.class));
    values.add(new Value("numeric[]", "{0.10,NULL,-12345.6789}",
        new BigDecimal[] {new BigDecimal("0.10"), null, new BigDecimal("-12345.6789")}, Array.class));
    values.add(new Value("text[]", "{\"\",NULL,\"NULL\",\"a,b\",\"{x}\",\"\\\"q\\\" \\\\\",\"ü 🌍\",plain}",
        new String[] {"", null, "NULL", "a,b", "{x}", "\"q\" \\", "ü 🌍", "plain"}, Array.class));
    List<Value> nulls = new ArrayList<>();
    String last = "";
    for (Value value : values) {
      if (!value.type.equals(last)) {
        nulls.add(new Value(value.type, null, null, value.as));
        last = value.type;
      }
    }
    values.addAll(nulls);
    return values;
  }

  /** Sets a parameter in the way that the driver has for its type. */
  static void set(PreparedStatement statement, int place, Value value) throws SQLException {
    if (value.value == null) {
      statement.setNull(place, java.sql.Types.NULL);
    } else if (value.value instanceof byte[] bytes) {
      statement.setBytes(place, bytes);
    } else if (value.value instanceof Object[] elements) {
      String element = value.type.substring(0, value.type.length() - 2);
      statement.setArray(place, statement.getConnection().createArrayOf(element, elements));
    } else {
      statement.setObject(place, value.value);
    }
  }

  /** Reads a column as the type's Java class. */
  static Object get(ResultSet row, int place, Value value) throws SQLException {
    if (value.as == Array.class) {
      Array array = row.getArray(place);
      return array == null ? null : array.getArray();
    }
    return value.as == byte[].class ? row.getBytes(place) : row.getObject(place, value.as);
  }

  static Object one(Connection connection, String query, Value sent, Value read, boolean asText) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(query)) {
      if (sent != null) {
        set(statement, 1, sent);
      }
      try (ResultSet row = statement.executeQuery()) {
        if (!row.next()) {
          throw new IllegalStateException("there is no row");
        }
        Object found = asText ? row.getString(1) : get(row, 1, read);
        if (row.next()) {
          throw new IllegalStateException("there are two rows");
        }
        return found;
      }
    }
  }

  /** Each value as a result and as a parameter, in the formats of the connection's mode. */
  static void types(Checks checks, Connection connection, String mode) {
    for (Value value : VALUES) {
      String label = "types: " + value.label() + ", " + mode;
      checks.attempt(label, value.value, () -> one(connection, "SELECT " + value.literal(), null, value, false));
      checks.attempt(label + ", sent", value.value,
          () -> one(connection, "SELECT ?::" + value.type, value, value, false));
      // Text that the driver makes of a binary value is its own, so the server's words are asked for.
      if (!value.type.startsWith("char") && !value.type.equals("bool")) {
        checks.attempt(label + ", printed by the server", value.text,
            () -> one(connection, "SELECT ?::" + value.type + "::text", value, value, true));
      }
    }
    checks.attempt("types: a result of no type is text, " + mode, "text", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet row = statement.executeQuery("SELECT 'words'")) {
        return row.getMetaData().getColumnTypeName(1);
      }
    });
  }

  private static final List<String> COLUMNS = List.of("a_bool bool", "an_int2 int2", "an_int4 int4", "an_int8 int8",
      "a_numeric numeric", "a_money numeric(12,2)", "a_float4 float4", "a_float8 float8", "a_text text",
      "a_varchar varchar(12)", "a_char char(6)", "a_bytea bytea", "a_uuid uuid", "a_timestamp timestamp",
      "a_timestamptz timestamptz", "a_date date");
  private static final List<String> ARRAYS = List.of("some_bool bool[]", "some_int4 int4[]", "some_int8 int8[]",
      "some_numeric numeric[]", "some_text text[]");

  /** Rows of every type, written by parameters and read back by column; ids from {@code first}. */
  static void tables(Checks checks, Connection connection, String mode, int first) {
    for (List<String> columns : List.of(COLUMNS, ARRAYS)) {
      String table = columns == COLUMNS ? "every_type" : "every_array";
      List<String> names = columns.stream().map(column -> column.split(" ")[0]).toList();
      String insert = "INSERT INTO " + table + " (id, " + String.join(", ", names) + ") VALUES (?"
          + ", ?".repeat(names.size()) + ")";
      int id = first;
      // NULLs, the first value of each type and its last.
      for (String which : List.of("NULL", "first", "last")) {
        int key = id++;
        List<Value> row = new ArrayList<>();
        for (String column : columns) {
          String type = column.split(" ")[1];
          List<Value> found = VALUES.stream()
              .filter(value -> value.type.equals(type) && (value.text == null) == which.equals("NULL")).toList();
          row.add(found.get(which.equals("last") ? found.size() - 1 : 0));
        }
        checks.attempt(table + ": " + which + " values written, " + mode, 1, () -> {
          try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setInt(1, key);
            for (int place = 0; place < row.size(); place++) {
              set(statement, place + 2, row.get(place));
            }
            return statement.executeUpdate();
          }
        });
        for (int place = 0; place < row.size(); place++) {
          Value value = row.get(place);
          String query = "SELECT " + names.get(place) + " FROM " + table + " WHERE id = " + key;
          checks.attempt(table + ": " + names.get(place) + ", " + which + ", " + mode, value.value,
              () -> one(connection, query, null, value, false));
        }
      }
    }
  }

  /** Lengths, precisions and scales, which the driver reads from the type modifiers of the row's description. */
  static void modifiers(Checks checks, Connection connection) {
    checks.attempt("tables: lengths and precisions", List.of("varchar 12", "bpchar 6", "numeric 12.2", "int4 10"), () -> {
      try (PreparedStatement statement =
          connection.prepareStatement("SELECT a_varchar, a_char, a_money, an_int4 FROM every_type")) {
        var columns = statement.getMetaData();
        List<String> found = new ArrayList<>();
        for (int place = 1; place <= columns.getColumnCount(); place++) {
          String scale = columns.getScale(place) == 0 ? "" : "." + columns.getScale(place);
          found.add(columns.getColumnTypeName(place) + " " + columns.getPrecision(place) + scale);
        }
        return found;
      }
    });
    checks.attempt("tables: types of parameters", List.of("int4", "text", "numeric"), () -> {
      try (PreparedStatement statement = connection.prepareStatement(
          "SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer_id "
              + "WHERE o.id = ? AND c.email = ? AND o.amount > ?")) {
        var parameters = statement.getParameterMetaData();
        List<String> found = new ArrayList<>();
        for (int place = 1; place <= parameters.getParameterCount(); place++) {
          found.add(parameters.getParameterTypeName(place));
        }
        return found;
      }
    });
  }

  /** Functions that return their argument. */
  static void functions(Checks checks, Connection connection, String mode) {
    for (String type : List.of("bool", "int2", "int4", "int8", "numeric", "float4", "float8", "text", "bytea", "uuid",
        "timestamp", "timestamptz", "date")) {
      for (Value value : VALUES) {
        if (value.type.equals(type) && (value.text == null || value == lastOf(type))) {
          String cast = value.text == null ? "?::" + type : "?";
          if (type.equals("int2") || type.equals("float4")) {
            cast = "?::" + type; // the driver sends these as int4 and float8
          }
          String query = "SELECT same_" + type + "(" + cast + ")";
          checks.attempt("calls: same_" + value.label() + ", " + mode, value.value,
              () -> one(connection, query, value, value, false));
        }
      }
    }
  }

  private static Value lastOf(String type) {
    return VALUES.stream().filter(value -> value.type.equals(type) && value.text != null)
        .reduce((first, second) -> second).orElseThrow();
  }
}
