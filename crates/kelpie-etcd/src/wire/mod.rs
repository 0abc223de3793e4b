//! Speaking to a real member. Reading order: `access` has addresses and certificates, `dial`
//! connects, `rpc` makes one call, `token` logs in, `page` reads the metrics; `remote` is the
//! member made of them.

mod access;
mod dial;
mod message;
mod page;
mod remote;
mod rpc;
mod token;

pub use access::{Access, Address, AddressError};
pub use remote::{Remote, Target};
pub use token::User;
