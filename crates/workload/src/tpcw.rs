//! TPC-W: an online bookstore (`examples/tpcw`). Carts, customers and books are so few that operations conflict often.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::{Decimal, Value};
use fastrand::Rng;

use crate::mix::{Load, OperationMix, Page, own_key};
use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

/// The application of `examples/tpcw/`.
#[derive(Clone, Copy, Debug)]
pub struct Tpcw {
    /// Books, numbered from 1.
    pub items: i64,
    /// Customers, each with an address and a cart of the same number, from 1.
    pub customers: i64,
    /// What is called, and how the data looks.
    pub load: Load,
}

const COUNTRIES: [&str; 2] = ["Germany", "Qatar"];

/// The time of all operations, in microseconds since 2000-01-01 00:00:00, and its date.
const NOW: i64 = 500_000_000_000_000;
const TODAY: i32 = 5_787;

impl Tpcw {
    /// Six books, and four customers for each node.
    pub fn new(nodes: u16) -> Tpcw {
        Tpcw {
            items: 6,
            customers: 4 * i64::from(nodes),
            load: Load::Conflicts,
        }
    }

    /// The shopping mix over so many books and customers. As in the benchmark, there is an author for four books, 24
    /// subjects, and nine orders of three books for ten customers.
    pub fn shopping(items: i64, customers: i64) -> Tpcw {
        Tpcw {
            items,
            customers,
            load: Load::Benchmark,
        }
    }

    fn authors(&self) -> i64 {
        match self.load {
            Load::Conflicts => 3,
            Load::Benchmark => (self.items / 4).max(1),
        }
    }

    /// A subject, by a number from 0.
    fn subject(&self, number: i64) -> String {
        match self.load {
            Load::Conflicts => ["ARTS", "HISTORY"][number as usize % 2].to_owned(),
            Load::Benchmark => format!("SUBJECT{}", number % 24),
        }
    }

    /// The orders that the database begins with.
    fn history(&self, take: &mut RowSink<'_>) {
        if self.load == Load::Conflicts {
            return;
        }
        for order in 1..=self.customers * 9 / 10 {
            self.order(order, take);
        }
    }

    fn order(&self, order: i64, take: &mut RowSink<'_>) {
        let (id, customer) = (Value::Int(order), Value::Int(order % self.customers + 1));
        take(
            "orders",
            &[
                "o_id",
                "o_c_id",
                "o_date",
                "o_sub_total",
                "o_tax",
                "o_total",
                "o_ship_type",
                "o_ship_date",
                "o_bill_addr_id",
                "o_ship_addr_id",
                "o_status",
            ],
            &[
                id.clone(),
                customer.clone(),
                Value::Timestamp(order),
                money(3_000),
                money(247),
                money(3_547),
                text("AIR"),
                Value::Timestamp(order),
                customer.clone(),
                customer,
                text("Shipped"),
            ],
        );
        for line in 1..=3 {
            take(
                "order_line",
                &[
                    "ol_o_id",
                    "ol_id",
                    "ol_i_id",
                    "ol_qty",
                    "ol_discount",
                    "ol_comments",
                ],
                &[
                    id.clone(),
                    Value::Int(line),
                    Value::Int((order * 7 + line * 131) % self.items + 1),
                    Value::Int(1),
                    money(0),
                    text(""),
                ],
            );
        }
        take(
            "cc_xacts",
            &[
                "cx_o_id",
                "cx_type",
                "cx_num",
                "cx_name",
                "cx_expire",
                "cx_auth_id",
                "cx_xact_amt",
                "cx_xact_date",
                "cx_co_id",
            ],
            &[
                id,
                text("VISA"),
                text("4111"),
                text("Carl Customer"),
                Value::Date(TODAY),
                text("auth"),
                money(3_547),
                Value::Timestamp(order),
                Value::Int(1),
            ],
        );
    }
}

/// The pages of TPC-W's shopping mix: visits in percent, as the benchmark has them, and the operations that a page calls.
/// A session visits 128 pages in the mean (15 minutes, 7 seconds a page) and makes one cart, on the first of its 15
/// visits to the Shopping Cart. Four of five customers are known; one of twenty orders goes to another address.
const SHOPPING: [Page; 14] = [
    (16.00, &[(0, 1.0), (1, 1.0)]),
    (5.00, &[(2, 1.0)]),
    (5.00, &[(3, 1.0)]),
    (17.00, &[(4, 1.0)]),
    (20.00, &[(1, 1.0)]),
    (17.00, &[(5, 1.0 / 3.0), (6, 1.0 / 3.0), (7, 1.0 / 3.0)]),
    (11.60, &[(8, 1.0 / 15.0), (9, 1.0), (10, 1.0)]),
    (3.00, &[(14, 1.0)]),
    (2.60, &[(11, 0.8), (12, 0.8), (13, 0.2), (10, 1.0)]),
    (1.20, &[(17, 0.95), (18, 0.05)]),
    (0.75, &[(14, 1.0)]),
    (0.66, &[(15, 1.0), (16, 1.0)]),
    (0.10, &[(4, 1.0)]),
    (0.09, &[(19, 1.0), (4, 1.0)]),
];

