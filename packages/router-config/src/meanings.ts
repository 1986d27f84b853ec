/**
 * What each key of the file is for, one sentence each, by its name on the reference page. Keys that are the same in
 * several places stand here once: see `sharedName`.
 */
export const meanings: Readonly<Record<string, string>> = {
  v: "Version of the file's format.",

  "identity.cert": "Client certificate with its chain; its common name is the router's id.",
  "identity.key": "Private key of `cert`, and of every server certificate without one of its own.",
  "identity.server_cert": "Certificate of the router's listeners; required to listen.",
  "identity.server_key": "Private key of `server_cert`, if it differs from `key`.",
  "identity.ca": "Authorities that verify controllers, routers and SDKs.",
  "identity.alt_server_certs[].server_cert":
    "Additional certificate, presented to clients that request one of its names.",
  "identity.alt_server_certs[].server_key": "Private key of this certificate, if it differs from `key`.",

  "ctrl.endpoint": "Address of a controller; takes precedence over `endpoints`.",
  "ctrl.endpoints[]": "Addresses of the controllers of a cluster; addresses that they announce later replace the list.",
  "ctrl.bind": "Local interface or address for dialling controllers, on a machine with several addresses.",
  "ctrl.defaultRequestTimeout": "How long the router waits for an answer of a controller.",
  "ctrl.heartbeats.unresponsiveAfter":
    "If a controller's last heartbeat took longer, the router uses it only if there is no other.",
  "ctrl.startupTimeout": "The program ends if it has reached no controller within this time; 0s: it waits forever.",
  "ctrl.endpointsFile":
    "File for the announced addresses of the controllers. Default: `endpoints.yml` beside this file.",
  "ctrl.rateLimiter.enabled": "Whether to limit the requests for terminators in flight.",
  "ctrl.rateLimiter.maxSize": "Maximum limit, and the limit at the start.",
  "ctrl.rateLimiter.minSize": "Minimum limit, however busy the controllers are.",
  "ctrl.rateLimiter.successThreshold": "Share of the requests that must succeed for the limit to grow.",
  "ctrl.rateLimiter.increaseFactor": "Factor by which the limit grows.",
  "ctrl.rateLimiter.decreaseFactor": "Factor by which the limit shrinks if controllers are busy or silent.",
  "ctrl.rateLimiter.increaseCheckInterval": "Successes between two checks whether the limit should grow.",
  "ctrl.rateLimiter.decreaseCheckInterval": "Failures between two checks whether the limit should shrink.",

  "csr.country": "Country in the subject of the requested certificates.",
  "csr.province": "State or province in the subject.",
  "csr.locality": "Locality in the subject.",
  "csr.organization": "Organization in the subject.",
  "csr.organizationalUnit": "Organizational unit in the subject.",
  "csr.sans.dns": "Host names in the requested certificates; they must include all advertised hosts.",
  "csr.sans.ip[]": "IP addresses in the requested certificates.",
  "csr.sans.uri[]": "URIs in the requested certificates.",
  "csr.sans.email": "Mail addresses in the requested certificates.",

  "edge.heartbeatIntervalSeconds":
    "How often the router reports the API sessions in use; a value outside 10 to 60 counts as 60.",
  "edge.sessionValidateChunkSize": "Session tokens in one request to a controller after a reconnect.",
  "edge.sessionValidateMinInterval": "Minimum pause between two such requests.",
  "edge.sessionValidateMaxInterval": "Maximum pause between two such requests.",
  "edge.apiProxy.listener":
    "Address at which the router offers the controller's API to clients that reach only this router.",
  "edge.apiProxy.upstream": "Address of the controller's API, to which requests are forwarded.",

  "link.listeners[].binding": "Kind of the listener.",
  "link.listeners[].bind": "Address to listen on for other routers.",
  "link.listeners[].address": "Alias of `bind`, which takes precedence.",
  "link.listeners[].advertise": "Address that other routers dial. Default: `bind`, if it names one host.",
  "link.listeners[].options.advertise": "Alias of `advertise` beside `options`, which takes precedence.",
  "link.listeners[].groups": "Groups of the listener. Dialers that share a group dial it.",
  "link.listeners[].costTags": "Texts that the controllers get with the listener.",
  "link.listeners[].bindInterface":
    "Interface that the controllers get with the listener, if it differs from that of `bind`.",
  "link.dialers[].binding": "Kind of the dialer.",
  "link.dialers[].split": "Whether payloads and acknowledgements of a link use separate connections.",
  "link.dialers[].bind": "Local interface or address for dialling other routers, on a machine with several addresses.",
  "link.dialers[].groups": "Groups of the dialer. It dials listeners that share a group.",
  "link.dialers[].maxDefaultConnections": "Connections for payloads in one link, to routers that support several.",
  "link.dialers[].maxAckConnections": "Connections for acknowledgements in one link.",
  "link.dialers[].startupDelay": "Delay after which further connections of a new link are dialled.",
  "link.dialers[].healthyDialBackoff.minRetryInterval":
    "First pause after a failed dial to a router that a controller reports as online.",
  "link.dialers[].healthyDialBackoff.maxRetryInterval": "Maximum pause between such dials.",
  "link.dialers[].healthyDialBackoff.retryBackoffFactor": "Factor by which the pause grows with each failure.",
  "link.dialers[].unhealthyDialBackoff.minRetryInterval":
    "First pause after a failed dial to a router that is not online.",
  "link.dialers[].unhealthyDialBackoff.maxRetryInterval": "Maximum pause between such dials.",
  "link.dialers[].unhealthyDialBackoff.retryBackoffFactor": "Factor by which the pause grows with each failure.",

  "channel.outQueueSize":
    "Limit of data that waits for a peer that does not read. The default stands for 64 MiB, half of it for half as much, at least 17 MiB; 4 counts as the default.",
  "channel.maxQueuedConnects":
    "With `maxOutstandingConnects`: connections of a listener that may be in their hello, half of them from one address. Beyond that, the oldest one without a hello is closed.",
  "channel.maxOutstandingConnects": "See `maxQueuedConnects`.",
  "channel.connectTimeoutMs": "Time limit of a connection attempt, including its hello.",
  "channel.writeTimeout": "If a peer reads none of its waiting data for so long, it is disconnected.",

  "heartbeats.sendInterval": "How often a heartbeat is sent.",
  "heartbeats.checkInterval": "How often the router checks whether a heartbeat is due or missing.",
  "heartbeats.closeUnresponsiveTimeout":
    "After so long without an answer a channel, or one connection of a link, is closed and dialled again.",

  "dialers[].binding":
    "Targets that the router may dial: `transport`, `transport_udp` (addresses of services), `edge` (services that SDKs host), `tunnel`.",
  "dialers[].bind": "Local interface or address for dialling targets, on a machine with several addresses.",

  "listeners[].address": "Address to listen on for clients.",
  "listeners[].bind": "Alias of `address`, which takes precedence.",
  "listeners[edge].advertise": "Address that SDKs dial, if `options.advertise` is not set.",
  "listeners[edge].options.advertise": "Address that SDKs dial.",
  "listeners[edge].options.lookupApiSessionTimeout":
    "How long an SDK may wait until the controllers announce its session.",
  "listeners[edge].options.workers":
    "Threads that do the TLS of this listener's connections; 0: the router's main thread. With threads, the listener must not share its address.",
  "listeners[tunnel].options.mode":
    "`host`: only hosts services; `proxy`: also offers services at ports of this machine; `tproxy`: also intercepts their addresses.",
  "listeners[tunnel].options.resolver":
    "Name server for the names of services with `tproxy`, optionally with `?upstream=` for other names; empty: none.",
  "listeners[tunnel].options.dnsSvcIpRange": "Range of addresses for the names of services.",
  "listeners[tunnel].options.services[]": "Services of `proxy` mode, each with its port on this machine.",
  "listeners[tunnel].options.lanIf": "Interface whose clients `tproxy` serves, too.",
  "listeners[tunnel].options.svcPollRate":
    "How often the router asks a controller without the data model for services.",
  "listeners[tunnel].options.udpIdleTimeout":
    "A UDP flow ends after this much silence; below 5s counts as the default.",
  "listeners[tunnel].options.udpCheckInterval":
    "How often the router looks for silent flows; below 1s counts as the default.",
  "listeners[].service": "The service for every client of this listener.",

  "forwarder.faultTxInterval": "How often the router reports payloads without a route to controllers; 0: never.",
  "forwarder.idleCircuitTimeout":
    "After so long without traffic the router asks the controller whether the circuit still exists.",
  "forwarder.idleTxInterval": "How often the router looks for such circuits; 0: never.",
  "forwarder.linkDialQueueLength": "Dials to other routers that may wait for a worker.",
  "forwarder.linkDialWorkerCount": "Dials to other routers at a time.",
  "forwarder.rateLimitedQueueLength": "Requests for terminators that may wait for a worker.",
  "forwarder.rateLimitedWorkerCount": "Requests for terminators in flight at a time.",
  "forwarder.xgressCloseCheckInterval": "A circuit that should end when idle ends after this much silence.",
  "forwarder.xgressDialDwellTime": "Pause before each dial to a service, for tests.",
  "forwarder.xgressDialQueueLength": "Dials to services that may wait for a worker.",
  "forwarder.xgressDialWorkerCount": "Dials to services at a time.",
  "forwarder.circuitMemory":
    "Memory for payloads of all circuits that end in this router: in flight, and waiting for readers, which get half. OpenZiti's routers ignore it.",

  "metrics.reportInterval": "How often controllers get metrics and usage.",
  "metrics.messageQueueSize": "Reports that may wait for a controller.",
  "metrics.intervalAgeThreshold": "Age at which the usage of a finished interval is sent.",
  "metrics.eventQueueSize": "Ended circuits whose usage may wait for the next report.",
  "metrics.enableDataDelayMetric": "Whether to measure how long data of SDKs waits in the router.",

  "healthChecks.ctrlPingCheck.interval": "How often the router checks whether a controller is connected and answers.",
  "healthChecks.ctrlPingCheck.timeout": "Time limit of this check.",
  "healthChecks.ctrlPingCheck.initialDelay": "Delay before the first check.",
  "healthChecks.linkCheck.interval": "How often the router counts links.",
  "healthChecks.linkCheck.initialDelay": "Delay before the first count.",
  "healthChecks.linkCheck.minLinks": "With fewer links the router reports itself as unhealthy.",

  "web[].name": "Name of the HTTP server in logs.",
  "web[].apis[].binding": "API of the server: health checks, or metrics for Prometheus.",
  "web[].bindPoints[].interface": "Address to listen on.",
  "web[].bindPoints[].address": "Address that clients use.",
  "web[].bindPoints[].newAddress": "New address that each response announces to clients in a header.",
  "web[].options.readTimeout": "Time limit for reading a request.",
  "web[].options.writeTimeout": "Time limit for writing a response.",
  "web[].options.idleTimeout": "How long a connection may wait for its next request.",
  "web[].options.minTLSVersion": "Minimum TLS version, at least 1.2.",
  "web[].options.maxTLSVersion": "Maximum TLS version.",

  "trace.path": "File that gets every message of every channel, for debugging.",
  "profile.cpu.path": "File that gets a CPU profile from start to stop.",
  "profile.memory.path": "File that gets heap profiles; each replaces the one before.",
  "profile.memory.intervalMs": "How often a heap profile is written.",

  "transport.wss.handshakeTimeout": "Seconds in which an SDK's web socket must be open, including the inner TLS.",
  "transport.wss.pongTimeout": "Seconds without an answer to a ping before the web socket is closed.",
  "transport.wss.pingInterval": "Seconds between pings.",

  "tls.handshakeTimeout": "Time limit of a TLS handshake with this router.",

  "connectEvents.enabled": "Whether the router reports the connected identities to controllers.",
  "connectEvents.batchInterval": "How long changes are collected for one report; from 250ms to 10m.",
  "connectEvents.fullSyncInterval":
    "How often the router reports all of them again; below 250ms counts as 1s, above 10m as 24h.",

  "interfaceDiscovery.disabled": "Whether to stop reporting this machine's network interfaces to controllers.",
  "interfaceDiscovery.checkInterval": "How often the router checks the interfaces; it reports a change at once.",
  "interfaceDiscovery.minReportInterval": "How often it reports them without a change.",

  "proxy.type": "`http`: dial controllers and other routers through an HTTP proxy (CONNECT); `none`: directly.",
  "proxy.address": "Address of the proxy.",
  "proxy.username": "User name for the proxy, if it requires one.",
  "proxy.password": "Password for the proxy.",

  "shutdown.drainTimeout": "How long circuits may continue after a signal to stop; 0s: not at all.",

  enableDebugOps:
    "Whether administrators may make this router close links and controllers' channels, and list its sessions.",

  mtu: "Maximum bytes of one payload from a stream; 0: the best size.",
  txPortalStartSize: "Send window in bytes at the start of a circuit.",
  txPortalMinSize: "Minimum of the send window, however much is lost.",
  txPortalMaxSize: "Maximum of the send window.",
  txPortalIncreaseThresh: "Acknowledged payloads after which the send window grows.",
  txPortalIncreaseScale: "Growth of the send window, as a share of the bytes acknowledged meanwhile.",
  txPortalRetxThresh: "Retransmissions after which the send window shrinks.",
  txPortalRetxScale: "Share to which the send window shrinks.",
  txPortalDupAckThresh: "Needless retransmissions after which the retransmission timeout grows.",
  rxBufferSize: "Bytes that may wait for the local side before payloads are refused.",
  retxStartMs: "Retransmission timeout before a round trip was measured.",
  retxScale: "Retransmission timeout in round trips.",
  retxAddMs: "Time added to this timeout.",
  retxMaxMs: "Maximum retransmission timeout.",
  maxRttScale: "Maximum of a round-trip sample, as a multiple of the last value; 0: no limit.",
  maxCloseWaitMs: "How long a closed circuit continues to deliver sent data.",
  getCircuitTimeout: "Time limit of a dial; a tunneler uses the service's config instead.",
  circuitStartTimeout:
    "A circuit ends if its other end sends nothing within this time after the start; a second or less: never.",
  connectTimeout: "Time limit for connecting to a service's target; 0s: that of the dial.",
};

const SHARED: readonly (readonly [pattern: RegExp, by: string])[] = [
  [/^(?:web\[\]|transport\.wss?)\.identity\./, "identity."],
  [/^edge\.csr\./, "csr."],
  [/^transport\.ws\./, "transport.wss."],
  [/^transport\.westworld3\..*/, "transport.westworld3"],
  [/^(?:ctrl|link)\.heartbeats\.(?!unresponsiveAfter)/, "heartbeats."],
  [
    /^(?:ctrl|link\.(?:listeners|dialers)\[\]|listeners\[edge\])\.options\.(?=(?:outQueueSize|maxQueuedConnects|maxOutstandingConnects|connectTimeoutMs|writeTimeout)$)/,
    "channel.",
  ],
  [/^listeners\[\w+\]\.(?:options\.)?(?=(?:address|bind|service)$)/, "listeners[]."],
  [/^listeners\[(?!edge)\w+\]\.(?:options\.)?(?=advertise$)/, "listeners[]."],
];

/** The name under which {@link meanings} holds a key that is the same in several places. */
export function sharedName(key: string): string {
  return SHARED.reduce((name, [pattern, by]) => name.replace(pattern, by), key);
}
