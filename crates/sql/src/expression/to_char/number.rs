//! Numbers by a template: `to_char(1234.5, 'FM9,999.00')`.

use anabranch_types::Decimal;

use super::{Failure, Part, failure, ordinal, parts, unsupported};

/// A number as text, rounded to a template's places: what comes of its type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Digits {
    /// `integer` and `bigint`.
    Int(i64),
    /// `numeric`.
    Numeric(Decimal),
    /// `double precision`.
    Double(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyword {
    Nine,
    Zero,
    /// `.` and `D`, which are the same in this locale.
    Point,
    Comma,
    /// `G`, and `L`, whose symbol is a blank in this locale.
    Group,
    Currency,
    Fill,
    Sign,
    Minus,
    Plus,
    EitherSign,
    Brackets,
    Ordinal {
        upper: bool,
    },
    Shift,
    /// `B`, `C` and `SP`: read and not used.
    Ignored,
}

const KEYWORDS: &[(&str, Keyword)] = &[
    (",", Keyword::Comma),
    (".", Keyword::Point),
    ("0", Keyword::Zero),
    ("9", Keyword::Nine),
    ("B", Keyword::Ignored),
    ("C", Keyword::Ignored),
    ("D", Keyword::Point),
    ("FM", Keyword::Fill),
    ("G", Keyword::Group),
    ("L", Keyword::Currency),
    ("MI", Keyword::Minus),
    ("PL", Keyword::Plus),
    ("PR", Keyword::Brackets),
    ("SG", Keyword::EitherSign),
    ("SP", Keyword::Ignored),
    ("S", Keyword::Sign),
    ("TH", Keyword::Ordinal { upper: true }),
    ("V", Keyword::Shift),
    ("b", Keyword::Ignored),
    ("c", Keyword::Ignored),
    ("d", Keyword::Point),
    ("fm", Keyword::Fill),
    ("g", Keyword::Group),
    ("l", Keyword::Currency),
    ("mi", Keyword::Minus),
    ("pl", Keyword::Plus),
    ("pr", Keyword::Brackets),
    ("sg", Keyword::EitherSign),
    ("sp", Keyword::Ignored),
    ("s", Keyword::Sign),
    ("th", Keyword::Ordinal { upper: false }),
    ("v", Keyword::Shift),
];

/// Where the sign of `S` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignPlace {
    Before,
    Behind,
}

/// What a template asks for.
#[derive(Clone, Copy, Debug, Default)]
struct Description {
    /// Digits before and behind the point, and behind `V`.
    before: usize,
    behind: usize,
    shift: usize,
    has_point: bool,
    has_shift: bool,
    fills: bool,
    brackets: bool,
    minus: bool,
    plus: bool,
    sign: Option<SignPlace>,
    /// Digits that stand before `S`.
    before_sign: usize,
    /// Where zeros begin and end, counted in digits from 1; `None` without `0`.
    zero_start: Option<usize>,
    zero_end: usize,
}

impl Description {
    fn add(&mut self, keyword: Keyword) -> Result<(), Failure> {
        let wrong = |message: &str| Err(failure("42601", message));
        let signs = "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together";
        match keyword {
            Keyword::Nine | Keyword::Zero if self.brackets => {
                let digit = if keyword == Keyword::Nine { 9 } else { 0 };
                return wrong(&format!("\"{digit}\" must be ahead of \"PR\""));
            }
            Keyword::Nine if self.has_shift => self.shift += 1,
            Keyword::Nine | Keyword::Zero => {
                let is_zero = keyword == Keyword::Zero;
                if is_zero && self.zero_start.is_none() && !self.has_point {
                    self.zero_start = Some(self.before + 1);
                }
                match self.has_point {
                    true => self.behind += 1,
                    false => self.before += 1,
                }
                if is_zero {
                    self.zero_end = self.before + self.behind;
                }
            }
            Keyword::Point if self.has_point => return wrong("multiple decimal points"),
            Keyword::Point if self.has_shift => {
                return wrong("cannot use \"V\" and decimal point together");
            }
            Keyword::Point => self.has_point = true,
            Keyword::Fill => self.fills = true,
            Keyword::Sign if self.sign.is_some() => return wrong("cannot use \"S\" twice"),
            Keyword::Sign if self.plus || self.minus || self.brackets => return wrong(signs),
            Keyword::Sign if self.has_point => self.sign = Some(SignPlace::Behind),
            Keyword::Sign => {
                self.sign = Some(SignPlace::Before);
                self.before_sign = self.before;
            }
            Keyword::Minus | Keyword::Plus | Keyword::EitherSign if self.sign.is_some() => {
                let name = match keyword {
                    Keyword::Minus => "MI",
                    Keyword::Plus => "PL",
                    _ => "SG",
                };
                return wrong(&format!("cannot use \"S\" and \"{name}\" together"));
            }
            Keyword::Minus => self.minus = true,
            Keyword::Plus => self.plus = true,
            Keyword::EitherSign => (self.minus, self.plus) = (true, true),
            Keyword::Brackets if self.sign.is_some() || self.plus || self.minus => {
                return wrong("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together");
            }
            Keyword::Brackets => self.brackets = true,
            Keyword::Shift if self.has_point => {
                return wrong("cannot use \"V\" and decimal point together");
            }
            Keyword::Shift => self.has_shift = true,
            Keyword::Comma
            | Keyword::Group
            | Keyword::Currency
            | Keyword::Ordinal { .. }
            | Keyword::Ignored => {}
        }
        Ok(())
    }
}

