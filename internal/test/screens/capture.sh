#!/bin/sh
# capture.sh PROGRAM FOLDER WIDTH HEIGHT [COLORS]
#
# Runs the program in tmux in a window of that size, and writes what a person sees to FOLDER/NAME.txt: a first backup while
# it runs and when it has ended, one of an unchanged tree, one that is resized, one that yields, an error, and the help.
# The screens of jobs that have ended include the scrollback. With COLORS the files have the escape sequences.
set -eu
program=$1 out=$2 width=$3 height=$4 colors=${5:+-e}
work=$(mktemp -d)
t() { tmux -L "screens-$$" -f /dev/null "$@"; }
trap 't kill-server 2>/dev/null || :; sleep 1; rm -rf "$work" 2>/dev/null || { sleep 4; rm -rf "$work" || :; }' EXIT
mkdir -p "$out" "$work/bin" "$work/home" "$work/run" "$work/documents"
chmod 700 "$work/run"
ln -s "$program" "$work/bin/tidemark"
i=0
while [ $i -lt 20 ]; do
	seq "${i}000000" "${i}400000" >"$work/documents/table $i.csv"
	i=$((i + 1))
done

t new-session -d -s keep sleep 1000 # without a session the server exits

# screen NAME: an empty window.
screen() {
	t kill-session -t s 2>/dev/null || :
	t new-session -d -s s -x "$width" -y "$height" "cd '$work' && exec env -u NO_COLOR -u TIDEMARK_REPOSITORY HOME='$work/home' \
		XDG_RUNTIME_DIR='$work/run' PATH='$work/bin':/usr/bin:/bin PS1='\$ ' ENV= sh"
	name=$1
}

# run COMMAND: types it.
run() { t send-keys -t s -l "$1" && t send-keys -t s Enter; }

# shown: what there is, with the scrollback.
shown() { t capture-pane -p -t s -S -; }

# await PATTERN: until it is there, at most two minutes.
await() {
	n=0
	until shown | grep -Eq "$1"; do
		n=$((n + 1))
		if [ $n -gt 600 ]; then
			echo "$name: no $1 in:" >&2
			shown >&2
			exit 1
		fi
		sleep 0.2
	done
}

# keep NAME [-S -]: writes a screen.
keep() {
	file=$out/$1.txt
	shift
	t capture-pane -p $colors -t s "$@" >"$file"
}

# slow makes a backup of these few files take some seconds, on a fast machine and on a slow one.
slow='--policy important --limit-upload 120K'

screen first
run "tidemark init >/dev/null 2>&1; clear; tidemark backup $slow documents"
await ' left, 00:0'
sleep 1
keep first-running
await '^snapshot .* saved'
sleep 1
keep first -S -

screen unchanged
run "clear; tidemark backup $slow documents"
await '^snapshot .* saved'
sleep 1
keep unchanged -S -

# The screen is full: where it is empty, tmux moves the first line of a frame to the scrollback while it wraps others.
screen resized
run "tidemark init --repo other >/dev/null 2>&1; seq 60; tidemark backup $slow --repo other documents"
await ' left, 00:0'
t resize-window -t s -x $((width * 5 / 8)) -y $((height - 4))
sleep 1
keep resized-running
t resize-window -t s -x "$width" -y "$height"
await '^snapshot .* saved'
sleep 1
keep resized -S -

# Another backup with precedence uses the same disk.
screen yielding
run "tidemark init --repo third >/dev/null 2>&1; clear; while tidemark backup --force -q --policy standard --repo other documents
	do :; done >/dev/null 2>&1 & tidemark backup --policy throttle --repo third documents"
n=0
until keep yielding && grep -q 'to go faster now' "$out/yielding.txt"; do # it comes and goes with the other one's I/O
	n=$((n + 1))
	[ $n -lt 600 ] || exit 1
	sleep 0.1
done
run ''
t send-keys -t s C-c

screen error
run 'clear; tidemark backup nosuch; tidemark restore latest --repo nowhere --target .'
await '(there|here); make one|no repository'
sleep 1
keep error -S -

screen help
run 'clear; tidemark backup --help'
sleep 2
keep help -S -
