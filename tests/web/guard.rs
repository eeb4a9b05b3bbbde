//! Who gets in: the table of requests of docs/web.md, and what others of the machine may try.

use std::time::{Duration, Instant};

use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::http::{Answer, request, send};
use policy_sync_testenv::running::Running;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::wait;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::site::{Site, annotated, annotations, command, entry, hub, tenant};

/// What every answer says.
fn is_guarded(answer: &Answer) {
    let policy = answer.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{answer:?}");
    }
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{answer:?}");
    assert_eq!(answer.header("referrer-policy"), "no-referrer", "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
}

#[tokio::test]
async fn each_request_gets_what_the_table_says() {
    let kubeconfig = hub().await.kubeconfig();
    let earlier = Site::start(kubeconfig, &[]).await;
    let site = Site::start(kubeconfig, &[]).await;
    assert_eq!(site.key.len(), 32);
    assert_ne!(site.key, earlier.key);
    let (host, cookie) = (site.host_line(), site.cookie());
    let port = site.host.split_once(':').unwrap().1;
    let old = format!("Cookie: policy-sync-{port}={}", earlier.key);
    let long = format!("GET /clusters/{}", "a".repeat(5_000));
    let key = format!("GET /?key={}", site.key);
    let other_page = format!("GET /clusters/eu-1?key={}", site.key);
    let localhost = format!("Host: localhost:{port}");
    let absolute = "GET http://example.com/";
    let table: &[(&str, &[&str], u16)] = &[
        ("GET /", &[&host, &cookie], 200),
        ("HEAD /", &[&host, &cookie], 200),
        ("GET /style.css", &[&host, &cookie], 200),
        ("GET /script.js", &[&host, &cookie], 200),
        ("GET /clusters/eu-1", &[&host, &cookie], 200),
        // Without the key, with that of an earlier run, or with a wrong one.
        ("GET /", &[&host], 401),
        ("GET /style.css", &[&host], 401),
        ("GET /events", &[&host], 401),
        ("GET /", &[&host, &old], 401),
        ("GET /?key=0123456789abcdef0123456789abcdef", &[&host], 401),
        (&other_page, &[&host], 401),
        (&key, &[&host], 303),
        // Another name that leads here, or several.
        ("GET /", &["Host: example.com", &cookie], 421),
        ("GET /", &[&localhost, &cookie], 421),
        ("GET /", &[&cookie], 421),
        ("GET /", &[&host, "Host: example.com", &cookie], 421),
        (absolute, &[&host, &cookie], 421),
        // Another page of the browser.
        ("GET /", &[&host, &cookie, "Origin: http://example.com"], 403),
        ("GET /", &[&host, &cookie, "Origin: null"], 403),
        (
            "GET /",
            &[
                &host,
                &cookie,
                "Sec-Fetch-Site: same-site",
                "Sec-Fetch-Mode: no-cors",
                "Sec-Fetch-Dest: image",
            ],
            403,
        ),
        (
            "GET /",
            &[
                &host,
                &cookie,
                "Sec-Fetch-Site: cross-site",
                "Sec-Fetch-Mode: navigate",
                "Sec-Fetch-Dest: iframe",
            ],
            403,
        ),
        (
            "GET /",
            &[
                &host,
                &cookie,
                "Sec-Fetch-Site: cross-site",
                "Sec-Fetch-Mode: navigate",
                "Sec-Fetch-Dest: document",
            ],
            200,
        ),
        ("GET /", &[&host, &cookie, "Sec-Fetch-Site: none"], 200),
        // Nothing is written.
        ("POST /", &[&host, &cookie, "Content-Length: 0"], 405),
        ("DELETE /clusters/eu-1", &[&host, &cookie], 405),
        ("OPTIONS /", &[&host, &cookie], 405),
        // In this order, before anybody is asked who they are.
        ("POST /", &[&host, "Content-Length: 0"], 405),
        ("GET /clusters/../style.css", &[&host], 404),
        ("POST /clusters/../style.css", &["Host: example.com", "Content-Length: 0"], 421),
        // What is no page.
        ("GET /nowhere", &[&host, &cookie], 404),
        ("GET /clusters/../style.css", &[&host, &cookie], 404),
        ("GET /clusters/%2e%2e/style.css", &[&host, &cookie], 404),
        ("GET //clusters/eu-1", &[&host, &cookie], 404),
        ("GET /clusters/nowhere", &[&host, &cookie], 404),
        ("GET /clusters/Eu_1", &[&host, &cookie], 404),
        ("GET /policies/ratelimitpolicy.kuadrant.io/shop/nowhere", &[&host, &cookie], 404),
        (&long, &[&host, &cookie], 404),
    ];
    for (line, headers, status) in table {
        let answer = send(&site.host, &request(line, headers)).await.unwrap();
        assert_eq!(answer.status, *status, "{line} {headers:?}: {answer:?}");
        is_guarded(&answer);
        assert!(!answer.body.contains(&site.key), "{line}: the key");
        if *line == "HEAD /" {
            assert_eq!(answer.body, "");
        }
    }
    let entered = send(&site.host, &request(&key, &[&host])).await.unwrap();
    assert_eq!(entered.header("location"), "/");
    let set = entered.header("set-cookie");
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && set.contains(&site.key), "{set}");
}

