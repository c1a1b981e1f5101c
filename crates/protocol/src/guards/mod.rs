//! Sites that each have all the data, and order transactions over the plan's guards alone (`docs/protocols/alvin.md`,
//! *Order over guards*).
//!
//! A transaction without guards commits at its site, and its effects reach the others by the site's stream. One with
//! guards is broadcast by an [`Orderer`](crate::order::Orderer), and certified at delivery by the versions of its guards.
//! Every site enters all effects into each row by timestamp, so that the row does not depend on the order of arrival.
//!
//! * [`site`]: a site. `durable`: its recovery, by [`record`]s. [`home`]: where a guard's transactions are ordered.
//! * [`stream`]: the [`commit`]s of each site, sent until every site has them. [`message`]: the messages.
//! * [`effects`]: the effects of each row by timestamp. [`versions`]: the versions of guards.

pub mod commit;
mod durable;
pub mod effects;
pub mod home;
pub mod message;
pub mod record;
pub mod site;
pub mod stream;
pub mod versions;

pub use commit::StreamCommit;
pub use home::{GuardHome, GuardHomes};
pub use message::GuardMessage;
pub use site::{GuardOptions, GuardSite};
