//! Which routes of one listener have hosts in common, without comparing each with each.

use std::collections::HashSet;

/// The hosts of some routes.
#[derive(Default)]
pub(super) struct Hosts<'h> {
    /// Whether one of them is for all.
    all: bool,
    /// Host names, and the suffixes of wildcards as they are written: `*.example.com`.
    written: HashSet<&'h str>,
    /// Every `.suffix` of each of them.
    suffixes: HashSet<&'h str>,
}

impl<'h> Hosts<'h> {
    /// Adds the hosts of a route, `*` for all.
    pub(super) fn add(&mut self, hosts: &[&'h str]) {
        for host in hosts {
            self.all |= *host == "*";
            self.written.insert(host);
            self.suffixes.extend(suffixes(host));
        }
    }

    /// Whether any of `hosts` is, or has, or is had by one of these.
    pub(super) fn meet(&self, hosts: &[&str]) -> bool {
        if self.written.is_empty() {
            return false;
        }
        hosts.iter().any(|host| {
            let has = || suffixes(host).any(|suffix| self.written.contains(&*format!("*{suffix}")));
            let is_had = || host.strip_prefix('*').is_some_and(|suffix| self.suffixes.contains(suffix));
            self.all || *host == "*" || self.written.contains(host) || has() || is_had()
        })
    }
}

/// `.example.com` and `.com` of `a.example.com`, and of `*.a.example.com` also `.a.example.com` without the wildcard's own.
fn suffixes(host: &str) -> impl Iterator<Item = &str> {
    let host = host.strip_prefix("*.").unwrap_or(host);
    let dots = host.match_indices('.').map(|(at, _)| at);
    dots.map(move |at| &host[at..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hostname::meet;

    fn host() -> impl Strategy<Value = String> {
        let label = prop_oneof!["a", "b", "com"];
        let name = prop::collection::vec(label, 1..4).prop_map(|labels| labels.join("."));
        (prop::bool::ANY, name).prop_map(|(wild, name)| if wild { format!("*.{name}") } else { name })
    }

    proptest! {
        /// Looking them up says the same as comparing each with each.
        #[test]
        fn hosts_meet_as_each_with_each(
            left in prop::collection::vec(host(), 1..4),
            right in prop::collection::vec(host(), 1..4),
        ) {
            let (left, right): (Vec<&str>, Vec<&str>) =
                (left.iter().map(String::as_str).collect(), right.iter().map(String::as_str).collect());
            let mut hosts = Hosts::default();
            hosts.add(&left);
            let each = left.iter().any(|left| right.iter().any(|right| meet(left, right).is_some()));
            prop_assert_eq!(hosts.meet(&right), each);
        }
    }
}
