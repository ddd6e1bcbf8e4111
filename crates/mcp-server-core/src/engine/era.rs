//! The era of a request, determined by its body (2026-07-28 basic/versioning). Both eras share one endpoint.

use mcp_protocol::{Method, ProtocolVersion, RequestMeta, RequestMetaError, RpcError, jsonrpc::Request, method};

use crate::{Server, request::StatelessCall};

/// The era of a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Era<'a> {
    /// The request carries the metadata of the stateless era.
    Stateless(RequestMeta<'a>),
    /// The request opens a session.
    Initialize,
    /// The request belongs to the session era. Its metadata is for [`Scope::meta`](super::Scope::meta).
    Session(Option<RequestMeta<'a>>),
}

impl<'a> Era<'a> {
    /// Returns the era of a request.
    ///
    /// # Errors
    /// Fails when `_meta` is invalid. The error includes the era.
    pub fn of(request: &Request<'a>) -> Result<Self, RequestMetaError> {
        match request.meta()? {
            Some(meta) if meta.is_modern => Ok(Self::Stateless(meta)),
            _ if request.method == <method::Initialize as Method>::NAME => Ok(Self::Initialize),
            meta => Ok(Self::Session(meta)),
        }
    }
}

impl StatelessCall {
    /// Checks that the server supports the revision and that it is stateless.
    ///
    /// # Errors
    /// `-32022` with the supported revisions.
    pub fn supported(self, server: &Server) -> Result<Self, RpcError> {
        let known = ProtocolVersion::parse(self.requested());
        match known {
            Some(version) if version.is_stateless() && server.versions().contains(&version) => Ok(self),
            _ => Err(RpcError::unsupported_version(self.requested(), server.versions())),
        }
    }
}
