//! Builds programs from the Go modules in `tools/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A Go module in `tools/`, whose pinned versions determine the build.
#[derive(Debug)]
pub(super) struct Group {
    folder: &'static str,
    /// The module whose version is the group's version.
    module: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
    /// Source of the program, if the group contains it.
    main: &'static str,
}

macro_rules! group {
    ($folder:literal, $module:literal) => {
        group!($folder, $module, "")
    };
    ($folder:literal, $module:literal, $main:expr) => {
        Group {
            folder: $folder,
            module: $module,
            go_mod: include_str!(concat!("../../tools/", $folder, "/go.mod")),
            go_sum: include_str!(concat!("../../tools/", $folder, "/go.sum")),
            main: $main,
        }
    };
}

static KUBERNETES_GROUP: Group = group!("kubernetes", "k8s.io/kubernetes");
static ETCD_GROUP: Group = group!("etcd", "go.etcd.io/etcd/server/v3");
static HELM_GROUP: Group = group!("helm", "helm.sh/helm/v4");
static CRANE_GROUP: Group = group!("crane", "github.com/google/go-containerregistry");
static OPA_GROUP: Group = group!("opa", "github.com/open-policy-agent/opa");
static YAML_GROUP: Group = group!("yaml", "k8s.io/apimachinery", include_str!("../../tools/yaml/main.go"));
static HELM_DOCS_GROUP: Group = group!("helm-docs", "github.com/norwoodj/helm-docs");
static VALE_GROUP: Group = group!("vale", "github.com/vale-cli/vale/v3");
pub(super) static GATEWAY_API: Group = group!("gateway-api", "sigs.k8s.io/gateway-api");

impl Group {
    /// Content of the stamp file.
    pub(super) fn pins(&self) -> String {
        format!("{}\n{}{}", self.go_mod, self.go_sum, self.main)
    }

    /// Module and version, such as `k8s.io/kubernetes v1.36.3`.
    pub(super) fn version(&self) -> String {
        format!("{} {}", self.module, self.required().unwrap_or("of an unknown version"))
    }

    fn required(&self) -> Option<&'static str> {
        self.go_mod.lines().find_map(|line| {
            let line = line.trim().trim_start_matches("require ");
            line.strip_prefix(self.module)?.strip_prefix(' ')?.split(' ').next()
        })
    }

    /// The Go version in `go.mod`.
    fn go(&self) -> &'static str {
        self.go_mod.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or("1.26")
    }

    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(self.folder)
    }

    /// The directory of `module` in the module cache, downloaded if it is missing.
    fn source(&self, module: &str) -> Result<PathBuf> {
        let run = |arguments: &[&str]| -> Result<String> {
            let output =
                self.command()?.args(arguments).stderr(Stdio::inherit()).output().context("running go")?;
            if !output.status.success() {
                bail!("go {}: {}", arguments.join(" "), output.status);
            }
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        run(&["mod", "download", module])?;
        Ok(run(&["list", "-m", "-mod=readonly", "-f", "{{.Dir}}", module])?.into())
    }

    /// The command `go` in this module's directory. Without a suitable Go, the error explains the alternatives.
    fn command(&self) -> Result<Command> {
        let command = || {
            let mut command = Command::new("go");
            command.current_dir(self.folder()).env("GOWORK", "off").stdin(Stdio::null());
            command
        };
        let found = command().args(["list", "-m"]).output();
        let reason = match found {
            Ok(output) if output.status.success() => return Ok(command()),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        bail!(
            "Go {} or newer is required to build {}: install it, or set KUBEBUILDER_ASSETS to a folder with etcd, \
             kube-apiserver, kube-controller-manager and kubectl (and helm and helm-docs for tests of the chart, \
             vale for those of the repository), and POLICY_SYNC_CRDS to a folder with the Gateway API's CRDs in gateway-api/ ({reason})",
            self.go(),
            self.version(),
        )
    }
}

/// A program that Go builds.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) group: &'static Group,
    package: &'static str,
}

pub(super) static ETCD: Program =
    Program { name: "etcd", group: &ETCD_GROUP, package: "go.etcd.io/etcd/server/v3" };
