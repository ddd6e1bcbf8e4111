//! Search for tools: the names, descriptions and arguments of a catalog, ranked by BM25.

mod arguments;
mod deferral;
mod index;
mod words;

pub use self::{
    deferral::{Deferral, Deferred, definition_bytes},
    index::{ToolHit, ToolIndex},
};
