//! Generates a module of rules that call builtins on the results of earlier rules. Each byte of the input is one choice
//! of the generator. The evaluation of the module may fail, but the memory of the process stays within
//! [`MAX_PROCESS_BYTES`].

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::embedded::Embedded;
use policy_sync_rego::module::{ModuleId, Text};
use regorus::unstable::BUILTINS;
use serde_json::json;

/// The limit of the process in bytes. An evaluation may take 32 MiB; the rest is for the process and for the
/// serialized result.
const MAX_PROCESS_BYTES: usize = 512 << 20;
/// The maximum number of rules.
const RULES: usize = 24;

/// Builtins with large results: name, argument types and result type. Types: `s` text, `n` number, `a` array,
/// `t` set, `o` object, `f` format, `b` boolean, `j` token, `k` keys, `c` constraints of a token, `y` YAML.
/// Further types: `m` JSON Schema, `g` a query and `h` a schema of GraphQL, `x` certificates, `q` private
/// keys, `w` options for a chain of certificates.
const LARGE: [(&str, &str, char); 78] = [
    ("concat", "sa", 's'),
    ("concat", "st", 's'),
    ("replace", "sss", 's'),
    ("split", "ss", 'a'),
    ("sprintf", "fa", 's'),
    ("upper", "s", 's'),
    ("strings.reverse", "s", 's'),
    ("strings.replace_n", "os", 's'),
    ("indexof_n", "ss", 'a'),
    ("base64.encode", "s", 's'),
    ("base64.decode", "s", 's'),
    ("base64url.encode", "s", 's'),
    ("hex.encode", "s", 's'),
    ("hex.decode", "s", 's'),
    ("json.marshal", "a", 's'),
    ("json.marshal", "o", 's'),
    ("json.marshal_with_options", "ao", 's'),
    ("json.unmarshal", "s", 'a'),
    ("json.filter", "oa", 'o'),
    ("json.remove", "oa", 'o'),
    ("json.patch", "oa", 'o'),
    ("object.union", "oo", 'o'),
    ("object.union_n", "a", 'o'),
    ("object.keys", "o", 't'),
    ("array.concat", "aa", 'a'),
    ("array.reverse", "a", 'a'),
    ("array.slice", "ann", 'a'),
    ("sort", "a", 'a'),
    ("numbers.range", "nn", 'a'),
    ("net.cidr_expand", "s", 'a'),
    ("regex.globs_match", "ss", 'b'),
    ("regex.replace", "sss", 's'),
    ("regex.split", "ss", 'a'),
    ("regex.find_n", "ssn", 'a'),
    ("regex.find_all_string_submatch_n", "ssn", 'a'),
    ("graph.reachable_paths", "oa", 't'),
    ("glob.match", "sas", 'b'),
    ("graphql.parse", "gh", 'a'),
    ("graphql.parse_and_verify", "oo", 'a'),
    ("graphql.parse_query", "g", 'o'),
    ("graphql.parse_schema", "h", 'o'),
    ("graphql.is_valid", "oh", 'b'),
    ("graphql.schema_is_valid", "h", 'b'),
    ("format_int", "nn", 's'),
    ("bits.lsh", "nn", 'n'),
    ("array.flatten", "a", 'a'),
    ("crypto.sha256", "s", 's'),
    ("crypto.hmac.sha512", "ss", 's'),
    ("crypto.parse_private_keys", "q", 'a'),
    ("crypto.x509.parse_and_verify_certificates", "x", 'a'),
    ("crypto.x509.parse_and_verify_certificates_with_options", "xw", 'a'),
    ("crypto.x509.parse_certificate_request", "x", 'o'),
    ("crypto.x509.parse_certificates", "x", 'a'),
    ("crypto.x509.parse_keypair", "xq", 'o'),
    ("crypto.x509.parse_rsa_private_key", "q", 'o'),
    ("internal.template_string", "a", 's'),
    ("io.jwt.decode", "j", 'a'),
    ("io.jwt.decode_verify", "jc", 'a'),
    ("io.jwt.verify_eddsa", "jk", 'b'),
    ("io.jwt.verify_es512", "jk", 'b'),
    ("io.jwt.verify_hs256", "jk", 'b'),
    ("io.jwt.verify_ps512", "jk", 'b'),
    ("io.jwt.verify_rs256", "jk", 'b'),
    ("json.match_schema", "am", 'a'),
    ("json.match_schema", "om", 'a'),
    ("json.verify_schema", "m", 'a'),
    ("net.cidr_contains_matches", "aa", 't'),
    ("net.cidr_merge", "a", 't'),
    ("strings.split_n", "ssn", 'a'),
    ("time.parse_duration_ns", "s", 'n'),
    ("uri.parse", "s", 'o'),
    ("urlquery.decode_object", "s", 'o'),
    ("urlquery.encode", "s", 's'),
    ("urlquery.encode_object", "o", 's'),
    ("uuid.parse", "s", 'o'),
    ("yaml.marshal", "o", 's'),
    ("yaml.unmarshal", "s", 'o'),
    ("yaml.unmarshal", "y", 'a'),
];

