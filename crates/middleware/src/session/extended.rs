//! The extended protocol: prepared statements and portals, sent on in as few pieces as their meaning allows.
//!
//! What is between two Syncs is one transaction unless BEGIN and COMMIT are in it. Commands of transactions are the
//! middleware's own, prepared or not: it answers them. What is between them goes to a server as one unit.

use std::sync::Arc;

use anabranch_wire::relay::Frame;
use anabranch_wire::{ErrorFields, Request, Target};

use super::unit::{Item, Portal, Prepared, Unit};
use super::{End, Failure, Run, Session, coordination_field};
use crate::command::{self, Command};
use crate::recognise::Statement;

/// Messages that are sent on together, and the portals that they run.
#[derive(Default)]
struct Gathered {
    unit: Unit,
    runs: Vec<Portal>,
    settings: Vec<(Command, String)>,
    recovers: bool,
    begins: bool,
    /// Whether something runs that does not run again with its transaction, and whether anything else runs.
    draws: bool,
    does_more: bool,
    /// Whether more of the same pipeline follows later.
    is_part: bool,
}

impl Session {
    /// Runs what has gathered since the last time. `syncs`: up to a Sync, with which the transaction ends that is not one by
    /// hand.
    pub(super) fn run_pipeline(&mut self, syncs: bool) -> Result<(), End> {
        let frames = std::mem::take(&mut self.pipeline);
        self.pipeline_bytes = 0;
        if frames.is_empty() && !syncs {
            return Ok(());
        }
        if !self.skips && !self.run_frames(frames, syncs)? {
            self.skips = true;
            if let Some(block) = &mut self.block {
                block.has_failed = true;
            }
        }
        if syncs {
            if self.block.as_ref().is_some_and(|block| block.is_implicit) {
                self.end_implicit()?;
            }
            if self.block.is_none() {
                self.portals.clear();
            }
        }
        Ok(())
    }

    /// Returns whether all succeeded.
    fn run_frames(&mut self, frames: Vec<Frame>, syncs: bool) -> Result<bool, End> {
        let mut gathered = Gathered {
            is_part: !syncs,
            ..Gathered::default()
        };
        // Whether this is a part of a transaction that is not one by hand.
        let mut of_several = !syncs;
        for frame in frames {
            let request = match frame.request() {
                Ok(request) => request,
                Err(error) => {
                    if self.run_gathered(&mut gathered, of_several)? {
                        self.fail(ErrorFields::from(error).into())?;
                    }
                    return Ok(false);
                }
            };
            match self.take(&mut gathered, frame, request) {
                Ok(None) => {}
                Ok(Some(own)) => {
                    // What ran before BEGIN belongs to its transaction.
                    of_several |= matches!(own, Own::Execute(_));
                    if !self.run_gathered(&mut gathered, of_several)? || !self.own(own)? {
                        return Ok(false);
                    }
                }
                Err(failure) => {
                    if self.run_gathered(&mut gathered, of_several)? {
                        self.fail(failure)?;
                    }
                    return Ok(false);
                }
            }
        }
        self.run_gathered(&mut gathered, of_several)
    }

    /// Sends on what has gathered. Returns whether it succeeded.
    fn run_gathered(&mut self, gathered: &mut Gathered, of_several: bool) -> Result<bool, End> {
        let Gathered {
            unit,
            runs,
            settings,
            recovers,
            begins,
            draws,
            does_more,
            is_part,
        } = std::mem::take(gathered);
        gathered.is_part = is_part;
        let unit = unit.once(draws && !does_more);
        if unit.is_empty() {
            return Ok(true);
        }
        if of_several && begins {
            self.open_implicit();
        }
        let runs: Vec<Run<'_>> = runs
            .iter()
            .filter_map(|portal| {
                Some(Run {
                    statement: portal.prepared.statement.as_ref()?,
                    arguments: portal.arguments(),
                    text: &portal.prepared.text,
                })
            })
            .collect();
        let done = match (&self.block, begins) {
            // Statements are prepared, and nothing runs: that is no part of a transaction.
            (Some(block), false) if !block.has_failed && !block.is_at_home() => {
                self.run_alone(&unit, &[])
            }
            _ => self.run_within(&unit, &runs, recovers),
        };
        let fine = self.ended(done)?;
        if fine {
            for (command, text) in settings {
                self.keep_setting(&command, &text);
            }
        }
        Ok(fine)
    }

