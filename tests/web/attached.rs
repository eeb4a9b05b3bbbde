//! The pages of a Gateway and of effective policies show the same data as `topology` and `effective`.

use policy_sync_testenv::browser::Browser;
use policy_sync_testenv::fixtures::rate_limit_policy;
use serde_json::json;

use crate::site::{Site, command, has_rules, route, tenant};

#[tokio::test]
async fn gateway_and_request_pages_match_the_commands() {
    let name = "web-attached";
    let tenant = tenant(name).await;
    let objects = [
        rate_limit_policy(name, "limits", "web"),
        route(name, "cart", "web"),
        route(name, "astray", "nowhere"),
    ];
    for object in objects {
        tenant.apply(&object).await.unwrap();
    }
    let controller = tenant.controller_name();
    let site = Site::of(&tenant).await;

    let page = site.get(&format!("/gateways/{name}/web")).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("<svg") && page.body.contains(&format!("HTTPRoute {name}/cart")), "{page:?}");
    let chosen = site.get(&format!("/gateways/{name}/web?routes={name}%2Fcar")).await.body;
    assert!(chosen.contains("HTTPRoute") && !chosen.contains("No route matches"), "{chosen}");
    let none = site.get(&format!("/gateways/{name}/web?routes=nothing")).await.body;
    assert!(none.contains("No route matches") && !none.contains("HTTPRoute"), "{none}");
    let policy = format!("/policies/ratelimitpolicy.kuadrant.io/{name}/limits");
    assert!(page.body.contains(&format!("href=\"{policy}\"")), "{page:?}");
    assert_eq!(site.get(&policy).await.status, 200);
    assert_eq!(site.get(&format!("/gateways/{name}/nowhere")).await.status, 404);

    let form = site.get("/effective").await;
    assert!(form.body.contains("Enter a host, a Gateway or a namespace"), "{form:?}");
    let page_of = format!("href=\"/gateways/{name}/web\"");
    assert!(form.body.contains(&page_of), "{form:?}");
    assert!(site.get(&policy).await.body.contains(&page_of));
    let host = ["--host", "shop.example.com", "--path", "/cart/1", "-n", name];
    let arguments = [&["effective", "--controller-name", &*controller, "-o", "json"], &host[..]].concat();
    let printed = command(tenant.hub().kubeconfig(), &arguments).output().unwrap();
    let page =
        site.get(&format!("/effective?host=shop.example.com&path=/cart/1&namespace={name}")).await.body;
    assert!(has_rules(&page, &printed.stdout) > 0 && page.contains(&format!("href=\"{policy}\"")), "{page}");
    let none = site.get(&format!("/effective?host=other.example.com&namespace={name}")).await.body;
    assert!(none.contains("No route matches this request"), "{none}");
    let bad = site.get("/effective?host=a%20b").await.body;
    assert!(bad.contains(r#"role="alert""#) && bad.contains("is not a valid host"), "{bad}");
    for (query, status) in [("*", 200), ("eu-1", 200), ("nowhere", 404), ("Not_A_Name", 404)] {
        let page = site.get(&format!("/effective?namespace={name}&cluster={query}")).await;
        assert_eq!(page.status, status, "{query}: {page:?}");
    }
}

#[tokio::test]
async fn gateway_page_follows_changes_of_the_hub() {
    let name = "web-follows";
    let tenant = tenant(name).await;
    tenant.apply(&rate_limit_policy(name, "limits", "web")).await.unwrap();
    let site = Site::of(&tenant).await;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    browser.open(&site, &format!("/gateways/{name}/web")).await;
    browser.until_text("main", |text| text.contains("RateLimitPolicy web-follows/limits")).await;
    browser.script("document.getElementById('picture').focus()").await;
    for route_name in ["cart", "orders"] {
        tenant.apply(&route(name, route_name, "web")).await.unwrap();
        browser
            .until_text("main", |text| text.contains(&format!("HTTPRoute web-follows/{route_name}")))
            .await;
    }
    // The page may announce the first changes together with the end of the initial read, so the test makes up to five
    // changes.
    let mut live_text = String::new();
    for turn in 0..5 {
        let (mut orders, host) = (route(name, "orders", "web"), format!("turn-{turn}.example.com"));
        orders["spec"]["hostnames"] = json!([host]);
        tenant.apply(&orders).await.unwrap();
        browser.until_text("main", |text| text.contains(&host)).await;
        live_text = browser.text("#live").await;
        if live_text.contains("web-follows web") {
            break;
        }
    }
    assert!(live_text.contains("web-follows web"), "{live_text}");
    assert_eq!(browser.script("return document.activeElement.id").await, json!("picture"));

    // A Gateway's policy applies to a route until the route gets its own policy.
    let url = format!("/effective?host=shop.example.com&path=/cart&namespace={name}");
    let policy = format!("/policies/ratelimitpolicy.kuadrant.io/{name}/limits");
    site.until(&url, |page| page.contains(&format!("href=\"{policy}\""))).await;
    site.until(&policy, |page| page.contains("In force on 2 paths: HTTPRoute web-follows/cart")).await;
    let mut own = rate_limit_policy(name, "own", "web");
    own["spec"]["targetRef"]["kind"] = json!("HTTPRoute");
    own["spec"]["targetRef"]["name"] = json!("cart");
    browser.open(&site, &url).await;
    tenant.apply(&own).await.unwrap();
    browser.until_text("main", |text| text.contains("web-follows/own")).await;
    site.until(&policy, |page| page.contains("Not in force on 1 path")).await;

    tenant.delete(&route(name, "cart", "web")).await.unwrap();
    browser.until_text("main", |text| text.contains("No route matches this request")).await;
    browser.end().await;
}
