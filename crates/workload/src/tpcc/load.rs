//! The initial database (4.3.3.1).

use anabranch_types::{Decimal, Value};
use fastrand::Rng;

use super::random::{self, LOAD};
use super::{DISTRICTS, Scale};

/// Takes one row: the table's name, the names of its columns and their values.
pub trait Sink {
    /// Why a row was not taken.
    type Error;

    /// Takes one row.
    ///
    /// # Errors
    /// The sink's error, which ends the load.
    fn row(&mut self, table: Table, values: &[Value]) -> Result<(), Self::Error>;
}

/// A table of TPC-C, in an order in which foreign keys find their parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `item`
    Item,
    /// `warehouse`
    Warehouse,
    /// `stock`
    Stock,
    /// `district`
    District,
    /// `customer`
    Customer,
    /// `history`
    History,
    /// `orders`
    Orders,
    /// `order_line`
    OrderLine,
    /// `new_order`
    NewOrder,
}

impl Table {
    /// All tables, in an order in which foreign keys find their parents.
    pub const ALL: [Table; 9] = [
        Table::Item,
        Table::Warehouse,
        Table::Stock,
        Table::District,
        Table::Customer,
        Table::History,
        Table::Orders,
        Table::OrderLine,
        Table::NewOrder,
    ];

    /// Its name in the schema.
    pub fn name(self) -> &'static str {
        match self {
            Table::Item => "item",
            Table::Warehouse => "warehouse",
            Table::Stock => "stock",
            Table::District => "district",
            Table::Customer => "customer",
            Table::History => "history",
            Table::Orders => "orders",
            Table::OrderLine => "order_line",
            Table::NewOrder => "new_order",
        }
    }

    /// The columns of the rows that are generated, in order.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Table::Item => &["i_id", "i_im_id", "i_name", "i_price", "i_data"],
            Table::Warehouse => &[
                "w_id",
                "w_name",
                "w_street_1",
                "w_street_2",
                "w_city",
                "w_state",
                "w_zip",
                "w_tax",
                "w_ytd",
            ],
            Table::Stock => &[
                "s_w_id",
                "s_i_id",
                "s_quantity",
                "s_dist_01",
                "s_dist_02",
                "s_dist_03",
                "s_dist_04",
                "s_dist_05",
                "s_dist_06",
                "s_dist_07",
                "s_dist_08",
                "s_dist_09",
                "s_dist_10",
                "s_ytd",
                "s_order_cnt",
                "s_remote_cnt",
                "s_data",
            ],
            Table::District => &[
                "d_w_id",
                "d_id",
                "d_name",
                "d_street_1",
                "d_street_2",
                "d_city",
                "d_state",
                "d_zip",
                "d_tax",
                "d_ytd",
                "d_next_o_id",
            ],
            Table::Customer => &[
                "c_w_id",
                "c_d_id",
                "c_id",
                "c_first",
                "c_middle",
                "c_last",
                "c_street_1",
                "c_street_2",
                "c_city",
                "c_state",
                "c_zip",
                "c_phone",
                "c_since",
                "c_credit",
                "c_credit_lim",
                "c_discount",
                "c_balance",
                "c_ytd_payment",
                "c_payment_cnt",
                "c_delivery_cnt",
                "c_data",
            ],
            Table::History => &[
                "h_c_w_id", "h_c_d_id", "h_c_id", "h_w_id", "h_d_id", "h_date", "h_amount",
                "h_data",
            ],
            Table::Orders => &[
                "o_w_id",
                "o_d_id",
                "o_id",
                "o_c_id",
                "o_entry_d",
                "o_carrier_id",
                "o_ol_cnt",
                "o_all_local",
            ],
            Table::OrderLine => &[
                "ol_w_id",
                "ol_d_id",
                "ol_o_id",
                "ol_number",
                "ol_i_id",
                "ol_supply_w_id",
                "ol_delivery_d",
                "ol_quantity",
                "ol_amount",
                "ol_dist_info",
            ],
            Table::NewOrder => &["no_w_id", "no_d_id", "no_o_id"],
        }
    }

    /// The columns that hold the number of the warehouse in every row that [`warehouse`] generates.
    pub fn warehouse_columns(self) -> &'static [&'static str] {
        match self {
            Table::Item => &[],
            Table::Warehouse => &["w_id"],
            Table::Stock => &["s_w_id"],
            Table::District => &["d_w_id"],
            Table::Customer => &["c_w_id"],
            Table::History => &["h_w_id", "h_c_w_id"],
            Table::Orders => &["o_w_id"],
            Table::OrderLine => &["ol_w_id", "ol_supply_w_id"],
            Table::NewOrder => &["no_w_id"],
        }
    }
}

/// When the database was loaded: 2026-01-01 00:00:00, in microseconds since 2000-01-01.
pub const LOADED_AT: i64 = 820_454_400_000_000;

fn int(value: impl Into<i64>) -> Value {
    Value::Int(value.into())
}

/// `cents` hundredths.
pub(super) fn money(cents: i64) -> Value {
    Value::Numeric(Decimal::from_scaled(cents, 2))
}

fn fraction(ten_thousandths: i64) -> Value {
    Value::Numeric(Decimal::from_scaled(ten_thousandths, 4))
}

fn text(value: impl AsRef<str>) -> Value {
    Value::text(value)
}

