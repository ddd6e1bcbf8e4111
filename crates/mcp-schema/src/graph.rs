//! The subschemas of a schema and how they lead to one another, references followed. From it come the bounds
//! on what validating can cost: nothing else limits a schema that refers to itself in clever ways.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{
    dialect::Dialect,
    error::{SchemaError, SchemaErrorKind},
    fragment,
    keywords::{self, Applies, Token, push_token},
    limits::{Limits, exceeded},
    text::quote_str,
};

/// The subschemas of one schema; the root is node 0.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// Most subschemas entered within each other for one value.
    pub(crate) chain: usize,
    /// Whether a subschema can come back to itself by way of members or items.
    pub(crate) recursive: bool,
}

/// One subschema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The approximate number of its own checks.
    pub(crate) checks: usize,
    pub(crate) in_place: Vec<usize>,
    pub(crate) members: Vec<usize>,
    pub(crate) member: Vec<(String, usize)>,
    pub(crate) items: Vec<usize>,
    pub(crate) item: Vec<(usize, usize)>,
}

impl Node {
    fn all(&self) -> impl Iterator<Item = usize> + '_ {
        let named = self.member.iter().map(|(_, to)| *to).chain(self.item.iter().map(|(_, to)| *to));
        self.in_place.iter().chain(&self.members).chain(&self.items).copied().chain(named)
    }
}

impl Graph {
    /// Collects the subschemas of a document whose size and depth have been checked, resolves every
    /// reference within it, and refuses what exceeds a limit or could not be bounded.
    pub(crate) fn build(root: &Value, dialect: Dialect, limits: &Limits) -> Result<Self, SchemaError> {
        let mut builder = Builder::new(root, dialect, limits);
        builder.collect()?;
        let pointers = builder.pointers;
        let mut graph = Self { nodes: builder.nodes, chain: 0, recursive: false };

        let in_place = graph.post_order(|node| Box::new(node.in_place.iter().copied()));
        if let Some(looping) = in_place.looping {
            return Err(SchemaError::new(
                SchemaErrorKind::Reference,
                &pointers[looping],
                "the reference comes back to the same schema for the same value, without end",
            ));
        }
        let (mut chain, mut expansion) = (vec![0usize; graph.nodes.len()], vec![0usize; graph.nodes.len()]);
        for &at in &in_place.order {
            let next = &graph.nodes[at].in_place;
            chain[at] = 1 + next.iter().map(|&to| chain[to]).max().unwrap_or(0);
            expansion[at] = next.iter().fold(1usize, |sum, &to| sum.saturating_add(expansion[to]));
            if expansion[at] > limits.expansion {
                let what = format!("applies more than {} subschemas to one value", limits.expansion);
                return Err(exceeded(&pointers[at], what));
            }
        }
        graph.chain = chain.iter().copied().max().unwrap_or(1);

        let all = graph.post_order(|node| Box::new(node.all()));
        graph.recursive = all.looping.is_some();
        let mut deepest = graph.chain;
        if !graph.recursive {
            let mut depth = vec![0usize; graph.nodes.len()];
            for &at in &all.order {
                depth[at] = 1 + graph.nodes[at].all().map(|to| depth[to]).max().unwrap_or(0);
            }
            deepest = depth.iter().copied().max().unwrap_or(1);
        }
        if deepest > limits.nesting {
            return Err(exceeded("", format!("nests more than {} subschemas, references followed", limits.nesting)));
        }
        Ok(graph)
    }

    /// Every node after those that it leads to; `looping` is a node on a cycle, if there is one.
    fn post_order<'a>(&'a self, next: impl Fn(&'a Node) -> Box<dyn Iterator<Item = usize> + 'a>) -> PostOrder {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.nodes.len()];
        let mut found = PostOrder { order: Vec::with_capacity(self.nodes.len()), looping: None };
        for start in 0..self.nodes.len() {
            if marks[start] != Mark::New {
                continue;
            }
            marks[start] = Mark::Open;
            let mut path = vec![(start, next(&self.nodes[start]))];
            while let Some((at, successors)) = path.last_mut() {
                match successors.next() {
                    Some(to) if marks[to] == Mark::New => {
                        marks[to] = Mark::Open;
                        path.push((to, next(&self.nodes[to])));
                    }
                    Some(to) if marks[to] == Mark::Open => found.looping = Some(to),
                    Some(_) => {}
                    None => {
                        marks[*at] = Mark::Done;
                        found.order.push(*at);
                        path.pop();
                    }
                }
            }
        }
        found
    }
}

struct PostOrder {
    order: Vec<usize>,
    looping: Option<usize>,
}

