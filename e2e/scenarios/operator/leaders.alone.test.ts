/** The operator's leader is killed at random points of its work: nothing is made twice, nothing is forgotten, nothing is left. */
import { randomInt } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Manifest, sample } from "../../../packages/resources/src/kinds/testing/samples.ts";
import { eventually } from "../../network/eventually.ts";
import { Random } from "../../soak/random.ts";
import { type Found, hasCluster, Stage } from "../stage.ts";
import { type Kill, Leader } from "./leader.ts";
import { type Entity, Management } from "./management.ts";

const PATIENCE_MS = 180_000;
const COUNTS = { ServiceConfig: 8, OverlayService: 16, Identity: 12, ServicePolicy: 4, EdgeRouterPolicy: 2 } as const;
const KINDS = Object.keys(COUNTS) as (keyof typeof COUNTS)[];
const ROUTERS = 2;
const TOTAL = Object.values(COUNTS).reduce((sum, count) => sum + count, 0) + 1;

describe.skipIf(!hasCluster)("the operator's leader, killed", { timeout: 600_000 }, () => {
  const seed = Number(process.env.SALLYPORT_SEED ?? randomInt(2 ** 31));
  const random = new Random(seed);
  let stage: Stage;
  let management: Management;
  let leader: Leader;

  beforeAll(async () => {
    console.info(`SALLYPORT_SEED=${seed}`);
    stage = await Stage.open("leaders");
    management = new Management(stage);
    leader = new Leader(stage.cluster);
    await stage.apply(placed(sample("Network", { external: null, managed: {} }, "main")));
    await stage.ready(300);
  }, 600_000);
  afterAll(async () => await stage?.close(), 300_000);

  const placed = ({ metadata: { name }, ...rest }: Manifest) => ({ ...rest, metadata: { name } });
  const nameOf = (kind: string, i: number): string => `${stage.namespace}-${kind.toLowerCase()}-${i}`;
  const manifests = (): Manifest[] => [
    ...KINDS.flatMap((kind) =>
      Array.from({ length: COUNTS[kind] }, (_, i) => {
        const configRefs = [{ name: nameOf("ServiceConfig", i % COUNTS.ServiceConfig) }];
        return sample(kind, kind === "OverlayService" ? { configRefs } : {}, nameOf(kind, i));
      }),
    ),
    sample("EdgeRouter", { replicas: ROUTERS, drainSeconds: 0 }, `${stage.namespace}-router`),
  ];
  const others = async () => (await stage.resources()).filter(({ kind }) => kind !== "Network");
  const readyCount = async () =>
    (await others()).filter(({ status }) =>
      status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True"),
    ).length;
  /** Kills the leader when so many resources fit, and waits for the next one. */
  const killWhen = async (how: Kill, isEnough: () => Promise<boolean>): Promise<void> => {
    await stage.explain(eventually("it is in the middle of its work", isEnough, PATIENCE_MS));
    const killed = await leader.kill(how);
    await leader.another(killed.holder);
    console.info(`killed ${killed.holder} by its ${killed.how}`);
  };

  /** Ids of a resource's entities, as its status has them. */
  const idsOf = ({ status }: Pick<Found, "status">): string[] => {
    const { id, routers } = (status ?? {}) as { id?: string; routers?: { id?: string }[] };
    return [id, ...(routers ?? []).map((each) => each.id)].filter((each) => each !== undefined);
  };
  async function expectOneOfEach(): Promise<void> {
    const found = await others();
    const uids = new Map(found.flatMap((each) => idsOf(each).map((id) => [id, each.metadata.uid])));
    const entities = await management.owned();
    expect(entities).toHaveLength(TOTAL - 1 + ROUTERS);
    for (const { id, name, tags } of entities as readonly Entity[])
      expect(uids.get(id), name).toBe(tags["sallyport-uid"]);
    expect(uids.size).toBe(entities.length);
  }

  test("while resources are applied: one entity for each, and all of them ready", async () => {
    const [first, second] = [random.between(1, TOTAL / 3), random.between(TOTAL / 3, TOTAL - ROUTERS)];
    await stage.apply(manifests().map(placed));
    await killWhen("process", async () => (await readyCount()) >= first);
    await killWhen("pod", async () => (await readyCount()) >= second);
    await stage.ready(300);
    expect(await readyCount()).toBe(TOTAL);
    await expectOneOfEach();
  });

  test("while they are deleted: nothing is left in the network or in the cluster", async () => {
    const few = random.between(1, TOTAL - 1);
    const kinds = [...KINDS, "EdgeRouter"].map((kind) => kind.toLowerCase()).join(",");
    await stage.kubectl("delete", kinds, "--all", "--wait=false");
    await killWhen("process", async () => (await others()).length <= few);
    await stage.explain(eventually("all are gone", async () => (await others()).length === 0, PATIENCE_MS));
    expect(await management.owned()).toEqual([]);
    const left = () =>
      stage.kubectl("get", "statefulset,pod,pvc", "--selector=app.kubernetes.io/name=edge-router", "--output=name");
    await eventually("their objects are collected", async () => (await left()) === "", PATIENCE_MS);
  });
});
