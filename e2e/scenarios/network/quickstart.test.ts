/** The front door, as a user goes through it: `kubectl apply -k examples/quickstart`, and everything that kubectl tells about it. */
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { healthOf } from "../../../operator/src/kube/conditions.ts";
import { printFigure, secondsToOnline } from "../figures.ts";
import { RESTRICTED_POD } from "../restricted.ts";
import { ROOT } from "../root.ts";
import { type Found, hasCluster, imageOf, Stage } from "../stage.ts";
import { clientOf } from "./client.ts";
import { declare } from "./every-kind.ts";

const QUICKSTART = join(ROOT, "examples/quickstart");
const PATIENCE = { timeout: 300_000, interval: 1_000 };

describe.skipIf(!hasCluster)("the quickstart", () => {
  // The folder makes the namespace.
  const stage = Stage.of("quickstart");
  const { cluster } = stage;
  const keyed = (objects: readonly Found[]) =>
    Object.fromEntries(objects.map(({ kind, metadata: m }) => [`${kind}/${m.name}`, m.resourceVersion]));
  const shown = async (...args: string[]) => (await stage.kubectl("get", ...args)).replaceAll(/ +/g, " ");
  const { hello, firstAnswer } = clientOf(() => stage);

  afterAll(async () => await stage.close());

  test("one apply gives a whole network: every kind passes kubectl wait, and bytes go through the service", async () => {
    const began = performance.now();
    const applied = await cluster.kubectl(["apply", "-k", QUICKSTART]);
    expect(applied).toContain("network.sallyport.dev/main created");
    const first = (await stage.resources()).map((each) => healthOf(each).health);
    expect(first.length).toBeGreaterThan(10);
    expect(first, "what was declared a moment ago is never taken for done").toContain("InProgress");
    expect(await firstAnswer()).toBe("hello from the overlay\n");
    const seconds = (performance.now() - began) / 1000;
    printFigure({ scenario: "quickstart", what: "apply to first answered request", seconds, target: 60 });
    await stage.ready();
    await stage.explained("wait", "--for=condition=Available", "deployment", "--all", "--timeout=300s");
    for (const router of ["edge-0", "edge-1"]) {
      const what = `${router}: pod created to online`;
      printFigure({ scenario: "quickstart", what, seconds: await secondsToOnline(stage, router), target: 10 });
    }
    expect(await shown("edgerouter", "edge", "--output=jsonpath={.status.routers[*].online}")).toBe("true true");
    for (const { kind, name, health, message } of await stage.health())
      expect(health, `${kind} ${name}: ${message}`).toBe("Current");
    // A program by its name, without a shell.
    expect(await stage.kubectl("exec", "edge-0-0", "--container=router", "--", "sallyport-router", "status")).toContain(
      "edge-0",
    );
    // Nothing else leads there.
    const [host] = await stage.pods("app.kubernetes.io/name=hello");
    await expect(stage.fetchFrom(host!, 8080)).rejects.toThrow(/fetch failed|refused/);
  });

  test("get shows the state of every resource", async () => {
    expect(await shown("onet")).toMatch(/^NAME READY REASON CONTROLLERS VERSION AGE\nmain True Ready v1\.6\.20 /);
    expect(await shown("oer")).toMatch(
      /^NAME READY REASON DESIRED ONLINE ADDRESS AGE\nedge True Online 2 2 edge-0-edge\.quickstart\.svc:3022 /,
    );
    expect(await shown("oid")).toMatch(/\nhello-host True Enrolled Default true 20\d\d-\S+Z /);
    expect(await shown("oid")).toMatch(/\nlaptop True TokenPublished Device false /);
    expect(await shown("osp")).toMatch(/\nhello-bind True Synced Bind AnyOf .*\nhello-dial True Synced Dial AnyOf /);
    await expect.poll(() => shown("osvc"), PATIENCE).toMatch(/\nhello True Synced true /);
    await expect
      .poll(() => shown("osp", "--output=wide"), PATIENCE)
      .toMatch(/\nhello-dial True Synced Dial AnyOf 2 1 \S+ the network has it as in the spec /);
  });

  test("a second apply changes nothing, and there is no difference", async () => {
    const before = keyed(await stage.resources());
    const applied = await cluster.kubectl(["apply", "-k", QUICKSTART]);
    const changed = applied.trim().split("\n");
    expect(changed.filter((line) => !line.endsWith(" unchanged"))).toEqual([]);
    expect(await cluster.attempt(["diff", "-k", QUICKSTART])).toMatchObject({ code: 0, stdout: "" });
    // Even being asked to look again changes nothing but the answer to that.
    const children = "statefulset,service,configmap,secret,pvc,pdb,serviceaccount";
    const objects = await stage.settled(children);
    await stage.kubectl("annotate", "overlay", "--all", "sallyport.dev/reconcile-requested-at=now");
    const answered = "--for=jsonpath={.status.lastHandledReconcileAt}=now";
    await stage.explained("wait", answered, "overlay", "--all", "--timeout=300s");
    await stage.ready();
    expect(Object.keys(keyed(await stage.resources()))).toEqual(Object.keys(before));
    expect(await stage.versions(children)).toEqual(objects);
    expect(await cluster.attempt(["diff", "-k", QUICKSTART])).toMatchObject({ code: 0, stdout: "" });
    expect(await hello()).toBe("hello from the overlay\n");
  });

  test("a device enrolls with the token in its Secret, and its Identity says so", async () => {
    await stage.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "laptop" },
      spec: {
        restartPolicy: "Never",
        automountServiceAccountToken: false,
        securityContext: RESTRICTED_POD,
        containers: [
          {
            name: "tunnel",
            image: imageOf("tunnel"),
            args: ["enroll", "--jwt", "/token/enrollment.jwt", "-o", "/tmp/laptop.json"],
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
            volumeMounts: [{ name: "token", mountPath: "/token", readOnly: true }],
          },
        ],
        volumes: [{ name: "token", secret: { secretName: "laptop-enrollment" } }],
      },
    });
    await stage.wait("jsonpath={.status.phase}=Succeeded", "pod/laptop");
    await stage.kubectl("annotate", "--overwrite", "identity/laptop", "sallyport.dev/reconcile-requested-at=enrolled");
    await stage.explain(
      expect.poll(() => shown("oid", "laptop"), PATIENCE).toMatch(/\nlaptop True Enrolled Device true /),
    );
  });

  test("a mistake beside it does it no harm, and a Network that waits to be deleted goes on working", async () => {
    await declare(stage, "EdgeRouter", "no-image", { image: "sallyport/router:none" });
    await stage.explain(
      expect
        .poll(async () => (await stage.condition("edgerouter", "no-image", "Ready"))?.reason, PATIENCE)
        .toBe("PodFailing"),
    );
    await stage.kubectl("delete", "network.sallyport.dev", "main", "--wait=false");
    await stage.wait("condition=DeletionBlocked", "network/main");
    expect(healthOf(await stage.get("network", "main")).health).toBe("Terminating");
    expect(await stage.kubectl("describe", "network.sallyport.dev", "main")).toContain(
      "sallyport.dev/force-orphan=true",
    );
    expect(healthOf(await stage.get("edgerouter", "edge")).health).toBe("Current");
    expect(await hello()).toBe("hello from the overlay\n");
  });

  test("delete takes everything away, in whatever state it is, and does not hang", async () => {
    const volumes = async () => {
      const found = await cluster.kubectl([
        "get",
        "persistentvolume",
        "--output=jsonpath={.items[*].spec.claimRef.namespace}",
      ]);
      return found.split(" ").filter((namespace) => namespace === "quickstart");
    };
    expect(await volumes()).not.toEqual([]);
    await stage.explain(cluster.kubectl(["delete", "-k", QUICKSTART, "--timeout=300s"]));
    expect((await cluster.attempt(["get", "namespace", "quickstart"])).stderr).toContain("not found");
    expect(await stage.resources()).toEqual([]);
    await expect.poll(volumes, PATIENCE).toEqual([]);
  });

  test("the operator has logged no fault of its own, and no secret", async () => {
    const said = (await stage.operatorLog()).split("\n");
    const about = said.filter((line) => line.includes('"quickstart') || line.includes("quickstart/"));
    expect(about.length).toBeGreaterThan(0);
    expect(about.filter((line) => line.includes('"level":"error"') || line.includes("InternalError"))).toEqual([]);
    expect(said.filter((line) => /PRIVATE KEY|eyJhbGciOi/.test(line))).toEqual([]);
  });
});
