//! The index and its ranking.

use std::{cmp::Ordering, collections::HashMap};

use foldhash::fast::RandomState;
use mcp_protocol::{Tool, start_of};

use super::{arguments, words::Words};

/// The saturation of repeated words.
const K1: f32 = 1.2;
/// The weight of the length of a tool's texts.
const B: f32 = 0.75;
/// The weight of a word of the name. A word elsewhere has the weight 1.
const NAME: f32 = 3.0;
/// The weight of a word of the index that only begins with a word of the query.
const PREFIX: f32 = 0.5;
/// The shortest word of a query that may be the beginning of other words.
const SHORTEST_PREFIX: usize = 3;
/// The largest number of words that match one beginning.
const EXPANSIONS: usize = 16;
/// The largest number of words of a query.
const QUERY_WORDS: usize = 32;
/// The longest part of a text that is read, in bytes.
const TEXT: usize = 16 << 10;

/// An index of tools for a search in the words of a user or a model.
///
/// The search reads the names, titles and descriptions of tools, and the names, descriptions and values of their
/// arguments. Words split at `_`, `-`, `.`, `:` and in `camelCase`. A tool matches when it contains any word of the query.
/// The ranking is BM25 with `k1` 1.2 and `b` 0.75, and a word of the name counts three times. A word that no tool
/// contains matches the words that begin with it. So the result is empty only if no word of the query occurs.
///
/// Words such as `the` and `of` do not count, in texts and in queries. The index reads the first 16 KiB of each text, and the
/// search the first 32 different words of a query.
///
/// ```
/// use mcp_agent::search::ToolIndex;
/// use mcp_protocol::{JsonObject, Tool};
/// use serde_json::json;
///
/// let schema = json!({ "type": "object", "properties": { "assignee": { "type": "string" } } });
/// let issues = Tool::new("listIssues", JsonObject::from_value(schema).unwrap_or_default());
/// let weather = Tool::new("weather", JsonObject::new()).with_description("Returns the weather of a city.");
/// let index = ToolIndex::new([("github:listIssues", &issues), ("sky:weather", &weather)]);
///
/// let hits = index.search("what is the weather in Bern?", 5);
/// assert_eq!(hits[0].name, "sky:weather");
/// assert_eq!(index.search("issues without an assignee", 5)[0].name, "github:listIssues");
/// assert!(index.search("banana", 5).is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct ToolIndex {
    names: Vec<String>,
    /// The words in order, each with its tools.
    words: Vec<Entry>,
}

/// A word and its tools.
type Entry = (Box<str>, Vec<Posting>);

/// A tool that matches a query.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolHit {
    /// The position of the tool in the order of [`ToolIndex::new`].
    pub position: usize,
    /// The name that the caller of [`ToolIndex::new`] passed.
    pub name: String,
    /// The score; greater than zero. Scores of different indexes have no common scale.
    pub score: f32,
}

/// A word in a tool: its weighted number at first, its score at last.
#[derive(Debug, Clone, Copy)]
struct Posting {
    tool: u32,
    weight: f32,
}

impl ToolIndex {
    /// Returns the index of tools, each with the name that hits have. The search reads this name instead of the name in the
    /// tool, so that a name `server:tool` is found by the server too.
    #[must_use]
    pub fn new<'a, N: Into<String>>(tools: impl IntoIterator<Item = (N, &'a Tool)>) -> Self {
        let mut builder = Builder::default();
        for (name, tool) in tools {
            builder.add(name.into(), tool);
        }
        builder.finish()
    }

    /// Returns the tools that match a query, the best first. Tools with the same score are in the order of the index.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<ToolHit> {
        let mut scores = vec![0.0_f32; self.names.len()];
        for word in query_words(query) {
            let (found, factor) = self.matching(&word);
            for (_, postings) in found {
                for posting in postings {
                    scores[posting.tool as usize] += posting.weight * factor;
                }
            }
        }
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0).collect();
        if limit < ranked.len() && limit > 0 {
            ranked.select_nth_unstable_by(limit - 1, by_score);
        }
        ranked.truncate(limit);
        ranked.sort_unstable_by(by_score);
        ranked
            .into_iter()
            .map(|(position, score)| ToolHit { position, name: self.names[position].clone(), score })
            .collect()
    }

    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether the index has no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the entries of a word and their factor: of the word itself, else of the words that begin with it.
    fn matching(&self, word: &str) -> (&[Entry], f32) {
        let start = self.words.partition_point(|(known, _)| **known < *word);
        let rest = &self.words[start..];
        if rest.first().is_some_and(|(known, _)| **known == *word) {
            return (&rest[..1], 1.0);
        }
        if word.len() < SHORTEST_PREFIX {
            return (&[], 0.0);
        }
        let end = rest.iter().take(EXPANSIONS).take_while(|(known, _)| known.starts_with(word)).count();
        (&rest[..end], PREFIX)
    }
}

fn by_score(a: &(usize, f32), b: &(usize, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// Returns the distinct words of a query, up to a limit.
fn query_words(query: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    Words::default().each(start_of(query, TEXT), |word| {
        if all.len() < QUERY_WORDS && !all.iter().any(|known| known == word) {
            all.push(word.to_owned());
        }
    });
    all
}

#[derive(Default)]
struct Builder {
    names: Vec<String>,
    lengths: Vec<f32>,
    /// The tools of each word in ascending order.
    words: HashMap<Box<str>, Vec<Posting>, RandomState>,
    reader: Words,
}

impl Builder {
    fn add(&mut self, name: String, tool: &Tool) {
        let Ok(position) = u32::try_from(self.names.len()) else { return };
        self.lengths.push(0.0);
        self.read(position, &name, NAME);
        for text in [&tool.title, &tool.description].into_iter().flatten() {
            self.read(position, text, 1.0);
        }
        arguments::each(&tool.input_schema, |text| self.read(position, text, 1.0));
        self.names.push(name);
    }

    /// Adds the words of a text to the last tool.
    fn read(&mut self, tool: u32, text: &str, weight: f32) {
        let Self { words, reader, .. } = self;
        let mut length = 0.0;
        reader.each(start_of(text, TEXT), |word| {
            length += weight;
            let posting = Posting { tool, weight };
            match words.get_mut(word) {
                Some(list) => match list.last_mut() {
                    Some(last) if last.tool == tool => last.weight += weight,
                    _ => list.push(posting),
                },
                None => _ = words.insert(word.into(), vec![posting]),
            }
        });
        self.lengths[tool as usize] += length;
    }

    fn finish(self) -> ToolIndex {
        let Self { names, lengths, words, .. } = self;
        let mut words: Vec<Entry> = words.into_iter().collect();
        words.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let count = names.len() as f32;
        let mean = (lengths.iter().sum::<f32>() / count).max(1.0);
        let norms: Vec<f32> = lengths.iter().map(|length| K1 * B.mul_add(length / mean, 1.0 - B)).collect();
        for (_, list) in &mut words {
            let tools = list.len() as f32;
            let rarity = (1.0 + (count - tools + 0.5) / (tools + 0.5)).ln();
            for posting in list {
                posting.weight = rarity * (K1 + 1.0) * posting.weight / (posting.weight + norms[posting.tool as usize]);
            }
        }
        ToolIndex { names, words }
    }
}
