/**
 * How a terminator ranks before its cost counts: required before default before failed. Values of the Precedence header and of every
 * message about a terminator or an identity's hosting (docs/protocol/edge.md, "Headers").
 */
export const Precedence = { Default: 0, Required: 1, Failed: 2 } as const;
export type Precedence = (typeof Precedence)[keyof typeof Precedence];

/** The same in APIs, configurations and events. */
export type PrecedenceName = "default" | "required" | "failed";

const NAMES: readonly PrecedenceName[] = ["default", "required", "failed"];

/** The number that stands for a name on the wire. */
export function precedenceOf(name: PrecedenceName): Precedence {
  return NAMES.indexOf(name) as Precedence;
}

/** The name of a number of the wire; undefined for a number that stands for none. */
export function precedenceName(value: number): PrecedenceName | undefined {
  return NAMES[value];
}

/** The same number; a number that stands for no precedence counts as default. */
export function knownPrecedence(value: number): Precedence {
  return NAMES[value] === undefined ? Precedence.Default : (value as Precedence);
}

/** Bindings of the terminators that a router makes for its SDK clients and for its own tunneler. */
export const RouterBinding = { Edge: "edge", Tunnel: "tunnel" } as const;
