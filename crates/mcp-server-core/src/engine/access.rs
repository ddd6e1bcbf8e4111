//! The access of a request, before it is prepared. A batch is refused whole if one of its requests is denied, and preparing a
//! request may have effects.

use mcp_protocol::{
    CompletionReference, Method,
    jsonrpc::{Request, decode_params},
    method,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::methods::{self, Found};
use crate::{
    Caller, Server,
    registry::Entry,
    request::{Denied, Refusal, Scope},
};

impl Server {
    /// Checks the access rule of the server. A caller that lacks access can open no session, and its notifications are
    /// ignored.
    pub(crate) fn admit(&self, caller: &Caller) -> Result<(), Refusal> {
        if caller.is_local() || self.data.config.access.allows(caller.authenticated()) {
            return Ok(());
        }
        Err(Refusal::Denied(self.denied_by_server(caller.authenticated().is_none())))
    }

    /// Returns the access that each operation of the server needs.
    pub(super) fn denied_by_server(&self, is_anonymous: bool) -> Denied {
        Denied { scopes: self.data.config.access.scopes.clone(), is_anonymous }
    }

    /// Returns the access that the caller of a request lacks. A request that is invalid in another way lacks none, because its
    /// own error is the better answer. Requests about tasks are checked when their task is known.
    pub(super) fn denied(&self, request: &Request<'_>, scope: &Scope) -> Option<Denied> {
        let found = methods::find(self, &request.method, scope).ok()?;
        let checked = self.check_access(scope, &self.data.config.access).and_then(|()| match found {
            Found::Extension(route) => self.check_access(scope, &route.access),
            Found::Engine(_) => self.check_entry(&request.method, request.params, scope),
        });
        match checked {
            Err(Refusal::Denied(denied)) => Some(denied),
            _ => None,
        }
    }

    fn check_entry(&self, name: &str, params: Option<&RawValue>, scope: &Scope) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct Key {
            #[serde(alias = "uri")]
            name: String,
        }
        #[derive(Deserialize)]
        struct Reference {
            #[serde(rename = "ref")]
            reference: CompletionReference,
        }
        let key = || decode_params::<Key>(name, params).map(|key| key.name);
        let check = |entry: Option<&dyn Rule>| entry.map_or(Ok(()), |entry| self.check_access(scope, entry.rule()));
        match name {
            method::CallTool::NAME => check(self.data.tools.load().find(&key()?).map(|entry| &**entry as &dyn Rule)),
            method::GetPrompt::NAME => check(self.data.prompts.load().find(&key()?).map(|entry| &**entry as &dyn Rule)),
            method::ReadResource::NAME | method::Subscribe::NAME => self.check_resource_access(scope, &key()?),
            method::Complete::NAME => match decode_params::<Reference>(name, params)?.reference {
                CompletionReference::Prompt { name, .. } => {
                    check(self.data.prompts.load().find(&name).map(|entry| &**entry as &dyn Rule))
                }
                CompletionReference::ResourceTemplate { uri } => {
                    check(self.data.templates.load().find(&uri).map(|entry| &**entry as &dyn Rule))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// An entry with an access rule.
trait Rule {
    fn rule(&self) -> &crate::request::Access;
}

impl<E: Entry> Rule for E {
    fn rule(&self) -> &crate::request::Access {
        self.access()
    }
}
