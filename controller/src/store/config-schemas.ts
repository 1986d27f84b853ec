/**
 * JSON schemas of the built-in config types (docs/protocol/configs.md). Consoles build forms from them, so they have the form of OpenZiti's:
 * `definitions`, and `allOf` for lists. Databases keep a copy: a change here needs a migration such as `0013_config_schemas`.
 */

type Schema = Readonly<Record<string, unknown>>;

const ref = (name: string): Schema => ({ $ref: `#/definitions/${name}` });
/** A list without repetition that is not empty. */
const setOf = (name: string): Schema => ({ allOf: [ref("inhabitedSet"), { items: ref(name) }] });
const record = (properties: Schema, required: readonly string[] = []): Schema => ({
  type: "object",
  properties,
  ...(required.length === 0 ? {} : { required }),
  additionalProperties: false,
});

const portNumber = { type: "integer", minimum: 0, maximum: 65535 };
const text = { type: "string" };
const hostname = { type: "string", format: "idn-hostname", not: { pattern: "^$" } };

const checkDefinitions = {
  duration: { type: "string", pattern: "[0-9]+(h|m|s|ms)" },
  method: { type: "string", enum: ["GET", "POST", "PUT", "PATCH"] },
  action: record(
    {
      trigger: { type: "string", enum: ["fail", "pass", "change"] },
      consecutiveEvents: { type: "integer", minimum: 0, maximum: 65535 },
      duration: ref("duration"),
      action: {
        type: "string",
        pattern: "(mark (un)?healthy|increase cost [0-9]+|decrease cost [0-9]+|send event)",
      },
    },
    ["trigger", "action"],
  ),
  actionList: { type: "array", items: ref("action"), minItems: 1, maxItems: 20 },
  portCheck: record(
    { interval: ref("duration"), timeout: ref("duration"), address: text, actions: ref("actionList") },
    ["interval", "timeout", "address"],
  ),
  httpCheck: record(
    {
      url: text,
      method: ref("method"),
      body: text,
      interval: ref("duration"),
      timeout: ref("duration"),
      actions: ref("actionList"),
      expectStatus: { type: "integer", minimum: 100, maximum: 599 },
      expectInBody: text,
    },
    ["interval", "timeout", "url"],
  ),
  portCheckList: { type: "array", items: ref("portCheck") },
  httpCheckList: { type: "array", items: ref("httpCheck") },
};
const checks = { portChecks: ref("portCheckList"), httpChecks: ref("httpCheckList") };

const translation = (format: "ipv4" | "ipv6", bits: number): Schema =>
  record({
    from: { type: "string", format },
    to: { type: "string", format },
    prefixLength: { type: "integer", minimum: 0, maximum: bits },
  });

const tunnelDefinitions = {
  dialAddress: hostname,
  listenAddress: hostname,
  inhabitedSet: { type: "array", minItems: 1, uniqueItems: true },
  portNumber,
  portRange: record({ low: ref("portNumber"), high: ref("portNumber") }, ["low", "high"]),
  protocolName: { type: "string", enum: ["tcp", "udp"] },
  timeoutSeconds: { type: "integer", minimum: 0, maximum: 2147483647 },
  proxyType: { type: "string", enum: ["http"] },
  proxyConfiguration: {
    type: "object",
    required: ["type", "address"],
    properties: { type: ref("proxyType"), address: text },
  },
  ipv4AddressTranslation: translation("ipv4", 32),
  ipv6AddressTranslation: translation("ipv6", 128),
  addressTranslation: { oneOf: [ref("ipv4AddressTranslation"), ref("ipv6AddressTranslation")] },
};
const hostDefinitions = { ...checkDefinitions, ...tunnelDefinitions };

