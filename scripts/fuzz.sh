#!/bin/sh
# Runs every fuzz target for some seconds: scripts/fuzz.sh SECONDS [TARGET…]. Fails if one of them finds something.
# Inputs start from fuzz/seeds; what a run learns is kept in fuzz/corpus, what it finds in fuzz/artifacts.
set -eu

seconds=${1:?"usage: scripts/fuzz.sh SECONDS [TARGET…]"}
shift
cd "$(dirname "$0")/.."
: "${CARGO_HOME:=$HOME/.cargo}"
PATH="$CARGO_HOME/bin:$PATH"

if ! command -v rustup >/dev/null; then
    echo "rustup is missing, and fuzzing needs a nightly compiler: install rustup (https://rustup.rs), then run: rustup toolchain install nightly" >&2
    exit 1
fi
if ! rustup run nightly rustc --version >/dev/null 2>&1; then
    echo "the nightly toolchain is missing; install it: rustup toolchain install nightly --profile minimal" >&2
    exit 1
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "cargo-fuzz is missing; installing it (a few minutes, once)"
    cargo install --locked cargo-fuzz
fi

[ $# -gt 0 ] || set -- $(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' fuzz/Cargo.toml)
cargo +nightly fuzz build
programs=fuzz/target/$(rustc +nightly -vV | sed -n 's/^host: //p')/release
export ASAN_OPTIONS=detect_odr_violation=0

failed=
for target; do
    seeds=fuzz/seeds/$target
    found=fuzz/artifacts/$target
    if [ -z "$(ls "$seeds" 2>/dev/null)" ]; then
        echo "$seeds is empty: every target has committed seeds (python fuzz/make_seeds.py writes them)" >&2
        exit 1
    fi
    mkdir -p "fuzz/corpus/$target" "$found"
    echo "$target: $seconds s, log in $found.log"
    if "$programs/$target" "fuzz/corpus/$target" "$seeds" -artifact_prefix="$found/" -max_total_time="$seconds" \
        -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 >"$found.log" 2>&1; then
        sed -n 's/^stat::number_of_executed_units: */    nothing found; inputs tried: /p' "$found.log"
    else
        failed="$failed $target"
        tail -n 40 "$found.log" >&2
    fi
done

for target in $failed; do
    echo "$target found something; the input is the newest file in fuzz/artifacts/$target:" >&2
    ls -t "fuzz/artifacts/$target" | head -n 3 >&2
    echo "run it again: cargo +nightly fuzz run $target fuzz/artifacts/$target/<input>" >&2
done
[ -z "$failed" ]
