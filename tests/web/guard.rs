//! Access control: the table of requests in docs/web.md, and attacks by other users of the machine.

use std::time::{Duration, Instant};

use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::http::{Response, request, send};
use policy_sync_testenv::running::Running;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::wait;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::site::{Site, annotated, annotations, command, entry, hub, tenant};

/// Checks the security headers of a response.
fn is_guarded(response: &Response) {
    let policy = response.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{response:?}");
    }
    assert!(
        policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"),
        "{response:?}"
    );
    assert_eq!(response.header("x-content-type-options"), "nosniff", "{response:?}");
    assert_eq!(response.header("referrer-policy"), "no-referrer", "{response:?}");
    assert_eq!(response.header("cache-control"), "no-store", "{response:?}");
}

#[tokio::test]
async fn requests_get_the_documented_responses() {
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
        // No key, the key of an earlier run, or a wrong key.
        ("GET /", &[&host], 401),
        ("GET /style.css", &[&host], 401),
        ("GET /events", &[&host], 401),
        ("GET /", &[&host, &old], 401),
        ("GET /?key=0123456789abcdef0123456789abcdef", &[&host], 401),
        (&other_page, &[&host], 401),
        (&key, &[&host], 303),
        // Another host name that resolves to this address, no `Host` header, or several `Host` headers.
        ("GET /", &["Host: example.com", &cookie], 421),
        ("GET /", &[&localhost, &cookie], 421),
        ("GET /", &[&cookie], 421),
        ("GET /", &[&host, "Host: example.com", &cookie], 421),
        (absolute, &[&host, &cookie], 421),
        // Requests from other pages in the browser.
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
        // Methods other than GET and HEAD.
        ("POST /", &[&host, &cookie, "Content-Length: 0"], 405),
        ("DELETE /clusters/eu-1", &[&host, &cookie], 405),
        ("OPTIONS /", &[&host, &cookie], 405),
        // The host is checked before the method and the characters of the path, and all three before the key.
        ("POST /", &[&host, "Content-Length: 0"], 405),
        ("GET /clusters/../style.css", &[&host], 404),
        ("POST /clusters/../style.css", &["Host: example.com", "Content-Length: 0"], 421),
        // Paths without a page.
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
        let response = send(&site.host, &request(line, headers)).await.unwrap();
        assert_eq!(response.status, *status, "{line} {headers:?}: {response:?}");
        is_guarded(&response);
        assert!(!response.body.contains(&site.key), "{line}: the response contains the key");
        if *line == "HEAD /" {
            assert_eq!(response.body, "");
        }
    }
    let entered = send(&site.host, &request(&key, &[&host])).await.unwrap();
    assert_eq!(entered.header("location"), "/");
    let set = entered.header("set-cookie");
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && set.contains(&site.key), "{set}");
}

#[tokio::test]
async fn idle_and_oversized_requests_block_no_other_clients() {
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
    // A browser has a page open.
    let mut tab = BufReader::new(TcpStream::connect(&site.host).await.unwrap());
    tab.write_all(&request("GET /events", &[&site.host_line(), &site.cookie()])).await.unwrap();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        tab.read_line(&mut line).await.unwrap();
    }
    // Ten thousand connections of another client, as many at once as the client can open.
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
    // A request head of ten MiB.
    let mut much = b"GET / HTTP/1.1\r\n".to_vec();
    (0..10).for_each(|n| much.extend(format!("X-{n}: {}\r\n", "a".repeat(1 << 20)).bytes()));
    if let Ok(response) = send(&site.host, &much).await {
        assert_eq!((response.status, response.body.as_str()), (431, ""));
        is_guarded(&response);
    }
    let none = send(&site.host, b"NO REQUEST OF HTTP\r\n\r\n").await.unwrap();
    assert_eq!((none.status, none.body.as_str()), (400, ""));
    is_guarded(&none);
    assert_eq!(site.get("/").await.status, 200);
    // An unfinished request head times out.
    let mut slow = TcpStream::connect(&site.host).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), slow.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "the server still waits for the request head");
    // The open page still gets events.
    annotated(tenant.client(), &policy, annotations(&[entry("eu-1", false, &[])])).await;
    let event_arrives = async {
        loop {
            line.clear();
            tab.read_line(&mut line).await.unwrap();
            if line.contains("/policies/ratelimitpolicy.kuadrant.io/web-idle/limits") {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, event_arrives).await.unwrap();
}

#[tokio::test]
async fn server_stops_on_a_signal_and_reports_a_port_in_use() {
    let kubeconfig = hub().await.kubeconfig();
    let mut site = Site::start(kubeconfig, &[]).await;
    let port = site.host.split_once(':').unwrap().1.to_owned();
    let mut second = Running::start(command(kubeconfig, &["web", "--port", &port]));
    let lines = second.says("cannot listen on").await;
    assert!(lines.iter().any(|line| line.contains(&site.host) && line.contains("--port")), "{lines:?}");
    assert_eq!(second.ends().await, Some(2));
    site.process.signal("INT");
    assert_eq!(site.process.ends().await, Some(0));
}