const yes = { type: "boolean", enum: [true] };
/** With `forward`, what may be asked for has to be named; without it, the one value. */
const fixedUnlessForwarded = (value: string, forward: string, allowed: string): Schema => ({
  if: { properties: { [forward]: { const: true } }, required: [forward] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON schema
  then: { required: [allowed] },
  else: { required: [value] },
});

const listenOptions = record({
  connectTimeoutSeconds: { ...ref("timeoutSeconds"), deprecated: true },
  connectTimeout: ref("duration"),
  maxConnections: { type: "integer", minimum: 1 },
  identity: text,
  bindUsingEdgeIdentity: { type: "boolean" },
  cost: { type: "integer", minimum: 0, maximum: 65535 },
  precedence: { type: "string", enum: ["default", "required", "failed"] },
});
const dialOptions = record({ identity: text, connectTimeoutSeconds: ref("timeoutSeconds") });

const hostTerminator = {
  ...record({
    ...checks,
    protocol: ref("protocolName"),
    forwardProtocol: yes,
    allowedProtocols: setOf("protocolName"),
    address: ref("dialAddress"),
    forwardAddress: yes,
    allowedAddresses: setOf("listenAddress"),
    forwardAddressTranslations: setOf("addressTranslation"),
    port: ref("portNumber"),
    forwardPort: yes,
    allowedPortRanges: setOf("portRange"),
    allowedSourceAddresses: setOf("listenAddress"),
    listenOptions,
    proxy: ref("proxyConfiguration"),
  }),
  allOf: [
    fixedUnlessForwarded("protocol", "forwardProtocol", "allowedProtocols"),
    fixedUnlessForwarded("address", "forwardAddress", "allowedAddresses"),
    fixedUnlessForwarded("port", "forwardPort", "allowedPortRanges"),
  ],
};

export const interceptV1 = {
  $id: "http://edge.openziti.org/schemas/intercept.v1.config.json",
  definitions: tunnelDefinitions,
  ...record(
    {
      protocols: setOf("protocolName"),
      addresses: setOf("listenAddress"),
      portRanges: setOf("portRange"),
      dialOptions,
      sourceIp: text,
      allowedSourceAddresses: setOf("listenAddress"),
    },
    ["protocols", "addresses", "portRanges"],
  ),
};

export const hostV1 = {
  $id: "http://ziti-edge.netfoundry.io/schemas/host.v1.schema.json",
  definitions: hostDefinitions,
  ...hostTerminator,
};

export const hostV2 = {
  $id: "http://ziti-edge.netfoundry.io/schemas/host.v2.schema.json",
  definitions: {
    ...hostDefinitions,
    terminator: hostTerminator,
    terminatorList: { type: "array", minItems: 1, items: ref("terminator") },
  },
  ...record({ terminators: ref("terminatorList") }, ["terminators"]),
};

export const tunnelerClientV1 = {
  $id: "http://edge.openziti.org/schemas/ziti-tunneler-client.v1.config.json",
  ...record({ hostname: text, port: portNumber }, ["hostname", "port"]),
};

export const tunnelerServerV1 = {
  $id: "http://edge.openziti.org/schemas/ziti-tunneler-server.v1.config.json",
  definitions: checkDefinitions,
  ...record(
    { protocol: { type: ["string", "null"], enum: ["tcp", "udp"] }, hostname: text, port: portNumber, ...checks },
    ["hostname", "port"],
  ),
};

const interfaceNames = record({ interfaces: { type: "array", items: text } }, ["interfaces"]);

export const interfacesV1 = {
  $id: "https://netfoundry.io/schemas/interfaces.v1.config.json",
  ...interfaceNames,
};

export const hostInterfacesV1 = {
  $id: "https://netfoundry.io/schemas/host-interfaces.v1.config.json",
  ...interfaceNames,
};

export const proxyV1 = {
  $id: "https://netfoundry.io/schemas/proxy.v1.config.json",
  definitions: { protocol: tunnelDefinitions.protocolName },
  ...record(
    {
      port: { type: "number", minimum: 1, maximum: 65535 },
      protocols: { type: "array", minItems: 1, items: ref("protocol") },
      binding: text,
    },
    ["port", "protocols"],
  ),
};

/** Frames of Ethernet through a service, at the hosting side: `bridgeIfs` are joined with the tunneler's own interface. */
export const l2HostV1 = {
  $id: "https://ziti-edge.netfoundry.io/schemas/l2.host.v1.schema.json",
  definitions: hostDefinitions,
  ...record({ listenOptions, bridgeIfs: { allOf: [ref("inhabitedSet"), { items: text }] } }),
};

/** At the dialling side: frames whose type is not named are dropped. */
export const l2InterceptV1 = {
  $id: "https://ziti-edge.netfoundry.io/schemas/l2.intercept.v1.schema.json",
  definitions: { ...tunnelDefinitions, ethType: { type: "string", pattern: "^0[xX][0-9a-fA-F]{4}$" } },
  ...record({ dialOptions, ethTypes: setOf("ethType") }, ["ethTypes"]),
};

const atLeast = (minimum: number, maximum?: number): Schema => ({
  type: "integer",
  minimum,
  ...(maximum === undefined ? {} : { maximum }),
});
const named = { type: "string", minLength: 1 };

const linkDefinitions = {
  duration: { type: "string", pattern: "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$" },
  groups: { oneOf: [text, { type: "array", items: text }] },
  channelOptions: record({
    outQueueSize: atLeast(0),
    maxQueuedConnects: atLeast(0, 5_000),
    maxOutstandingConnects: atLeast(1, 1_000),
    connectTimeout: ref("duration"),
    writeTimeout: ref("duration"),
  }),
  backoff: record({
    retryBackoffFactor: { type: "number", minimum: 1, maximum: 100 },
    minRetryInterval: ref("duration"),
    maxRetryInterval: ref("duration"),
  }),
  listener: record(
    {
      binding: { ...named, default: "transport" },
      bind: named,
      advertise: text,
      bindInterface: text,
      groups: ref("groups"),
      options: ref("channelOptions"),
    },
    ["bind"],
  ),
  dialer: record({
    binding: { ...named, default: "transport" },
    maxDefaultConnections: atLeast(1, 100),
    maxAckConnections: atLeast(0, 100),
    startupDelay: ref("duration"),
    bindInterface: text,
    groups: ref("groups"),
    healthyDialBackoff: ref("backoff"),
    unhealthyDialBackoff: ref("backoff"),
    options: ref("channelOptions"),
  }),
  heartbeats: record({
    sendInterval: ref("duration"),
    checkInterval: ref("duration"),
    closeUnresponsiveTimeout: ref("duration"),
  }),
};

/** The links of a router: what its file says below `link`, from the controller. `gcMode`: which links end when their listener or dialer changes. */
export const routerLinkV1 = {
  $id: "https://netfoundry.io/schemas/router.link.v1.config.json",
  definitions: linkDefinitions,
  ...record({
    listeners: { type: "array", items: ref("listener") },
    dialers: { type: "array", items: ref("dialer") },
    heartbeats: ref("heartbeats"),
    payloadSenderQueueSize: atLeast(1),
    ackSenderQueueSize: atLeast(1),
    gcMode: { type: "string", enum: ["preserve", "orphaned", "changed"], default: "preserve" },
  }),
};
