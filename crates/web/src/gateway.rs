//! The page of one Gateway: its routes and policies as a picture, and as an accessible list.

use maud::{Markup, PreEscaped, html};

use super::address;
use super::layout::{Notices, page, plain};
use super::links;
use policy_sync_api::names::ObjectKey;
use policy_sync_topology::show::picture::{Column, Picture, Tile};
use policy_sync_topology::show::svg::{LEGEND, svg};
use policy_sync_topology::show::{NodeLabel, TopologyStatus};

/// The maximum number of policies in a row.
const POLICIES_LIMIT: usize = 100;

/// The content of the page.
#[derive(Clone, Debug)]
pub struct GatewayPage {
    /// The name of the source in the page header.
    pub hub: String,
    /// The notices at the top.
    pub notices: Notices,
    /// The Gateway's namespace and name.
    pub key: ObjectKey,
    /// A filter: only routes whose name or host contains the text are shown. Empty shows all routes.
    pub routes: String,
    /// The routes and policies of the Gateway.
    pub picture: Picture,
    /// Whether all routes and policies are attached, and all references resolve.
    pub verdict: TopologyStatus,
}

/// Renders the page.
#[must_use]
pub fn gateway(shown: &GatewayPage) -> Markup {
    let body = html! {
        p {
            @match shown.verdict {
                TopologyStatus::Fine => "Everything is attached, and every policy has an effect.",
                TopologyStatus::Faulty => { "Something is not attached, or a policy has no effect: see the exclamation marks" @if !shown.routes.is_empty() { ", including routes that are not shown" } "." }
                TopologyStatus::Unknown { cause } => { "It is unknown whether everything is attached, and every policy has an effect: " (cause) ". The shown objects have no problem." }
            }
        }
        form.filters action=(address::gateway(&shown.key)) method="get" {
            label {
                "Routes whose name or host contains "
                input name="routes" value=(plain(&shown.routes)) placeholder="shop/cart" autocomplete="off";
            }
            button { "Show" }
            @if !shown.routes.is_empty() { " " a href=(address::gateway(&shown.key)) { "Show all" } }
        }
        @if !shown.routes.is_empty() && !has_routes(&shown.picture) { p { "No route matches." } }
        p { (LEGEND) }
        div.scroll #picture role="region" tabindex="0" aria-label="Diagram of attached objects" {
            // `svg` escapes all texts.
            (PreEscaped(svg(&shown.picture, &|of| links::page(&of.id))))
        }
        h2 { "As a list" }
        @for (column, tiles) in &shown.picture.columns {
            section {
                h3 { (column.heading()) }
                ul { @for tile in tiles { (tile_item(tile)) } }
            }
        }
        p { "On a terminal: " code { "policy-sync topology --gateway " (plain(&shown.key.name)) " -n " (plain(&shown.key.namespace)) } }
    };
    page(&format!("Gateway {}", shown.key), &shown.hub, &shown.notices, body)
}

fn has_routes(picture: &Picture) -> bool {
    picture.columns.iter().any(|(column, _)| *column == Column::Routes)
}

fn tile_item(tile: &Tile) -> Markup {
    let mut rows = tile.rows.iter();
    let (title, rest) = (rows.next(), rows);
    html! {
        li {
            @if let Some(row) = title {
                @match tile.object.as_ref().and_then(|object| links::page(&object.id)) {
                    Some(page) => a href=(page) { (plain(&row.title)) },
                    None => (plain(&row.title)),
                }
                (policies(&row.policies))
            }
            @if !tile.faults.is_empty() {
                ul { @for fault in &tile.faults { li.fault { "! " (plain(fault)) } } }
            }
            @if rest.len() > 0 {
                ul {
                    @for row in rest {
                        li {
                            @if row.faulty { span.fault { "! " } }
                            (plain(&row.title))
                            (policies(&row.policies))
                        }
                    }
                }
            }
        }
    }
}

fn policies(on: &[NodeLabel]) -> Markup {
    html! {
        @if !on.is_empty() {
            " – "
            @for (index, policy) in on.iter().take(POLICIES_LIMIT).enumerate() {
                @if index > 0 { ", " }
                (links::linked(policy))
            }
            @if on.len() > POLICIES_LIMIT { " and " (on.len() - POLICIES_LIMIT) " more" }
        }
    }
}
