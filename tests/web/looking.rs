//! What people see, with a keyboard alone, without a script, on a narrow screen, and while things change.

use std::time::{Duration, Instant};

use policy_sync_testenv::Tenant;
use policy_sync_testenv::browser::{Browser, Key};
use policy_sync_testenv::fixtures::rate_limit_policy;
use serde_json::json;

use crate::site::{Site, annotated, annotations, entry, tenant};

const LIMITS: &str = "/policies/ratelimitpolicy.kuadrant.io";

/// Three policies on two clusters, one of which refuses one.
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
async fn the_address_that_is_printed_opens_every_page() {
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
async fn a_change_shows_at_once_and_takes_nothing_from_who_looks() {
    let (tenant, site) = site("web-change").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    // All three are there before anything changes.
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
    // One of them may meet a machine that does much else.
    assert!(took.iter().min() < Some(&Duration::from_secs(2)), "a change shows after {took:?}");
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
async fn many_tabs_listen_through_one() {
    let (tenant, site) = site("web-tabs").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    // More than a browser has connections to one host.
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
async fn a_run_that_ends_is_said_and_so_is_one_with_another_key() {
    let (tenant, mut site) = site("web-lost").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    browser.until_text("#matrix", |text| text.contains("web-lost/limits")).await;
    site.process.signal("INT");
    assert_eq!(site.process.ends().await, Some(0));
    browser.until_text("#live", |text| text.contains("Connection lost")).await;
    // What was shown is still there.
    assert!(browser.text("#matrix").await.contains("web-lost/limits"));
    let port = site.host.split_once(':').unwrap().1;
    let again = Site::on(port, &tenant).await;
    browser.until_text("#live", |text| text.contains("earlier run")).await;
    browser.enter(&again).await;
    browser.until_text("#matrix", |text| text.contains("web-lost/limits")).await;
    browser.end().await;
}

#[tokio::test]
async fn a_keyboard_alone_leads_everywhere() {
    let (_tenant, site) = site("web-keys").await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    browser.press(Key::Tab).await;
    let focused = browser.script("return document.activeElement.textContent").await;
    assert_eq!(focused, json!("Skip to what is shown"));
    browser.tab_to(&format!("{LIMITS}/web-keys/quotas")).await;
    browser.press(Key::Enter).await;
    browser.until_text("h1", |text| text == "RateLimitPolicy web-keys/quotas").await;
    browser.page.back().await.unwrap();
    browser.until_text("h1", |text| text == "Policies on clusters").await;
    browser.end().await;
}

#[tokio::test]
async fn without_a_script_the_same_is_there() {
    let (_tenant, site) = site("web-plain-page").await;
    let (with, without) =
        (Browser::start(&[]).await, Browser::start(&["--blink-settings=scriptEnabled=false"]).await);
    for browser in [&with, &without] {
        browser.enter(&site).await;
    }
    for path in ["/", "/?not-synced=1", "/clusters/us-1", &*format!("{LIMITS}/web-plain-page/quotas")] {
        with.open(&site, path).await;
        without.open(&site, path).await;
        let text = with.text("main").await;
        assert!(text.contains("quotas"), "{text}");
        assert_eq!(text, without.text("main").await, "{path}");
    }
    without.open(&site, "/").await;
    without.find("[name=clusters]").await.send_keys("region=eu").await.unwrap();
    without.find("form button").await.click().await.unwrap();
    without.until_address(|address| address.contains("clusters=region%3Deu")).await;
    without.until_text("#matrix", |text| text.contains("eu-1") && !text.contains("us-1")).await;
    with.end().await;
    without.end().await;
}
