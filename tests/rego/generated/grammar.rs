//! Random modules of the package `g`.

use std::fmt::Write;

use fastrand::Rng;

/// The syntax that a module is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    V0,
    V1,
}

/// An `else` of a rule, or another body of the rule.
#[derive(Clone, Debug)]
struct Branch {
    /// The text before the body, for example `else := 1`.
    start: String,
    statements: Vec<String>,
}

/// A definition of a rule.
#[derive(Clone, Debug)]
struct Definition {
    name: String,
    /// The text before the body, for example `p1 contains x`.
    head: String,
    /// Without statements the rule has no body.
    statements: Vec<String>,
    branches: Vec<Branch>,
}

/// A module as a list of definitions, which can be removed one by one.
#[derive(Clone, Debug)]
pub(super) struct Module {
    syntax: Syntax,
    definitions: Vec<Definition>,
}

impl Module {
    /// Generates a module from this seed.
    pub(super) fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let syntax = if rng.bool() { Syntax::V0 } else { Syntax::V1 };
        let mut generator = Generator { rng, syntax, rules: Vec::new(), variables: Vec::new(), next: 0 };
        let mut definitions = Vec::new();
        for number in 0..generator.rng.usize(1..5) {
            definitions.extend(generator.rule(number));
        }
        Self { syntax, definitions }
    }

    /// The names of the module's rules, without functions.
    pub(super) fn rules(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.definitions.iter().map(|definition| &*definition.name).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| name.starts_with('p'));
        names
    }

    /// The number of parts that [`without`](Self::without) can remove.
    pub(super) fn parts(&self) -> usize {
        let of = |definition: &Definition| {
            let branches: usize = definition.branches.iter().map(|branch| 1 + branch.statements.len()).sum();
            1 + definition.statements.len() + branches
        };
        self.definitions.iter().map(of).sum()
    }

    /// The same module without one of its parts: a definition, a branch or a statement.
    pub(super) fn without(&self, part: usize) -> Self {
        let (mut smaller, mut left) = (self.clone(), part);
        // The index of the part among the next `count` parts; `None` if the part comes after them.
        let mut take = |count: usize| {
            if left < count {
                return Some(left);
            }
            left -= count;
            None
        };
        for at in 0..smaller.definitions.len() {
            if take(1).is_some() {
                smaller.definitions.remove(at);
                return smaller;
            }
            let definition = &mut smaller.definitions[at];
            if let Some(statement) = take(definition.statements.len()) {
                if definition.statements.len() > 1 {
                    definition.statements.remove(statement);
                }
                return smaller;
            }
            for branch in 0..definition.branches.len() {
                if take(1).is_some() {
                    definition.branches.remove(branch);
                    return smaller;
                }
                let statements = &mut definition.branches[branch].statements;
                if let Some(statement) = take(statements.len()) {
                    if statements.len() > 1 {
                        statements.remove(statement);
                    }
                    return smaller;
                }
            }
        }
        smaller
    }

    /// The text of the module.
    pub(super) fn text(&self) -> String {
        let mut text = "package g\n\n".to_owned();
        text.push_str(match self.syntax {
            Syntax::V0 => "import future.keywords.in\nimport future.keywords.every\n",
            Syntax::V1 => "import rego.v1\n",
        });
        for Definition { head, statements, branches, .. } in &self.definitions {
            let _ = write!(text, "\n{head}");
            let has_if = self.syntax == Syntax::V1;
            let mut body = |start: &str, statements: &[String]| {
                let keyword = if has_if { "if " } else { "" };
                if !statements.is_empty() {
                    let _ = write!(text, "{start} {keyword}{{\n\t{}\n}}", statements.join("\n\t"));
                } else if !start.is_empty() {
                    text.push_str(start);
                }
            };
            body("", statements);
            for branch in branches {
                body(&format!(" {}", branch.start), &branch.statements);
            }
            text.push('\n');
        }
        text
    }
}