fn random_for(seed: u64, part: u64) -> Rng {
    Rng::with_seed(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Generates the catalogue of items, the same for every warehouse.
///
/// # Errors
/// The sink's.
pub fn items<S: Sink>(scale: &Scale, seed: u64, sink: &mut S) -> Result<(), S::Error> {
    let mut rng = random_for(seed, 0);
    for id in 1..=i64::from(scale.items) {
        let row = [
            int(id),
            int(rng.i64(1..=10_000)),
            text(random::letters(&mut rng, 14, 24)),
            money(rng.i64(100..=10_000)),
            text(random::data(&mut rng)),
        ];
        sink.row(Table::Item, &row)?;
    }
    Ok(())
}

/// Generates one warehouse with all that belongs to it.
///
/// # Errors
/// The sink's.
pub fn warehouse<S: Sink>(
    scale: &Scale,
    seed: u64,
    warehouse: u32,
    sink: &mut S,
) -> Result<(), S::Error> {
    let mut rng = random_for(seed, u64::from(warehouse));
    let rng = &mut rng;
    let w = i64::from(warehouse);
    let mut row = vec![int(w)];
    row.extend(name_and_address(rng));
    // The payments of all districts' customers: 10.00 each.
    let paid = i64::from(scale.customers) * 10_00;
    row.extend([fraction(rng.i64(0..=2_000)), money(paid * DISTRICTS)]);
    sink.row(Table::Warehouse, &row)?;
    for item in 1..=i64::from(scale.items) {
        let mut row = vec![int(w), int(item), int(rng.i64(10..=100))];
        row.extend((0..DISTRICTS).map(|_| text(random::letters(rng, 24, 24))));
        row.extend([int(0), int(0), int(0), text(random::data(rng))]);
        sink.row(Table::Stock, &row)?;
    }
    for d in 1..=DISTRICTS {
        let mut row = vec![int(w), int(d)];
        row.extend(name_and_address(rng));
        row.extend([
            fraction(rng.i64(0..=2_000)),
            money(paid),
            int(scale.customers + 1),
        ]);
        sink.row(Table::District, &row)?;
        customers(scale, rng, w, d, sink)?;
        orders(scale, rng, w, d, sink)?;
    }
    Ok(())
}

/// Name, two street lines, city, state and zip code.
fn name_and_address(rng: &mut Rng) -> [Value; 6] {
    [
        text(random::letters(rng, 6, 10)),
        text(random::letters(rng, 10, 20)),
        text(random::letters(rng, 10, 20)),
        text(random::letters(rng, 10, 20)),
        text(random::letters(rng, 2, 2)),
        text(random::zip(rng)),
    ]
}

fn customers<S: Sink>(
    scale: &Scale,
    rng: &mut Rng,
    w: i64,
    d: i64,
    sink: &mut S,
) -> Result<(), S::Error> {
    for c in 1..=i64::from(scale.customers) {
        // The first thousand have each name once, so that every name has a bearer.
        let name = match c {
            1..=1_000 => c - 1,
            _ => random::non_uniform(rng, 255, LOAD.last_name, 0, 999),
        };
        let credit = if rng.u8(0..10) == 0 { "BC" } else { "GC" };
        let row = [
            int(w),
            int(d),
            int(c),
            text(random::letters(rng, 8, 16)),
            text("OE"),
            text(random::last_name(name)),
            text(random::letters(rng, 10, 20)),
            text(random::letters(rng, 10, 20)),
            text(random::letters(rng, 10, 20)),
            text(random::letters(rng, 2, 2)),
            text(random::zip(rng)),
            text(random::digits(rng, 16)),
            Value::Timestamp(LOADED_AT),
            text(credit),
            money(5_000_000),
            fraction(rng.i64(0..=5_000)),
            money(-10_00),
            money(10_00),
            int(1),
            int(0),
            text(random::letters(rng, 300, 500)),
        ];
        sink.row(Table::Customer, &row)?;
    }
    for c in 1..=i64::from(scale.customers) {
        let row = [
            int(w),
            int(d),
            int(c),
            int(w),
            int(d),
            Value::Timestamp(LOADED_AT),
            money(10_00),
            text(random::letters(rng, 12, 24)),
        ];
        sink.row(Table::History, &row)?;
    }
    Ok(())
}

fn orders<S: Sink>(
    scale: &Scale,
    rng: &mut Rng,
    w: i64,
    d: i64,
    sink: &mut S,
) -> Result<(), S::Error> {
    let mut customers: Vec<i64> = (1..=i64::from(scale.customers)).collect();
    rng.shuffle(&mut customers);
    let first_undelivered = i64::from(scale.customers - scale.undelivered()) + 1;
    let mut lines_of = Vec::with_capacity(customers.len());
    for (o, c) in (1..).zip(&customers) {
        let lines = rng.i64(5..=15);
        lines_of.push(lines);
        let carrier = if o < first_undelivered {
            int(rng.i64(1..=10))
        } else {
            Value::Null
        };
        let row = [
            int(w),
            int(d),
            int(o),
            int(*c),
            Value::Timestamp(LOADED_AT),
            carrier,
            int(lines),
            int(1),
        ];
        sink.row(Table::Orders, &row)?;
    }
    for (o, lines) in (1..).zip(&lines_of) {
        let delivered = o < first_undelivered;
        for number in 1..=*lines {
            let (delivery, amount) = if delivered {
                (Value::Timestamp(LOADED_AT), 0)
            } else {
                (Value::Null, rng.i64(1..=999_999))
            };
            let row = [
                int(w),
                int(d),
                int(o),
                int(number),
                int(rng.i64(1..=i64::from(scale.items))),
                int(w),
                delivery,
                int(5),
                money(amount),
                text(random::letters(rng, 24, 24)),
            ];
            sink.row(Table::OrderLine, &row)?;
        }
    }
    for o in first_undelivered..=i64::from(scale.customers) {
        sink.row(Table::NewOrder, &[int(w), int(d), int(o)])?;
    }
    Ok(())
}
