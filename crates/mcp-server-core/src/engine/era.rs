//! Which era a request belongs to: its own body says (2026-07-28 basic/versioning; both eras share one endpoint).

use std::sync::Arc;

use mcp_protocol::{
    LoggingLevel, Meta, Method, ProgressToken, ProtocolVersion, RequestMeta, RequestMetaError, RpcError, method,
};
use serde_json::value::RawValue;

use crate::{Server, context::RequestClient};

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
    pub fn of(method: &str, params: Option<&'a RawValue>) -> Result<Self, RequestMetaError> {
        match RequestMeta::from_params(params)? {
            Some(meta) if meta.is_modern => Ok(Self::Stateless(meta)),
            _ if method == <method::Initialize as Method>::NAME => Ok(Self::Initialize),
            meta => Ok(Self::Session(meta)),
        }
    }
}

/// The metadata of a stateless request, complete but not yet known to be spoken here.
#[derive(Debug)]
pub struct StatelessCall {
    requested: String,
    pub(super) version: ProtocolVersion,
    pub(super) client: Arc<RequestClient>,
    pub(super) log_level: Option<LoggingLevel>,
    pub(super) said: Said,
}

/// What a request says about itself that its handler may want.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(super) raw_meta: Option<Box<str>>,
    pub(super) progress_token: Option<ProgressToken>,
}

impl Said {
    /// The metadata as values.
    pub(super) fn meta(&self) -> Option<Meta> {
        self.raw_meta.as_deref().and_then(|raw| serde_json::from_str(raw).ok())
    }

    pub(super) fn of(meta: &RequestMeta<'_>) -> Self {
        Self { raw_meta: Some(meta.raw.get().into()), progress_token: meta.progress_token.clone() }
    }
}

impl StatelessCall {
    /// Reads the required metadata.
    ///
    /// # Errors
    /// `-32602` that names the member that is missing or not what it must be.
    pub fn read(meta: &RequestMeta<'_>) -> Result<Self, RpcError> {
        let (requested, _) = meta.required()?;
        Ok(Self {
            // An unknown version is refused by `supported`; until then any value will do.
            version: ProtocolVersion::parse(requested).unwrap_or(ProtocolVersion::LATEST),
            requested: requested.to_owned(),
            client: Arc::new(RequestClient { capabilities: meta.capabilities()?, info: meta.implementation()? }),
            log_level: meta.log_level,
            said: Said::of(meta),
        })
    }

    /// The revision that the request names, whatever it is.
    #[must_use]
    pub fn requested(&self) -> &str {
        &self.requested
    }

    /// Checks that the revision is stateless and spoken by this server.
    ///
    /// # Errors
    /// `-32022` with the revisions that are.
    pub fn supported(self, server: &Server) -> Result<Self, RpcError> {
        let known = ProtocolVersion::parse(&self.requested);
        match known {
            Some(version) if version.is_stateless() && server.versions().contains(&version) => Ok(self),
            _ => Err(RpcError::unsupported_version(&self.requested, server.versions())),
        }
    }
}