    /// Adds a message to what is gathered, or says what has to be done here instead.
    fn take(
        &mut self,
        gathered: &mut Gathered,
        frame: Frame,
        request: Request,
    ) -> Result<Option<Own>, Failure> {
        match request {
            Request::Parse {
                statement,
                text,
                parameter_types,
            } => {
                if !statement.is_empty() && self.prepared.contains_key(&statement) {
                    let message = format!("prepared statement \"{statement}\" already exists");
                    return Err(ErrorFields::error("42P05", message).into());
                }
                let prepared = Arc::new(self.prepare(frame, statement, text, parameter_types)?);
                self.prepared
                    .insert(prepared.name.clone(), Arc::clone(&prepared));
                if is_own(&prepared.command) {
                    return Ok(Some(Own::Answer(b'1')));
                }
                gathered.unit.push(Item::Parse(prepared));
                Ok(None)
            }
            Request::Bind {
                portal,
                statement,
                parameter_formats,
                parameters,
                ..
            } => {
                let prepared = Arc::clone(self.prepared.get(&statement).ok_or_else(|| {
                    let message = match statement.is_empty() {
                        true => "unnamed prepared statement does not exist".to_owned(),
                        false => format!("prepared statement \"{statement}\" does not exist"),
                    };
                    Failure::from(ErrorFields::error("26000", message))
                })?);
                let own = is_own(&prepared.command);
                let bound = Portal {
                    prepared: Arc::clone(&prepared),
                    formats: parameter_formats,
                    values: parameters,
                    is_executed: false,
                };
                self.portals.insert(portal, bound);
                if own {
                    return Ok(Some(Own::Answer(b'2')));
                }
                // A portal lives as long as its transaction, which has to be open for it.
                gathered.begins |= self.block.is_some() || gathered.is_part;
                gathered.unit.push(Item::Using(frame, prepared));
                Ok(None)
            }
            Request::Describe(target) => {
                let prepared = match &target {
                    Target::Statement(name) => self.prepared.get(name),
                    Target::Portal(name) => self.portals.get(name).map(|p| &p.prepared),
                };
                match (prepared, target) {
                    (Some(prepared), target) if is_own(&prepared.command) => {
                        let is_statement = matches!(target, Target::Statement(_));
                        let explains = matches!(prepared.command, Command::ExplainCoordination(_));
                        Ok(Some(Own::Describe {
                            is_statement,
                            explains,
                        }))
                    }
                    (Some(prepared), Target::Statement(_)) => {
                        let prepared = Arc::clone(prepared);
                        gathered.unit.push(Item::Using(frame, prepared));
                        Ok(None)
                    }
                    _ => {
                        gathered.unit.push(Item::Other(frame));
                        Ok(None)
                    }
                }
            }
            Request::Execute { portal, .. } => {
                let Some(bound) = self.portals.get_mut(&portal) else {
                    let message = format!("portal \"{portal}\" does not exist");
                    return Err(ErrorFields::error("34000", message).into());
                };
                if is_own(&bound.prepared.command) {
                    return Ok(Some(Own::Execute(Arc::clone(&bound.prepared))));
                }
                gathered.begins |= !matches!(bound.prepared.command, Command::Local);
                let draws = super::simple::runs_once(&bound.prepared.command, &bound.prepared.text);
                gathered.draws |= draws;
                gathered.does_more |= !draws;
                match &bound.prepared.command {
                    command @ Command::Setting => {
                        let text = bound.prepared.text.clone();
                        gathered.settings.push((command.clone(), text));
                    }
                    Command::RollbackTo => gathered.recovers = true,
                    _ => {}
                }
                if !bound.is_executed {
                    gathered.runs.push(bound.clone());
                }
                bound.is_executed = true;
                gathered.unit.push(Item::Other(frame));
                Ok(None)
            }
            Request::Close(target) => {
                let own = match &target {
                    Target::Statement(name) => self.prepared.remove(name),
                    Target::Portal(name) => self.portals.remove(name).map(|p| p.prepared),
                };
                match own {
                    Some(prepared) if is_own(&prepared.command) => Ok(Some(Own::Answer(b'3'))),
                    _ => {
                        if let Target::Statement(name) = &target {
                            self.on_home.insert(name.clone(), None);
                        }
                        gathered.unit.push(Item::Other(frame));
                        Ok(None)
                    }
                }
            }
            _ => Ok(None),
        }
    }