/// A rule that later definitions refer to.
#[derive(Clone, Debug)]
enum Rule {
    /// A complete rule with one value.
    Complete(String),
    /// A partial set.
    Set(String),
    /// A partial object.
    Object(String),
    /// A function with this number of arguments.
    Function(String, usize),
}

/// Inputs and data that terms refer to; see [`super::input`] and [`super::data`].
const COLLECTIONS: [&str; 14] = [
    "input.list",
    "input.pods",
    "input.labels",
    "input.nested.list",
    "input.empty",
    "data.names",
    "data.table",
    "input.pods[0].ports",
    "input.nested",
    "input.none",
    "[1, 2, 2, \"a\"]",
    "{1, 2, 3}",
    "{\"a\": 1, \"b\": 2}",
    "data.sets.one",
];
const VALUES: [&str; 20] = [
    "input.one",
    "input.text",
    "input.no",
    "input.null",
    "input.labels.app",
    "input.nested.a.b",
    "input.pods[0].name",
    "input.pods[1].ports[0]",
    "input.missing",
    "input.list[1]",
    "data.limit",
    "data.table.a",
    "data.none.x",
    "1",
    "2",
    "\"a\"",
    "\"web\"",
    "true",
    "null",
    "1.5",
];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

struct Generator {
    rng: Rng,
    syntax: Syntax,
    rules: Vec<Rule>,
    /// The variables that a statement may use.
    variables: Vec<String>,
    next: usize,
}

