//! The integration tests of this crate, in one program: one module per topic.

mod client;
#[cfg(feature = "fs")]
mod from_dir;
#[cfg(feature = "fs")]
mod resource_dir;
#[cfg(feature = "skills")]
mod skills;
mod temp_dir;
