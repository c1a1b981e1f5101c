//! TPC-C's five transaction types, transcribed from examples/tpcc/procedures.sql.

use anabranch_sql::source::SourceFile;
use anabranch_sql::summary::ResultUse::{Carried, Unused, Used};

use super::Application;

const SCHEMA: &str = include_str!("../../../../../examples/tpcc/schema.sql");
const ASSERTIONS: &str = include_str!("../../../../../examples/tpcc/assertions.sql");

/// TPC-C's schema and assertions, without types.
pub(crate) fn declarations() -> Application {
    let file = |name: &str, text: &str| SourceFile {
        name: name.into(),
        text: text.into(),
    };
    Application::of(vec![
        file("schema.sql", SCHEMA),
        file("assertions.sql", ASSERTIONS),
    ])
}

/// TPC-C.
pub(crate) fn application() -> Application {
    let mut tpcc = declarations();
    new_order(&mut tpcc);
    payment(&mut tpcc);
    order_status(&mut tpcc);
    delivery(&mut tpcc);
    stock_level(&mut tpcc);
    tpcc
}

pub(crate) fn new_order(tpcc: &mut Application) {
    tpcc.transaction(
        "new_order",
        &[
            "p_w_id",
            "p_d_id",
            "p_c_id",
            "p_entry_d",
            "p_item_ids",
            "p_supply_w_ids",
            "p_quantities",
        ],
    )
    .select("warehouse", &["w_tax"], &[("w_id", "p_w_id")])
    .result(Used)
    .select(
        "district",
        &["d_tax"],
        &[("d_w_id", "p_w_id"), ("d_id", "p_d_id")],
    )
    .result(Used)
    .select(
        "customer",
        &["c_discount", "c_last", "c_credit"],
        &[
            ("c_w_id", "p_w_id"),
            ("c_d_id", "p_d_id"),
            ("c_id", "p_c_id"),
        ],
    )
    .result(Used)
    .select("item", &["i_price"], &[("i_id", "p_item_ids[]")])
    .result(Used)
    .update(
        "district",
        &[("d_next_o_id", "+=1")],
        &[("d_w_id", "p_w_id"), ("d_id", "p_d_id")],
    )
    .reading(&["d_next_o_id"])
    .result(Carried)
    .insert(
        "orders",
        &[
            ("o_w_id", "p_w_id"),
            ("o_d_id", "p_d_id"),
            ("o_id", "#4.d_next_o_id-1"),
            ("o_c_id", "p_c_id"),
            ("o_entry_d", "p_entry_d"),
            ("o_ol_cnt", "pure"),
            ("o_all_local", "pure"),
        ],
    )
    .insert(
        "new_order",
        &[
            ("no_w_id", "p_w_id"),
            ("no_d_id", "p_d_id"),
            ("no_o_id", "#4.d_next_o_id-1"),
        ],
    )
    .insert(
        "order_line",
        &[
            ("ol_w_id", "p_w_id"),
            ("ol_d_id", "p_d_id"),
            ("ol_o_id", "#4.d_next_o_id-1"),
            ("ol_number", "pure"),
            ("ol_i_id", "p_item_ids[]"),
            ("ol_supply_w_id", "p_supply_w_ids[]"),
            ("ol_quantity", "p_quantities[]"),
            ("ol_amount", "?"),
            ("ol_dist_info", "?"),
        ],
    )
    .join("item", &["i_price"], &[("i_id", "p_item_ids[]")])
    .join(
        "stock",
        &["s_dist_01", "s_dist_10"],
        &[("s_w_id", "p_supply_w_ids[]"), ("s_i_id", "p_item_ids[]")],
    )
    .update(
        "stock",
        &[
            ("s_quantity", "row"),
            ("s_ytd", "+p_quantities[]"),
            ("s_order_cnt", "+=1"),
            ("s_remote_cnt", "+pure"),
        ],
        &[("s_w_id", "p_supply_w_ids[]"), ("s_i_id", "p_item_ids[]")],
    )
    .done();
}

