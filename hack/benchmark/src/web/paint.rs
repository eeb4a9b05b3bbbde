//! W2: the time until a browser paints the page, in comparison with a static file of the same bytes.

use anyhow::{Context, Result};
use axum::Router;
use axum::http::header;
use axum::routing::get;
use policy_sync_testenv::browser::Browser;
use policy_sync_testenv::web::Pages;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::report::{Measure, progress};
use crate::sample::Sample;

const GOAL: f64 = 1.5;
/// Number of times that a run opens each of the two pages.
const TIMES: usize = 3;

/// Opens the page and the static file in turns.
pub(super) async fn measure(shown: &Pages, runs: usize) -> Result<Measure> {
    progress("a browser opens the page");
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listening")?;
    let plain = format!("http://{}/", listener.local_addr().context("finding the port")?);
    let file = |kind: &'static str, text: String| {
        get(move || std::future::ready(([(header::CONTENT_TYPE, kind)], text)))
    };
    let mut files = Router::new();
    for (path, kind) in
        [("/", "text/html; charset=utf-8"), ("/style.css", "text/css"), ("/script.js", "text/javascript")]
    {
        files = files.route(path, file(kind, shown.get(path).await?.body));
    }
    let _serving = AbortOnDropHandle::new(tokio::spawn(async move { axum::serve(listener, files).await }));
    let browser = Browser::start(&[]).await;
    browser.enter(shown).await;
    let pages = format!("http://{}/", shown.host);
    let (mut ours, mut files) = (Vec::new(), Vec::new());
    for _ in 0..TIMES * runs {
        ours.push(paint(&browser, &pages).await?);
        files.push(paint(&browser, &plain).await?);
    }
    browser.end().await;
    let (ours, files) = (Sample::new(ours), Sample::new(files));
    Ok(Measure::ratio(
        "W2",
        "first contentful paint, over that of a file of the same bytes",
        &ours,
        &files,
        GOAL,
    ))
}

/// The first contentful paint of a page, in seconds.
async fn paint(browser: &Browser, address: &str) -> Result<f64> {
    browser.page.goto(address).await.context("opening the page")?;
    let look = "const done = arguments[arguments.length - 1]; \
        new PerformanceObserver(seen => seen.getEntriesByName('first-contentful-paint').forEach(one => done(one.startTime))) \
        .observe({type: 'paint', buffered: true});";
    let painted = browser.page.execute_async(look, Vec::new()).await.context("measuring the paint")?;
    Ok(painted.as_f64().context("no paint time")? / 1000.0)
}
