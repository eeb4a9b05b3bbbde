//! Paths in `data`, such as `["data", "lib", "labels"]`, and their overlaps. Two paths meet if one is a prefix of the
//! other.

use std::collections::BTreeSet;
use std::ops::Bound;

/// A set of paths in `data`. The time of a lookup depends on the length of the path, not on the number of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(BTreeSet<Vec<String>>);

impl Paths {
    /// Whether a path of the set meets `place`.
    #[must_use]
    pub fn overlaps(&self, place: &[String]) -> bool {
        let contains = |length: usize| self.0.contains(&place[..length]);
        (0..=place.len()).any(contains) || self.within(place).next().is_some()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Vec<String>> {
        self.0.iter()
    }

    /// The paths inside `place`.
    fn within<'p>(&'p self, place: &'p [String]) -> impl Iterator<Item = &'p Vec<String>> {
        let from = self.0.range::<[String], _>((Bound::Included(place), Bound::Unbounded));
        from.take_while(move |path| path.starts_with(place))
    }

    /// The paths that meet `place`.
    pub(super) fn overlapping(&self, place: &[String]) -> Vec<Vec<String>> {
        let mut overlapping: Vec<Vec<String>> = self.within(place).cloned().collect();
        let containing = (0..place.len()).filter(|length| self.0.contains(&place[..*length]));
        overlapping.extend(containing.map(|length| place[..length].to_vec()));
        overlapping
    }

    /// Removes the paths that meet `place`, and returns them.
    pub(super) fn take(&mut self, place: &[String]) -> Vec<Vec<String>> {
        let taken = self.overlapping(place);
        for path in &taken {
            self.0.remove(path);
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
    fn paths_meet_if_one_is_a_prefix_of_the_other() {
        let paths: Paths = ["data.a.b", "data.c", "data.d-e"].map(path).into_iter().collect();
        for (place, expected) in [
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
            assert_eq!(paths.overlaps(&path(place)), expected, "{place}");
            let mut left = paths.clone();
            assert_eq!(!left.take(&path(place)).is_empty(), expected, "{place}");
            assert!(!left.overlaps(&path(place)), "{place}");
        }
    }
}