/// An element of DER.
fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = match u16::try_from(contents.len()).unwrap_or(u16::MAX).to_be_bytes() {
        [0, length @ ..0x80] => vec![length],
        [0, length] => vec![0x81, length],
        [first, last] => vec![0x82, first, last],
    };
    [&[tag][..], &length, contents].concat()
}

/// A certificate whose extension `subjectAltName` contains `names`, which are encoded in DER.
fn certificate(names: &[u8]) -> Vec<u8> {
    let algorithm = element(0x30, &[6, 3, 0x2b, 0x65, 0x70]);
    let key = element(0x30, &[&algorithm[..], &element(3, &[0; 33])].concat());
    let times = element(0x30, &element(0x17, b"200101000000Z").repeat(2));
    let name = element(0x30, &element(0x31, &element(0x30, &[6, 3, 0x55, 4, 3, 12, 1, b'a'])));
    let names = element(4, &element(0x30, names));
    let extension = element(0x30, &[&[6, 3, 0x55, 0x1d, 0x11][..], &names].concat());
    let extensions = element(0xa3, &element(0x30, &extension));
    let serial_number = [0xa0, 3, 2, 1, 2, 2, 1, 1];
    let parts = [&serial_number[..], &algorithm, &name, &times, &name, &key, &extensions].concat();
    element(0x30, &[element(0x30, &parts), algorithm, element(3, &[0])].concat())
}

/// `der` in base64, with up to four changed bytes. Three bytes of `data` select each change.
fn mutated(mut der: Vec<u8>, data: &[u8]) -> String {
    for change in data.rchunks_exact(3).take(4) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % der.len();
        der[at] = change[2];
    }
    STANDARD.encode(der)
}

pub fn body(data: &[u8]) {
    let text = Module::of(data);
    let id = ModuleId::new("m.rego");
    let bundle = Bundle::read(&[Text { id, text: text.as_str().into() }]);
    let bundle = bundle.unwrap_or_else(|faults| panic!("{faults:?} in {text}"));
    let engine = Embedded::new(&bundle, json!({}).into()).unwrap_or_else(|fault| panic!("{fault} in {text}"));
    let input = json!({
        "text": "a-label.of.sixty-three.characters/0123456789/0123456789/012345",
        "list": ["a", "b/c", ["a", "b"], {"op": "add", "path": "/a", "value": {"b": [1]}}],
        "object": {"a": {"b": ["a", "b"]}, "b": ["a", "c"], "c": ["b", "a"]},
        "header": "{\"alg\":\"RS256\",\"cty\":\"JWT\",\"crit\":[\"alg\"]}",
        "key": {"kty": "RSA", "n": "-".repeat(1_364), "e": "AQAB"},
        "signature": "B".repeat(1_364),
        "certificate": STANDARD.encode(certificate(&[0x82, 1, b'a'])),
        "mutated": mutated(certificate(&[0x86, 3, b'a', b':', b'b', 0x87, 4, 10, 0, 0, 1]), data),
        "uris": STANDARD.encode(certificate(&[0x86, 0].repeat(24_000))),
        "private": mutated([&[0x30, 46, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 34, 4, 32][..], &[1; 32]].concat(), data),
        "point": {
            "kty": "EC",
            "crv": "P-256",
            "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
            "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU",
        },
    });
    if let Ok(Some(value)) = engine.query_value("data.fuzz", &input.into()) {
        // Serialize the result. JSON cannot represent some integers.
        if let Ok(written) = serde_json::to_value(&value) {
            drop((written.to_string(), written));
        }
    }
    let peak = peak();
    assert!(peak <= MAX_PROCESS_BYTES, "{peak} bytes, after {text}");
}

/// The peak memory of this process in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or(0) << 10
}

struct Module<'d> {
    choices: std::slice::Iter<'d, u8>,
    /// The result types of the rules so far.
    rules: Vec<char>,
    text: String,
}

impl<'d> Module<'d> {
    fn of(data: &'d [u8]) -> String {
        let mut module = Self {
            choices: data.iter(),
            rules: Vec::new(),
            text: "package fuzz\nimport rego.v1\nd(s) := concat(\"\", [s, s, s, s, s, s, s, s])\n\
                   n(v) := [v, v, v, v, v, v, v, v]\n"
                .to_owned(),
        };
        while module.choices.len() > 0 && module.rules.len() < RULES {
            module.rule();
        }
        module.text
    }

