//! Exact decimal numbers, as PostgreSQL's `numeric`.

/// `mantissa × 10^-scale`, in 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimal {
    high: i64,
    low: u64,
    scale: u16,
}
