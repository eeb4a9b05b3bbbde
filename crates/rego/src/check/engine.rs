//! Finds constructs that the embedded engine accepts but evaluates differently from OPA, or cannot evaluate.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;
use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Query, Rule, Span};

use super::Rules;
use super::calls::callee;
use crate::extensions::patterns::compiled;
use crate::extensions::schemas;
use crate::fault::Fault;
use crate::module::{Module, Negation, name_of};
use crate::names::Names;
use crate::rewrites::{RESERVED, is_generator, is_membership, objects, walked};
use crate::template_strings::PART;
use crate::tree::{self, ExprPart, WORD};

pub(super) fn faults(module: &Module, rules: &Rules<'_>) -> Vec<Fault> {
    let (names, mut faults) = (Names::of(module), imports(module));
    for rule in &module.tree.policy {
        if !objects::can_compare(rule) {
            faults.extend(tree::arguments(rule).iter().filter_map(|parameter| object(module, parameter)));
        }
        faults.extend(walks(module, rule));
        tree::each_of_rule(rule, &mut |expr| {
            faults.extend(shadowed(module, rules, &names, expr));
            faults.extend(negative(module, expr));
            faults.extend(exponent(module, expr));
            faults.extend(wildcard(module, expr));
            faults.extend(comprehension_as_index(module, expr));
            faults.extend(pattern(module, rules, &names, expr));
            faults.extend(schema(module, rules, &names, expr));
            if let Expr::Var { span, .. } = tree::steps(expr).0 {
                faults.extend(reserved(module, span));
            }
        });
        tree::each_statement(rule, &mut |statement| {
            faults.extend(object_of_result(module, rules, &names, statement));
            faults.extend(within_itself(module, statement));
            faults.extend(true_with(module, statement));
            if let Literal::Every { key, value, query, .. } = &statement.literal {
                let names = key.iter().chain([value]).map(|name| name.text()).collect();
                rebound(module, query, names, &mut faults);
                faults.extend(key.iter().chain([value]).filter_map(|name| reserved(module, name)));
            }
            if let Literal::NotExpr { expr, .. } = &statement.literal {
                faults.extend(negated_body(module, expr));
                faults.extend(negated_array(module, statement));
            }
            let Literal::SomeVars { vars, .. } = &statement.literal else { return };
            for name in vars {
                faults.extend(reserved(module, name));
                if rules.has_name(module, name.text()) || names.import(name.text()).is_some() {
                    let text =
                        format!("variable {0} has the name of a rule or an import: rename it", name.text());
                    faults.push(module.fault(name, text));
                }
            }
        });
    }
    faults
}

