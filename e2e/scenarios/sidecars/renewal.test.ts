/** Certificates of a short life in the network of examples/quickstart: identities that tunnelers use, and those of routers, are renewed without a restart. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import type { RouterStatus } from "../../../packages/resources/src/kinds/edge-router/schema.ts";
import { eventually } from "../../network/eventually.ts";
import { ROOT } from "../root.ts";
import { hasCluster, imageOf, Stage } from "../stage.ts";

/** More than ten times what a quiet machine needs. */
const PATIENCE_S = 300;
const PATIENCE_MS = PATIENCE_S * 1_000;
/** Identities are renewed after half of it. */
const LIFES = { identity: "90s", router: "4m" };

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; namespace?: string };
  readonly spec: {
    managed?: object;
    enrollment?: { renewBefore?: string };
    template?: { spec: { containers: { name: string; image: string; args?: string[] }[] } };
  };
}

interface Secret {
  readonly data: Readonly<Record<string, string>>;
}

/**
 * Asks over one connection until the identity has been replaced and ten more answers have come; tells over how many connections
 * it did, and how many answers were wrong.
 */
const HOLDER = `
  const { readFileSync } = require("fs");
  const { Agent, get } = require("http");
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const identity = () => readFileSync("/identity/identity.json", "utf8");
  const first = identity();
  const ports = new Set();
  let wrong = 0;
  let left = 10;
  const ask = () => {
    const request = get({ host: "127.0.0.1", port: 8080, agent }, async (answer) => {
      ports.add(answer.socket.localPort);
      let text = "";
      for await (const chunk of answer) text += chunk;
      next(text === "hello from the overlay\\n");
    });
    request.on("error", () => next(false));
  };
  const next = (isRight) => {
    if (!isRight) wrong++;
    if (identity() !== first) left--;
    if (left > 0) setTimeout(ask, 200);
    else process.stdout.write(JSON.stringify({ connections: ports.size, wrong }), () => process.exit());
  };
  ask();`;

describe.skipIf(!hasCluster)("an identity that is renewed while it is used", { timeout: 2 * PATIENCE_MS }, () => {
  let stage: Stage;
  let before: { readonly routers: readonly RouterStatus[]; readonly pods: string };

  beforeAll(async () => {
    stage = await Stage.open("renewal");
    await stage.apply(await shortLived(stage));
    await stage.ready(PATIENCE_S);
    await stage.wait("condition=Available", "deployment/hello", PATIENCE_S);
    await stage.wait("condition=Available", "deployment/hello-client", PATIENCE_S);
    before = { routers: await routers(), pods: await pods() };
  }, 3 * PATIENCE_MS);
  afterAll(async () => await stage?.close(), PATIENCE_MS);

  const routers = async () =>
    ((await stage.get("edgerouter", "edge")).status as { routers?: RouterStatus[] }).routers ?? [];
  const pods = () => stage.kubectl("get", "pods", "--output=jsonpath={.items[*].metadata.uid}");
  const podOf = async (app: string): Promise<string> => {
    const [pod = ""] = await stage.pods(`app.kubernetes.io/name=${app}`);
    return pod;
  };
  const answer = async (): Promise<string> => await stage.fetchFrom(await podOf("hello-client"), 8080);
  const answered = (): Promise<string> => stage.explain(eventually("an answer", answer, PATIENCE_MS));
  const secretOf = async (name: string) => (await stage.get<Secret>("secret", `${name}-identity`)).data;

  test("is taken by both tunnelers, and the connection that is open goes on", async () => {
    expect(await answered()).toBe("hello from the overlay\n");
    const names = ["hello-host", "hello-client"];
    const apps = ["hello", "hello-client"];
    const before = await Promise.all(names.map(secretOf));
    const held = stage.node(await podOf("hello-client"), "tunnel", HOLDER);
    for (const [index, name] of names.entries()) {
      await stage.explain(
        eventually(
          `another identity in the Secret of ${name}`,
          async () => (await secretOf(name))["identity.json"] !== before[index]?.["identity.json"],
          PATIENCE_MS,
        ),
      );
      // The kubelet brings what is mounted up to date when it looks at the pod, which it does at each change of it.
      await stage.kubectl("annotate", "pod", await podOf(apps[index] ?? ""), `renewed=${name}`);
    }
    for (const app of apps) {
      const log = async () => await stage.kubectl("logs", await podOf(app), "--container=tunnel");
      await eventually(`${app} has read it`, async () => (await log()).includes("it was renewed"), PATIENCE_MS);
    }
    expect(JSON.parse(await held)).toEqual({ connections: 1, wrong: 0 });
  });

  test("lets in again when its sessions were ended, which the former certificate no longer does", async () => {
    await eventually(
      "the former certificate is out of the Secret",
      async () => (await secretOf("hello-client"))["former-identity.json"] === undefined,
      PATIENCE_MS,
    );
    const disabled = async (value: boolean) =>
      await stage.kubectl("patch", "identity/hello-client", "--type=merge", `--patch={"spec":{"disabled":${value}}}`);
    await disabled(true);
    await stage.wait("condition=Disabled", "identity/hello-client", PATIENCE_S);
    await eventually(
      "it is locked out",
      async () =>
        await answer()
          .then(() => false)
          .catch(() => true),
      PATIENCE_MS,
    );
    await disabled(false);
    expect(await answered()).toBe("hello from the overlay\n");
  });

  test("is that of a router, too: both get later certificates, and nothing was started again", async () => {
    expect(before.routers).toHaveLength(2);
    const ends = (router: RouterStatus | undefined) => Date.parse(router?.certificateNotAfter ?? "");
    const areLater = async () => (await routers()).every((router, i) => ends(router) > ends(before.routers[i]));
    await stage.explain(eventually("both routers have later certificates", areLater, PATIENCE_MS));
    await stage.ready(PATIENCE_S);
    expect((await routers()).map(({ online, id }) => [online, id])).toEqual(before.routers.map(({ id }) => [true, id]));
    expect(await pods()).toBe(before.pods);
  });
});

/** The quickstart's manifests for this namespace. */
async function shortLived({ cluster }: Stage): Promise<Manifest[]> {
  const manifests = await cluster.kubectl(["kustomize", join(ROOT, "examples/quickstart")]);
  const objects = parseAllDocuments(manifests).map((document) => document.toJS() as Manifest);
  for (const { kind, metadata, spec } of objects) {
    delete metadata.namespace;
    if (kind === "Network") spec.managed = { ...spec.managed, config: { overrides: { certificates: LIFES } } };
    // The least that may be said; it means half of a life that is shorter.
    if (kind === "Identity" && spec.enrollment) spec.enrollment.renewBefore = "5m";
    for (const container of spec?.template?.spec.containers ?? []) {
      container.image = imageOf("tunnel");
      container.args?.push("--refresh", "1s");
    }
  }
  return objects.filter(({ kind }) => kind !== "Namespace");
}
