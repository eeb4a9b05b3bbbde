//! A real browser: Debian's Chromium, through its own driver.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use policy_sync_testenv::running::Running;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::wait;
use serde_json::{Value, json};
use url::Url;

use crate::site::Site;

/// A browser while it runs. It ends with its driver, whose end closes the pipe between them.
pub(crate) struct Browser {
    pub(crate) page: Client,
    _driver: Running,
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
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0");
        let driver = Running::start(command);
        let started = "started successfully on port ";
        let lines = driver.prints("its port", |line| line.contains(started)).await;
        let line = lines.iter().find_map(|line| line.split_once(started)).unwrap().1;
        let port = line.trim_end_matches('.');
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
        let page = builder.capabilities(capabilities).connect(&format!("http://127.0.0.1:{port}")).await;
        Self { page: page.unwrap(), _driver: driver }
    }

    /// Opens the address that `site` printed.
    pub(crate) async fn enter(&self, site: &Site) {
        self.page.goto(&format!("http://{}/?key={}", site.host, site.key)).await.unwrap();
    }

    /// Opens a page of `site`.
    pub(crate) async fn open(&self, site: &Site, path: &str) {
        self.page.goto(&format!("http://{}{path}", site.host)).await.unwrap();
    }

    pub(crate) async fn find(&self, selector: &str) -> Element {
        self.page.find(Locator::Css(selector)).await.unwrap()
    }

    pub(crate) async fn text(&self, selector: &str) -> String {
        self.find(selector).await.text().await.unwrap()
    }

    /// What a script comes to in the page.
    pub(crate) async fn script(&self, script: &str) -> Value {
        self.page.execute(script, Vec::new()).await.unwrap()
    }

    /// Waits until the text of `selector` is as it should be.
    pub(crate) async fn until_text(&self, selector: &str, holds: impl Fn(&str) -> bool) -> String {
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

    /// What the console has said since it was last asked.
    pub(crate) async fn console(&self) -> Vec<String> {
        let log = self.page.issue_cmd(OfChromium("se/log", json!({"type": "browser"}))).await.unwrap();
        log.as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Asks the browser by its own protocol.
    pub(crate) async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.page.issue_cmd(OfChromium("goog/cdp/execute", body)).await.unwrap();
    }

    /// Ends it.
    pub(crate) async fn end(self) {
        self.page.close().await.unwrap();
    }
}
