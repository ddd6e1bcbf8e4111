//! Which era a request belongs to: its own body says (2026-07-28 basic/versioning; both eras share one endpoint).

use mcp_protocol::{Method, ProtocolVersion, RequestMeta, RequestMetaError, RpcError, jsonrpc::Request, method};

use crate::{Server, request::StatelessCall};

/// The era of a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Era<'a> {
    /// It carries the metadata of a stateless revision.
    Stateless(RequestMeta<'a>),
    /// It opens a legacy session.
    Initialize,
    /// It belongs to a legacy session, or to none. Its metadata, where there is some, is for [`Scope::saying`](super::Scope::saying).
    Session(Option<RequestMeta<'a>>),
}

impl<'a> Era<'a> {
    /// Reads the era off a request.
    ///
    /// # Errors
    /// When `_meta` is not what it must be; the error tells the era as well.
    pub fn of(request: &Request<'a>) -> Result<Self, RequestMetaError> {
        match request.meta()? {
            Some(meta) if meta.is_modern => Ok(Self::Stateless(meta)),
            _ if request.method == <method::Initialize as Method>::NAME => Ok(Self::Initialize),
            meta => Ok(Self::Session(meta)),
        }
    }
}

impl StatelessCall {
    /// Checks that the revision is stateless and spoken by this server.
    ///
    /// # Errors
    /// `-32022` with the revisions that are.
    pub fn supported(self, server: &Server) -> Result<Self, RpcError> {
        let known = ProtocolVersion::parse(self.requested());
        match known {
            Some(version) if version.is_stateless() && server.versions().contains(&version) => Ok(self),
            _ => Err(RpcError::unsupported_version(self.requested(), server.versions())),
        }
    }
}
