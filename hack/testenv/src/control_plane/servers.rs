//! Command-line flags of the servers, and the files that they read.
//!
//! All connections use TLS with this control plane's authority, including connections to etcd: on a shared machine,
//! other users could write to an open etcd and bypass the API server.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::ControlPlane;
use crate::audit;
use crate::certificates::{self, Authority, Identity, User};

pub(super) const ETCD: &str = "etcd";
/// Data directory of etcd, in the control plane's directory.
pub(super) const ETCD_DATA: &str = "etcd";
pub(super) const API_SERVER: &str = "kube-apiserver";
pub(super) const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Writes the certificates and other files that [`command`] refers to.
pub(super) fn write_certificates(authority: &Authority, directory: &Path) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    let write_identity = |name: &str, identity: Identity| {
        write(&format!("{name}.crt"), &identity.certificate)?;
        write(&format!("{name}.key"), &identity.key)
    };
    write("ca.crt", &authority.certificate())?;
    write(audit::POLICY_FILE, audit::POLICY)?;
    write_identity("etcd", authority.server("etcd")?)?;
    write_identity("etcd-client", authority.user(&User::new("kube-apiserver"))?)?;
    write_identity("api", authority.server("kube-apiserver")?)?;
    let (private, public) = certificates::signing_key()?;
    write("service-accounts.key", &private)?;
    write("service-accounts.pub", &public)
}

/// The program and arguments of a server of `plane`. Paths are relative to the control plane's directory.
pub(super) fn command<'a>(name: &str, plane: &'a ControlPlane) -> Result<(&'a Path, Vec<String>)> {
    let etcd = format!("https://127.0.0.1:{}", plane.etcd_port.number());
    let (program, flags): (&Path, Vec<(&str, String)>) = match name {
        ETCD => (
            &plane.binaries.etcd,
            vec![
                ("data-dir", ETCD_DATA.into()),
                ("listen-client-urls", etcd.clone()),
                ("advertise-client-urls", etcd),
                // A single member has no peers, so any free port is suitable.
                ("listen-peer-urls", "https://127.0.0.1:0".into()),
                ("peer-auto-tls", "true".into()),
                ("cert-file", "etcd.crt".into()),
                ("key-file", "etcd.key".into()),
                ("trusted-ca-file", "ca.crt".into()),
                ("client-cert-auth", "true".into()),
                // Durability across power failures is not needed.
                ("unsafe-no-fsync", "true".into()),
                // The default is 2 GiB. 100,000 works with their previous revisions need more.
                ("quota-backend-bytes", (8_u64 << 30).to_string()),
                ("log-level", "warn".into()),
            ],
        ),
        API_SERVER => (
            &plane.binaries.kube_apiserver,
            vec![
                ("etcd-servers", etcd),
                ("etcd-cafile", "ca.crt".into()),
                ("etcd-certfile", "etcd-client.crt".into()),
                ("etcd-keyfile", "etcd-client.key".into()),
                ("bind-address", "127.0.0.1".into()),
                ("secure-port", plane.api_port.number().to_string()),
                ("tls-cert-file", "api.crt".into()),
                ("tls-private-key-file", "api.key".into()),
                ("cert-dir", "api".into()),
                ("client-ca-file", "ca.crt".into()),
                match plane.authorization() {
                    None => ("authorization-mode", "RBAC".into()),
                    Some(file) => ("authorization-config", file.display().to_string()),
                },
                ("service-account-issuer", "https://localhost".into()),
                ("service-account-key-file", "service-accounts.pub".into()),
                ("service-account-signing-key-file", "service-accounts.key".into()),
                ("service-cluster-ip-range", "10.0.0.0/24".into()),
                // This plugin rejects Pods in namespaces without the `default` ServiceAccount, which no controller
                // creates here.
                ("disable-admission-plugins", "ServiceAccount".into()),
                // By default, the API server publishes its address as endpoint of the Service `kubernetes`, which fails
                // for 127.0.0.1.
                ("endpoint-reconciler-type", "none".into()),
                ("audit-policy-file", audit::POLICY_FILE.into()),
                ("audit-log-path", audit::LOG_FILE.into()),
            ],
        ),
        CONTROLLER_MANAGER => (
            &plane.binaries.kube_controller_manager,
            vec![
                ("kubeconfig", plane.kubeconfig.display().to_string()),
                (
                    "controllers",
                    "clusterrole-aggregation-controller,namespace-controller,garbage-collector-controller"
                        .into(),
                ),
                ("leader-elect", "false".into()),
                // The HTTP server of the controller manager is not used.
                ("secure-port", "0".into()),
                // With the default of 20 requests per second, tests would wait for the deletion of namespaces.
                ("kube-api-qps", "200".into()),
                ("kube-api-burst", "400".into()),
            ],
        ),
        _ => bail!("unknown server {name}"),
    };
    Ok((program, flags.into_iter().map(|(flag, value)| format!("--{flag}={value}")).collect()))
}
