#!/bin/sh
set -e
# "remove" of dpkg and 0 of rpm; an upgrade stops nothing.
case "$1" in
  remove | 0) if [ -d /run/systemd/system ]; then systemctl disable --now sallyport-controller sallyport-router sallyport-tunnel; fi ;;
esac
