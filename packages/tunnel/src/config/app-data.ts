import type { ClientAddresses } from "../interceptor.ts";

/** What a dialing tunneler tells the hosting one about a client's connection (docs/protocol/tunneler.md, "App data"). */
export interface AppData {
  readonly dst_protocol?: string;
  readonly dst_ip?: string;
  readonly dst_port?: string;
  readonly dst_hostname?: string;
  readonly source_addr?: string;
  /** `resolver`: the circuit carries questions for the host's name server. */
  readonly connType?: string;
}

/** App data of a client's connection. */
export function appDataOf(client: ClientAddresses, sourceAddress: string | undefined): Record<string, string> {
  return {
    ...(client.destinationHostname === undefined ? {} : { dst_hostname: client.destinationHostname }),
    dst_ip: client.destinationIp,
    dst_port: String(client.destinationPort),
    dst_protocol: client.protocol,
    ...(sourceAddress === undefined ? {} : { source_addr: sourceAddress }),
  };
}

/** Reads app data; none is empty, and values that are no text are left out. @throws Error when it is not a JSON object */
export function parseAppData(bytes: Buffer | undefined): AppData {
  if (bytes === undefined || bytes.length === 0) return {};
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw new Error("the dialer's app data is not JSON", { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error("the dialer's app data is not a JSON object");
  }
  return Object.fromEntries(Object.entries(value).filter(([, each]) => typeof each === "string"));
}
