#!/bin/sh
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers sallyport.conf
  systemd-tmpfiles --create sallyport.conf
elif ! getent passwd sallyport >/dev/null; then
  useradd --system --home-dir /var/lib/sallyport-controller --shell /usr/sbin/nologin sallyport
  for name in controller router tunnel; do install -d -m 0700 -o sallyport -g sallyport /var/lib/sallyport-$name; done
fi
# What runs goes on with the version before until it is restarted: the order is the administrator's (docs/releases.md).
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
