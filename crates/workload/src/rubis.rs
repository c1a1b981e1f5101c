//! RUBiS: an auction site (`examples/rubis`). Users and items are so few that operations conflict often.

use std::collections::VecDeque;

use anabranch_engine::PlannedApplication;
use anabranch_types::{Decimal, Value};
use fastrand::Rng;

use crate::mix::{Load, OperationMix, Page, own_key};
use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

/// The application of `examples/rubis/`.
#[derive(Clone, Copy, Debug)]
pub struct Rubis {
    /// Users, numbered from 1.
    pub users: i64,
    /// Items, numbered from 1.
    pub items: i64,
    /// What is called, and how the data looks.
    pub load: Load,
}

/// The time of all operations, in microseconds since 2000-01-01 00:00:00; auctions end later.
const NOW: i64 = 500_000_000_000_000;

impl Rubis {
    /// Three users and three items for each node.
    pub fn new(nodes: u16) -> Rubis {
        Rubis {
            users: 3 * i64::from(nodes),
            items: 3 * i64::from(nodes),
            load: Load::Conflicts,
        }
    }

    /// The bidding mix over so many users and items. Each item has five bids, each user a comment.
    pub fn bidding(users: i64, items: i64) -> Rubis {
        Rubis {
            users,
            items,
            load: Load::Benchmark,
        }
    }

    /// Categories: the benchmark has 20.
    fn categories(&self) -> i64 {
        match self.load {
            Load::Conflicts => 2,
            Load::Benchmark => 20,
        }
    }

    /// Regions: the benchmark has 62.
    fn regions(&self) -> i64 {
        match self.load {
            Load::Conflicts => 2,
            Load::Benchmark => 62,
        }
    }

    /// The bids and comments that the database begins with.
    fn history(&self, take: &mut RowSink<'_>) {
        if self.load == Load::Conflicts {
            return;
        }
        for bid in 1..=5 * self.items {
            let (item, user) = ((bid - 1) % self.items + 1, bid * 7 % self.users + 1);
            let columns = ["id", "user_id", "item_id", "qty", "bid", "max_bid", "date"];
            let cents = 100 + (bid - 1) / self.items;
            take(
                "bids",
                &columns,
                &[
                    Value::Int(bid),
                    Value::Int(user),
                    Value::Int(item),
                    Value::Int(1),
                    money(cents),
                    money(cents + 100),
                    Value::Timestamp(bid),
                ],
            );
        }
        for comment in 1..=self.users {
            take(
                "comments",
                &[
                    "id",
                    "from_user_id",
                    "to_user_id",
                    "item_id",
                    "rating",
                    "date",
                    "comment",
                ],
                &[
                    Value::Int(comment),
                    Value::Int(comment * 3 % self.users + 1),
                    Value::Int(comment),
                    Value::Int(comment % self.items + 1),
                    Value::Int(0),
                    Value::Timestamp(comment),
                    text("a comment"),
                ],
            );
        }
    }
}

/// The pages of RUBiS's bidding mix that ask the database: visits in percent, from a walk of 3,000,000 steps through the
/// benchmark's transition table (`workload/default_transitions_15.txt`), and the operations that a page calls.
const BIDDING: [Page; 18] = [
    (1.41, &[(13, 1.0), (14, 1.0)]),
    (7.62, &[(1, 1.0)]),
    (15.66, &[(3, 1.0)]),
    (3.13, &[(2, 1.0)]),
    (3.08, &[(1, 1.0)]),
    (6.32, &[(4, 1.0)]),
    (12.31, &[(5, 1.0)]),
    (2.35, &[(7, 1.0), (8, 1.0)]),
    (1.48, &[(6, 1.0)]),
    (1.01, &[(0, 1.0), (20, 1.0)]),
    (0.99, &[(21, 1.0), (22, 1.0)]),
    (4.98, &[(0, 1.0), (16, 1.0)]),
    (3.64, &[(17, 1.0), (18, 1.0), (19, 1.0)]),
    (0.44, &[(0, 1.0), (23, 1.0)]),
    (0.44, &[(24, 1.0), (25, 1.0)]),
    (0.84, &[(0, 1.0), (1, 1.0)]),
    (0.81, &[(15, 1.0)]),
    (
        3.55,
        &[
            (0, 1.0),
            (7, 1.0),
            (9, 1.0),
            (10, 1.0),
            (11, 1.0),
            (12, 1.0),
            (8, 1.0),
        ],
    ),
];

/// The mix of calls that RUBiS's bidding mix of pages makes.
pub fn bidding_mix() -> OperationMix {
    OperationMix::of_pages(26, &BIDDING)
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
        for id in 1..=self.categories() {
            let columns = ["id", "name"];
            take(
                "categories",
                &columns,
                &[Value::Int(id), text(format!("category{id}"))],
            );
        }
        for id in 1..=self.regions() {
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
                    Value::Int(user % self.regions() + 1),
                ],
            );
        }
        let (bids, highest) = match self.load {
            Load::Conflicts => (0, 0),
            Load::Benchmark => (5, 104),
        };
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
                    Value::Int(bids),
                    money(highest),
                    Value::Timestamp(0),
                    Value::Timestamp(NOW + 1_000_000),
                    Value::Int(item % self.users + 1),
                    Value::Int(item % self.categories() + 1),
                ],
            );
        }
        self.history(take);
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(RubisCaller {
            rng: Rng::with_seed(seed),
            of: *self,
            place,
            mix: bidding_mix(),
            registered: 0,
            rest: VecDeque::new(),
        })
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

