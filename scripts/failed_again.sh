#!/usr/bin/env bash
# scripts/failed_again.sh LOG: runs the tests that failed in `make test` twice more, alone, for .ci/run. A test that passes then is one that other tests or a busy
# machine can disturb: its name stands here to be mended, and holds up nobody's change. It succeeds for up to three such tests; a crash, an error, or a test that fails again are failures.
set -euo pipefail
cd "$(dirname "$0")/.."
summary=$(grep -aE '^=+ .* in [0-9.]+s' "$1" | tail -1)
if [[ ! $summary =~ ^=+\ [1-3]\ failed,\ [0-9]+\ passed ]] || [[ $summary == *error* ]] || grep -qaE 'crashed|INTERNALERROR|Interrupted:' "$1"; then
  exit 1
fi
mapfile -t failed < <(.venv/bin/python -c "import json; [print(one) for one in json.load(open('.pytest_cache/v/cache/lastfailed'))]")
((${#failed[@]})) || exit 1
printf 'failed beside other tests, and run again alone: %s\n' "${failed[@]}"
for _ in 1 2; do
  .venv/bin/python -m pytest "${failed[@]}"
done
