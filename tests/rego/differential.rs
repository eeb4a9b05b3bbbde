//! The embedded engine and the real OPA are asked the same, and answer the same, or a difference that a case names and explains.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use policy_sync::rego::bundle::Bundle;
use policy_sync::rego::confined::checked;
use policy_sync::rego::embedded::{Embedded, Evaluated};
use policy_sync::rego::evaluated_by::EvaluatedBy;
use policy_sync::rego::module::{ModuleId, Text};
use policy_sync_testenv::Opa;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Where cases are: a file for each subject.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rego/differential");
/// How many there are at least.
const COUNT: usize = 150;

/// What is asked of both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    modules: BTreeMap<String, String>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    input: Option<Value>,
    /// By default the package of the first module.
    #[serde(default)]
    query: Option<String>,
    expect: Expected,
    /// What OPA gives, where that is something else.
    #[serde(default)]
    opa: Option<Expected>,
    /// Why it is.
    #[serde(default)]
    why: Option<String>,
}

/// What an engine comes to.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Expected {
    /// A value; a set is a list.
    Answer(Value),
    /// Nothing.
    Undefined(bool),
    /// An error while it evaluates, which says this.
    Fails(String),
    /// An error before, which says this.
    Refused(String),
}

impl Expected {
    fn is_met_by(&self, found: &Self) -> bool {
        match (self, found) {
            (Self::Fails(words), Self::Fails(said)) | (Self::Refused(words), Self::Refused(said)) => {
                said.contains(words)
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
    let (found, bundle) = (checked(&texts, EvaluatedBy::Embedded, &Default::default()), Bundle::read(&texts));
    if !found.faults.is_empty() {
        // OPA says for itself what it makes of them.
        let for_opa = bundle.map_or(texts, |bundle| bundle.for_opa());
        return Ok((Expected::Refused(found.faults.to_string()), for_opa));
    }
    let bundle = bundle.map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let data = case.data.clone().unwrap_or_else(|| json!({}));
    let engine = Embedded::new(&bundle, data.into())?;
    let input = case.input.clone().map_or(regorus::Value::Undefined, Into::into);
    let found = match engine.evaluate(&query(case)?, &input).map(Evaluated::into_value) {
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
    let (_, there) = opa.ask("GET", "/v1/policies", Vec::new()).await?;
    for policy in there["result"].as_array().into_iter().flatten() {
        let path = format!("/v1/policies/{}", policy["id"].as_str().unwrap_or_default());
        opa.ask("DELETE", &path, Vec::new()).await?;
    }
    let data = case.data.clone().unwrap_or_else(|| json!({}));
    let (status, said) = opa.ask("PUT", "/v1/data", serde_json::to_vec(&data)?).await?;
    ensure!(status.is_success(), "data is not taken: {said}");
    // Each has to fit those that are there: one that does not yet is tried again after the others.
    let mut left: Vec<&Text> = texts.iter().collect();
    while !left.is_empty() {
        let (before, mut refusal) = (left.len(), None);
        for text in std::mem::take(&mut left) {
            let path = format!("/v1/policies/{}", text.id.as_str().replace('/', "-"));
            let (status, said) = opa.ask("PUT", &path, text.text.as_bytes().to_vec()).await?;
            if !status.is_success() {
                refusal = Some(said.to_string());
                left.push(text);
            }
        }
        if let Some(said) = refusal.filter(|_| left.len() == before) {
            return Ok(Expected::Refused(said));
        }
    }
    let mut question = json!({"query": format!("answer = {}", query(case)?)});
    if let Some(input) = &case.input {
        question["input"] = input.clone();
    }
    let (status, said) = opa.ask("POST", "/v1/query", serde_json::to_vec(&question)?).await?;
    if !status.is_success() {
        return Ok(Expected::Fails(said.to_string()));
    }
    Ok(match said["result"].as_array().map(Vec::as_slice) {
        None | Some([]) => Expected::Undefined(true),
        Some([one]) => Expected::Answer(one["answer"].clone()),
        Some(_) => bail!("more than one answer: {said}"),
    })
}

#[tokio::test]
async fn both_engines_answer_alike() -> Result<()> {
    let (cases, server) = (cases()?, Opa::start().await?);
    ensure!(cases.len() >= COUNT, "there are {} cases", cases.len());
    let mut wrong = Vec::new();
    for (name, case) in &cases {
        let (found, texts) = embedded(case).with_context(|| name.clone())?;
        if !case.expect.is_met_by(&found) {
            wrong.push(format!("{name}: embedded: {found:?}"));
        }
        if case.opa.is_some() != case.why.is_some() {
            wrong.push(format!("{name}: a difference has its reason, and only a difference has one"));
        }
        let from_opa = opa(&server, case, &texts).await.with_context(|| name.clone())?;
        let is_refused = matches!((&case.expect, &from_opa), (Expected::Refused(_), Expected::Refused(_)));
        let is_failed = matches!((&case.expect, &from_opa), (Expected::Fails(_), Expected::Fails(_)));
        let is_expected = match &case.opa {
            Some(expected) => expected.is_met_by(&from_opa) && *expected != case.expect,
            // Each says it in words of its own.
            None => is_refused || is_failed || case.expect == from_opa,
        };
        if !is_expected {
            wrong.push(format!("{name}: OPA: {from_opa:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Verbs with flags, widths and precisions.
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

/// Valid and invalid patterns.
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
/// Texts that the patterns are searched in.
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

/// The objects that both engines make of the rule `p` of `module`.
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
        (own, opa) => bail!("embedded: {own:?}, OPA: {opa:?}"),
    }
}

/// Fails if the two objects differ.
fn differences(own: &Map<String, Value>, opa: &Map<String, Value>) -> Result<()> {
    let names: BTreeSet<&String> = own.keys().chain(opa.keys()).collect();
    let differ = names.into_iter().filter(|name| own.get(*name) != opa.get(*name));
    let wrong: Vec<String> = differ
        .map(|name| format!("{name}: embedded: {:?}, OPA: {:?}", own.get(name), opa.get(name)))
        .collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