/// Finds calls of `walk` with one argument at places for which the engine does not iterate over the results.
fn walks(module: &Module, rule: &Rule) -> Vec<Fault> {
    let mut calls = Vec::new();
    let keys = tree::parts(tree::reference(rule)).into_iter().filter_map(|part| match part {
        ExprPart::Expr(expr) => Some(expr),
        ExprPart::Comprehension(..) => None,
    });
    keys.chain(tree::head_value(rule)).for_each(|expr| generators(expr, &mut calls));
    if let Rule::Spec { bodies, .. } = rule {
        for body in bodies.iter().filter_map(|body| body.assign.as_ref()) {
            generators(&body.value, &mut calls);
        }
    }
    tree::each_of_rule(rule, &mut |expr| {
        for part in tree::parts(expr) {
            if let ExprPart::Comprehension(query, terms) = part {
                if terms.iter().any(|term| name_of(term) == Some(PART)) {
                    // An expression of a template string must have only one value.
                    let statements = query.stmts.iter().flat_map(tree::expressions);
                    statements.for_each(|expr| generators(expr, &mut calls));
                }
                terms.into_iter().for_each(|term| generators(term, &mut calls));
            }
        }
    });
    tree::each_statement(rule, &mut |statement| {
        statement.with_mods.iter().for_each(|with| generators(&with.r#as, &mut calls));
        match &statement.literal {
            Literal::Every { domain, .. } => generators(domain, &mut calls),
            Literal::NotExpr { expr, .. } if walked(expr).is_some() => calls.push(expr),
            _ => {}
        }
    });
    let text =
        "walk may only be in a statement of a body that is not negated: assign its value to a variable there";
    calls.into_iter().map(|call| module.fault(tree::start(call), text)).collect()
}

/// Adds the calls of `walk` with one argument in `expr`, except in comprehensions. Such a call has many values.
fn generators<'t>(expr: &'t Expr, calls: &mut Vec<&'t Expr>) {
    if is_generator(expr) {
        calls.push(expr);
    }
    for part in tree::parts(expr) {
        if let ExprPart::Expr(expr) = part {
            generators(expr, calls);
        }
    }
}

/// Finds an operator, or a call of `walk`, whose builtin function has the name of a rule or an import. OPA calls that
/// rule or import instead.
fn shadowed(module: &Module, rules: &Rules<'_>, names: &Names<'_>, expr: &Expr) -> Option<Fault> {
    let (place, operator, function) = match walked(expr) {
        Some(_) => (tree::start(expr), "walk", "walk"),
        None => {
            let (operator, function) = tree::operator(expr)?;
            (expr.span(), operator, function)
        }
    };
    let is_shadowed = rules.has_name(module, function) || names.import(function).is_some();
    is_shadowed.then(|| {
        let text = format!(
            "{operator} calls the rule or import {function} of this package in OPA: rename the rule or import"
        );
        module.fault(place, text)
    })
}

/// Finds a comprehension in an index of `expr`. If the comprehension uses variables of the body, OPA ignores the index,
/// and the reference always holds.
fn comprehension_as_index(module: &Module, expr: &Expr) -> Option<Fault> {
    let index = tree::indexes(expr).find(|index| tree::has_comprehension(index))?;
    Some(module.fault(tree::start(index), "a comprehension as an index: assign it to a variable first"))
}

/// Finds a statement `true with …`. If this is the only statement of a body, the body holds in OPA even if the value of
/// `with` is undefined.
fn true_with(module: &Module, statement: &LiteralStmt) -> Option<Fault> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let is_true = matches!(expr.as_ref(), Expr::Bool { value, .. } if *value == Value::Bool(true));
    let has_no_effect = is_true && !statement.with_mods.is_empty();
    has_no_effect.then(|| module.fault(&statement.span, "with has no effect on true: remove with"))
}

/// Finds an [object pattern](object) that receives the result of the call `statement`.
fn object_of_result(
    module: &Module,
    rules: &Rules<'_>,
    names: &Names<'_>,
    statement: &LiteralStmt,
) -> Option<Fault> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let Expr::Call { fcn, params, .. } = expr.as_ref() else { return None };
    let has_output = callee(names, rules, fcn).has_output(params.len());
    params.last().filter(|_| has_output).and_then(|pattern| object(module, pattern))
}

/// Finds an assignment such as `x := {x | x = xs[_]}`: the comprehension has another variable with the assigned name.
/// The engine treats the two variables as one.
fn within_itself(module: &Module, statement: &LiteralStmt) -> Option<Fault> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } = expr.as_ref() else { return None };
    let found = within_comprehension(rhs, &tree::variables(lhs))?;
    let text = format!(
        "variable {found} is assigned a value with another variable of this name: rename one of them"
    );
    Some(module.fault(tree::start(lhs), text))
}

