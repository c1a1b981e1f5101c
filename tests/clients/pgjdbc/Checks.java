import java.sql.SQLException;
import java.util.Arrays;
import java.util.Objects;

/** Counts checks and prints one line for each; the harness reads the lines. */
final class Checks {
  /** What a check does to get its value. */
  interface Action {
    Object run() throws Exception;
  }

  private int passed;
  private int failed;

  /** One check: {@code got} has to be {@code expected}, type included; arrays by their elements. */
  void equal(String name, Object got, Object expected) {
    if (Objects.deepEquals(got, expected)) {
      passed++;
      System.out.println("ok " + name);
    } else {
      failed++;
      System.out.println("FAILED " + name + ": got " + shown(got) + " expected " + shown(expected));
    }
  }

  /** One check of what {@code action} returns; an exception is its failure, and the program goes on. */
  void attempt(String name, Object expected, Action action) {
    Object got;
    try {
      got = action.run();
    } catch (SQLException error) {
      got = "SQLSTATE " + error.getSQLState() + " " + error.getMessage().replace('\n', ' ');
    } catch (Exception error) {
      got = error.toString();
    }
    equal(name, got, expected);
  }

  /** Prints the count; the program's exit code. */
  int finish() {
    System.out.println(passed + " passed, " + failed + " failed");
    return failed == 0 ? 0 : 1;
  }

  private static String shown(Object value) {
    if (value instanceof Object[] elements) {
      return Arrays.deepToString(elements);
    }
    if (value instanceof byte[] bytes) {
      return java.util.HexFormat.of().formatHex(bytes);
    }
    return value == null ? "null" : value + " (" + value.getClass().getSimpleName() + ")";
  }
}
