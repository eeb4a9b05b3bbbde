//! An outage of the hub while a page is open.

use std::time::{Duration, Instant};

use policy_sync_testenv::Tenant;
use policy_sync_testenv::browser::Browser;
use policy_sync_testenv::fixtures::rate_limit_policy;

use crate::site::{BINARY, Site, annotated, annotations, entry, start_hub};

/// The duration of the outage.
const AWAY: Duration = Duration::from_secs(10);

#[tokio::test]
async fn outage_is_shown_and_changes_are_followed_again_afterwards() {
    let hub = start_hub("web-away", &["eu-1", "us-1"]).await.unwrap();
    let tenant = Tenant::new(&hub, BINARY.as_ref(), "shop", &[]).await.unwrap();
    let policy = rate_limit_policy("shop", "limits", "web");
    annotated(tenant.client(), &policy, annotations(&[entry("eu-1", true, &[])])).await;
    let site = Site::of(&tenant).await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    browser.until_text("#matrix", |text| text.contains("shop/limits") && text.contains("Unknown")).await;

    let stopped = Instant::now();
    hub.stop_api_server();
    browser.until_text("main", |text| text.contains("The hub cannot be watched")).await;
    // The open page keeps its content, and pages that read from the hub show an error.
    assert!(browser.text("#matrix").await.contains("shop/limits"));
    let page = site.get("/clusters/eu-1").await;
    assert!(page.status == 502 && page.body.contains("The hub does not respond"), "{page:?}");
    tokio::time::sleep(AWAY.saturating_sub(stopped.elapsed())).await;
    hub.start_api_server().await.unwrap();
    browser.until_text("main", |text| !text.contains("cannot be watched")).await;
    annotated(tenant.client(), &policy, annotations(&[entry("eu-1", false, &[])])).await;
    browser.until_text("#matrix", |text| text.contains("Pending")).await;
    assert_eq!(site.get("/clusters/eu-1").await.status, 200);
    browser.is_quiet(&site).await;
    browser.end().await;
}
