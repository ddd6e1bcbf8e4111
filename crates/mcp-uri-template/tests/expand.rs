//! Expansion of URI templates: the examples of RFC 6570, levels 1 to 3 and lists of level 4.

use mcp_uri_template::{TemplateErrorKind, UriTemplate, VarValue, Vars};

fn variables() -> Vars {
    let texts = [
        ("dub", "me/too"),
        ("hello", "Hello World!"),
        ("half", "50%"),
        ("var", "value"),
        ("who", "fred"),
        ("base", "http://example.com/home/"),
        ("path", "/foo/bar"),
        ("v", "6"),
        ("x", "1024"),
        ("y", "768"),
        ("empty", ""),
        ("semi", ";"),
        ("dom", "example.com"),
    ];
    let mut vars: Vars = texts.into_iter().collect();
    vars.insert("list", vec!["red", "green", "blue"]);
    vars.insert("count", vec!["one", "two", "three"]);
    vars.insert("none", VarValue::List(Vec::new()));
    vars
}

#[test]
fn expands_the_examples_of_rfc_6570() {
    for (template, expected) in [
        // Level 1, simple strings
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("O{undef}X", "OX"),
        ("{x,y}", "1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("?{x,empty}", "?1024,"),
        ("?{x,undef}", "?1024"),
        ("?{undef,y}", "?768"),
        ("map?{x,y}", "map?1024,768"),
        ("{var:3}", "val"),
        ("{var:30}", "value"),
        ("{list}", "red,green,blue"),
        ("{list*}", "red,green,blue"),
        ("{none}", ""),
        // Level 2, reserved
        ("{+var}", "value"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("O{+empty}X", "OX"),
        ("O{+undef}X", "OX"),
        ("{+path}/here", "/foo/bar/here"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("up{+path}{var}/here", "up/foo/barvalue/here"),
        ("{+x,hello,y}", "1024,Hello%20World!,768"),
        ("{+path,x}/here", "/foo/bar,1024/here"),
        ("{+path:6}/here", "/foo/b/here"),
        ("{+list}", "red,green,blue"),
        ("{+list*}", "red,green,blue"),
        // Level 2 and 3, fragments
        ("X{#var}", "X#value"),
        ("X{#hello}", "X#Hello%20World!"),
        ("{#half}", "#50%25"),
        ("foo{#empty}", "foo#"),
        ("foo{#undef}", "foo"),
        ("{#x,hello,y}", "#1024,Hello%20World!,768"),
        ("{#path,x}/here", "#/foo/bar,1024/here"),
        ("{#list}", "#red,green,blue"),
        // Level 3, labels
        ("{.who}", ".fred"),
        ("{.who,who}", ".fred.fred"),
        ("{.half,who}", ".50%25.fred"),
        ("www{.dom}", "www.example.com"),
        ("X{.var}", "X.value"),
        ("X{.empty}", "X."),
        ("X{.undef}", "X"),
        ("X{.list}", "X.red,green,blue"),
        ("X{.list*}", "X.red.green.blue"),
        // Level 3, path segments
        ("{/who}", "/fred"),
        ("{/who,who}", "/fred/fred"),
        ("{/half,who}", "/50%25/fred"),
        ("{/who,dub}", "/fred/me%2Ftoo"),
        ("{/var}", "/value"),
        ("{/var,empty}", "/value/"),
        ("{/var,undef}", "/value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{/var:1,var}", "/v/value"),
        ("{/list}", "/red,green,blue"),
        ("{/list*}", "/red/green/blue"),
        ("{/count*}", "/one/two/three"),
        // Level 3, path parameters
        ("{;who}", ";who=fred"),
        ("{;half}", ";half=50%25"),
        ("{;empty}", ";empty"),
        ("{;v,empty,who}", ";v=6;empty;who=fred"),
        ("{;v,bar,who}", ";v=6;who=fred"),
        ("{;x,y}", ";x=1024;y=768"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{;x,y,undef}", ";x=1024;y=768"),
        ("{;hello:5}", ";hello=Hello"),
        ("{;list}", ";list=red,green,blue"),
        ("{;list*}", ";list=red;list=green;list=blue"),
        // Level 3, queries
        ("{?who}", "?who=fred"),
        ("{?half}", "?half=50%25"),
        ("{?x,y}", "?x=1024&y=768"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("{?x,y,undef}", "?x=1024&y=768"),
        ("{?var:3}", "?var=val"),
        ("{?list}", "?list=red,green,blue"),
        ("{?list*}", "?list=red&list=green&list=blue"),
        ("{&who}", "&who=fred"),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("{&list*}", "&list=red&list=green&list=blue"),
        // Literals
        ("", ""),
        ("plain/é%2f", "plain/%C3%A9%2f"),
    ] {
        let parsed = UriTemplate::parse_for_expansion(template).unwrap_or_else(|error| panic!("{template}: {error}"));
        assert_eq!(parsed.expand(&variables()), expected, "{template}");
        assert_eq!(parsed.to_string(), template);
    }
}

#[test]
fn malformed_templates_are_rejected() {
    for (template, position) in [
        ("a{b", 1),
        ("a}b", 1),
        ("{}", 1),
        ("{a", 0),
        ("{a{b}}", 1),
        ("{ a}", 1),
        ("{a,}", 1),
        ("{a b}", 1),
        ("{a-b}", 1),
        ("{.}", 1),
        ("{a.}", 1),
        ("{a..b}", 1),
        ("{=a}", 1),
        ("{!a}", 1),
        ("{|a}", 1),
        ("{a:0}", 1),
        ("{a:12345}", 1),
        ("{a:-1}", 1),
        ("{a:}", 1),
        ("{a**}", 1),
        ("{é}", 1),
        ("{%zz}", 1),
        ("a b", 1),
        ("a%2", 1),
        ("a<b", 1),
        ("a\nb", 1),
    ] {
        let error = UriTemplate::parse_for_expansion(template).expect_err(template);
        assert_eq!((error.kind(), error.position()), (TemplateErrorKind::Syntax, position), "{template}: {error}");
    }
    for template in ["{a.b}", "{a_1}", "{%41b}", "{1}", "it's"] {
        UriTemplate::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
    }
}

#[test]
fn size_is_limited() {
    let variables = |n: usize| (0..n).map(|n| format!("/{{v{n}}}")).collect::<String>();
    assert!(UriTemplate::parse(&variables(32)).is_ok());
    assert_eq!(UriTemplate::parse(&variables(33)).unwrap_err().kind(), TemplateErrorKind::Limit);
    assert!(UriTemplate::parse(&"a".repeat(1024)).is_ok());
    assert_eq!(UriTemplate::parse(&"a".repeat(1025)).unwrap_err().kind(), TemplateErrorKind::Limit);
}

#[test]
fn variables_are_listed_once_in_order() {
    let template = UriTemplate::parse_for_expansion("x://{b}/{a}/{b}{?c,a}{#d}").unwrap();
    assert_eq!(template.variables().collect::<Vec<_>>(), ["b", "a", "c", "d"]);
    assert_eq!(UriTemplate::parse("x://y").unwrap().variables().count(), 0);
}
