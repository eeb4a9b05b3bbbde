//! Functions for syntax trees of modules. These functions do not resolve names.

use std::collections::BTreeSet;

use regorus::unstable::{
    ArithOp, AssignOp, BinOp, BoolOp, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleBody,
    RuleHead, Span,
};

/// The prefix of a placeholder for a keyword as the first name of a rule: `policysync_word_if` in the head of `if.foo`.
pub(super) const WORD: &str = "policysync_word_";

/// A direct part of an expression.
pub(super) enum ExprPart<'t> {
    Expr(&'t Expr),
    /// The body of a comprehension, and its terms.
    Comprehension(&'t Query, Vec<&'t Expr>),
}

/// The parts of `expr`. The parts of a reference are its indexes, and its root unless the root is a variable.
pub(super) fn parts(expr: &Expr) -> Vec<ExprPart<'_>> {
    match expr {
        Expr::String { .. }
        | Expr::RawString { .. }
        | Expr::Number { .. }
        | Expr::Bool { .. }
        | Expr::Null { .. }
        | Expr::Var { .. } => Vec::new(),
        Expr::Array { items, .. } | Expr::Set { items, .. } => {
            items.iter().map(|item| ExprPart::Expr(item)).collect()
        }
        Expr::Object { fields, .. } => {
            fields.iter().flat_map(|(_, key, value)| [ExprPart::Expr(key), ExprPart::Expr(value)]).collect()
        }
        Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
            vec![ExprPart::Comprehension(query, vec![term])]
        }
        Expr::ObjectCompr { key, value, query, .. } => vec![ExprPart::Comprehension(query, vec![key, value])],
        Expr::Call { params, .. } => params.iter().map(|param| ExprPart::Expr(param)).collect(),
        Expr::UnaryExpr { expr, .. } => vec![ExprPart::Expr(expr)],
        Expr::RefDot { .. } | Expr::RefBrack { .. } => {
            let root = steps(expr).0;
            let root = (!matches!(root, Expr::Var { .. })).then_some(ExprPart::Expr(root));
            root.into_iter().chain(indexes(expr).map(ExprPart::Expr)).collect()
        }
        Expr::BinExpr { lhs, rhs, .. }
        | Expr::BoolExpr { lhs, rhs, .. }
        | Expr::ArithExpr { lhs, rhs, .. }
        | Expr::AssignExpr { lhs, rhs, .. } => vec![ExprPart::Expr(lhs), ExprPart::Expr(rhs)],
        Expr::Membership { key, value, collection, .. } => {
            key.iter().chain([value, collection]).map(|part| ExprPart::Expr(part)).collect()
        }
    }
}

/// Whether `is` holds for a part of `expr`. Comprehensions are skipped.
pub(super) fn any_part(expr: &Expr, is: impl Fn(&Expr) -> bool) -> bool {
    parts(expr).into_iter().any(|part| match part {
        ExprPart::Expr(part) => is(part),
        ExprPart::Comprehension(..) => false,
    })
}

/// Whether `expr` is or contains a comprehension, outside of the arguments of calls.
pub(super) fn has_comprehension(expr: &Expr) -> bool {
    match expr {
        Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => true,
        Expr::Call { .. } => false,
        _ => any_part(expr, has_comprehension),
    }
}

