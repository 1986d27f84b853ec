import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loggedIn } from "../../network/login/identity-file.ts";
import { oneTimeCode } from "../../network/login/one-time-code.ts";
import { declareService } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import type { Program } from "../../network/program.ts";
import { peer } from "../peer.ts";
import { isOver } from "./endings.ts";
import { carries, OidcNetwork, ROUTERS, Stream, type Whose } from "./network.ts";

const VERSION = "6.1.0";
const DOMAIN = "corp.example";

/**
 * The SDK reports to our routers, which decide. Instead of OpenZiti's v1.6.0 it tells the controller. It looks every 10 seconds whether
 * there is something new to report.
 */
describe.skipIf(peer.isMissing || peer.postureClient === "")("posture of applications that log in by OIDC", () => {
  let oidc: OidcNetwork;
  let cli: PeerCli;

  beforeAll(async () => {
    oidc = await OidcNetwork.start("oidc-posture");
    cli = new PeerCli(peer.path, oidc.folder);
    await cli.edge("login", `localhost:${oidc.network.port}`, "-u", "admin", "-p", oidc.network.adminPassword, "-y");
    await cli.edge("create", "posture-check", "domain", "domain", "-d", DOMAIN);
    await cli.edge("create", "posture-check", "mfa", "code", "-s", "600");
  });

  afterAll(async () => {
    await oidc?.stop();
  });

  /** A service that an application hosts, and the identity file of who may dial it under a policy with posture checks. */
  async function declare(name: string, whose: Whose): Promise<{ clientFile: string; ask: Ask }> {
    const { clientFile, hostFile } = await declareService(oidc.network, { name, ...ROUTERS[whose] });
    await oidc.run(`${name}-host`, [peer.postureClient, "flow-host", hostFile, name, "0"]).line(/^ready$/);
    const ask: Ask = async (...checks) => {
      const roles = checks.map((check) => `@${check}`).join(",");
      await cli.edge("update", "service-policy", `${name}-client`, "--posture-check-roles", roles);
    };
    return { clientFile, ask };
  }
  type Ask = (...checks: string[]) => Promise<void>;

  async function dialler(name: string, file: string, ...login: string[]): Promise<{ program: Program; port: number }> {
    const port = await freePort();
    const args = [file, name, String(port), VERSION, DOMAIN, ...login];
    const program = oidc.run(`${name}-client${login.length}`, [peer.postureClient, ...args]);
    await program.line(/^ready$/);
    return { program, port };
  }

  const isRefused = async (port: number) => !(await carries({ port }).catch(() => false));

  it.each<Whose>(["OpenZiti's router", "our routers"])(
    "over %s they dial only while they pass, and what fails ends what is open",
    async (whose) => {
      const name = whose === "our routers" ? "ours" : "theirs";
      const { clientFile, ask } = await declare(name, whose);
      const watchedPath = join(oidc.folder, `watched-by-${name}`);
      copyFileSync(peer.postureClient, watchedPath);
      await cli.edge("create", "posture-check", "os", `system-${name}`, "-o", "Windows");
      await cli.edge("create", "posture-check", "process", `process-${name}`, "Linux", watchedPath);
      const { program, port } = await dialler(name, clientFile);
      // What it reports before it is connected to any router gets lost, but for those that it reports to.
      if (whose === "OpenZiti's router") await program.ready("a dial without checks", () => carries({ port }));
      await ask(`system-${name}`, "domain");
      // Until then a dial may still be granted without the checks, and end with them.
      await program.ready("a refusal by the checks", () => isRefused(port));
      const asked = `Linux:>=${VERSION},macOS:>=${VERSION}`;
      await cli.edge("update", "posture-check", "os", `system-${name}`, "-o", asked);
      await program.ready("a dial", () => carries({ port }));

      const isNowRefused = async (open: Stream): Promise<void> => {
        await program.ready("a refusal", () => isRefused(port));
        await isOver(whose, open, async () => expect(await isRefused(port)).toBe(true));
      };
      const stream = await Stream.open(port);
      await stream.more(1);
      await cli.edge("update", "posture-check", "os", `system-${name}`, "-o", "Windows");
      await isNowRefused(stream);
      await cli.edge("update", "posture-check", "os", `system-${name}`, "-o", "Linux,macOS");
      await program.ready("a dial after the check was loosened", () => carries({ port }));

      await ask(`process-${name}`);
      await program.ready("a refusal by the new check", () => isRefused(port));
      const watched = oidc.run(`watched-by-${name}`, [watchedPath, "wait"]);
      await program.ready("a dial after the new check", () => carries({ port }));
      const until = await Stream.open(port);
      await until.more(1);
      await watched.stop();
      await isNowRefused(until);
    },
  );

  it("our routers ask for a one-time code, and take it from the SDK", async () => {
    const { clientFile, ask } = await declare("coded", "our routers");
    await ask("code");
    // An application that has no answer to the question for a code waits for one in its dial.
    const secret = await enrollCodes(clientFile, oidc.network.port);
    const { program, port } = await dialler("coded", clientFile, secret);
    await program.ready("a dial with a code", () => carries({ port }));
    const stream = await Stream.open(port);
    await stream.more(1);
    // Codes were for another length of time.
    await cli.edge("update", "posture-check", "mfa", "code", "-s", "1");
    await stream.ended;
    expect(await isRefused(port)).toBe(true);
  });
});

/** Sets up one-time codes for the owner of the identity file; resolves with their secret. */
async function enrollCodes(identityFile: string, port: number): Promise<string> {
  const client = await loggedIn(identityFile, port);
  try {
    await client.enrollMfa({});
    const { data } = await client.detailMfa();
    const secret = new URL(data.provisioningUrl ?? "").searchParams.get("secret") ?? "";
    // The oldest code that is taken, so that the SDK has newer ones.
    await client.verifyMfa({ body: { code: oneTimeCode(secret, -2) } });
    await client.deleteCurrentAPISession();
    return secret;
  } finally {
    client.close();
  }
}
