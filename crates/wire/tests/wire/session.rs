//! A session without a database: it answers every request in its turn. Its answers depend on the requests alone.
//!
//! | text | answer |
//! |---|---|
//! | nothing | no statement |
//! | `fail` | an error |
//! | `none` | no rows |
//! | other | a row of the text, and of each parameter |

use anabranch_wire::{
    BackendKey, Connection, ErrorFields, Field, Format, Formats, Limits, NameError, Names, Request,
    Target, TransactionStatus,
};
use bytes::{BufMut, Bytes};

pub(crate) struct Session {
    pub(crate) connection: Connection,
    statements: Names<(String, usize)>,
    portals: Names<Portal>,
    /// The requests that it had, in brief.
    pub(crate) requests: Vec<String>,
}

struct Portal {
    text: String,
    parameters: Vec<Option<Bytes>>,
    result_formats: Formats,
}

/// The secret of every session's key.
pub(crate) const SECRET: [u8; 32] = *b"0123456789abcdef0123456789abcdef";

impl Session {
    pub(crate) fn new(limits: Limits) -> Session {
        Session {
            connection: Connection::new(limits),
            statements: Names::statements(10),
            portals: Names::portals(5),
            requests: Vec::new(),
        }
    }

    /// Takes bytes, and answers what they ask.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.connection.receive(bytes);
        while let Some(request) = self.connection.next_request() {
            self.requests.push(format!("{request:?}"));
            self.answer(request);
        }
    }

    fn answer(&mut self, request: Request) {
        let connection = &mut self.connection;
        match request {
            Request::Start(startup) if startup.database == "missing" => {
                connection.fatal(&ErrorFields::error(
                    "3D000",
                    "database \"missing\" does not exist",
                ));
            }
            Request::Start(_) => {
                connection.accept(&[("server_version", "15.0")], &BackendKey::new(7, SECRET));
                connection.ready(TransactionStatus::Idle);
            }
            Request::Query { text } => {
                self.statements.remove("");
                self.portals.clear();
                match text.as_str() {
                    "" => connection.empty_query(),
                    "fail" => connection.error(&failure(&text)),
                    "none" => connection.command_complete("NONE"),
                    _ => {
                        connection.row_description(&fields(0, &Formats::All(Format::Text)));
                        row(connection, &text, &[]);
                        connection.command_complete("SELECT 1");
                    }
                }
                connection.ready(TransactionStatus::Idle);
            }
            Request::Sync => {
                self.portals.clear();
                connection.ready(TransactionStatus::Idle);
            }
            extended => {
                if let Err(error) = self.extended(extended) {
                    self.connection.error(&error);
                }
            }
        }
    }

    fn extended(&mut self, request: Request) -> Result<(), Box<ErrorFields>> {
        let connection = &mut self.connection;
        match request {
            Request::Parse {
                statement,
                text,
                parameter_types,
            } => {
                self.statements
                    .insert(&statement, (text, parameter_types.len()))
                    .map_err(boxed)?;
                connection.parse_complete();
            }
            Request::Bind {
                portal,
                statement,
                parameters,
                result_formats,
                ..
            } => {
                let (text, count) = self.statements.get(&statement).map_err(boxed)?;
                if parameters.len() != *count {
                    let message = format!("{count} parameters, not {}", parameters.len());
                    return Err(ErrorFields::error("08P01", message).into());
                }
                result_formats
                    .for_columns(1 + parameters.len())
                    .map_err(|count| ErrorFields::error("08P01", format!("{count} formats")))?;
                let text = text.clone();
                let bound = Portal {
                    text,
                    parameters,
                    result_formats,
                };
                self.portals.insert(&portal, bound).map_err(boxed)?;
                connection.bind_complete();
            }
            Request::Describe(Target::Statement(name)) => {
                let (text, count) = self.statements.get(&name).map_err(boxed)?;
                connection.parameter_description(&vec![25; *count]);
                describe(connection, text, *count, &Formats::All(Format::Text));
            }
            Request::Describe(Target::Portal(name)) => {
                let portal = self.portals.get(&name).map_err(boxed)?;
                describe(
                    connection,
                    &portal.text,
                    portal.parameters.len(),
                    &portal.result_formats,
                );
            }
            Request::Execute { portal, rows_max } => {
                let portal = self.portals.get(&portal).map_err(boxed)?;
                match portal.text.as_str() {
                    "" => connection.empty_query(),
                    "fail" => return Err(failure(&portal.text).into()),
                    "none" => connection.command_complete("NONE"),
                    _ => {
                        row(connection, &portal.text, &portal.parameters);
                        if rows_max == 1 {
                            connection.portal_suspended();
                        } else {
                            connection.command_complete("SELECT 1");
                        }
                    }
                }
            }
            Request::Close(target) => {
                match target {
                    Target::Statement(name) => self.statements.remove(&name),
                    Target::Portal(name) => self.portals.remove(&name),
                }
                connection.close_complete();
            }
            _ => {}
        }
        Ok(())
    }
}

fn boxed(error: NameError) -> Box<ErrorFields> {
    error.into()
}

/// An error that repeats the text, whatever it contains.
fn failure(text: &str) -> ErrorFields {
    ErrorFields {
        position: Some(1),
        ..ErrorFields::error("42601", format!("{text}\0 hidden")).with_hint(text)
    }
}

fn describe(connection: &mut Connection, text: &str, parameters: usize, formats: &Formats) {
    if ["", "none"].contains(&text) {
        connection.no_data();
    } else {
        connection.row_description(&fields(parameters, formats));
    }
}

fn fields(parameters: usize, formats: &Formats) -> Vec<Field> {
    let formats = formats.for_columns(1 + parameters).unwrap();
    formats
        .into_iter()
        .enumerate()
        .map(|(number, format)| Field {
            name: format!("column{number}"),
            type_oid: 25,
            type_length: -1,
            type_modifier: -1,
            format,
        })
        .collect()
}

fn row(connection: &mut Connection, text: &str, parameters: &[Option<Bytes>]) {
    let mut row = connection.data_row(1 + parameters.len());
    let text = Some(Bytes::copy_from_slice(text.as_bytes()));
    for value in [&text].into_iter().chain(parameters) {
        match value {
            None => row.buffer().put_i32(-1),
            Some(bytes) => {
                row.buffer().put_u32(bytes.len() as u32);
                row.buffer().put_slice(bytes);
            }
        }
    }
    row.finish();
}