/// The expressions of `statement` outside of its nested query, including those of `with`.
pub(super) fn expressions(statement: &LiteralStmt) -> Vec<&Expr> {
    let mut expressions: Vec<&Expr> = match &statement.literal {
        Literal::SomeVars { .. } => Vec::new(),
        Literal::SomeIn { key, value, collection, .. } => {
            key.iter().chain([value, collection]).map(AsRef::as_ref).collect()
        }
        Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => vec![expr],
        Literal::Every { domain, .. } => vec![domain],
    };
    expressions.extend(statement.with_mods.iter().map(|with| with.r#as.as_ref()));
    expressions
}

/// The nested query of `statement`: the body of an `every`.
pub(super) fn query_of(statement: &LiteralStmt) -> Option<&Query> {
    match &statement.literal {
        Literal::Every { query, .. } => Some(query),
        _ => None,
    }
}

/// The reference in the head of `rule`: its name.
pub(super) fn reference(rule: &Rule) -> &Expr {
    match rule {
        Rule::Default { refr, .. } => refr,
        Rule::Spec { head, .. } => match head {
            RuleHead::Compr { refr, .. } | RuleHead::Set { refr, .. } | RuleHead::Func { refr, .. } => refr,
        },
    }
}

/// The arguments of a function; empty for other rules.
pub(super) fn arguments(rule: &Rule) -> &[Ref<Expr>] {
    match rule {
        Rule::Default { args, .. } | Rule::Spec { head: RuleHead::Func { args, .. }, .. } => args,
        Rule::Spec { .. } => &[],
    }
}

/// The value or element in the head of `rule`.
pub(super) fn head_value(rule: &Rule) -> Option<&Expr> {
    match rule {
        Rule::Default { value, .. } => Some(value),
        Rule::Spec { head, .. } => match head {
            RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
                assign.as_ref().map(|assign| assign.value.as_ref())
            }
            RuleHead::Set { key, .. } => key.as_deref(),
        },
    }
}

/// Whether `rule` has no body.
pub(super) fn has_no_body(rule: &Rule) -> bool {
    matches!(rule, Rule::Spec { bodies, .. } if bodies.is_empty())
}

/// The variables in `expr`, if `expr` is a variable, or an array or object with variables. In a unification, such an
/// expression is a pattern.
pub(super) fn variables(expr: &Expr) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    pattern(expr, &mut names);
    names
}

/// Adds the [`variables`] of the pattern `expr` to `names`.
pub(super) fn pattern<'t>(expr: &'t Expr, names: &mut BTreeSet<&'t str>) {
    match expr {
        Expr::Var { span, .. } => drop(names.insert(span.text())),
        Expr::Array { items, .. } => items.iter().for_each(|item| pattern(item, names)),
        Expr::Object { fields, .. } => fields.iter().for_each(|(_, _, value)| pattern(value, names)),
        _ => {}
    }
}

/// Adds the names that `statement` declares, including those that shadow other names.
pub(super) fn declared<'t>(statement: &'t LiteralStmt, names: &mut BTreeSet<&'t str>) {
    match &statement.literal {
        Literal::SomeVars { vars, .. } => names.extend(vars.iter().map(|span| span.text())),
        Literal::SomeIn { key, value, .. } => key.iter().chain([value]).for_each(|expr| pattern(expr, names)),
        Literal::Every { key, value, .. } => names.extend(key.iter().chain([value]).map(|span| span.text())),
        Literal::Expr { expr, .. } => {
            if let Expr::AssignExpr { op: AssignOp::ColEq, lhs, .. } = expr.as_ref() {
                pattern(lhs, names);
            }
        }
        Literal::NotExpr { .. } => {}
    }
}

/// The names that the statements of `query` declare for the whole query, without those of `every`.
pub(super) fn declared_in(query: &Query) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for statement in &query.stmts {
        if !matches!(statement.literal, Literal::Every { .. }) {
            declared(statement, &mut names);
        }
    }
    names
}

/// A node that a walk visits.
enum Node<'t> {
    Expr(&'t Expr),
    Statement(&'t LiteralStmt),
}

/// Visits the first name of each reference, call and replacement by `with` in `statement`.
pub(super) fn each_root_of_statement<'t>(statement: &'t LiteralStmt, visit: &mut dyn FnMut(&'t Span)) {
    let mut root_of = |expr: &'t Expr| {
        if let Expr::Var { span, .. } = steps(expr).0 {
            visit(span);
        }
    };
    walk_statement(statement, &mut |node| match node {
        Node::Expr(Expr::Call { fcn, .. }) => root_of(fcn),
        Node::Expr(expr @ (Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. })) => root_of(expr),
        Node::Expr(_) => {}
        Node::Statement(statement) => statement.with_mods.iter().for_each(|with| root_of(&with.refr)),
    });
}

/// Visits each expression of `module`, an outer expression before its inner expressions.
pub(super) fn each<'t>(module: &'t Module, visit: &mut dyn FnMut(&'t Expr)) {
    for rule in &module.policy {
        each_of_rule(rule, visit);
    }
}

