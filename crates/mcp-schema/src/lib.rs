//! JSON Schema and URI templates for the Model Context Protocol: compile, validate, bound, expand, match.
