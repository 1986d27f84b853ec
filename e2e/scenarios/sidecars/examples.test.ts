/** Applications with a tunneler as native sidecar, and with the SDK, by the manifests of examples/ on the network of examples/quickstart. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { eventually } from "../../network/eventually.ts";
import { ROOT } from "../root.ts";
import { hasCluster, imageOf, Stage } from "../stage.ts";

const EXAMPLE = "examples/sidecar-proxy";
/** More than ten times what a quiet machine needs. */
const PATIENCE_S = 300;
const PATIENCE_MS = PATIENCE_S * 1_000;
const DEPLOYMENTS = ["orders", "shop", "kiosk", "greetings-server", "greetings-client"];

interface ContainerStatus {
  readonly name: string;
  readonly started?: boolean;
  readonly restartCount: number;
  readonly state: {
    readonly waiting?: { readonly reason: string };
    readonly running?: { readonly startedAt: string };
    readonly terminated?: { readonly exitCode: number; readonly finishedAt: string };
  };
}

interface Pod {
  readonly metadata: { readonly name: string };
  readonly status: {
    readonly initContainerStatuses: readonly ContainerStatus[];
    readonly containerStatuses: readonly ContainerStatus[];
  };
}

interface Job {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly template: { readonly spec: PodSpec } };
}

interface PodSpec {
  readonly initContainers: readonly { image: string; args: string[] }[];
  readonly containers: readonly { image: string }[];
}

