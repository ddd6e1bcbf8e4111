//! The access of a request, before it is prepared. A batch is refused whole if one of its requests is denied, and preparing a
//! request may have effects.

use std::sync::Arc;

use mcp_protocol::{
    CompletionReference,
    jsonrpc::{Request, decode_params},
    method::RequestName,
};
use serde::Deserialize;

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

    /// Returns the access that the caller of a request lacks. A caller with access to the server lacks none for a request that is
    /// invalid in another way, because its own error is the better answer. Requests about tasks are checked when their task is
    /// known.
    pub(super) fn denied(&self, request: &Request<'_>, scope: &Scope) -> Option<Denied> {
        let of_server = self.check_access(scope, &self.data.config.access);
        let checked = of_server.and_then(|()| match methods::find(self, &request.method, scope)? {
            Found::Extension(route) => self.check_access(scope, &route.access),
            Found::Engine(_) => self.check_entry(request, scope),
        });
        match checked {
            Err(Refusal::Denied(denied)) => Some(denied),
            _ => None,
        }
    }

    fn check_entry(&self, request: &Request<'_>, scope: &Scope) -> Result<(), Refusal> {
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
        let Some(name) = RequestName::parse(&request.method) else { return Ok(()) };
        let key = || decode_params::<Key>(&request.method, request.params).map(|key| key.name);
        match name {
            RequestName::CallTool => self.check_found(self.data.tools.load().find(&key()?), scope),
            RequestName::GetPrompt => self.check_found(self.data.prompts.load().find(&key()?), scope),
            RequestName::ReadResource | RequestName::Subscribe => self.check_resource_access(scope, &key()?),
            RequestName::Complete => match decode_params::<Reference>(&request.method, request.params)?.reference {
                CompletionReference::Prompt { name, .. } => {
                    self.check_found(self.data.prompts.load().find(&name), scope)
                }
                CompletionReference::ResourceTemplate { uri } => {
                    self.check_found(self.data.templates.load().find(&uri), scope)
                }
                _ => Ok(()),
            },
            // These methods have no entry.
            RequestName::Initialize
            | RequestName::Ping
            | RequestName::Discover
            | RequestName::Listen
            | RequestName::ListTools
            | RequestName::ListResources
            | RequestName::ListResourceTemplates
            | RequestName::Unsubscribe
            | RequestName::ListPrompts
            | RequestName::SetLevel
            | RequestName::CreateMessage
            | RequestName::ListRoots
            | RequestName::Elicit
            // The entry of a task is known when the task is found.
            | RequestName::GetTask
            | RequestName::GetTaskPayload
            | RequestName::ListTasks
            | RequestName::CancelTask
            | RequestName::UpdateTask
            // The routes of extensions have their own rule.
            | RequestName::ListSkills
            | RequestName::GetSkill
            | RequestName::ReadDirectory => Ok(()),
        }
    }

    fn check_found<E: Entry>(&self, entry: Option<&Arc<E>>, scope: &Scope) -> Result<(), Refusal> {
        entry.map_or(Ok(()), |entry| self.check_access(scope, entry.access()))
    }
}
