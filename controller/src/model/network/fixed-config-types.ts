/**
 * The config types that every network has, because tunnelers look for them by name. Their ids are fixed, too.
 * What the keys mean is in docs/protocol/configs.md.
 */

type Schema = Record<string, unknown>;

export interface FixedConfigType {
  readonly id: string;
  readonly name: string;
  readonly schema: Schema;
}

const port = { type: "integer", minimum: 0, maximum: 65535 };
const portRange = {
  type: "object",
  properties: { low: port, high: port },
  required: ["low", "high"],
  additionalProperties: false,
};
const portRanges = { type: "array", items: portRange, minItems: 1, uniqueItems: true };
const text = { type: "string", minLength: 1 };
const texts = { type: "array", items: text, minItems: 1, uniqueItems: true };
const protocol = { type: "string", enum: ["tcp", "udp"] };
const protocols = { type: "array", items: protocol, minItems: 1, uniqueItems: true };
const duration = { type: "string", pattern: "^([0-9]+(ms|h|m|s))+$" };
const seconds = { type: "integer", minimum: 0, maximum: 2147483647 };
const precedence = { type: "string", enum: ["default", "required", "failed"] };

const action = {
  type: "object",
  properties: {
    trigger: { type: "string", enum: ["fail", "pass", "change"] },
    consecutiveEvents: { type: "integer", minimum: 0, maximum: 65535 },
    duration,
    action: {
      type: "string",
      pattern: "^(mark (un)?healthy|(increase|decrease) cost [0-9]+|send event)$",
    },
  },
  required: ["trigger", "action"],
  additionalProperties: false,
};
const actions = { type: "array", items: action, minItems: 1, maxItems: 20 };
const portCheck = {
  type: "object",
  properties: { address: text, interval: duration, timeout: duration, actions },
  required: ["address", "interval", "timeout"],
  additionalProperties: false,
};
const httpCheck = {
  type: "object",
  properties: {
    url: text,
    method: { type: "string", enum: ["GET", "POST", "PUT", "PATCH"] },
    body: { type: "string" },
    expectStatus: { type: "integer", minimum: 100, maximum: 599 },
    expectInBody: { type: "string" },
    interval: duration,
    timeout: duration,
    actions,
  },
  required: ["url", "interval", "timeout"],
  additionalProperties: false,
};
const portChecks = { type: "array", items: portCheck };
const httpChecks = { type: "array", items: httpCheck };

/** Either `value`, or `forward` with what may be asked for. */
function fixedOrForwarded(value: string, forward: string, allowed: string): Schema {
  return {
    oneOf: [
      { required: [value], not: { anyOf: [{ required: [forward] }, { required: [allowed] }] } },
      {
        required: [forward, allowed],
        properties: { [forward]: { const: true } },
        not: { required: [value] },
      },
    ],
  };
}

const hostTerminator: Schema = {
  type: "object",
  properties: {
    protocol,
    forwardProtocol: { type: "boolean", enum: [true] },
    allowedProtocols: protocols,
    address: text,
    forwardAddress: { type: "boolean", enum: [true] },
    allowedAddresses: texts,
    forwardAddressTranslations: {
      type: "array",
      items: {
        type: "object",
        properties: { from: text, to: text, prefixLength: { type: "integer", minimum: 0, maximum: 128 } },
        required: ["from", "to", "prefixLength"],
        additionalProperties: false,
      },
    },
    port,
    forwardPort: { type: "boolean", enum: [true] },
    allowedPortRanges: portRanges,
    allowedSourceAddresses: texts,
    listenOptions: {
      type: "object",
      properties: {
        bindUsingEdgeIdentity: { type: "boolean" },
        connectTimeout: duration,
        connectTimeoutSeconds: seconds,
        cost: { type: "integer", minimum: 0, maximum: 65535 },
        identity: text,
        maxConnections: { type: "integer", minimum: 1 },
        precedence,
      },
      additionalProperties: false,
    },
    proxy: {
      type: "object",
      properties: { type: { type: "string", enum: ["http"] }, address: text },
      required: ["type", "address"],
      additionalProperties: false,
    },
    portChecks,
    httpChecks,
  },
  additionalProperties: false,
  allOf: [
    fixedOrForwarded("protocol", "forwardProtocol", "allowedProtocols"),
    fixedOrForwarded("address", "forwardAddress", "allowedAddresses"),
    fixedOrForwarded("port", "forwardPort", "allowedPortRanges"),
  ],
};

export const FIXED_CONFIG_TYPES: readonly FixedConfigType[] = [
  {
    id: "g7cIWbcGg",
    name: "intercept.v1",
    schema: {
      type: "object",
      properties: {
        protocols,
        addresses: texts,
        portRanges,
        dialOptions: {
          type: "object",
          properties: { identity: { type: "string" }, connectTimeoutSeconds: seconds },
          additionalProperties: false,
        },
        sourceIp: { type: "string" },
        allowedSourceAddresses: texts,
      },
      required: ["protocols", "addresses", "portRanges"],
      additionalProperties: false,
    },
  },
  { id: "NH5p4FpGR", name: "host.v1", schema: hostTerminator },
  {
    id: "host.v2",
    name: "host.v2",
    schema: {
      type: "object",
      properties: { terminators: { type: "array", items: hostTerminator, minItems: 1 } },
      required: ["terminators"],
      additionalProperties: false,
    },
  },
  {
    id: "f2dd2df0-9c04-4b84-a91e-71437ac229f1",
    name: "ziti-tunneler-client.v1",
    schema: {
      type: "object",
      properties: { hostname: { type: "string" }, port },
      required: ["hostname", "port"],
      additionalProperties: false,
    },
  },
  {
    id: "cea49285-6c07-42cf-9f52-09a9b115c783",
    name: "ziti-tunneler-server.v1",
    schema: {
      type: "object",
      properties: {
        hostname: { type: "string" },
        port,
        protocol: { type: ["string", "null"], enum: ["tcp", "udp", null] },
        portChecks,
        httpChecks,
      },
      required: ["hostname", "port"],
      additionalProperties: false,
    },
  },
];
