package bank;

final class Queries {
    static final String TABLE = "account";
    static final String FIND = "SELECT owner, balance FROM " + TABLE + " WHERE id = ?";
    static final String ADD_ENTRY = """
            INSERT INTO entry (account_id, amount, remark)
            VALUES (?, ?, ?)
            """;

    private Queries() {}
}
