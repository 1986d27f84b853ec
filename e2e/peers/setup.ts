import { install } from "./install.ts";

/** The peer's programs; without them its suites are skipped. */
export function setup(): void {
  install("the suites with the peer", {
    ziti: "SALLYPORT_PEER",
    "ziti-unversioned": "SALLYPORT_PEER_UNVERSIONED",
    "posture-client": "SALLYPORT_PEER_POSTURE_CLIENT",
    "link-relay": "SALLYPORT_PEER_LINK_RELAY",
  });
}
