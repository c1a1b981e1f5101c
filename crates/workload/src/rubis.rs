//! RUBiS: an auction site (`examples/rubis`). Users and items are so few that operations conflict often.

use anabranch_engine::PlannedApplication;
use anabranch_types::{Decimal, Value};
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

/// The application of `examples/rubis/`.
#[derive(Clone, Copy, Debug)]
pub struct Rubis {
    /// Users, numbered from 1.
    pub users: i64,
    /// Items, numbered from 1.
    pub items: i64,
}

const CATEGORIES: i64 = 2;
const REGIONS: i64 = 2;

/// The time of all operations, in microseconds since 2000-01-01 00:00:00; auctions end later.
const NOW: i64 = 500_000_000_000_000;

impl Rubis {
    /// Three users and three items for each node.
    pub fn new(nodes: u16) -> Rubis {
        Rubis {
            users: 3 * i64::from(nodes),
            items: 3 * i64::from(nodes),
        }
    }
}

fn text(text: impl Into<String>) -> Value {
    Value::text(text.into())
}

fn money(cents: i64) -> Value {
    Value::Numeric(Decimal::from_scaled(cents, 2))
}

fn nickname(user: i64) -> String {
    format!("nick{user}")
}

impl Workload for Rubis {
    fn name(&self) -> &'static str {
        "rubis"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/rubis/schema.sql",
                include_str!("../../../examples/rubis/schema.sql"),
            ),
            (
                "examples/rubis/procedures.sql",
                include_str!("../../../examples/rubis/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &[
            "authenticate",
            "browse_categories",
            "browse_regions",
            "search_items_by_category",
            "search_items_by_region",
            "view_item",
            "view_bid_history",
            "view_user",
            "list_comments",
            "list_items",
            "list_bids",
            "list_won_items",
            "list_bought_items",
            "find_region",
            "register_user",
            "register_item",
            "put_bid",
            "store_bid",
            "raise_max_bid",
            "count_bid",
            "buy_now_page",
            "store_buy_now",
            "take_from_stock",
            "put_comment",
            "store_comment",
            "rate_user",
        ]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for id in 1..=CATEGORIES {
            let columns = ["id", "name"];
            take(
                "categories",
                &columns,
                &[Value::Int(id), text(format!("category{id}"))],
            );
        }
        for id in 1..=REGIONS {
            let columns = ["id", "name"];
            take(
                "regions",
                &columns,
                &[Value::Int(id), text(format!("region{id}"))],
            );
        }
        for user in 1..=self.users {
            take(
                "users",
                &[
                    "id",
                    "firstname",
                    "lastname",
                    "nickname",
                    "password",
                    "email",
                    "rating",
                    "balance",
                    "creation_date",
                    "region",
                ],
                &[
                    Value::Int(user),
                    text("Uma"),
                    text("User"),
                    text(nickname(user)),
                    text("password"),
                    text("u@example.org"),
                    Value::Int(0),
                    money(0),
                    Value::Timestamp(0),
                    Value::Int(user % REGIONS + 1),
                ],
            );
        }
        for item in 1..=self.items {
            take(
                "items",
                &[
                    "id",
                    "name",
                    "description",
                    "initial_price",
                    "quantity",
                    "reserve_price",
                    "buy_now",
                    "nb_of_bids",
                    "max_bid",
                    "start_date",
                    "end_date",
                    "seller",
                    "category",
                ],
                &[
                    Value::Int(item),
                    text(format!("item{item}")),
                    text("a thing"),
                    money(100),
                    Value::Int(1_000),
                    money(200),
                    money(900),
                    Value::Int(0),
                    money(0),
                    Value::Timestamp(0),
                    Value::Timestamp(NOW + 1_000_000),
                    Value::Int(item % self.users + 1),
                    Value::Int(item % CATEGORIES + 1),
                ],
            );
        }
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(RubisCaller {
            rng: Rng::with_seed(seed),
            of: *self,
            client: place.client,
            registered: 0,
        })
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

struct RubisCaller {
    rng: Rng,
    of: Rubis,
    client: u32,
    /// The users that it has registered.
    registered: u32,
}

impl RubisCaller {
    fn item(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=self.of.items))
    }

    fn user(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=self.of.users))
    }

    fn category(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=CATEGORIES))
    }

    /// A new user. No two clients choose one nickname.
    fn register(&mut self) -> Vec<Value> {
        self.registered += 1;
        vec![
            text("Nora"),
            text("New"),
            text(format!("new{}of{}", self.registered, self.client)),
            text("password"),
            text("n@example.org"),
            Value::Int(1),
            Value::Timestamp(NOW),
        ]
    }

    fn sell(&mut self) -> Vec<Value> {
        vec![
            self.user(),
            text("a new item"),
            text("a thing"),
            money(100),
            Value::Int(10),
            money(200),
            money(900),
            Value::Timestamp(NOW),
            Value::Timestamp(NOW + 1_000_000),
            self.category(),
        ]
    }
}

impl Caller for RubisCaller {
    fn next(&mut self) -> Operation {
        let now = Value::Timestamp(NOW);
        // Half of the calls write.
        let procedure = match self.rng.usize(0..16) {
            0..=1 => 17,
            2 => 18,
            3 => 19,
            4 => 21,
            5 => 22,
            6 => 24,
            7 => 25,
            _ => self.rng.usize(0..26),
        };
        let arguments: Vec<Value> = match procedure {
            0 => {
                let user = self.rng.i64(1..=self.of.users);
                vec![text(nickname(user)), text("password")]
            }
            1 | 2 => Vec::new(),
            3 => vec![self.category(), now, Value::Int(0)],
            4 => vec![self.category(), Value::Int(1), now, Value::Int(0)],
            5 | 6 | 16 | 20 => vec![self.item()],
            7 | 8 | 9 | 12 => vec![self.user()],
            10 | 11 => vec![self.user(), now],
            13 => vec![text("region1")],
            14 => self.register(),
            15 => self.sell(),
            17 => {
                let amount = self.rng.i64(100..1_000);
                vec![
                    self.user(),
                    self.item(),
                    Value::Int(1),
                    money(amount),
                    money(amount + 100),
                    now,
                ]
            }
            18 => vec![self.item(), money(self.rng.i64(100..1_000))],
            19 => vec![self.item()],
            21 => vec![self.user(), self.item(), Value::Int(1), now],
            22 => vec![self.item(), Value::Int(1), now],
            23 => vec![self.user(), self.item()],
            24 => vec![
                self.user(),
                self.user(),
                self.item(),
                Value::Int(self.rng.i64(-5..6)),
                now,
                text("a comment"),
            ],
            _ => vec![self.user(), Value::Int(self.rng.i64(-5..6))],
        };
        Operation {
            procedure,
            arguments: arguments.into(),
        }
    }
}
