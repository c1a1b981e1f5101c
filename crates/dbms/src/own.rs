//! Our own server as a database of a ring: what the middleware sends it, and the form of its updates.

use anabranch_protocol::belt::{Hop, RowImage, RowImages, Standing, Token, Update};

use crate::belt::{Change, Changes, Statements, Trouble};

/// The statements of the belt. A transaction commits under the hold that `anabranch.hop` names; 0 names none.
pub const STATEMENTS: Statements = Statements {
    settings: "SET default_transaction_isolation = serializable; SET standard_conforming_strings = on; SET anabranch.hop = 0",
    checks: "SHOW anabranch.hop",
    begin,
    end: "SET CONSTRAINTS ALL IMMEDIATE",
    provisional: "SET LOCAL anabranch.hop = 0",
    settle: "SET LOCAL anabranch.hop = 0",
    promote: Some(promote),
    late: "Another client of the ring may hold the token up: run it again.",
};

fn begin(hold: Hop) -> String {
    format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {}", promote(hold))
}

fn promote(hold: Hop) -> String {
    format!("SET LOCAL anabranch.hop = {}", hold.0)
}

/// An update in the form in which middlewares pass it on.
///
/// # Errors
/// When it cannot be encoded.
pub fn changes(images: &RowImages) -> Result<Changes, Trouble> {
    let change = |image: &RowImage| {
        let kind = match image {
            RowImage::Insert { .. } => b'I',
            RowImage::Update { .. } => b'U',
            RowImage::Delete { .. } => b'D',
        };
        let bytes = postcard::to_stdvec(image).map_err(|e| Trouble::Failed(e.to_string()))?;
        Ok(Change {
            relation: image.item().0.0.cast_signed(),
            kind,
            columns: None,
            image: Some(hexadecimal(&bytes)),
        })
    };
    let changes: Result<Vec<Change>, Trouble> = images.images.iter().map(change).collect();
    Ok(Changes(changes?))
}

/// The update of which [`changes`] has made this.
///
/// # Errors
/// When it was made otherwise.
pub fn images(changes: &Changes) -> Result<RowImages, Trouble> {
    let image = |change: &Change| {
        let text = change.image.as_deref().and_then(bytes_of);
        let image = text.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        image
            .ok_or_else(|| Trouble::Failed("an update of another server cannot be read".to_owned()))
    };
    let images: Result<Vec<RowImage>, Trouble> = changes.0.iter().map(image).collect();
    Ok(RowImages::untimed(images?))
}

fn update<A, B>(
    of: &Update<A>,
    payload: impl Fn(&A) -> Result<B, Trouble>,
) -> Result<Update<B>, Trouble> {
    Ok(Update {
        origin: of.origin,
        hop: of.hop,
        sequence: of.sequence,
        payload: payload(&of.payload)?,
    })
}

/// A token with its updates in another form.
///
/// # Errors
/// As the form's.
pub fn token<A, B>(
    of: &Token<A>,
    payload: impl Fn(&A) -> Result<B, Trouble>,
) -> Result<Token<B>, Trouble> {
    let updates: Result<Vec<Update<B>>, Trouble> =
        of.updates.iter().map(|of| update(of, &payload)).collect();
    Ok(Token {
        epoch: of.epoch,
        hop: of.hop,
        updates: updates?,
        applied: of.applied.clone(),
        wishes: of.wishes.clone(),
    })
}

/// The state of a server with its updates in another form.
///
/// # Errors
/// As the form's.
pub fn standing<A, B>(
    of: &Standing<A>,
    payload: impl Fn(&A) -> Result<B, Trouble>,
) -> Result<Standing<B>, Trouble> {
    let outbox: Result<Vec<Update<B>>, Trouble> =
        of.outbox.iter().map(|of| update(of, &payload)).collect();
    Ok(Standing {
        epoch: of.epoch,
        promised: of.promised,
        members: of.members.clone(),
        received: of.received,
        passed: of.passed,
        token: token(&of.token, &payload)?,
        applied: of.applied.clone(),
        outbox: outbox?,
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let digits = digits?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use anabranch_types::{Key, TableId};

    use super::*;

    #[test]
    fn an_update_comes_back_as_it_was() {
        let mut key = Key::empty();
        key.push_bytes(&[0, 1, 0xfe, 0xff]);
        let table = TableId(7);
        let update = RowImages::untimed(vec![
            RowImage::Delete {
                table,
                key: key.clone(),
            },
            RowImage::Update {
                table,
                key,
                columns: Vec::new(),
            },
        ]);
        let changes = changes(&update).expect("it is encoded");
        assert_eq!(changes.0[0].kind, b'D');
        assert_eq!(images(&changes).expect("it is decoded"), update);
        let mut damaged = changes;
        damaged.0[0].image = Some("0".to_owned());
        assert!(images(&damaged).is_err());
    }
}
