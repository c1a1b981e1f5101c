//! Table 1: classes of transaction types, and how often their operations are called.

use anabranch_analysis::partition::OperationClass;

use super::traffic::{Application, Frequencies};
use super::{Context, ReproduceError};
use crate::figure::{Comparison, Section};

const CLASSES: [(OperationClass, &str); 4] = [
    (OperationClass::Local, "local"),
    (OperationClass::Global, "global"),
    (OperationClass::Commutative, "commutative"),
    (OperationClass::LocalOrGlobal, "local or global"),
];

pub(super) fn section(context: &Context<'_>) -> Result<Section, ReproduceError> {
    let mut comparisons = Vec::new();
    for application in Application::ALL {
        let traffic = context.traffic(application, Frequencies::Benchmark);
        let published = application.published();
        let name = application.name();
        for ((class, label), printed) in CLASSES.iter().zip(published.types) {
            let types = traffic.types.iter().filter(|of| of.class == *class);
            comparisons.push(
                Comparison::computed(format!("{name}: {label} types"), "", types.count() as f64)
                    .beside(f64::from(printed)),
            );
        }
        let reads = traffic.types.iter().filter(|of| of.is_read_only).count();
        comparisons.push(
            Comparison::computed(format!("{name}: read-only types"), "", reads as f64)
                .beside(f64::from(published.read_only)),
        );
        // The paper's shares of L, G and C add up to 100%: its local-or-global operations are in them.
        let printed = published
            .frequencies
            .iter()
            .map(|share| Some(100.0 * share));
        for ((class, label), printed) in CLASSES.iter().zip(printed.chain([None])) {
            let share = traffic
                .mix
                .share_of(|operation| traffic.types[operation].class == *class);
            let what = format!("{name}: {label} operations, §7's share of writes");
            comparisons.push(Comparison::computed(what, "%", 100.0 * share).beside(printed));
        }
        let what = format!("{name}: operations that only read, §7's share of writes");
        let reads = 1.0 - traffic.write_share();
        comparisons
            .push(Comparison::computed(what, "%", 100.0 * reads).beside(100.0 * published.reads));
        let raw = application.benchmark_mix();
        let writes = raw.share_of(|operation| !traffic.types[operation].is_read_only);
        let what = format!("{name}: operations that write, by the benchmark's pages alone");
        comparisons
            .push(Comparison::computed(what, "%", 100.0 * writes).beside(100.0 * published.writes));
    }
    Ok(Section {
        title: "Table 1: classes and frequencies".into(),
        text: vec![
            "Our analysis of examples/tpcw and examples/rubis, weighted by the mixes. It counts all columns that a \
             statement reads, where the paper counts returned ones, and compares all choices of one parameter for each type."
                .into(),
            "Frequencies are computed from the benchmarks' pages: TPC-W's shopping mix, and a walk through the \
             transition table of RUBiS's bidding mix. RUBiS's calls write about as often as the paper says. TPC-W's write \
             less than half as often, so operations that write are scaled to the paper's 30%, and keep their proportions. \
             The printed 39% of global operations follow from neither."
                .into(),
        ],
        comparisons,
        ..Section::default()
    })
}
