//! The current and the last valid parameters of this controller's classes.

use std::sync::Arc;

use super::{CLASS_DELETION_DELAY, DeletedClass, Index};
use crate::kinds::{CLASSES, config_map};
use crate::rows::class::{Class, ConfigMap};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::params::{InvalidParams, Params, ParamsError};
use policy_sync_mirror::Tables;

impl Index {
    /// Stores a deleted class for as long as it may be created again.
    pub(super) fn class_deleted(&mut self, key: &ObjectKey, before: Option<&Class>, now: Moment) {
        self.deleted_classes.retain(|_, deleted| deleted.since.after(CLASS_DELETION_DELAY) > now);
        if let Some(class) = before.filter(|class| self.is_ours(class)).cloned() {
            let params = self.known_params.get(key).cloned();
            self.deleted_classes.insert(key.clone(), DeletedClass { class, params, since: now });
        }
    }

    /// Updates the index after a class of this name was created again, by any owner. The last valid parameters of the
    /// deleted class apply until new parameters are read.
    pub(super) fn class_recreated(&mut self, key: &ObjectKey) {
        if let Some(DeletedClass { params: Some(params), .. }) = self.deleted_classes.remove(key) {
            self.known_params.insert(key.clone(), params);
        }
    }

    /// Updates the index after the class `key` was created, changed or deleted. `before` is its old row.
    pub(super) fn class_changed(&mut self, tables: &Tables, key: &ObjectKey, before: Option<&Class>) {
        match (before, tables.get(&CLASSES, key)) {
            (Some(before), Some(after)) if before.is_equivalent(after) => {}
            _ => self.remember_params(tables),
        }
    }

    /// Keeps the last valid parameters of every class of this controller, and of no other class.
    pub(super) fn remember_params(&mut self, tables: &Tables) {
        let mut known = std::mem::take(&mut self.known_params);
        let ours = tables.rows(&CLASSES).filter(|(_, class)| self.is_ours(class));
        self.known_params = ours
            .filter_map(|(key, class)| {
                let valid = self.params_of(tables, &key.name, class).and_then(Result::ok);
                Some((key.clone(), valid.or_else(|| known.remove(key))?))
            })
            .collect();
    }

    pub(crate) fn is_ours(&self, class: &Class) -> bool {
        *class.controller_name == *self.controller.as_str()
    }

    /// The parameters of `class`, whose name is `name`; `None` if they have not been read yet.
    pub(crate) fn params_of(
        &self,
        tables: &Tables,
        name: &str,
        class: &Class,
    ) -> Option<Result<Arc<Params>, InvalidParams>> {
        let fault = |place, error| Some(Err(InvalidParams { place, error }));
        let (place, params) = match class.config_map() {
            Err(error) => return fault(format!("GatewayClass {name}"), error),
            Ok(None) => (String::new(), Arc::default()),
            Ok(Some(key)) => {
                let (place, source) = (format!("parameters {key}"), config_map(&key));
                let row = tables.row::<ConfigMap>(&source, &key);
                match row.map(|row| row.params.clone()) {
                    Some(Ok(params)) => (place, params),
                    Some(Err(error)) => return fault(place, error),
                    None => {
                        tables.synced(&source)?;
                        return fault(place, error("", "the ConfigMap does not exist".to_owned()));
                    }
                }
            }
        };
        let downstream = tables.get(&CLASSES, &ObjectKey::new("", &params.downstream_class));
        if downstream.is_some_and(|class| self.is_ours(class)) {
            let text = format!(
                "{:?} is itself a class of {} on this hub: copies would be copied again",
                params.downstream_class,
                self.controller.as_str()
            );
            return fault(place, error("downstreamClass", text));
        }
        Some(Ok(params))
    }
}

fn error(place: &str, fault: String) -> ParamsError {
    ParamsError { place: place.to_owned(), fault }
}
