//! The plan of an application that a server runs, and how it changes while the schema stays: a client accepts a
//! shape, or what was accepted is taken back.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_analysis::{Guarantee, Options, analyze_with, open_placements};
use anabranch_engine::undeclared::{Acceptance, AcceptedShape, UndeclaredTypes};
use anabranch_engine::{DetachedBlock, PlannedApplication};
use anabranch_sql::Application;
use anabranch_sql::change::Notice;
use anabranch_types::Placement;

use super::finish::{Unwritten, write_generation};
use super::{Changer, Refused};
use crate::frontend::Changed;
use crate::service;
use crate::service::changes::{ChangeWork, OpenPart, PlanChange};
use crate::service::errors::{error, error_with_hint, of_refusal};
use crate::service::folder::RowsBefore;
use crate::service::nodes::{self, Keeping, NodesLeft};

/// Plans an application for so many partitions, for nodes that keep this guarantee. Under serializability clients' statements
/// are not analysed: they may give any key.
///
/// Without declared procedures, nothing tells which tables are never written: then each table is partitioned by its
/// primary key, as far as its unique indexes allow it.
pub fn plan_application(
    compiled: Application,
    (partitions, guarantee): (u16, service::Guarantee),
    before: RowsBefore<'_>,
) -> Arc<PlannedApplication> {
    let kept = before.kept(compiled.schema());
    let options = Options {
        guarantee: Guarantee::Invariants,
        // On one partition, all keys are seen, and nothing is gained by another column.
        places_by_keys: guarantee == service::Guarantee::Serializable || partitions == 1,
        placements: kept.clone(),
        ..Options::default()
    };
    let mut plan = analyze_with(compiled.catalog(), compiled.summaries(), &options);
    let open = open_placements(compiled.schema());
    if compiled.procedures.is_empty() {
        plan.placements = open;
        return PlannedApplication::new(compiled, plan, partitions);
    }
    let tables = compiled.schema().tables.iter().zip(open).enumerate();
    for ((number, (table, open)), placement) in tables.zip(&mut plan.placements) {
        let has_copies = |replicated: &BTreeSet<String>| replicated.contains(&table.name);
        if *placement == Placement::Replicated && !before.replicated.is_none_or(has_copies) {
            *placement = match (&kept, open) {
                // No declared type writes it, and its rows stay where they are.
                (Some(kept), _) => kept[number].clone(),
                // The analysis places by one column.
                (None, Placement::Columns(columns)) => Placement::Columns(columns[..1].to_vec()),
                (None, other) => other,
            };
        }
    }
    PlannedApplication::new(compiled, plan, partitions)
}

/// Plans an application together with the shapes that clients have accepted. Returns those that there is no room for,
/// each with the reason.
pub fn plan_accepting(
    compiled: Application,
    nodes: (u16, service::Guarantee),
    before: RowsBefore<'_>,
    accepted: &[AcceptedShape],
) -> (Arc<PlannedApplication>, Vec<(AcceptedShape, String)>) {
    let planned = plan_application(compiled, nodes, before);
    planned.accepting(accepted, &Options::default())
}

/// A plan that is to replace the one that counts.
struct NextPlan {
    made: Made,
    notices: Vec<Notice>,
}

/// How it was made.
enum Made {
    /// With a shape that a client accepts.
    Accepting(Box<Acceptance>),
    /// Without what clients have accepted.
    Forgetting(Arc<PlannedApplication>),
}

impl Changer {
    /// Has the plan of all become another one, for the schema as it is. The transaction goes on afterwards.
    pub(super) fn change_plan(
        &mut self,
        work: &ChangeWork,
        plan: &PlanChange,
        changed: &mut Changed,
    ) -> Result<(), Refused> {
        // Before others are waited for.
        let Some(next) = self.next_plan(work, plan)? else {
            return Ok(());
        };
        let detached = self.acquire(work)?;
        let mut own = match (work.part, detached) {
            (Some(part), Some(block)) => Some((part, block)),
            (None, _) => None,
            (Some(_), None) => {
                self.open_gate();
                return Err(error("XX000", "a transaction was lost").into());
            }
        };
        let done = self.replace_plan(work, plan, next, (&mut own, changed));
        if let Some((part, block)) = own {
            let put = self.put_back(work, part, block);
            if done.is_ok() {
                put?;
            }
        }
        self.open_gate();
        done
    }

