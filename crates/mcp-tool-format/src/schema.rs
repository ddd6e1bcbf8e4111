//! Schemas in one normal form, independent of provider and dialect: read once, written for each provider.

mod combine;
mod node;
mod read;
mod reference;
mod scalar;
mod union;
mod write;

pub(crate) use self::{
    node::{Extra, Node, Property, Types},
    read::read,
    scalar::scalar_types,
    write::write,
};
