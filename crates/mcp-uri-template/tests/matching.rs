//! Matching URIs against templates.

use mcp_uri_template::{TemplateErrorKind, UriTemplate, VarValue, Vars};

/// The captures as `name=text` and `name=[a|b]`, or `None`.
fn captures(template: &str, uri: &str) -> Option<String> {
    let parsed = UriTemplate::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
    let vars = parsed.matches(uri)?;
    let shown = vars.iter().map(|(name, value)| match value {
        VarValue::Text(text) => format!("{name}={text}"),
        VarValue::List(list) => format!("{name}=[{}]", list.join("|")),
    });
    Some(shown.collect::<Vec<_>>().join(" "))
}

#[test]
fn matching_returns_the_captures() {
    for (template, uri, expected) in [
        // Literals
        ("config://app", "config://app", Some("")),
        ("config://app", "config://app/", None),
        ("config://app", "config://ap", None),
        ("a://%7Ex", "a://~x", Some("")),
        ("a://~x", "a://%7ex", Some("")),
        ("a://é", "a://%c3%A9", Some("")),
        ("a://%2f", "a://%2F", Some("")),
        ("a://%2f", "a:///", None),
        ("a://x", "A://x", None),
        // One segment
        ("file:///{path}", "file:///hosts", Some("path=hosts")),
        ("file:///{path}", "file:///etc/hosts", None),
        ("file:///{path}", "file:///etc%2Fhosts", Some("path=etc/hosts")),
        ("file:///{path}", "file:///", None),
        ("file:///{path}", "file:///a?b", None),
        ("file:///{path}", "file:///a#b", None),
        ("file:///{path}", "file:///a%3Fb%23", Some("path=a?b#")),
        ("file:///{path}", "file:///a b", Some("path=a b")),
        ("file:///{path}", "file:///%C3%A9", Some("path=é")),
        ("file:///{path}", "file:///é", Some("path=é")),
        ("file:///{path}", "file:///%ff", None),
        ("file:///{path}", "file:///%", None),
        ("file:///{path}", "file:///%4", None),
        ("file:///{path}", "file:///%zz", None),
        ("file:///{path}", "file:///%2525", Some("path=%25")),
        ("u://{id}/posts/{post}", "u://7/posts/9", Some("id=7 post=9")),
        ("u://{id}/posts/{post}", "u://7/posts/", None),
        ("u://{id}.json", "u://a.json.json", Some("id=a.json")),
        ("u://{id}.json", "u://.json", None),
        ("u://{a}-{b}", "u://x-y-z", Some("a=x-y b=z")),
        ("u://{a}-{b}", "u://xyz", None),
        ("{scheme}://x", "http://x", Some("scheme=http")),
        ("db://{db}/t/{db}", "db://a/t/a", Some("db=a")),
        ("db://{db}/t/{db}", "db://a/t/b", None),
        ("db://{db}/t/{+db}", "db://a%2Fb/t/a/b", Some("db=a/b")),
        ("db://{db,t}/{db}", "db://a,b/a", Some("db=a t=b")),
        ("db://{db,t}/{db}", "db://a,b/b", None),
        ("db://{db*}/t/{db*}", "db://a,b/t/a,b", Some("db=[a|b]")),
        ("m://{x,y}", "m://1,2", Some("x=1 y=2")),
        ("m://{x,y}", "m://1", Some("x=1")),
        ("m://{x,y}", "m://1,2,3", None),
        ("m://{x,y}", "m://1%2C2", Some("x=1,2")),
        ("m://{x*}", "m://1,2", Some("x=[1|2]")),
        ("m://{x}", "m://1,2", Some("x=1,2")),
        // Any characters
        ("file:///{+path}", "file:///etc/hosts", Some("path=etc/hosts")),
        ("file:///{+path}", "file:///etc/", Some("path=etc/")),
        ("file:///{+path}", "file:///", None),
        ("file:///{+path}", "file:///a?b#c", Some("path=a?b#c")),
        ("file:///{+path}", "file:///a%2F..%2f%2e%2e", Some("path=a/../..")),
        ("git://{+path}/blob/{file}", "git://a/blob/b/blob/c", Some("path=a/blob/b file=c")),
        // Segments and labels
        ("a:/{/x}", "a://v", Some("x=v")),
        ("a:{/x}", "a:", Some("")),
        ("a:{/x,y}/end", "a:/1/2/end", Some("x=1 y=2")),
        ("a:{/x,y}/end", "a:/1/end", Some("x=1")),
        ("a:{/x,y}/end", "a:/end", Some("")),
        ("a:{/x*}", "a:/1/2%2F3/4", Some("x=[1|2/3|4]")),
        ("a:{/x*}", "a:", Some("")),
        ("a:{/x*}", "a:/", None),
        ("a:{/x*}", "a:/1//2", None),
        ("a:{/x*}/end", "a:/1/2/end", Some("x=[1|2]")),
        ("a:{/x}{/y*}", "a:/1/2/3", Some("x=1 y=[2|3]")),
        ("a:{id}{/rest*}", "a:7/1/2", Some("id=7 rest=[1|2]")),
        ("www{.d}", "www.com", Some("d=com")),
        ("www{.d}", "www.a.com", None),
        ("www{.d*}", "www.a.com", Some("d=[a|com]")),
        ("www{.d,e}", "www.a.com", Some("d=a e=com")),
        // Path parameters
        ("a:/x{;v,w}", "a:/x;v=1;w=2", Some("v=1 w=2")),
        ("a:/x{;v,w}", "a:/x;w=2", Some("w=2")),
        ("a:/x{;v,w}", "a:/x;v", Some("v=")),
        ("a:/x{;v,w}", "a:/x;v=", Some("v=")),
        ("a:/x{;v}", "a:/x;vv=1", None),
        ("a:/x{;v}/y", "a:/x;v=1/y", Some("v=1")),
        // Queries
        ("s://q{?a,b}", "s://q", Some("")),
        ("s://q{?a,b}", "s://q?", Some("")),
        ("s://q{?a,b}", "s://q?a=1&b=2", Some("a=1 b=2")),
        ("s://q{?a,b}", "s://q?b=2&a=1", Some("b=2 a=1")),
        ("s://q{?a,b}", "s://q?b=2", Some("b=2")),
        ("s://q{?a,b}", "s://q?b", Some("b=")),
        ("s://q{?a,b}", "s://q?b=x%26y%3D%20/?=", Some("b=x&y= /?=")),
        ("s://q{?a,b}", "s://q?c=1", None),
        ("s://q{?a,b}", "s://q?a=1&c=1", None),
        ("s://q{?a,b}", "s://q?a=1&a=2", None),
        ("s://q{?a,b}", "s://q?a=1&a=1", Some("a=1")),
        ("s://q{?a,b}", "s://q?a=%ff", None),
        ("s://q{?a,b}", "s://q/?a=1", None),
        ("s://q{?a*}", "s://q?a=1&a=2", Some("a=[1|2]")),
        ("s://q{?a}{&b}", "s://q?b=1&a=2", Some("b=1 a=2")),
        ("s://{host}{?a}", "s://h?a=1", Some("host=h a=1")),
        ("s://{+path}{?a}", "s://x/y?a=1", Some("path=x/y a=1")),
        ("s://q?fixed=1{&a,b}", "s://q?fixed=1&b=2", Some("b=2")),
        ("s://q?fixed=1{&a,b}", "s://q?fixed=1", Some("")),
        ("s://q?fixed=1{&a,b}", "s://q?fixed=12", None),
        ("s://q?fixed=1{&a,b}", "s://q?b=2&fixed=1", None),
        ("s://q?n={n}&m={m}", "s://q?n=1&m=2", Some("n=1 m=2")),
        ("s://q?n={n}{&m}", "s://q?n=1&m=2", Some("n=1 m=2")),
        // Fragments
        ("d://x{#f}", "d://x#a/b?c", Some("f=a/b?c")),
        ("d://x{#f}", "d://x#", Some("f=")),
        ("d://x{#f}", "d://x", Some("")),
        ("d://{+p}{?q}{#f}", "d://a/b?q=1#z", Some("p=a/b q=1 f=z")),
        ("d://x#y{z}", "d://x#yes", Some("z=es")),
    ] {
        assert_eq!(captures(template, uri).as_deref(), expected, "{template} on {uri}");
    }
}

