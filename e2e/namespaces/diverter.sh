#!/bin/sh
# A diverter as docs/tunnel/interception.md describes it, that works by nft. Beside itself it writes down its calls (.calls),
# and it refuses those that match a pattern (.refuses).
echo "$*" >>"$0.calls"
if [ -s "$0.refuses" ] && echo "$*" | grep -q -e "$(cat "$0.refuses")"; then
  echo "no room in the table" >&2
  exit 3
fi
what=$1
shift
[ "$what" = -V ] && exit 0
while [ $# -gt 1 ]; do
  case $1 in
  -c) to=$2 ;;
  -m) to=$to/$2 ;;
  -o) from=$2 ;;
  -n) from=$from/$2 ;;
  -p) protocol=$2 ;;
  -l) ports=$2 ;;
  -h) [ "$2" = "$ports" ] || ports=$ports-$2 ;;
  -t) listener=$2 ;;
  esac
  shift 2
done
entry="$to $from $protocol $ports"
if [ "$what" = -I ]; then
  nft -f - <<RULES
table ip diverted {
  chain pre {
    type filter hook prerouting priority mangle; policy accept;
    ip saddr $from ip daddr $to $protocol dport $ports tproxy to 127.0.0.1:$listener accept comment "$entry"
  }
}
RULES
else
  handle=$(nft -a list chain ip diverted pre | sed -n "s|.* comment \"$entry\" # handle ||p")
  nft delete rule ip diverted pre handle "$handle"
fi
