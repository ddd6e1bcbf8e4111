//! Parts that the programs of `cargo xtask fleet` and `cargo xtask soak` share.

#![expect(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "only programs of this workspace use the crate"
)]

pub mod node;
pub mod random;
pub mod usage;
pub mod wire;
