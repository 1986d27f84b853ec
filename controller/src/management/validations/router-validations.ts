/** Validations that ask each router what it has, and compare the answer with what the controller knows. */
import { encodeControl, InspectionKey, ManagementType, mgmtPb, RouterBinding } from "@sallyport/wire";
import { z } from "zod";
import type { ManagementParts } from "../dependencies.ts";
import { askRouter, type NamedRouter, routerValidation } from "./validation.ts";

const { LinkState, TerminatorState } = mgmtPb;

const TERMINATORS = z.object({
  entries: z
    .array(
      z.object({
        id: z.string(),
        state: z.string(),
        operationActive: z.boolean().default(false),
        createTime: z.string().default(""),
        lastAttempt: z.string().default(""),
      }),
    )
    .nullable(),
});
const LINKS = z.object({
  links: z.array(z.object({ id: z.string(), dest: z.string(), dialed: z.boolean().default(false) })).nullable(),
});
const CIRCUITS = z.object({
  circuits: z.record(z.string(), z.looseObject({ ctrlId: z.string().optional() })).nullable(),
});
const CONNECTIONS = z.object({
  identity_connections: z
    .record(
      z.string(),
      z.object({
        unreported_count: z.number().default(0),
        being_reported_count: z.number().default(0),
        unreported_state_changed: z.boolean().default(false),
        being_reported_state_changed: z.boolean().default(false),
        connections: z.array(z.object({ closed: z.boolean().default(false) })).nullable(),
      }),
    )
    .nullable(),
});

/** Compares the terminators that SDKs have on routers with the stored ones. */
export function sdkTerminators(parts: ManagementParts) {
  const of = { key: InspectionKey.SdkTerminators, binding: RouterBinding.Edge };
  return routerTerminators(parts, ManagementType.ValidateSdkTerminators, of);
}

/** Compares the terminators of routers that host themselves with the stored ones. */
export function ertTerminators(parts: ManagementParts) {
  const of = { key: InspectionKey.TunnelTerminators, binding: RouterBinding.Tunnel };
  return routerTerminators(parts, ManagementType.ValidateErtTerminators, of);
}

function routerTerminators(parts: ManagementParts, type: number, of: { key: string; binding: string }) {
  return routerValidation(type, parts, async (router) =>
    encodeControl(mgmtPb.RouterTerminatorsDetailsSchema, await terminatorsOf(parts, router, of)),
  );
}

async function terminatorsOf(
  parts: ManagementParts,
  router: NamedRouter,
  { key, binding }: { key: string; binding: string },
) {
  const about = { routerId: router.id, routerName: router.name };
  const answer = await askRouter(parts, router.id, key, TERMINATORS);
  if (!answer.ok) return { ...about, validateSuccess: false, message: answer.problem };
  const rows = await parts.db
    .selectFrom("terminator")
    .select("id")
    .where("router_id", "=", router.id)
    .where("binding", "=", binding)
    .execute();
  const stored = new Set(rows.map((row) => row.id));
  const reported = (answer.value.entries ?? []).map(({ id, state, ...rest }) => {
    const isStored = stored.delete(id);
    return {
      ...rest,
      terminatorId: id,
      ctrlState: isStored ? TerminatorState.TERMINATOR_VALID : TerminatorState.TERMINATOR_UNKNOWN,
      routerState: state,
      isValid: isStored && state === "established",
    };
  });
  const missing = [...stored].map((terminatorId) => ({
    terminatorId,
    ctrlState: TerminatorState.TERMINATOR_VALID,
    routerState: "unknown",
  }));
  return { ...about, validateSuccess: true, details: [...reported, ...missing] };
}

/** Compares the links that routers have with those that the controller knows. */
export function routerLinks(parts: ManagementParts) {
  return routerValidation(ManagementType.ValidateRouterLinks, parts, async (router) =>
    encodeControl(mgmtPb.RouterLinkDetailsSchema, await linksOf(parts, router)),
  );
}

async function linksOf(parts: ManagementParts, router: NamedRouter) {
  const { fabric } = parts;
  const about = { routerId: router.id, routerName: router.name };
  const answer = await askRouter(parts, router.id, InspectionKey.Links, LINKS);
  if (!answer.ok) return { ...about, validateSuccess: false, message: answer.problem };
  const online = new Set(fabric.onlineRouterIds());
  const known = new Map(
    fabric
      .links()
      .filter((link) => link.state === "connected" && (link.source === router.id || link.destination === router.id))
      .map((link) => [link.id, link]),
  );
  const reported = (answer.value.links ?? []).map(({ id, dest, dialed }) => {
    const destConnected = online.has(dest);
    const isKnown = known.delete(id);
    return {
      linkId: id,
      ctrlState: isKnown ? LinkState.LINK_ESTABLISHED : LinkState.LINK_UNKNOWN,
      routerState: LinkState.LINK_ESTABLISHED,
      destConnected,
      // A link to an offline router may be known or not; one to a connected router has to be known.
      isValid: isKnown === destConnected,
      destRouterId: dest,
      dialed,
    };
  });
  const missing = [...known.values()].map((link) => {
    const dialed = link.source === router.id;
    const destRouterId = dialed ? link.destination : link.source;
    return {
      linkId: link.id,
      ctrlState: LinkState.LINK_ESTABLISHED,
      routerState: LinkState.LINK_UNKNOWN,
      destConnected: online.has(destRouterId),
      destRouterId,
      dialed,
    };
  });
  return { ...about, validateSuccess: true, linkDetails: [...reported, ...missing] };
}

