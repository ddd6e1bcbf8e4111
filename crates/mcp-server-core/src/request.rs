//! One request and its response: scope, caller, refusal, typed output, and the bytes of the reply.

mod access;
mod caller;
mod output;
mod refusal;
mod reply;
mod scope;
mod stateless;

pub(crate) use self::{
    access::Access,
    output::{Output, Performed, Stop, ending},
    reply::{ServerIdentity, busy, busy_error},
    scope::{ConnectionData, Surroundings},
    stateless::ParsedMeta,
};
pub use self::{
    access::Denied,
    caller::Caller,
    refusal::Refusal,
    reply::{Payload, Reply, Verdict},
    scope::Scope,
    stateless::StatelessCall,
};