describe.skipIf(!hasCluster)("an application on the network", { timeout: 2 * PATIENCE_MS }, () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open("sidecars");
    await stage.applyFolder("examples/quickstart");
    await stage.ready(PATIENCE_S);
    await stage.applyFolder(EXAMPLE);
    await stage.applyFolder("examples/sdk-app");
    await stage.ready(PATIENCE_S);
    for (const name of DEPLOYMENTS) await stage.wait("condition=Available", `deployment/${name}`, PATIENCE_S);
  }, 3 * PATIENCE_MS);
  afterAll(async () => await stage?.close(), PATIENCE_MS);

  const podOf = async (app: string): Promise<string> => {
    const [pod = ""] = await stage.pods(`app.kubernetes.io/name=${app}`);
    return pod;
  };
  const answerOf = async (app: string): Promise<string> =>
    await stage.explain(
      eventually(`an answer of ${app}`, async () => await stage.fetchFrom(await podOf(app), 8080), PATIENCE_MS),
    );
  const statusOf = async (pod: string) => {
    const { status } = await stage.get<Pod>("pod", pod);
    const sidecar = status.initContainerStatuses.find(({ name }) => name === "tunnel");
    const [application] = status.containerStatuses;
    if (sidecar === undefined || application === undefined) throw new Error(`${pod} has no sidecar or no application`);
    return { sidecar, application };
  };

  test("has it as a port of the loopback, in a namespace that is restricted", async () => {
    expect(await answerOf("shop")).toBe("the shop has three orders\n");
    const pod = await podOf("shop");
    await expect(stage.fetchFrom(pod, 8081), "the port is of no use outside of the pod").rejects.toThrow();
    const { sidecar, application } = await statusOf(pod);
    expect(sidecar).toMatchObject({ started: true, restartCount: 0 });
    const startedAt = ({ state }: ContainerStatus) => Date.parse(state.running?.startedAt ?? "");
    expect(startedAt(application)).toBeGreaterThanOrEqual(startedAt(sidecar));
  });

  test("in a Job completes it, and the tunneler ends in order after it", async () => {
    await stage.wait("condition=Complete", "job/report", PATIENCE_S);
    const names = (await stage.kubectl("get", "pods", "--selector=app.kubernetes.io/name=report", "--output=name"))
      .trim()
      .split("\n");
    const pods = await Promise.all(names.map((name) => stage.get<Pod>("pod", name.replace("pod/", ""))));
    const ended = pods.filter(({ status }) => status.containerStatuses[0]?.state.terminated?.exitCode === 0);
    expect(ended).toHaveLength(1);
    const [pod] = ended;
    const { sidecar, application } = await statusOf(pod?.metadata.name ?? "");
    expect(sidecar.state.terminated?.exitCode).toBe(0);
    const finishedAt = ({ state }: ContainerStatus) => Date.parse(state.terminated?.finishedAt ?? "");
    expect(finishedAt(sidecar)).toBeGreaterThanOrEqual(finishedAt(application));
    expect(await stage.kubectl("logs", pod?.metadata.name ?? "", "--container=report")).toBe("report: three orders\n");
  });

  test("starts when the tunneler is usable, not before", async () => {
    const job = jobWith("late", ["orders:8081", "late:8082"]);
    await stage.apply(job);
    const pod = await eventually("the pod", async () => (await podOf("late")) || undefined, PATIENCE_MS);
    await eventually(
      "the tunneler has opened what it can",
      async () => (await stage.kubectl("logs", pod, "--container=tunnel")).includes("a port is open"),
      PATIENCE_MS,
    );
    // The kubelet has asked, and was told what is missing.
    await eventually(
      "a probe has failed",
      async () =>
        (await stage.kubectl("get", "events", `--field-selector=involvedObject.name=${pod}`)).includes(
          "Startup probe failed",
        ),
      PATIENCE_MS,
    );
    const { sidecar, application } = await statusOf(pod);
    expect(sidecar).toMatchObject({ started: false, restartCount: 0 });
    expect(application.state.waiting?.reason).toBe("PodInitializing");
    const networkRef = { name: "main" };
    await stage.apply([
      { ...ours("OverlayService", "late"), spec: { networkRef } },
      {
        ...ours("ServicePolicy", "late-dial"),
        spec: {
          networkRef,
          type: "Dial",
          semantic: "AnyOf",
          identityRefs: [{ name: "shop" }],
          serviceRefs: [{ name: "late" }],
        },
      },
    ]);
    await stage.wait("condition=Complete", "job/late", PATIENCE_S);
    expect((await stage.kubectl("get", "pods", "--selector=app.kubernetes.io/name=late", "--output=name")).trim()).toBe(
      `pod/${pod}`,
    );
    expect(await stage.kubectl("logs", pod, "--container=report")).toBe("report: three orders\n");
  });

  test("that enrolls itself does so once: a pod that comes later finds the identity on the volume, and the token is gone", async () => {
    expect(await answerOf("kiosk")).toBe("the kiosk has three orders\n");
    const first = await podOf("kiosk");
    await stage.kubectl("annotate", "identity/kiosk", "sallyport.dev/reconcile-requested-at=enrolled");
    await stage.wait("delete", "secret/kiosk-enrollment", PATIENCE_S);
    await stage.kubectl("delete", "pod", first, `--timeout=${PATIENCE_S}s`);
    await stage.wait("condition=Available", "deployment/kiosk", PATIENCE_S);
    expect(await answerOf("kiosk")).toBe("the kiosk has three orders\n");
    const second = await podOf("kiosk");
    expect(second).not.toBe(first);
    expect(await stage.kubectl("logs", second, "--container=enroll")).toContain("already");
  });

  test("with the SDK in it hosts without a port, and dials by name", async () => {
    expect(await answerOf("greetings-client")).toBe("greetings from the SDK\n");
    const listening = await stage.node(
      await podOf("greetings-server"),
      "server",
      `const lines = require("fs").readFileSync("/proc/net/tcp", "utf8").trim().split("\\n").slice(1);
      console.log(lines.filter((line) => line.trim().split(/\\s+/)[3] === "0A").length)`,
    );
    expect(listening.trim(), "sockets that listen in the host's pod").toBe("0");
  });

  test("with the SDK in it takes its service back when its pod ends: after a rollout the next one answers", async () => {
    const before = await podOf("greetings-server");
    await stage.kubectl("rollout", "restart", "deployment/greetings-server");
    await stage.explained("rollout", "status", "deployment/greetings-server", `--timeout=${PATIENCE_S}s`);
    await stage.wait("delete", `pod/${before}`, PATIENCE_S);
    expect(await podOf("greetings-server")).not.toBe(before);
    expect(await answerOf("greetings-client")).toBe("greetings from the SDK\n");
  });

  /** The Job of the example by another name, with these services. */
  function jobWith(name: string, services: readonly string[]): Job {
    const [document] = parseAllDocuments(readFileSync(join(ROOT, EXAMPLE, "report.yaml"), "utf8"));
    const job = document?.toJS() as Job & { spec: { template: { metadata: { labels: Record<string, string> } } } };
    job.spec.template.metadata.labels = { "app.kubernetes.io/name": name };
    for (const each of [...job.spec.template.spec.initContainers, ...job.spec.template.spec.containers])
      each.image = imageOf("tunnel");
    const [tunnel] = job.spec.template.spec.initContainers;
    if (tunnel === undefined) throw new Error("the Job of the example has no sidecar");
    tunnel.args = [...tunnel.args.filter((arg) => arg !== "orders:8081"), ...services];
    return { ...job, metadata: { name } };
  }
});

const ours = (kind: string, name: string) => ({ apiVersion: "sallyport.dev/v1alpha1", kind, metadata: { name } });
