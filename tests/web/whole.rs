//! The accessibility of all pages, with forty policies on eight clusters.

use policy_sync_api::annotations::Synced;
use policy_sync_testenv::browser::{Browser, Key};
use policy_sync_testenv::fixtures::{auth_policy, rate_limit_policy};
use policy_sync_testenv::{ControlPlane, Tenant};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::site::{BINARY, Site, annotated, annotations, entry, route, start_hub};

const CLUSTERS: [&str; 8] = ["ap-1", "ap-2", "eu-1", "eu-2", "eu-3", "us-1", "us-2", "us-3"];
const POLICIES: usize = 40;
const EVIL: &str = "\"><script>alert(1)</script>' \u{202e}txet";
const NAMESPACE: &str = "shop";

/// The name of a policy. The first name has the maximum length.
fn name(number: usize) -> String {
    if number == 0 { "long.".repeat(50) + "abc" } else { format!("policy-{number:02}") }
}

/// The reports about a policy. Of five policies, one is rejected on a cluster, one is overridden, and one is
/// pending.
fn entries(number: usize) -> Vec<Synced> {
    let enforced = [("Accepted", "True", "Accepted"), ("Enforced", "True", "Enforced")];
    let overridden = [("Enforced", "False", "Overridden")];
    let each = CLUSTERS.map(|cluster| match (number % 5, cluster) {
        (0, "us-1") => {
            let mut refused = entry(cluster, false, &[]);
            refused.message = Some(EVIL.to_owned());
            refused
        }
        (1, "eu-1") => entry(cluster, true, &overridden),
        (2, "ap-1") => {
            let mut pending = entry(cluster, false, &[]);
            pending.pending = true;
            pending
        }
        _ => entry(cluster, true, &enforced),
    });
    each.into()
}

/// The tenant of these tests, whose policies do not change.
async fn tenant() -> &'static Tenant<'static> {
    static HUB: OnceCell<ControlPlane> = OnceCell::const_new();
    static TENANT: OnceCell<Tenant<'static>> = OnceCell::const_new();
    let write = || async {
        let hub = HUB.get_or_try_init(|| start_hub("web-whole", &CLUSTERS)).await?;
        let tenant = Tenant::new(hub, BINARY.as_ref(), NAMESPACE, &[]).await?;
        for number in 0..POLICIES {
            let policy = match number % 2 {
                0 => rate_limit_policy(NAMESPACE, &name(number), "web"),
                _ => auth_policy(NAMESPACE, &name(number), "web"),
            };
            annotated(tenant.client(), &policy, annotations(&entries(number))).await;
        }
        for name in ["cart", "orders"] {
            tenant.apply(&route(NAMESPACE, name, "web")).await?;
        }
        tenant.apply(&route(NAMESPACE, "astray", "nowhere")).await?;
        anyhow::Ok(tenant)
    };
    TENANT.get_or_try_init(write).await.unwrap()
}

/// The page of a rate limit policy.
fn limits(number: usize) -> String {
    format!("/policies/ratelimitpolicy.kuadrant.io/{NAMESPACE}/{}", name(number))
}

const EFFECTIVE_QUERY: &str = "/effective?host=shop.example.com&path=/cart&namespace=shop";

/// Every page, with a text on the page.
fn pages() -> [(String, &'static str); 10] {
    [
        ("/".to_owned(), "40 policies"),
        ("/?not-synced=1&clusters=region%3Dus&kind=RateLimitPolicy".to_owned(), "policy-10"),
        (limits(0), "long.long."),
        (limits(10), "<script>alert(1)</script>"),
        ("/clusters/us-1".to_owned(), "policy-10"),
        ("/gateways/shop/web".to_owned(), "HTTPRoute shop/cart"),
        ("/effective".to_owned(), "Enter a host, a Gateway or a namespace"),
        (EFFECTIVE_QUERY.to_owned(), "HTTPRoute shop/cart"),
        ("/effective?namespace=shop&cluster=*".to_owned(), "No cluster has a matching listener"),
        ("/nowhere".to_owned(), "There is no such page"),
    ]
}

/// `policy-sync web`, once it has read all objects.
async fn site() -> Site {
    let site = Site::of(tenant().await).await;
    site.until("/", |page| page.contains("40 policies in namespace shop on 8 clusters")).await;
    site.until("/gateways/shop/web", |page| page.contains("HTTPRoute shop/cart")).await;
    site
}

/// Checks the accessibility of each page with this media feature, in several widths.
async fn check_accessibility(feature: &str, value: &str) {
    let site = site().await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    let media = json!({"features": [{"name": feature, "value": value}]});
    browser.devtools("Emulation.setEmulatedMedia", media).await;
    for width in [1280, 320] {
        browser.widen(width).await;
        for (path, says) in pages() {
            browser.open(&site, &path).await;
            let is_on = browser.script(&format!("return matchMedia('({feature}: {value})').matches")).await;
            assert_eq!(is_on, json!(true), "{feature}: {value}");
            let text = browser.text("main").await;
            assert!(text.contains(says), "{path}: {text}");
            assert!(browser.width().await <= width, "{path} scrolls horizontally at a width of {width}");
            if path != "/nowhere" {
                browser.is_quiet(&site).await;
            }
            let violations = browser.violations().await;
            assert!(violations.is_empty(), "{path} at {width}, {feature}: {value}: {violations:#?}");
            browser.console().await;
        }
    }
    browser.end().await;
}

#[tokio::test]
async fn light_pages_are_accessible() {
    check_accessibility("prefers-color-scheme", "light").await;
}

#[tokio::test]
async fn dark_pages_are_accessible() {
    check_accessibility("prefers-color-scheme", "dark").await;
}

#[tokio::test]
async fn pages_in_forced_colors_are_accessible() {
    check_accessibility("forced-colors", "active").await;
}

#[tokio::test]
async fn every_page_has_the_same_content_without_scripts() {
    let site = site().await;
    let (with, without) =
        (Browser::start(&[]).await, Browser::start(&["--blink-settings=scriptEnabled=false"]).await);
    for browser in [&with, &without] {
        browser.enter(&site).await;
    }
    for (path, says) in pages() {
        with.open(&site, &path).await;
        without.open(&site, &path).await;
        let text = with.text("main").await;
        assert!(text.contains(says), "{path}: {text}");
        assert_eq!(text, without.text("main").await, "{path}");
    }
    without.open(&site, "/effective").await;
    without.find("[name=host]").await.send_keys("shop.example.com").await.unwrap();
    without.find("[name=path]").await.send_keys("/cart").await.unwrap();
    without.find("form button").await.click().await.unwrap();
    without.until_address(|address| address.contains("host=shop.example.com&path=%2Fcart")).await;
    without.until_text("main", |text| text.contains("HTTPRoute shop/cart")).await;
    with.end().await;
    without.end().await;
}

#[tokio::test]
async fn policy_of_a_rule_is_reachable_by_keyboard_only() {
    let site = site().await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    browser.open(&site, EFFECTIVE_QUERY).await;
    let source = "return [...document.querySelectorAll('main table a')].map(a => a.getAttribute('href'))[0]";
    let source = browser.script(source).await;
    let source = source.as_str().unwrap();
    assert!(source.starts_with("/policies/"), "{source}");
    browser.tab_to(source).await;
    browser.press(Key::Enter).await;
    browser.until_text("h1", |text| text.contains("Policy shop/")).await;
    assert_eq!(browser.page.current_url().await.unwrap().path(), source);
    browser.page.back().await.unwrap();
    browser.until_text("h1", |text| text == "Effective policies").await;
    browser.end().await;
}