    /// The plan that is wanted; `None` if it is the one that counts.
    fn next_plan(&self, work: &ChangeWork, plan: &PlanChange) -> Result<Option<NextPlan>, Refused> {
        let Some(undeclared) = &self.environment.undeclared else {
            return Ok(None);
        };
        let before = &self.environment.planned;
        match plan {
            // Its connection does not know the plan that counts: it may have room.
            PlanChange::Accept(_) if work.version != self.environment.version => Ok(None),
            PlanChange::Accept(shape) => {
                let found = undeclared.accept(shape);
                let found = found.map_err(|refusal| Refused::from(of_refusal(&refusal)))?;
                Ok(found.map(|found| NextPlan {
                    notices: told(
                        &format!("the plan has changed: \"{}\" is accepted", shape.title()),
                        &found.differences,
                    ),
                    made: Made::Accepting(Box::new(found)),
                }))
            }
            PlanChange::Forget if before.accepted().next().is_none() => Ok(None),
            PlanChange::Forget => {
                let planned = before.accepting_none(&self.analysis);
                Ok(Some(NextPlan {
                    notices: told(
                        "the plan has changed: nothing is accepted any more",
                        &planned.differences(before),
                    ),
                    made: Made::Forgetting(planned),
                }))
            }
        }
    }

    /// Whether a plan was made with every type that is known now.
    fn is_current(&self, next: &NextPlan) -> bool {
        match (&next.made, &self.environment.undeclared) {
            (Made::Accepting(found), Some(undeclared)) => undeclared.is_current(found),
            // It is one of declared types alone.
            (Made::Forgetting(_), _) | (_, None) => true,
        }
    }

    /// Starts all nodes under the next plan, once that is durable. No transaction runs. After an error those that were
    /// there go on.
    fn replace_plan(
        &mut self,
        work: &ChangeWork,
        plan: &PlanChange,
        mut next: NextPlan,
        (own, changed): (&mut Option<(OpenPart, DetachedBlock)>, &mut Changed),
    ) -> Result<(), Refused> {
        // Types that were admitted meanwhile have to be in it.
        if !self.is_current(&next) {
            match self.next_plan(work, plan)? {
                Some(again) => next = again,
                None => return Ok(()),
            }
        }
        let (planned, undeclared) = match next.made {
            Made::Accepting(found) => (found.planned, found.types),
            Made::Forgetting(planned) => {
                let types = UndeclaredTypes::new(Arc::clone(&planned), self.analysis.clone());
                (planned, types)
            }
        };
        let after = self.environment_with(planned, Some(undeclared));
        let NodesLeft {
            stores,
            past,
            frontends,
        } = self.stop_nodes()?;
        // Without nodes, the block is lost with everything else.
        let kept = own.take();
        let nodes = match self.data.clone() {
            None => nodes::start(&after, stores, &Keeping::Memory, Some(past))
                .map_err(|failure| Refused::fatal(&failure))?,
            Some(data) => match write_generation(&data, &after, stores, past.clone()) {
                Ok((nodes, data)) => {
                    self.data = Some(data);
                    nodes
                }
                Err(Unwritten::Unknown(failure)) => return Err(Refused::fatal(&failure)),
                Err(Unwritten::Unchanged(failure)) => {
                    self.reopen(&data, past, frontends)?;
                    *own = kept;
                    let message =
                        format!("could not write the database with its new plan: {failure}");
                    let hint = "The plan and all rows are as before.";
                    return Err(error_with_hint("58030", message, hint).into());
                }
            },
        };
        self.shared.set_current(Some(Arc::clone(&after)));
        self.environment = after;
        self.run_lasting(nodes, frontends)?;
        *own = kept;
        changed.notices.append(&mut next.notices);
        Ok(())
    }
}

/// What a client is told of a change of the plan.
fn told(message: &str, differences: &[String]) -> Vec<Notice> {
    vec![Notice {
        code: "00000",
        message: message.to_owned(),
        detail: Some(match differences {
            [] => "The declared types do what they did.".to_owned(),
            lines => lines.join("\n"),
        }),
    }]
}
