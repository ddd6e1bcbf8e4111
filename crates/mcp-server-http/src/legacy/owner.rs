//! The owner of a session.

use mcp_protocol::Principal;
use serde::{Deserialize, Serialize};

/// The principal that owns a session, by the parts of its key. Scopes, claims and time change within a session and do not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner {
    issuer: Option<String>,
    client_id: Option<String>,
    subject: String,
}

impl Owner {
    pub(crate) fn of(principal: &Principal) -> Self {
        let Principal { issuer, client_id, subject, .. } = principal;
        Self { issuer: issuer.clone(), client_id: client_id.clone(), subject: subject.clone() }
    }

    /// Whether this is the caller.
    pub(crate) fn is(&self, caller: &Principal) -> bool {
        self.subject == caller.subject && self.issuer == caller.issuer && self.client_id == caller.client_id
    }

    /// Whether an owner is the caller, or there is neither an owner nor a principal.
    pub(crate) fn is_same(owner: Option<&Self>, caller: Option<&Principal>) -> bool {
        match (owner, caller) {
            (Some(owner), Some(caller)) => owner.is(caller),
            (None, None) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_each_principal_with_an_equal_key() {
        let all = [
            Principal::new("a"),
            Principal::new("a").with_scopes(["s"]).with_claim("email", "x"),
            Principal::new("b"),
            Principal::new("a").with_issuer("i"),
            Principal::new("a").with_client_id("i"),
            Principal::new("a").with_issuer(""),
            Principal::new("a").with_issuer("i").with_client_id("c"),
        ];
        for one in &all {
            let owner = Owner::of(one);
            for other in &all {
                assert_eq!(owner.is(other), one.key() == other.key(), "{one:?} {other:?}");
            }
            assert!(!Owner::is_same(Some(&owner), None) && !Owner::is_same(None, Some(one)));
        }
        assert!(Owner::is_same(None, None));
    }
}
