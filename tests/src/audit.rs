//! The cost audit: measures every command on its worst shapes of data, at growing sizes, in turns with redis-server.
//!
//! Where things are:
//! - [`scenarios`] holds the cases as data, scripts in the language of [`script`] and [`template`];
//! - [`mod@bench`] runs a script on a server and measures it, over connections of [`wire`];
//! - [`side`] is one of the two servers, [`judge`] decides what is a fault, [`declared`] is the only list of permitted
//!   faults;
//! - [`run`] puts them together, [`report`] writes the table.
//!
//! Time is the CPU time of the server's threads, the minimum of several turns, so other programs hardly matter; a fault
//! is measured again before it counts.

pub mod bench;
pub mod declared;
pub mod judge;
pub mod report;
pub mod run;
pub mod scenarios;
pub mod script;
pub mod side;
pub mod template;
pub mod wire;
