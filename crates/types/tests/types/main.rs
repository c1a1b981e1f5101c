//! Values, keys and rows from outside: text, order, numbers, time zones.

mod decimal;
mod json;
mod key_and_row;
mod text;
mod zone;
