//! The values of the variables of a template.

/// Values by variable name, in the order of insertion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vars {
    entries: Vec<(String, VarValue)>,
}

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "RFC 6570 has these two, and associative arrays, which are not supported")]
pub enum VarValue {
    /// One text.
    Text(String),
    /// A list of texts; expands as RFC 6570 says for lists.
    List(Vec<String>),
}

impl Vars {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value, in place of an earlier one of that name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<VarValue>) {
        let (name, value) = (name.into(), value.into());
        match self.entries.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.entries.push((name, value)),
        }
    }

    /// This with one more value.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<VarValue>) -> Self {
        self.insert(name, value);
        self
    }

    /// The text of a variable; `None` when it has no value or a list.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            VarValue::Text(text) => Some(text),
            VarValue::List(_) => None,
        }
    }

    /// The list of a variable; `None` when it has no value or a text.
    pub fn list(&self, name: &str) -> Option<&[String]> {
        match self.value(name)? {
            VarValue::Text(_) => None,
            VarValue::List(list) => Some(list),
        }
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<&VarValue> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &VarValue)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many variables have a value.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no variable has a value.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets a value unless another one is there.
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