#[test]
fn ambiguous_templates_are_rejected() {
    for template in [
        "{a}{b}",
        "{+a}{b}",
        "{a}{+b}",
        "{a}{.b}",
        "{a}{;b}",
        "{/a*}{/b}",
        "{+a}{/b}",
        "{/a}{b}",
        "{+a,b}",
        "{#a,b}",
        "{+a*}",
        "{;a*}",
        "{a*,b}",
        "{/a*,b}",
        "{a:3}",
        "{?a}x",
        "{?a}{b}",
        "{?a}{?b}",
        "x?y{?a}",
        "{#a}x",
        "{#a}{?b}",
        "{#a}{#b}",
        "x?{+a}{&b}",
        // A variable that occurs twice, if a URI can omit it.
        "{a,d,p,d}",
        "{a,a}",
        "{/a,a}",
        "{.a}x{.a}",
        "{;a,a}",
        "{?a,a}",
        "{?a*}{&a*}",
        "{a}{?a}",
        "{a}{#a}",
        "{/a*}x{a*}",
        "{a}x{a*}",
    ] {
        let error = UriTemplate::parse(template).expect_err(template);
        assert_eq!(error.kind(), TemplateErrorKind::Ambiguous, "{template}: {error}");
        let lenient = UriTemplate::parse_for_expansion(template).unwrap();
        assert_eq!(lenient.matches("x"), None, "{template}");
    }
}

