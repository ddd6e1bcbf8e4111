//! A seeded generator of schemas with every fault that real servers were seen to have.

use serde_json::{Map, Value, json};

/// A deterministic random generator (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

const KEYS: &[&str] = &[
    "a",
    "b",
    "id",
    "page.size",
    "filter[name]",
    "$top",
    "ünïcode",
    "with space",
    "1st",
    "",
    "type",
    "properties",
    "required",
    "enum",
    "description",
    "anyOf",
    "x-very-long-key-x-very-long-key-x-very-long-key-x-very-long-key-x-long",
    "a_0abcdefghij",
    "$ref",
    "items",
];
const TYPES: &[&str] =
    &["string", "number", "integer", "boolean", "array", "object", "null", "any", "STRING", "int", ""];
const PATTERNS: &[&str] = &[
    "^[a-z]+$",
    "^(?!x).*$",
    r"^\p{L}+$",
    "(",
    r"(a)\1",
    "",
    "(?<=a)b",
    "[",
    r"^\d{4}-\d{2}$",
    "(?<year>a)",
    r"^[\w-.]+$",
    r"a\z",
    "a{1,5000}",
    "*a",
];
const FORMATS: &[&str] = &["date-time", "uri", "email", "int32", "binary", "password", "regex", "", "made-up"];
const REFERENCES: &[&str] = &[
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/definitions/c",
    "#/properties/a",
    "#/nothing",
    "https://example.com/s",
    "#anchor",
];

/// Returns a tool schema of a seed.
pub(crate) fn schema(seed: u64) -> Map<String, Value> {
    let mut random = Random::new(seed);
    let mut root = object(&mut random, 0);
    if random.below(8) > 0 {
        root.insert("type".to_owned(), "object".into());
    }
    if random.below(2) == 0 {
        let definitions = json!({ "a": any(&mut random, 1), "b": any(&mut random, 1) });
        root.insert("$defs".to_owned(), definitions);
        root.insert("definitions".to_owned(), json!({ "c": any(&mut random, 1) }));
    }
    root
}

fn any(random: &mut Random, depth: usize) -> Value {
    if depth > 5 {
        return json!({ "type": random.pick(TYPES) });
    }
    match random.below(24) {
        0 => true.into(),
        1 => false.into(),
        2 => Value::Null,
        3 => json!("string"),
        4 => json!({}),
        5..=9 => Value::Object(object(random, depth + 1)),
        _ => Value::Object(mixed(random, depth + 1)),
    }
}

fn object(random: &mut Random, depth: usize) -> Map<String, Value> {
    let mut schema = mixed(random, depth);
    schema.insert("type".to_owned(), "object".into());
    let mut properties = Map::new();
    for _ in 0..random.below(5) {
        let key = *random.pick(KEYS);
        properties.insert(key.to_owned(), any(random, depth + 1));
    }
    let mut required: Vec<Value> =
        properties.keys().filter(|key| key.len() % 2 == 0).map(|key| key.as_str().into()).collect();
    if random.below(4) == 0 {
        required.push("undefined".into());
    }
    if random.below(6) == 0 {
        required.extend(required.clone());
        required.push(1.into());
    }
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    schema
}

/// Returns a schema with keywords of any type, at random.
fn mixed(random: &mut Random, depth: usize) -> Map<String, Value> {
    let mut schema = Map::new();
    for _ in 0..1 + random.below(5) {
        let (key, value) = keyword(random, depth);
        schema.insert(key.to_owned(), value);
    }
    schema
}

fn keyword(random: &mut Random, depth: usize) -> (&'static str, Value) {
    let list = |random: &mut Random| -> Value { (0..random.below(4)).map(|_| any(random, depth + 1)).collect() };
    match random.below(40) {
        0..=5 => ("type", (*random.pick(TYPES)).into()),
        6 => ("type", json!([random.pick(TYPES), random.pick(TYPES), "null"])),
        7 => ("enum", json!(["a", "", 1, 2.5, null, true, ["x"], { "y": 1 }])),
        8 => ("enum", json!([])),
        9 => ("enum", json!([1, 2, 3])),
        10 => ("enum", json!(["x", "y", "x"])),
        11 => ("const", random.pick(&[json!("c"), json!(7), Value::Null, json!({ "k": [1] })]).clone()),
        12 => ("anyOf", list(random)),
        13 => ("oneOf", list(random)),
        14 => ("allOf", list(random)),
        15 => ("not", any(random, depth + 1)),
        16 => ("if", any(random, depth + 1)),
        17 => ("then", any(random, depth + 1)),
        18 => ("items", any(random, depth + 1)),
        19 => ("items", list(random)),
        20 => ("prefixItems", list(random)),
        21 => ("additionalProperties", any(random, depth + 1)),
        22 => ("patternProperties", json!({ (*random.pick(PATTERNS)): any(random, depth + 1) })),
        23 => ("$ref", (*random.pick(REFERENCES)).into()),
        24 => ("pattern", (*random.pick(PATTERNS)).into()),
        25 => ("format", (*random.pick(FORMATS)).into()),
        26 => ("minimum", random.pick(&[json!(1), json!("1"), json!(1e300), json!(-0.5)]).clone()),
        27 => ("exclusiveMinimum", random.pick(&[json!(true), json!(3), json!(false)]).clone()),
        28 => ("minItems", random.pick(&[json!(2), json!(-1), json!(2.0), json!("2")]).clone()),
        29 => ("maxLength", random.pick(&[json!(5), json!(null)]).clone()),
        30 => ("default", random.pick(&[json!(null), json!("d"), json!({ "a": [] })]).clone()),
        31 => ("examples", random.pick(&[json!(["e"]), json!("e")]).clone()),
        32 => ("nullable", true.into()),
        33 => ("title", random.pick(&[json!("Title"), json!(5)]).clone()),
        34 => ("description", random.pick(&[json!("Text."), json!(""), json!(["no"])]).clone()),
        35 => ("dependentRequired", json!({ "a": ["b"] })),
        36 => ("$anchor", "anchor".into()),
        37 => ("propertyNames", json!({ "pattern": "^a" })),
        38 => ("required", random.pick(&[json!(true), json!(["id"]), json!("id")]).clone()),
        _ => ("x-custom", json!({ "vendor": true })),
    }
}
