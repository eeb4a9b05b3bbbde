//! Paginated lists.

use http::Request;
use kube::api::ListParams;
use kube::core::request;

use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_mirror::{Projection, Source};

/// The requests for the pages of one list. Each request needs the continue token of the previous page.
#[derive(Debug)]
pub struct Pages {
    of: request::Request,
    params: ListParams,
    projection: Projection,
}

impl Pages {
    /// Lists the objects of `gvr` in `namespace` with `params`. An empty namespace means all namespaces.
    #[must_use]
    pub fn new(
        gvr: &GroupVersionResource,
        namespace: &str,
        params: ListParams,
        projection: Projection,
    ) -> Self {
        Self { of: request::Request::new(gvr.path(namespace)), params, projection }
    }

    /// Lists the objects of `source`, with at most `limit` objects per page. `gvr` is the resource and version to
    /// request. The label selector of `source` may depend on the name `controller`.
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
        Self::new(gvr, source.namespace(), params, source.projection())
    }

    /// The request for the next page.
    ///
    /// # Errors
    ///
    /// If the parameters do not form a valid URL.
    pub fn request(&self) -> Result<Request<Vec<u8>>, request::Error> {
        match self.projection {
            Projection::Metadata => self.of.list_metadata(&self.params),
            Projection::Full | Projection::FullWithText => self.of.list(&self.params),
        }
    }

    /// Moves on to the next page, with the continue token `token` of the current page. Returns whether there is a next
    /// page.
    pub fn advance(&mut self, token: Option<String>) -> bool {
        self.params.continue_token = token.filter(|token| !token.is_empty());
        self.params.continue_token.is_some()
    }
}

#[cfg(test)]
mod tests;
