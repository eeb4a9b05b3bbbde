//! The pages in a browser: by keyboard only, without scripts, on a narrow screen, and during changes.

use std::time::{Duration, Instant};

use anyhow::ensure;
use policy_sync_testenv::Tenant;
use policy_sync_testenv::browser::{Browser, Key};
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::wait;
use serde_json::json;

use crate::site::{Site, annotated, annotations, entry, tenant};

const LIMITS: &str = "/policies/ratelimitpolicy.kuadrant.io";

/// Three policies on two clusters. One cluster rejects one of the policies.
async fn site(name: &str) -> (Tenant<'static>, Site) {
    let tenant = tenant(name).await;
    for (policy, applied) in [("limits", true), ("quotas", false), ("burst", true)] {
        write(&tenant, policy, applied, "too many <script>alert(1)</script>").await;
    }
    let site = Site::of(&tenant).await;
    site.until("/", |page| page.contains("3 policies in namespace")).await;
    (tenant, site)
}

async fn write(tenant: &Tenant<'_>, policy: &str, applied: bool, message: &str) {
    let enforced = [("Accepted", "True", "Accepted"), ("Enforced", "True", "Enforced")];
    let mut us = entry("us-1", applied, if applied { &enforced[..] } else { &[] });
    us.message = (!applied).then(|| message.to_owned());
    let policy = rate_limit_policy(tenant.name(), policy, "web");
    annotated(tenant.client(), &policy, annotations(&[entry("eu-1", true, &enforced), us])).await;
}

#[tokio::test]
async fn printed_address_gives_access_to_every_page() {
    let (_tenant, site) = site("web-opens").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    assert_eq!(browser.page.current_url().await.unwrap().as_str(), format!("http://{}/", site.host));
    assert_eq!(browser.text("h1").await, "Policies on clusters");
    assert!(browser.text("#matrix").await.contains("web-opens/quotas"));
    browser.is_quiet(&site).await;
    for path in [&*format!("{LIMITS}/web-opens/quotas"), "/clusters/us-1"] {
        browser.open(&site, path).await;
        assert!(browser.text("main").await.contains("quotas"));
        browser.is_quiet(&site).await;
    }
    browser.end().await;
}

#[tokio::test]
async fn change_is_shown_at_once_and_keeps_focus_and_input() {
    let (tenant, site) = site("web-change").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    // All three policies are shown before the first change.
    browser.until_text("#matrix", |text| text.contains("NotApplied")).await;
    browser.find("#legend summary").await.click().await.unwrap();
    let link = format!("{LIMITS}/web-change/limits");
    browser.script(&format!("document.querySelector('a[href=\"{link}\"]').focus()")).await;
    browser.script("document.querySelector('[name=clusters]').value = 'typed'").await;
    let mut took = Vec::new();
    for (applied, refused) in [(false, 2), (true, 1), (false, 2)] {
        write(&tenant, "limits", applied, "no room").await;
        let began = Instant::now();
        browser.until_text("#matrix tbody", |text| text.matches("NotApplied").count() == refused).await;
        took.push(began.elapsed());
    }
    // Single changes may be slow on a busy machine.
    assert!(took.iter().min() < Some(&Duration::from_secs(2)), "a change appears only after {took:?}");
    browser.until_text("#live", |text| text.contains("web-change limits")).await;
    assert_eq!(browser.script("return document.activeElement.getAttribute('href')").await, json!(link));
    assert_eq!(browser.script("return document.getElementById('legend').open").await, json!(true));
    assert_eq!(
        browser.script("return document.querySelector('[name=clusters]').value").await,
        json!("typed")
    );
    browser.is_quiet(&site).await;
    browser.end().await;
}

#[tokio::test]
async fn tabs_share_one_event_stream() {
    let (tenant, site) = site("web-tabs").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    // Opens more tabs than the number of connections that a browser opens to a host.
    for _ in 0..8 {
        let tab = browser.page.new_window(true).await.unwrap();
        browser.page.switch_to_window(tab.handle).await.unwrap();
        browser.open(&site, "/").await;
    }
    browser.until_text("#matrix", |text| text.contains("web-tabs/limits")).await;
    write(&tenant, "limits", false, "no room").await;
    browser.until_text("#matrix tbody", |text| text.matches("NotApplied").count() == 2).await;
    browser.end().await;
}

#[tokio::test]
async fn stopped_server_and_changed_key_are_reported() {
    let (tenant, mut site) = site("web-lost").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    browser.until_text("#matrix", |text| text.contains("web-lost/limits")).await;
    site.process.signal("INT");
    assert_eq!(site.process.ends().await, Some(0));
    browser.until_text("#live", |text| text.contains("Connection lost")).await;
    // The page keeps its content.
    assert!(browser.text("#matrix").await.contains("web-lost/limits"));
    let port = site.host.split_once(':').unwrap().1;
    let again = Site::on(port, &tenant).await;
    browser.until_text("#live", |text| text.contains("earlier run")).await;
    browser.enter(&again).await;
    browser.until_text("#matrix", |text| text.contains("web-lost/limits")).await;
    browser.end().await;
}

#[tokio::test]
async fn pages_are_usable_by_keyboard_only() {
    let (_tenant, site) = site("web-keys").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    browser.press(Key::Tab).await;
    let focused = browser.script("return document.activeElement.textContent").await;
    assert_eq!(focused, json!("Skip to content"));
    browser.tab_to(&format!("{LIMITS}/web-keys/quotas")).await;
    browser.press(Key::Enter).await;
    browser.until_text("h1", |text| text == "RateLimitPolicy web-keys/quotas").await;
    browser.page.back().await.unwrap();
    browser.until_text("h1", |text| text == "Policies on clusters").await;
    browser.end().await;
}

#[tokio::test]
async fn pages_have_the_same_content_without_scripts() {
    let (_tenant, site) = site("web-plain-page").await;
    let (with, without) =
        (Browser::start(&[]).await, Browser::start(&["--blink-settings=scriptEnabled=false"]).await);
    for browser in [&with, &without] {
        browser.enter(&site).await;
    }
    for path in ["/", "/?not-synced=1", "/clusters/us-1", &*format!("{LIMITS}/web-plain-page/quotas")] {
        // Other tests change the hub meanwhile, so both pages are read until they show the same state of the hub.
        wait::until(&format!("{path} has the same content without scripts"), LIMIT, || async {
            with.open(&site, path).await;
            without.open(&site, path).await;
            let text = with.text("main").await;
            ensure!(text.contains("quotas"), "{text}");
            let plain = without.text("main").await;
            ensure!(text == plain, "with scripts:\n{text}\nwithout scripts:\n{plain}");
            Ok(())
        })
        .await
        .unwrap();
    }
    without.open(&site, "/").await;
    without.find("[name=clusters]").await.send_keys("region=eu").await.unwrap();
    without.find("form button").await.click().await.unwrap();
    without.until_address(|address| address.contains("clusters=region%3Deu")).await;
    without.until_text("#matrix", |text| text.contains("eu-1") && !text.contains("us-1")).await;
    with.end().await;
    without.end().await;
}
