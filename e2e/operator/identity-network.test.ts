/** Identities of the operator in a whole network of ours: programs of their own, a byte through a service that is declared, short-lived certificates. */
import { createClient } from "@sallyport/api";
import { Context, type EdgeConnection, type ServiceListener } from "@sallyport/sdk";
import { x509 } from "@sallyport/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { conditionOf } from "../../operator/src/kube/status/condition.ts";
import type { SecretObject } from "../../operator/src/secrets/secret-content.ts";
import { startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { fileOf, logIn, look, secretOf } from "./identity-secrets.ts";

const MINUTE = 60_000;
let folder = "";
let network: Network;
let operator: TestOperator;
/** Of the operator's clock. */
let offset = 0;

beforeAll(async () => {
  folder = makeScratch("operator-identity");
  // The shortest life that a controller takes.
  const controllerSettings = (text: string) => text.replace(/^( +)# (identity:) 365d$/m, "$1$2 1h");
  network = await startNetwork(folder, { controllerSettings });
  const baseUrl = `https://localhost:${network.port}`;
  const stranger = createClient("client", { baseUrl, tls: { rejectUnauthorized: false } });
  const { data } = await stranger.listWellKnownCas();
  stranger.close();
  const bundle = new x509.X509Certificates(Buffer.from(data.toString("latin1"), "base64"));
  const ca = bundle.map((certificate) => certificate.toString("pem")).join("\n");
  const main = { endpoint: baseUrl, ca, username: "admin", password: network.adminPassword };
  operator = await startOperator({ networks: { main }, now: () => new Date(Date.now() + offset) });
}, 120_000);
afterAll(async () => {
  await operator?.close();
  await network?.stop();
  removeScratch(folder);
});

const IDENTITY = { enrollment: { output: "IdentitySecret" } };
const secretFile = (name: string) => fileOf(secretOf(operator, `${name}-identity`));

async function echoed(connection: EdgeConnection, text: string): Promise<string> {
  connection.write(text);
  let received = "";
  for await (const chunk of connection) {
    received += String(chunk);
    if (received.length >= text.length) break;
  }
  connection.destroy();
  return received;
}

test("who is declared dials and hosts what is declared, and goes on through a renewal and an outage of the controller", async () => {
  await operator.apply("OverlayService", "echo", { roleAttributes: ["echo"] });
  for (const name of ["host", "client"])
    await operator.apply("Identity", name, { ...IDENTITY, roleAttributes: [name] });
  const policy = { serviceRefs: [{ name: "echo" }] };
  await operator.apply("ServicePolicy", "bind", { ...policy, type: "Bind", identityRefs: [{ name: "host" }] });
  await operator.apply("ServicePolicy", "dial", { ...policy, type: "Dial", identityRoles: ["#client"] });
  await operator.apply("EdgeRouterPolicy", "all", { identityRoles: ["#all"], edgeRouterRoles: ["#all"] });
  await operator.apply("ServiceEdgeRouterPolicy", "all", { serviceRoles: ["#all"], edgeRouterRoles: ["#all"] });
  for (const name of ["host", "client"]) await operator.ready("Identity", name, "True", "Enrolled");
  for (const name of ["bind", "dial"]) await operator.ready("ServicePolicy", name);
  await operator.ready("EdgeRouterPolicy", "all");
  await operator.ready("ServiceEdgeRouterPolicy", "all");
  const old = secretFile("client");
  const host = await Context.load(secretFile("host"));
  const before = await Context.load(old);
  let listener: ServiceListener | undefined;
  try {
    listener = await hostEcho(host, "echo");
    expect(await echoed(await before.dial("echo", { timeoutMs: 20_000 }), "before")).toBe("before");

    // A third of its life is left.
    offset = 41 * MINUTE;
    await look(operator, "client");
    const valid = () => conditionOf(operator.read("Identity", "client")?.status.conditions, "CertificateValid");
    expect(valid()).toMatchObject({ status: "True", reason: "Renewing" });
    const next = secretFile("client");
    const former = () => fileOf(secretOf(operator, "client-identity"), "former-identity.json");
    expect(next).not.toEqual(old);
    expect(former()).toEqual(old);
    for (const file of [old, next]) expect(await logIn(file)).toBe("client");

    // The controller dies while both certificates are good; nothing of what was in order looks broken meanwhile.
    await network.stopProgram("controller", "SIGKILL");
    offset += 3 * MINUTE;
    operator.operator.loops.lookAtAll();
    await operator.settled();
    expect(conditionOf(operator.read("Identity", "client")?.status.conditions, "Ready")).toMatchObject({
      status: "True",
    });
    expect(former()).toEqual(old);
    const confirmed = operator.server.changed(({ object }) => {
      const { metadata, data } = object as unknown as SecretObject;
      return metadata.name === "client-identity" && data?.["former-identity.json"] === undefined;
    });
    await network.startController();
    operator.operator.loops.lookAtAll();
    await confirmed;
    offset = 0;
    await operator.ready("Identity", "client");
    expect(secretFile("client")).toEqual(next);
    expect(await logIn(next)).toBe("client");
    await expect(logIn(old)).rejects.toMatchObject({ code: "CREDENTIALS_REFUSED" });

    // Who was in before goes on, and who reads the Secret now gets in.
    expect(await echoed(await before.dial("echo", { timeoutMs: 20_000 }), "still")).toBe("still");
    const after = await Context.load(secretFile("client"));
    expect(await echoed(await after.dial("echo", { timeoutMs: 20_000 }), "after")).toBe("after");
    await after.close();
    // Who is online, and what is hosted, changed with the tests above: that is told first.
    operator.operator.loops.lookAtAll();
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  } finally {
    await before.close();
    listener?.close();
    await host.close();
  }
}, 120_000);
