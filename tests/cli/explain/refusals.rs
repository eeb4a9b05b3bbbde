//! `explain` for missing objects, and for users with few rights.

use anyhow::{Result, ensure};
use policy_sync_testenv::audit::requests_of;
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures::rate_limit_policy;

use super::{LIMITS, explain_as, tenant};
use crate::run::run;

#[tokio::test]
async fn missing_objects_are_reported() -> Result<()> {
    let tenant = tenant("explain-none", &["ex-none"], &["ex-none"]).await?;
    let admin = tenant.hub().kubeconfig();
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    for (arguments, code, says) in [
        (&["ratelimitpolicy", "nothing"][..], 1, "has no RateLimitPolicy explain-none/nothing"),
        (&["gateway", "nothing"], 1, "has no Gateway explain-none/nothing"),
        (&["nonsense", "limits"], 2, "has no kind \"nonsense\""),
        (&["ratelimitpolicy", "../limits"], 2, "is not a valid Kubernetes name"),
        (&["ratelimitpolicy", "limits", "--cluster", "ex-nowhere"], 1, "has no ManagedCluster ex-nowhere"),
        (&["ratelimitpolicy", "limits", "--cluster", "a/b"], 2, "is not a valid Kubernetes name"),
    ] {
        let ran = explain_as(admin, &tenant, arguments);
        ensure!((ran.code, ran.stdout.as_str()) == (code, ""), "{arguments:?} {ran:#?}");
        ensure!(ran.stderr.contains(says) && ran.stderr.lines().count() == 1, "{arguments:?} {ran:#?}");
    }
    for word in [
        "ratelimitpolicies",
        "RateLimitPolicy",
        "ratelimitpolicies.kuadrant.io",
        "ratelimitpolicies.v1.kuadrant.io",
    ] {
        ensure!(explain_as(admin, &tenant, &[word, "limits"]).code == 1, "{word}");
    }
    ensure!(run(&["explain", "ratelimitpolicy"]).code == 2);
    ensure!(run(&["explain", "ratelimitpolicy", "limits"]).stderr.contains("no hub is configured"));
    Ok(())
}

#[tokio::test]
async fn explain_only_reads_and_reports_missing_rights() -> Result<()> {
    let tenant = tenant("explain-rights", &["ex-rights"], &["ex-rights"]).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    let user = User::new("explain-reader");
    let kubeconfig = tenant.hub().kubeconfig_for(&user)?;
    let ran = explain_as(&kubeconfig, &tenant, &LIMITS);
    ensure!((ran.code, ran.stdout.as_str(), ran.stderr.lines().count()) == (2, "", 1), "{ran:#?}");
    ensure!(
        ran.stderr.contains("cannot get RateLimitPolicy explain-rights/limits on the hub at"),
        "{ran:#?}"
    );
    let admin = user.in_group("system:masters");
    let ran = explain_as(&tenant.hub().kubeconfig_for(&admin)?, &tenant, &LIMITS);
    ensure!(ran.code == 1, "{ran:#?}");
    let requests = requests_of(tenant.hub(), &admin.name)?;
    let writes: Vec<_> = requests.iter().filter(|request| request.is_write()).collect();
    ensure!(requests.len() > 8 && writes.is_empty(), "{writes:?}");
    Ok(())
}
