//! One request and its response: scope, caller, refusal, typed output, and the bytes of the reply.

mod access;
mod caller;
mod output;
mod raw;
mod refusal;
mod reply;
mod scope;
mod stateless;

pub(crate) use self::{
    access::Access,
    output::{Output, Performed, Stop, ending},
    raw::RawOutput,
    reply::{ServerIdentity, busy, busy_error},
    scope::{ConnectionData, Surroundings},
    stateless::ParsedMeta,
};
pub use self::{
    access::Denied,
    caller::Caller,
    raw::SourceResult,
    refusal::Refusal,
    reply::{Payload, Reply, Verdict},
    scope::Scope,
    stateless::StatelessCall,
};
