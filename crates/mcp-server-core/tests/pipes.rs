//! The inputs of handlers over pipes.

use crate::links::Pipes as Link;

#[expect(clippy::duplicate_mod, reason = "the same table over another transport")]
#[path = "inputs.rs"]
mod inputs;