impl Generator {
    fn one<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.rng.usize(..choices.len())]
    }

    /// True with a probability of `percent` per cent.
    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        // Statements in other scopes may use the same names with `v`.
        if self.chance(8) { format!("v{}", self.rng.u8(..4)) } else { format!("x{}", self.next) }
    }

    /// Records a new variable that later statements may use.
    fn bound(&mut self, name: &str) {
        if !self.variables.iter().any(|variable| variable == name) {
            self.variables.push(name.to_owned());
        }
    }

    /// A name for a new variable of this scope.
    fn new_variable(&mut self) -> String {
        loop {
            let name = self.fresh();
            if !self.variables.contains(&name) {
                return name;
            }
        }
    }

    fn variable(&mut self) -> Option<String> {
        let count = self.variables.len();
        (count > 0).then(|| self.variables[self.rng.usize(..count)].clone())
    }

    fn collection(&mut self, depth: u8) -> String {
        let choice = self.rng.u8(..10);
        match choice {
            0 | 1 => {
                let names: Vec<String> = self
                    .rules
                    .iter()
                    .filter_map(|rule| match rule {
                        Rule::Set(name) | Rule::Object(name) => Some(name.clone()),
                        _ => None,
                    })
                    .collect();
                if names.is_empty() {
                    return self.one(&COLLECTIONS).to_owned();
                }
                names[self.rng.usize(..names.len())].clone()
            }
            2 => self.variable().unwrap_or_else(|| "input.list".to_owned()),
            3 if depth > 0 => self.comprehension(depth - 1),
            _ => self.one(&COLLECTIONS).to_owned(),
        }
    }

    fn comprehension(&mut self, depth: u8) -> String {
        let before = self.variables.clone();
        let statements = self.statements(depth, 1, 3);
        let (kind, head) = (self.rng.u8(..3), self.term(depth));
        let key = if kind == 2 { self.term(0) } else { String::new() };
        self.variables = before;
        let body = statements.join("; ");
        match kind {
            0 => format!("[{head} | {body}]"),
            1 => format!("{{{head} | {body}}}"),
            _ => format!("{{{key}: {head} | {body}}}"),
        }
    }

    /// An operand: a term that needs no parentheses.
    fn operand(&mut self, depth: u8) -> String {
        match self.rng.u8(..4) {
            0 | 1 => self.variable().unwrap_or_else(|| self.one(&VALUES).to_owned()),
            2 => self.one(&VALUES).to_owned(),
            _ => self.term(depth.saturating_sub(1)),
        }
    }

    /// An operand without a known type.
    fn unknown(&mut self) -> String {
        self.one(&[
            "input.one",
            "input.list[1]",
            "input.pods[1].ports[0]",
            "input.labels.n",
            "input.missing",
            "input.nested.n",
            "1",
            "2",
            "2.5",
        ])
        .to_owned()
    }

    /// A collection without a known type.
    fn any_collection(&mut self) -> String {
        self.one(&[
            "input.list",
            "input.pods",
            "input.labels",
            "input.nested.list",
            "input.empty",
            "input.nested",
            "input.none",
        ])
        .to_owned()
    }

    fn any_text(&mut self) -> String {
        self.one(&[
            "input.text",
            "input.labels.app",
            "input.pods[0].name",
            "input.missing",
            "input.nested.a.b",
            "\"a\"",
            "\"web\"",
            "input.labels.tier",
        ])
        .to_owned()
    }

    fn reference(&mut self, depth: u8) -> String {
        let collection = self.collection(0);
        if collection.starts_with(['[', '{']) {
            return collection;
        }
        let key = match self.rng.u8(..4) {
            0 => "_".to_owned(),
            1 => self.one(&["0", "1", "\"a\"", "\"app\""]).to_owned(),
            _ => self.operand(depth),
        };
        format!("{collection}[{key}]")
    }

    fn call(&mut self, depth: u8) -> String {
        let functions: Vec<(String, usize)> = self
            .rules
            .iter()
            .filter_map(|rule| match rule {
                Rule::Function(name, arguments) => Some((name.clone(), *arguments)),
                _ => None,
            })
            .collect();
        if !functions.is_empty() && self.chance(50) {
            let (name, arguments) = functions[self.rng.usize(..functions.len())].clone();
            let arguments: Vec<String> = (0..arguments).map(|_| self.operand(depth)).collect();
            return format!("{name}({})", arguments.join(", "));
        }
        if self.chance(10) {
            let (a, b) = (self.operand(depth), self.operand(depth));
            return format!("{}({a}, {b})", self.one(&["startswith", "object.get", "array.concat", "split"]));
        }
        let number = self.unknown();
        let (a, b) = (self.any_text(), self.any_text());
        let (c, d) = (self.any_collection(), self.any_collection());
        match self.rng.u8(..24) {
            0 => format!("count({c})"),
            1 => format!("sprintf(\"%v-%v\", [{a}, {b}])"),
            2 => format!("lower({a})"),
            3 => format!("array.concat({c}, {d})"),
            4 => format!("object.get({c}, {a}, {b})"),
            5 => format!("to_number({a})"),
            6 => format!("startswith({a}, {b})"),
            7 => format!("split({a}, \"e\")"),
            8 => format!("sum({c})"),
            9 => format!("max({c})"),
            10 => format!("sort({c})"),
            11 => format!("type_name({a})"),
            12 => format!("is_string({a})"),
            13 => format!("json.marshal({c})"),
            14 => format!("object.keys({c})"),
            15 => format!("concat(\",\", {c})"),
            16 => format!("abs({number})"),
            17 => format!("trim({a}, {b})"),
            18 => format!("contains({a}, {b})"),
            19 => format!("object.union({c}, {d})"),
            20 => format!("is_number({a})"),
            21 => format!("intersection({{{c}, {d}}})"),
            22 => format!("regex.match(\"^[a-z]+$\", {a})"),
            _ => format!("format_int({number}, 10)"),
        }
    }

    fn term(&mut self, depth: u8) -> String {
        if depth == 0 {
            return match self.rng.u8(..3) {
                0 => self.variable().unwrap_or_else(|| self.one(&VALUES).to_owned()),
                _ => self.one(&VALUES).to_owned(),
            };
        }
        match self.rng.u8(..15) {
            0 | 1 => self.operand(depth),
            2 => format!("[{}, {}]", self.operand(depth), self.operand(depth)),
            3 => format!("{{\"k\": {}, \"l\": {}}}", self.operand(depth), self.operand(depth)),
            4 => format!("{{{}, {}}}", self.operand(depth), self.operand(depth)),
            5 | 6 => self.reference(depth),
            7 | 8 => self.call(depth),
            9 => {
                let operator = self.one(&["+", "-", "*", "/", "%"]);
                format!("{} {operator} {}", self.unknown(), self.unknown())
            }
            10 => {
                let operator = self.one(&["&", "|", "-"]);
                let sets = ["{1, 2}", "{x | some x in input.list}", "{\"a\"}", "{x | x := input.labels[_]}"];
                format!("({} {operator} {})", self.one(&sets), self.one(&sets))
            }
            11 | 12 => self.comprehension(depth - 1),
            13 => {
                let rules = self.rules.clone();
                match rules.get(self.rng.usize(..rules.len().max(1))) {
                    Some(Rule::Complete(name) | Rule::Set(name) | Rule::Object(name)) => name.clone(),
                    Some(Rule::Function(..)) => self.call(depth),
                    None => self.operand(depth),
                }
            }
            _ => self.collection(depth),
        }
    }

    /// A statement that binds no variable.
    fn condition(&mut self, depth: u8) -> String {
        match self.rng.u8(..8) {
            0..=2 => {
                // The embedded engine sorts sets before objects, so operators such as `<` compare only numbers and
                // texts.
                let comparison = self.one(&COMPARISONS);
                match comparison {
                    "==" | "!=" => format!("{} {comparison} {}", self.term(depth), self.term(depth)),
                    _ if self.rng.bool() => format!("{} {comparison} {}", self.unknown(), self.unknown()),
                    _ => format!("{} {comparison} {}", self.any_text(), self.any_text()),
                }
            }
            3 => self.reference(depth),
            4 => self.call(depth),
            5 => format!("{} in {}", self.operand(depth), self.collection(0)),
            6 => format!("{}, {} in {}", self.operand(0), self.operand(0), self.collection(0)),
            _ => self.operand(depth),
        }
    }

    fn statement(&mut self, depth: u8) -> Vec<String> {
        let next = depth.saturating_sub(1);
        match self.rng.u8(..26) {
            0..=3 => {
                let (term, name) = (self.term(depth), self.new_variable());
                self.bound(&name);
                vec![format!("{name} {} {term}", if self.chance(80) { ":=" } else { "=" })]
            }
            4..=6 => {
                let (collection, name) = (self.collection(next), self.new_variable());
                self.bound(&name);
                vec![format!("some {name} in {collection}")]
            }
            7 | 8 => {
                let (collection, key) = (self.collection(next), self.new_variable());
                self.bound(&key);
                let value = self.new_variable();
                self.bound(&value);
                vec![format!("some {key}, {value} in {collection}")]
            }
            9 => {
                let name = self.new_variable();
                let collection = self.one(&COLLECTIONS[..10]);
                self.bound(&name);
                vec![format!("{name} {} {collection}[_]", if self.chance(50) { ":=" } else { "=" })]
            }
            10 => {
                let index = self.new_variable();
                let collection = self.one(&COLLECTIONS[..10]);
                self.bound(&index);
                match self.rng.u8(..3) {
                    0 => vec![format!("{collection}[{index}]")],
                    1 => vec![format!("some {index}"), format!("{collection}[{index}]")],
                    _ => {
                        let value = self.new_variable();
                        self.bound(&value);
                        vec![format!("{value} = {collection}[{index}]")]
                    }
                }
            }
            11..=13 => {
                let condition = self.condition(next);
                // OPA 1.22 ignores the negation of a constant.
                let is_constant = VALUES[13..].contains(&&*condition);
                vec![format!("not {}", if is_constant { "input.no" } else { &condition })]
            }
            14 if depth > 0 => {
                let collection = self.collection(0);
                let before = self.variables.clone();
                let (key, value) = (self.new_variable(), self.new_variable());
                let has_key = self.chance(40) && key != value;
                if has_key {
                    self.bound(&key);
                }
                self.bound(&value);
                let statements = self.statements(next, 1, 2).join("; ");
                self.variables = before;
                let names = if has_key { format!("{key}, {value}") } else { value };
                vec![format!("every {names} in {collection} {{ {statements} }}")]
            }
            15 => {
                let (terms, one) =
                    (format!("[{}, {}]", self.operand(0), self.operand(0)), self.new_variable());
                self.bound(&one);
                let other = self.new_variable();
                self.bound(&other);
                let terms = if self.chance(50) { terms } else { self.collection(0) };
                vec![format!("[{one}, {other}] {} {terms}", if self.chance(70) { ":=" } else { "=" })]
            }
            16 => {
                let name = self.new_variable();
                self.bound(&name);
                let object = self.one(&["input.labels", "input.pods[_]", "data.table", "{\"app\": 1}"]);
                vec![format!("{{\"app\": {name}}} = {object}")]
            }
            17 => {
                let (path, value) = (self.new_variable(), self.collection(0));
                self.bound(&path);
                let leaf = self.new_variable();
                self.bound(&leaf);
                vec![if self.chance(50) {
                    format!("walk({value}, [{path}, {leaf}])")
                } else {
                    format!("[{path}, {leaf}] := walk({value})")
                }]
            }
            18 => {
                let target =
                    self.one(&["input.one", "input", "data.limit", "input.labels.app", "data.table"]);
                let (condition, value) = (self.condition(next), self.operand(0));
                vec![format!("{condition} with {target} as {value}")]
            }
            19 => {
                // A later statement binds the variable that an earlier statement uses.
                let name = self.new_variable();
                let term = self.operand(0);
                let comparison = self.one(&COMPARISONS);
                self.bound(&name);
                vec![format!("{name} {comparison} {}", self.one(&VALUES)), format!("{name} = {term}")]
            }
            20 => {
                let (one, other) = (self.operand(depth), self.operand(depth));
                vec![format!("{one} = {other}")]
            }
            _ => vec![self.condition(depth)],
        }
    }

    /// Statements. OPA requires that all new variables are used, so the last statement uses them.
    fn statements(&mut self, depth: u8, least: usize, most: usize) -> Vec<String> {
        let (count, before) = (self.rng.usize(least..=most), self.variables.len());
        let mut statements: Vec<String> = (0..count).flat_map(|_| self.statement(depth)).collect();
        let declared: Vec<String> = self.variables[before..].to_vec();
        if !declared.is_empty() {
            let name = self.new_variable();
            statements.push(format!("{name} := [{}]", declared.join(", ")));
        }
        statements
    }

    /// A body, in which two statements may be swapped.
    fn body(&mut self) -> Vec<String> {
        let mut statements = self.statements(2, 1, 4);
        if statements.len() > 1 && self.chance(15) {
            let (one, other) = (self.rng.usize(..statements.len()), self.rng.usize(..statements.len()));
            statements.swap(one, other);
        }
        statements
    }

    fn rule(&mut self, number: usize) -> Vec<Definition> {
        self.variables.clear();
        let is_older = self.syntax == Syntax::V0;
        let name = format!("p{number}");
        let mut definitions = Vec::new();
        let definition = |name: &str, head: String, statements: Vec<String>, branches: Vec<Branch>| {
            Definition { name: name.to_owned(), head, statements, branches }
        };
        match self.rng.u8(..12) {
            0..=3 => {
                if self.chance(25) {
                    let value = self.one(&["0", "false", "\"none\"", "[]", "{\"a\": 1}"]);
                    let sign = if is_older { "=" } else { ":=" };
                    definitions.push(definition(
                        &name,
                        format!("default {name} {sign} {value}"),
                        vec![],
                        vec![],
                    ));
                }
                for _ in 0..self.rng.usize(1..3) {
                    self.variables.clear();
                    let statements = self.body();
                    let has_value = self.chance(60);
                    let value = self.term(1);
                    let sign = if is_older && self.chance(50) { "=" } else { ":=" };
                    let head = if has_value { format!("{name} {sign} {value}") } else { name.clone() };
                    let mut branches = Vec::new();
                    while self.chance(25) {
                        self.variables.clear();
                        let statements = self.body();
                        let value = self.term(1);
                        branches.push(Branch { start: format!("else {sign} {value}"), statements });
                    }
                    definitions.push(definition(&name, head, statements, branches));
                }
                self.rules.push(Rule::Complete(name));
            }
            4..=6 => {
                for _ in 0..self.rng.usize(1..3) {
                    self.variables.clear();
                    let statements = self.body();
                    let element = self.term(1);
                    let head = if is_older {
                        format!("{name}[{element}]")
                    } else {
                        format!("{name} contains {element}")
                    };
                    definitions.push(definition(&name, head, statements, vec![]));
                }
                self.rules.push(Rule::Set(name));
            }
            7 | 8 => {
                for _ in 0..self.rng.usize(1..3) {
                    self.variables.clear();
                    let statements = self.body();
                    let (key, value) = (self.operand(0), self.term(1));
                    let sign = if is_older { "=" } else { ":=" };
                    definitions.push(definition(
                        &name,
                        format!("{name}[{key}] {sign} {value}"),
                        statements,
                        vec![],
                    ));
                }
                self.rules.push(Rule::Object(name));
            }
            9 if !is_older => {
                for key in ["a", "b"] {
                    self.variables.clear();
                    let statements = self.body();
                    let value = self.term(1);
                    let head = if self.chance(50) {
                        format!("{name}.{key} := {value}")
                    } else {
                        format!("{name}.{key} contains {value}")
                    };
                    definitions.push(definition(&name, head, statements, vec![]));
                }
                self.rules.push(Rule::Object(name));
            }
            10 if !is_older => {
                let statements = self.body();
                let (key, value) = (self.operand(0), self.term(1));
                definitions.push(definition(
                    &name,
                    format!("{name}[{key}] contains {value}"),
                    statements,
                    vec![],
                ));
                self.rules.push(Rule::Object(name));
            }
            _ => {
                let name = format!("f{number}");
                let count = self.rng.usize(1..3);
                for _ in 0..self.rng.usize(1..3) {
                    self.variables.clear();
                    let mut arguments = Vec::new();
                    for argument in 0..count {
                        arguments.push(match self.rng.u8(..8) {
                            0 => self.one(&["1", "\"a\"", "null", "true"]).to_owned(),
                            1 => {
                                self.bound("m");
                                if argument == 0 { "[m, _]".to_owned() } else { "_".to_owned() }
                            }
                            _ => {
                                let argument = format!("a{argument}");
                                self.bound(&argument);
                                argument
                            }
                        });
                    }
                    if !arguments.iter().any(|argument| argument.contains('m')) {
                        self.variables.retain(|variable| variable != "m");
                    }
                    let statements = self.body();
                    let value = self.term(1);
                    let sign = if is_older { "=" } else { ":=" };
                    let head = format!("{name}({}) {sign} {value}", arguments.join(", "));
                    definitions.push(definition(&name, head, statements, vec![]));
                }
                self.rules.push(Rule::Function(name.clone(), count));
                // A rule calls the function.
                let arguments: Vec<String> = (0..count).map(|_| self.one(&VALUES).to_owned()).collect();
                let caller = format!("p{number}");
                let head = format!("{caller} = x");
                let call = format!("x := {name}({})", arguments.join(", "));
                definitions.push(definition(&caller, head, vec![call], vec![]));
                self.rules.push(Rule::Complete(caller));
            }
        }
        definitions
    }
}
