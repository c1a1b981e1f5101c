//! The transactions' inputs (clause 2) and their mix (5.2.3).

use std::sync::Arc;

use anabranch_types::Value;
use fastrand::Rng;

use super::random::{self, RUN};
use super::{DISTRICTS, Scale, load};

/// The five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionType {
    /// 2.4
    NewOrder,
    /// 2.5
    Payment,
    /// 2.6
    OrderStatus,
    /// 2.7
    Delivery,
    /// 2.8
    StockLevel,
}

impl TransactionType {
    /// All five, in the specification's order.
    pub const ALL: [TransactionType; 5] = [
        TransactionType::NewOrder,
        TransactionType::Payment,
        TransactionType::OrderStatus,
        TransactionType::Delivery,
        TransactionType::StockLevel,
    ];

    /// The name of its procedure.
    pub fn procedure(self) -> &'static str {
        match self {
            TransactionType::NewOrder => "new_order",
            TransactionType::Payment => "payment",
            TransactionType::OrderStatus => "order_status",
            TransactionType::Delivery => "delivery",
            TransactionType::StockLevel => "stock_level",
        }
    }
}

/// The percentage of each transaction type, in the order of [`TransactionType::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix(pub [u8; 5]);

impl Mix {
    /// The full mix: 45 New-Orders, 43 Payments and 4 of each other (5.2.3's minima).
    pub const FULL: Mix = Mix([45, 43, 4, 4, 4]);
    /// New-Orders alone, as most published comparisons have it.
    pub const NEW_ORDER: Mix = Mix([100, 0, 0, 0, 0]);

    /// A mix in which this percentage only reads, half of it Order-Status and half Stock-Level; the others are in the
    /// proportions of the full mix, which itself reads in 8 of 100 (alvin.txt §5 has 3, 50 and 90). `None` above 100.
    pub fn reading(percent: u8) -> Option<Mix> {
        let writes = 100_u8.checked_sub(percent)?;
        let share = |of_full: u16| (u16::from(writes) * of_full / 92) as u8;
        let (payment, delivery) = (share(43), share(4));
        let (stock_level, order_status) = (percent / 2, percent.div_ceil(2));
        // In the order of `TransactionType::ALL`.
        Some(Mix([
            writes - payment - delivery,
            payment,
            order_status,
            delivery,
            stock_level,
        ]))
    }
}

/// The share of distributed New-Orders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// As specified: each line comes from another warehouse with a chance of 1% (2.4.1.5), so that
    /// about one order in ten has such a line.
    Specified,
    /// This percentage of the orders has at least one line from a warehouse on another partition,
    /// and no other order has any: what the papers vary.
    Percent(f64),
}

/// One call: the transaction, the warehouse of its terminal, and the procedure's arguments.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The transaction.
    pub transaction: TransactionType,
    /// The home warehouse.
    pub warehouse: i64,
    /// The arguments of [`TransactionType::procedure`], in order.
    pub arguments: Arc<[Value]>,
}

/// Draws calls from a seed.
#[derive(Clone, Debug)]
pub struct CallGenerator {
    rng: Rng,
    scale: Scale,
    mix: Mix,
    distribution: Distribution,
    /// The percentage of New-Orders that roll back.
    rollback_percent: u8,
    /// The partition of each warehouse's rows, the first one's first.
    homes: Vec<u16>,
    now: i64,
}

impl CallGenerator {
    /// A generator for a database of this scale. `homes` has the partition of each warehouse, the first
    /// one's first, as [`super::homes()`] finds it in a plan: which orders are distributed follows from it.
    ///
    /// # Panics
    /// When the mix does not add up to 100, or there is not one home for each warehouse.
    pub fn new(
        scale: Scale,
        mix: Mix,
        distribution: Distribution,
        homes: Vec<u16>,
        seed: u64,
    ) -> CallGenerator {
        assert_eq!(
            mix.0.iter().map(|share| u32::from(*share)).sum::<u32>(),
            100,
            "{mix:?}"
        );
        assert!(!homes.is_empty() && homes.len() == scale.warehouses as usize);
        CallGenerator {
            rng: Rng::with_seed(seed),
            scale,
            mix,
            distribution,
            rollback_percent: 1,
            homes,
            now: load::LOADED_AT,
        }
    }

    /// The next call of a terminal of a warehouse drawn at random.
    pub fn next_call(&mut self) -> Invocation {
        let warehouse = self.rng.i64(1..=i64::from(self.scale.warehouses));
        self.next_at(warehouse)
    }

    /// The next call of a terminal of this warehouse.
    pub fn next_at(&mut self, warehouse: i64) -> Invocation {
        // Any moving clock does: a call's time is one of its inputs.
        self.now += 1_000;
        let mut dice = self.rng.u8(0..100);
        let transaction = TransactionType::ALL
            .into_iter()
            .zip(self.mix.0)
            .find(|(_, share)| {
                let hit = dice < *share;
                dice = dice.wrapping_sub(*share);
                hit
            })
            .map_or(TransactionType::NewOrder, |(transaction, _)| transaction);
        let arguments = match transaction {
            TransactionType::NewOrder => self.new_order(warehouse),
            TransactionType::Payment => self.payment(warehouse),
            TransactionType::OrderStatus => self.order_status(warehouse),
            TransactionType::Delivery => self.delivery(warehouse),
            TransactionType::StockLevel => self.stock_level(warehouse),
        };
        Invocation {
            transaction,
            warehouse,
            arguments,
        }
    }

