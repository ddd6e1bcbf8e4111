//! The integration tests of this crate, in one program: one module per topic.

mod client;
mod disk;
#[cfg(feature = "fs")]
mod from_dir;
#[cfg(feature = "fs")]
mod resource_dir;
#[cfg(feature = "skills")]
mod skills;
