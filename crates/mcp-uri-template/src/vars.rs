//! Values of template variables.

/// The values of template variables by name, in the order of insertion.
///
/// ```
/// use mcp_uri_template::Vars;
///
/// let vars = Vars::new().with("table", "users").with("columns", vec!["id", "name"]);
/// assert_eq!(vars.text("table"), Some("users"));
/// assert_eq!(vars.list("columns").map(<[String]>::len), Some(2));
/// assert_eq!(vars.text("columns"), None);
/// assert!(vars.value("columns").is_some() && vars.value("rows").is_none());
/// assert_eq!(vars.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["table", "columns"]);
/// assert!(!vars.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vars {
    entries: Vec<(String, VarValue)>,
}

/// The value of a template variable.
///
/// ```
/// use mcp_uri_template::VarValue;
///
/// assert_eq!(VarValue::from("users"), VarValue::Text("users".to_owned()));
/// assert_eq!(VarValue::from(vec!["id"]), VarValue::List(vec!["id".to_owned()]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "RFC 6570 has these two, and associative arrays, which are not supported")]
pub enum VarValue {
    /// A single text.
    Text(String),
    /// A list of texts (RFC 6570 §2.4.2).
    List(Vec<String>),
}

impl Vars {
    /// Returns an empty set of values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a variable. It replaces an earlier value of that name.
    ///
    /// ```
    /// use mcp_uri_template::Vars;
    ///
    /// let mut vars = Vars::new();
    /// vars.insert("table", "users");
    /// vars.insert("table", "orders");
    /// assert_eq!((vars.len(), vars.text("table")), (1, Some("orders")));
    /// ```
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<VarValue>) {
        let (name, value) = (name.into(), value.into());
        match self.entries.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.entries.push((name, value)),
        }
    }

    /// Sets the value of a variable, as [`Vars::insert`] does, and returns the values.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<VarValue>) -> Self {
        self.insert(name, value);
        self
    }

    /// Returns the text of a variable; `None` when it has no value or a list.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            VarValue::Text(text) => Some(text),
            VarValue::List(_) => None,
        }
    }

    /// Returns the list of a variable; `None` when it has no value or a text.
    pub fn list(&self, name: &str) -> Option<&[String]> {
        match self.value(name)? {
            VarValue::Text(_) => None,
            VarValue::List(list) => Some(list),
        }
    }

    /// Returns the value of a variable.
    pub fn value(&self, name: &str) -> Option<&VarValue> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &VarValue)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the number of variables with a value.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no variable has a value.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets the value of a variable; `None` when the variable already has a different value.
    pub(crate) fn agree(&mut self, name: &str, value: VarValue) -> Option<()> {
        match self.value(name) {
            Some(known) => (*known == value).then_some(()),
            None => {
                self.entries.push((name.to_owned(), value));
                Some(())
            }
        }
    }
}

impl<N: Into<String>, V: Into<VarValue>> FromIterator<(N, V)> for Vars {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Self {
        entries.into_iter().fold(Self::new(), |vars, (name, value)| vars.with(name, value))
    }
}

impl IntoIterator for Vars {
    type Item = (String, VarValue);
    type IntoIter = std::vec::IntoIter<(String, VarValue)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl From<&str> for VarValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for VarValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<String>> for VarValue {
    fn from(list: Vec<String>) -> Self {
        Self::List(list)
    }
}

impl From<Vec<&str>> for VarValue {
    fn from(list: Vec<&str>) -> Self {
        Self::List(list.into_iter().map(str::to_owned).collect())
    }
}