/// Visits each expression of `rule`, including its head.
pub(super) fn each_of_rule<'t>(rule: &'t Rule, visit: &mut dyn FnMut(&'t Expr)) {
    walk(rule, &mut |node| {
        if let Node::Expr(expr) = node {
            visit(expr);
        }
    });
}

/// Visits each statement of `rule`, including those of comprehensions and of `every`.
pub(super) fn each_statement<'t>(rule: &'t Rule, visit: &mut dyn FnMut(&'t LiteralStmt)) {
    walk(rule, &mut |node| {
        if let Node::Statement(statement) = node {
            visit(statement);
        }
    });
}

/// Visits each expression of `body`.
pub(super) fn each_of_body<'t>(body: &'t RuleBody, visit: &mut dyn FnMut(&'t Expr)) {
    walk_body(body, &mut |node| {
        if let Node::Expr(expr) = node {
            visit(expr);
        }
    });
}

fn walk<'t>(rule: &'t Rule, visit: &mut dyn FnMut(Node<'t>)) {
    walk_expr(reference(rule), visit);
    arguments(rule).iter().for_each(|argument| walk_expr(argument, visit));
    if let Some(value) = head_value(rule) {
        walk_expr(value, visit);
    }
    if let Rule::Spec { bodies, .. } = rule {
        bodies.iter().for_each(|body| walk_body(body, visit));
    }
}

fn walk_body<'t>(body: &'t RuleBody, visit: &mut dyn FnMut(Node<'t>)) {
    if let Some(assign) = &body.assign {
        walk_expr(&assign.value, visit);
    }
    walk_query(&body.query, visit);
}

fn walk_query<'t>(query: &'t Query, visit: &mut dyn FnMut(Node<'t>)) {
    query.stmts.iter().for_each(|statement| walk_statement(statement, visit));
}

fn walk_statement<'t>(statement: &'t LiteralStmt, visit: &mut dyn FnMut(Node<'t>)) {
    visit(Node::Statement(statement));
    expressions(statement).into_iter().for_each(|expr| walk_expr(expr, visit));
    if let Some(query) = query_of(statement) {
        walk_query(query, visit);
    }
}

fn walk_expr<'t>(expr: &'t Expr, visit: &mut dyn FnMut(Node<'t>)) {
    visit(Node::Expr(expr));
    for part in parts(expr) {
        match part {
            ExprPart::Expr(expr) => walk_expr(expr, visit),
            ExprPart::Comprehension(query, terms) => {
                terms.into_iter().for_each(|term| walk_expr(term, visit));
                walk_query(query, visit);
            }
        }
    }
}

/// The operator of `expr`, and the name of the operator's function in OPA.
pub(super) fn operator(expr: &Expr) -> Option<(&'static str, &'static str)> {
    Some(match expr {
        Expr::ArithExpr { op, .. } => match op {
            ArithOp::Add => ("+", "plus"),
            ArithOp::Sub => ("-", "minus"),
            ArithOp::Mul => ("*", "mul"),
            ArithOp::Div => ("/", "div"),
            ArithOp::Mod => ("%", "rem"),
        },
        Expr::UnaryExpr { .. } => ("-", "minus"),
        Expr::BinExpr { op, .. } => match op {
            BinOp::Intersection => ("&", "and"),
            BinOp::Union => ("|", "or"),
        },
        Expr::BoolExpr { op, .. } => match op {
            BoolOp::Lt => ("<", "lt"),
            BoolOp::Le => ("<=", "lte"),
            BoolOp::Eq => ("==", "equal"),
            BoolOp::Ge => (">=", "gte"),
            BoolOp::Gt => (">", "gt"),
            BoolOp::Ne => ("!=", "neq"),
        },
        Expr::AssignExpr { op, .. } => match op {
            AssignOp::Eq => ("=", "eq"),
            AssignOp::ColEq => (":=", "assign"),
        },
        Expr::Membership { .. } => ("in", "internal"),
        _ => return None,
    })
}

/// The place where `expr` begins. For compound expressions, the syntax tree itself only has the place of the last part.
pub(super) fn start(expr: &Expr) -> &Span {
    match expr {
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => start(refr),
        Expr::Call { fcn, .. } => start(fcn),
        Expr::BinExpr { lhs, .. }
        | Expr::BoolExpr { lhs, .. }
        | Expr::ArithExpr { lhs, .. }
        | Expr::AssignExpr { lhs, .. } => start(lhs),
        Expr::Membership { key, value, .. } => start(key.as_ref().unwrap_or(value)),
        _ => expr.span(),
    }
}