/// The first of `names` that a comprehension in `expr` uses without declaring it.
fn within_comprehension<'t>(expr: &'t Expr, names: &BTreeSet<&str>) -> Option<&'t str> {
    tree::parts(expr).into_iter().find_map(|part| match part {
        ExprPart::Expr(part) => within_comprehension(part, names),
        ExprPart::Comprehension(query, terms) => {
            let (declared, mut used) = (tree::declared_in(query), None);
            let mut visit = |span: &'t Span| {
                let name = span.text();
                if used.is_none() && names.contains(name) && !declared.contains(name) {
                    used = Some(name);
                }
            };
            query.stmts.iter().for_each(|statement| tree::each_root_of_statement(statement, &mut visit));
            used.or_else(|| terms.into_iter().find_map(|term| within_comprehension(term, names)))
        }
    })
}

/// Finds unifications in `query` that contain one of `names`, the variables of an enclosing `every`. The engine assigns
/// such a variable a new value.
fn rebound(module: &Module, query: &Query, mut names: BTreeSet<&str>, faults: &mut Vec<Fault>) {
    let declared = tree::declared_in(query);
    names.retain(|name| !declared.contains(name));
    for statement in &query.stmts {
        if let Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } = &statement.literal {
            let mut patterns = BTreeSet::new();
            match expr.as_ref() {
                Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } if !is_membership(expr) => {
                    [lhs, rhs].into_iter().for_each(|side| tree::pattern(side, &mut patterns));
                }
                Expr::Call { params, .. } if walked(expr).is_some() => {
                    params.get(1).into_iter().for_each(|pattern| tree::pattern(pattern, &mut patterns));
                }
                _ => {}
            }
            if let Some(name) = patterns.intersection(&names).next() {
                let text = format!("variable {name} of every in a unification: write := or ==");
                faults.push(module.fault(tree::start(expr), text));
            }
        }
        tree::expressions(statement).into_iter().for_each(|expr| rebound_in(module, expr, &names, faults));
        // The statements of a nested `every` are visited separately, with the variables of that `every`.
        if let Some(query) = tree::query_of(statement) {
            let mut inner = BTreeSet::new();
            tree::declared(statement, &mut inner);
            rebound(module, query, &names - &inner, faults);
        }
    }
}

/// Like [`rebound`], for the comprehensions in `expr`.
fn rebound_in(module: &Module, expr: &Expr, names: &BTreeSet<&str>, faults: &mut Vec<Fault>) {
    for part in tree::parts(expr) {
        match part {
            ExprPart::Expr(part) => rebound_in(module, part, names, faults),
            ExprPart::Comprehension(query, terms) => {
                terms.into_iter().for_each(|term| rebound_in(module, term, names, faults));
                rebound(module, query, names.clone(), faults);
            }
        }
    }
}

/// Finds an object in `pattern`. The engine ignores keys that the compared value has and the object lacks.
fn object(module: &Module, pattern: &Expr) -> Option<Fault> {
    objects::has_object(pattern).then(|| {
        let text = "an object as a pattern: use a variable, and write {…} = variable in the body";
        module.fault(tree::start(pattern), text)
    })
}

/// Finds a unary minus before anything but a number. The engine does not support such a minus, and parses `-x + 1` as
/// `-(x + 1)`.
fn negative(module: &Module, expr: &Expr) -> Option<Fault> {
    let Expr::UnaryExpr { span, expr, .. } = expr else { return None };
    let is_number = matches!(expr.as_ref(), Expr::Number { .. });
    (!is_number)
        .then(|| module.fault(span, "a minus before an expression that is not a number: write 0 - x for -x"))
}

