#!/bin/sh
# Builds the Python package in a virtual environment under target/ and runs its tests, the cluster's and the notebook's among them. What
# could not be checked is said: silence would look like an answer. With --strict it fails, too; with --prepare only the environment is
# made, which takes a while in which others can compile.
set -eu
cd "$(dirname "$0")/.."
strict=${1:-}
mkdir -p target
# One at a time makes the environment. Where there is no flock they would only do the same twice.
exec 9>target/python-venv.lock
! command -v flock >/dev/null || flock 9

unchecked() {
	printf 'NOT CHECKED: %s\n' "$*" >&2
	[ "$strict" != --strict ] || exit 1
	exit 0
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
	unchecked "the Python package: it needs Python 3.10 or later (PYTHON=python3.12 names one)"
venv=target/python-venv
[ -x $venv/bin/pip ] || "$python" -m venv $venv 2>/dev/null ||
	unchecked "the Python package: $python makes no virtual environment (Debian: apt-get install python3-venv)"
# maturin's own choice of a target directory would compile everything where nobody cleans up.
export CARGO_TARGET_DIR="$PWD/target/python"
$venv/bin/pip install --quiet --disable-pip-version-check 'maturin>=1.8,<2' ||
	unchecked "the Python package: maturin cannot be installed from the package index"
$venv/bin/pip install --quiet --disable-pip-version-check tomlkit fsspec pandas pyarrow tqdm matplotlib nbclient nbformat ipykernel lightgbm scipy pytest ||
	unchecked "the Python package: what its tests use cannot be installed from the package index"
$venv/bin/pip install --quiet --disable-pip-version-check 'ray>=2.9' ||
	printf 'NOT CHECKED: sweeps on a Ray cluster: there is no ray for this Python\n' >&2
exec 9>&-
[ "$strict" != --prepare ] || exit 0
VIRTUAL_ENV="$PWD/$venv" $venv/bin/maturin develop --quiet --manifest-path python/Cargo.toml
exec $venv/bin/python -m pytest --quiet python/tests
