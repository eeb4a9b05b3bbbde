//! Runs the same queries in the embedded engine and in a real OPA. The results must be equal, or the case
//! must name the difference and its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::confined::checked;
use policy_sync_rego::embedded::{Embedded, EvaluationResult};
use policy_sync_rego::engine::EngineKind;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_testenv::Opa;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The folder of the cases, with a file for each subject.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rego/differential");
/// The minimum number of cases.
const COUNT: usize = 150;

/// A query for both engines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    modules: BTreeMap<String, String>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    input: Option<Value>,
    /// The query. The default is the package of the first module.
    #[serde(default)]
    query: Option<String>,
    expect: Expected,
    /// OPA's result, if it differs from `expect`.
    #[serde(default)]
    opa: Option<Expected>,
    /// The reason for the difference.
    #[serde(default)]
    why: Option<String>,
}

/// The result of an engine.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Expected {
    /// A value, in which sets are lists.
    Answer(Value),
    /// The query is undefined.
    Undefined(bool),
    /// The evaluation fails with an error that contains this text.
    Fails(String),
    /// The modules are rejected with an error that contains this text.
    Refused(String),
}

impl Expected {
    fn is_met_by(&self, found: &Self) -> bool {
        match (self, found) {
            (Self::Fails(part), Self::Fails(error)) | (Self::Refused(part), Self::Refused(error)) => {
                error.contains(part)
            }
            _ => self == found,
        }
    }
}

fn cases() -> Result<Vec<(String, Case)>> {
    let mut files: Vec<_> = fs::read_dir(CASES)?.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let file_name = name(&file).unwrap_or_default();
        let text = fs::read_to_string(&file)?;
        let of_file: Vec<Case> =
            serde_saphyr::from_str(&text).with_context(|| format!("reading {file_name}"))?;
        cases.extend(of_file.into_iter().map(|case| (format!("{file_name}: {}", case.name), case)));
    }
    Ok(cases)
}

fn embedded(case: &Case) -> Result<(Expected, Vec<Text>)> {
    let texts: Vec<Text> = case
        .modules
        .iter()
        .map(|(id, text)| Text { id: ModuleId::new(id), text: text.as_str().into() })
        .collect();
    let (found, bundle) = (checked(&texts, EngineKind::Embedded, &Default::default()), Bundle::read(&texts));
    if !found.faults.is_empty() {
        // If the embedded engine rejects the modules, OPA gets the modules unchanged.
        let for_opa = bundle.map_or(texts, |bundle| bundle.for_opa());
        return Ok((Expected::Refused(found.faults.to_string()), for_opa));
    }
    let bundle = bundle.map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let data = case.data.clone().unwrap_or_else(|| json!({}));
    let engine = Embedded::new(&bundle, data.into())?;
    let input = case.input.clone().map_or(regorus::Value::Undefined, Into::into);
    let found = match engine.evaluate(&query(case)?, &input).map(EvaluationResult::into_value) {
        Ok(Some(value)) => Expected::Answer(serde_json::to_value(value)?),
        Ok(None) => Expected::Undefined(true),
        Err(failure) => Expected::Fails(failure.to_string()),
    };
    Ok((found, bundle.for_opa()))
}

fn query(case: &Case) -> Result<String> {
    if let Some(query) = &case.query {
        return Ok(query.clone());
    }
    let (_, text) = case.modules.first_key_value().context("no module")?;
    let package = text.lines().find_map(|line| line.strip_prefix("package ")).context("no package")?;
    Ok(format!("data.{}", package.trim()))
}

async fn opa(opa: &Opa, case: &Case, texts: &[Text]) -> Result<Expected> {
    let (_, policies) = opa.ask("GET", "/v1/policies", Vec::new()).await?;
    for policy in policies["result"].as_array().into_iter().flatten() {
        let path = format!("/v1/policies/{}", policy["id"].as_str().unwrap_or_default());
        opa.ask("DELETE", &path, Vec::new()).await?;
    }
    let data = case.data.clone().unwrap_or_else(|| json!({}));
    let (status, response) = opa.ask("PUT", "/v1/data", serde_json::to_vec(&data)?).await?;
    ensure!(status.is_success(), "OPA rejects the data: {response}");
    // OPA compiles each module together with the modules before it. A module that fails is compiled again after the
    // other modules.
    let mut left: Vec<&Text> = texts.iter().collect();
    while !left.is_empty() {
        let (before, mut refusal) = (left.len(), None);
        for text in std::mem::take(&mut left) {
            let path = format!("/v1/policies/{}", text.id.as_str().replace('/', "-"));
            let (status, response) = opa.ask("PUT", &path, text.text.as_bytes().to_vec()).await?;
            if !status.is_success() {
                refusal = Some(response.to_string());
                left.push(text);
            }
        }
        if let Some(error) = refusal.filter(|_| left.len() == before) {
            return Ok(Expected::Refused(error));
        }
    }
    let mut question = json!({"query": format!("answer = {}", query(case)?)});
    if let Some(input) = &case.input {
        question["input"] = input.clone();
    }
    let (status, response) = opa.ask("POST", "/v1/query", serde_json::to_vec(&question)?).await?;
    if !status.is_success() {
        return Ok(Expected::Fails(response.to_string()));
    }
    Ok(match response["result"].as_array().map(Vec::as_slice) {
        None | Some([]) => Expected::Undefined(true),
        Some([one]) => Expected::Answer(one["answer"].clone()),
        Some(_) => bail!("more than one result: {response}"),
    })
}