/// Finds a negation that OPA parses as a negated body because of the module's imports. The engine parses the body as a
/// set, or evaluates it in another order.
fn negated_body(module: &Module, expr: &Expr) -> Option<Fault> {
    if module.negation == Negation::OfExpressions {
        return None;
    }
    let text = match expr {
        // The empty set is written as the call `set()`, which OPA does not parse as a body.
        Expr::Set { items, .. } if items.is_empty() => return None,
        Expr::Set { .. } | Expr::Object { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => {
            "with this import of future.keywords, the braces are a negated body: move the body to a rule, and negate the rule"
        }
        Expr::AssignExpr { .. } => {
            "with this import of future.keywords, = binds variables in a negation: compare with =="
        }
        _ => return None,
    };
    Some(module.fault(tree::start(expr), text))
}

/// Finds `not[…]`, which OPA parses as a reference to the rule `not`.
fn negated_array(module: &Module, statement: &LiteralStmt) -> Option<Fault> {
    let is_reference = module.text[statement.span.start as usize..].starts_with("not[");
    is_reference.then(|| {
        module.fault(&statement.span, "variable not is unsafe: write a blank after not to negate an array")
    })
}

/// The keywords of `future.keywords` that the engine supports.
const KEYWORDS: [&str; 5] = ["contains", "every", "if", "in", "not"];

/// Finds imports of keywords that the engine lacks.
fn imports(module: &Module) -> Vec<Fault> {
    let mut faults = Vec::new();
    for import in &module.tree.imports {
        let path = tree::constants(&import.refr);
        let text = match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["rego", version] if *version != "v1" => {
                "the embedded engine only supports rego.v1: import it instead"
            }
            ["future", "keywords", word] if !KEYWORDS.contains(word) => {
                "the embedded engine does not support this keyword: write two rules for or, and two statements for and"
            }
            _ => continue,
        };
        faults.push(module.fault(tree::start(&import.refr), text));
    }
    faults
}

/// Finds an integer with an exponent. OPA treats such a number as a fraction and prints it as written. The engine
/// treats it as an integer.
fn exponent(module: &Module, expr: &Expr) -> Option<Fault> {
    let Expr::Number { span, value, .. } = expr else { return None };
    let is_integer = matches!(value, Value::Number(number) if number.is_integer());
    (is_integer && span.text().contains(['e', 'E'])).then(|| {
        module.fault(span, format!("the integer {} has an exponent: write all of its digits", span.text()))
    })
}

/// Finds a `_` in a value that is assigned, or unified with `_`. In such a value, `_` has no value.
fn wildcard(module: &Module, expr: &Expr) -> Option<Fault> {
    let Expr::AssignExpr { op, lhs, rhs, .. } = expr else { return None };
    let is_wildcard = |side: &Expr| name_of(side) == Some("_");
    let value = match op {
        AssignOp::ColEq => rhs,
        AssignOp::Eq if is_wildcard(lhs) => rhs,
        AssignOp::Eq if is_wildcard(rhs) => lhs,
        AssignOp::Eq => return None,
    };
    let found = wildcard_value(value)?;
    Some(module.fault(found.span(), "variable _ is unsafe: no statement gives it a value"))
}

/// A `_` in `expr` that is not an index of a reference.
fn wildcard_value(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::RefDot { refr, .. } => return wildcard_value(refr),
        Expr::RefBrack { refr, index, .. } => {
            let of_index = if name_of(index) == Some("_") { None } else { wildcard_value(index) };
            return of_index.or_else(|| wildcard_value(refr));
        }
        _ => {}
    }
    if name_of(expr) == Some("_") {
        return Some(expr);
    }
    tree::parts(expr).into_iter().find_map(|part| match part {
        ExprPart::Expr(expr) => wildcard_value(expr),
        ExprPart::Comprehension(..) => None,
    })
}

/// Finds a name that only rewritten texts may use.
fn reserved(module: &Module, name: &Span) -> Option<Fault> {
    let text = format!("names that begin with {RESERVED} are reserved: rename {}", name.text());
    (name.text().starts_with(RESERVED) && name.text() != PART && !name.text().starts_with(WORD))
        .then(|| module.fault(name, text))
}

/// The name of `function`, unless a rule or an import hides the builtin of this name.
fn builtin_name(module: &Module, rules: &Rules<'_>, names: &Names<'_>, function: &Expr) -> Option<String> {
    let constants = tree::constants(function);
    let root = constants.first()?;
    let is_hidden = rules.has_name(module, root) || names.import(root).is_some();
    (!is_hidden).then(|| constants.join("."))
}

