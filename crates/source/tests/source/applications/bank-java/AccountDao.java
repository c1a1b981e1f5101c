package bank;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import javax.sql.DataSource;

public class AccountDao {
    private final DataSource source;

    public AccountDao(DataSource source) {
        this.source = source;
    }

    public void transfer(long from, long to, BigDecimal amount) throws SQLException {
        try (Connection conn = source.getConnection()) {
            conn.setAutoCommit(false);
            try {
                BigDecimal balance;
                try (PreparedStatement find = conn.prepareStatement(Queries.FIND)) {
                    find.setLong(1, from);
                    try (ResultSet rs = find.executeQuery()) {
                        if (!rs.next()) {
                            throw new SQLException("no account " + from);
                        }
                        balance = rs.getBigDecimal("balance");
                    }
                }
                if (balance.compareTo(amount) < 0) {
                    throw new SQLException("insufficient funds");
                }
                withdraw(conn, from, amount);
                deposit(conn, to, amount);
                conn.commit();
            } catch (SQLException e) {
                conn.rollback();
                throw e;
            }
        }
    }

    private void withdraw(Connection conn, long id, BigDecimal amount) throws SQLException {
        try (PreparedStatement ps = conn.prepareStatement(
                "UPDATE account SET balance = balance - ? " +
                "WHERE id = ?")) {
            ps.setBigDecimal(1, amount);
            ps.setLong(2, id);
            ps.executeUpdate();
        }
        log(conn, id, amount.negate(), "withdrawal");
    }

    private void deposit(Connection conn, long id, BigDecimal amount) throws SQLException {
        PreparedStatement ps = conn.prepareStatement("UPDATE account SET balance = balance + ? WHERE id = ?");
        ps.setBigDecimal(1, amount);
        ps.setLong(2, id);
        ps.executeUpdate();
        log(conn, id, amount, "deposit");
    }

    private static void log(Connection conn, long id, BigDecimal amount, String remark) throws SQLException {
        PreparedStatement ps = conn.prepareStatement(Queries.ADD_ENTRY);
        ps.setLong(1, id);
        ps.setBigDecimal(2, amount);
        ps.setString(3, remark);
        ps.executeUpdate();
    }

    public ResultSet entries(Connection c, long id, boolean newestFirst) throws SQLException {
        StringBuilder sql = new StringBuilder("SELECT amount, remark FROM entry WHERE account_id = ?");
        if (newestFirst) {
            sql.append(" ORDER BY id DESC");
        }
        PreparedStatement ps = c.prepareStatement(sql.toString());
        ps.setLong(1, id);
        return ps.executeQuery();
    }

    public ResultSet sorted(Connection conn, String column) throws SQLException {
        return conn.createStatement().executeQuery("SELECT owner FROM account ORDER BY " + column);
    }
}