struct RubisCaller {
    rng: Rng,
    of: Rubis,
    place: ClientPlacement,
    mix: OperationMix,
    /// The users that it has registered.
    registered: u32,
    /// The rest of a page: what storing a bid, a purchase or a comment goes on with.
    rest: VecDeque<Operation>,
}

/// The operations that only follow others on their page, if the mix is the benchmark's: `raise_max_bid` and `count_bid`,
/// `take_from_stock`, `rate_user`.
pub const FOLLOWERS: [usize; 4] = [18, 19, 22, 25];

impl RubisCaller {
    fn item(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=self.of.items))
    }

    fn user(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=self.of.users))
    }

    /// A user of the client's own server; any user where operations are to conflict.
    fn own_user(&mut self) -> i64 {
        match self.of.load {
            Load::Conflicts => self.rng.i64(1..=self.of.users),
            Load::Benchmark => own_key(&mut self.rng, self.place, self.of.users),
        }
    }

    fn category(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=self.of.categories()))
    }

    /// A new user. No two clients choose one nickname.
    fn register(&mut self) -> Vec<Value> {
        self.registered += 1;
        vec![
            text("Nora"),
            text("New"),
            text(format!("new{}of{}", self.registered, self.place.client)),
            text("password"),
            text("n@example.org"),
            Value::Int(1),
            Value::Timestamp(NOW),
        ]
    }

    fn sell(&mut self) -> Vec<Value> {
        vec![
            Value::Int(self.own_user()),
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

impl RubisCaller {
    /// Draws from the benchmark's mix. What follows on a page is as frequent as what it follows, and is not drawn.
    fn draw(&mut self) -> usize {
        loop {
            let operation = self.mix.draw(self.rng.f64());
            if !FOLLOWERS.contains(&operation) {
                return operation;
            }
        }
    }

    /// Remembers the rest of an operation's page.
    fn follow(&mut self, procedure: usize, arguments: &[Value]) {
        let now = Value::Timestamp(NOW);
        let mut push = |procedure, arguments: Vec<Value>| {
            self.rest.push_back(Operation {
                procedure,
                arguments: arguments.into(),
            });
        };
        match (procedure, arguments) {
            (17, [_, item, _, bid, ..]) => {
                push(18, vec![item.clone(), bid.clone()]);
                push(19, vec![item.clone()]);
            }
            (21, [_, item, quantity, _]) => {
                push(22, vec![item.clone(), quantity.clone(), now]);
            }
            (24, [_, to, _, rating, ..]) => push(25, vec![to.clone(), rating.clone()]),
            _ => {}
        }
    }
}

impl Caller for RubisCaller {
    fn next(&mut self) -> Operation {
        if let Some(next) = self.rest.pop_front() {
            return next;
        }
        let now = Value::Timestamp(NOW);
        // Half of the calls write, where operations are to conflict.
        let procedure = match self.rng.usize(0..16) {
            _ if self.of.load == Load::Benchmark => self.draw(),
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
                let user = self.own_user();
                vec![text(nickname(user)), text("password")]
            }
            1 | 2 => Vec::new(),
            3 => vec![self.category(), now, Value::Int(0)],
            4 => vec![self.category(), Value::Int(1), now, Value::Int(0)],
            5 | 6 | 16 | 20 => vec![self.item()],
            7 | 8 => vec![self.user()],
            9 | 12 => vec![Value::Int(self.own_user())],
            10 | 11 => vec![Value::Int(self.own_user()), now],
            13 => vec![text("region1")],
            14 => self.register(),
            15 => self.sell(),
            17 => {
                let amount = self.rng.i64(100..1_000);
                vec![
                    Value::Int(self.own_user()),
                    self.item(),
                    Value::Int(1),
                    money(amount),
                    money(amount + 100),
                    now,
                ]
            }
            18 => vec![self.item(), money(self.rng.i64(100..1_000))],
            19 => vec![self.item()],
            21 => vec![Value::Int(self.own_user()), self.item(), Value::Int(1), now],
            22 => vec![self.item(), Value::Int(1), now],
            23 => vec![self.user(), self.item()],
            24 => vec![
                Value::Int(self.own_user()),
                self.user(),
                self.item(),
                Value::Int(self.rng.i64(-5..6)),
                now,
                text("a comment"),
            ],
            _ => vec![self.user(), Value::Int(self.rng.i64(-5..6))],
        };
        if self.of.load == Load::Benchmark {
            self.follow(procedure, &arguments);
        }
        Operation {
            procedure,
            arguments: arguments.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What follows on a page is called as often as the mix says, right behind what it follows, for the same item.
    #[test]
    fn pages_are_called_whole_and_as_often_as_the_mix_says() {
        let mut caller = RubisCaller {
            rng: Rng::with_seed(1),
            of: Rubis::bidding(100, 100),
            place: ClientPlacement {
                client: 0,
                node: 0,
                nodes: 1,
            },
            mix: bidding_mix(),
            registered: 0,
            rest: VecDeque::new(),
        };
        let calls: Vec<Operation> = (0..60_000).map(|_| caller.next()).collect();
        for (procedure, share) in bidding_mix().shares().iter().enumerate() {
            let count = calls.iter().filter(|call| call.procedure == procedure);
            let found = count.count() as f64 / calls.len() as f64;
            assert!(
                (found - share).abs() < 0.004,
                "{procedure}: {found}, {share}"
            );
        }
        for page in calls.windows(3).filter(|page| page[0].procedure == 17) {
            assert_eq!((page[1].procedure, page[2].procedure), (18, 19));
            assert_eq!(page[1].arguments[0], page[0].arguments[1]);
            assert_eq!(page[2].arguments[0], page[0].arguments[1]);
        }
    }
}
