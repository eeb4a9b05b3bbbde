//! A real browser: Debian's Chromium, through its own driver.

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

/// A browser while it runs. It ends with its driver, whose end closes the pipe between them.
pub struct Browser {
    /// What it shows.
    pub page: Client,
    _driver: Running,
    _port: Port,
}

/// A command that Chromium's driver has beside those of the standard.
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
    /// Starts one, with these arguments besides.
    pub async fn start(arguments: &[&str]) -> Self {
        // On a port of its own choice it may find that another has it by then.
        let port = Port::reserve().unwrap();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={}", port.number()));
        let driver = Running::start(command);
        driver.prints("that it has started", |line| line.contains("started successfully")).await;
        let mut all = vec![
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
            "--remote-debugging-pipe",
        ];
        // Chromium has no sandbox for root.
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

    /// Opens the address that `pages` printed.
    pub async fn enter(&self, pages: &Pages) {
        self.page.goto(&pages.address()).await.unwrap();
    }

    /// Opens a page of `pages`.
    pub async fn open(&self, pages: &Pages, path: &str) {
        self.page.goto(&format!("http://{}{path}", pages.host)).await.unwrap();
    }

    /// The first element that `selector` chooses.
    pub async fn find(&self, selector: &str) -> Element {
        self.page.find(Locator::Css(selector)).await.unwrap()
    }

    /// Its text: also where it is replaced while it is read.
    pub async fn text(&self, selector: &str) -> String {
        self.until_text(selector, |_| true).await
    }

    /// What a script comes to in the page.
    pub async fn script(&self, script: &str) -> Value {
        self.page.execute(script, Vec::new()).await.unwrap()
    }

    /// Waits until the text of `selector` passes `holds`, and returns it.
    pub async fn until_text(&self, selector: &str, holds: impl Fn(&str) -> bool) -> String {
        wait::until("the page says so", LIMIT, || async {
            // While it is replaced there may be none.
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
        wait::until("the address is so", LIMIT, || async {
            let address = self.page.current_url().await.context("asking for the address")?;
            ensure!(holds(address.as_str()), "{address}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// What the console has said since it was last asked.
    pub async fn console(&self) -> Vec<String> {
        let log = self.page.issue_cmd(OfChromium("se/log", json!({"type": "browser"}))).await.unwrap();
        log.as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// What axe-core finds on the page that keeps people out.
    pub async fn violations(&self) -> Vec<String> {
        let axe = std::fs::read_to_string(binaries::axe().await.unwrap()).unwrap();
        self.script(&axe).await;
        let run = "const done = arguments[arguments.length - 1]; \
            const words = one => one.id + ': ' + one.nodes.map(node => node.html + ' ' + node.failureSummary).join('; '); \
            axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations.map(words)), why => done([String(why)]));";
        let found = self.page.execute_async(run, Vec::new()).await.unwrap();
        serde_json::from_value(found).unwrap()
    }

    /// Has pages be so wide, in pixels.
    pub async fn widen(&self, width: u64) {
        self.resize(width, 900).await;
    }

    /// Makes the window as wide as this, in pixels, and as high as the content of the page.
    pub async fn fit(&self, width: u64) {
        let bottom = "return Math.ceil(document.querySelector('main').getBoundingClientRect().bottom + window.scrollY)";
        let height = self.script(bottom).await.as_u64().unwrap();
        self.resize(width, height + 16).await;
    }

    async fn resize(&self, width: u64, height: u64) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// How wide the page is, in pixels: more than there is room for where it scrolls sideways.
    pub async fn width(&self) -> u64 {
        self.script("return document.documentElement.scrollWidth").await.as_u64().unwrap()
    }

    /// Goes on by the tabulator alone until `href` has the focus, which is always to be seen, and moves as the page is read.
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
        panic!("{href} is not among {passed:?}");
    }

    /// Presses a key.
    pub async fn press(&self, key: Key) {
        self.page.active_element().await.unwrap().send_keys(&char::from(key).to_string()).await.unwrap();
    }

    /// Whether the page asked nobody but `pages`, and its console is empty.
    pub async fn is_quiet(&self, pages: &Pages) {
        let asked =
            self.script("return performance.getEntriesByType('resource').map(entry => entry.name)").await;
        for name in asked.as_array().unwrap() {
            let name = name.as_str().unwrap();
            let is_own = name.starts_with(&format!("http://{}/", pages.host));
            assert!(is_own || name.starts_with("data:"), "{name}");
        }
        let console = self.console().await;
        assert!(console.is_empty(), "{console:?}");
    }

    /// Asks the browser by its own protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.page.issue_cmd(OfChromium("goog/cdp/execute", body)).await.unwrap();
    }

    /// Ends it.
    pub async fn end(self) {
        self.page.close().await.unwrap();
    }
}
