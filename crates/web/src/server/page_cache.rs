//! A cache of rendered pages, so that several tabs with one page cause one rendering.

use axum::body::Bytes;
use parking_lot::Mutex;

/// How many pages are cached.
const CAPACITY: usize = 32;

/// The pages rendered since the last change, with their queries.
#[derive(Debug)]
pub(super) struct PageCache<Q> {
    pages: Mutex<(u64, Vec<(Q, Bytes)>)>,
}

impl<Q> Default for PageCache<Q> {
    fn default() -> Self {
        Self { pages: Mutex::default() }
    }
}

impl<Q: Clone + PartialEq> PageCache<Q> {
    /// The page of `query` at `version`: from the cache, or rendered by `make` while other callers wait.
    /// `make` also returns whether to cache it.
    pub(super) fn page(&self, query: &Q, version: u64, make: impl FnOnce() -> (String, bool)) -> Bytes {
        let mut kept = self.pages.lock();
        if kept.0 != version {
            *kept = (version, Vec::new());
        }
        if let Some((_, page)) = kept.1.iter().find(|(of, _)| of == query) {
            return page.clone();
        }
        let (page, keep) = make();
        let page = Bytes::from(page);
        if keep {
            if kept.1.len() == CAPACITY {
                kept.1.remove(0);
            }
            kept.1.push((query.clone(), page.clone()));
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_rendered_once_until_a_change() {
        let rendered = PageCache::default();
        let mut made = 0;
        let mut page = |query: usize, version, keep| {
            rendered.page(&query, version, || {
                made += 1;
                (made.to_string(), keep)
            })
        };
        assert_eq!(page(7, 1, true), "1");
        assert_eq!(page(7, 1, true), "1");
        assert_eq!(page(0, 1, false), "2");
        assert_eq!(page(0, 1, true), "3");
        assert_eq!(page(7, 2, true), "4");
        (0..2 * CAPACITY).for_each(|query| drop(page(query, 2, true)));
        assert!(rendered.pages.lock().1.len() <= CAPACITY);
    }
}
