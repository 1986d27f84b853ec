/** A minute without a controller, whose pod finds no node: nothing is restarted, conditions say so, circuits go on, and all is well when it is back. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sample } from "../../../operator/src/resources/testing/samples.ts";
import { eventually } from "../../network/eventually.ts";
import { hasCluster, imageOf, Stage } from "../stage.ts";

const OUTAGE_MS = 60_000;
const PATIENCE_MS = 180_000;

/** Asks again and again over one connection, which is one circuit; prints every answer, and on how many connections there were any. */
const CALLER = `
const { Agent, get } = require("node:http");
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const sockets = new Set();
let answers = 0;
const ask = () => {
  const sent = get(process.env.URL, { agent, timeout: 60000 }, (answer) => {
    sockets.add(answer.socket);
    answer.resume().on("end", () => {
      console.log(JSON.stringify({ answers: ++answers, sockets: sockets.size }));
      setTimeout(ask, 250);
    });
  });
  sent.on("timeout", () => sent.destroy(new Error("no answer")));
  sent.on("error", ({ message }) => {
    console.log(JSON.stringify({ failed: message }));
    setTimeout(ask, 250);
  });
};
process.on("SIGTERM", () => process.exit());
ask();`;

interface PodList {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly uid: string };
    readonly status?: { readonly containerStatuses?: readonly { readonly restartCount: number }[] };
  }[];
}

describe.skipIf(!hasCluster)("a minute without a controller", { timeout: 600_000 }, () => {
  let stage: Stage;
  let label: string;

  beforeAll(async () => {
    stage = await Stage.open("outage");
    // The controller has a node only as long as one carries this label.
    label = `${stage.namespace}.sallyport.test/controller`;
    await stage.cluster.kubectl(["label", "nodes", "--all", `${label}=here`]);
    const template = { spec: { nodeSelector: { [label]: "here" } } };
    const network = sample("Network", { external: null, managed: { template } }, "main");
    await stage.apply({ ...network, metadata: { name: "main" } });
    await stage.applyFolder("examples/quickstart");
    await stage.ready(300);
    const deployments = ["wait", "--for=condition=Available", "deployments", "--all", "--timeout=300s"];
    await stage.explained(...deployments);
    await stage.apply(await callerPod());
    await stage.wait("condition=Ready", "pod/caller", 300);
    await stage.explain(eventually("it has answers", async () => (await calls()).answers > 0, PATIENCE_MS));
  }, 600_000);
  afterAll(async () => {
    try {
      await stage?.close();
    } finally {
      if (label) await stage.cluster.kubectl(["label", "nodes", "--all", `${label}-`]);
    }
  }, 300_000);

  async function callerPod(): Promise<object> {
    const [client] = await stage.pods("app.kubernetes.io/name=hello-client");
    const ip = await stage.kubectl("get", "pod", client ?? "", "--output=jsonpath={.status.podIP}");
    return {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "caller" },
      spec: {
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: "RuntimeDefault" } },
        containers: [
          {
            name: "caller",
            image: imageOf("tunnel"),
            command: ["/usr/local/bin/node", "-e", CALLER],
            env: [{ name: "URL", value: `http://${ip}:8080/` }],
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
          },
        ],
      },
    };
  }
  /** How many answers the caller had, over how many connections; and what went wrong. */
  async function calls(): Promise<{ answers: number; sockets: number; failures: string[] }> {
    const lines = (await stage.kubectl("logs", "caller")).trim().split("\n");
    const told = lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Record<string, number | string>);
    const last = told.findLast((each) => each.answers !== undefined);
    return {
      answers: Number(last?.answers ?? 0),
      sockets: Number(last?.sockets ?? 0),
      failures: told.flatMap(({ failed }) => (failed === undefined ? [] : [String(failed)])),
    };
  }
  /** Which pods there are besides the controller's, and how often their containers were started. */
  const others = async (): Promise<Record<string, string>> => {
    const { items } = JSON.parse(await stage.kubectl("get", "pods", "--output=json")) as PodList;
    return Object.fromEntries(
      items
        .filter(({ metadata }) => metadata.name !== "main-controller-0")
        .map(({ metadata, status }) => {
          const restarts = status?.containerStatuses?.map(({ restartCount }) => restartCount).join();
          return [metadata.name, `${metadata.uid} ${restarts}`];
        }),
    );
  };

  test("goes by without a restart, and new things wait for its end", async () => {
    const before = { pods: await others(), calls: await calls() };
    expect(Object.keys(before.pods).length).toBe(5);
    const shown = async () =>
      Object.fromEntries(
        (await stage.resources())
          .filter(({ kind, metadata }) => kind !== "Network" && metadata.name !== "later")
          .map(({ kind, metadata, status }) => [`${kind}/${metadata.name}`, status?.conditions]),
      );
    const conditions = await shown();

    await stage.cluster.kubectl(["label", "nodes", "--all", `${label}-`]);
    await stage.kubectl("delete", "pod/main-controller-0");
    await stage.wait("condition=Ready=False", "network/main", 300);
    const ready = async () => await stage.condition("network", "main", "Ready");
    await eventually(
      "the Network says why",
      async () => {
        expect((await ready())?.reason).toBe("ControllerStarting");
        expect((await ready())?.message).toMatch(/has no node yet: .*node/);
        return true;
      },
      PATIENCE_MS,
    );
    const later = sample("OverlayService", { name: `${stage.namespace}-later` }, "later");
    await stage.apply({ ...later, metadata: { name: "later" } });
    await stage.wait("condition=Reconciling", "overlayservice/later", 300);
    expect((await stage.condition("overlayservice", "later", "Ready"))?.message).toContain("the Network main");

    const since = Date.parse((await ready())?.lastTransitionTime ?? "");
    await stage.explain(
      eventually(
        "the outage has lasted a minute",
        async () => {
          expect(await others()).toEqual(before.pods);
          return Date.now() - since >= OUTAGE_MS;
        },
        10 * OUTAGE_MS,
      ),
    );
    expect((await ready())?.lastTransitionTime).toBe(new Date(since).toISOString().replace(".000", ""));
    // What was ready is shown as it was: nobody knows better.
    expect(await shown()).toEqual(conditions);
    const during = await calls();
    expect(during.answers).toBeGreaterThan(before.calls.answers + 60);
    expect(during).toMatchObject({ sockets: 1, failures: [] });

    await stage.cluster.kubectl(["label", "nodes", "--all", `${label}=here`]);
    await stage.ready(300);
    await stage.wait("jsonpath={.status.onlineReplicas}=2", "edgerouter/edge", 300);
    expect((await stage.health()).filter(({ health }) => health !== "Current")).toEqual([]);
    expect(await others()).toEqual(before.pods);
    const [client] = await stage.pods("app.kubernetes.io/name=hello-client");
    const hello = async () => await stage.fetchFrom(client ?? "", 8080);
    expect(await eventually("new circuits", hello, PATIENCE_MS)).toBe("hello from the overlay\n");
    expect(await calls()).toMatchObject({ sockets: 1, failures: [] });
  });
});