struct Builder<'a> {
    root: &'a Value,
    dialect: Dialect,
    limits: &'a Limits,
    nodes: Vec<Node>,
    schemas: Vec<&'a Value>,
    pointers: Vec<String>,
    /// The resource (a schema with an identifier, or the document) that a node belongs to.
    resources: Vec<usize>,
    /// Nodes by the address of their value, which is stable while the document is borrowed.
    known: HashMap<*const Value, usize>,
    resource_roots: Vec<(Option<&'a str>, usize)>,
    anchors: HashMap<(usize, &'a str), usize>,
    dynamic_anchors: HashMap<&'a str, Vec<usize>>,
    references: Vec<(usize, &'a str, &'a str)>,
    patterns: usize,
    resolved: usize,
    next: usize,
}

impl<'a> Builder<'a> {
    fn new(root: &'a Value, dialect: Dialect, limits: &'a Limits) -> Self {
        Self {
            root,
            dialect,
            limits,
            nodes: Vec::new(),
            schemas: Vec::new(),
            pointers: Vec::new(),
            resources: Vec::new(),
            known: HashMap::new(),
            resource_roots: vec![(None, 0)],
            anchors: HashMap::new(),
            dynamic_anchors: HashMap::new(),
            references: Vec::new(),
            patterns: 0,
            resolved: 0,
            next: 0,
        }
    }

    fn collect(&mut self) -> Result<(), SchemaError> {
        self.node(self.root, String::new(), 0)?;
        loop {
            while self.next < self.nodes.len() {
                let at = self.next;
                self.next += 1;
                if let Value::Object(schema) = self.schemas[at] {
                    self.visit(at, schema)?;
                }
            }
            // A reference can lead to a schema that no keyword reaches, with further references inside.
            let references = std::mem::take(&mut self.references);
            if references.is_empty() {
                return Ok(());
            }
            for (at, keyword, reference) in references {
                self.resolve(at, keyword, reference)?;
            }
        }
    }

    fn node(&mut self, schema: &'a Value, pointer: String, resource: usize) -> Result<usize, SchemaError> {
        let address = std::ptr::from_ref(schema);
        if let Some(&index) = self.known.get(&address) {
            return Ok(index);
        }
        let index = self.nodes.len();
        if index == self.limits.subschemas {
            return Err(exceeded(&pointer, format!("has more than {} subschemas", self.limits.subschemas)));
        }
        self.known.insert(address, index);
        self.nodes.push(Node::default());
        self.schemas.push(schema);
        self.pointers.push(pointer);
        self.resources.push(resource);
        Ok(index)
    }

    fn visit(&mut self, at: usize, schema: &'a Map<String, Value>) -> Result<(), SchemaError> {
        self.declarations(at, schema)?;
        let resource = self.resources[at];
        let pointer = self.pointers[at].clone();
        let mut found = Vec::new();
        keywords::subschemas(schema, self.dialect, &mut |sub| found.push(sub));
        for sub in found {
            let mut below = pointer.clone();
            sub.push_pointer(&mut below);
            let to = self.node(sub.schema, below, resource)?;
            let node = &mut self.nodes[at];
            match (sub.applies, sub.token) {
                (Applies::InPlace, _) => node.in_place.push(to),
                (Applies::Member, Some(Token::Name(name))) => node.member.push((name.to_owned(), to)),
                (Applies::Item, Some(Token::Index(index))) => node.item.push((index, to)),
                (Applies::Members | Applies::Member, _) => node.members.push(to),
                (Applies::Items | Applies::Item, _) => node.items.push(to),
                (Applies::Nothing, _) => {}
            }
        }
        let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        self.nodes[at].checks = schema.len() + required;
        self.count(&pointer, schema)
    }

    /// Identifiers, anchors, dialects and references of one schema.
    fn declarations(&mut self, at: usize, schema: &'a Map<String, Value>) -> Result<(), SchemaError> {
        if let Some(declared) = schema.get("$schema")
            && declared.as_str().and_then(Dialect::from_uri).is_none()
        {
            return Err(unknown_dialect(&self.pointers[at], declared));
        }
        let hidden = self.dialect.ref_hides_siblings() && schema.contains_key("$ref");
        if let Some(Value::String(id)) = schema.get(self.dialect.id_keyword()).filter(|_| !hidden) {
            match id.strip_prefix('#') {
                Some(anchor) if self.dialect.ref_hides_siblings() => {
                    self.anchors.insert((self.resources[at], anchor), at);
                }
                _ if at == 0 => self.resource_roots[0].0 = Some(id),
                _ => {
                    self.resource_roots.push((Some(id), at));
                    self.resources[at] = self.resource_roots.len() - 1;
                }
            }
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = schema.get(keyword) {
                self.anchors.insert((self.resources[at], anchor), at);
                if keyword == "$dynamicAnchor" {
                    self.dynamic_anchors.entry(anchor).or_default().push(at);
                }
            }
        }
        if schema.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            self.dynamic_anchors.entry("").or_default().push(at);
        }
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(Value::String(reference)) = schema.get(keyword) {
                self.references.push((at, keyword, reference));
            }
        }
        Ok(())
    }

    fn count(&mut self, pointer: &str, schema: &Map<String, Value>) -> Result<(), SchemaError> {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let branches = schema.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
            if branches > self.limits.branches {
                let mut pointer = pointer.to_owned();
                push_token(&mut pointer, keyword);
                return Err(exceeded(&pointer, format!("has more than {} branches here", self.limits.branches)));
            }
        }
        let named = schema.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
        self.patterns += named + usize::from(schema.contains_key("pattern"));
        if self.patterns > self.limits.patterns {
            return Err(exceeded(pointer, format!("has more than {} regular expressions", self.limits.patterns)));
        }
        Ok(())
    }

    fn resolve(&mut self, at: usize, keyword: &str, reference: &'a str) -> Result<(), SchemaError> {
        self.resolved += 1;
        if self.resolved > self.limits.references {
            return Err(exceeded("", format!("has more than {} references", self.limits.references)));
        }
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = &*fragment::decode(fragment)
            .map_err(|reason| self.invalid_reference(at, keyword, format!("{} {reason}", quote_str(reference))))?;
        let mut targets = Vec::new();
        if document.is_empty() {
            self.in_resource(self.resources[at], fragment, &mut targets)?;
        } else {
            // Identifiers are compared by their ends rather than resolved against a base: this finds
            // every schema that can be meant, and what it finds too much only tightens the bounds.
            let named = |id: &str| same_end(id.trim_end_matches('#'), document);
            let resources: Vec<_> = (0..self.resource_roots.len())
                .filter(|&index| self.resource_roots[index].0.is_some_and(named))
                .collect();
            for resource in resources {
                self.in_resource(resource, fragment, &mut targets)?;
            }
        }
        if matches!(keyword, "$dynamicRef" | "$recursiveRef") {
            targets.extend(self.dynamic_anchors.get(fragment).into_iter().flatten());
        }
        if targets.is_empty() {
            let message = if document.is_empty() {
                format!("{} leads nowhere", quote_str(reference))
            } else {
                format!("{} is outside the schema, and only references within it are followed", quote_str(reference))
            };
            return Err(self.invalid_reference(at, keyword, message));
        }
        targets.sort_unstable();
        targets.dedup();
        self.nodes[at].in_place.extend(targets);
        Ok(())
    }

    fn invalid_reference(&self, at: usize, keyword: &str, message: String) -> SchemaError {
        let mut pointer = self.pointers[at].clone();
        push_token(&mut pointer, keyword);
        SchemaError::new(SchemaErrorKind::Reference, pointer, message)
    }

    /// The schema that a decoded fragment names within a resource.
    fn in_resource(&mut self, resource: usize, fragment: &str, out: &mut Vec<usize>) -> Result<(), SchemaError> {
        let root = self.resource_roots[resource].1;
        if fragment.is_empty() {
            out.push(root);
        } else if fragment.starts_with('/') {
            if let Some(schema) = self.schemas[root].pointer(fragment).filter(|target| keywords::is_schema(target)) {
                let pointer = format!("{}{fragment}", self.pointers[root]);
                let to = self.node(schema, pointer, resource)?;
                out.push(to);
            }
        } else {
            out.extend(self.anchors.get(&(resource, fragment)));
        }
        Ok(())
    }
}

/// Whether two URI references are equal up to the end of the shorter one.
fn same_end(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim_start_matches(['.', '/']), b.trim_start_matches(['.', '/']));
    let (long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
    long.strip_suffix(short).is_some_and(|base| base.is_empty() || base.ends_with(['/', ':']))
}

/// The refusal of a `$schema` that names no supported dialect.
pub(crate) fn unknown_dialect(pointer: &str, declared: &Value) -> SchemaError {
    let mut pointer = pointer.to_owned();
    push_token(&mut pointer, "$schema");
    let message = format!(
        "the dialect {} is not supported; use draft-04, draft-06, draft-07, 2019-09 or 2020-12",
        crate::text::quote(declared)
    );
    SchemaError::new(SchemaErrorKind::Dialect, pointer, message)
}
