//! Completion in real shells and by the real `kubectl`, with the names of a real hub.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{managed_cluster, rate_limit_policy};
use policy_sync_testenv::{Fleet, Tenant, binaries};
use serde_json::json;
use tempfile::TempDir;

use crate::run::{CommandOutput, finish, run};
use crate::terminal::{Terminal, needs, on_path};

/// The environment of a shell: a `PATH` with the program and `kubectl`, and a home directory of its own.
struct Shell {
    home: TempDir,
    _folder: TempDir,
    path: OsString,
}

impl Shell {
    async fn new(files: &[(&str, &str)]) -> Result<Self> {
        let kubectl = binaries::ensure().await?.kubectl;
        let (folder, path) = on_path(&[("kubectl", &kubectl)]);
        let home = tempfile::tempdir()?;
        for (name, text) in files {
            std::fs::write(home.path().join(name), text)?;
        }
        Ok(Self { home, _folder: folder, path })
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("PATH", &self.path).env("HOME", self.home.path());
        command.env("ZDOTDIR", self.home.path()).env_remove("KUBECONFIG").current_dir(self.home.path());
        command
    }

    /// The output lines of `kubectl` for the completion of the last of `words`.
    fn kubectl(&self, words: &[&str]) -> (Vec<String>, CommandOutput) {
        let ran = finish(self.command("kubectl", &[&["__complete", "policy-sync"], words].concat()), "");
        (ran.stdout.lines().map(str::to_owned).collect(), ran)
    }
}

/// The completion candidates without their descriptions.
fn values(lines: &[String]) -> Vec<&str> {
    lines.iter().filter_map(|line| line.split('\t').next()).collect()
}

