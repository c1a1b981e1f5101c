//! Tables as plain text: aligned columns, numbers to the right.

/// A table under construction.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Table {
        Table {
            rows: vec![heads.into_iter().map(Into::into).collect()],
        }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::from(" ");
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                if column == 0 {
                    line.push_str(&format!(" {cell:<width$}"));
                } else {
                    line.push_str(&format!("  {cell:>width$}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
            if number == 0 {
                let rule: usize = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
                writeln!(f, "  {}", "─".repeat(rule))?;
            }
        }
        Ok(())
    }
}

/// Formats a count with groups of three digits: `60,112`.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 {
        format!("-{grouped}")
    } else {
        grouped
    }
}

/// Formats a count with its noun: `1 node`, `60,112 events`.
pub fn counted(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {what}{ending}", grouped(count as f64))
}

/// Formats a quantity: large ones grouped and without decimals, others with three significant digits.
pub fn quantity(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 || value == value.round() && size >= 10.0 => grouped(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 || value == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_as_many_decimals_as_help() {
        let cases = [
            (12_740_000.4, "12,740,000"),
            (99.0, "99"),
            (16.25, "16.2"),
            (2.0, "2.00"),
        ];
        for (value, text) in cases {
            assert_eq!(quantity(value), text);
        }
        assert_eq!(quantity(0.0019), "0.00190");
    }

    #[test]
    fn counts_are_grouped_by_three() {
        assert_eq!(grouped(0.0), "0");
        assert_eq!(grouped(999.4), "999");
        assert_eq!(grouped(1_000.0), "1,000");
        assert_eq!(grouped(12_345_678.0), "12,345,678");
    }

    #[test]
    fn one_takes_the_singular() {
        assert_eq!(counted(0, "node"), "0 nodes");
        assert_eq!(counted(1, "node"), "1 node");
        assert_eq!(counted(2_000, "node"), "2,000 nodes");
    }

    #[test]
    fn numbers_stand_to_the_right_of_a_left_aligned_name() {
        let mut table = Table::new(["protocol", "New-Order/s"]);
        table.row(["locking", "7"]);
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  protocol  New-Order/s");
        assert_eq!(lines[2], "  locking             7");
    }
}
