import { encodeControl, InspectionKey, ManagementType, mgmtPb } from "@sallyport/wire";
import { z } from "zod";
import type { ManagementParts } from "../dependencies.ts";
import { askRouter } from "./router-question.ts";
import { type NamedRouter, routerValidation } from "./validation.ts";

const statusSchema = z.object({
  unreported_count: z.number().default(0),
  being_reported_count: z.number().default(0),
  unreported_state_changed: z.boolean().default(false),
  being_reported_state_changed: z.boolean().default(false),
  connections: z.array(z.object({ closed: z.boolean().default(false) })).nullable(),
});
const answerSchema = z.object({ identity_connections: z.record(z.string(), statusSchema).nullable() });
type Statuses = z.infer<typeof answerSchema>;

/** Compares which identities routers have connected with what the controller believes. */
export function identityConnections(parts: ManagementParts) {
  return routerValidation(ManagementType.ValidateIdentityConnections, parts, async (router) =>
    encodeControl(mgmtPb.ComponentDetailsSchema, await connectionsOf(parts, router)),
  );
}

async function connectionsOf(parts: ManagementParts, router: NamedRouter) {
  const about = { componentType: "router", componentId: router.id, componentName: router.name };
  if (!parts.fabric.onlineRouterIds().includes(router.id)) {
    const errors = compare({ identity_connections: {} }, parts.fabric.identitiesOf(router.id));
    return { ...about, validateSuccess: true, errors };
  }
  const answer = await askRouter(parts, router.id, InspectionKey.IdentityConnections, answerSchema);
  if (!answer.ok) return { ...about, validateSuccess: false, errors: [answer.problem] };
  return { ...about, validateSuccess: true, errors: compare(answer.value, parts.fabric.identitiesOf(router.id)) };
}

function compare({ identity_connections }: Statuses, believed: ReadonlySet<string>): string[] {
  const errors: string[] = [];
  const reported = Object.entries(identity_connections ?? {});
  for (const [id, status] of reported) {
    const isConnected = (status.connections ?? []).some((connection) => !connection.closed);
    if (isConnected && !believed.has(id)) errors.push(`identity ${id} is connected to the router, and not known to be`);
    if (!isConnected && believed.has(id))
      errors.push(`identity ${id} is believed connected, and the router says it is not`);
    if (status.unreported_count > 0) errors.push(`identity ${id} has connections that are not reported yet`);
    if (status.being_reported_count > 0) errors.push(`identity ${id} has connections that are being reported`);
    if (status.unreported_state_changed) errors.push(`identity ${id} has a change that is not reported yet`);
    if (status.being_reported_state_changed) errors.push(`identity ${id} has a change that is being reported`);
  }
  const named = new Set(reported.map(([id]) => id));
  for (const id of believed) {
    if (!named.has(id)) errors.push(`identity ${id} is believed connected, and the router does not know it`);
  }
  return errors;
}
