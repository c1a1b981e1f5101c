//! What the owner answers. [`Request`](crate::Request) says which answers belong to which request. While the connection
//! closes, answers are dropped.

use bytes::{BufMut, BytesMut};

use super::{Connection, Phase, TransactionStatus, UnderWay};
use crate::encode::{self, DataRow, Field};
use crate::error_fields::{ErrorFields, Severity};
use crate::format::Format;
use crate::key::BackendKey;

impl Connection {
    /// Lets the client in: no password is asked for. `parameters` are the settings that it is told. `ready` follows.
    pub fn accept(&mut self, parameters: &[(&str, &str)], key: &BackendKey) {
        match self.phase {
            Phase::Started => {}
            Phase::Closing => return,
            _ => return self.misuse("accept"),
        }
        encode::authentication_ok(&mut self.output);
        for (name, value) in parameters {
            encode::parameter_status(&mut self.output, name, value);
        }
        encode::backend_key_data(&mut self.output, key.process(), key.secret(self.minor));
        self.phase = Phase::Open {
            under_way: UnderWay::Start,
            skips: false,
        };
    }

    /// The next request is awaited.
    pub fn ready(&mut self, status: TransactionStatus) {
        let cycles = [UnderWay::Start, UnderWay::Query, UnderWay::Sync];
        if self.answers("ReadyForQuery", &cycles, UnderWay::Nothing) {
            self.status = status;
            self.write_ready();
        }
    }