/// A number by a template.
///
/// # Errors
/// When the template contradicts itself, has what is not supported, or the number is out of range.
pub(crate) fn of_number(number: Digits, template: &str) -> Result<String, Failure> {
    let mut description = Description::default();
    let parts = parts(template, |rest| {
        for name in ["RN", "rn", "EEEE", "eeee"] {
            if rest.starts_with(name) {
                return Err(unsupported(name));
            }
        }
        let found = KEYWORDS.iter().find(|(name, _)| rest.starts_with(name));
        let Some((name, keyword)) = found else {
            return Ok(None);
        };
        description.add(*keyword)?;
        Ok(Some((*keyword, &rest[name.len()..])))
    })?;
    let (digits, is_negative) = digits(number, &mut description)?;
    let integral = digits.find('.').unwrap_or(digits.len());
    let mut blanks = 0;
    let digits = match integral.cmp(&description.before) {
        std::cmp::Ordering::Greater => {
            let before = "#".repeat(description.before);
            format!("{before}.{}", "#".repeat(description.behind))
        }
        _ => {
            blanks = description.before - integral;
            digits
        }
    };
    let mut writer = Writer::new(description, &digits, is_negative, blanks);
    for part in &parts {
        writer.write(*part);
    }
    // What lies beyond the digits ends the text.
    let end = writer.out.find('\0').unwrap_or(writer.out.len());
    writer.out.truncate(end);
    Ok(writer.out)
}

/// The number's digits without its sign, rounded as its type does, and whether it is negative.
fn digits(number: Digits, description: &mut Description) -> Result<(String, bool), Failure> {
    let shift = match description.has_shift {
        true => description.shift,
        false => 0,
    };
    description.before += shift;
    let out_of_range = |of: &str| failure("22003", format!("{of} out of range"));
    let text = match number {
        Digits::Int(int) => {
            let factor = u32::try_from(shift)
                .ok()
                .and_then(|shift| 10i64.checked_pow(shift));
            let shifted = factor.and_then(|factor| int.checked_mul(factor));
            let mut text = shifted.ok_or_else(|| out_of_range("bigint"))?.to_string();
            if description.behind > 0 {
                text.push('.');
                text.push_str(&"0".repeat(description.behind));
            }
            text
        }
        Digits::Numeric(decimal) => {
            let too_large = |_| out_of_range("numeric");
            let factor = Decimal::parse(&format!("1e{shift}")).map_err(too_large)?;
            let shifted = decimal.try_mul(factor).map_err(too_large)?;
            let places = i32::try_from(description.behind).map_err(|_| out_of_range("numeric"))?;
            let rounded = shifted.round(places).map_err(too_large)?;
            padded(rounded.to_string(), description.behind)
        }
        Digits::Double(float) if !float.is_finite() => {
            let message = "to_char of NaN or an infinity is not supported";
            return Err(failure("0A000", message));
        }
        Digits::Double(float) => {
            /// The digits that a `double precision` has for certain.
            const PRECISION: usize = 15;
            let shifted = float * 10f64.powi(i32::try_from(shift).unwrap_or(i32::MAX));
            let integral = format!("{:.0}", shifted.abs()).len();
            if integral >= PRECISION {
                description.behind = 0;
            } else if integral + description.behind > PRECISION {
                description.behind = PRECISION - integral;
            }
            let places = description.behind;
            format!("{shifted:.places$}")
        }
    };
    Ok(match text.strip_prefix('-') {
        Some(digits) => (digits.to_owned(), true),
        None => (text, false),
    })
}

/// A decimal's text with this many places.
fn padded(mut text: String, places: usize) -> String {
    let present = text.find('.').map_or(0, |at| text.len() - at - 1);
    if present == 0 && places > 0 {
        text.push('.');
    }
    text.push_str(&"0".repeat(places.saturating_sub(present)));
    text
}