pub(crate) fn payment(tpcc: &mut Application) {
    tpcc.transaction(
        "payment",
        &[
            "p_w_id", "p_d_id", "p_c_w_id", "p_c_d_id", "p_c_id", "p_c_last", "p_amount", "p_date",
        ],
    )
    .select(
        "warehouse",
        &["w_name", "w_street_1"],
        &[("w_id", "p_w_id")],
    )
    .result(Used)
    .select(
        "district",
        &["d_name"],
        &[("d_w_id", "p_w_id"), ("d_id", "p_d_id")],
    )
    .result(Used)
    .select(
        "customer",
        &[],
        &[
            ("c_w_id", "p_c_w_id"),
            ("c_d_id", "p_c_d_id"),
            ("c_last", "p_c_last"),
        ],
    )
    .result(Used)
    .select(
        "customer",
        &["c_id", "c_first"],
        &[
            ("c_w_id", "p_c_w_id"),
            ("c_d_id", "p_c_d_id"),
            ("c_last", "p_c_last"),
        ],
    )
    .result(Used)
    .select(
        "customer",
        &["c_first", "c_credit"],
        &[
            ("c_w_id", "p_c_w_id"),
            ("c_d_id", "p_c_d_id"),
            ("c_id", "?"),
        ],
    )
    .result(Carried)
    .update(
        "warehouse",
        &[("w_ytd", "+p_amount")],
        &[("w_id", "p_w_id")],
    )
    .update(
        "district",
        &[("d_ytd", "+p_amount")],
        &[("d_w_id", "p_w_id"), ("d_id", "p_d_id")],
    )
    .update(
        "customer",
        &[
            ("c_balance", "-p_amount"),
            ("c_ytd_payment", "+p_amount"),
            ("c_payment_cnt", "+=1"),
            ("c_data", "row"),
        ],
        &[
            ("c_w_id", "p_c_w_id"),
            ("c_d_id", "p_c_d_id"),
            ("c_id", "?"),
        ],
    )
    .reading(&["c_balance", "c_data", "c_credit"])
    .result(Carried)
    .insert(
        "history",
        &[
            ("h_c_w_id", "p_c_w_id"),
            ("h_c_d_id", "p_c_d_id"),
            ("h_c_id", "?"),
            ("h_w_id", "p_w_id"),
            ("h_d_id", "p_d_id"),
            ("h_date", "p_date"),
            ("h_amount", "p_amount"),
            ("h_data", "?"),
        ],
    )
    .result(Unused)
    .done();
}

pub(crate) fn order_status(tpcc: &mut Application) {
    let customer = [("c_w_id", "p_w_id"), ("c_d_id", "p_d_id"), ("c_id", "?")];
    tpcc.transaction("order_status", &["p_w_id", "p_d_id", "p_c_id", "p_c_last"])
        .select(
            "customer",
            &["c_id"],
            &[
                ("c_w_id", "p_w_id"),
                ("c_d_id", "p_d_id"),
                ("c_last", "p_c_last"),
            ],
        )
        .result(Used)
        .select(
            "orders",
            &["o_id"],
            &[("o_w_id", "p_w_id"), ("o_d_id", "p_d_id"), ("o_c_id", "?")],
        )
        .result(Used)
        .select("customer", &["c_balance", "c_first"], &customer)
        .join(
            "orders",
            &["o_carrier_id"],
            &[
                ("o_w_id", "p_w_id"),
                ("o_d_id", "p_d_id"),
                ("o_id", "max@1.o_id"),
            ],
        )
        .join(
            "order_line",
            &["ol_delivery_d"],
            &[
                ("ol_w_id", "p_w_id"),
                ("ol_d_id", "p_d_id"),
                ("ol_o_id", "max@1.o_id"),
            ],
        )
        .done();
}

pub(crate) fn delivery(tpcc: &mut Application) {
    tpcc.transaction("delivery", &["p_w_id", "p_carrier_id", "p_delivery_d"])
        .select(
            "new_order",
            &["no_o_id"],
            &[("no_w_id", "p_w_id"), ("no_d_id", "pure")],
        )
        .result(Used)
        .in_loop()
        .delete(
            "new_order",
            &[
                ("no_w_id", "p_w_id"),
                ("no_d_id", "pure"),
                ("no_o_id", "min@0.no_o_id"),
            ],
        )
        .result(Used)
        .in_loop()
        .update(
            "orders",
            &[("o_carrier_id", "p_carrier_id")],
            &[
                ("o_w_id", "p_w_id"),
                ("o_d_id", "pure"),
                ("o_id", "min@0.no_o_id"),
            ],
        )
        .reading(&["o_c_id"])
        .result(Used)
        .in_loop()
        .update(
            "order_line",
            &[("ol_delivery_d", "p_delivery_d")],
            &[
                ("ol_w_id", "p_w_id"),
                ("ol_d_id", "pure"),
                ("ol_o_id", "min@0.no_o_id"),
            ],
        )
        .in_loop()
        .select(
            "order_line",
            &["ol_amount"],
            &[
                ("ol_w_id", "p_w_id"),
                ("ol_d_id", "pure"),
                ("ol_o_id", "min@0.no_o_id"),
            ],
        )
        .result(Used)
        .in_loop()
        .update(
            "customer",
            &[("c_balance", "+sum@4.ol_amount"), ("c_delivery_cnt", "+=1")],
            &[
                ("c_w_id", "p_w_id"),
                ("c_d_id", "pure"),
                ("c_id", "@2.o_c_id"),
            ],
        )
        .in_loop()
        .done();
}

pub(crate) fn stock_level(tpcc: &mut Application) {
    tpcc.transaction("stock_level", &["p_w_id", "p_d_id", "p_threshold"])
        .select(
            "district",
            &["d_next_o_id"],
            &[("d_w_id", "p_w_id"), ("d_id", "p_d_id")],
        )
        .join(
            "order_line",
            &["ol_i_id"],
            &[("ol_w_id", "p_w_id"), ("ol_d_id", "p_d_id")],
        )
        .join("stock", &["s_quantity"], &[("s_w_id", "p_w_id")])
        .done();
}