    fn district(&mut self) -> Value {
        Value::Int(self.rng.i64(1..=DISTRICTS))
    }

    fn customer(&mut self) -> Value {
        let customers = i64::from(self.scale.customers);
        Value::Int(random::non_uniform(
            &mut self.rng,
            1_023,
            RUN.customer,
            1,
            customers,
        ))
    }

    /// 60% by last name, else by number: `(c_id, c_last)`, one of them NULL.
    fn customer_or_name(&mut self) -> (Value, Value) {
        if self.rng.u8(0..100) < 60 {
            let names = i64::from(self.scale.customers).min(1_000);
            let name = random::non_uniform(&mut self.rng, 255, RUN.last_name, 0, names - 1);
            (Value::Null, Value::text(random::last_name(name)))
        } else {
            (self.customer(), Value::Null)
        }
    }

    /// Another warehouse, drawn from those on other partitions where `elsewhere`.
    fn remote(&mut self, home: i64, elsewhere: bool) -> i64 {
        let warehouses = i64::from(self.scale.warehouses);
        let homes = &self.homes;
        let home_of = |w: i64| homes[w as usize - 1];
        let apart = |w: i64| w != home && (!elsewhere || home_of(w) != home_of(home));
        if !(1..=warehouses).any(apart) {
            return home;
        }
        loop {
            let warehouse = self.rng.i64(1..=warehouses);
            if apart(warehouse) {
                return warehouse;
            }
        }
    }

    fn new_order(&mut self, warehouse: i64) -> Arc<[Value]> {
        let items = i64::from(self.scale.items);
        let lines = self.rng.usize(5..=15);
        let mut ids: Vec<i64> = Vec::with_capacity(lines);
        while ids.len() < lines {
            let id = random::non_uniform(&mut self.rng, 8_191, RUN.item, 1, items);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        if self.rng.u8(0..100) < self.rollback_percent {
            // 2.4.1.5: an unused item number.
            ids[lines - 1] = items + 1;
        }
        ids.sort_unstable();
        let mut suppliers = vec![warehouse; lines];
        match self.distribution {
            Distribution::Specified => {
                for supplier in &mut suppliers {
                    if self.rng.u8(0..100) == 0 {
                        *supplier = self.remote(warehouse, false);
                    }
                }
            }
            Distribution::Percent(percent) => {
                if self.rng.f64() * 100.0 < percent {
                    let line = self.rng.usize(0..lines);
                    suppliers[line] = self.remote(warehouse, true);
                }
            }
        }
        let quantities: Vec<i64> = (0..lines).map(|_| self.rng.i64(1..=10)).collect();
        let array = |ints: Vec<i64>| Value::Array(ints.into_iter().map(Value::Int).collect());
        Arc::new([
            Value::Int(warehouse),
            self.district(),
            self.customer(),
            Value::Timestamp(self.now),
            array(ids),
            array(suppliers),
            array(quantities),
        ])
    }

    fn payment(&mut self, warehouse: i64) -> Arc<[Value]> {
        let district = self.district();
        // 2.5.1.2: 15% of the customers belong to another warehouse.
        let (customer_warehouse, customer_district) = if self.rng.u8(0..100) < 15 {
            (self.remote(warehouse, false), self.district())
        } else {
            (warehouse, district.clone())
        };
        let (id, name) = self.customer_or_name();
        Arc::new([
            Value::Int(warehouse),
            district,
            Value::Int(customer_warehouse),
            customer_district,
            id,
            name,
            load::money(self.rng.i64(100..=500_000)),
            Value::Timestamp(self.now),
        ])
    }

    fn order_status(&mut self, warehouse: i64) -> Arc<[Value]> {
        let district = self.district();
        let (id, name) = self.customer_or_name();
        Arc::new([Value::Int(warehouse), district, id, name])
    }

    fn delivery(&mut self, warehouse: i64) -> Arc<[Value]> {
        Arc::new([
            Value::Int(warehouse),
            Value::Int(self.rng.i64(1..=10)),
            Value::Timestamp(self.now),
        ])
    }

    /// A terminal for Stock-Level belongs to one district (2.8.1.1); here it is drawn.
    fn stock_level(&mut self, warehouse: i64) -> Arc<[Value]> {
        Arc::new([
            Value::Int(warehouse),
            self.district(),
            Value::Int(self.rng.i64(10..=20)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_reads_as_often_as_asked() {
        assert_eq!(Mix::reading(8), Some(Mix::FULL));
        for percent in 0..=100 {
            let mix = Mix::reading(percent).expect("a percentage").0;
            assert_eq!(mix.iter().map(|share| u32::from(*share)).sum::<u32>(), 100);
            assert_eq!(mix[2] + mix[4], percent, "Order-Status and Stock-Level");
            assert!(percent == 100 || mix[0] > 0, "{mix:?}");
        }
        assert_eq!(Mix::reading(101), None);
    }
}