#[tokio::test]
async fn both_engines_return_the_same_results() -> Result<()> {
    let (cases, server) = (cases()?, Opa::start().await?);
    ensure!(cases.len() >= COUNT, "there are {} cases", cases.len());
    let mut wrong = Vec::new();
    for (name, case) in &cases {
        let (found, texts) = embedded(case).with_context(|| name.clone())?;
        if !case.expect.is_met_by(&found) {
            wrong.push(format!("{name}: embedded: {found:?}"));
        }
        if case.opa.is_some() != case.why.is_some() {
            wrong.push(format!("{name}: `opa` and `why` require each other"));
        }
        let from_opa = opa(&server, case, &texts).await.with_context(|| name.clone())?;
        let is_refused = matches!((&case.expect, &from_opa), (Expected::Refused(_), Expected::Refused(_)));
        let is_failed = matches!((&case.expect, &from_opa), (Expected::Fails(_), Expected::Fails(_)));
        let is_expected = match &case.opa {
            Some(expected) => expected.is_met_by(&from_opa) && *expected != case.expect,
            // The engines have different error messages, so only the failure itself is compared.
            None => is_refused || is_failed || case.expect == from_opa,
        };
        if !is_expected {
            wrong.push(format!("{name}: OPA: {from_opa:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Verbs of `sprintf` with flags, widths and precisions.
const FORMATS: [&str; 56] = [
    "%s", "%v", "%d", "%f", "%F", "%.2f", "%e", "%.1e", "%E", "%g", "%.3g", "%G", "%x", "%X", "%o", "%O",
    "%b", "%c", "%q", "%t", "%T", "%U", "%z", "%5d|", "%05d|", "%-5d|", "%+d", "%8.2f|", "%08.2f|",
    "%-8.1f|", "%+.1f", "% d", "%#v", "%+v", "%6s|", "%-6s|", "%06s|", "%.1s", "%06v|", "%.0d|", "%.3d",
    "%+q", "%#q", "%#U", "%#b", "%#o", "%#.3o", "%#06x", "%+#v", "%[1]5d", "%#x|", "%#f", "%#.0f", "%#g",
    "%#.3g", "%#e",
];
/// Values in Rego.
const VALUES: [&str; 26] = [
    "100",
    "-7",
    "0",
    "3.5",
    "-2.25",
    "1.0",
    "0.1",
    "1000000",
    "1000000.5",
    "1e-7",
    "9007199254740993",
    "9223372036854775808",
    "123456789012345678901234567890",
    "-123456789012345678901",
    "`a`",
    "`é1 \\`",
    "`\"'`",
    "true",
    "null",
    "[1,`b`]",
    "[]",
    "{`a`: 1.5, `b`: [`\"`]}",
    "{}",
    "{1}",
    "{2, `x`}",
    "set()",
];

#[tokio::test]
async fn sprintf_formats_each_value_as_in_opa() -> Result<()> {
    let mut module = "package a\n\np := {\n".to_owned();
    for format in FORMATS {
        for value in VALUES {
            let name = json!(format!("{format} of {value}"));
            module.push_str(&format!("\t{name}: sprintf(\"{format}\", [{value}]),\n"));
        }
    }
    module.push_str("}\n");
    let (own, opa) = both(module, None).await?;
    ensure!(own.len() == FORMATS.len() * VALUES.len() && own.len() == opa.len(), "{} results", own.len());
    differences(&own, &opa)
}

/// Valid and invalid regular expressions.
const PATTERNS: [&str; 54] = [
    r"^\d+$",
    r"^\w+$",
    r"^\W$",
    r"^[\w-]+$",
    r"^[^\W\d]+$",
    r"\s",
    r"\S",
    r"[\s]",
    r"\bü",
    r"\b",
    r"\B",
    r"^\pL+$",
    r"^\p{^Greek}$",
    r"[\pN_]",
    r"\p{Any}",
    "a{",
    "a{,2}",
    "a{2,}",
    "a{01}",
    "a{2}",
    r"\Qa.b*\E+",
    r"\Q[",
    "[a[b]",
    "[a[b]]",
    "[a&&b]",
    "[+--]",
    "[]a]",
    "[a-]",
    "[^a-c]",
    "[[:alpha:]_]",
    "[[:^alpha:]]",
    "[[:no:]]",
    r"\<",
    r"\101",
    r"\x41",
    r"\x{e9}",
    r"\1",
    r"\u0041",
    r"\é",
    "(?i)ÄB",
    "(?s)^.$",
    "(?m)^b$",
    "a$",
    "(?P<n>a)(?:b)",
    "(?<n>a)",
    "(?x)a",
    "(?=a)",
    "(?U)a+",
    "a**",
    "a*?",
    "(a|b)*",
    "}]",
    ".",
    "",
];
/// Texts to search with [`PATTERNS`].
const TEXTS: [&str; 20] = [
    "", "a", "aa", "ab", "abab", "a b\tc", "34", "٣٤", "müller", "aü", "ÄB äb", "α", "a{", "a{,2}", "a.b**",
    "[]&-+,", "A", "é<}]", "a\nb\n", "\u{b}",
];

#[tokio::test]
async fn patterns_find_the_same_as_in_opa() -> Result<()> {
    let module = r#"package a

p[name] := result if {
	some pattern in input.patterns
	some text in input.texts
	name := sprintf("%v", [[pattern, text]])
	result := [
		regex.match(pattern, text),
		regex.split(pattern, text),
		regex.find_n(pattern, text, -1),
		regex.find_n(pattern, text, 1),
		regex.find_all_string_submatch_n(pattern, text, 2),
		regex.replace(text, pattern, "<$0${n}$1>"),
	]
}

p[pattern] := [regex.is_valid(pattern), templates] if {
	some pattern in input.patterns
	templates := [matches |
		some text in input.texts
		matches := regex.template_match(concat("", ["x.<", pattern, ">"]), concat("", ["x.", text]), "<", ">")
	]
}
"#;
    let (own, opa) =
        both(module.to_owned(), Some(json!({"patterns": PATTERNS.as_slice(), "texts": TEXTS.as_slice()})))
            .await?;
    ensure!(own.len() > 40 * TEXTS.len(), "{} results", own.len());
    differences(&own, &opa)
}

/// Globs with each construct.
const GLOBS: [&str; 40] = [
    "",
    "*",
    "**",
    "***",
    "?",
    "a?c",
    "a*c",
    "a**c",
    "*.b",
    "**.b",
    "a/*",
    "a/**",
    "a/**/b",
    "*/b",
    "[a-c]",
    "[!a-c]",
    "[abc]",
    "[!abc]",
    "[a-cx]",
    "[c-a]",
    "[]",
    "[!]",
    "[a",
    "[a-",
    "[-a]",
    "[ü-ÿ]",
    "{a,b}",
    "{a,}",
    "{,a}c",
    "{a,{b,c}}",
    "{a",
    "a}",
    "a,b",
    r"\*",
    r"\a",
    r"a\",
    r"[\]]",
    "{*.b,?}",
    "ü?",
    "{ab,a}*",
];
/// Texts for the globs.
const GLOBBED: [&str; 24] = [
    "", "a", "b", "c", "x", "ab", "ac", "abc", "a.c", "a/c", "a.b", "x.a.b", "a/b", "a/x/b", "a/x/y/b",
    "a,b", "a}", "{a", "*", "\\", "]", "-", "ü", "üé",
];

#[tokio::test]
async fn globs_match_the_same_as_in_opa() -> Result<()> {
    let module = r#"package a

p[name] := result if {
	some pattern in input.globs
	some text in input.texts
	name := sprintf("%v", [[pattern, text]])
	result := [matches |
		some delimiters in [null, [], ["/"], [".", "/"], ["ü"]]
		matches := [delimiters, glob.match(pattern, delimiters, text)]
	]
}
"#;
    let input = json!({"globs": GLOBS.as_slice(), "texts": GLOBBED.as_slice()});
    let (own, opa) = both(module.to_owned(), Some(input)).await?;
    ensure!(own.len() == GLOBS.len() * GLOBBED.len(), "{} results", own.len());
    differences(&own, &opa)
}

/// Arguments of builtins with one argument.
const ARGUMENTS: [&str; 100] = [
    "",
    "a",
    "a b+c%20d*e~f",
    "%",
    "%4",
    "%zz",
    "%41+b",
    "%ff",
    "a=1&b=2&a=3",
    "a&&=b&c=",
    "a=b;c",
    "a=%zz",
    "ü=é&/?=:",
    "https://example.com:8080/api?q=1#top",
    "HTTP://EXAMPLE.com",
    "http://a:b@c:1",
    "http://a<@c",
    "http://u%41:p%zz@h",
    "mailto:a@b",
    "//host/path",
    "///path",
    "/a%2Fb",
    "/a%41b",
    "/a b",
    "a:b",
    "./a:b",
    ":a",
    "1a:b",
    "*",
    "?a",
    "?",
    "a?b?c",
    "#",
    "#a%",
    "http://[::1]:80/a",
    "http://[::1%25eth0]",
    "http://[::1%25]",
    "http://[1.2.3.4]",
    "http://[a",
    "http://a]b",
    "http://a[b]",
    "http://a:b",
    "http://a:1:2",
    "x://a:1:2",
    "http://a:",
    "http://a%41",
    "http://%C3%BC",
    "http://a b",
    "http://a\tb",
    "http://ü/ü",
    "a\u{7f}",
    "00000000-0000-4000-8000-000000000000",
    "{000003e8-48b9-21ee-b200-325096b39f47}",
    "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "6BA7B8109DAD11D180B400C04FD430C8",
    "00000000-0000-4000-8000-00000000000g",
    "00000000x0000-4000-8000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "00000000-0000-1000-c000-ff0000000000",
    "1h",
    "-1.5h",
    "1d",
    "1.5w",
    "1y2d",
    "1",
    "0",
    "-0",
    "+1s",
    ".5m",
    "1.h",
    "1µs1μs",
    "10e1s",
    "106751d24h",
    "9999999999999h",
    "01",
    "00.5",
    "1.",
    ".5",
    "-.5",
    "1.e3",
    " 1",
    "YQ==",
    "YR==",
    "YQ==YQ==",
    "YQ==\n",
    "/w==",
    "1.2.3",
    "v1.2.3-a",
    "9223372036854775808.0.0",
    "0.29h",
    "19.2d",
    "-16.57m",
    "0.57y",
    "2562047h47m16.854775807s",
    "%e9%A0",
    "http://a/%E9",
    "[1e400]",
    r#"["\ud800"]"#,
    r#"["\u0031"]"#,
    "aXbXc",
];

#[tokio::test]
async fn added_builtins_give_the_same_as_in_opa() -> Result<()> {
    let module = r#"package a

single[name] := result if {
	some x in input.arguments
	name := sprintf("%v", [x])
	result := [r |
		some r in [
			["is_valid", uri.is_valid(x)],
			["encode", urlquery.encode(x)],
			["encode_object", urlquery.encode_object({x: [x, "b"], "z": {x}, "y": x})],
			["md5", crypto.md5(x)],
			["sha1", crypto.sha1(x)],
			["sha256", crypto.sha256(x)],
			["hmac", crypto.hmac.md5(x, "k"), crypto.hmac.sha1(x, x), crypto.hmac.sha256("", x), crypto.hmac.sha512(x, "k")],
			["equal", crypto.hmac.equal(x, "a")],
			["json", json.is_valid(x)],
			["cidr", net.cidr_is_valid(x)],
			["split", [strings.split_n(x, d, n) | some d in ["", "a", ":"]; some n in [-9, -2, -1, 0, 1, 2, 9]]],
			["replace", strings.replace_n({"a": "b", "b": "ab", "ht": "", "htt": "x"}, x), strings.replace_n({"": "-", "a": "b"}, x)],
		]
	]
}

parsed[x] := uri.parse(x) if some x in input.arguments

decoded[x] := urlquery.decode(x) if some x in input.arguments

decoded_object[x] := urlquery.decode_object(x) if some x in input.arguments

uuids[x] := uuid.parse(x) if some x in input.arguments

durations[x] := time.parse_duration_ns(x) if some x in input.arguments

read_numbers[x] := [n | some n in [1, 0.5, -0.5, 1000]; to_number(x) == n] if some x in input.arguments

bases[x] := base64.decode(x) if some x in input.arguments

versions[x] := [semver.is_valid(x), [semver.compare(x, y) | some y in ["1.2.3", "v1.2.4"]]] if some x in input.arguments

contained[name] := result if {
	some one in input.networks
	some other in input.networks
	name := sprintf("%v", [[one, other]])
	result := net.cidr_contains(one, other)
}

intersects[name] := result if {
	some one in input.networks
	some other in input.networks
	name := sprintf("%v", [[one, other]])
	result := net.cidr_intersects(one, other)
}

# OPA ends with a panic for networks of mapped addresses.
merged[name] := result if {
	some one in input.networks
	some other in input.networks
	not contains(one, "ffff:")
	not contains(other, "ffff:")
	name := sprintf("%v", [[one, other]])
	result := net.cidr_merge([one, other, "10.0.1.0/24"])
}

expanded[x] := count(net.cidr_expand(x)) if {
	some x in ["10.0.0.0/30", "10.0.0.1/32", "::1/126", "::ffff:10.0.0.1/127", "10.0.0.0"]
}

matched := net.cidr_contains_matches({["10.0.0.0/8", 1], "::/0"}, {"a": "10.0.0.1", "b": ["::1", 2]})

flat := [array.flatten([]), array.flatten([1, [2, [3]], "a", []])]

types[name] := result if {
	some x in input.values
	name := sprintf("%v", [x])
	result := [uri.is_valid(x), json.is_valid(x), net.cidr_is_valid(x)]
}

ranges := [
	numbers.range_step(0, 10, 99999999999999999999),
	numbers.range_step(3, 1, 1),
	numbers.range_step(-3, 9223372036854775806, 5000000000000000000),
	numbers.range_step(5, -9223372036854775808, 9223372036854775807),
	numbers.range_step(0, -9223372036854775808, 5000000000000000000),
	[r | some x in [1.5, 0, -1]; r := numbers.range_step(x, 3, 2)],
	[r | some x in [0, -1, 1.5]; r := numbers.range_step(1, 3, x)],
]

filtered := {path: [json.filter(d, [path]), json.remove(d, [path])] |
	some path in ["a~1b", "/c", "//c", "c/d", "c/~0d", "e/1", "none", ""]
	d := {"a/b": 1, "c": {"d": 2, "~d": 3}, "e": [1, 2]}
}

template := [$"{x}|{input.none}|\{" | some x in ["a", 1, 1.5, null, true, [], ["a"], {"a": 1}, {1}, set()]]

p := {
	"single": single, "parsed": parsed, "decoded": decoded, "decoded_object": decoded_object, "uuids": uuids,
	"durations": durations, "read_numbers": read_numbers, "bases": bases, "versions": versions, "contained": contained, "intersects": intersects, "merged": merged, "expanded": expanded,
	"matched": matched, "filtered": filtered, "flat": flat, "types": types, "ranges": ranges, "template": template,
}
"#;
    let networks = [
        "10.0.0.0/8",
        "10.0.0.1",
        "10.0.0.0/08",
        "10.0.0.0/+8",
        "10.0.0.0/33",
        "010.0.0.0/8",
        "10.0.0.0/24",
        "10.0.0.128/25",
        "::/0",
        "::1",
        "::/80",
        "::ffff:10.0.0.0/104",
        "::ffff:10.0.0.1",
        "fe80::/120",
        "fe80::100/120",
        "0.0.0.0/0",
        "255.255.255.255",
        "224.0.0.1",
        "128.0.0.1",
        "fe80::1%eth0/64",
        "",
        "a",
    ];
    let values = json!([null, true, 1, 1.5, [], {}]);
    let input = json!({"arguments": ARGUMENTS.as_slice(), "networks": networks, "values": values});
    let (own, opa) = both(module.to_owned(), Some(input)).await?;
    let mut wrong = Vec::new();
    for (group, own) in &own {
        let found = match (own, &opa[group]) {
            (Value::Object(own), Value::Object(opa)) => differences(own, opa),
            (own, opa) if own == opa => Ok(()),
            (own, opa) => Err(anyhow::anyhow!("embedded: {own}, OPA: {opa}")),
        };
        wrong.extend(found.err().map(|error| format!("{group}: {error}")));
    }
    ensure!(own.len() == 19 && wrong.is_empty(), "{} groups\n{}", own.len(), wrong.join("\n"));
    Ok(())
}

/// Keys and tokens of each algorithm, valid and invalid, made with Go's packages.
const TOKENS: &str = include_str!("tokens.json");

#[derive(Debug, Deserialize)]
struct Tokens {
    keys: Map<String, Value>,
    tokens: BTreeMap<String, Value>,
}

/// A module that verifies `input.token` with each of `data.keys`, and with constraints.
fn token_module() -> String {
    let mut module = r#"package a

nested contains ["decode", io.jwt.decode(input.token)]

nested contains [name, result] if {
	some name, key in data.keys
	result := io.jwt.decode_verify(input.token, {"cert": key, "time": 1500000000000000000})
}

constrained contains [name, constraints, result] if {
	some name, key in {"cert": data.keys["RSA public key"], "secret": "secret"}
	some constraints in [
		{}, {"iss": "i"}, {"iss": "j"}, {"iss": ""}, {"iss": 1}, {"aud": "a"}, {"aud": "b"}, {"aud": "c"}, {"aud": ["a"]},
		{"aud": "a", "iss": "i"}, {"aud": "a", "alg": "RS256"}, {"aud": "a", "alg": "HS256"}, {"alg": "none"}, {"alg": 1},
		{"time": 0}, {"time": 1000000000000}, {"time": 999999999999}, {"time": 1000500000000}, {"time": 1000000001000},
		{"aud": "a", "time": 2000000000000000000}, {"aud": "a", "time": 1999999999999999000},
		{"time": -1}, {"time": "1"}, {"other": "a"}, {"secret": "a", "cert": "b"}, {"secret": ""}, {"secret": 1},
	]
	result := io.jwt.decode_verify(input.token, object.union({name: key}, constraints))
}

constrained contains result if {
	some constraints in [{}, {"aud": "a"}, {"cert": 1}, {"secret": "secret", "cert": data.keys["RSA JWK"]}, [], "secret"]
	result := io.jwt.decode_verify(input.token, constraints)
}
"#
    .to_owned();
    for (rule, algorithms) in [
        ("rs", &["rs256", "rs384", "rs512"][..]),
        ("ps", &["ps256", "ps384", "ps512"]),
        ("other", &["es256", "es384", "es512", "eddsa", "hs256", "hs384", "hs512"]),
    ] {
        for algorithm in algorithms {
            module.push_str(&format!(
                "\n{rule} contains [\"{algorithm}\", name, result] if {{\n\tsome name, key in data.keys\n\t\
                 result := io.jwt.verify_{algorithm}(input.token, key)\n}}\n"
            ));
        }
    }
    module
}

/// `value` with all numbers as floating point.
fn with_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(with_floats).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), with_floats(value))).collect()
        }
        _ => value.clone(),
    }
}

