/** The operator corrects what others change, in the network and in the cluster: a network on real pods. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KINDS } from "../../../operator/src/resources/kinds.ts";
import { sample } from "../../../operator/src/resources/testing/samples.ts";
import { eventually } from "../../network/eventually.ts";
import { DRIFT_CASES } from "../../operator/drift-cases.ts";
import { oneOfEach } from "../../operator/one-of-each.ts";
import { hasCluster, Stage } from "../stage.ts";
import { type Entity, Management } from "./management.ts";

const PATIENCE_MS = 180_000;
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
});
