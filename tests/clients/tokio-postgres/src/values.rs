//! Values that the driver has no type for: numerics, and parameters in text form.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};

type Boxed = Box<dyn Error + Sync + Send>;

/// A numeric, by its decimal digits as PostgreSQL prints them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Numeric(pub(crate) String);

impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Numeric {
    fn from(text: &str) -> Numeric {
        Numeric(text.to_owned())
    }
}

const NEGATIVE: u16 = 0x4000;

impl<'a> FromSql<'a> for Numeric {
    /// Groups of four decimal digits, the first of weight 10,000 to the power `weight`.
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Numeric, Boxed> {
        let mut words = raw
            .chunks_exact(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let mut next = || words.next().ok_or("a numeric is too short");
        let (count, weight, sign, scale) = (next()?, next()? as i16, next()?, next()?);
        if raw.len() != 8 + 2 * usize::from(count) {
            return Err("a numeric has another length than its count of digits".into());
        }
        if ![0, NEGATIVE].contains(&sign) {
            return Err(format!("a numeric has the sign {sign:#x}").into());
        }
        let groups: Vec<u16> = words.collect();
        if let Some(group) = groups.iter().find(|group| **group > 9999) {
            return Err(format!("a numeric has the digit {group}").into());
        }
        let at = |place: i32| {
            let index = usize::try_from(i32::from(weight) - place).ok();
            index
                .and_then(|index| groups.get(index))
                .copied()
                .unwrap_or(0)
        };
        let whole: String = (0..=i32::from(weight).max(0))
            .rev()
            .map(|place| format!("{:04}", at(place)))
            .collect();
        let mut text = match whole.trim_start_matches('0') {
            "" => "0".to_owned(),
            digits => digits.to_owned(),
        };
        let places = i32::from(scale.div_ceil(4));
        let fraction: String = (1..=places)
            .map(|place| format!("{:04}", at(-place)))
            .collect();
        if scale > 0 {
            text = format!("{text}.{}", &fraction[..usize::from(scale)]);
        }
        if sign == NEGATIVE {
            text.insert(0, '-');
        }
        Ok(Numeric(text))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }
}

impl ToSql for Numeric {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        let (sign, digits) = match self.0.strip_prefix('-') {
            Some(digits) => (NEGATIVE, digits),
            None => (0, self.0.as_str()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let wide = whole.len().next_multiple_of(4);
        let deep = fraction.len().next_multiple_of(4);
        let padded = format!("{whole:0>wide$}{fraction:0<deep$}");
        let mut groups = Vec::new();
        for group in padded.as_bytes().chunks(4) {
            groups.push(std::str::from_utf8(group)?.parse::<u16>()?);
        }
        let mut weight = i16::try_from(wide / 4)? - 1;
        while groups.first() == Some(&0) {
            groups.remove(0);
            weight -= 1;
        }
        while groups.last() == Some(&0) {
            groups.pop();
        }
        if groups.is_empty() {
            weight = 0;
        }
        out.put_u16(u16::try_from(groups.len())?);
        out.put_i16(weight);
        out.put_u16(sign);
        out.put_u16(u16::try_from(fraction.len())?);
        groups.iter().for_each(|group| out.put_u16(*group));
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }

    to_sql_checked!();
}

/// A parameter of any type in text form.
#[derive(Debug)]
pub(crate) struct InText(pub(crate) Option<&'static str>);

impl ToSql for InText {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        match self.0 {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}
