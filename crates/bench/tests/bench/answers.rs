//! Runs on the embedded cluster check each answer, and report one that the workload does not permit.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anabranch_bench::experiment::{Experiment, ProtocolChoice, Settings};
use anabranch_bench::fill::FillError;
use anabranch_bench::{application, embedded, ycsb};
use anabranch_engine::PlannedApplication;
use anabranch_protocol::ramp::FilterSize;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::Value;
use anabranch_workload::workload::RowSink;
use anabranch_workload::ycsb::{Form, Parameters};
use anabranch_workload::{Caller, ClientPlacement, Operation, Workload};

fn settings() -> Settings {
    Settings {
        partitions: 2,
        clients: 4,
        duration: Duration::from_millis(30),
        warmup: Duration::from_millis(1),
        delay: Duration::ZERO,
        seed: 1,
        code_path: false,
        recorded: false,
        reserved: 0,
        filter: FilterSize::default(),
        lost_commits: 0,
        terminate_after: None,
        one_phase: false,
        causal: false,
    }
}

/// YCSB without its last item: a read of that item returns one row less than it has keys.
struct Lacking {
    ycsb: ycsb::Experiment,
    lacks: Option<i64>,
}

impl Workload for Lacking {
    fn name(&self) -> &'static str {
        "lacking"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        self.ycsb.workload().files()
    }

    fn procedures(&self) -> &'static [&'static str] {
        self.ycsb.workload().procedures()
    }

    fn rows(&self, seed: u64, take: &mut RowSink<'_>) {
        self.ycsb.workload().rows(seed, take);
    }

    fn caller(
        &self,
        seed: u64,
        place: ClientPlacement,
        planned: &PlannedApplication,
    ) -> Box<dyn Caller> {
        self.ycsb.workload().caller(seed, place, planned)
    }

    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        let lacks = self.lacks.map(Value::Int);
        let rows = rows.iter().filter(|row| row.first() != lacks.as_ref());
        let left: Vec<Vec<Value>> = rows.cloned().collect();
        self.ycsb.workload().judge(operation, &left)
    }

    fn refuses(&self, code: &str) -> bool {
        self.ycsb.workload().refuses(code)
    }
}

impl Experiment for Lacking {
    fn workload(&self) -> &dyn Workload {
        self
    }

    fn settings(&self) -> &Settings {
        self.ycsb.settings()
    }

    fn size(&self) -> String {
        self.ycsb.size()
    }

    fn rows(&self) -> u64 {
        Experiment::rows(&self.ycsb)
    }

    fn fill(
        &self,
        planned: &Arc<PlannedApplication>,
        settings: StoreSettings,
        loaded: &AtomicU64,
    ) -> Result<Vec<Store>, FillError> {
        self.ycsb.fill(planned, settings, loaded)
    }

    fn caller(&self, planned: &PlannedApplication) -> Result<Box<dyn Caller>, FillError> {
        Experiment::caller(&self.ycsb, planned)
    }
}

#[test]
fn an_answer_that_cannot_be_is_a_condition_that_does_not_hold() {
    let parameters = Parameters {
        items: 20,
        form: Form::RAMP,
        ..Parameters::RAMP
    };
    for lacks in [None, Some(3)] {
        let ycsb = ycsb::Experiment::new(parameters, settings()).unwrap();
        let experiment = Lacking { ycsb, lacks };
        let files = experiment.files().iter();
        let files = files.map(|(name, text)| SourceFile::new(*name, *text));
        let planned = application::plan(files.collect(), 2).unwrap();
        let loaded = AtomicU64::new(0);
        let stores = experiment.fill(&planned, StoreSettings::default(), &loaded);
        assert_eq!(loaded.into_inner(), 20);
        let choice = ProtocolChoice::RampFast;
        let stores = stores.unwrap();
        let ran = embedded::run(&planned, &experiment, choice, stores, None, &mut |_| {}).unwrap();
        let told: Vec<(&str, bool)> = ran.run.conditions.iter().map(|(a, b)| (&**a, *b)).collect();
        match lacks {
            None => assert_eq!(told, [("answers", true)]),
            Some(_) => assert_eq!(told, [("answers: 3 items were found, not 4", false)]),
        }
        assert!(ran.run.transactions > 100);
        // This workload does not count item operations.
        assert_eq!(ran.run.operations_per_s, None);
        assert_eq!(ran.run.rate(), ran.run.transactions_per_s);
    }
}
