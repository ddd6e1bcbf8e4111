//! The rules of the providers, as data.

mod anthropic;
mod bedrock;
mod gemini;
mod mistral;
mod ollama;
mod openai;

use crate::{Provider, pattern};

/// The rules of a provider for tool definitions.
///
/// Each value is the strictest rule that a source states. The source is a comment beside the value in this crate.
/// [`Rules::check`] compares a rendered definition with the rules.
///
/// ```
/// use mcp_tool_format::{Provider, Rules};
///
/// assert_eq!(Rules::of(Provider::OpenAiChat).max_tools, Some(128));
/// assert!(Rules::of(Provider::Gemini).name.accepts("get_weather"));
/// assert!(!Rules::of(Provider::Gemini).name.accepts("1_weather"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rules {
    /// The provider.
    pub provider: Provider,
    /// The rule for tool names.
    pub name: CharRule,
    /// The rule for property keys, at every depth. `None`: every key is accepted.
    pub key: Option<CharRule>,
    /// The largest number of tools in a request.
    pub max_tools: Option<usize>,
    /// The largest number of characters in the description of a tool.
    pub max_description: Option<usize>,
    /// The accepted schema keywords.
    pub keywords: &'static [&'static str],
    /// The rule for the values of `format`.
    pub formats: FormatRule,
    /// The rule for the values of `pattern`.
    pub patterns: PatternRule,
    /// The form of a schema that accepts `null`.
    pub null: NullForm,
    /// Whether `type` may be an array.
    pub type_lists: bool,
    /// Whether each schema needs `type` or `anyOf`.
    pub type_required: bool,
    /// Whether each array needs `items`.
    pub items_required: bool,
    /// Whether values of `enum` must be texts that are not empty.
    pub text_enums: bool,
    /// Whether `anyOf` excludes other keywords beside it.
    pub union_alone: bool,
    /// Whether `properties` may be empty.
    pub empty_properties: bool,
    /// Whether every object is closed: `"additionalProperties": false`.
    pub closed: bool,
    /// Whether every property is required. An optional property then accepts `null`.
    pub all_required: bool,
    /// The largest value of `minItems`.
    pub max_min_items: Option<u64>,
    /// The largest nesting depth of objects and arrays.
    pub max_depth: Option<usize>,
    /// The largest number of properties in a schema.
    pub max_properties: Option<usize>,
    /// The largest number of enum values in a schema.
    pub max_enum_values: Option<usize>,
    /// The largest number of characters in property keys and enum values of a schema.
    pub max_text: Option<usize>,
    /// The largest number of characters in an enum with more than 250 values.
    pub max_large_enum: Option<usize>,
    /// Whether the objects of `anyOf` must begin with different keys.
    pub distinct_first_keys: bool,
    /// The largest number of strict tools in a request, of their optional properties, and of their unions.
    pub strict_budget: Option<StrictBudget>,
}

impl Rules {
    /// Returns the rules for definitions without `strict`.
    #[must_use]
    pub fn of(provider: Provider) -> &'static Self {
        match provider {
            Provider::Anthropic => &anthropic::RULES,
            Provider::OpenAiChat => &openai::CHAT,
            Provider::OpenAiResponses => &openai::RESPONSES,
            Provider::Gemini => &gemini::RULES,
            Provider::Bedrock => &bedrock::RULES,
            Provider::Mistral => &mistral::RULES,
            Provider::Ollama => &ollama::RULES,
        }
    }

    /// Returns the rules for definitions with `strict`. `None`: the definitions of the provider have no such member.
    ///
    /// ```
    /// use mcp_tool_format::{Provider, Rules};
    ///
    /// assert!(Rules::strict(Provider::OpenAiResponses).is_some_and(|rules| rules.closed));
    /// assert!(Rules::strict(Provider::Ollama).is_none());
    /// ```
    #[must_use]
    pub fn strict(provider: Provider) -> Option<&'static Self> {
        match provider {
            Provider::Anthropic => Some(&anthropic::STRICT),
            Provider::OpenAiChat => Some(&openai::CHAT_STRICT),
            Provider::OpenAiResponses => Some(&openai::RESPONSES_STRICT),
            _ => None,
        }
    }

    /// Returns the strict rules of older deployments; see [`Options::early_strict`](crate::Options::early_strict).
    ///
    /// ```
    /// use mcp_tool_format::{Provider, Rules};
    ///
    /// assert_eq!(Rules::early_strict(Provider::OpenAiChat).and_then(|rules| rules.max_depth), Some(5));
    /// assert_eq!(Rules::early_strict(Provider::Anthropic), Rules::strict(Provider::Anthropic));
    /// ```
    #[must_use]
    pub fn early_strict(provider: Provider) -> Option<&'static Self> {
        match provider {
            Provider::OpenAiChat => Some(&openai::CHAT_EARLY),
            Provider::OpenAiResponses => Some(&openai::RESPONSES_EARLY),
            _ => Self::strict(provider),
        }
    }

    /// Whether a schema keyword is accepted.
    pub(crate) fn has(&self, keyword: &str) -> bool {
        self.keywords.contains(&keyword)
    }
}

