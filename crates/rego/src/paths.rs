//! Paths in `data`, such as `["data", "lib", "labels"]`, and their overlaps. Two paths overlap if one is a prefix of
//! the other.

use std::collections::BTreeSet;
use std::ops::Bound;

/// A set of paths in `data`. The time of a lookup depends on the length of the path, not on the number of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(BTreeSet<Vec<String>>);

impl Paths {
    /// Whether a path of the set overlaps `path`: one of the two paths is a prefix of the other.
    #[must_use]
    pub fn overlaps(&self, path: &[String]) -> bool {
        let contains = |length: usize| self.0.contains(&path[..length]);
        (0..=path.len()).any(contains) || self.within(path).next().is_some()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Vec<String>> {
        self.0.iter()
    }

    /// The paths of which `path` is a prefix.
    fn within<'p>(&'p self, path: &'p [String]) -> impl Iterator<Item = &'p Vec<String>> {
        let from = self.0.range::<[String], _>((Bound::Included(path), Bound::Unbounded));
        from.take_while(move |other| other.starts_with(path))
    }

    /// The paths that overlap `path`.
    pub(super) fn overlapping(&self, path: &[String]) -> Vec<Vec<String>> {
        let mut overlapping: Vec<Vec<String>> = self.within(path).cloned().collect();
        let containing = (0..path.len()).filter(|length| self.0.contains(&path[..*length]));
        overlapping.extend(containing.map(|length| path[..length].to_vec()));
        overlapping
    }

    /// Removes and returns the paths that overlap `path`.
    pub(super) fn take(&mut self, path: &[String]) -> Vec<Vec<String>> {
        let taken = self.overlapping(path);
        for other in &taken {
            self.0.remove(other);
        }
        taken
    }
}

impl FromIterator<Vec<String>> for Paths {
    fn from_iter<I: IntoIterator<Item = Vec<String>>>(paths: I) -> Self {
        Self(paths.into_iter().collect())
    }
}

impl Extend<Vec<String>> for Paths {
    fn extend<I: IntoIterator<Item = Vec<String>>>(&mut self, paths: I) {
        self.0.extend(paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn paths_overlap_if_one_is_a_prefix_of_the_other() {
        let paths: Paths = ["data.a.b", "data.c", "data.d-e"].map(path).into_iter().collect();
        for (text, expected) in [
            ("data.a.b", true),
            ("data.a", true),
            ("data", true),
            ("data.a.b.c.d", true),
            ("data.a.c", false),
            ("data.a.b2", false),
            ("data.d", false),
            ("data.c.x", true),
            ("input", false),
        ] {
            assert_eq!(paths.overlaps(&path(text)), expected, "{text}");
            let mut left = paths.clone();
            assert_eq!(!left.take(&path(text)).is_empty(), expected, "{text}");
            assert!(!left.overlaps(&path(text)), "{text}");
        }
    }
}
