//! T6: `policy-sync topology -o json` for a Gateway with the maximum number of listeners and many routes with
//! many rules.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::Options;
use crate::report::{Measure, progress};
use crate::usage::Memory;

const LISTENERS: u16 = 64;
const RULES: usize = 16;
/// Number of objects in a file.
const EACH_FILE: usize = 100;
/// Goals: peak memory in MiB, and the time until the first byte in seconds. Reading the files does not count.
const PEAK_GOAL: f64 = 200.0;
const FIRST_GOAL: f64 = 1.0;
/// Time limit for reading the output. The output has gigabytes, and memory use does not grow after the beginning of the
/// output.
const READ_FOR: Duration = Duration::from_secs(60);

/// Measures peak memory, and the time until the first byte.
pub(crate) async fn measure(options: &Options) -> Result<Vec<Measure>> {
    let (folder, routes) = (tempfile::tempdir().context("creating a folder")?, options.objects);
    for (number, list) in world(routes).chunks(EACH_FILE).enumerate() {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": list});
        let path = folder.path().join(format!("{number:05}.json"));
        std::fs::write(path, list.to_string()).context("writing a file")?;
    }
    let alone = run(options, folder.path(), "nobody").await?;
    let all = run(options, folder.path(), "web").await?;
    ensure!(all.bytes > 0, "nothing was printed");
    progress(&format!("{} MiB of JSON read", all.bytes / 1024 / 1024));
    let what = format!("topology -o json, {LISTENERS} listeners × {routes} routes × {RULES} rules");
    let detail = format!(
        "{:.1} s, of which {:.1} s without a path",
        all.first.as_secs_f64(),
        alone.first.as_secs_f64()
    );
    let first = all.first.saturating_sub(alone.first).as_secs_f64();
    Ok(vec![
        Measure::at_most("T6", format!("{what}: peak"), all.peak, "MiB", PEAK_GOAL),
        Measure::at_most(
            "T6",
            format!("{what}: first byte, after the files were read"),
            first,
            "s",
            FIRST_GOAL,
        )
        .detail(detail),
    ])
}

struct CommandRun {
    first: Duration,
    bytes: usize,
    peak: f64,
}

/// Prints the topology of the Gateway `gateway` in `folder`.
async fn run(options: &Options, folder: &Path, gateway: &str) -> Result<CommandRun> {
    let mut command = Command::new(&options.controller);
    command.args(["topology", "-o", "json", "--gateway", gateway, "-f"]).arg(folder);
    let began = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting the command")?;
    let pid = child.id().context("the command has ended")?;
    let mut out = child.stdout.take().context("no output")?;
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = out.read(&mut buffer).await.context("reading the output")?;
    let first = began.elapsed();
    // A process that printed little may have ended already. Then its memory is unknown.
    let of_now = || Memory::of_process(pid).map(|memory| memory.peak).unwrap_or_default();
    let mut peak = of_now();
    let begun = Instant::now();
    while begun.elapsed() < READ_FOR {
        match out.read(&mut buffer).await.context("reading the output")? {
            0 => break,
            more => bytes += more,
        }
        peak = peak.max(of_now());
    }
    child.kill().await.ok();
    Ok(CommandRun { first, bytes, peak })
}

fn world(routes: usize) -> Vec<Value> {
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec});
    let listener =
        |number: u16| json!({"name": format!("l{number}"), "port": 1000 + number, "protocol": "HTTP"});
    let listeners: Vec<Value> = (0..LISTENERS).map(listener).collect();
    let rule =
        |number: usize| json!({"matches": [{"path": {"type": "PathPrefix", "value": format!("/{number}")}}]});
    let rules: Vec<Value> = (0..RULES).map(rule).collect();
    let gateway = object("Gateway", "web", json!({"gatewayClassName": "c", "listeners": listeners}));
    let route = |number: usize| {
        object(
            "HTTPRoute",
            &format!("route-{number}"),
            json!({"parentRefs": [{"name": "web"}], "rules": rules}),
        )
    };
    [gateway].into_iter().chain((0..routes).map(route)).collect()
}
