//! Host names of listeners and of routes, and what two of them have in common.
//!
//! `*.` stands for one label or more, never for none: `*.example.com` has `a.example.com` and `a.b.example.com`, and not
//! `example.com`.

/// Whether `pattern` has the host `name`, or all hosts that `name` has.
#[must_use]
pub fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        // `.example.com`, with something before it.
        Some(suffix) => pattern == name || (name.len() > suffix.len() && name.ends_with(suffix)),
        None => pattern == name,
    }
}

/// The hosts that both have: one of the two, where there are any.
#[must_use]
pub fn meet<'h>(left: &'h str, right: &'h str) -> Option<&'h str> {
    if covers(left, right) {
        Some(right)
    } else if covers(right, left) {
        Some(left)
    } else {
        None
    }
}

/// The hosts that a listener of `listener` and a route of `route` both let through, sorted; `*` where that is all of them.
pub fn between<'h>(listener: Option<&'h str>, route: impl IntoIterator<Item = &'h str>) -> Vec<&'h str> {
    let mut route = route.into_iter().peekable();
    if route.peek().is_none() {
        return vec![listener.unwrap_or("*")];
    }
    let mut hosts: Vec<&str> = match listener {
        None => route.collect(),
        Some(listener) => route.filter_map(|route| meet(listener, route)).collect(),
    };
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

#[cfg(test)]
mod tests;
