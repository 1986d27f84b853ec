import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ControlType, parseCertificates } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RouterProgram } from "../testing/router-program.ts";
import { ScriptedController } from "../testing/scripted-controller.ts";
import { ScriptedRenewal } from "../testing/scripted-renewal.ts";

let dir: string;
let controller: ScriptedController;
let renewal: ScriptedRenewal;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-lifecycle-"));
  await mkdir(join(dir, "agents"));
  const authority = await TestAuthority.create();
  controller = await ScriptedController.start(await authority.identity("ctrl1"));
  renewal = new ScriptedRenewal(controller, authority);
  renewal.lifetimeMs = 300 * 86_400_000;
  const { certPem, keyPem } = await authority.issue({ commonName: "r1", dns: ["localhost"] });
  await writeFile(join(dir, "r1.cert"), certPem);
  await writeFile(join(dir, "r1.server.cert"), certPem);
  await writeFile(join(dir, "r1.key"), keyPem);
  await writeFile(join(dir, "ca.pem"), authority.certPem);
  await writeFile(
    join(dir, "router.yml"),
    `v: 3
identity: { cert: r1.cert, server_cert: r1.server.cert, key: r1.key, ca: ca.pem }
ctrl: { endpoint: "tls:localhost:${controller.port.port}" }
csr: { sans: { dns: [localhost] } }
`,
  );
});

afterEach(async () => {
  await RouterProgram.endAll();
  await controller.close();
  await rm(dir, { recursive: true });
});

/** Agents are found in the folder for temporary files. */
const start = (...args: string[]) =>
  RouterProgram.start({ cwd: dir, env: { TMPDIR: join(dir, "agents") } }, ...args, "router.yml");

async function running(): Promise<RouterProgram> {
  const router = start("run");
  await router.printed("connected to the controller");
  return router;
}

const validTo = async () =>
  parseCertificates(await readFile(join(dir, "r1.cert"), "utf8"))[0]?.validTo ?? "no certificate";

describe("the command extend", { timeout: 120_000 }, () => {
  it("renews the certificates of a router that does not run, over a control channel of its own", async () => {
    const before = await validTo();
    const { code, out, err } = await start("extend").ended;
    expect([code, err]).toEqual([0, ""]);
    expect(await validTo()).not.toBe(before);
    expect(out).toContain(`the certificates are renewed; they are valid until ${await validTo()}`);
    expect(renewal.shown).toHaveLength(1);
  });

  it("asks a router that runs, whose channel stays, and which uses the new certificate from then on", async () => {
    const before = await validTo();
    const router = await running();
    const { code, out, err } = await start("extend").ended;
    expect([code, err]).toEqual([0, ""]);
    expect(await validTo()).not.toBe(before);
    expect(out).toContain(`the running router has renewed its certificates; they are valid until ${await validTo()}`);
    expect(controller.hellos).toHaveLength(1);
    await router.printed("the identity was loaded again");
    controller.hellos[0]?.close();
    await controller.connections(2);
    expect(controller.hellos[1]?.peer.certificates[0]?.validTo).toBe(await validTo());
  });

  it("says why it failed, of either", async () => {
    renewal.verify = () => "this one not";
    const alone = await start("extend").ended;
    expect([alone.code, alone.err]).toEqual([1, expect.stringMatching(/this one not.*\[RENEWAL_REFUSED\]/)]);
    await running();
    const asked = await start("extend").ended;
    expect([asked.code, asked.err]).toEqual([
      1,
      expect.stringMatching(/the running router could not renew: .*this one not.*\[RENEWAL_FAILED\]/),
    ]);
  });
});

describe("names that the certificate lacks", { timeout: 120_000 }, () => {
  const names = async (): Promise<string> =>
    parseCertificates(await readFile(join(dir, "r1.server.cert"), "utf8"))[0]?.subjectAltName ?? "";
  const configure = async (csr: string, more = ""): Promise<void> => {
    const text = await readFile(join(dir, "router.yml"), "utf8");
    await writeFile(join(dir, "router.yml"), text.replace(/csr: .*/, `csr: { sans: ${csr} }`) + more);
  };
  const LISTENER =
    'edge: {}\nlisteners: [{ binding: edge, address: "tls:127.0.0.1:0", options: { advertise: "new.example:3022" } }]\n';

  it("are brought by a renewal when the router starts, and then never again", async () => {
    await configure('{ dns: [localhost, r1.example, "*.r1.example"], ip: ["192.0.2.7", "::1"] }');
    const router = await running();
    await router.printed("the certificates were renewed");
    expect(await names()).toContain("DNS:r1.example");
    expect(await names()).toContain("IP Address:192.0.2.7");
    router.child.kill("SIGKILL");
    await router.ended;
    const again = await running();
    again.child.kill("SIGKILL");
    expect((await again.ended).out).not.toContain("lacks names");
    expect(renewal.requests).toHaveLength(1);
  });

  it("are brought by enroll --if-needed when the router could not start without them", async () => {
    await configure("{ dns: [localhost, new.example] }", LISTENER);
    const { code, out } = await start("enroll", "--if-needed").ended;
    expect([code, out]).toEqual([
      0,
      expect.stringContaining("router r1 was enrolled already and has new certificates"),
    ]);
    expect(await names()).toContain("DNS:new.example");
    expect((await start("enroll", "--if-needed").ended).out).toContain("router r1 was enrolled already;");
    expect(renewal.requests).toHaveLength(1);
  });

  it("fail it when no renewal can bring them", async () => {
    await configure("{ dns: [localhost] }", LISTENER);
    const { code, err } = await start("enroll", "--if-needed").ended;
    expect([code, err]).toEqual([1, expect.stringMatching(/renewed, and still: .*new\.example.*\[NAMES_REFUSED\]/)]);
  });
});

describe("a signal to stop", { timeout: 120_000 }, () => {
  const marker = () => join(dir, "endpoints.yml.r1.quiesced");

  it("has the controller avoid the router, and the next start takes that back", async () => {
    controller.on(ControlType.QuiesceRouter, (message, channel) => channel.replyResult(message, true));
    controller.on(ControlType.DequiesceRouter, (message, channel) => channel.replyResult(message, true));
    const router = await running();
    router.child.kill("SIGTERM");
    expect((await router.ended).code).toBe(0);
    expect(existsSync(marker())).toBe(true);
    expect(controller.received.map(({ contentType }) => contentType)).not.toContain(ControlType.DequiesceRouter);
    const next = await running();
    await next.printed("the controllers use this router again");
    expect(existsSync(marker())).toBe(false);
  });

  it("given twice ends it at once, with status 1", async () => {
    // A controller that does not answer would be waited for.
    const router = await running();
    router.child.kill("SIGTERM");
    await controller.next(ControlType.QuiesceRouter);
    router.child.kill("SIGINT");
    const { code, out } = await router.ended;
    expect(code).toBe(1);
    expect(out).toContain("stopped at once");
  });
});