/// The limits of all strict tools of a request together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrictBudget {
    /// The number of strict tools.
    pub tools: usize,
    /// The number of optional properties.
    pub optional: usize,
    /// The number of unions.
    pub unions: usize,
}

/// The accepted characters and the greatest length of a name.
///
/// ```
/// use mcp_tool_format::CharRule;
///
/// let rule = CharRule::new(64, "_", "_-");
/// assert!(rule.accepts("read_file"));
/// assert!(!rule.accepts("-read"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CharRule {
    /// The greatest length in characters.
    pub max: usize,
    /// Accepted first characters beside ASCII letters. A digit in this text accepts every digit.
    pub first: &'static str,
    /// Accepted further characters beside ASCII letters and digits.
    pub rest: &'static str,
}

impl CharRule {
    /// Returns a rule.
    #[must_use]
    pub const fn new(max: usize, first: &'static str, rest: &'static str) -> Self {
        Self { max, first, rest }
    }

    /// Whether the rule accepts a name.
    #[must_use]
    pub fn accepts(&self, name: &str) -> bool {
        let mut chars = name.chars();
        let Some(first) = chars.next() else { return false };
        let digits = self.first.contains('0');
        name.len() <= self.max
            && (first.is_ascii_alphabetic() || (digits && first.is_ascii_digit()) || self.first.contains(first))
            && chars.all(|c| c.is_ascii_alphanumeric() || self.rest.contains(c))
    }
}

/// The accepted values of `format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatRule {
    /// Every format.
    Any,
    /// These formats.
    Only(&'static [&'static str]),
}

impl FormatRule {
    /// Whether the rule accepts a format.
    pub(crate) fn accepts(self, format: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(list) => list.contains(&format),
        }
    }
}

/// The accepted values of `pattern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternRule {
    /// Every pattern whose groups and classes are complete.
    Any,
    /// Patterns that Python, RE2 and ECMAScript accept alike: without lookaround, back references, Unicode classes (`\p`)
    /// and named groups.
    Linear,
}

impl PatternRule {
    /// Whether the rule accepts a pattern.
    pub(crate) fn accepts(self, pattern: &str) -> bool {
        match self {
            Self::Any => pattern::is_complete(pattern),
            Self::Linear => pattern::is_portable(pattern),
        }
    }
}

/// The form of a schema that accepts `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NullForm {
    /// `"type": ["string", "null"]`.
    TypeList,
    /// `"anyOf": [{ … }, { "type": "null" }]`.
    AnyOf,
    /// `"nullable": true`.
    Nullable,
}

/// `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`: the strictest rule of all providers.
/// Gemini requires the first character (python-genai, `types.py`, `FunctionDeclaration.name`), OpenAI the other
/// characters and the length (openai-python, `shared_params/function_definition.py`).
const NAME: CharRule = CharRule::new(64, "_", "_-");

/// `^[a-zA-Z0-9_.-]{1,64}$`: the text of Anthropic's error "Property keys should match pattern".
const KEY: CharRule = CharRule::new(64, "0_.-", "_.-");

/// Keywords for values that no provider is known to refuse without `strict`.
const COMMON: &[&str] = &[
    "type",
    "title",
    "description",
    "enum",
    "default",
    "examples",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// The rules that most providers share; each file overrides the differences.
const BASE: Rules = Rules {
    provider: Provider::Anthropic,
    name: NAME,
    key: Some(KEY),
    max_tools: None,
    max_description: None,
    keywords: COMMON,
    formats: FormatRule::Any,
    patterns: PatternRule::Any,
    null: NullForm::AnyOf,
    type_lists: false,
    type_required: false,
    items_required: false,
    text_enums: false,
    union_alone: false,
    empty_properties: true,
    closed: false,
    all_required: false,
    max_min_items: None,
    max_depth: None,
    max_properties: None,
    max_enum_values: None,
    max_text: None,
    max_large_enum: None,
    distinct_first_keys: false,
    strict_budget: None,
};
