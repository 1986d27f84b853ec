import {
  apiTime,
  orNull,
  type osType,
  type postureCheckDetail,
  type postureData,
  type postureQueries,
} from "@sallyport/api";
import type { z } from "zod";
import { timeOrNull } from "../../model/posture/failed-requests.ts";
import { checkOf, type PostureCheckRow } from "../../model/posture/stored-check.ts";
import {
  mfaRemainingSeconds,
  mfaState,
  NOTHING_REPORTED,
  type Posture,
  type PostureCheck,
  passes,
  promptedAt,
  type Report,
} from "../../policy/posture.ts";
import type { Attributed } from "../../policy/selector.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { baseOf } from "./base.ts";
import { links } from "./links.ts";

type PostureQueries = z.input<typeof postureQueries>;
type PostureQuery = PostureQueries["postureQueries"][number];
type OsName = z.infer<typeof osType>;

/** The posture queries of a service by its id; undefined for one of which no policy asks anything. */
export type PostureLens = (serviceId: string) => PostureQueries[] | undefined;

const NO_TIMEOUT = -1;
/** The first version of the client whose MFA can time out. */
const TIMEOUT_CLIENT = { type: "ziti-sdk-c", version: [0, 25, 0] } as const;

/** What the policies of an identity ask, as one of its API sessions sees it. */
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

function query(check: PostureCheck, known: Posture, now: number, isExempt: boolean): PostureQuery {
  const event = check.typeId === "MFA" ? (promptedAt(check, known.session) ?? 0) : 0;
  const isTimed = check.typeId === "MFA" && !isExempt;
  return {
    _links: links("posture-checks", check.id),
    createdAt: apiTime(check.createdAt),
    id: check.id,
    isPassing: passes(check, known, now),
    ...(check.typeId === "PROCESS" ? { process: { osType: check.process.osType, path: check.process.path } } : {}),
    processes: check.typeId === "PROCESS_MULTI" ? check.processes.map(({ osType, path }) => ({ osType, path })) : null,
    queryType: check.typeId,
    tags: {},
    timeout: isTimed && check.timeoutSeconds > 0 ? check.timeoutSeconds : NO_TIMEOUT,
    timeoutRemaining: isTimed ? mfaRemainingSeconds(check, known.session, now) : NO_TIMEOUT,
    // Clients answer again when this moves.
    updatedAt: apiTime(Math.max(check.updatedAt.getTime(), event)),
  };
}

async function isLegacyClient(deps: ApiDependencies, identityId: string): Promise<boolean> {
  const row = await deps.ctx.store.db
    .selectFrom("identity_info")
    .select("sdk_info")
    .where("identity_id", "=", identityId)
    .executeTakeFirst();
  if (row?.sdk_info.type !== TIMEOUT_CLIENT.type) return true;
  const parts = /^v?(\d+)\.(\d+)\.(\d+)/.exec(row.sdk_info.version ?? "");
  if (parts === null) return true;
  for (const [i, least] of TIMEOUT_CLIENT.version.entries()) {
    const part = Number(parts[i + 1]);
    if (part !== least) return part < least;
  }
  return false;
}

export function renderPostureCheck(row: PostureCheckRow): z.input<typeof postureCheckDetail> {
  const check = checkOf(row);
  const common = {
    ...baseOf("posture-checks", row),
    name: row.name,
    roleAttributes: row.attrs,
    version: row.version,
  };
  switch (check.typeId) {
    case "OS":
      return {
        ...common,
        typeId: "OS",
        operatingSystems: check.operatingSystems.map(({ type, versions }) => ({
          type: type as OsName,
          versions: orNull(versions),
        })),
      };
    case "DOMAIN":
      return { ...common, typeId: "DOMAIN", domains: [...check.domains] };
    case "MAC":
      return { ...common, typeId: "MAC", macAddresses: [...check.macAddresses] };
    case "PROCESS": {
      const { osType, hashes, ...process } = check.process;
      return {
        ...common,
        typeId: "PROCESS",
        process: { ...process, osType: osType as OsName, hashes: orNull(hashes) },
      };
    }
    case "PROCESS_MULTI":
      return {
        ...common,
        typeId: "PROCESS_MULTI",
        semantic: check.semantic,
        processes: check.processes.map(({ osType, path, hashes, signerFingerprints }) => ({
          osType: osType as OsName,
          path,
          hashes: [...hashes],
          signerFingerprints: [...signerFingerprints],
        })),
      };
    case "MFA": {
      const { timeoutSeconds, promptOnWake, promptOnUnlock, ignoreLegacyEndpoints } = check;
      return { ...common, typeId: "MFA", timeoutSeconds, promptOnWake, promptOnUnlock, ignoreLegacyEndpoints };
    }
  }
}

/** An MFA check with every prompt: what it says of a session is what there is to say of its events. */
const ANY_PROMPT = {
  id: "",
  name: "",
  createdAt: new Date(0),
  updatedAt: new Date(0),
  typeId: "MFA",
  timeoutSeconds: NO_TIMEOUT,
  promptOnWake: true,
  promptOnUnlock: true,
  ignoreLegacyEndpoints: false,
} as const satisfies PostureCheck;

/** All that is known of the devices of an identity and of its API sessions. */
export async function renderPostureData(
  deps: ApiDependencies,
  identityId: string,
): Promise<z.input<typeof postureData>> {
  const { db } = deps.ctx.store;
  const { reports } = deps.model.posture;
  await deps.model.posture.ready([identityId]);
  const sessions = await db.selectFrom("api_session").select("id").where("identity_id", "=", identityId).execute();
  const info = await db
    .selectFrom("identity_info")
    .select("sdk_info")
    .where("identity_id", "=", identityId)
    .executeTakeFirst();
  const now = deps.ctx.now().getTime();
  const { device } = reports.of(identityId, "");
  const { os, domain, mac, processes } = { ...NOTHING_REPORTED.device, ...device };
  return {
    apiSessionPostureData: Object.fromEntries(
      sessions.map(({ id }) => {
        const { session } = reports.of(identityId, id);
        const { passedMfa, passedOnUnlock, passedOnWake } = mfaState(ANY_PROMPT, session, now);
        return [
          id,
          {
            endpointState: { unlockedAt: timeOrNull(session.unlockedAt), wokenAt: timeOrNull(session.wokenAt) },
            mfa: {
              apiSessionId: id,
              passedAt: timeOrNull(session.mfaPassedAt),
              passedMfa,
              passedOnUnlock,
              passedOnWake,
            },
            ...(info === undefined ? {} : { sdkInfo: info.sdk_info }),
          },
        ];
      }),
    ),
    domain: { ...reported(domain), domain: domain?.domain ?? "" },
    mac: { ...reported(mac), addresses: [...(mac?.addresses ?? [])] },
    os: { ...reported(os), build: os?.build ?? "", type: os?.type ?? "", version: os?.version ?? "" },
    processes: processes.map((each) => ({
      ...reported(each),
      binaryHash: each.hash,
      isRunning: each.isRunning,
      path: each.path,
      signerFingerprints: [...each.signerFingerprints],
    })),
  };
}

function reported(report: Report | undefined) {
  return { lastUpdatedAt: timeOrNull(report?.at), postureCheckId: report?.checkId ?? "", timedOut: false };
}
