#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# lint.sh: runs ruff and mypy --strict on the package. lint.sh PYTHON: runs mypy --strict and pyright on the first
# program of README.md, as that of a user who has installed the package for that Python. The first time it installs the
# pinned versions from PyPI and npm, into the user's cache.
set -euo pipefail
readonly RUFF=0.17.6 MYPY=2.4.1 PYRIGHT=1.1.414

tools=${XDG_CACHE_HOME:-$HOME/.cache}/distlock/ruff-$RUFF-mypy-$MYPY-pyright-$PYRIGHT
cd "$(dirname "${BASH_SOURCE[0]}")"
if [ ! -e "$tools/complete" ]; then
  rm -rf "$tools"
  /usr/bin/python3 -m venv "$tools" >&2
  "$tools/bin/pip" install --quiet --disable-pip-version-check "ruff==$RUFF" "mypy==$MYPY" types-protobuf >&2
  npm install --silent --no-audit --no-fund --prefix "$tools" "pyright@$PYRIGHT" >&2
  : >"$tools/complete"
fi
if [ $# -eq 0 ]; then
  "$tools/bin/ruff" check --no-cache .
  exec "$tools/bin/mypy" --cache-dir=/dev/null
fi

user=$(mktemp -d)
trap 'rm -rf "$user"' EXIT
program=$(sed -n '/^```python$/,/^```$/{/^```/!p;/^```$/q}' README.md)
{
  printf 'rows: list[int] = []\n\n\ndef save(rows: list[int], token: int) -> None: ...\n\n\n'
  printf '%s\nreveal_type(held)\nreveal_type(dl.lock("k", wait=10, ttl=30))\n' "$program"
  cat <<'TEXT'


@dl.locked("nightly", wait=0, busy=distlock.SKIP)
def nightly(rows: int) -> str:
    return str(rows)


@distlock.aio.connect().locked("nightly", wait=0, busy=distlock.SKIP)
async def weekly(rows: int) -> str:
    return str(rows)


async def work() -> tuple[str, str]:
    done, later = nightly(1), await weekly(2)
    if done is distlock.SKIP or later is distlock.SKIP:
        return "", ""
    return done, later
TEXT
} >"$user/right.py"
{
  sed '/^    if done is/,/^        return/d' "$user/right.py" # it may be SKIP
} >"$user/skips.py"
printf '%s\n' 'import distlock' 'distlock.connect().lock("report", wiat=10)' >"$user/wrong.py"
cd "$user"
"$tools/bin/mypy" --strict --cache-dir=/dev/null --python-executable "$1" right.py
"$tools/node_modules/.bin/pyright" --pythonpath "$1" right.py
# A misspelt option, and a result that is not looked at, are found by both.
for file in wrong.py skips.py; do
  ! "$tools/bin/mypy" --strict --cache-dir=/dev/null --python-executable "$1" "$file" || exit 1
  ! "$tools/node_modules/.bin/pyright" --pythonpath "$1" "$file" || exit 1
done