/** Compares the circuits that routers forward with those that the controllers have. */
export function circuits(parts: ManagementParts) {
  return routerValidation(ManagementType.ValidateCircuits, parts, async (router) =>
    encodeControl(mgmtPb.RouterCircuitDetailsSchema, await circuitsOf(parts, router)),
  );
}

async function circuitsOf(parts: ManagementParts, router: NamedRouter) {
  const { fabric, network, controllerId } = parts;
  const about = { routerId: router.id, routerName: router.name };
  const through = () => network.circuitsThrough(router.id, controllerId);
  const before = await through();
  const answer = await askRouter(parts, router.id, InspectionKey.RouterCircuits, CIRCUITS);
  if (!answer.ok) return { ...about, validateSuccess: false, message: answer.problem };
  const forwarded = new Map(Object.entries(answer.value.circuits ?? {}));
  const details: Record<string, { circuitId: string; missingInCtrl?: boolean; missingInForwarder?: boolean }> = {};
  // Circuits come and go while the router answers: only a difference before and after is a finding.
  const after = await through();
  for (const id of after.ids) {
    if (before.ids.has(id) && !forwarded.has(id)) details[id] = { circuitId: id, missingInForwarder: true };
  }
  for (const [id, { ctrlId = controllerId }] of forwarded) {
    // Of a controller that did not answer it is not known which it has.
    const isOwnerHeard = ctrlId === "" || [before, after].every(({ owners }) => owners.has(ctrlId));
    if (!isOwnerHeard || before.ids.has(id) || after.ids.has(id)) continue;
    if ((await network.circuit(id)) === undefined) details[id] = { circuitId: id, missingInCtrl: true };
  }
  // Routers of OpenZiti file a circuit under the controller that made it, also when another one has taken it over.
  const missing = Object.values(details).filter(({ missingInCtrl }) => missingInCtrl);
  for (const id of await fabric.elsewhere(missing.map(({ circuitId }) => circuitId))) delete details[id];
  return { ...about, validateSuccess: true, details };
}

/** Compares which identities routers have connected with what the controller believes. */
export function identityConnections(parts: ManagementParts) {
  return routerValidation(ManagementType.ValidateIdentityConnections, parts, async (router) =>
    encodeControl(mgmtPb.ComponentDetailsSchema, await connectionsOf(parts, router)),
  );
}

async function connectionsOf(parts: ManagementParts, router: NamedRouter) {
  const { fabric } = parts;
  const about = { componentType: "router", componentId: router.id, componentName: router.name };
  let reported: z.infer<typeof CONNECTIONS> = { identity_connections: {} };
  if (fabric.onlineRouterIds().includes(router.id)) {
    const answer = await askRouter(parts, router.id, InspectionKey.IdentityConnections, CONNECTIONS);
    if (!answer.ok) return { ...about, validateSuccess: false, errors: [answer.problem] };
    reported = answer.value;
  }
  const errors = connectionErrors(reported, fabric.identitiesOf(router.id));
  return { ...about, validateSuccess: true, errors };
}

function connectionErrors(
  { identity_connections }: z.infer<typeof CONNECTIONS>,
  believed: ReadonlySet<string>,
): string[] {
  const reported = Object.entries(identity_connections ?? {});
  const errors = reported.flatMap(([id, status]) => {
    const isConnected = (status.connections ?? []).some((connection) => !connection.closed);
    const findings: (string | false)[] = [
      isConnected && !believed.has(id) && "is connected to the router, and not known to be",
      !isConnected && believed.has(id) && "is believed connected, and the router says it is not",
      status.unreported_count > 0 && "has connections that are not reported yet",
      status.being_reported_count > 0 && "has connections that are being reported",
      status.unreported_state_changed && "has a change that is not reported yet",
      status.being_reported_state_changed && "has a change that is being reported",
    ];
    return findings.filter((finding) => finding !== false).map((finding) => `identity ${id} ${finding}`);
  });
  const named = new Set(reported.map(([id]) => id));
  const unknown = [...believed].filter((id) => !named.has(id));
  return [...errors, ...unknown.map((id) => `identity ${id} is believed connected, and the router does not know it`)];
}
