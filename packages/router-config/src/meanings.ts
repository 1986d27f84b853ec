/**
 * What each key of the file is for, one sentence each, by its name on the reference page. Keys that are the same in
 * several places stand here once: see `sharedName`.
 */
export const meanings: Readonly<Record<string, string>> = {
  v: "Version of the file's format.",

  "identity.cert": "Client certificate with its chain; its common name is the router's id.",
  "identity.key": "Private key of `cert`, and of every server certificate without one of its own.",
  "identity.server_cert": "What the router's listeners present; it needs one to listen.",
  "identity.server_key": "Private key of `server_cert`, when it is not `key`.",
  "identity.ca": "Authorities by which controllers, routers and SDKs are trusted.",
  "identity.alt_server_certs[].server_cert": "Further certificate, presented to clients that ask for one of its names.",
  "identity.alt_server_certs[].server_key": "Private key of it, when it is not `key`.",

  "ctrl.endpoint": "Where a controller is dialled; wins over `endpoints`.",
  "ctrl.endpoints[]": "Where the controllers of a cluster are dialled; what they announce later replaces the list.",
  "ctrl.bind": "From where controllers are dialled, on a machine with several addresses.",
  "ctrl.defaultRequestTimeout": "How long an answer of a controller is waited for.",
  "ctrl.heartbeats.unresponsiveAfter":
    "A controller whose last heartbeat took longer is asked only when there is no other.",
  "ctrl.startupTimeout": "The program ends when it has reached no controller after this time; 0s: it waits for ever.",
  "ctrl.endpointsFile":
    "Where the announced addresses of the controllers are remembered; `endpoints.yml` beside this file when left out.",
  "ctrl.rateLimiter.enabled": "Whether requests for terminators that are on their way at a time are limited.",
  "ctrl.rateLimiter.maxSize": "Most of them, and the number at the start.",
  "ctrl.rateLimiter.minSize": "Fewest of them, however busy the controllers are.",
  "ctrl.rateLimiter.successThreshold": "Share of the requests that must succeed for the number to grow.",
  "ctrl.rateLimiter.increaseFactor": "By what it grows then.",
  "ctrl.rateLimiter.decreaseFactor": "By what it shrinks when controllers are busy or silent.",
  "ctrl.rateLimiter.increaseCheckInterval": "Successes between two looks whether it should grow.",
  "ctrl.rateLimiter.decreaseCheckInterval": "Failures between two looks whether it should shrink.",

  "csr.country": "Country in the subject of the certificates that are asked for.",
  "csr.province": "State or province in their subject.",
  "csr.locality": "Place in their subject.",
  "csr.organization": "Organization in their subject.",
  "csr.organizationalUnit": "Part of the organization in their subject.",
  "csr.sans.dns":
    "Host names that the certificates are asked to be valid for; all that is advertised must be among them.",
  "csr.sans.ip[]": "IP addresses that they are asked to be valid for.",
  "csr.sans.uri[]": "URIs that they are asked to name.",
  "csr.sans.email": "Mail addresses that they are asked to name.",

  "edge.heartbeatIntervalSeconds":
    "How often the controllers are told which API sessions are in use; outside of 10 to 60 it counts as 60.",
  "edge.sessionValidateChunkSize": "Session tokens in one question to a controller after a reconnect.",
  "edge.sessionValidateMinInterval": "Shortest pause between two such questions.",
  "edge.sessionValidateMaxInterval": "Longest pause between them.",
  "edge.apiProxy.listener": "Where the controller's API is offered to clients that reach only this router.",
  "edge.apiProxy.upstream": "The controller's API, where their requests are passed on to.",

  "link.listeners[].binding": "Kind of the listener.",
  "link.listeners[].bind": "Where other routers are listened for.",
  "link.listeners[].address": "The same as `bind`, which wins.",
  "link.listeners[].advertise": "What other routers are told to dial; as `bind` when left out and that names one host.",
  "link.listeners[].options.advertise": "The same as `advertise` beside `options`, which wins.",
  "link.listeners[].groups": "Groups of the listener; it is dialled by dialers that have one of them, too.",
  "link.listeners[].costTags": "Texts that the controllers are told with the listener.",
  "link.listeners[].bindInterface":
    "Interface that the controllers are told with the listener, when not that of `bind`.",
  "link.dialers[].binding": "Kind of the dialer.",
  "link.dialers[].split": "Whether payloads and acknowledgements of a link get connections of their own.",
  "link.dialers[].bind": "From where other routers are dialled, on a machine with several addresses.",
  "link.dialers[].groups": "Groups of the dialer; it dials listeners that have one of them, too.",
  "link.dialers[].maxDefaultConnections": "Connections for payloads in one link, to routers that take several.",
  "link.dialers[].maxAckConnections": "Connections for acknowledgements in one link.",
  "link.dialers[].startupDelay": "How long after a link was made its further connections are dialled.",
  "link.dialers[].healthyDialBackoff.minRetryInterval":
    "First pause after a failed dial to a router that a controller calls online.",
  "link.dialers[].healthyDialBackoff.maxRetryInterval": "Longest pause between such dials.",
  "link.dialers[].healthyDialBackoff.retryBackoffFactor": "By what the pause grows with each of them that fails.",
  "link.dialers[].unhealthyDialBackoff.minRetryInterval":
    "First pause after a failed dial to a router that is not online.",
  "link.dialers[].unhealthyDialBackoff.maxRetryInterval": "Longest pause between such dials.",
  "link.dialers[].unhealthyDialBackoff.retryBackoffFactor": "By what the pause grows with each of them that fails.",

  "channel.outQueueSize":
    "How much may wait for a peer that does not read: the standard stands for 64 MiB, half of it for half as much, 17 MiB at least; 4 counts as the standard.",
  "channel.maxQueuedConnects":
    "With `maxOutstandingConnects`: connections of a listener that may be in their hello, half of them from one address; beyond that the oldest that has sent none is closed.",
  "channel.maxOutstandingConnects": "See `maxQueuedConnects`.",
  "channel.connectTimeoutMs": "How long making a connection may take, its hello included.",
  "channel.writeTimeout": "A peer that takes nothing of what waits for it for so long is cut off.",

  "heartbeats.sendInterval": "How often a heartbeat is sent.",
  "heartbeats.checkInterval": "How often it is looked whether one is due or missing.",
  "heartbeats.closeUnresponsiveTimeout":
    "A channel, or one connection of a link, without an answer for so long is closed and dialled again.",

  "dialers[].binding":
    "What may be reached: `transport`, `transport_udp` (targets of services), `edge` (what SDKs host), `tunnel`.",
  "dialers[].bind": "From where targets are reached, on a machine with several addresses.",

  "listeners[].address": "Where clients are listened for.",
  "listeners[].bind": "The same as `address`, which wins.",
  "listeners[edge].advertise": "What SDKs are told to dial, where `options.advertise` is left out.",
  "listeners[edge].options.advertise": "What SDKs are told to dial.",
  "listeners[edge].options.lookupApiSessionTimeout":
    "How long an SDK waits that connects before the controllers have announced its session.",
  "listeners[edge].options.workers":
    "Threads that do the TLS of this listener's connections; 0: the router's only thread. Its address is then its own, of this machine alone.",
  "listeners[tunnel].options.mode":
    "`host`: services are only offered; `proxy`: they are reached at ports of this machine; `tproxy`: at their own addresses.",
  "listeners[tunnel].options.resolver":
    "Where names of services are answered for `tproxy`, perhaps with `?upstream=` for all others; empty: nowhere.",
  "listeners[tunnel].options.dnsSvcIpRange": "Addresses that names of services get.",
  "listeners[tunnel].options.services[]": "Services of `proxy` mode, each with its port on this machine.",
  "listeners[tunnel].options.lanIf": "Interface whose clients are served by `tproxy`, too.",
  "listeners[tunnel].options.svcPollRate": "How often services are asked for at a controller without the data model.",
  "listeners[tunnel].options.udpIdleTimeout":
    "A UDP flow ends after this much silence; below 5s counts as the default.",
  "listeners[tunnel].options.udpCheckInterval":
    "How often silent flows are looked for; below 1s counts as the default.",
  "listeners[].service": "The service that every client is taken to.",

  "forwarder.faultTxInterval": "How often payloads without a way are reported to controllers; 0: never.",
  "forwarder.idleCircuitTimeout": "A circuit without traffic for so long is put to its controller for confirmation.",
  "forwarder.idleTxInterval": "How often such circuits are looked for; 0: never.",
  "forwarder.linkDialQueueLength": "Dials to other routers that may wait for a worker.",
  "forwarder.linkDialWorkerCount": "Dials to other routers at a time.",
  "forwarder.rateLimitedQueueLength": "Requests for terminators that may wait for a worker.",
  "forwarder.rateLimitedWorkerCount": "Requests for terminators on their way at a time.",
  "forwarder.xgressCloseCheckInterval": "A circuit that is to end when it is quiet ends after this much silence.",
  "forwarder.xgressDialDwellTime": "Pause before each dial to a service, for tests.",
  "forwarder.xgressDialQueueLength": "Dials to services that may wait for a worker.",
  "forwarder.xgressDialWorkerCount": "Dials to services at a time.",
  "forwarder.circuitMemory":
    "Memory for payloads of the circuits that end in this router, all together: in flight, and waiting for readers, who get half. A router of another make takes no notice of it.",

  "metrics.reportInterval": "How often controllers get metrics and usage.",
  "metrics.messageQueueSize": "Reports that may wait for a controller.",
  "metrics.intervalAgeThreshold": "Age at which the usage of an interval is sent, once that is over.",
  "metrics.eventQueueSize": "Ended circuits whose usage may wait for the next report.",
  "metrics.enableDataDelayMetric": "Whether it is measured how long data of SDKs waits in the router.",

  "healthChecks.ctrlPingCheck.interval": "How often it is looked whether a controller is connected and answers.",
  "healthChecks.ctrlPingCheck.timeout": "How long that may take.",
  "healthChecks.ctrlPingCheck.initialDelay": "When it is looked first.",
  "healthChecks.linkCheck.interval": "How often links are counted.",
  "healthChecks.linkCheck.initialDelay": "When they are counted first.",
  "healthChecks.linkCheck.minLinks": "With fewer links the router calls itself unhealthy.",

  "web[].name": "Name of the HTTP server in logs.",
  "web[].apis[].binding": "What it serves: health checks, or metrics for Prometheus.",
  "web[].bindPoints[].interface": "Where it listens.",
  "web[].bindPoints[].address": "How clients name it.",
  "web[].bindPoints[].newAddress": "Address that clients are told to use from now on, in a header of each answer.",
  "web[].options.readTimeout": "How long reading a request may take.",
  "web[].options.writeTimeout": "How long writing an answer may take.",
  "web[].options.idleTimeout": "How long a connection may wait for its next request.",
  "web[].options.minTLSVersion": "Oldest version of TLS that is spoken; nothing before 1.2 is spoken in any case.",
  "web[].options.maxTLSVersion": "Newest version of TLS that is spoken.",

  "trace.path": "File that gets every message of every channel, for debugging.",
  "profile.cpu.path": "File that gets a CPU profile from start to stop.",
  "profile.memory.path": "File that gets heap profiles; each replaces the one before.",
  "profile.memory.intervalMs": "How often a heap profile is written.",

  "transport.wss.handshakeTimeout": "Seconds in which an SDK's web socket must be open, TLS inside included.",
  "transport.wss.pongTimeout": "Seconds that a ping may stay without an answer before the web socket is closed.",
  "transport.wss.pingInterval": "Seconds between pings.",

  "tls.handshakeTimeout": "How long a TLS handshake with this router may take.",

  "connectEvents.enabled": "Whether controllers are told which identities are connected.",
  "connectEvents.batchInterval": "How long changes are collected for one report; from 250ms to 10m.",
  "connectEvents.fullSyncInterval": "How often everything is told again; below 250ms counts as 1s, above 10m as 24h.",

  "interfaceDiscovery.disabled": "Whether controllers are not told of this machine's network interfaces.",
  "interfaceDiscovery.checkInterval": "How often these are looked at; a change is told at once.",
  "interfaceDiscovery.minReportInterval": "How often they are told without a change.",

  "proxy.type": "`http`: controllers and other routers are dialled through an HTTP proxy (CONNECT); `none`: directly.",
  "proxy.address": "Where the proxy is.",
  "proxy.username": "Name of the router at the proxy, where it wants one.",
  "proxy.password": "Password for that.",

  "shutdown.drainTimeout": "How long circuits may go on after a signal to stop; 0s: not at all.",

  enableDebugOps:
    "Whether operators may have this router close links and controllers' channels, and list its sessions.",

  mtu: "Most bytes of one payload from a stream; 0: as many as fit well.",
  txPortalStartSize: "Bytes that may be sent before they are acknowledged, at the start of a circuit.",
  txPortalMinSize: "The same at least, however much is lost.",
  txPortalMaxSize: "The same at most.",
  txPortalIncreaseThresh: "Acknowledged payloads after which more may be sent.",
  txPortalIncreaseScale: "How much more, as a share of what was acknowledged meanwhile.",
  txPortalRetxThresh: "Retransmissions after which less may be sent.",
  txPortalRetxScale: "To what share of before.",
  txPortalDupAckThresh: "Needless retransmissions after which retransmission becomes more patient.",
  rxBufferSize: "Bytes that may wait for the local side before payloads are refused.",
  retxStartMs: "When a payload is sent again while no round trip was measured.",
  retxScale: "How many round trips an acknowledgement may take before a payload is sent again.",
  retxAddMs: "What is added to that.",
  retxMaxMs: "Longest wait before a payload is sent again.",
  maxRttScale: "How much longer than the last one a round trip may count; 0: no limit.",
  maxCloseWaitMs: "How long a circuit that was closed goes on to deliver what was sent.",
  getCircuitTimeout: "How long a dial may take; a tunneler asks the service's config instead.",
  circuitStartTimeout: "A circuit whose other end sends nothing at its start ends after this; a second or less: never.",
  connectTimeout: "How long connecting to a service's target may take; 0s: as long as the dial.",
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