/// A step of a reference, after its root.
#[derive(Clone, Copy)]
pub(super) enum Step<'t> {
    /// A constant key, as written in the tree.
    Key(&'t str),
    /// Any other index.
    Index(&'t Expr),
}

/// The root of the reference `expr` and its steps.
pub(super) fn steps(expr: &Expr) -> (&Expr, Vec<Step<'_>>) {
    let (mut root, mut steps) = (expr, Vec::new());
    loop {
        match root {
            Expr::RefDot { refr, field, .. } => {
                steps.push(Step::Key(field.0.text()));
                root = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                steps.push(constant(index).map_or(Step::Index(index), Step::Key));
                root = refr;
            }
            _ => {
                steps.reverse();
                return (root, steps);
            }
        }
    }
}

/// The steps of the reference `expr` that are not constant keys; empty for other expressions.
pub(super) fn indexes(expr: &Expr) -> impl Iterator<Item = &Expr> {
    steps(expr).1.into_iter().filter_map(|step| match step {
        Step::Index(index) => Some(index),
        Step::Key(_) => None,
    })
}

/// Adds the names that are bound if `expr` has a value, except names in comprehensions.
pub(super) fn used<'t>(expr: &'t Expr, names: &mut BTreeSet<&'t str>) {
    if let Expr::Var { span, .. } = steps(expr).0 {
        names.insert(span.text());
    }
    for part in parts(expr) {
        if let ExprPart::Expr(expr) = part {
            used(expr, names);
        }
    }
}

/// The value of `expr`, if `expr` is a constant string.
pub(super) fn constant(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::String { value, .. } | Expr::RawString { value, .. } => {
            value.as_string().ok().map(AsRef::as_ref)
        }
        _ => None,
    }
}

/// The constant steps at the start of a reference, including its root: `["io", "k8s"]` for `io.k8s[x].y`.
pub(super) fn constants(expr: &Expr) -> Vec<String> {
    let (root, steps) = steps(expr);
    let Expr::Var { span, .. } = root else { return Vec::new() };
    let keys = steps.into_iter().map_while(|step| match step {
        Step::Key(key) => Some(key.to_owned()),
        Step::Index(_) => None,
    });
    [name(span).to_owned()].into_iter().chain(keys).collect()
}

/// The text of `span`, or the keyword for which it is a [placeholder](WORD).
pub(super) fn name(span: &Span) -> &str {
    span.text().strip_prefix(WORD).unwrap_or(span.text())
}

/// Visits the first name of each reference, call and replacement by `with` in `rule`, except in its head.
pub(super) fn each_root<'t>(rule: &'t Rule, visit: &mut dyn FnMut(&'t Span)) {
    let head = reference(rule);
    let mut root_of = |expr: &'t Expr| {
        if let Expr::Var { span, .. } = steps(expr).0 {
            visit(span);
        }
    };
    each_of_rule(rule, &mut |expr| match expr {
        Expr::Call { fcn, .. } => root_of(fcn),
        Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } if !std::ptr::eq(expr, head) => {
            root_of(expr);
        }
        _ => {}
    });
    each_statement(rule, &mut |statement| {
        statement.with_mods.iter().for_each(|with| root_of(&with.refr));
    });
}

/// The number of arguments of a function; `None` for other rules.
pub(super) fn arity(rule: &Rule) -> Option<usize> {
    match rule {
        Rule::Spec { head: RuleHead::Func { args, .. }, .. } => Some(args.len()),
        Rule::Default { args, .. } if !args.is_empty() => Some(args.len()),
        Rule::Default { .. } | Rule::Spec { .. } => None,
    }
}

/// The value of the constant key `name` in an object literal.
pub(super) fn field<'t>(object: &'t Expr, name: &str) -> Option<&'t Expr> {
    let Expr::Object { fields, .. } = object else { return None };
    let field = fields.iter().find(|(_, key, _)| constant(key) == Some(name))?;
    Some(&field.2)
}