    /// The next choice, below `most`.
    fn choice(&mut self, most: usize) -> usize {
        usize::from(self.choices.next().copied().unwrap_or_default()) % most.max(1)
    }

    fn rule(&mut self) {
        let (value, kind) = match self.choice(8) {
            0..4 => self.large(),
            4 => self.any(),
            5 => (self.collection(), 'a'),
            6 => self.comprehension(),
            _ => (format!("d(d({}))", self.value('s')), 's'),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "r{} := {value}", self.rules.len());
        self.rules.push(kind);
    }

    fn large(&mut self) -> (String, char) {
        let choice = self.choice(LARGE.len());
        let (name, takes, gives) = LARGE[choice];
        let arguments: Vec<String> = takes.chars().map(|kind| self.value(kind)).collect();
        (format!("{name}({})", arguments.join(", ")), gives)
    }

    /// Any builtin, with any arguments.
    fn any(&mut self) -> (String, char) {
        const FORBIDDEN: [&str; 2] = ["rand.intn", "time.now_ns"];
        let choice = self.choice(256);
        let names = BUILTINS.iter().filter(|(name, _)| !name.starts_with("__") && !FORBIDDEN.contains(name));
        let all: Vec<_> = names.collect();
        let (name, (_, arity)) = all[choice % all.len()];
        let arguments: Vec<String> = (0..*arity)
            .map(|_| {
                let kind = ['s', 'n', 'a', 't', 'o'][self.choice(5)];
                self.value(kind)
            })
            .collect();
        (format!("{name}({})", arguments.join(", ")), ['s', 'n', 'a', 't', 'o'][self.choice(5)])
    }

    fn collection(&mut self) -> String {
        let kind = ['s', 'a', 'o', 't'][self.choice(4)];
        let value = self.value(kind);
        match self.choice(4) {
            0 => format!("n({value})"),
            1 => format!("n(n({value}))"),
            2 => format!("[{value}, {{\"a\": {value}, \"b\": {value}}}]"),
            _ => format!("[{value}, {{{value}, [{value}]}}]"),
        }
    }

    fn comprehension(&mut self) -> (String, char) {
        let (first, second) = (self.value('a'), self.value('a'));
        let many = format!("some x in {first}; some y in {second}; some z in numbers.range(1, 100)");
        match self.choice(4) {
            0 => (format!("[[x, y, z] | {many}]"), 'a'),
            1 => (format!("{{[x, y, z] | {many}}}"), 't'),
            2 => (format!("{{sprintf(\"%v%v\", [x, z]): 1 | {many}}}"), 'o'),
            _ => (format!("[sprintf(\"%v%d\", [y, z]) | {many}]"), 'a'),
        }
    }

