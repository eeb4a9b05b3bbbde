//! Paginated lists.

use http::Request;
use kube::api::ListParams;
use kube::core::request;

use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_mirror::{Extent, Source};

/// The requests for the pages of one list. Each needs the continue token of the page before.
#[derive(Debug)]
pub struct Pages {
    of: request::Request,
    params: ListParams,
    extent: Extent,
}

impl Pages {
    /// Lists the objects of `gvr` in `namespace` with `params`. An empty namespace means all namespaces.
    #[must_use]
    pub fn new(gvr: &GroupVersionResource, namespace: &str, params: ListParams, extent: Extent) -> Self {
        Self { of: request::Request::new(gvr.path(namespace)), params, extent }
    }

    /// Lists the objects of `source` as `gvr`, with the selectors of `controller` and at most `limit` objects per page.
    #[must_use]
    pub fn of_source(
        source: &Source,
        gvr: &GroupVersionResource,
        controller: &ControllerName,
        limit: u32,
    ) -> Self {
        let mut params = ListParams::default().limit(limit);
        params.label_selector = source.labels(controller);
        params.field_selector = source.fields();
        Self::new(gvr, source.namespace(), params, source.extent())
    }

    /// The request for the next page.
    ///
    /// # Errors
    ///
    /// If the parameters do not form a valid URL.
    pub fn request(&self) -> Result<Request<Vec<u8>>, request::Error> {
        match self.extent {
            Extent::Metadata => self.of.list_metadata(&self.params),
            Extent::Whole | Extent::Text => self.of.list(&self.params),
        }
    }

    /// Moves on to the page after the one with this continue token. Returns whether there is one.
    pub fn turn(&mut self, token: Option<String>) -> bool {
        self.params.continue_token = token.filter(|token| !token.is_empty());
        self.params.continue_token.is_some()
    }
}

#[cfg(test)]
mod tests;
