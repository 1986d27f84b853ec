import type { Precedence } from "@sallyport/wire";

/** A service that the router's own identity may dial or host. */
export interface TunnelerService {
  readonly id: string;
  readonly name: string;
  readonly canDial: boolean;
  readonly canBind: boolean;
  readonly isEncrypted: boolean;
  /** Data by the name of the config type. */
  readonly configs: ReadonlyMap<string, unknown>;
  /** What the identity hosts this very service with. */
  readonly cost: number | undefined;
  readonly precedence: Precedence | undefined;
}

/** The identity a router tunnels as: that with its own id. */
export interface TunnelIdentity {
  readonly id: string;
  readonly name: string;
  readonly appData: Readonly<Record<string, unknown>>;
  /** What it hosts every service with. */
  readonly defaultCost: number;
  readonly defaultPrecedence: Precedence;
  readonly services: ReadonlyMap<string, TunnelerService>;
}

/** The JSON object in `text`; empty when it is none. */
export function jsonObject(text: string | Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(typeof text === "string" ? text : Buffer.from(text).toString("utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
  } catch {
    return {};
  }
}