/// The mix of calls that TPC-W's shopping mix of pages makes.
pub fn shopping_mix() -> OperationMix {
    OperationMix::of_pages(20, &SHOPPING)
}

fn text(text: impl Into<String>) -> Value {
    Value::text(text.into())
}

fn money(cents: i64) -> Value {
    Value::Numeric(Decimal::from_scaled(cents, 2))
}

impl Workload for Tpcw {
    fn name(&self) -> &'static str {
        "tpcw"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/tpcw/schema.sql",
                include_str!("../../../examples/tpcw/schema.sql"),
            ),
            (
                "examples/tpcw/procedures.sql",
                include_str!("../../../examples/tpcw/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &[
            "get_name",
            "get_related",
            "get_new_products",
            "get_best_sellers",
            "get_book",
            "do_subject_search",
            "do_title_search",
            "do_author_search",
            "create_empty_cart",
            "do_cart",
            "get_cart",
            "get_customer",
            "refresh_session",
            "create_new_customer",
            "get_user_name",
            "get_password",
            "get_most_recent_order",
            "do_buy_confirm",
            "do_buy_confirm_to",
            "admin_update",
        ]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for (name, id) in COUNTRIES.iter().zip(1..) {
            take(
                "country",
                &["co_id", "co_name", "co_exchange", "co_currency"],
                &[Value::Int(id), text(*name), money(100), text("Coin")],
            );
        }
        for author in 1..=self.authors() {
            take(
                "author",
                &["a_id", "a_fname", "a_lname", "a_mname", "a_dob", "a_bio"],
                &[
                    Value::Int(author),
                    text("Ada"),
                    text(format!("Author{author}")),
                    text("M"),
                    Value::Date(0),
                    text("bio"),
                ],
            );
        }
        for item in 1..=self.items {
            self.item(item, take);
        }
        for customer in 1..=self.customers {
            self.customer(customer, take);
        }
        self.history(take);
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(TpcwCaller {
            rng: Rng::with_seed(seed),
            of: *self,
            place,
            mix: shopping_mix(),
        })
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

impl Tpcw {
    fn item(&self, item: i64, take: &mut RowSink<'_>) {
        let related = |by: i64| Value::Int((item + by - 1) % self.items + 1);
        take(
            "item",
            &[
                "i_id",
                "i_title",
                "i_a_id",
                "i_pub_date",
                "i_publisher",
                "i_subject",
                "i_desc",
                "i_related1",
                "i_related2",
                "i_related3",
                "i_related4",
                "i_related5",
                "i_thumbnail",
                "i_image",
                "i_srp",
                "i_cost",
                "i_avail",
                "i_stock",
                "i_isbn",
                "i_page",
                "i_backing",
                "i_dimensions",
            ],
            &[
                Value::Int(item),
                text(format!("Title{item}")),
                Value::Int(item % self.authors() + 1),
                Value::Date(TODAY - (item % 1_000) as i32),
                text("House"),
                text(self.subject(item)),
                text("a book"),
                related(1),
                related(2),
                related(3),
                related(4),
                related(5),
                text("thumbnail"),
                text("image"),
                money(2_000),
                money(1_500),
                Value::Date(0),
                Value::Int(20),
                text("isbn"),
                Value::Int(100),
                text("PAPERBACK"),
                text("1x1"),
            ],
        );
    }

    fn customer(&self, customer: i64, take: &mut RowSink<'_>) {
        let id = Value::Int(customer);
        take(
            "address",
            &[
                "addr_id",
                "addr_street1",
                "addr_street2",
                "addr_city",
                "addr_state",
                "addr_zip",
                "addr_co_id",
            ],
            &[
                id.clone(),
                text(format!("Street{customer}")),
                text(""),
                text("City"),
                text("State"),
                text("Zip"),
                Value::Int(1),
            ],
        );
        take(
            "customer",
            &[
                "c_id",
                "c_uname",
                "c_passwd",
                "c_fname",
                "c_lname",
                "c_addr_id",
                "c_phone",
                "c_email",
                "c_since",
                "c_last_visit",
                "c_login",
                "c_expiration",
                "c_discount",
                "c_balance",
                "c_ytd_pmt",
                "c_birthdate",
                "c_data",
            ],
            &[
                id.clone(),
                text(user_name(customer)),
                text("password"),
                text("Carl"),
                text("Customer"),
                id.clone(),
                text("1"),
                text("c@example.org"),
                Value::Date(0),
                Value::Date(0),
                Value::Timestamp(0),
                Value::Timestamp(0),
                money(1_000),
                money(0),
                money(0),
                Value::Date(0),
                text("data"),
            ],
        );
        take(
            "shopping_cart",
            &["sc_id", "sc_time"],
            &[id, Value::Timestamp(0)],
        );
    }
}

fn user_name(customer: i64) -> String {
    format!("user{customer}")
}

struct TpcwCaller {
    rng: Rng,
    of: Tpcw,
    place: ClientPlacement,
    mix: OperationMix,
}

impl TpcwCaller {
    fn item(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=self.of.items))
    }

    /// A customer of the client's own server, and that one's cart; any customer where operations are to conflict.
    fn customer(&mut self) -> i64 {
        match self.of.load {
            Load::Conflicts => self.rng.i64(1..=self.of.customers),
            Load::Benchmark => own_key(&mut self.rng, self.place, self.of.customers),
        }
    }

    fn cart(&mut self) -> Vec<Value> {
        let (item, some) = (self.item(), self.item());
        let item = if self.rng.bool() { item } else { Value::Null };
        let (listed, quantity) = (self.item(), self.rng.i64(0..4));
        vec![
            Value::Int(self.customer()),
            item,
            Value::Array(Arc::new([listed])),
            Value::Array(Arc::new([Value::Int(quantity)])),
            some,
            Value::Timestamp(NOW + self.rng.i64(0..1_000)),
        ]
    }

    fn confirm(&mut self) -> Vec<Value> {
        let customer = self.customer();
        vec![
            Value::Int(self.customer()),
            Value::Int(customer),
            text("VISA"),
            text("4111"),
            text("Carl Customer"),
            Value::Date(TODAY),
            text("auth"),
            text("AIR"),
            Value::Timestamp(NOW),
            Value::Timestamp(NOW),
        ]
    }

    fn address(&mut self) -> [Value; 5] {
        let street = format!("Street{}", self.customer() + self.rng.i64(0..2));
        [
            text(street),
            text(""),
            text("City"),
            text("State"),
            text("Zip"),
        ]
    }
}