    fn prepare(
        &mut self,
        parse: Frame,
        name: String,
        text: String,
        types: Vec<u32>,
    ) -> Result<Prepared, Failure> {
        let command = command::command(&text)
            .map_err(|error| Failure::from(ErrorFields::error("42601", error.to_string())))?;
        let read = match &command {
            Command::Refused {
                code,
                message,
                hint,
            } => {
                let error = ErrorFields::error(code, message.clone()).with_hint(*hint);
                return Err(error.into());
            }
            Command::ResetsAll => {
                let error = ErrorFields::error(
                    "0A000",
                    format!(
                        "{text} in the extended protocol is not supported by the belt's middleware"
                    ),
                )
                .with_hint("Send it as a simple query.");
                return Err(error.into());
            }
            Command::Statement => Some(text.as_str()),
            Command::Declare(range) => Some(&text[range.clone()]),
            Command::Execute(name) => match self.prepared_by_sql.get(name) {
                Some(prepared) if super::simple::executed_values(&text) == Some(Vec::new()) => {
                    Some(prepared.as_str())
                }
                Some(_) => {
                    let error = ErrorFields::error(
                        "0A000",
                        "EXECUTE with values in the extended protocol is not supported by the belt's middleware",
                    )
                    .with_hint("Bind the values, or send it as a simple query.");
                    return Err(error.into());
                }
                None => {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    let error = ErrorFields::error("26000", message).with_hint(
                        "EXECUTE runs what was prepared by PREPARE, on this connection.",
                    );
                    return Err(error.into());
                }
            },
            _ => None,
        };
        let statement: Option<Statement> = read.map(|text| self.shared.recogniser.read(text));
        self.next_generation += 1;
        Ok(Prepared {
            name,
            generation: self.next_generation,
            parse,
            command,
            text,
            types,
            statement,
        })
    }

    /// Does what the middleware answers itself. Returns whether it succeeded.
    fn own(&mut self, own: Own) -> Result<bool, End> {
        match own {
            Own::Answer(letter) => self.client.answers().letter(letter),
            Own::Describe {
                is_statement,
                explains,
            } => {
                let mut answers = self.client.answers();
                if is_statement {
                    answers.parameter_description(&[]);
                }
                match explains {
                    true => answers.row_description(&[coordination_field()]),
                    false => answers.letter(b'n'),
                }
            }
            Own::Execute(prepared) => {
                if let Command::ExplainCoordination(range) = &prepared.command {
                    return self.explain_rows(&prepared.text[range.clone()]);
                }
                return self.command(&prepared.command, &prepared.text);
            }
        }
        Ok(true)
    }

    fn explain_rows(&mut self, text: &str) -> Result<bool, End> {
        // The description was sent when it was asked for.
        let before = self.client.out.len();
        let done = self.explain(text);
        let fine = self.ended(done.map(|()| true))?;
        if fine {
            let described = &self.client.out[before..];
            let length = described.get(1..5).map_or(0, |length| {
                u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize
            });
            let rows = self.client.out.split_off(before + 1 + length);
            self.client.out.truncate(before);
            self.client.out.unsplit(rows);
        }
        Ok(fine)
    }
}

/// What the middleware answers itself.
enum Own {
    /// By a letter alone.
    Answer(u8),
    Describe {
        is_statement: bool,
        explains: bool,
    },
    Execute(Arc<Prepared>),
}

/// Whether the middleware does it, and no server.
fn is_own(command: &Command) -> bool {
    matches!(
        command,
        Command::Begin(_)
            | Command::Commit
            | Command::Rollback
            | Command::IsolationLevel
            | Command::ExplainCoordination(_)
            | Command::RemoveServer(_)
            | Command::CatchUp(_)
            | Command::Empty
    )
}
