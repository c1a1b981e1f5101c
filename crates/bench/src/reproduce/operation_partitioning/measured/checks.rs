//! What has to hold of the databases after a run.

use std::collections::BTreeMap;

use anabranch_analysis::Plan;

use super::super::databases::{self, DatabaseError};
use super::super::traffic::Application;
use super::clients::Found;
use super::ring::Ring;

/// How many conditions were checked, and those that do not hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Checked {
    /// The number of conditions.
    pub(super) count: u64,
    /// What does not hold.
    pub(super) wrong: Vec<String>,
}

impl Checked {
    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: &T, expected: &T) {
        self.count += 1;
        if found != expected {
            self.wrong
                .push(format!("{what}: {found:?} instead of {expected:?}"));
        }
    }
}

/// Rows of all servers whose key is above those that the database began with, each once.
fn union(ring: &Ring, query: &str) -> Result<BTreeMap<i64, Vec<i64>>, DatabaseError> {
    let mut found = BTreeMap::new();
    for name in &ring.databases {
        for row in ring.server.connect_to(name)?.query(query, &[])? {
            let values = (1..row.len()).map(|place| row.get(place)).collect();
            found.insert(row.get(0), values);
        }
    }
    Ok(found)
}

/// A table of numbers by key.
fn numbers(ring: &Ring, place: usize, query: &str) -> Result<BTreeMap<i64, i64>, DatabaseError> {
    let mut client = ring.server.connect_to(&ring.databases[place])?;
    let rows = client.query(query, &[])?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Tables that all servers have are equal on all.
fn replicas(
    ring: &Ring,
    application: Application,
    plan: &Plan,
    checked: &mut Checked,
) -> Result<(), DatabaseError> {
    let tables = databases::replicated(&*application.workload(), plan)?;
    for (table, _) in tables.iter().filter(|(_, is_whole)| **is_whole) {
        let digests = ring.on_each(&format!(
            "SELECT count(*) || ' rows, ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {table} t"
        ))?;
        for digest in &digests[1..] {
            checked.equal(&format!("the rows of {table}"), digest, &digests[0]);
        }
    }
    Ok(())
}

/// Checks the databases of a run that has ended; `plan` is that of a ring.
pub(super) fn check(
    ring: &Ring,
    application: Application,
    plan: Option<&Plan>,
    found: &Found,
) -> Result<Checked, DatabaseError> {
    let mut checked = Checked::default();
    if let Some(plan) = plan {
        replicas(ring, application, plan, &mut checked)?;
    }
    let done = |name: &str| found.done.get(name).copied().unwrap_or(0) as i64;
    match application {
        Application::Tpcw => {
            for place in 0..ring.databases.len() {
                let one = |query: &str| -> Result<i64, DatabaseError> {
                    let mut client = ring.server.connect_to(&ring.databases[place])?;
                    Ok(client.query_one(query, &[])?.get(0))
                };
                let below = one("SELECT count(*) FROM item WHERE i_stock < 0")?;
                checked.equal("books with a stock below 0", &below, &0);
                let confirmed = done("do_buy_confirm") + done("do_buy_confirm_to");
                let orders = one("SELECT count(*) - 2880 * 9 / 10 FROM orders")?;
                checked.equal("orders, by acknowledged confirmations", &orders, &confirmed);
                let paid = one("SELECT count(*) - 2880 * 9 / 10 FROM cc_xacts")?;
                checked.equal("payments, by orders", &paid, &orders);
                let customers = one("SELECT count(*) - 2880 FROM customer")?;
                let made = done("create_new_customer");
                checked.equal("new customers, by acknowledged calls", &customers, &made);
                // What carts had is in orders once: the stock has what they took, modulo a refill of 21.
                let unequal = one(
                    "SELECT count(*) FROM item LEFT JOIN (SELECT ol_i_id, sum(ol_qty) AS sold FROM order_line \
                     WHERE ol_o_id > 2880 * 9 / 10 GROUP BY ol_i_id) s ON ol_i_id = i_id \
                     WHERE (i_stock - 20 + coalesce(sold, 0)) % 21 <> 0",
                )?;
                checked.equal("books whose stock is not what orders took", &unequal, &0);
            }
        }
        Application::Rubis => rubis(ring, &mut checked, &done)?,
    }
    Ok(checked)
}

fn rubis(
    ring: &Ring,
    checked: &mut Checked,
    done: &dyn Fn(&str) -> i64,
) -> Result<(), DatabaseError> {
    // Bids of one server's users and items are on that server alone.
    let bids = union(
        ring,
        "SELECT id, item_id, (bid * 100)::bigint FROM bids WHERE id > 50000",
    )?;
    checked.equal(
        "bids, by acknowledged calls",
        &(bids.len() as i64),
        &done("store_bid"),
    );
    let sales = union(ring, "SELECT id, item_id, qty::bigint FROM buy_now")?;
    checked.equal(
        "sales, by acknowledged calls",
        &(sales.len() as i64),
        &done("store_buy_now"),
    );
    let comments = union(
        ring,
        "SELECT id, to_user_id, rating::bigint FROM comments WHERE id > 10000",
    )?;
    let said = comments.len() as i64;
    checked.equal(
        "comments, by acknowledged calls",
        &said,
        &done("store_comment"),
    );
    let (mut counts, mut highest, mut sold, mut ratings) = (
        BTreeMap::<i64, i64>::new(),
        BTreeMap::<i64, i64>::new(),
        BTreeMap::<i64, i64>::new(),
        BTreeMap::<i64, i64>::new(),
    );
    for bid in bids.values() {
        *counts.entry(bid[0]).or_insert(5) += 1;
        let highest = highest.entry(bid[0]).or_insert(104);
        *highest = bid[1].max(*highest);
    }
    for sale in sales.values() {
        *sold.entry(sale[0]).or_default() += sale[1];
    }
    for comment in comments.values() {
        *ratings.entry(comment[0]).or_default() += comment[1];
    }
    for place in 0..ring.databases.len() {
        let of = numbers(
            ring,
            place,
            "SELECT id, nb_of_bids::bigint FROM items WHERE id <= 10000 AND nb_of_bids <> 5",
        )?;
        checked.equal("numbers of bids, by their rows", &of, &counts);
        let of = numbers(
            ring,
            place,
            "SELECT id, (max_bid * 100)::bigint FROM items WHERE id <= 10000",
        )?;
        let expected = of
            .keys()
            .map(|item| (*item, highest.get(item).copied().unwrap_or(104)));
        checked.equal("best bids, by their rows", &of, &expected.collect());
        let of = numbers(
            ring,
            place,
            "SELECT id, 1000 - quantity::bigint FROM items WHERE id <= 10000 AND quantity <> 1000",
        )?;
        checked.equal("sold numbers, by their rows", &of, &sold);
    }
    // A user's rating is on the server that the user belongs to.
    let servers = ring.databases.len() as i64;
    for place in 0..servers {
        let of = numbers(
            ring,
            place as usize,
            &format!(
                "SELECT id, rating::bigint FROM users WHERE id % 16 % {servers} = {place} AND id <= 10000 AND rating <> 0"
            ),
        )?;
        let own = ratings
            .iter()
            .filter(|(user, rating)| *user % 16 % servers == place && **rating != 0);
        let expected: BTreeMap<i64, i64> = own.map(|(user, rating)| (*user, *rating)).collect();
        checked.equal("ratings, by their comments", &of, &expected);
    }
    Ok(())
}
