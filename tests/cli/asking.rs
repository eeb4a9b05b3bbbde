//! The user and the timeout of requests to the hub: `--as`, `--as-group`, `--request-timeout`.

use std::path::Path;

use anyhow::{Result, ensure};
use policy_sync_testenv::proxy::{Fault, Target};
use policy_sync_testenv::{Fleet, Proxy};

use crate::run::{CommandOutput, command, finish};

const NONE: &str = "no GatewayClass of the hub has the controllerName example.com/nobody\n";

fn status(kubeconfig: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = command(&["status", "-A", "--controller-name", "example.com/nobody", "--kubeconfig"]);
    command.arg(kubeconfig).args(arguments);
    finish(command, "")
}

fn refused(ran: &CommandOutput, says: &str) -> Result<()> {
    let is_line = ran.stderr.starts_with("policy-sync: ") && ran.stderr.lines().count() == 1;
    ensure!((ran.code, ran.stdout.as_str()) == (2, "") && is_line && ran.stderr.contains(says), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn as_flags_impersonate_another_user() -> Result<()> {
    let hub = Fleet::shared_hub().await?.hub();
    let admin = hub.kubeconfig();
    let forbidden = "User \"jane\" cannot list resource \"gatewayclasses\"";
    refused(&status(admin, &["--as", "jane"]), forbidden)?;
    refused(&status(admin, &["--as=jane", "--as-group=a", "--as-group=b"]), forbidden)?;
    let ran = status(admin, &["--as", "jane", "--as-group", "readers", "--as-group", "system:masters"]);
    ensure!((ran.code, ran.stderr.as_str()) == (0, NONE), "{ran:?}");

    refused(&status(admin, &["--as-group", "readers"]), "--as-group requires --as")?;
    refused(&status(admin, &["--as", ""]), "a value is required for '--as <USER>'")?;
    // The kubeconfig can set the impersonated user as well.
    let mut kubeconfig: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(admin)?)?;
    kubeconfig["users"][0]["user"]["as"] = "jane".into();
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), kubeconfig.to_string())?;
    refused(&status(file.path(), &["--as-group=readers"]), forbidden)?;
    refused(&status(file.path(), &["--as=john"]), "User \"john\" cannot list")?;
    let ran = status(file.path(), &["--as-group=system:masters"]);
    ensure!((ran.code, ran.stderr.as_str()) == (0, NONE), "{ran:?}");
    Ok(())
}

/// A hub that never responds to the first list of GatewayClasses.
async fn silent_hub(name: &str) -> Result<Proxy> {
    let target = Target { verb: "list", resource: "gatewayclasses", nth: 1 };
    Proxy::start(Fleet::shared_hub().await?.hub(), name, Some((target, Fault::Halted))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn request_timeout_limits_each_request() -> Result<()> {
    for (name, timeout, says) in [("silent-1", "700ms", "700ms"), ("silent-2", "1", "1s")] {
        let hub = silent_hub(name).await?;
        let ran = status(hub.kubeconfig(), &["--request-timeout", timeout]);
        refused(&ran, &format!(": no response within {says}\n"))?;
        ensure!(ran.stderr.contains("cannot reach the hub at http://127.0.0.1:"), "{ran:?}");
        // The timeout applies to each request. All other requests to this hub are fast.
        let ran = status(hub.kubeconfig(), &["--request-timeout=20s"]);
        ensure!((ran.code, ran.stderr.as_str()) == (0, NONE), "{ran:?}");
        let ran = status(hub.kubeconfig(), &["--request-timeout=0"]);
        ensure!((ran.code, ran.stderr.as_str()) == (0, NONE), "{ran:?}");
    }
    let hub = Fleet::shared_hub().await?.hub();
    for wrong in ["soon", "-1s", "25h"] {
        let ran = status(hub.kubeconfig(), &[&format!("--request-timeout={wrong}")]);
        refused(&ran, &format!("invalid value '{wrong}' for '--request-timeout <DURATION>'"))?;
    }
    Ok(())
}
