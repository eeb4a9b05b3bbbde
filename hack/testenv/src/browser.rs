//! Debian's Chromium in headless mode, controlled through its WebDriver.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

use std::process::Command;

use anyhow::{Context, Result, ensure};
use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::Url;

use crate::binaries;
use crate::ports::Port;
use crate::running::Running;
use crate::tenant::LIMIT;
use crate::wait;
use crate::web::Pages;

pub use fantoccini::key::Key;

/// A running browser. Dropping it ends the driver, which closes the browser's pipe.
pub struct Browser {
    /// The WebDriver session.
    pub page: Client,
    _driver: Running,
    _port: Port,
}

/// A vendor-specific command of Chromium's driver: its path and its body.
#[derive(Debug)]
struct OfChromium(&'static str, Value);

impl WebDriverCompatibleCommand for OfChromium {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.0))
    }

    fn method_and_body(&self, _url: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.1.to_string()))
    }
}

impl Browser {
    /// Starts a browser with additional command-line arguments.
    pub async fn start(arguments: &[&str]) -> Self {
        // If the driver chose a port, another process could take this port before the driver binds it.
        let port = Port::reserve().unwrap();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={}", port.number()));
        let driver = Running::start(command);
        driver.prints("the start message", |line| line.contains("started successfully")).await;
        let mut all = vec![
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
            "--remote-debugging-pipe",
        ];
        // Chromium's sandbox does not work for root.
        if rustix::process::geteuid().is_root() {
            all.push("--no-sandbox");
        }
        all.extend(arguments);
        let capabilities = json!({
            "goog:chromeOptions": {"args": all},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let Value::Object(capabilities) = capabilities else { unreachable!() };
        let page =
            builder.capabilities(capabilities).connect(&format!("http://127.0.0.1:{}", port.number())).await;
        Self { page: page.unwrap(), _driver: driver, _port: port }
    }

    /// Opens the address that `pages` printed, including the key.
    pub async fn enter(&self, pages: &Pages) {
        self.page.goto(&pages.address()).await.unwrap();
    }

    /// Opens a path of `pages`.
    pub async fn open(&self, pages: &Pages, path: &str) {
        self.page.goto(&format!("http://{}{path}", pages.host)).await.unwrap();
    }

    /// The first element that matches the CSS selector.
    pub async fn find(&self, selector: &str) -> Element {
        self.page.find(Locator::Css(selector)).await.unwrap()
    }

    /// The text of the first match. Retries if the page replaces the element meanwhile.
    pub async fn text(&self, selector: &str) -> String {
        self.until_text(selector, |_| true).await
    }

    /// Runs a script in the page and returns its result.
    pub async fn script(&self, script: &str) -> Value {
        self.page.execute(script, Vec::new()).await.unwrap()
    }

    /// Waits until the text of `selector` passes `holds`, and returns it.
    pub async fn until_text(&self, selector: &str, holds: impl Fn(&str) -> bool) -> String {
        wait::until("the text of the page is as expected", LIMIT, || async {
            // The element may be missing while the page replaces it.
            let element =
                self.page.find(Locator::Css(selector)).await.with_context(|| selector.to_owned())?;
            let text = element.text().await.with_context(|| selector.to_owned())?;
            ensure!(holds(&text), "{selector}: {text}");
            Ok(text)
        })
        .await
        .unwrap()
    }

    /// Waits until the address passes `holds`. A click may return before the browser opens the next page.
    pub async fn until_address(&self, holds: impl Fn(&str) -> bool) {
        wait::until("the address is as expected", LIMIT, || async {
            let address = self.page.current_url().await.context("reading the address")?;
            ensure!(holds(address.as_str()), "{address}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Console messages since the last call.
    pub async fn console(&self) -> Vec<String> {
        let log = self.page.issue_cmd(OfChromium("se/log", json!({"type": "browser"}))).await.unwrap();
        log.as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Accessibility violations that axe-core finds on the page.
    pub async fn violations(&self) -> Vec<String> {
        let axe = std::fs::read_to_string(binaries::axe().await.unwrap()).unwrap();
        self.script(&axe).await;
        let run = "const done = arguments[arguments.length - 1]; \
            const words = one => one.id + ': ' + one.nodes.map(node => node.html + ' ' + node.failureSummary).join('; '); \
            axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations.map(words)), why => done([String(why)]));";
        let found = self.page.execute_async(run, Vec::new()).await.unwrap();
        serde_json::from_value(found).unwrap()
    }

    /// Sets the viewport's width, in pixels.
    pub async fn widen(&self, width: u64) {
        self.resize(width, 900).await;
    }

    /// Sets the viewport to this width and to the height of the content, in pixels.
    pub async fn fit(&self, width: u64) {
        let bottom = "return Math.ceil(document.querySelector('main').getBoundingClientRect().bottom + window.scrollY)";
        let height = self.script(bottom).await.as_u64().unwrap();
        self.resize(width, height + 16).await;
    }

    async fn resize(&self, width: u64, height: u64) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// The page's scroll width in pixels; larger than the viewport if the page scrolls sideways.
    pub async fn width(&self) -> u64 {
        self.script("return document.documentElement.scrollWidth").await.as_u64().unwrap()
    }

    /// Presses Tab until the link `href` has the focus. Asserts a visible focus that follows the order of the
    /// document.
    pub async fn tab_to(&self, href: &str) {
        let look = "const now = document.activeElement, before = window.before, style = getComputedStyle(now); window.before = now; \
            const follows = !before || Boolean(before.compareDocumentPosition(now) & Node.DOCUMENT_POSITION_FOLLOWING); \
            const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2; \
            return [follows && seen, now.getAttribute('href'), now.textContent]";
        let mut passed = Vec::new();
        for _ in 0..200 {
            self.press(Key::Tab).await;
            let found = self.script(look).await;
            assert_eq!(found[0], json!(true), "{found} after {passed:?}");
            if found[1] == json!(href) {
                return;
            }
            passed.push(found[1].clone());
        }
        panic!("no {href} in {passed:?}");
    }

    /// Presses a key.
    pub async fn press(&self, key: Key) {
        self.page.active_element().await.unwrap().send_keys(&char::from(key).to_string()).await.unwrap();
    }

    /// Asserts that the page loaded resources only from `pages`, and that the console is empty.
    pub async fn is_quiet(&self, pages: &Pages) {
        let names =
            self.script("return performance.getEntriesByType('resource').map(entry => entry.name)").await;
        for name in names.as_array().unwrap() {
            let name = name.as_str().unwrap();
            let is_own = name.starts_with(&format!("http://{}/", pages.host));
            assert!(is_own || name.starts_with("data:"), "{name}");
        }
        let console = self.console().await;
        assert!(console.is_empty(), "{console:?}");
    }

    /// Sends a command of the Chrome DevTools Protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.page.issue_cmd(OfChromium("goog/cdp/execute", body)).await.unwrap();
    }

    /// Closes the browser.
    pub async fn end(self) {
        self.page.close().await.unwrap();
    }
}