#[tokio::test]
async fn kubectl_completes_its_plugin() -> Result<()> {
    let shell = Shell::new(&[]).await?;
    let (lines, ran) = shell.kubectl(&["status", "-o", ""]);
    ensure!(values(&lines) == ["table", "wide", "json", "yaml", ":4"], "{ran:?}");
    ensure!(lines[2] == "json\tA list with all details", "{ran:?}");
    let (lines, ran) = shell.kubectl(&["status", "--output=w"]);
    ensure!(values(&lines) == ["wide", ":4"], "{ran:?}");
    let (lines, ran) = shell.kubectl(&["explain", "--clus"]);
    ensure!(values(&lines) == ["--cluster", ":4"], "{ran:?}");
    let (lines, ran) = shell.kubectl(&[""]);
    let commands = [
        "controller",
        "plan",
        "params",
        "status",
        "explain",
        "topology",
        "effective",
        "web",
        "rego",
        "audit",
        "placement",
        "completion",
        "help",
        ":4",
    ];
    ensure!(values(&lines) == commands, "{ran:?}");
    // A folder is completed without a space.
    std::fs::create_dir(shell.home.path().join("shop"))?;
    let (lines, ran) = shell.kubectl(&["plan", "-f", "s"]);
    ensure!(values(&lines) == ["shop/", ":6"], "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn completion_leaves_out_the_deprecated_name_of_a_flag() -> Result<()> {
    let shell = Shell::new(&[]).await?;
    for command in [&["controller"][..], &["audit"], &["placement", "diff"], &["placement", "apply"]] {
        let (lines, ran) = shell.kubectl(&[command, &["--rego"]].concat());
        ensure!(values(&lines) == ["--rego-namespace", ":4"], "{ran:?}");
        let (lines, ran) = shell.kubectl(&[command, &["--policy-"]].concat());
        ensure!(values(&lines) == [":4"], "{ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_runs_the_program_as_a_plugin() -> Result<()> {
    let shell = Shell::new(&[]).await?;
    let ran = finish(shell.command("kubectl", &["policy-sync", "status", "--help"]), "");
    ensure!(ran.code == 0 && ran.stdout.contains("\nUsage: kubectl policy-sync status ["), "{ran:?}");
    ensure!(ran.stdout.contains("  kubectl policy-sync status -A --not-synced\n"), "{ran:?}");
    let ran = finish(shell.command("kubectl", &["policy-sync", "plan", "-f", "nowhere"]), "");
    ensure!(
        ran.code == 2 && ran.stderr.starts_with("policy-sync: cannot read nowhere: No such file"),
        "{ran:?}"
    );
    let ran = finish(shell.command("kubectl", &["policy-sync", "--version"]), "");
    ensure!((ran.code, ran.stdout) == (0, run(&["--version"]).stdout));
    Ok(())
}

/// A tenant with a policy, and the arguments that select the hub and the controller.
async fn named(name: &str) -> Result<(Tenant<'static>, Vec<String>)> {
    let fleet = Fleet::shared_hub().await?;
    let tenant = Tenant::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, &[]).await?;
    tenant.apply(&rate_limit_policy(name, "limits-of-all", "web")).await?;
    tenant.apply(&managed_cluster(&format!("{name}-cluster"), &Default::default())).await?;
    let kubeconfig = tenant.hub().kubeconfig().display();
    let leads = vec![format!("--controller-name=example.com/{name}"), format!("--kubeconfig={kubeconfig}")];
    Ok((tenant, leads))
}

#[tokio::test]
async fn names_on_the_hub_are_completed() -> Result<()> {
    let shell = Shell::new(&[]).await?;
    let (tenant, leads) = named("names-of-hub").await?;
    let leads: Vec<&str> = leads.iter().map(String::as_str).collect();
    let complete = |command: &str, words: &[&str], expected: &[&str]| {
        let (lines, ran) = shell.kubectl(&[&[command], &leads[..], words].concat());
        ensure!(values(&lines) == [expected, &[":4"]].concat() && ran.code == 0, "{words:?} {ran:?}");
        Ok(())
    };
    let kinds = [
        "gateways",
        "policies",
        "resources",
        "cluster",
        "authpolicies",
        "ratelimitpolicies",
        "timeoutpolicies",
    ];
    complete("status", &[""], &kinds)?;
    complete("status", &["ra"], &["ratelimitpolicies"])?;
    complete("explain", &[""], &["gateway", "authpolicy", "ratelimitpolicy", "timeoutpolicy"])?;
    complete("status", &["-n", "names-of"], &["names-of-hub"])?;
    complete("status", &["--namespace=names-of"], &["names-of-hub"])?;
    complete("controller", &["--leader-elect-namespace", "names-of"], &["names-of-hub"])?;
    complete("status", &["--cluster", "names-of-hub-"], &["names-of-hub-cluster"])?;
    complete("explain", &["ratelimitpolicy", "x", "--cluster=names-of-hub-"], &["names-of-hub-cluster"])?;
    complete("status", &["cluster", "names-of-hub-"], &["names-of-hub-cluster"])?;
    complete("status", &["-n", "names-of-hub", "rlp", "l"], &[])?;
    complete("status", &["-n", "names-of-hub", "RateLimitPolicy", ""], &["limits-of-all"])?;
    complete("explain", &["gateway", "-n", "names-of-hub", ""], &["web"])?;
    complete("status", &["--context", ""], &[tenant.hub().name()])?;
    // Impersonation applies to completion as to other commands.
    complete("status", &["--as=nobody", "-n", "names-of"], &[])?;
    complete("status", &["--as=nobody", ""], &["gateways", "policies", "resources", "cluster"])?;
    Ok(())
}

#[tokio::test]
async fn unreachable_hub_gives_no_candidates_and_no_messages() -> Result<()> {
    let shell = Shell::new(&[]).await?;
    // The server accepts connections, but never responds.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let server = format!("http://{}", silent.local_addr()?);
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "silent",
        "clusters": [{"name": "silent", "cluster": {"server": server}}],
        "contexts": [{"name": "silent", "context": {"cluster": "silent", "user": "me"}}],
        "users": [{"name": "me", "user": {}}],
    });
    let file = shell.home.path().join("silent");
    std::fs::write(&file, kubeconfig.to_string())?;
    let silent = format!("--kubeconfig={}", file.display());
    let begun = Instant::now();
    let (lines, ran) = shell.kubectl(&["status", &silent, "-n", ""]);
    ensure!(lines == [":4"], "{ran:?}");
    // Completion has a shorter timeout than other commands.
    let took = begun.elapsed();
    ensure!(took >= Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
    let (lines, ran) = shell.kubectl(&["status", &silent, "p"]);
    ensure!(lines == ["policies", ":4"], "{ran:?}");
    for kubeconfig in ["--kubeconfig=nowhere", "--context=nowhere", "--request-timeout=soon"] {
        let (lines, ran) = shell.kubectl(&["status", kubeconfig, "--cluster", ""]);
        ensure!(lines == [":4"], "{ran:?}");
        let mut shell_asks =
            shell.command("policy-sync", &["--", "policy-sync", "status", kubeconfig, "--cluster", ""]);
        shell_asks.env("POLICY_SYNC_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "4");
        let ran = finish(shell_asks, "");
        ensure!((ran.stdout.as_str(), ran.stderr.as_str()) == ("", ""), "{ran:?}");
    }
    Ok(())
}

/// Types a line with tabs into a shell that prints each command before it runs. Waits until the shell has run
/// `expected`.
async fn typed(terminal: &mut Terminal, line: &str, expected: &str) {
    terminal.types(&format!("{line}\r"));
    terminal.shows(&format!("ran: {expected}")).await;
}

#[tokio::test]
async fn bash_completes() -> Result<()> {
    needs("bash", "bash");
    let profile =
        "PS1='ready> '\nsource <(policy-sync completion bash)\ntrap 'echo \"ran: $BASH_COMMAND\"' DEBUG\n";
    let shell = Shell::new(&[("profile", profile)]).await?;
    let (_tenant, leads) = named("completed-in-bash").await?;
    let bash = shell.command("bash", &["--noprofile", "--rcfile", "profile", "-i"]);
    let mut terminal = Terminal::start(500, &bash);
    terminal.shows("ready> ").await;
    typed(&mut terminal, "policy-sync completion z\t", "policy-sync completion zsh").await;
    let leads = leads.join(" ");
    let typing = format!("policy-sync explain {leads} -n completed-in-b\tratelimitp\tlim\t");
    let complete = format!("policy-sync explain {leads} -n completed-in-bash ratelimitpolicy limits-of-all");
    typed(&mut terminal, &typing, &complete).await;
    // Bash splits words at `=`.
    typed(
        &mut terminal,
        "policy-sync completion --kubeconfig=prof\t zs\t",
        "policy-sync completion --kubeconfig=profile zsh",
    )
    .await;
    typed(&mut terminal, "policy-sync status --output=ya\t -A", "policy-sync status --output=yaml -A").await;
    Ok(())
}

#[tokio::test]
async fn zsh_completes() -> Result<()> {
    needs("zsh", "zsh");
    let profile = "PS1='ready> '\nautoload -Uz compinit\ncompinit -u -d $ZDOTDIR/dump\n\
                   source <(policy-sync completion zsh)\nsource <(kubectl completion zsh)\n\
                   preexec() { print -r -- \"ran: $1\" }\n";
    let shell = Shell::new(&[(".zshrc", profile)]).await?;
    let (_tenant, leads) = named("completed-in-zsh").await?;
    let mut terminal = Terminal::start(500, &shell.command("zsh", &["-i"]));
    terminal.shows("ready> ").await;
    typed(&mut terminal, "policy-sync completion f\t", "policy-sync completion fish").await;
    typed(&mut terminal, "kubectl policy-sync completion b\t", "kubectl policy-sync completion bash").await;
    let leads = leads.join(" ");
    let typing = format!("policy-sync explain {leads} -n completed-in-z\tratelimitp\tlim\t");
    let complete = format!("policy-sync explain {leads} -n completed-in-zsh ratelimitpolicy limits-of-all");
    typed(&mut terminal, &typing, &complete).await;
    Ok(())
}

#[tokio::test]
async fn fish_completes() -> Result<()> {
    needs("fish", "fish");
    let shell = Shell::new(&[]).await?;
    let (_tenant, leads) = named("completed-in-fish").await?;
    let complete = |line: &str| {
        let script = format!("policy-sync completion fish | source; complete --do-complete '{line}'");
        finish(shell.command("fish", &["--no-config", "--command", &script]), "")
    };
    let ran = complete("policy-sync status -o w");
    ensure!(
        ran.stdout == "wide\tMore columns, and all names instead of the first ones. No cell is cut\n",
        "{ran:?}"
    );
    let leads = leads.join(" ");
    let ran = complete(&format!("policy-sync explain {leads} ratelimitp"));
    ensure!((ran.stdout.as_str(), ran.stderr.as_str()) == ("ratelimitpolicy\n", ""), "{ran:?}");
    let ran = complete(&format!("policy-sync explain {leads} -n completed-in-fish ratelimitpolicy l"));
    ensure!(ran.stdout == "limits-of-all\n", "{ran:?}");
    Ok(())
}

#[test]
fn completion_scripts_go_to_standard_output() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(&["completion", shell]);
        assert!(
            ran.code == 0 && ran.stderr.is_empty() && ran.stdout.contains("POLICY_SYNC_COMPLETE"),
            "{ran:?}"
        );
    }
    let ran = run(&["completion", "csh"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
}