impl Caller for TpcwCaller {
    fn next(&mut self) -> Operation {
        // Half of the calls fill carts and buy, where operations are to conflict.
        let procedure = match self.rng.usize(0..10) {
            _ if self.of.load == Load::Benchmark => self.mix.draw(self.rng.f64()),
            0..=2 => 9,
            3 => 17,
            4 => 18,
            _ => self.rng.usize(0..20),
        };
        let subjects = match self.of.load {
            Load::Conflicts => 2,
            Load::Benchmark => 24,
        };
        let subject = self.rng.usize(0..subjects) as i64;
        let subject = self.of.subject(subject);
        let arguments: Vec<Value> = match procedure {
            0 | 14 => vec![Value::Int(self.customer())],
            1 | 4 => vec![self.item()],
            2 | 3 | 5 => vec![text(subject)],
            6 if self.of.load == Load::Benchmark => {
                vec![text(format!("Title{}", self.rng.i64(1..=self.of.items)))]
            }
            7 if self.of.load == Load::Benchmark => {
                vec![text(format!(
                    "Author{}",
                    self.rng.i64(1..=self.of.authors())
                ))]
            }
            6 => vec![text("Title")],
            7 => vec![text("Author1")],
            8 => vec![Value::Timestamp(NOW)],
            9 => self.cart(),
            10 => vec![Value::Int(self.customer())],
            11 | 15 | 16 => vec![text(user_name(self.customer()))],
            12 => vec![
                Value::Int(self.customer()),
                Value::Timestamp(NOW + self.rng.i64(0..1_000)),
            ],
            13 => {
                let mut arguments = vec![text("Nora"), text("New")];
                arguments.extend(self.address());
                arguments.extend([
                    text(COUNTRIES[0]),
                    text("2"),
                    text("n@example.org"),
                    Value::Date(0),
                    text("data"),
                    money(500),
                    Value::Date(TODAY),
                    Value::Timestamp(NOW),
                ]);
                arguments
            }
            17 => self.confirm(),
            18 => {
                let mut arguments = self.confirm();
                arguments.extend(self.address());
                arguments.push(text(COUNTRIES[0]));
                arguments
            }
            _ => vec![
                self.item(),
                money(self.rng.i64(1_000..2_000)),
                text("image2"),
                text(format!("thumbnail{}", self.rng.u8(..))),
                Value::Date(TODAY + self.rng.i32(0..9)),
            ],
        };
        Operation {
            procedure,
            arguments: arguments.into(),
        }
    }
}
