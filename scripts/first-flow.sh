#!/bin/bash
# From an installed package to the first split flow, seen in `top` and on the page: six commands, and the way back.
# The tests run it in namespaces. On a router: sudo ACCESS=wlan0 WAN=eth0 bash first-flow.sh
set -eu
ACCESS=${ACCESS:?the interface toward the bad link, such as wlan0}
WAN=${WAN:?the interface toward the rest of the world, such as eth0}
SHORTHAUL=${SHORTHAUL:-shorthaul}
RUN_DIR=${RUN_DIR:-/run/shorthaul}
FOLDER=${FOLDER:-$(mktemp -d)}
TMUX_PROGRAM=${TMUX:-tmux}
unset TMUX
screen() {
	"$TMUX_PROGRAM" -S "$FOLDER/first.tmux" -f /dev/null "$@"
}
state() {
	ip rule
	ip -6 rule
	ip -o link | sed 's/.*: \(.*\): <.*/\1/'
	ip route show table all
	cat /proc/sys/net/ipv4/ip_forward
}
state >"$FOLDER/before"

# 1. (the package: apt install ./shorthaul_*.deb)
# 2. Is this host ready?
"$SHORTHAUL" doctor >"$FOLDER/doctor" || cat "$FOLDER/doctor"
# 3. A configuration.
"$SHORTHAUL" config --access "$ACCESS" --wan "$WAN" --metrics >"$FOLDER/gw.toml"
# 4. What it would do.
"$SHORTHAUL" gateway --config "$FOLDER/gw.toml" --run-dir "$RUN_DIR" --check
# 5. Run it. (as a service: systemctl enable --now shorthaul-gateway@gw)
# One flow in fifty stays whole, to compare with: OPTIONS="--control-group 0" splits the first one whatever is drawn.
# shellcheck disable=SC2086
"$SHORTHAUL" gateway --config "$FOLDER/gw.toml" --run-dir "$RUN_DIR" ${OPTIONS:-} >"$FOLDER/gateway.log" 2>&1 &
gateway=$!
until grep -q '^ready' "$FOLDER/gateway.log"; do
	kill -0 $gateway 2>/dev/null || {
		cat "$FOLDER/gateway.log" >&2
		exit 1
	}
	sleep 0.1
done
echo "now open something on a host behind $ACCESS"
# 6. Look.
screen new-session -d -x 80 -y 24 "$SHORTHAUL top --run-dir $RUN_DIR"
screen send-keys 2
until screen capture-pane -p | grep -q ' > .* split '; do
	kill -0 $gateway
	sleep 0.2
done
echo "in top: $(screen capture-pane -p | grep -m1 ' > .* split ')"
screen kill-server
exec 3<>/dev/tcp/127.0.0.1/7090
printf 'GET /flows.json?q=split HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
echo "on the page: $(grep -o '"client":"[^"]*","server":"[^"]*"' <&3 | head -1)"
exec 3>&-

# And back.
kill $gateway
wait $gateway
"$SHORTHAUL" gateway --config "$FOLDER/gw.toml" --run-dir "$RUN_DIR" --remove
state >"$FOLDER/after"
diff "$FOLDER/before" "$FOLDER/after"
echo "removed without a trace"
