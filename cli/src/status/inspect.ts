/** Inspections of the controller (docs/fabric-api.md). */
import type { X509Certificate } from "node:crypto";
import type { ApiCaller } from "../network/api-caller.ts";

/** What the controller answers, by name. Of OpenZiti's controllers some names are missing. */
export type Inspected = Readonly<Record<string, unknown>>;

/** The id of a controller with another authority's certificate is not known. */
const ALL = ".*";

/** The controller's id in its certificate: routers then need not be asked. */
export function controllerIdOf(leaf: X509Certificate | undefined): string | undefined {
  return /URI:spiffe:\/\/[^/,"]+\/controller\/([^/?#,"]+)/i.exec(leaf?.subjectAltName ?? "")?.[1];
}

/** @throws CommandError, ApiError */
export async function inspectController(
  id: string | undefined,
  names: readonly string[],
  caller: ApiCaller,
): Promise<Inspected> {
  const values = await inspect(id === undefined ? ALL : `^${escaped(id)}$`, names, caller);
  return Object.fromEntries(values.map(({ name, value }) => [name, value]));
}

export interface InspectedValue {
  /** Id of the controller or router. */
  readonly appId: string;
  readonly name: string;
  readonly value: unknown;
}

/** @throws CommandError, ApiError */
export async function inspect(
  appRegex: string,
  requestedValues: readonly string[],
  caller: ApiCaller,
): Promise<readonly InspectedValue[]> {
  const body = { appRegex, requestedValues };
  const answer = await caller.bare({ method: "POST", path: "/fabric/v1/inspections", body });
  return (answer as { readonly values?: readonly InspectedValue[] | null }).values ?? [];
}

function escaped(text: string): string {
  return text.replaceAll(/[^\w-]/g, "\\$&");
}
