/** What the API server refuses, what others change and is put right, and what was there before and is adopted: a network on real pods. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { KINDS } from "../../../operator/src/resources/kinds.ts";
import { REFUSALS } from "../../../operator/src/resources/testing/refusals.ts";
import { sample } from "../../../operator/src/resources/testing/samples.ts";
import { eventually } from "../../network/eventually.ts";
import { DRIFT_CASES } from "../../operator/drift-cases.ts";
import { oneOfEach } from "../../operator/one-of-each.ts";
import { hasCluster, Stage } from "../stage.ts";
import { type Entity, Management } from "./management.ts";

const PATIENCE_MS = 180_000;
/** A rule of each kind. */
const REFUSED = KINDS.flatMap(
  ({ kind }) => REFUSALS.findLast((each) => each.kind === kind && each.rule === "rule" && !each.previous) ?? [],
);

describe.skipIf(!hasCluster)("resources that others change", { timeout: 600_000 }, () => {
  let stage: Stage;
  let management: Management;
  let prefix: string;

  beforeAll(async () => {
    stage = await Stage.open("drift");
    prefix = stage.namespace;
    management = new Management(stage);
    await stage.apply([sample("Network", { external: null, managed: {} }, "main"), ...manifests()].map(placed));
    await stage.ready(300);
  }, 600_000);
  afterAll(async () => await stage?.close(), 300_000);

  /** In the stage's namespace. */
  const placed = ({ metadata: { name }, ...rest }: ReturnType<typeof sample>) => ({ ...rest, metadata: { name } });
  const nameOf = (kind: string): string => `${prefix}-${kind.toLowerCase()}`;
  /** With the specs for which it is known what somebody changes. */
  const manifests = () =>
    oneOfEach(prefix, { roleAttributes: ["public"] }).map((each) => {
      const { spec = {} } = DRIFT_CASES.find(({ kind }) => kind === each.kind) ?? {};
      const isPolicy = each.kind.endsWith("Policy");
      return { ...each, spec: isPolicy ? each.spec : { ...each.spec, ...spec } };
    });

  /** Has everything looked at, and waits until it was. */
  const lookAgain = async (): Promise<void> => {
    const at = new Date().toISOString();
    await stage.kubectl("annotate", "--overwrite", "overlay", "--all", `sallyport.dev/reconcile-requested-at=${at}`);
    await stage.explained(
      ...["wait", `--for=jsonpath={.status.lastHandledReconcileAt}=${at}`, "overlay", "--all", "--timeout=300s"],
    );
  };

  test.each(REFUSED)(
    "$kind: what breaks a rule is refused by the CRD itself: $message",
    async ({ object, message }) => {
      const apply = ["apply", "--server-side", "--dry-run=server", "--filename=-"];
      const { code, stderr } = await stage.cluster.attempt(apply, stringify(object));
      expect(code).toBe(1);
      expect(stderr).toContain(message);
    },
  );

  test("what may not change is refused, and nothing of it is followed", async () => {
    const scope = JSON.stringify({ spec: { roleScope: "Namespaced" } });
    await expect(stage.kubectl("patch", "network/main", "--type=merge", "--patch", scope)).rejects.toThrow(
      /roleScope is immutable/,
    );
  });

  test("entities of every kind are put right, and come back", async () => {
    const { metadata } = await stage.get("overlayservice", nameOf("OverlayService"));
    const before = new Map((await management.owned()).map((each) => [each.kind, each]));
    expect([...before.keys()].toSorted()).toEqual(
      KINDS.map(({ kind }) => kind)
        .filter((kind) => kind !== "Network")
        .toSorted(),
    );
    const idOf = (kind: string) => before.get(kind)?.id;
    const changed = DRIFT_CASES.filter(({ kind }) => kind !== "ServicePolicy");
    const answers = await management.ask(
      ...changed.map(
        ({ kind, path, change }) => ({ method: "PATCH", path: `/${path}/${idOf(kind)}`, body: change }) as const,
      ),
      { method: "PATCH", path: `/edge-routers/${idOf("EdgeRouter")}`, body: { name: "stolen", noTraversal: true } },
      { method: "DELETE", path: `/service-policies/${idOf("ServicePolicy")}` },
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    await lookAgain();
    await stage.ready(300);
    const after = new Map((await management.owned()).map((each) => [each.kind, each]));
    const essence = (entity: Entity | undefined, fields: readonly string[]) => fields.map((field) => entity?.[field]);
    for (const { kind, change } of changed) {
      expect(after.get(kind)?.id, kind).toBe(idOf(kind));
      const fields = ["name", "tags", ...Object.keys(change)];
      expect(essence(after.get(kind), fields), kind).toEqual(essence(before.get(kind), fields));
    }
    const router = ["id", "name", "roleAttributes", "noTraversal", "isOnline"];
    expect(essence(after.get("EdgeRouter"), router)).toEqual(essence(before.get("EdgeRouter"), router));
    expect(after.get("ServicePolicy")?.id).toMatch(/./);
    expect(after.get("ServicePolicy")?.id).not.toBe(idOf("ServicePolicy"));
    // Of the resources nothing was written but their status.
    const { metadata: later } = await stage.get("overlayservice", nameOf("OverlayService"));
    expect(later.generation).toBe(metadata.generation);
  });

  test("objects in the cluster are put right at once, and the router is there again", async () => {
    const router = `${prefix}-edgerouter-0`;
    const patch = async (what: string, change: object): Promise<void> =>
      void (await stage.kubectl("patch", what, "--type=merge", "--patch", JSON.stringify(change)));
    const field = (what: string, path: string) => stage.kubectl("get", what, `--output=jsonpath=${path}`);
    const parts: readonly (readonly [what: string, path: string, change: object])[] = [
      [`service/${router}-edge`, "{.spec.selector}", { spec: { selector: { app: "stolen" } } }],
      [`configmap/${router}-config`, "{.data}", { data: { "router.yml": "v: 3\n" } }],
      [`statefulset/${router}`, "{.spec.replicas}", { spec: { replicas: 0 } }],
      ["service/main-controller", "{.spec.selector}", { spec: { selector: { app: "stolen" } } }],
      ["configmap/main-ca", "{.data}", { data: { "ca.crt": "nothing" } }],
    ];
    for (const [what, path, change] of parts) {
      const before = await field(what, path);
      await patch(what, change);
      const isMended = async () => (await field(what, path)) === before;
      await stage.explain(eventually(`${what} is put right`, isMended, PATIENCE_MS));
    }
    const uid = await field(`service/${router}-edge`, "{.metadata.uid}");
    await stage.kubectl("delete", `service/${router}-edge`);
    const isBack = async () => (await field(`service/${router}-edge`, "{.metadata.uid}")) !== uid;
    await stage.explain(eventually("the Service is back", isBack, PATIENCE_MS));
    await stage.ready(300);
    expect((await stage.health()).filter(({ health }) => health !== "Current")).toEqual([]);
  });

  test("what was there before is adopted by its id, and by its name where that is asked for", async () => {
    const byId = await management.make("services", { name: `${prefix}-by-id`, encryptionRequired: true });
    const byName = await management.make("services", { name: `${prefix}-by-name`, encryptionRequired: true });
    const service = (name: string, spec: object) =>
      placed(sample("OverlayService", { name: `${prefix}-${name}`, ...spec }, name));
    await stage.apply([service("by-id", { importId: byId }), service("by-name", {})]);
    await stage.wait("condition=Ready", "overlayservice/by-id", 300);
    await stage.wait("condition=Stalled", "overlayservice/by-name", 300);
    expect(await stage.condition("overlayservice", "by-name", "Ready")).toMatchObject({ reason: "NameConflict" });
    await stage.apply(service("by-name", { managementPolicy: "Adopt", deletionPolicy: "Orphan" }));
    await stage.wait("condition=Ready", "overlayservice/by-name", 300);
    for (const [name, id] of [
      ["by-id", byId],
      ["by-name", byName],
    ] as const) {
      const { metadata, status } = await stage.get("overlayservice", name);
      expect((status as { id?: string }).id, name).toBe(id);
      const [answer] = await management.ask({ method: "GET", path: `/services/${id}` });
      expect(answer?.data, name).toMatchObject({ tags: { "sallyport-uid": metadata.uid } });
      const about = `involvedObject.uid=${metadata.uid},reason=Adopted`;
      const events = () => stage.kubectl("get", "events", `--field-selector=${about}`, "--output=name");
      await eventually(`${name} has an event`, async () => (await events()) !== "", PATIENCE_MS);
    }
    await stage.kubectl("delete", "overlayservice/by-id", "overlayservice/by-name", "--timeout=300s");
    const [first, second] = await management.ask(
      { method: "GET", path: `/services/${byId}` },
      { method: "GET", path: `/services/${byName}` },
    );
    expect([first?.status, second?.status]).toEqual([404, 200]);
    expect(second?.data.tags).toEqual({});
  });
});
