import { join } from "node:path";
import { pause } from "@sallyport/async";
import { ReplicatedServers } from "../../../controller/src/store/testing/replicated-servers.ts";
import { emit } from "../../dataplane/figure.ts";
import { ControllerSet, type Member } from "../controller-set.ts";
import { post } from "../requests.ts";
import { startRouters, stopAll } from "../router-programs.ts";
import type { Row } from "../row.ts";
import { longestGap, Traffic } from "../traffic.ts";

const CONTROLLERS = 3;
const CIRCUITS_PER_SECOND = 10;
const LIMIT_MS = 120_000;
const CALM_MS = 3_000;
/** How long nothing takes writes. */
const OUTAGE_MS = 4_000;
const LOOK_MS = 20;
const PATIENCE_MS = 60_000;

/** The primary is lost, and the standby promoted: once the primary's processes end, once they stand still and say nothing. */
export const databaseFailover: Row = async (folder) => {
  for (const [of, name] of [
    ["the primary was killed", "killed"],
    ["the primary fell silent", "silent"],
  ] as const) {
    await failOver(join(folder, name), of, name === "silent");
  }
};

async function failOver(folder: string, of: string, isSilent: boolean): Promise<void> {
  const servers = await ReplicatedServers.start();
  try {
    const set = await ControllerSet.startOn(servers.url(), folder, CONTROLLERS);
    try {
      const routers = await startRouters(set, folder, 2);
      try {
        const traffic = await Traffic.start(set, folder);
        try {
          await measure(servers, set, traffic, of, isSilent);
        } finally {
          await traffic.close();
        }
      } finally {
        await stopAll(routers);
      }
    } finally {
      await set.stop();
    }
  } finally {
    if (isSilent) servers.first.thaw();
    await servers.stop();
  }
}

async function measure(
  { first, second }: ReplicatedServers,
  set: ControllerSet,
  traffic: Traffic,
  of: string,
  isSilent: boolean,
): Promise<void> {
  let isOver = false;
  const dials = traffic.dial(CIRCUITS_PER_SECOND, LIMIT_MS, () => isOver);
  dials.catch(() => undefined);
  await pause(CALM_MS);
  const lostAt = performance.now();
  await (isSilent ? first.freeze() : first.kill());
  await pause(OUTAGE_MS);
  await second.promote();
  const promotedAt = await takesWrites(second);
  const each = await Promise.all(set.members.map((member) => writes(member, promotedAt)));
  const wroteAt = performance.now();
  await pause(CALM_MS);
  isOver = true;
  const dialled = await dials;

  emit({
    ...{ figure: "from the promotion until every controller writes again", of },
    ...{ value: Math.max(...each) / 1_000, unit: "s", target: { atMost: 5 } },
    details: { seconds: each.map((ms) => Math.round(ms / 10) / 100) },
  });
  emit({
    ...{ figure: "open circuits that ended", of, value: traffic.ended, unit: "circuits", target: { atMost: 0 } },
    details: { longestSilenceMs: Math.round(traffic.longestSilenceMs) },
  });
  emit({
    ...{ figure: "failed new circuits of a session, with one retry", of },
    ...{ value: dialled.failures.length, unit: "circuits", target: { atMost: 0 } },
    details: {
      made: dialled.at.length,
      madeWithoutDatabase: dialled.at.filter((at) => at > lostAt && at < promotedAt).length,
      madeUntilAllWrote: dialled.at.filter((at) => at > lostAt && at < wroteAt).length,
      longestWithoutMs: Math.round(longestGap(dialled.at, wroteAt)),
      failures: [...new Set(dialled.failures)].slice(0, 3),
    },
  });
}

/** Resolves with the milliseconds from `since` until the controller has written. */
async function writes({ id, client }: Member, since: number): Promise<number> {
  for (let n = 0; performance.now() - since < PATIENCE_MS; n++) {
    const isWritten = await client
      .ask(post("/services", { name: `after-${id}-${n}`, encryptionRequired: true }))
      .then(() => true)
      .catch(() => false);
    if (isWritten) return performance.now() - since;
    await pause(LOOK_MS);
  }
  throw new Error(`${id} does not write again`);
}

/** Waits until the server takes writes; resolves with the moment. */
async function takesWrites(server: ReplicatedServers["second"]): Promise<number> {
  for (;;) {
    const [row] = await server.query<{ standby: boolean }>("SELECT pg_is_in_recovery() AS standby");
    if (row?.standby === false) return performance.now();
    await pause(LOOK_MS);
  }
}