#[test]
fn a_uri_over_the_limit_does_not_match() {
    let template = UriTemplate::parse("a:{+x}").unwrap();
    let uri = |length: usize| format!("a:{}", "x".repeat(length - 2));
    assert!(template.matches(&uri(8 * 1024)).is_some());
    assert!(template.matches(&uri(8 * 1024 + 1)).is_none());
}

/// A small generator, so that every run sees the same values.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(bound).expect("small")).expect("small")
    }

    fn text(&mut self) -> String {
        const ALPHABET: &[char] =
            &['a', 'Z', '0', '/', '?', '#', '&', '=', '%', ' ', '+', ';', ',', 'é', '😀', '{', '"', '~', '\0'];
        let length = 1 + self.below(6);
        (0..length).map(|_| ALPHABET[self.below(ALPHABET.len())]).collect()
    }
}

#[test]
fn expanded_uris_match_their_template() {
    let mut random = Random(7);
    for template in [
        "x://{a}",
        "x://{a}/b/{b}",
        "x://{a,b}/{c}",
        "{a}:{/list*}",
        "x:{/a,b}/.",
        "x://{a}{?b,c}",
        "x://h{?list*,a}",
        "x://h?z=1{&a,b}{#c}",
        "x:{;a,b}",
        "x{#a}",
        "{list*}",
    ] {
        let parsed = UriTemplate::parse(template).unwrap();
        for _ in 0..300 {
            let mut vars = Vars::new();
            for name in parsed.variables() {
                if name == "list" {
                    let length = 1 + random.below(3);
                    vars.insert(name, (0..length).map(|_| random.text()).collect::<Vec<_>>());
                } else if template.contains("{#") {
                    // Reserved expansion keeps `%41` as it is, so a value must not look like one.
                    vars.insert(name, random.text().replace('%', "_"));
                } else {
                    vars.insert(name, random.text());
                }
            }
            let uri = parsed.expand(&vars);
            let found = parsed.matches(&uri).unwrap_or_else(|| panic!("{template} on {uri}"));
            assert_eq!(found.len(), vars.len(), "{template} on {uri}");
            for (name, value) in vars.iter() {
                assert_eq!(found.value(name), Some(value), "{name} in {template} on {uri}");
            }
        }
    }
}

#[test]
fn random_input_does_not_panic() {
    let mut random = Random(11);
    const PIECES: &[&str] =
        &["{", "}", "{a}", "{+b}", "{/c*}", "{?d}", "{&e}", "{#f}", "{;g}", "{.h}", "%", "%41", "é", "/", "?", "a"];
    for _ in 0..20_000 {
        let mut piece = || (0..random.below(7)).map(|_| PIECES[random.below(PIECES.len())]).collect::<String>();
        let (template, uri) = (piece(), piece());
        if let Ok(template) = UriTemplate::parse_for_expansion(&template) {
            template.matches(&uri);
            template.expand(&Vars::new().with("a", uri));
        }
    }
}
