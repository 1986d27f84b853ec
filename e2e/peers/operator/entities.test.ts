/** The operator's simple kinds on OpenZiti's controller: each made, left alone, changed, put right, adopted and taken away. */
import type { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { request } from "node:https";
import { join } from "node:path";
import { connect } from "node:tls";
import { fetchCaBundle } from "@sallyport/sdk";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { startOperator, type TestOperator } from "../../../operator/src/testing/start-operator.ts";
import { type PeerController, startPeerController } from "../../network/openziti/peer-network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { SIMPLE_PATHS } from "../../operator/entity-paths.ts";
import { SPECS } from "../../operator/entity-specs.ts";
import { peer } from "../peer.ts";

/** The certificate that the server shows: it is trusted, since the test started the server. */
async function leafOf(port: number): Promise<X509Certificate> {
  const socket = connect({ host: "localhost", port, servername: "localhost", rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const leaf = socket.getPeerX509Certificate();
  socket.destroy();
  if (leaf === undefined) throw new Error("the server shows no certificate");
  return leaf;
}

interface Answer {
  readonly status: number;
  readonly json: { readonly data: Readonly<Record<string, unknown>> & { readonly token?: string } };
}

describe.skipIf(peer.isMissing)("the operator on OpenZiti's controller", () => {
  let folder = "";
  let controller: PeerController;
  let operator: TestOperator;
  let ca = "";
  let token = "";

  beforeAll(async () => {
    folder = makeScratch("operator-on-peer");
    controller = await startPeerController(peer.path, join(folder, "controller"));
    const issuer = new URL(`https://localhost:${controller.port}`);
    ca = (await fetchCaBundle(issuer, { leaf: await leafOf(controller.port) })).pem;
    const login = await call("POST", "/authenticate?method=password", { username: "admin", password: "admin" });
    token = login.json.data.token ?? "";
  });
  afterEach(() => operator?.close());
  afterAll(async () => {
    await controller?.controller.stop();
    removeScratch(folder);
  });

  /** The Management API as the administrator. */
  async function call(method: string, path: string, body?: unknown): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const headers = { "content-type": "application/json", ...(token === "" ? {} : { "zt-session": token }) };
    const options = {
      host: "localhost",
      port: controller.port,
      path: `/edge/management/v1${path}`,
      method,
      headers,
      ca,
    };
    const sent = request(options, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, json: JSON.parse(text) as Answer["json"] }));
    });
    sent.on("error", reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
    return await promise;
  }

  const start = async (): Promise<void> => {
    operator = await startOperator({ networks: { main: { endpoint: `https://localhost:${controller.port}`, ca } } });
  };
  const entity = async (kind: string, id: unknown) => (await call("GET", `/${SIMPLE_PATHS[kind]}/${id}`)).json.data;

  test.each(SPECS.map(([kind, first, second], index) => ({ kind, first, second, name: `e${index}` })))(
    "$kind $first",
    async ({ kind, first, second, name }) => {
      await start();
      await operator.apply(kind, name, first);
      const { id } = (await operator.ready(kind, name)).status;
      expect(await entity(kind, id)).toMatchObject({ name, tags: { "sallyport-kind": kind } });
      const rests = async (): Promise<void> => {
        const before = await entity(kind, id);
        expect(await operator.writesOfAnotherLook()).toEqual([]);
        expect((await entity(kind, id)).updatedAt).toBe(before.updatedAt);
      };
      await rests();

      await operator.apply(kind, name, { ...second, deletionPolicy: "Orphan" });
      await operator.ready(kind, name);
      await rests();

      // What OpenZiti wants to see in every change of the kind.
      const { typeId, data } = await entity(kind, id);
      const drift = await call("PATCH", `/${SIMPLE_PATHS[kind]}/${id}`, {
        name: `${name}-renamed`,
        tags: { only: "mine" },
        ...(kind === "PostureCheck" && { typeId }),
        ...(kind === "ServiceConfig" && { data }),
      });
      expect(drift.status).toBe(200);
      await operator.annotate(kind, name, { "sallyport.dev/reconcile-requested-at": "now" });
      await operator.until(kind, name, ({ status }) => status.lastHandledReconcileAt === "now");
      expect(await entity(kind, id)).toMatchObject({ name, tags: { only: "mine", "sallyport-kind": kind } });

      await operator.delete(kind, name);
      await operator.gone(kind, name);
      expect((await entity(kind, id)).tags).toEqual({ only: "mine" });
      await operator.apply(kind, name, { ...second, managementPolicy: "Adopt" });
      expect((await operator.ready(kind, name)).status.id).toBe(id);
      await rests();
      await operator.delete(kind, name);
      await operator.gone(kind, name);
      expect((await call("GET", `/${SIMPLE_PATHS[kind]}/${id}`)).status).toBe(404);
    },
  );

  test("a policy, its service and its config, made and taken away in the worst order", async () => {
    await start();
    await operator.apply("ServicePolicy", "dial", { serviceRefs: [{ name: "web" }], identityRoles: ["#all"] });
    await operator.apply("OverlayService", "web", { configRefs: [{ name: "host" }] });
    await operator.apply("ServiceConfig", "host");
    const { matched } = (await operator.ready("ServicePolicy", "dial")).status;
    expect(matched).toMatchObject({ services: 1 });
    expect((await operator.ready("OverlayService", "web")).status).toMatchObject({ hosted: false, terminators: 0 });
    for (const [kind, name] of [
      ["ServiceConfig", "host"],
      ["OverlayService", "web"],
      ["ServicePolicy", "dial"],
    ] as const) {
      await operator.delete(kind, name);
      await operator.gone(kind, name);
    }
  });

  test("a refusal of OpenZiti is reported with its field", async () => {
    await start();
    await operator.apply("ServiceConfig", "bad", { data: { protocol: "tcp", address: "localhost", port: "many" } });
    const bad = await operator.ready("ServiceConfig", "bad", "False", "InvalidSpec");
    expect(bad.status.conditions?.find(({ type }) => type === "Stalled")?.message).toContain("port");
  });
});
