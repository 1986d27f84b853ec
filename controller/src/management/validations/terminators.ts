import { parseListQuery } from "@sallyport/api";
import { ControlType, ctrlPb, decodeControl, encodeControl, ManagementType, mgmtPb } from "@sallyport/wire";
import { sql } from "kysely";
import { TERMINATOR_FIELDS } from "../../api/lists/fields.ts";
import { MAX_FIELDS_OF_REPORTS } from "../../fabric/routers/inbound.ts";
import { fetchPage } from "../../store/filter/filter-sql.ts";
import type { ManagementParts } from "../dependencies.ts";
import { eachOf, validation, whyUnanswered } from "./validation.ts";

const { TerminatorState } = mgmtPb;
const BATCH = 200;
const DELETE_BATCH = 100;
const ANSWER_MS = 60_000;

const STATE_OF_REASON: Readonly<Record<number, mgmtPb.TerminatorState>> = {
  0: TerminatorState.TERMINATOR_UNKNOWN_BINDING,
  1: TerminatorState.TERMINATOR_NOT_ON_ROUTER,
  2: TerminatorState.TERMINATOR_BAD_STATE,
};

type Rows = Awaited<ReturnType<typeof select>>;
interface TerminatorFinding {
  readonly state: mgmtPb.TerminatorState;
  readonly detail: string;
  readonly fixed?: boolean;
}

/** Asks routers whether stored terminators exist there; deletes those that do not when that is asked for. */
export function terminators(parts: ManagementParts) {
  return validation(ManagementType.ValidateTerminators, async (message, channel) => {
    const { filter, fixInvalid } = decodeControl(mgmtPb.ValidateTerminatorsRequestSchema, message.body);
    const rows = await select(parts, filter);
    return {
      count: rows.length,
      run: (report, isStopped) =>
        eachOf(batchesOf(rows), isStopped, async (batch) => {
          const findings = await channel.within(() => ask(parts, batch, fixInvalid));
          for (const row of batch) {
            const finding = findings.get(row.id) ?? unknown("the router gave no answer about it in time");
            await report(encodeControl(mgmtPb.TerminatorDetailSchema, { ...describe(row), ...finding }));
          }
        }),
    };
  });
}

async function select({ db }: ManagementParts, filter: string) {
  const list = parseListQuery({ limit: "-1", filter });
  const query = db
    .selectFrom("terminator")
    .innerJoin("service", "service.id", "terminator.service_id")
    .innerJoin("router", "router.id", "terminator.router_id")
    .select([
      "terminator.id",
      "terminator.service_id",
      "terminator.router_id",
      "terminator.binding",
      "terminator.address",
      "terminator.host_id",
      "terminator.created_at",
      sql<string>`terminator.xmin::text`.as("version"),
      "service.name as service_name",
      "router.name as router_name",
    ]);
  const { rows } = await fetchPage(query, { fields: TERMINATOR_FIELDS, list, id: "terminator.id" });
  return rows;
}

/** Of one router each. */
function batchesOf(rows: Rows): Rows[] {
  const batches: Rows[] = [];
  for (const group of Map.groupBy(rows, (row) => row.router_id).values()) {
    for (let at = 0; at < group.length; at += BATCH) batches.push(group.slice(at, at + BATCH));
  }
  return batches;
}

async function ask(parts: ManagementParts, batch: Rows, fixInvalid: boolean): Promise<Map<string, TerminatorFinding>> {
  const routerId = batch[0]?.router_id ?? "";
  const all = (detail: string) => new Map(batch.map((row) => [row.id, unknown(detail)]));
  const body = encodeControl(ctrlPb.ValidateTerminatorsV2RequestSchema, {
    terminators: batch.map(({ id, binding, address }) => ({ id, binding, address })),
    fixInvalid,
  });
  try {
    const out = { contentType: ControlType.ValidateTerminatorsV2Request, body };
    const answer = await parts.fabric.operations.request(routerId, out, ANSWER_MS);
    if (answer === undefined) return all("router is not connected");
    const { states } = decodeControl(ctrlPb.ValidateTerminatorsV2ResponseSchema, answer.body, MAX_FIELDS_OF_REPORTS);
    const findings = new Map(Object.entries(states).map(([id, state]) => [id, findingOf(state)]));
    return fixInvalid ? await fix(parts, batch, findings) : findings;
  } catch (error) {
    return all(whyUnanswered(error));
  }
}

async function fix(
  { model }: ManagementParts,
  batch: Rows,
  findings: ReadonlyMap<string, TerminatorFinding>,
): Promise<Map<string, TerminatorFinding>> {
  const isInvalid = (id: string) =>
    (findings.get(id)?.state ?? TerminatorState.TERMINATOR_VALID) !== TerminatorState.TERMINATOR_VALID;
  const invalid = batch.filter(({ id }) => isInvalid(id));
  const deleted = new Set<string>();
  for (let at = 0; at < invalid.length; at += DELETE_BATCH) {
    const some = invalid.slice(at, at + DELETE_BATCH);
    for (const id of await model.deleteUnchanged(some[0]?.router_id ?? "", some)) deleted.add(id);
  }
  return new Map([...findings].map(([id, finding]) => [id, { ...finding, fixed: deleted.has(id) }]));
}

function findingOf(state: ctrlPb.RouterTerminatorState): TerminatorFinding {
  if (state.valid) return { state: TerminatorState.TERMINATOR_VALID, detail: state.detail };
  return { state: STATE_OF_REASON[state.reason] ?? TerminatorState.TERMINATOR_BAD_STATE, detail: state.detail };
}

function unknown(detail: string): TerminatorFinding {
  return { state: TerminatorState.TERMINATOR_UNKNOWN, detail };
}

function describe(row: Rows[number]) {
  return {
    terminatorId: row.id,
    serviceId: row.service_id,
    serviceName: row.service_name,
    routerId: row.router_id,
    routerName: row.router_name,
    binding: row.binding,
    address: row.address,
    hostId: row.host_id,
    createDate: row.created_at.toISOString(),
  };
}