    /// A value of the type `kind`: the result of an earlier rule, a constant, or a part of the input.
    fn value(&mut self, kind: char) -> String {
        let of_rule = if kind == 'j' || kind == 'k' { 's' } else { kind };
        let rules: Vec<usize> = (0..self.rules.len()).filter(|at| self.rules[*at] == of_rule).collect();
        let choice = self.choice(8);
        if choice < 6 && !rules.is_empty() {
            // Usually selects the last of these rules, because its result is the largest.
            let back = if choice < 4 { 0 } else { self.choice(rules.len()) };
            return format!("r{}", rules[rules.len() - 1 - back]);
        }
        let of = |values: &[&str]| values[choice % values.len()].to_owned();
        match kind {
            's' => of(&[
                "input.text",
                "\"\"",
                "\"a\"",
                "\"/\"",
                "\"$0$0$0\"",
                "\"10.0.0.0/18\"",
                "\"(a|b)*\"",
                "\"é\\n\\\"\"",
            ]),
            'f' => of(&[
                "\"%v\"",
                "\"%s%s\"",
                "\"%q\"",
                "\"%1000d\"",
                "\"%x %v\"",
                "\"%.3f\"",
                "\"%d%%\"",
                "input.text",
            ]),
            'j' => {
                let payload = self.value('s');
                let encoded = |text: &str| format!("base64url.encode_no_pad({text})");
                let (header, payload) = (encoded("input.header"), encoded(&payload));
                let signature = of(&["input.signature", "\"\"", "input.text"]);
                format!("concat(\".\", [{header}, {payload}, {signature}])")
            }
            'k' => of(&[
                "json.marshal(input.key)",
                "json.marshal({\"keys\": [input.key, input.point]})",
                "json.marshal({\"keys\": [input.key | some x in numbers.range(1, 50)]})",
                "json.marshal({\"keys\": [input.point | some x in numbers.range(1, 1001)]})",
                "\"-----BEGIN PUBLIC KEY-----\\n\\n-----END PUBLIC KEY-----\"",
            ]),
            'y' => {
                let text = self.value('s');
                let document = of(&[
                    "\"- \"",
                    "\"a: &a [*a, \"",
                    "\"a: &a [b]\\nb: &b [*a, *a, *a, *a]\\nc: &c [*b, *b, *b, *b]\\nd: [*c, *c, *c, *c]\\n# \"",
                    "\"{a: \\\"\"",
                    "\"- |\\n a\\n \"",
                ]);
                format!("concat(\"\", [{document}, {text}, {document}])")
            }
            'g' => {
                let text = of(&[
                    "\"a \"",
                    "\"a(b: [[1]]) {a} \"",
                    "\"...F \"",
                    "\"x: a @skip(if: true) \"",
                    "\"# \\n\"",
                ]);
                format!("concat(\"\", [\"{{ \", d(d({text})), \"}} fragment F on Query {{ a }}\"])")
            }
            'h' => {
                let text = of(&["\"a: Int \"", "\"b(a: Int = 1): [Query!]! \"", "\"\"", "\"# \\n\""]);
                format!("concat(\"\", [\"type Query {{ a: Int \", d(d({text})), \"}}\"])")
            }
            'c' => {
                let keys = self.value('k');
                format!("{{\"cert\": {keys}, \"time\": 1}}")
            }
            'm' => {
                let (object, text) = (self.value('o'), self.value('s'));
                of(&[
                    &format!("{{\"$ref\": \"#\", \"items\": {object}}}"),
                    &format!("{{\"items\": {{\"enum\": [{object}, {text}]}}, \"uniqueItems\": true}}"),
                    &format!(
                        "{{\"additionalProperties\": {{\"pattern\": {text}, \"$ref\": \"#/d\"}}, \"d\": {object}}}"
                    ),
                    "{\"$ref\": \"#/d/x0\", \"d\": {sprintf(\"x%d\", [i]): {\"allOf\": [{\"$ref\": r}, {\"$ref\": r}]} | some i in numbers.range(0, 90); r := sprintf(\"#/d/x%d\", [(i + 1) % 91])}}",
                    "{\"$ref\": \"#/d/x0\", \"d\": object.union({\"x40\": {\"type\": \"null\"}}, {sprintf(\"x%d\", [i]): {\"allOf\": [{\"$ref\": r}, {\"$ref\": r}]} | some i in numbers.range(0, 39); r := sprintf(\"#/d/x%d\", [i + 1])})}",
                    "{\"items\": {\"oneOf\": [{\"type\": \"null\"} | some i in numbers.range(1, 1000)]}}",
                    &format!("json.marshal({object})"),
                    &format!(
                        "{{\"dependencies\": {object}, \"propertyNames\": {{\"format\": \"regex\", \"const\": {text}}}}}"
                    ),
                ])
            }
            'x' => {
                let text = self.value('s');
                let block = |text: &str| {
                    format!(
                        "sprintf(\"-----BEGIN CERTIFICATE-----\\n%s\\n-----END CERTIFICATE-----\\n\", [{text}])"
                    )
                };
                match choice {
                    0 => "input.certificate".to_owned(),
                    1 => "input.uris".to_owned(),
                    2 => block("input.certificate"),
                    3 => format!("concat(\"\", [{0}, {0}, {text}])", block("input.certificate")),
                    4 => block(&text),
                    5 => format!("base64.encode({text})"),
                    _ => "input.mutated".to_owned(),
                }
            }
            'q' => {
                let block = |label: &str, text: &str| {
                    format!("sprintf(\"-----BEGIN {label}-----\\n%s\\n-----END {label}-----\\n\", [{text}])")
                };
                match choice {
                    0 => "input.private".to_owned(),
                    1 => block("RSA PRIVATE KEY", &self.value('s')),
                    2 => block("EC PRIVATE KEY", "input.private"),
                    _ => block("PRIVATE KEY", "input.private"),
                }
            }
            'w' => of(&[
                "{}",
                "{\"KeyUsages\": [\"KeyUsageAny\"]}",
                "{\"DNSName\": input.text, \"CurrentTime\": 1}",
            ]),
            'n' => of(&["0", "1", "-1", "16", "100000", "1e20", "count(input.text)", "65536"]),
            't' => of(&["{1, 2}", "{\"a\", \"b\"}", "{{1}, {2}}", "set()"]),
            'o' => of(&[
                "input.object",
                "{\"a\": \"aa\", \"b\": \"bb\"}",
                "{\"prefix\": input.text, \"pretty\": true}",
                "{}",
            ]),
            _ => of(&[
                "input.list",
                "[input.text, input.text]",
                "[\"a\", \"a/b\"]",
                "[input.object, input.object]",
            ]),
        }
    }
}
