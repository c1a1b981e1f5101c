//! TPC-W: an online bookstore (`examples/tpcw`). Carts, customers and books are so few that operations conflict often.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::{Decimal, Value};
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

/// The application of `examples/tpcw/`.
#[derive(Clone, Copy, Debug)]
pub struct Tpcw {
    /// Books, numbered from 1.
    pub items: i64,
    /// Customers, each with an address and a cart of the same number, from 1.
    pub customers: i64,
}

const AUTHORS: i64 = 3;
const COUNTRIES: [&str; 2] = ["Germany", "Qatar"];
const SUBJECTS: [&str; 2] = ["ARTS", "HISTORY"];

/// The time of all operations, in microseconds since 2000-01-01 00:00:00, and its date.
const NOW: i64 = 500_000_000_000_000;
const TODAY: i32 = 5_787;

impl Tpcw {
    /// Six books, and four customers for each node.
    pub fn new(nodes: u16) -> Tpcw {
        Tpcw {
            items: 6,
            customers: 4 * i64::from(nodes),
        }
    }
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
        for author in 1..=AUTHORS {
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
    }

    fn caller(&self, seed: u64, _: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(TpcwCaller {
            rng: Rng::with_seed(seed),
            of: *self,
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
                Value::Int(item % AUTHORS + 1),
                Value::Date(TODAY - item as i32),
                text("House"),
                text(SUBJECTS[item as usize % SUBJECTS.len()]),
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
}

impl TpcwCaller {
    fn item(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=self.of.items))
    }

    fn customer(&mut self) -> i64 {
        self.rng.i64(1..=self.of.customers)
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
        // Half of the calls fill carts and buy.
        let procedure = match self.rng.usize(0..10) {
            0..=2 => 9,
            3 => 17,
            4 => 18,
            _ => self.rng.usize(0..20),
        };
        let subject = SUBJECTS[self.rng.usize(0..SUBJECTS.len())];
        let arguments: Vec<Value> = match procedure {
            0 | 14 => vec![Value::Int(self.customer())],
            1 | 4 => vec![self.item()],
            2 | 3 | 5 => vec![text(subject)],
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