#[tokio::test]
async fn tokens_are_decoded_and_verified_as_in_opa() -> Result<()> {
    let Tokens { keys, tokens } = serde_json::from_str(TOKENS)?;
    let id = ModuleId::new("a.rego");
    let texts = [Text { id, text: token_module().into() }];
    let found = checked(&texts, EngineKind::Embedded, &Default::default());
    ensure!(found.faults.is_empty(), "{}", found.faults);
    let bundle = Bundle::read(&texts).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let engine = Embedded::new(&bundle, json!({"keys": keys}).into())?;
    let server = Opa::start().await?;
    let (status, response) =
        server.ask("PUT", "/v1/data", serde_json::to_vec(&json!({"keys": keys}))?).await?;
    ensure!(status.is_success(), "{response}");
    let module = bundle.for_opa().swap_remove(0).text;
    let (status, response) = server.ask("PUT", "/v1/policies/a", module.as_bytes().to_vec()).await?;
    ensure!(status.is_success(), "{response}");
    let (mut wrong, mut valid) = (Vec::new(), 0);
    for (name, token) in &tokens {
        for rule in ["nested", "constrained", "rs", "ps", "other"] {
            let (query, input) = (format!("data.a.{rule}"), json!({"token": token}));
            let own = engine.evaluate(&query, &input.clone().into()).map(EvaluationResult::into_value);
            let own = match own {
                Ok(own) => serde_json::to_value(own)?,
                Err(failure) => json!(failure.to_string()),
            };
            let question = json!({"query": format!("answer = {query}"), "input": input});
            let (status, response) = server.ask("POST", "/v1/query", serde_json::to_vec(&question)?).await?;
            ensure!(status.is_success(), "{name}: {response}");
            let listed = |value: &Value| -> BTreeSet<String> {
                value.as_array().into_iter().flatten().map(|item| with_floats(item).to_string()).collect()
            };
            let (own_results, opa) = (listed(&own), listed(&response["result"][0]["answer"]));
            valid += opa.iter().filter(|result| result.contains("true")).count();
            if own.is_string() {
                wrong.push(format!("{name}: {rule}: {own}"));
            }
            wrong.extend(own_results.difference(&opa).map(|result| format!("{name}: embedded: {result}")));
            wrong.extend(opa.difference(&own_results).map(|result| format!("{name}: OPA: {result}")));
        }
    }
    ensure!(tokens.len() > 100 && valid > 500, "{} tokens, {valid} results", tokens.len());
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn patterns_have_the_same_texts_in_common_as_in_opa() -> Result<()> {
    const TOKENS: [&str; 20] = [
        "a", "b", "ab", ".", ".*", ".+", "a*", "a+", "b*", "b+", "[a-c]", "[a-c]*", "[^a]", "[]", "[b-d]+",
        "\\*", "\\", "]", "[a\\-c]", "é*",
    ];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut pattern =
        || -> String { (0..rng.usize(0..6)).map(|_| TOKENS[rng.usize(..TOKENS.len())]).collect() };
    let pairs: Vec<Value> = (0..4_000).map(|_| json!([pattern(), pattern()])).collect();
    let server = Opa::start().await?;
    are_equal(&server, "[r | r := regex.globs_match(x[0], x[1])]", &pairs, 4_000).await
}

/// Parts of documents in YAML.
const FRAGMENTS: [&str; 72] = [
    "a",
    "b",
    "key",
    "- ",
    "-",
    ": ",
    ":",
    "\n",
    "\n",
    "\n  ",
    "\n    ",
    "\n ",
    "  ",
    " ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ",",
    "\"",
    "'",
    "|\n",
    "|-\n",
    "|+\n",
    ">\n",
    ">-\n",
    "\n---\n",
    "---",
    "...",
    "# c",
    " # c",
    "#",
    "1",
    "0x1f",
    "007",
    "1.5",
    "1e3",
    "true",
    "null",
    "~",
    "yes",
    "&a ",
    "*a",
    "<<: ",
    "? ",
    "%",
    "@",
    "`",
    "\t",
    "é",
    "\\",
    "\\n",
    "a: b",
    "- a\n",
    "a:\n",
    "'a b'",
    "\"a\\tb\"",
    "text with words",
    "2001-01-01",
    "1_000",
    ".5",
    "-1",
    ".inf",
    "a: |\n  b\n  c\n",
    "k: >\n  x\n  y\n\n  z\n",
    "- - a\n",
    "x: [1, 2]\n",
    "y: {a: b}\n",
    "z:\n- a\n- b\n",
    "z:\n  - a\n  - b: c\n    d: e\n",
    "\r\n",
];
/// Parts of strings that both engines encode in YAML.
const TEXTS_OF_YAML: [&str; 48] = [
    "",
    "a",
    "b c",
    "\n",
    " ",
    "  ",
    ":",
    ": ",
    "#",
    " #",
    "-",
    "- ",
    "'",
    "\"",
    "\\",
    "\t",
    "é",
    "0",
    "1",
    "1.5",
    "1e3",
    "true",
    "null",
    "~",
    "yes",
    "y",
    "2001-01-01",
    "1:20",
    "[",
    "]",
    "{",
    ",",
    "&",
    "*",
    "!",
    "|",
    ">",
    "%",
    "@",
    "`",
    "?",
    "<<",
    "---",
    "...",
    "<&>",
    "\u{a0}",
    "😀",
    "a\n b\n",
];

/// The results of `query` in OPA for each of the `inputs`, as a list.
async fn of_opa(server: &Opa, query: &str, inputs: &[Value]) -> Result<Vec<Value>> {
    let question = json!({"query": format!("answer = [{query} | x = input[_]]"), "input": inputs});
    let (status, response) = server.ask("POST", "/v1/query", serde_json::to_vec(&question)?).await?;
    ensure!(status.is_success(), "{response}");
    Ok(response["result"][0]["answer"].as_array().cloned().unwrap_or_default())
}

/// The results of `query` in the embedded engine for each of the `inputs`; `None` for an input that the engine does not
/// support.
fn of_embedded(query: &str, inputs: &[Value]) -> Result<Vec<Option<Value>>> {
    let text = format!("package a\n\np := {query} if x := input\n");
    let texts = [Text { id: ModuleId::new("a.rego"), text: text.into() }];
    let bundle = Bundle::read(&texts).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let engine = Embedded::new(&bundle, json!({}).into())?;
    let result = |input: &Value| match engine.evaluate("data.a.p", &input.clone().into()) {
        Ok(evaluated) => Ok(evaluated.into_value().map(serde_json::to_value).transpose()?),
        Err(failure) if failure.to_string().contains("is not supported") => Ok(None),
        Err(failure) => bail!("{input}: {failure}"),
    };
    inputs.iter().map(result).collect()
}

/// Fails if results of both engines differ, or if the embedded engine supports fewer than `least` of the `inputs`.
async fn are_equal(server: &Opa, query: &str, inputs: &[Value], least: usize) -> Result<()> {
    let (own, opa) = (of_embedded(query, inputs)?, of_opa(server, query, inputs).await?);
    ensure!(own.len() == opa.len(), "{} results", opa.len());
    let mut wrong = Vec::new();
    for ((input, own), opa) in inputs.iter().zip(&own).zip(&opa) {
        if own.as_ref().is_some_and(|own| with_floats(own) != with_floats(opa)) {
            wrong.push(format!("{input}: embedded: {own:?}, OPA: {opa}"));
        }
    }
    let supported = own.iter().flatten().count();
    ensure!(supported >= least, "{supported} of {} are supported", inputs.len());
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn yaml_is_read_and_written_as_in_opa() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(1);
    let document = |rng: &mut fastrand::Rng| -> Value {
        let parts = rng.usize(1..12);
        (0..parts).map(|_| FRAGMENTS[rng.usize(..FRAGMENTS.len())]).collect::<String>().into()
    };
    let documents: Vec<Value> = (0..5_000).map(|_| document(&mut rng)).collect();
    let server = Opa::start().await?;
    are_equal(&server, "[yaml.is_valid(x), [v | v := yaml.unmarshal(x)]]", &documents, 2_500).await?;
    let mut values = Vec::new();
    for _ in 0..3_000 {
        let mut text = || -> String {
            let parts = rng.usize(0..4);
            (0..parts).map(|_| TEXTS_OF_YAML[rng.usize(..TEXTS_OF_YAML.len())]).collect()
        };
        let (one, other, third) = (text(), text(), text());
        values.push(match rng.u8(0..4) {
            0 => json!(one),
            1 => json!([one, [other, {third: [{}, []]}], 1, -2.5, 1e-7, true, null]),
            2 => json!({one: other, "a": {third: 1}}),
            _ => json!({one.repeat(40): [[other]], "a10": third, "a9": {}}),
        });
    }
    are_equal(&server, "[v | v := yaml.marshal(x)]", &values, 2_900).await
}

/// GraphQL selections, most of them valid.
const SELECTIONS: [&str; 24] = [
    "dog { id } ",
    "dog { name } ",
    "dog { x: id @skip(if: true) } ",
    "dog { ...D } ",
    "dog { ... on Node { id } } ",
    "dog { friend { ...D id } friend { id } } ",
    "x: dog { name(upper: true) } ",
    "x: dog { name } ",
    "node { id ... on Dog { x: name } ... on Cat { x: name } } ",
    "node { ... on Cat { x: lives } ... on Dog { x: id } } ",
    "pet(id: 1) { __typename ...P } ",
    "pet(id: $a) { __typename } ",
    "pet { __typename } ",
    "cat(f: {a: 1, b: [\"x\"]}) { id } ",
    "cat(f: {b: \"x\", a: 1}) { id } ",
    "cat(f: {c: {}}) { id } ",
    "y: cat(f: $b) { lives } ",
    "...Q ",
    "... { dog { id } } ",
    "... on Query @include(if: $c) { dog { id } } ",
    "__typename ",
    "__schema { types { name } } ",
    "# a comment\n",
    "nope ",
];
/// GraphQL fragments, and tokens that make most documents invalid.
const DEFINITIONS_OF_FRAGMENTS: [&str; 8] = [
    "fragment D on Dog { name } ",
    "fragment D on Node { x: id } ",
    "fragment P on Pet { ... on Dog { ...D } } ",
    "fragment P on Cat { lives } ",
    "fragment Q on Query { dog { id } } ",
    "fragment Q on Query { ...Q2 } fragment Q2 on Query { x: dog { id } } ",
    "query Other { dog { id } } ",
    "{ ",
];
/// GraphQL type definitions, most of them valid.
const DEFINITIONS: [&str; 14] = [
    "extend type Dog { z: Int } ",
    "extend union Pet = Query ",
    "extend union Pet = Dog ",
    "extend interface Node { z: Int } ",
    "extend input Filter { d: Int! = 1 } ",
    "extend input Filter { d: Filter! } ",
    "extend type Cat implements Pet ",
    "directive @a(b: Int!) on OBJECT extend type Cat @a(b: 1) ",
    "directive @skip(if: Boolean) on FIELD ",
    "schema { query: Query } ",
    "schema { query: Dog } ",
    "\"a description\" scalar S # a comment\n",
    "type T implements Node & Node { \"\"\"\n  a\n   b\"\"\" id: ID! } ",
    "type U ",
];

#[tokio::test]
async fn graphql_is_parsed_and_validated_as_in_opa() -> Result<()> {
    const QUERY: &str = "[graphql.is_valid(x.query, x.schema), graphql.schema_is_valid(x.schema), \
                         [v | v := graphql.parse(x.query, x.schema)], [v | v := graphql.parse_query(x.query)], \
                         [v | v := graphql.parse_schema(x.schema)]]";
    const SCHEMA: &str = "interface Node { id: ID! } type Dog implements Node { id: ID! name(upper: Boolean): String friend: Dog } \
                          type Cat implements Node { id: ID! name: String lives: Int } union Pet = Dog | Cat \
                          input Filter { a: Int b: [String] c: Filter } \
                          type Query { dog: Dog pet(id: ID!): Pet cat(f: Filter): Cat node: Node } ";
    const VARIABLES: [&str; 6] = [
        "",
        "",
        "",
        "query ($a: ID!) ",
        "query Q($b: Filter = {a: 1}) ",
        "query ($c: Boolean!) @skip(if: $c) ",
    ];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut some = |of: &[&str], most: usize| -> String {
        (0..rng.usize(0..=most)).map(|_| of[rng.usize(..of.len())]).collect()
    };
    let documents: Vec<Value> = (0..4_000)
        .map(|_| {
            let (variables, selections) = (some(&VARIABLES, 1), some(&SELECTIONS, 3));
            let fragments = some(&DEFINITIONS_OF_FRAGMENTS, 2);
            json!({
                "query": format!("{variables}{{ dog {{ id }} {selections}}} {fragments}"),
                "schema": format!("{SCHEMA}{}", some(&DEFINITIONS, 2)),
            })
        })
        .collect();
    let server = Opa::start().await?;
    are_equal(&server, QUERY, &documents, 4_000).await
}

/// The objects that both engines return for the rule `p` of `module`.
async fn both(module: String, input: Option<Value>) -> Result<(Map<String, Value>, Map<String, Value>)> {
    let case = Case {
        name: "a.rego".to_owned(),
        modules: BTreeMap::from([("a.rego".to_owned(), module)]),
        data: None,
        input,
        query: Some("data.a.p".to_owned()),
        expect: Expected::Undefined(true),
        opa: None,
        why: None,
    };
    let (found, texts) = embedded(&case)?;
    let server = Opa::start().await?;
    match (found, opa(&server, &case, &texts).await?) {
        (Expected::Answer(Value::Object(own)), Expected::Answer(Value::Object(opa))) => Ok((own, opa)),
        (Expected::Answer(_), opa) => bail!("OPA: {opa:?}"),
        (own, _) => bail!("embedded: {own:?}"),
    }
}

/// Fails if `own` and `opa` differ.
fn differences(own: &Map<String, Value>, opa: &Map<String, Value>) -> Result<()> {
    let names: BTreeSet<&String> = own.keys().chain(opa.keys()).collect();
    let differ = names.into_iter().filter(|name| own.get(*name) != opa.get(*name));
    let wrong: Vec<String> = differ
        .map(|name| format!("{name}: embedded: {:?}, OPA: {:?}", own.get(name), opa.get(name)))
        .collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
