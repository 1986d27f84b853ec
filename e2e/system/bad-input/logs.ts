import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Site } from "./site.ts";

/** A JWT with its signature: without that, or its claims, it opens nothing. */
const SIGNED_TOKEN = /eyJ[\w-]+\.eyJ[\w-]+\.[\w-]{32,}/;

/** What all the others have left in the logs: to be described last. */
export function describeLogs(site: Site): void {
  describe("the logs", () => {
    it("of all programs hold no password, token or key, at the level debug", async () => {
      for (const name of readdirSync(site.folder)) {
        const text =
          name.endsWith(".key") || name.endsWith(".jwt") ? readFileSync(join(site.folder, name), "utf8") : "";
        if (text === "") continue;
        site.keep(name, text);
        if (name.endsWith(".jwt")) {
          const claims = Buffer.from(text.split(".")[1]!, "base64url").toString();
          site.keep(`jti of ${name}`, (JSON.parse(claims) as { jti: string }).jti);
        }
      }
      for (const dir of ["controller", "second"]) {
        site.keep(`secret key of ${dir}`, readFileSync(join(site.folder, dir, "secret.key"), "utf8"));
      }
      const sessions = await site.network.management.listAPISessions({ query: { limit: 500 } });
      // Sessions by OIDC have no token of their own: theirs are found by their form, below.
      for (const each of sessions.data) if (each.token !== "") site.keep(`API session ${each.id}`, each.token);
      const dials = await site.network.management.listSessions({ query: { limit: 500 } });
      for (const each of dials.data) site.keep(`session ${each.id}`, each.token);
      expect(site.secrets.size).toBeGreaterThan(30);

      const logs = readdirSync(site.folder).filter((name) => name.endsWith(".log"));
      expect(logs).toEqual(expect.arrayContaining(["controller.log", "r1.log", "r2.log", "init.log", "command.log"]));
      const found: string[] = [];
      for (const log of logs) {
        const text = readFileSync(join(site.folder, log), "utf8");
        expect(text.length).toBeGreaterThan(0);
        for (const [what, secret] of site.secrets) {
          // Of a PEM block the first line of its content is enough; a log writes line ends in its own way.
          const needle = secret
            .trim()
            .split("\n")
            .find((line) => line.length >= 16 && !line.startsWith("-----"));
          if (needle === undefined) expect.fail(`${what} is too short to be looked for`);
          if (text.includes(needle)) found.push(`${what} in ${log}`);
        }
        expect(text).not.toMatch(/BEGIN (EC |RSA )?PRIVATE KEY/);
        expect(text).not.toMatch(SIGNED_TOKEN);
      }
      expect(found).toEqual([]);
    });
  });
}
