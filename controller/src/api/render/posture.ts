import { apiTime, type postureCheckDetail, type postureData, type postureQueries } from "@sallyport/api";
import {
  deviceData,
  type PostureCheck,
  type PostureState,
  passes,
  postureType,
  sessionState,
  storedFields,
  timeOrNull,
} from "@sallyport/posture";
import type { z } from "zod";
import type { PostureCheckRow } from "../../model/posture/posture-checks.ts";
import type { Attributed } from "../../policy/selector.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { baseOf, links } from "./base.ts";

type PostureQueries = z.input<typeof postureQueries>;
type PostureQuery = PostureQueries["postureQueries"][number];

/** The posture queries of a service by its id; undefined for a service without any. */
export type PostureLens = (serviceId: string) => PostureQueries[] | undefined;

const NO_TIMEOUT = -1;
/** The first version of the client whose MFA can time out. */
const TIMEOUT_CLIENT = { type: "ziti-sdk-c", version: [0, 25, 0] } as const;

/** The posture queries of an identity's policies, for one of its API sessions; undefined when there are none. */
export async function postureLens(
  deps: ApiDependencies,
  identity: Attributed,
  apiSessionId: string,
): Promise<PostureLens | undefined> {
  const { model } = deps;
  await model.posture.ready([identity.id]);
  const index = await model.policy.current();
  if (!index.hasChecks) return undefined;
  const policies = index.policiesOf(identity);
  const asking = policies.filter((policy) => index.checksOf(policy).length > 0);
  if (asking.length === 0) return undefined;
  const exempts = (check: PostureCheck) => check.typeId === "MFA" && check.ignoreLegacyEndpoints;
  const hasExemptions = asking.some((policy) => index.checksOf(policy).some(exempts));
  const isLegacy = hasExemptions && (await isLegacyClient(deps, identity.id));
  const known = model.posture.reports.of(identity.id, apiSessionId);
  const now = deps.ctx.now().getTime();
  const byPolicy = new Map(
    policies.map((policy) => {
      const queries = index.checksOf(policy).map((check) => query(check, known, now, isLegacy && exempts(check)));
      const isPassing = queries.every((each) => each.isPassing);
      return [policy.id, { isPassing, policyId: policy.id, policyType: policy.type, postureQueries: queries }];
    }),
  );
  return (serviceId) => {
    const found = (["Bind", "Dial"] as const)
      .flatMap((type) => index.granting(identity, serviceId, type))
      .flatMap((policy) => byPolicy.get(policy.id) ?? []);
    return found.some((each) => each.postureQueries.length > 0) ? found : undefined;
  };
}

function query(check: PostureCheck, known: PostureState, now: number, isExempt: boolean): PostureQuery {
  const { process, processes, promptedAt, ...timing } = postureType(check.typeId).query(check, known.session, now);
  const { timeout, timeoutRemaining } = isExempt ? {} : timing;
  return {
    _links: links("posture-checks", check.id),
    createdAt: apiTime(check.createdAt),
    id: check.id,
    isPassing: passes(check, known, now),
    ...(process && { process }),
    processes: processes ?? null,
    queryType: check.typeId,
    tags: {},
    timeout: timeout ?? NO_TIMEOUT,
    timeoutRemaining: timeoutRemaining ?? NO_TIMEOUT,
    // Clients answer again when this moves.
    updatedAt: apiTime(Math.max(check.updatedAt.getTime(), promptedAt ?? 0)),
  };
}

async function isLegacyClient(deps: ApiDependencies, identityId: string): Promise<boolean> {
  const sdk = await sdkInfoOf(deps, identityId);
  if (sdk?.type !== TIMEOUT_CLIENT.type) return true;
  const parts = /^v?(\d+)\.(\d+)\.(\d+)/.exec(sdk.version ?? "");
  if (parts === null) return true;
  for (const [i, least] of TIMEOUT_CLIENT.version.entries()) {
    const part = Number(parts[i + 1]);
    if (part !== least) return part < least;
  }
  return false;
}

async function sdkInfoOf({ ctx }: ApiDependencies, identityId: string) {
  const query = ctx.store.db.selectFrom("identity_info").select("sdk_info").where("identity_id", "=", identityId);
  return (await query.executeTakeFirst())?.sdk_info;
}

export function renderPostureCheck(row: PostureCheckRow): z.input<typeof postureCheckDetail> {
  return {
    ...baseOf("posture-checks", row),
    name: row.name,
    roleAttributes: row.attrs,
    version: row.version,
    typeId: row.type_id,
    ...postureType(row.type_id).detail(storedFields(row.type_id, row.data)),
  } as z.input<typeof postureCheckDetail>;
}

/** Everything that an identity's devices and API sessions have reported. */
export async function renderPostureData(
  deps: ApiDependencies,
  identityId: string,
): Promise<z.input<typeof postureData>> {
  const { db } = deps.ctx.store;
  const { reports } = deps.model.posture;
  await deps.model.posture.ready([identityId]);
  const sessions = await db.selectFrom("api_session").select("id").where("identity_id", "=", identityId).execute();
  const sdkInfo = await sdkInfoOf(deps, identityId);
  const now = deps.ctx.now().getTime();
  const { device } = reports.of(identityId, "");
  return {
    apiSessionPostureData: Object.fromEntries(
      sessions.map(({ id }) => {
        const { session } = reports.of(identityId, id);
        const { passedMfa, passedOnUnlock, passedOnWake } = sessionState(session, now);
        const endpointState = { unlockedAt: timeOrNull(session.unlockedAt), wokenAt: timeOrNull(session.wokenAt) };
        const passedAt = timeOrNull(session.mfaPassedAt);
        const mfa = { apiSessionId: id, passedAt, passedMfa, passedOnUnlock, passedOnWake };
        return [id, { endpointState, mfa, sdkInfo }];
      }),
    ),
    ...deviceData(device),
  };
}
