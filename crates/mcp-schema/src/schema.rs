//! A compiled schema: bounded, self-contained, and cheap to share.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::{
    dialect::Dialect,
    effort::{is_affordable, shallower_than},
    error::{SchemaError, SchemaErrorKind},
    graph::{Graph, unknown_dialect},
    keywords,
    limits::Limits,
    validation::{ValidationErrors, explain},
};

/// Reasons are collected in full up to this many steps, and the first one is looked for up to the other.
const EXPLAIN_ALL: usize = 20_000;
const EXPLAIN_FIRST: usize = 2_000_000;

/// A compiled JSON Schema.
///
/// ```
/// use mcp_schema::Schema;
/// use serde_json::json;
///
/// let schema = Schema::compile(&json!({
///     "type": "object",
///     "properties": { "city": { "type": "string" }, "days": { "type": "integer", "maximum": 7 } },
///     "required": ["city"],
/// }))?;
/// assert!(schema.validate(&json!({ "city": "Bern", "days": 3 })).is_ok());
/// let errors = schema.validate(&json!({ "days": 9 })).unwrap_err();
/// assert_eq!(errors.total(), 2);
/// # Ok::<(), mcp_schema::SchemaError>(())
/// ```
///
/// The dialect is the one that the schema declares by `$schema`, and 2020-12 when it declares none. `format` asserts
/// what the dialect says: up to draft 07 it does, later it is a note only. Nothing outside the schema is ever
/// read: a reference to a URL or a file is an error when the schema is compiled. Regular expressions run in linear
/// time, so look-around and back-references are refused.
///
/// Cloning shares the compiled schema.
#[derive(Clone)]
pub struct Schema {
    inner: Arc<Inner>,
}

struct Inner {
    source: Value,
    dialect: Dialect,
    graph: Graph,
    /// Containers within each other that a value may have.
    depth: usize,
    /// Bytes of memory of one compiled pattern.
    pattern_memory: usize,
    /// The compiled schema, or the error of its compilation. It is empty before the first use.
    validator: OnceLock<Result<Validator, SchemaError>>,
}

impl Inner {
    fn validator(&self) -> Result<&Validator, &SchemaError> {
        let compile = || {
            jsonschema::options()
                .with_draft(self.dialect.draft())
                .offline()
                .with_pattern_options(PatternOptions::regex().size_limit(self.pattern_memory))
                .build(&self.source)
                .map_err(|error| refusal(&error))
        };
        self.validator.get_or_init(compile).as_ref()
    }
}