    pub(super) fn write_ready(&mut self) {
        let letter = match self.status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Open => b'T',
            TransactionStatus::Failed => b'E',
        };
        encode::message(&mut self.output, b'Z', |out| out.put_u8(letter));
    }

    /// A request has failed. In the extended protocol, what follows is skipped up to the next Sync; in a simple query,
    /// `ready` follows. An error that is fatal closes the connection.
    pub fn error(&mut self, fields: &ErrorFields) {
        if fields.severity == Severity::Fatal {
            return self.fatal(fields);
        }
        match &mut self.phase {
            Phase::Closing => return,
            Phase::Open {
                under_way: UnderWay::Query | UnderWay::Sync,
                ..
            } => {}
            // What the client still sends of the data is ignored.
            Phase::Open {
                under_way: under_way @ UnderWay::Copy { is_simple: true },
                ..
            } => *under_way = UnderWay::Query,
            Phase::Starting { .. }
            | Phase::Started
            | Phase::Open {
                under_way: UnderWay::Nothing | UnderWay::Start,
                ..
            } => return self.misuse("ErrorResponse"),
            Phase::Open { under_way, skips } => {
                *under_way = UnderWay::Nothing;
                *skips = true;
            }
        }
        encode::fields(&mut self.output, b'E', fields);
    }

    /// The connection ends, for this reason.
    pub fn fatal(&mut self, fields: &ErrorFields) {
        if self.is_closing() {
            return;
        }
        let fields = ErrorFields {
            severity: Severity::Fatal,
            ..fields.clone()
        };
        encode::fields(&mut self.output, b'E', &fields);
        self.close();
    }

    /// Something that the client should know. It answers nothing, and may come at any time once the client is let in.
    pub fn notice(&mut self, fields: &ErrorFields) {
        if matches!(self.phase, Phase::Open { .. }) {
            encode::fields(&mut self.output, b'N', fields);
        }
    }

    /// A setting's value. It answers nothing, and may come at any time once the client is let in.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        if matches!(self.phase, Phase::Open { .. }) {
            encode::parameter_status(&mut self.output, name, value);
        }
    }

    /// A notification of the connection with this process id. It answers nothing, and may come at any time once the client
    /// is let in.
    pub fn notification(&mut self, process: i32, channel: &str, payload: &str) {
        if matches!(self.phase, Phase::Open { .. }) {
            encode::notification(&mut self.output, process, channel, payload);
        }
    }

    /// A statement is prepared.
    pub fn parse_complete(&mut self) {
        self.complete("ParseComplete", UnderWay::Parse, b'1');
    }

    /// A portal is made.
    pub fn bind_complete(&mut self) {
        self.complete("BindComplete", UnderWay::Bind, b'2');
    }

    /// A statement or portal is forgotten.
    pub fn close_complete(&mut self) {
        self.complete("CloseComplete", UnderWay::Close, b'3');
    }

    /// A statement returns no rows.
    pub fn no_data(&mut self) {
        self.complete("NoData", UnderWay::DescribeRows, b'n');
    }

    /// A portal may have more rows.
    pub fn portal_suspended(&mut self) {
        self.complete("PortalSuspended", UnderWay::Execute, b's');
    }

    /// A text has no statement.
    pub fn empty_query(&mut self) {
        if self.completes("EmptyQueryResponse", UnderWay::Execute) {
            encode::message(&mut self.output, b'I', |_| {});
        }
    }

    /// The types of a statement's parameters.
    pub fn parameter_description(&mut self, oids: &[u32]) {
        let described = [UnderWay::DescribeStatement];
        if self.fits("ParameterDescription", oids.len())
            && self.answers("ParameterDescription", &described, UnderWay::DescribeRows)
        {
            encode::parameter_description(&mut self.output, oids);
        }
    }

    /// The columns of a result.
    pub fn row_description(&mut self, fields: &[Field]) {
        if self.fits("RowDescription", fields.len())
            && self.completes("RowDescription", UnderWay::DescribeRows)
        {
            encode::row_description(&mut self.output, fields);
        }
    }

    /// A row of this many columns.
    pub fn data_row(&mut self, columns: usize) -> DataRow<'_> {
        let is_open = match self.phase {
            Phase::Closing => false,
            Phase::Open {
                under_way: UnderWay::Query | UnderWay::Execute,
                ..
            } => self.fits("DataRow", columns),
            _ => {
                self.misuse("DataRow");
                false
            }
        };
        let columns = u16::try_from(columns).unwrap_or_default();
        DataRow::new(&mut self.output, columns, !is_open)
    }

    /// The data of a COPY is asked for. Requests with it follow, until the client ends or fails it.
    pub fn copy_in(&mut self, format: Format, columns: usize) {
        let is_simple = matches!(
            self.phase,
            Phase::Open {
                under_way: UnderWay::Query,
                ..
            }
        );
        let copies = [UnderWay::Query, UnderWay::Execute];
        if self.fits("CopyInResponse", columns)
            && self.answers("CopyInResponse", &copies, UnderWay::Copy { is_simple })
        {
            encode::copy_response(&mut self.output, b'G', format, columns);
        }
    }

    /// The data of a COPY follows: `copy_data`, and then `copy_done`.
    pub fn copy_out(&mut self, format: Format, columns: usize) {
        if self.fits("CopyOutResponse", columns) && self.runs("CopyOutResponse") {
            encode::copy_response(&mut self.output, b'H', format, columns);
        }
    }

    /// Data of a COPY: what `write` appends.
    ///
    /// # Errors
    /// That of `write`; nothing is sent then.
    pub fn copy_data<E>(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.runs("CopyData") {
            return Ok(());
        }
        encode::fallible_message(&mut self.output, b'd', write)
    }

    /// The data of a COPY is complete; `command_complete` follows.
    pub fn copy_done(&mut self) {
        if self.runs("CopyDone") {
            encode::message(&mut self.output, b'c', |_| {});
        }
    }

    /// Whether a statement runs, so that its data can be sent.
    fn runs(&mut self, message: &str) -> bool {
        match self.phase {
            Phase::Closing => false,
            Phase::Open {
                under_way: UnderWay::Query | UnderWay::Execute,
                ..
            } => true,
            _ => {
                self.misuse(message);
                false
            }
        }
    }

    /// A statement has ended.
    pub fn command_complete(&mut self, tag: &str) {
        if self.completes("CommandComplete", UnderWay::Execute) {
            encode::message(&mut self.output, b'C', |out| encode::text(out, tag));
        }
    }

    /// Appends a message without a body that completes the answer to a request.
    fn complete(&mut self, message: &str, request: UnderWay, letter: u8) {
        if self.answers(message, &[request], UnderWay::Nothing) {
            encode::message(&mut self.output, letter, |_| {});
        }
    }

    /// Completes the answer to a request of the extended protocol. In a simple query more may follow. Returns whether
    /// the message is to be sent.
    fn completes(&mut self, message: &str, request: UnderWay) -> bool {
        match self.phase {
            Phase::Open {
                under_way: UnderWay::Query,
                ..
            } => true,
            _ => self.answers(message, &[request], UnderWay::Nothing),
        }
    }

    /// Whether a message belongs to the request under way and is to be sent. What is under way then is `next`.
    fn answers(&mut self, message: &str, requests: &[UnderWay], next: UnderWay) -> bool {
        match &mut self.phase {
            Phase::Open { under_way, .. } if requests.contains(under_way) => {
                *under_way = next;
                true
            }
            Phase::Closing => false,
            _ => {
                self.misuse(message);
                false
            }
        }
    }

    /// Whether a count fits a message, which has 16 bits for it. The connection ends otherwise: the client could not
    /// read on.
    fn fits(&mut self, message: &str, count: usize) -> bool {
        let fits = u16::try_from(count).is_ok();
        if !fits {
            let reason = format!("{count} columns or parameters are too many for {message}");
            self.fatal(&ErrorFields::error("54011", reason));
        }
        fits
    }

    /// An answer that belongs to no request.
    fn misuse(&mut self, message: &str) {
        debug_assert!(false, "{message} answers nothing at {:?}", self.phase);
        let reason = format!("internal error: {message} answers no request");
        self.fatal(&ErrorFields::error("XX000", reason));
    }
}
