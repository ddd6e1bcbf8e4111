//! One request and its response: scope, caller, refusal, typed output, and the bytes of the reply.

mod caller;
mod denied;
mod output;
mod raw;
mod refusal;
mod reply;
mod scope;
mod stateless;

pub use self::{
    caller::Caller,
    denied::Denied,
    raw::SourceResult,
    refusal::Refusal,
    reply::{Payload, Reply, Verdict},
    scope::Scope,
    stateless::StatelessCall,
};
pub(crate) use self::{
    output::{Output, Performed, Stop, ending},
    raw::RawOutput,
    reply::{Body, ServerIdentity, busy, busy_error},
    scope::{ConnectionData, Surroundings},
    stateless::ParsedMeta,
};
