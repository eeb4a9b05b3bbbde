//! Finds routes of one listener with hosts in common, without comparing each pair.

use std::collections::HashSet;

/// The hosts of some routes.
#[derive(Default)]
pub(super) struct HostSet<'h> {
    /// Whether a route serves all hosts.
    all: bool,
    /// Host names, and wildcards as in the spec: `*.example.com`.
    written: HashSet<&'h str>,
    /// Every suffix of each host: `.example.com`.
    suffixes: HashSet<&'h str>,
}

impl<'h> HostSet<'h> {
    /// Adds the hosts of a route; `*` means all hosts.
    pub(super) fn add(&mut self, hosts: &[&'h str]) {
        for host in hosts {
            self.all |= *host == "*";
            self.written.insert(host);
            self.suffixes.extend(suffixes(host));
        }
    }

    /// Whether any of `hosts` overlaps with a host in this set.
    pub(super) fn overlap(&self, hosts: &[&str]) -> bool {
        if self.written.is_empty() {
            return false;
        }
        hosts.iter().any(|host| {
            let is_matched_by_wildcard =
                || suffixes(host).any(|suffix| self.written.contains(&*format!("*{suffix}")));
            let matches_written =
                || host.strip_prefix('*').is_some_and(|suffix| self.suffixes.contains(suffix));
            self.all
                || *host == "*"
                || self.written.contains(host)
                || is_matched_by_wildcard()
                || matches_written()
        })
    }
}

/// The suffixes of `host`: `.example.com` and `.com` for `a.example.com`. The wildcard
/// `*.a.example.com` has the same suffixes.
fn suffixes(host: &str) -> impl Iterator<Item = &str> {
    let host = host.strip_prefix("*.").unwrap_or(host);
    let dots = host.match_indices('.').map(|(at, _)| at);
    dots.map(move |at| &host[at..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hostname::intersect;

    fn host() -> impl Strategy<Value = String> {
        let label = prop_oneof!["a", "b", "com"];
        let name = prop::collection::vec(label, 1..4).prop_map(|labels| labels.join("."));
        (prop::bool::ANY, name).prop_map(|(wild, name)| if wild { format!("*.{name}") } else { name })
    }

    proptest! {
        /// `HostSet::overlap` gives the same result as a comparison of each pair of hosts.
        #[test]
        fn overlap_of_host_sets_equals_overlap_of_any_pair(
            left in prop::collection::vec(host(), 1..4),
            right in prop::collection::vec(host(), 1..4),
        ) {
            let (left, right): (Vec<&str>, Vec<&str>) =
                (left.iter().map(String::as_str).collect(), right.iter().map(String::as_str).collect());
            let mut hosts = HostSet::default();
            hosts.add(&left);
            let each = left.iter().any(|left| right.iter().any(|right| intersect(left, right).is_some()));
            prop_assert_eq!(hosts.overlap(&right), each);
        }
    }
}
