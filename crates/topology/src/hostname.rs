//! Host names of listeners and routes, and their intersection.
//!
//! `*.` matches one label or more: `*.example.com` covers `a.example.com` and `a.b.example.com`, but not
//! `example.com`.

/// Whether `pattern` matches the host `name`. If `name` is a wildcard: whether `pattern` matches all hosts that `name`
/// matches.
#[must_use]
pub fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        // The suffix is `.example.com`, and a host has at least one character before it.
        Some(suffix) => pattern == name || (name.len() > suffix.len() && name.ends_with(suffix)),
        None => pattern == name,
    }
}

/// The hosts that both names cover: the more specific of the two names, or `None` if they have no host in common.
#[must_use]
pub fn intersect<'h>(left: &'h str, right: &'h str) -> Option<&'h str> {
    if covers(left, right) {
        Some(right)
    } else if covers(right, left) {
        Some(left)
    } else {
        None
    }
}

/// The hosts that a listener with the host `listener` and a route with the hosts `route` both serve, sorted;
/// `*` for all hosts.
pub fn common_hosts<'h>(listener: Option<&'h str>, route: impl IntoIterator<Item = &'h str>) -> Vec<&'h str> {
    let mut route = route.into_iter().peekable();
    if route.peek().is_none() {
        return vec![listener.unwrap_or("*")];
    }
    let mut hosts: Vec<&str> = match listener {
        None => route.collect(),
        Some(listener) => route.filter_map(|route| intersect(listener, route)).collect(),
    };
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

#[cfg(test)]
mod tests;
