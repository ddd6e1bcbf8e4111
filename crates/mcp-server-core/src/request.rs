//! One request and its response: scope, caller, refusal, typed output, and the bytes of the reply.

mod caller;
mod output;
mod refusal;
mod reply;
mod scope;
mod stateless;

pub use self::{
    caller::Caller,
    refusal::Refusal,
    reply::{Payload, Reply, Verdict},
    scope::Scope,
    stateless::StatelessCall,
};
pub(crate) use self::{
    output::{Output, Performed, Stop, ending},
    reply::{ServerIdentity, busy, busy_error},
    scope::{ConnectionData, Surroundings},
    stateless::ParsedMeta,
};
