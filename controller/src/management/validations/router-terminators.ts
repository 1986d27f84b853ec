import { encodeControl, InspectionKey, ManagementType, mgmtPb, RouterBinding } from "@sallyport/wire";
import { z } from "zod";
import type { ManagementParts } from "../dependencies.ts";
import { askRouter } from "./router-question.ts";
import { type NamedRouter, routerValidation } from "./validation.ts";

const { TerminatorState } = mgmtPb;
const ESTABLISHED = "established";

const answerSchema = z.object({
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

/** Compares the terminators that SDKs have on routers with the stored ones. */
export function sdkTerminators(parts: ManagementParts) {
  return routerTerminators(
    parts,
    ManagementType.ValidateSdkTerminators,
    InspectionKey.SdkTerminators,
    RouterBinding.Edge,
  );
}

/** Compares the terminators of routers that host themselves with the stored ones. */
export function ertTerminators(parts: ManagementParts) {
  return routerTerminators(
    parts,
    ManagementType.ValidateErtTerminators,
    InspectionKey.TunnelTerminators,
    RouterBinding.Tunnel,
  );
}

function routerTerminators(parts: ManagementParts, type: number, key: string, binding: string) {
  return routerValidation(type, parts, async (router) =>
    encodeControl(mgmtPb.RouterTerminatorsDetailsSchema, await terminatorsOf(parts, router, key, binding)),
  );
}

async function terminatorsOf(parts: ManagementParts, router: NamedRouter, key: string, binding: string) {
  const about = { routerId: router.id, routerName: router.name };
  const answer = await askRouter(parts, router.id, key, answerSchema);
  if (!answer.ok) return { ...about, validateSuccess: false, message: answer.problem };
  const rows = await parts.db
    .selectFrom("terminator")
    .select("id")
    .where("router_id", "=", router.id)
    .where("binding", "=", binding)
    .execute();
  const stored = new Set(rows.map((row) => row.id));
  const details = (answer.value.entries ?? []).map((entry) => {
    const isStored = stored.delete(entry.id);
    return {
      terminatorId: entry.id,
      ctrlState: isStored ? TerminatorState.TERMINATOR_VALID : TerminatorState.TERMINATOR_UNKNOWN,
      routerState: entry.state,
      isValid: isStored && entry.state === ESTABLISHED,
      operationActive: entry.operationActive,
      createTime: entry.createTime,
      lastAttempt: entry.lastAttempt,
    };
  });
  for (const id of stored) {
    details.push({
      terminatorId: id,
      ctrlState: TerminatorState.TERMINATOR_VALID,
      routerState: "unknown",
      isValid: false,
      operationActive: false,
      createTime: "",
      lastAttempt: "",
    });
  }
  return { ...about, validateSuccess: true, details };
}
