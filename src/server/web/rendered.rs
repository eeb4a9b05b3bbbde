//! Pages as they were made: many tabs that show the same cost one.

use axum::body::Bytes;
use parking_lot::Mutex;

use crate::web::FleetQuery;

/// How many pages are kept.
const KEPT: usize = 32;

/// The pages that were made since something changed.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    pages: Mutex<(u64, Vec<(FleetQuery, Bytes)>)>,
}

impl Rendered {
    /// The page of `query` as of `version`: the one that is there, or one that is made now, while others wait for it.
    pub(super) fn page(&self, query: &FleetQuery, version: u64, make: impl FnOnce() -> String) -> Bytes {
        let mut kept = self.pages.lock();
        if kept.0 != version {
            *kept = (version, Vec::new());
        }
        if let Some((_, page)) = kept.1.iter().find(|(of, _)| of == query) {
            return page.clone();
        }
        let page = Bytes::from(make());
        if kept.1.len() == KEPT {
            kept.1.remove(0);
        }
        kept.1.push((query.clone(), page.clone()));
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_made_once_until_something_changes() {
        let (rendered, query) = (Rendered::default(), FleetQuery::read("namespace=shop"));
        let mut made = 0;
        let mut page = |query: &FleetQuery, version| {
            rendered.page(query, version, || {
                made += 1;
                made.to_string()
            })
        };
        assert_eq!(page(&query, 1), "1");
        assert_eq!(page(&query, 1), "1");
        assert_eq!(page(&FleetQuery::default(), 1), "2");
        assert_eq!(page(&query, 2), "3");
        (0..2 * KEPT).for_each(|n| drop(page(&FleetQuery::read(&format!("policy={}", n + 1)), 2)));
        assert!(rendered.pages.lock().1.len() <= KEPT);
    }
}
