# Sourced by the scripts in this folder: checks for required tools, and prints how to install missing tools.

missing() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    exit 2
}

# Rust. cargo checks the minimum version in Cargo.toml, with a clear message.
needs_rust() {
    local wanted
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    command -v cargo >/dev/null || missing "cargo is missing: install Rust $wanted or newer, see https://rustup.rs"
}

# A component of the Rust toolchain, such as rustfmt or clippy.
needs_component() {
    local command=cargo-$1
    [ "$1" = rustfmt ] && command=rustfmt
    command -v "$command" >/dev/null || missing "$1 is missing: rustup component add $1"
}

# A C compiler builds ring and jemalloc, and links programs.
needs_c_compiler() {
    command -v cc >/dev/null && command -v make >/dev/null && return
    missing "a C compiler (cc) or make is missing: on Debian and Ubuntu, apt-get install gcc libc6-dev make"
}

# Graphviz draws the topology.
needs_graphviz() {
    command -v dot >/dev/null || missing "dot is missing: on Debian and Ubuntu, apt-get install graphviz"
}

# The shells whose completion is tested. The program script provides a terminal.
needs_shells() {
    local command
    for command in bash zsh fish script; do
        command -v "$command" >/dev/null || missing "$command is missing: on Debian and Ubuntu, apt-get install bash zsh fish bsdutils"
    done
}

# Go builds etcd and the Kubernetes servers, unless KUBEBUILDER_ASSETS contains them and POLICY_SYNC_CRDS the Gateway
# API. Go 1.21 and newer downloads the required version, unless GOTOOLCHAIN=local is set.
needs_go() {
    local wanted
    wanted=$(sed -n 's/^go //p' hack/testenv/tools/*/go.mod | sort -V | tail -n 1)
    [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -d "${POLICY_SYNC_CRDS:-}/gateway-api" ] && return
    command -v go >/dev/null || missing "go is missing: install Go $wanted or newer, see https://go.dev/dl; it builds \
etcd, kube-apiserver, kube-controller-manager and kubectl once (or set KUBEBUILDER_ASSETS and POLICY_SYNC_CRDS, see \
hack/testenv/README.md)"
}

# A browser for the tests of the pages of policy-sync web.
needs_browser() {
    command -v chromium >/dev/null && command -v chromedriver >/dev/null && return
    missing "chromium or chromedriver is missing: on Debian, apt-get install --no-install-recommends chromium chromium-driver \
fonts-dejavu-core"
}

# npm downloads the accessibility checker for the pages of policy-sync web.
needs_npm() {
    command -v npm >/dev/null || missing "npm is missing: on Debian, apt-get install --no-install-recommends npm"
}

# The directory of cargo's build output.
target_directory() {
    cargo metadata --format-version 1 --no-deps --locked | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}
