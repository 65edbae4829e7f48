#!/usr/bin/env bash
# Makes .venv hold Penstock with what its tests need (install), and gets the foreign clients of the
# interoperability tests (clients). Safe to run again at any time.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "set-up: $*" >&2; }

# Debian packages need root; without it the caller is told what to run.
debian_install() {
    command -v apt-get >/dev/null || return 1
    local as_root=() output
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    say "installing $* with apt-get"
    # A list that cannot be fetched may not be the one that matters.
    output=$("${as_root[@]}" apt-get update -qq 2>&1) || true
    output+=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" 2>&1) && return
    say "apt-get failed:"
    tail -n 5 <<<"$output" >&2
    return 1
}

find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

# Where python3 is older, there may be a newer one beside it.
install_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        [ $name = python3 ] || apt-cache show "$name-venv" >/dev/null 2>&1 || continue
        debian_install "$name" "$name-venv" || return
        find_python >/dev/null && return
    done
}

make_venv() {
    .venv/bin/python -m pip --version >/dev/null 2>&1 && return
    local python package
    python=$(find_python) || { install_python; python=$(find_python); } ||
        { say "Python 3.11 or newer is needed: run 'apt-get install python3 python3-venv' as root"; exit 1; }
    rm -rf .venv
    "$python" -m venv .venv >/dev/null 2>&1 && return
    # Debian's Python comes without ensurepip.
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    debian_install "$package" || { say "$package is missing: run 'apt-get install $package' as root"; exit 1; }
    rm -rf .venv
    "$python" -m venv .venv
}

case "${1:-}" in
install)
    make_venv
    say "installing Penstock and its development tools into .venv; compiling takes a minute"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
    ;;
clients)
    # Tests that need kcat skip themselves, with a word, where it is missing.
    command -v kcat >/dev/null || debian_install kcat ||
        say "kcat is missing and cannot be installed from here, its tests are skipped: run 'apt-get install kcat' as root"
    # ZooKeeper's tests fail without it, and say so.
    command -v java >/dev/null || debian_install openjdk-17-jre-headless || debian_install default-jre-headless ||
        say "Java is missing and cannot be installed from here: run 'apt-get install openjdk-17-jre-headless' as root"
    ;;
*)
    echo "usage: tools/setup.sh install|clients" >&2
    exit 2
    ;;
esac
