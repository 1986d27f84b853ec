/** What of a resource only the operator can follow, since it has a cluster. */
import type { Path } from "./documents.ts";

interface ClusterOnly {
  /** Path of the field below `spec`. */
  readonly field: readonly string[];
  /** `refused`: without it the entity would be another one. `ignored`: the entity is the same without it. */
  readonly effect: "refused" | "ignored";
  readonly why: string;
  /** Only this value needs a cluster. */
  readonly value?: string;
}

/** What an EdgeRouter says about the entities; all the rest is about their pods. */
const ROUTER_FIELDS: ReadonlySet<string> = new Set([
  ...["networkRef", "name", "importId", "managementPolicy", "deletionPolicy", "tags"],
  ...["replicas", "roleAttributes", "cost", "noTraversal", "disabled", "configRefs", "configIds", "appData"],
]);

const SECRET = "Secrets are in a cluster, so only the operator reads them";

const FIELDS: Readonly<Record<string, readonly ClusterOnly[]>> = {
  ServiceConfig: [{ field: ["dataFrom"], effect: "refused", why: `${SECRET}: write the config into data` }],
  Identity: [
    { field: ["enrollment", "passwordSecretRef"], effect: "refused", why: `${SECRET}: use method updb without it` },
    {
      field: ["enrollment", "output"],
      value: "IdentitySecret",
      effect: "ignored",
      why: "only the operator enrolls: the identity gets a one-time token",
    },
    { field: ["enrollment", "secretName"], effect: "ignored", why: "the token stays in the network" },
    { field: ["enrollment", "renewBefore"], effect: "ignored", why: "only the operator renews certificates" },
    { field: ["enrollment", "tokenLifetime"], effect: "ignored", why: "the network's own lifetime of tokens applies" },
  ],
};

/** A field of a resource as the file has it, whose effect needs a cluster. */
export interface ClusterOnlyField extends Pick<ClusterOnly, "effect" | "why"> {
  readonly path: Path;
}

export function clusterOnlyFields(kind: string, spec: Readonly<Record<string, unknown>>): ClusterOnlyField[] {
  if (kind === "EdgeRouter") return routerFields(spec);
  return (FIELDS[kind] ?? []).flatMap(({ field, value, effect, why }) => {
    const given = field.reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], spec);
    const isGiven = given !== undefined && given !== null && (value === undefined || given === value);
    return isGiven ? [{ path: ["spec", ...field], effect, why }] : [];
  });
}

function routerFields(spec: Readonly<Record<string, unknown>>): ClusterOnlyField[] {
  const why = "it is about the router's pod, which only the operator makes";
  const ignored = (...path: string[]): ClusterOnlyField => ({ path: ["spec", ...path], effect: "ignored", why });
  return Object.entries(spec).flatMap(([name, value]) => {
    if (name === "tunneler")
      return Object.keys(value ?? {}).flatMap((key) => (key === "enabled" ? [] : [ignored(name, key)]));
    return ROUTER_FIELDS.has(name) ? [] : [ignored(name)];
  });
}