impl Schema {
    /// Compiles a schema within the default [`Limits`].
    ///
    /// ```
    /// use mcp_schema::{Dialect, Schema};
    /// use serde_json::json;
    ///
    /// let source = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "format": "date" });
    /// let schema = Schema::compile(&source)?;
    /// assert_eq!(schema.dialect(), Dialect::Draft7);
    /// assert_eq!(schema.source(), &source);
    /// assert!(schema.is_valid(&json!("2026-07-28")) && !schema.is_valid(&json!("today")));
    /// # Ok::<(), mcp_schema::SchemaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The schema is invalid in its dialect, declares an unknown dialect or exceeds a limit. A reference without a
    /// target inside the schema and an unsupported regular expression are errors too.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Self::compile_with(schema, &Limits::default())
    }

    /// Compiles a schema within limits of your own.
    ///
    /// ```
    /// use mcp_schema::{Limits, Schema};
    /// use serde_json::json;
    ///
    /// let limits = Limits::new().patterns(0);
    /// assert!(Schema::compile_with(&json!({ "pattern": "^a" }), &limits).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub fn compile_with(schema: &Value, limits: &Limits) -> Result<Self, SchemaError> {
        let schema = Self::deferred_with(schema, limits)?;
        match schema.prepare() {
            Ok(()) => Ok(schema),
            Err(error) => Err(error.clone()),
        }
    }

    /// Accepts a schema within the default [`Limits`], and compiles it when the first value is checked.
    ///
    /// This is for schemas that a program derives from its own types: the start of the program does not wait for the
    /// compiler. The limits, the dialect and the references are checked at once. [`prepare`](Self::prepare) compiles the
    /// schema and returns the other errors. If the compilation fails, no value matches.
    ///
    /// ```
    /// use mcp_schema::{Schema, ValidationErrorKind};
    /// use serde_json::json;
    ///
    /// let schema = Schema::deferred(&json!({ "type": "string" }))?;
    /// assert!(schema.is_valid(&json!("Bern")));
    ///
    /// let faulty = Schema::deferred(&json!({ "type": "text" }))?;
    /// assert_eq!(faulty.prepare().unwrap_err().pointer(), "/type");
    /// let errors = faulty.validate(&json!("Bern")).unwrap_err();
    /// assert_eq!(errors.first().unwrap().kind(), ValidationErrorKind::Other);
    /// # Ok::<(), mcp_schema::SchemaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The schema is neither an object nor a boolean, declares an unknown dialect or exceeds a limit. A reference without a
    /// target inside the schema is an error too.
    pub fn deferred(schema: &Value) -> Result<Self, SchemaError> {
        Self::deferred_with(schema, &Limits::default())
    }

    fn deferred_with(schema: &Value, limits: &Limits) -> Result<Self, SchemaError> {
        if !keywords::is_schema(schema) {
            let message = format!("a schema must be an object or a boolean, not {}", crate::text::quote(schema));
            return Err(SchemaError::new(SchemaErrorKind::Invalid, "", message));
        }
        limits.check_document(schema)?;
        let dialect =
            Dialect::of(schema).ok_or_else(|| unknown_dialect("", schema.get("$schema").unwrap_or(&Value::Null)))?;
        let graph = Graph::build(schema, dialect, limits)?;
        let depth = if graph.recursive { limits.nesting / graph.chain.max(1) } else { limits.nesting };
        let (source, pattern_memory) = (schema.clone(), limits.pattern_memory);
        let validator = OnceLock::new();
        Ok(Self { inner: Arc::new(Inner { source, dialect, graph, depth, pattern_memory, validator }) })
    }

    /// Compiles a [deferred](Self::deferred) schema, if no value was checked before.
    ///
    /// # Errors
    ///
    /// The schema is invalid in its dialect, or has an unsupported regular expression.
    pub fn prepare(&self) -> Result<(), &SchemaError> {
        self.inner.validator().map(drop)
    }

    /// Checks a value. The errors are sentences that help a model to correct the value.
    ///
    /// ```
    /// use mcp_schema::Schema;
    /// use serde_json::json;
    ///
    /// let schema = Schema::compile(&json!({ "properties": { "days": { "type": "integer", "maximum": 7 } } }))?;
    /// let errors = schema.validate(&json!({ "days": 9 })).unwrap_err();
    /// assert_eq!(errors.to_string(), "`/days`: must be at most 7, got 9");
    /// # Ok::<(), mcp_schema::SchemaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first reasons why the value does not match.
    pub fn validate(&self, value: &Value) -> Result<(), ValidationErrors> {
        let inner = &*self.inner;
        if self.too_deep(value) {
            return Err(ValidationErrors::too_deep());
        }
        let validator = match inner.validator() {
            Ok(validator) => validator,
            Err(error) => return Err(ValidationErrors::without_schema(error)),
        };
        if validator.is_valid(value) {
            return Ok(());
        }
        if is_affordable(&inner.graph, value, EXPLAIN_ALL) {
            return Err(explain(&inner.source, validator.iter_errors(value)));
        }
        if is_affordable(&inner.graph, value, EXPLAIN_FIRST)
            && let Err(first) = validator.validate(value)
        {
            return Err(explain(&inner.source, std::iter::once(first)).incomplete());
        }
        Err(ValidationErrors::unexplained())
    }

    /// Whether a value matches; cheaper than [`validate`](Self::validate) when it does not.
    pub fn is_valid(&self, value: &Value) -> bool {
        !self.too_deep(value) && self.inner.validator().is_ok_and(|validator| validator.is_valid(value))
    }

    /// Returns the schema as it was given.
    pub fn source(&self) -> &Value {
        &self.inner.source
    }

    /// Returns the dialect that the schema is read in.
    pub fn dialect(&self) -> Dialect {
        self.inner.dialect
    }

    fn too_deep(&self, value: &Value) -> bool {
        !shallower_than(value, self.inner.depth)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("dialect", &self.inner.dialect).finish_non_exhaustive()
    }
}

/// Returns the error of the compiler, with its place in the schema.
fn refusal(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    use jsonschema::error::ValidationErrorKind as Kind;
    let pointer = error.instance_path().as_str();
    match error.kind() {
        Kind::Referencing(error) => {
            let message = crate::text::shorten(&error.to_string(), 200).into_owned();
            SchemaError::new(SchemaErrorKind::Reference, pointer, message)
        }
        Kind::Format { format } if format == "regex" => {
            let message = format!(
                "the regular expression {} is malformed, too large, or uses look-around or back-references, \
                 which are not supported",
                crate::text::quote(error.instance())
            );
            SchemaError::new(SchemaErrorKind::Pattern, pointer, message)
        }
        _ => {
            let found = explain(&Value::Null, std::iter::once(error));
            let message = found.first().map_or_else(|| "is not valid".to_owned(), |e| e.message().to_owned());
            SchemaError::new(SchemaErrorKind::Invalid, pointer, message)
        }
    }
}
