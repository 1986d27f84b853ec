import { PeerData, RouterBinding } from "@sallyport/wire";
import { sql } from "kysely";
import type { TerminatorRecord } from "../../fabric/ports.ts";
import type { PolicyIndex, ServicePolicy } from "../../policy/policy-index.ts";
import type { EdgeRouter, HostingFacts, Named, Terminator } from "../../policy/why/facts.ts";
import { Statement } from "../../store/driver/statement.ts";
import type { ModelContext } from "../context.ts";
import { circuitService, terminatorRecord } from "../fabric/fabric-terminators.ts";
import type { ServiceRow } from "../network/services.ts";
import type { TerminatorRow } from "../network/terminators.ts";
import { selectedByAny } from "../policy/selection-sql.ts";
import { type NetworkNow, routeFrom } from "./network-now.ts";
import type { ShownNames } from "./shown-names.ts";

const MAX_SHOWN = 5;
/** Routers from which a path is looked for. */
const MAX_ROUTES = 20;

/** Policies of type `Bind` that select the service. */
export function bindPolicies(index: PolicyIndex, serviceId: string): ServicePolicy[] {
  return index.policiesOfService(serviceId).filter(({ type }) => type === "Bind");
}

interface HostingQuestion {
  readonly service: ServiceRow;
  /** Over which the identity gets into the network now. */
  readonly entries: readonly Pick<EdgeRouter, "id">[];
  readonly binding: readonly ServicePolicy[];
  readonly network: NetworkNow;
  /** Those of {@link shownBinding} are read. */
  readonly names: Promise<ShownNames>;
}

const TERMINATORS = new Statement<TerminatorRow & { host_name: string | null; router_name: string | null }>(`
  SELECT t.*, i.name AS host_name, r.name AS router_name
  FROM terminator t LEFT JOIN identity i ON i.id = t.host_id LEFT JOIN router r ON r.id = t.router_id
  WHERE t.service_id = $1 ORDER BY t.id`);

/** Ids of the policies of hosts that an answer names. */
export function shownBinding(binding: readonly ServicePolicy[]): string[] {
  return binding.slice(0, MAX_SHOWN).map(({ id }) => id);
}

export async function hostingFacts(
  ctx: ModelContext,
  { service, entries, binding, network, names }: HostingQuestion,
): Promise<HostingFacts> {
  const rows = await TERMINATORS.rows(ctx.store.db, [service.id]);
  const records = rows.map(terminatorRecord);
  const circuits = circuitService(service);
  const routes = entries
    .slice(0, MAX_ROUTES)
    .map(({ id: from }) =>
      routeFrom(from, network.chooseTerminator({ service: circuits, instanceId: "", from }, records)),
    );
  const terminators = rows.map((row, at): Terminator => {
    const { id, router_id, router_name, host_id, host_name, instance_id: instanceId, precedence, cost } = row;
    const isOnline = network.routerState(router_id)?.isOnline === true;
    const record = records[at];
    return {
      ...{ id, instanceId, precedence, cost },
      router: { id: router_id, name: router_name ?? router_id, isOnline },
      ...(host_id !== "" && { host: { id: host_id, name: host_name ?? host_id } }),
      sendsPublicKey: record !== undefined && sendsPublicKey(record),
    };
  });
  const isDrawn = ["random", "weighted"].includes(service.terminator_strategy);
  if (terminators.length > 0) return { terminators, routes, isDrawn, bindPolicies: [], mayHost: [] };
  const [hosts, known] = await Promise.all([identitiesOf(ctx, binding), names]);
  return {
    terminators,
    routes,
    isDrawn,
    bindPolicies: shownBinding(binding).map((id) => known.of("service_policy", id)),
    mayHost: hosts.map((host) => ({
      ...host,
      connection: network.identityConnection(host.id),
    })),
  };
}

/** A host that encrypts has given its key with the terminator; a tunneling router gives it with each circuit. */
function sendsPublicKey({ binding, peerData }: TerminatorRecord): boolean {
  return binding === RouterBinding.Tunnel || peerData.has(PeerData.PublicKey);
}

/** Some of the identities that one of the policies selects. */
async function identitiesOf(ctx: ModelContext, policies: readonly ServicePolicy[]): Promise<readonly Named[]> {
  if (policies.length === 0) return [];
  const selected = selectedByAny(
    policies.map(({ identities: selector, semantic }) => ({ selector, semantic })),
    "i",
  );
  const { rows } = await sql<Named>`SELECT i.id, i.name FROM identity i WHERE ${selected} LIMIT ${MAX_SHOWN}`.execute(
    ctx.store.db,
  );
  return rows;
}
