//! The predicates of an error about authorization.

use mcp_protocol::Challenge;
use mcp_transport::TransportError;

use super::{Error, HttpStatus};

impl Error {
    /// Returns true if the request is not authorized: the server requires other credentials (HTTP status 401), or the
    /// authorizer of the client failed. The chain of sources contains the error of the authorizer.
    ///
    /// If [`Error::is_retryable`] is true too, only the authorization server is unavailable.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.has_status(HttpStatus::Unauthorized) || self.transport().is_some_and(TransportError::is_unauthorized)
    }

    /// Returns true if the credentials do not suffice for the request (HTTP status 403). [`Error::required_scopes`]
    /// returns the scopes that the server named.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.has_status(HttpStatus::Forbidden)
    }

    /// Returns the scopes that the request requires, from all challenges of the server and without duplicates (RFC 6750
    /// §3). Empty for other errors.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn required_scopes(&self) -> Vec<&str> {
        let mut scopes = Vec::new();
        for scope in self.challenges().iter().flat_map(Challenge::scopes) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes
    }

    /// Returns the challenges of the server (`WWW-Authenticate`) that refused the request; empty for other errors.
    ///
    /// ```
    /// fn metadata_url(error: &mcp_client::Error) -> Option<&str> {
    ///     error.challenges().iter().find_map(|challenge| challenge.resource_metadata.as_deref())
    /// }
    /// ```
    #[must_use]
    pub fn challenges(&self) -> &[Challenge] {
        self.transport().map(TransportError::challenges).unwrap_or_default()
    }

    /// Returns true if the server rejected the credentials of the request.
    pub(crate) fn rejects_credentials(&self) -> bool {
        self.has_status(HttpStatus::Unauthorized)
    }

    fn has_status(&self, status: HttpStatus) -> bool {
        self.http_status().map(HttpStatus::of) == Some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn scopes_of_all_challenges_are_required() {
        let challenges = [
            Challenge::new("DPoP").with_scopes(["a", "b"]),
            Challenge::insufficient_scope(["b", "c"]),
            Challenge::new("Basic"),
        ];
        let error = Error::from(Kind::Transport(TransportError::http(403, None, "").with_challenges(challenges)));
        assert_eq!((error.required_scopes(), error.challenges().len()), (vec!["a", "b", "c"], 3));
        let error = Error::from(Kind::Lost(None));
        assert!(error.required_scopes().is_empty() && error.challenges().is_empty());
    }
}
