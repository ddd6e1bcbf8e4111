//! The metadata of one request of the stateless era.

use std::sync::Arc;

use mcp_protocol::{LoggingLevel, Meta, ProgressToken, ProtocolVersion, RequestMeta, RpcError};

use crate::session::RequestClient;

/// The metadata of a stateless request, complete but not yet known to be spoken here.
#[derive(Debug)]
pub struct StatelessCall {
    requested: String,
    pub(crate) version: ProtocolVersion,
    pub(crate) client: Arc<RequestClient>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) said: Said,
}

/// What a request says about itself that its handler may want.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) raw_meta: Option<Box<str>>,
    pub(crate) progress_token: Option<ProgressToken>,
}

impl Said {
    /// The metadata as values.
    pub(crate) fn meta(&self) -> Option<Meta> {
        self.raw_meta.as_deref().and_then(|raw| serde_json::from_str(raw).ok())
    }

    pub(crate) fn of(meta: &RequestMeta<'_>) -> Self {
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
}
