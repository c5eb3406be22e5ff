#!/bin/sh
# Runs one step of the set-up: scripts/quietly.sh NAME WORDS COMMAND…. What the command prints goes to target/setup/NAME.log.
# Shows WORDS, the elapsed time and, on a terminal, the last line of the log. If the command fails, shows the end of the log.
set -u
name=$1 words=$2
shift 2
cd "$(dirname "$0")/.." || exit
log=target/setup/$name.log
mkdir -p target/setup
began_s=$(date +%s)
step=${words%% (*} # without what stands in parentheses

elapsed() {
    echo "$(($(date +%s) - began_s)) s"
}

display=plain
if [ -t 1 ]; then
    case "${MAKEFLAGS:-}" in
        *-j*) ;; # steps side by side would overwrite each other's line
        *) display=live ;;
    esac
    columns=$(stty size 2>/dev/null </dev/tty)
    columns=${columns#* }
    [ "${columns:-0}" -gt 20 ] || columns=80
fi

# show_progress PID: until process PID, this script, is gone; a line a second on a terminal, else one a minute.
show_progress() {
    ticks=0
    while sleep 1 >/dev/null 2>&1 && kill -0 "$1" 2>/dev/null; do
        ticks=$((ticks + 1))
        if [ $display = live ]; then
            doing=$(tail -c 500 "$log" | tr '\r\t' '\n ' | tail -n 1)
            printf "\r\033[K%.$((columns - 1))s" "$step: $(elapsed)  $doing"
        elif [ $((ticks % 60)) = 0 ]; then
            echo "$step: $(elapsed) so far"
        fi
    done
}

stop_progress() {
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    [ $display = plain ] || printf '\r\033[K'
}

[ $display = live ] || echo "$words"
: >"$log"
show_progress $$ &
watcher=$!
trap 'stop_progress; exit 130' INT TERM # set after the fork: a watcher that inherited it could miss its own TERM
# In the foreground: Ctrl-C would not reach it in the background.
"$@" >"$log" 2>&1
status=$?
stop_progress
if [ $status != 0 ]; then
    echo "$step: failed after $(elapsed) with exit status $status" >&2
    tail -n 30 "$log" | sed 's/^/    /' >&2
    echo "$step: failed; the whole log is $log" >&2
elif [ $display = live ] || [ $(($(date +%s) - began_s)) -ge 10 ]; then
    echo "$step: done after $(elapsed)"
fi
exit $status