pub(super) static KUBE_APISERVER: Program = Program {
    name: "kube-apiserver",
    group: &KUBERNETES_GROUP,
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
};
pub(super) static KUBE_CONTROLLER_MANAGER: Program = Program {
    name: "kube-controller-manager",
    group: &KUBERNETES_GROUP,
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
};
pub(super) static KUBECTL: Program =
    Program { name: "kubectl", group: &KUBERNETES_GROUP, package: "k8s.io/kubernetes/cmd/kubectl" };
pub(super) static HELM: Program =
    Program { name: "helm", group: &HELM_GROUP, package: "helm.sh/helm/v4/cmd/helm" };
pub(super) static CRANE: Program = Program {
    name: "crane",
    group: &CRANE_GROUP,
    package: "github.com/google/go-containerregistry/cmd/crane",
};
pub(super) static OPA: Program =
    Program { name: "opa", group: &OPA_GROUP, package: "github.com/open-policy-agent/opa" };
pub(super) static HELM_DOCS: Program = Program {
    name: "helm-docs",
    group: &HELM_DOCS_GROUP,
    package: "github.com/norwoodj/helm-docs/cmd/helm-docs",
};
pub(super) static VALE: Program =
    Program { name: "vale", group: &VALE_GROUP, package: "github.com/vale-cli/vale/v3/cmd/vale" };

/// Reads YAML as kubectl does.
pub(super) static YAML_READER: Program = Program { name: "yaml-reader", group: &YAML_GROUP, package: "." };

impl Program {
    /// Builds the program to `to`. Replaces the file atomically, so that running instances continue.
    pub(super) fn build(&self, to: &Path) -> Result<()> {
        let unfinished = to.with_extension("unfinished");
        let status = self
            .group
            .command()?
            .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
            .arg(format!("-ldflags={}", self.linker_flags()))
            .arg("-o")
            .arg(&unfinished)
            .arg(self.package)
            // Go shows progress only on stderr.
            .stdout(Stdio::null())
            .status()
            .context("running go build")?;
        if !status.success() {
            bail!("go build {}: {status}", self.package);
        }
        fs::rename(&unfinished, to).with_context(|| format!("moving {} into place", unfinished.display()))
    }

    /// Sets the version of Kubernetes: otherwise an API server reports v0.0.0, which version-checking clients
    /// reject.
    fn linker_flags(&self) -> String {
        let strip = "-s -w".to_owned();
        let Some(version) = self.group.required().filter(|_| self.group.folder == "kubernetes") else {
            return strip;
        };
        let mut parts = version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let set = "-X k8s.io/component-base/version.";
        format!("{strip} {set}gitVersion={version} {set}gitMajor={major} {set}gitMinor={minor}")
    }
}

/// OPA's own test cases: a directory of YAML files in its module.
pub(super) fn opa_cases() -> Result<PathBuf> {
    Ok(OPA_GROUP.source(OPA_GROUP.module)?.join("v1/test/cases/testdata"))
}

/// The cases of yaml-test-suite in goccy/go-yaml's module: a directory for each case, with a file `in.yaml`.
pub(super) fn yaml_cases() -> Result<PathBuf> {
    Ok(YAML_GROUP.source("github.com/goccy/go-yaml")?.join("testdata/yaml-test-suite"))
}

/// Copies the standard channel's CRDs from the Gateway API's module.
pub(super) fn copy_gateway_api(to: &Path) -> Result<()> {
    let from = GATEWAY_API.source(GATEWAY_API.module)?.join("config/crd/standard");
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for old in fs::read_dir(to).with_context(|| format!("reading {}", to.display()))? {
        fs::remove_file(old?.path()).context("removing a CRD of another version")?;
    }
    for file in fs::read_dir(&from).with_context(|| format!("reading {}", from.display()))? {
        let file = file?;
        // `fs::copy` would keep the read-only mode of the module cache.
        let text = fs::read(file.path()).with_context(|| format!("reading {}", file.path().display()))?;
        fs::write(to.join(file.file_name()), text).context("writing a CRD of the Gateway API")?;
    }
    Ok(())
}
