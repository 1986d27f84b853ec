/** The operator's EdgeRouters on a controller of OpenZiti: our routers, started from what is rendered, join it. */
import { join } from "node:path";
import { type ApiClient, createClient } from "@sallyport/api";
import { x509 } from "@sallyport/wire";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { edgeRouterReconciler } from "../../../operator/src/kinds/edge-router/reconcile.ts";
import type { KindReconciler } from "../../../operator/src/loop/kind-reconciler.ts";
import { startOperator, type TestOperator } from "../../../operator/src/testing/start-operator.ts";
import type { RouterStatus } from "../../../packages/resources/src/kinds/edge-router/schema.ts";
import { eventually } from "../../network/eventually.ts";
import { type PeerController, startPeerController } from "../../network/openziti/peer-network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { RouterPods } from "../../operator/router-pods.ts";
import { peer as program } from "../peer.ts";

const PATIENCE_MS = 60_000;

describe.skipIf(program.isMissing)("edge routers on a controller of OpenZiti", () => {
  let folder = "";
  let peer: PeerController;
  let management: ApiClient<"management">;
  let ca: string;
  let operator: TestOperator;
  let pods: RouterPods;

  beforeAll(async () => {
    folder = makeScratch("operator-routers-peer");
    peer = await startPeerController(program.path, join(folder, "controller"));
    const baseUrl = `https://localhost:${peer.port}`;
    // On this machine its own bundle is taken on first use.
    const anonymous = createClient("client", { baseUrl, tls: { rejectUnauthorized: false } });
    const { data } = await anonymous.listWellKnownCas();
    anonymous.close();
    const bundle = new x509.X509Certificates(Buffer.from(data.toString("latin1"), "base64"));
    ca = bundle.map((certificate) => certificate.toString("pem")).join("\n");
    management = createClient("management", { baseUrl, ca, tls: { allowPartialTrustChain: true } });
    const login = { username: "admin", password: "admin" };
    const session = await management.authenticate({ query: { method: "password" }, body: login });
    management.setToken(session.data.token);
    operator = await startOperator({
      networks: { main: { endpoint: baseUrl, ca } },
      reconcilers: [edgeRouterReconciler({ image: "sallyport/router:test" }) as unknown as KindReconciler],
      patienceMs: PATIENCE_MS,
    });
    pods = new RouterPods(operator.server, join(folder, "pods"));
  }, 180_000);
  afterEach(async () => {
    await operator?.settled();
  });
  afterAll(async () => {
    await operator?.close();
    await pods?.close();
    management?.close();
    await peer?.controller.stop();
    removeScratch(folder);
  });

  const routerOf = ({ status }: { status: object }) => (status as { routers?: readonly RouterStatus[] }).routers?.[0];
  const entity = async (id: string | undefined) =>
    (await management.detailEdgeRouter({ params: { id: id ?? "" } })).data;
  let port = 0;
  const spec = (more: object = {}) => ({
    edge: { port },
    exposure: { type: "LoadBalancer", hostname: "localhost" },
    drainSeconds: 1,
    ...more,
  });

  test("one is made, enrolled, online, left alone, and changed", { timeout: 120_000 }, async () => {
    [port = 0] = await freePorts(1);
    await operator.apply("EdgeRouter", "eu", spec({ roleAttributes: ["b", "a"], tunneler: { enabled: true } }));
    const router = routerOf(await operator.ready("EdgeRouter", "eu"));
    expect(router).toMatchObject({ name: "eu-0", verified: true, online: true, syncStatus: "SYNC_DONE" });
    const before = await entity(router?.id);
    expect(before).toMatchObject({ isTunnelerEnabled: true, tags: { "sallyport-ordinal": "0" } });
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    expect((await entity(router?.id)).updatedAt).toBe(before.updatedAt);

    const more = { roleAttributes: ["c"], cost: 5, appData: { a: 1 }, tunneler: { enabled: true }, tags: { t: "1" } };
    await operator.apply("EdgeRouter", "eu", spec(more));
    await operator.until("EdgeRouter", "eu", ({ status }) => status.observedGeneration === 2);
    const changed = await entity(router?.id);
    expect(changed).toMatchObject({ roleAttributes: ["c"], cost: 5, appData: { a: 1 }, isOnline: true });
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    expect((await entity(router?.id)).updatedAt).toBe(changed.updatedAt);
    expect(pods.starts.get("eu-0-0")).toBe(1);
  });

  test("its address changes when its certificate has the name", { timeout: 120_000 }, async () => {
    await operator.apply(
      "EdgeRouter",
      "eu",
      spec({ exposure: { type: "LoadBalancer", hostname: "router.localhost" } }),
    );
    const at = `router.localhost:${port}`;
    await operator.until("EdgeRouter", "eu", (read) => routerOf(read)?.advertiseAddress === at);
    await operator.ready("EdgeRouter", "eu");
    // Once for the name, once for the address.
    expect(pods.starts.get("eu-0-0")).toBe(3);
  });

  test("one is enrolled again by the token that is made then", { timeout: 120_000 }, async () => {
    const router = routerOf(await operator.ready("EdgeRouter", "eu"));
    const { fingerprint } = await entity(router?.id);
    await operator.annotate("EdgeRouter", "eu", { "sallyport.dev/re-enroll": "0:a" });
    await eventually(
      "another certificate",
      async () => {
        const found = await entity(router?.id);
        return found.isVerified && found.isOnline && found.fingerprint !== fingerprint;
      },
      PATIENCE_MS,
    );
    await operator.ready("EdgeRouter", "eu");
  });

  test("one goes with its resource", { timeout: 120_000 }, async () => {
    const router = routerOf(await operator.ready("EdgeRouter", "eu"));
    await operator.delete("EdgeRouter", "eu");
    await operator.gone("EdgeRouter", "eu");
    await expect(entity(router?.id)).rejects.toMatchObject({ status: 404 });
  });
});