#[tokio::test]
async fn who_sends_much_or_nothing_keeps_nobody_out() {
    let tenant = tenant("web-idle").await;
    let policy = rate_limit_policy("web-idle", "limits", "web");
    annotated(tenant.client(), &policy, annotations(&[entry("eu-1", true, &[])])).await;
    let site = Site::of(&tenant).await;
    wait::until("the policy is shown", LIMIT, || async {
        let page = site.get("/").await.body;
        anyhow::ensure!(page.contains("web-idle/limits"), "{page}");
        Ok(())
    })
    .await
    .unwrap();
    // Somebody looks.
    let mut tab = BufReader::new(TcpStream::connect(&site.host).await.unwrap());
    tab.write_all(&request("GET /events", &[&site.host_line(), &site.cookie()])).await.unwrap();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        tab.read_line(&mut line).await.unwrap();
    }
    // Ten thousand connections of somebody else, as many at once as there can be.
    let mut idle = Vec::new();
    for number in 0..10_000 {
        if number % 500 == 0 {
            idle.clear();
        }
        idle.push(TcpStream::connect(&site.host).await.unwrap());
    }
    let began = Instant::now();
    assert_eq!(site.get("/").await.status, 200);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // Heads of ten MiB.
    let mut much = b"GET / HTTP/1.1\r\n".to_vec();
    (0..10).for_each(|n| much.extend(format!("X-{n}: {}\r\n", "a".repeat(1 << 20)).bytes()));
    if let Ok(answer) = send(&site.host, &much).await {
        assert_eq!((answer.status, answer.body.as_str()), (431, ""));
        is_guarded(&answer);
    }
    let none = send(&site.host, b"NO REQUEST OF HTTP\r\n\r\n").await.unwrap();
    assert_eq!((none.status, none.body.as_str()), (400, ""));
    is_guarded(&none);
    assert_eq!(site.get("/").await.status, 200);
    // A head that does not end is not waited for.
    let mut slow = TcpStream::connect(&site.host).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), slow.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "it is still waited for");
    // And who looks is still told.
    annotated(tenant.client(), &policy, annotations(&[entry("eu-1", false, &[])])).await;
    let told = async {
        loop {
            line.clear();
            tab.read_line(&mut line).await.unwrap();
            if line.contains("/policies/ratelimitpolicy.kuadrant.io/web-idle/limits") {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, told).await.unwrap();
}

#[tokio::test]
async fn it_ends_when_asked_to_and_says_why_it_cannot_begin() {
    let kubeconfig = hub().await.kubeconfig();
    let mut site = Site::start(kubeconfig, &[]).await;
    let port = site.host.split_once(':').unwrap().1.to_owned();
    let mut second = Running::start(command(kubeconfig, &["web", "--port", &port]));
    let said = second.says("cannot listen on").await;
    assert!(said.iter().any(|line| line.contains(&site.host) && line.contains("--port")), "{said:?}");
    assert_eq!(second.ends().await, Some(2));
    site.process.signal("INT");
    assert_eq!(site.process.ends().await, Some(0));
}
