/**
 * Defaults of a tunneler, for the `tunnel` listener of a router, the library and the program `sallyport-tunnel`. They stand
 * in a file of their own without imports, so that a tunneler does not load the schema of a router.
 */
export const TUNNEL_DEFAULTS = {
  /** Where names of services are resolved. */
  resolver: "udp://127.0.0.1:53",
  /** Addresses for those names. */
  dnsSvcIpRange: "100.64.0.1/10",
  /** How often the controller is asked for changes of services. */
  servicePollMs: 15_000,
  /** After so long without a datagram a UDP client is forgotten; less than the minimum counts as the default. */
  udpIdleTimeoutMs: 300_000,
  minUdpIdleTimeoutMs: 5_000,
  /** How often silent UDP clients are looked for; less than the minimum counts as the default. */
  udpCheckIntervalMs: 30_000,
  minUdpCheckIntervalMs: 1_000,
} as const;
