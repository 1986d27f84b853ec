import type { z } from "zod";
import { choice, integer, list, mapOf, struct, text } from "./bounded.ts";
import type { CelRule } from "./cel.ts";

const TCP_PORT = { min: 1, max: 65_535 } as const;

const RULES: readonly CelRule[] = [
  {
    rule: "self.type != 'NodePort' || has(self.hostname)",
    message: "type NodePort needs hostname: the operator does not know the name of the nodes",
    reason: "FieldValueRequired",
    fieldPath: ".hostname",
  },
  {
    rule: "!has(self.nodePort) || self.type == 'NodePort'",
    message: "nodePort belongs to type NodePort",
    fieldPath: ".nodePort",
  },
  {
    rule: "self.type == 'LoadBalancer' || (!has(self.loadBalancerClass) && !has(self.loadBalancerSourceRanges))",
    message: "loadBalancerClass and loadBalancerSourceRanges belong to type LoadBalancer",
  },
  {
    rule: "!has(self.externalTrafficPolicy) || self.type in ['LoadBalancer', 'NodePort']",
    message: "externalTrafficPolicy belongs to the types LoadBalancer and NodePort",
    fieldPath: ".externalTrafficPolicy",
  },
];

/** A name of DNS, or an IPv4 address, with these placeholders: another one would become part of the name as it stands. */
export function hostnamePattern(...placeholders: readonly string[]): RegExp {
  const given = `\\{(${placeholders.join("|")})\\}`;
  const label = `([a-z0-9]|${given})([-a-z0-9]|${given})*`;
  return new RegExp(`^${label}(\\.${label})*$`);
}

/**
 * Under which address others reach a workload, and by what Service. Its default must be `{type: "ClusterIP"}`: the API
 * server puts a default to the rules as it stands, without the defaults of its fields.
 */
export const exposure = <
  const Types extends readonly ["ClusterIP", ...string[]],
  const More extends z.core.$ZodLooseShape = Record<never, never>,
>(
  description: string,
  o: {
    types: Types;
    typeDescription: string;
    hostname: string;
    hostnamePattern: RegExp;
    port: string;
    nodePort: string;
    /** Fields of one kind alone, and their rules. */
    more?: { readonly fields: More; readonly rules: readonly CelRule[] };
  },
) =>
  struct(
    description,
    {
      type: choice(o.typeDescription, o.types).default("ClusterIP" as Types[number]),
      hostname: text(o.hostname, { min: 1, max: 253, pattern: o.hostnamePattern }).optional(),
      port: integer(o.port, TCP_PORT).optional(),
      nodePort: integer(o.nodePort, TCP_PORT).optional(),
      clusterDomain: text(
        "Domain of the cluster, such as cluster.local, added to the address of type ClusterIP. Default: <service>.<namespace>.svc.",
        { min: 1, max: 253, pattern: /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/ },
      ).optional(),
      annotations: mapOf(
        "Annotations of the Services, such as for external-dns or cloud settings.",
        text("Value of the annotation.", { max: 4096 }),
        { max: 64 },
      ).optional(),
      externalTrafficPolicy: choice("Local preserves the client's address and only uses pods of the same node.", [
        "Cluster",
        "Local",
      ]).optional(),
      loadBalancerClass: text("Implementation of the load balancer.", { min: 1, max: 316 }).optional(),
      loadBalancerSourceRanges: list(
        "Networks from which the load balancer accepts connections.",
        text("One network, such as 192.0.2.0/24.", { min: 1, max: 64 }),
        { type: "set", max: 64 },
      ).optional(),
      ...(o.more?.fields ?? ({} as More)),
    },
    [...RULES, ...(o.more?.rules ?? [])],
  );
