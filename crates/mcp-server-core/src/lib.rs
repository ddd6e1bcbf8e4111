//! The server half of the Model Context Protocol without a network: registries, typed handlers, dispatch, eras.