/// Writes a number part by part.
struct Writer<'d> {
    of: Description,
    digits: &'d [u8],
    is_negative: bool,
    /// Places before the first digit.
    blanks: usize,
    /// The next digit.
    next: usize,
    /// The number of digits of the template that have been written.
    written: usize,
    /// The last digit or point that is not left out by `FM`.
    last_relevant: Option<usize>,
    /// The number of digits in the template, less one.
    count: usize,
    /// Whether the sign is written, or none is to be.
    sign_done: bool,
    /// Whether a digit has been written.
    in_number: bool,
    out: String,
}

impl<'d> Writer<'d> {
    fn new(mut of: Description, digits: &'d str, is_negative: bool, blanks: usize) -> Writer<'d> {
        let digits = digits.as_bytes();
        of.zero_start = of.zero_start.map(|start| start - 1);
        let sign_done = if of.plus || of.minus {
            of.minus
        } else {
            if !is_negative && of.brackets && of.fills {
                of.brackets = false;
            }
            if of.sign == Some(SignPlace::Before) && of.before == of.before_sign {
                of.sign = Some(SignPlace::Behind);
            }
            !is_negative && of.fills && of.sign.is_none()
        };
        let mut count = (of.before + of.behind).wrapping_sub(1);
        let mut last_relevant = None;
        if of.fills && of.has_point {
            last_relevant = last_relevant_digit(digits);
            if let Some(last) = &mut last_relevant
                && of.zero_end > blanks
            {
                *last = (*last).max((digits.len() - 1).min(of.zero_end - blanks));
            }
        }
        if !sign_done && blanks == 0 {
            count = count.wrapping_add(1);
        }
        Writer {
            of,
            digits,
            is_negative,
            blanks,
            next: 0,
            written: 0,
            last_relevant,
            count,
            sign_done,
            in_number: false,
            out: String::new(),
        }
    }

    fn write(&mut self, part: Part<Keyword>) {
        let keyword = match part {
            Part::Copied(c) | Part::Quoted(c) => return self.out.push(c),
            Part::Keyword(keyword) => keyword,
        };
        match keyword {
            Keyword::Nine | Keyword::Zero | Keyword::Point => self.digit(keyword),
            Keyword::Comma | Keyword::Group if self.in_number => self.out.push(','),
            Keyword::Comma | Keyword::Group if self.of.fills => {}
            Keyword::Comma | Keyword::Group | Keyword::Currency => self.out.push(' '),
            Keyword::Ordinal { upper } => {
                let none = self.digits.first() == Some(&b'#') || self.is_negative;
                if !none && !self.of.has_point {
                    let ending = ordinal(&String::from_utf8_lossy(self.digits));
                    match upper {
                        true => self.out.push_str(&ending.to_uppercase()),
                        false => self.out.push_str(ending),
                    }
                }
            }
            Keyword::Minus if self.is_negative => self.out.push('-'),
            Keyword::Plus if !self.is_negative => self.out.push('+'),
            Keyword::Minus | Keyword::Plus if self.of.fills => {}
            Keyword::Minus | Keyword::Plus => self.out.push(' '),
            Keyword::EitherSign => self.out.push(self.sign()),
            Keyword::Fill
            | Keyword::Sign
            | Keyword::Brackets
            | Keyword::Shift
            | Keyword::Ignored => {}
        }
    }

    fn sign(&self) -> char {
        if self.is_negative { '-' } else { '+' }
    }

    /// Whether the next digit is the zero before the point, which is written as a blank.
    fn is_lone_zero(&self) -> bool {
        self.of.zero_start.is_none()
            && self.next == 0
            && self.digits.first() == Some(&b'0')
            && self.of.behind != 0
    }

    /// Whether the last digit that counts is the point itself.
    fn ends_at_point(&self) -> bool {
        self.last_relevant
            .is_some_and(|last| self.digits.get(last) == Some(&b'.'))
    }

    fn write_sign(&mut self) {
        match (self.of.sign, self.of.brackets) {
            (Some(SignPlace::Before), _) => self.out.push(self.sign()),
            (Some(SignPlace::Behind), _) => return,
            (None, true) => self.out.push(if self.is_negative { '<' } else { ' ' }),
            (None, false) if self.is_negative => self.out.push('-'),
            (None, false) if self.of.fills => {}
            (None, false) => self.out.push(' '),
        }
        self.sign_done = true;
    }

    fn digit(&mut self, keyword: Keyword) {
        self.in_number = false;
        let begins = self.written >= self.blanks || self.of.zero_start == Some(self.written);
        if !self.sign_done && begins && (!self.is_lone_zero() || self.ends_at_point()) {
            self.write_sign();
        }
        let in_zeros = self
            .of
            .zero_start
            .is_some_and(|start| start <= self.written);
        if self.written < self.blanks && !in_zeros {
            if !self.of.fills {
                self.out.push(' ');
            }
        } else if self.written < self.blanks {
            self.out.push('0');
            self.in_number = true;
        } else {
            self.next_digit(keyword);
            if self.next < self.digits.len() {
                self.next += 1;
            }
        }
        let mut end = self
            .count
            .wrapping_add(usize::from(self.blanks > 0))
            .wrapping_add(usize::from(self.of.has_point));
        if self.last_relevant == Some(self.next) {
            end = self.written;
        }
        if self.written.wrapping_add(1) == end {
            if self.sign_done && self.of.brackets {
                self.out.push(if self.is_negative { '>' } else { ' ' });
            } else if self.of.sign == Some(SignPlace::Behind) {
                self.out.push(self.sign());
            }
        }
        self.written += 1;
    }

    fn next_digit(&mut self, keyword: Keyword) {
        let digit = self.digits.get(self.next).copied();
        let is_left_out = self.last_relevant.is_some_and(|last| self.next > last);
        match digit {
            Some(b'.') => {
                if !self.ends_at_point() || self.of.fills {
                    self.out.push('.');
                }
            }
            _ if is_left_out && keyword != Keyword::Zero => {}
            _ if self.is_lone_zero() => {
                if !self.of.fills {
                    self.out.push(' ');
                } else if self.ends_at_point() {
                    self.out.push('0');
                }
            }
            digit => {
                self.out.push(char::from(digit.unwrap_or(0)));
                self.in_number = true;
            }
        }
    }
}

/// The place of the last digit behind the point that is not zero, or of the point.
fn last_relevant_digit(digits: &[u8]) -> Option<usize> {
    let point = digits.iter().position(|digit| *digit == b'.')?;
    let last = digits.iter().rposition(|digit| *digit != b'0');
    Some(last.map_or(point, |last| last.max(point)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 answers.
    #[test]
    fn numbers_are_written_as_in_postgresql() {
        let numeric = |text: &str| Digits::Numeric(text.parse().expect("a number"));
        for (number, template, expected) in [
            (numeric("12.454"), "999D99", "  12.45"),
            (numeric("-12.454"), "999D99", " -12.45"),
            (numeric("0.1"), "9.9", "  .1"),
            (numeric("0.1"), "0.9", " 0.1"),
            (numeric("-0.1"), "99.99", "  -.10"),
            (numeric("-0.1"), "FM9.99", "-.1"),
            (numeric("0"), "FM9.9", "0."),
            (numeric("12"), "9990999.9", "    0012.0"),
            (numeric("12"), "FM9990999.9", "0012."),
            (Digits::Int(485), "999", " 485"),
            (Digits::Int(-485), "999", "-485"),
            (Digits::Int(485), "9 9 9", " 4 8 5"),
            (Digits::Int(1_485), "9,999", " 1,485"),
            (Digits::Int(1_485), "9G999", " 1,485"),
            (Digits::Int(485), "9,999", "   485"),
            (numeric("148.5"), "999.999", " 148.500"),
            (numeric("148.5"), "FM999.999", "148.5"),
            (numeric("148.5"), "FM999.990", "148.500"),
            (Digits::Int(-485), "999S", "485-"),
            (Digits::Int(-485), "999MI", "485-"),
            (Digits::Int(485), "999MI", "485 "),
            (Digits::Int(485), "FM999MI", "485"),
            (Digits::Int(485), "PL999", "+ 485"),
            (Digits::Int(485), "SG999", "+485"),
            (Digits::Int(-485), "9SG99", "4-85"),
            (Digits::Int(-485), "999PR", "<485>"),
            (Digits::Int(482), "999th", " 482nd"),
            (Digits::Int(12), "99V999", " 12000"),
            (numeric("12.4"), "99V999", " 12400"),
            (Digits::Int(12_345), "99", " ##"),
            (Digits::Int(5), "\"Good number:\"999", "Good number:   5"),
            (Digits::Double(1234.5), "FM999,999.00", "1,234.50"),
            (Digits::Int(7), "000", " 007"),
            (Digits::Int(7), "FM000", "007"),
        ] {
            let found = of_number(number, template).expect(template);
            assert_eq!(found, expected, "{number:?} as {template}");
        }
        for template in ["9.9.9", "SS9", "S9MI", "9PR9"] {
            let refused = of_number(Digits::Int(1), template).expect_err(template);
            assert_eq!(refused.code, "42601", "{template}");
        }
    }
}
