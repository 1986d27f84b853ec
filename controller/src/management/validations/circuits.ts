import { encodeControl, InspectionKey, ManagementType, mgmtPb } from "@sallyport/wire";
import { z } from "zod";
import type { ManagementParts } from "../dependencies.ts";
import { askRouter } from "./router-question.ts";
import { type NamedRouter, routerValidation } from "./validation.ts";

const answerSchema = z.object({
  circuits: z.record(z.string(), z.looseObject({ ctrlId: z.string().optional() })).nullable(),
});

/** Compares the circuits that routers forward with those that the controller has. */
export function circuits(parts: ManagementParts) {
  return routerValidation(ManagementType.ValidateCircuits, parts, async (router) =>
    encodeControl(mgmtPb.RouterCircuitDetailsSchema, await circuitsOf(parts, router)),
  );
}

async function circuitsOf(parts: ManagementParts, router: NamedRouter) {
  const { fabric, controllerId } = parts;
  const about = { routerId: router.id, routerName: router.name };
  const through = () => fabric.circuits().filter((circuit) => circuit.route.routers.includes(router.id));
  const before = new Set(through().map((circuit) => circuit.id));
  const answer = await askRouter(parts, router.id, InspectionKey.RouterCircuits, answerSchema);
  if (!answer.ok) return { ...about, validateSuccess: false, message: answer.problem };
  const forwarded = new Map(Object.entries(answer.value.circuits ?? {}));
  const details: Record<string, { circuitId: string; missingInCtrl?: boolean; missingInForwarder?: boolean }> = {};
  // Circuits come and go while the router answers: only what is so before and after is a finding.
  for (const { id } of through()) {
    if (before.has(id) && !forwarded.has(id)) details[id] = { circuitId: id, missingInForwarder: true };
  }
  for (const [id, { ctrlId = controllerId }] of forwarded) {
    const isOurs = ctrlId === controllerId || ctrlId === "";
    if (isOurs && !before.has(id) && fabric.circuit(id) === undefined) {
      details[id] = { circuitId: id, missingInCtrl: true };
    }
  }
  return { ...about, validateSuccess: true, details };
}
