import { isIPv6 } from "node:net";
import type { ClientAddresses } from "../interceptor.ts";
import type { OverlayIdentity } from "../overlay.ts";

const APP_DATA_WORD = "$tunneler_id.appData[";

/**
 * Fills in what a template says about the tunneler's own identity: `$tunneler_id.name` and `$tunneler_id.appData[KEY]`,
 * empty when there is no such key (docs/protocol/configs.md, "Templates").
 *
 * @throws Error when a bracket is not closed
 */
export function fillIdentity(template: string, identity: OverlayIdentity): string {
  const named = template.replaceAll("$tunneler_id.name", () => identity.name);
  const [first = "", ...rest] = named.split(APP_DATA_WORD);
  return rest.reduce((filled, part) => {
    const end = part.indexOf("]");
    if (end < 0) throw new Error(`expected ] behind ${APP_DATA_WORD} in ${JSON.stringify(template)}`);
    const key = part.slice(0, end);
    const value = Object.hasOwn(identity.appData, key) ? identity.appData[key] : undefined;
    return filled + textOf(value) + part.slice(end + 1);
  }, first);
}

/** Fills in what a template says about a client's connection; what is not known stays as it is. */
export function fillClient(template: string, client: ClientAddresses): string {
  if (template === "$src_ip:$src_port") return hostPort(client.sourceIp, client.sourcePort);
  const { destinationHostname } = client;
  const filled = template
    .replaceAll("$src_ip", () => client.sourceIp)
    .replaceAll("$src_port", () => String(client.sourcePort))
    .replaceAll("$dst_ip", () => client.destinationIp)
    .replaceAll("$dst_port", () => String(client.destinationPort));
  return destinationHostname === undefined ? filled : filled.replaceAll("$dst_hostname", () => destinationHostname);
}

/** `host:port`, with brackets around IPv6. */
export function hostPort(host: string, port: number): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