/// Finds a constant regular expression that cannot be compiled. A call with such an expression would be undefined, or
/// fail.
fn pattern(module: &Module, rules: &Rules<'_>, names: &Names<'_>, expr: &Expr) -> Option<Fault> {
    let Expr::Call { fcn, params, .. } = expr else { return None };
    let name = builtin_name(module, rules, names, fcn)?;
    let pattern = match name.as_str() {
        "regex.match" | "re_match" | "regex.split" | "regex.find_n" | "regex.find_all_string_submatch_n" => {
            params.first()?
        }
        "regex.replace" => params.get(1)?,
        _ => return None,
    };
    let error = compiled(tree::constant(pattern)?).err()?;
    Some(module.fault(pattern.span(), format!("{name}: the pattern {error}")))
}

/// Finds a constant schema that would end the evaluation when it is used, or a constant document or schema of a type
/// that OPA rejects.
fn schema(module: &Module, rules: &Rules<'_>, names: &Names<'_>, expr: &Expr) -> Option<Fault> {
    let Expr::Call { fcn, params, .. } = expr else { return None };
    let name = builtin_name(module, rules, names, fcn)?;
    let (document, schema) = match (name.as_str(), params.as_slice()) {
        ("json.match_schema", [document, schema, ..]) => (Some(document), schema),
        ("json.verify_schema", [schema, ..]) => (None, schema),
        _ => return None,
    };
    let is_other = |argument: &&Expr| {
        matches!(
            argument,
            Expr::Array { .. }
                | Expr::Set { .. }
                | Expr::ArrayCompr { .. }
                | Expr::SetCompr { .. }
                | Expr::Number { .. }
                | Expr::Bool { .. }
                | Expr::Null { .. }
        )
    };
    let mut arguments = document.into_iter().chain([schema]).map(AsRef::as_ref);
    if let Some(other) = arguments.find(is_other) {
        return Some(module.fault(other.span(), format!("{name} takes a JSON string or an object")));
    }
    // The schema may be the value of a rule.
    let of_rule = || {
        let path = names.path_of_rule(schema).filter(|path| path.rest.is_empty())?;
        let [(_, rule)] = rules.by_path.get(&path.constants)?.as_slice() else { return None };
        tree::head_value(rule).filter(|_| tree::has_no_body(rule))
    };
    let written = of_rule().unwrap_or(schema);
    if has_fraction(written) {
        let text = format!("{name}: the schema has an integer with a fraction: write 2 for 2.0");
        return Some(module.fault(schema.span(), text));
    }
    let error = schemas::check_constant(&name, &value_of(written)?).err()?;
    Some(module.fault(schema.span(), error.to_string()))
}

/// Whether a number in `expr` is an integer that is written with a fraction. OPA distinguishes `2.0` from `2` in a
/// schema.
fn has_fraction(expr: &Expr) -> bool {
    if let Expr::Number { span, value: Value::Number(number), .. } = expr {
        return number.is_integer() && span.text().contains('.');
    }
    tree::parts(expr).into_iter().any(|part| match part {
        ExprPart::Expr(expr) => has_fraction(expr),
        ExprPart::Comprehension(..) => false,
    })
}

/// The value of an expression that consists of constants.
fn value_of(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::String { value, .. }
        | Expr::RawString { value, .. }
        | Expr::Number { value, .. }
        | Expr::Bool { value, .. }
        | Expr::Null { value, .. } => Some(value.clone()),
        Expr::Array { items, .. } => {
            Some(items.iter().map(|item| value_of(item)).collect::<Option<Vec<_>>>()?.into())
        }
        Expr::Object { fields, .. } => {
            let fields = fields.iter().map(|(_, key, value)| Some((value_of(key)?, value_of(value)?)));
            Some(fields.collect::<Option<BTreeMap<_, _>>>()?.into())
        }
        _ => None,
    }
}
