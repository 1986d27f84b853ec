import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { routerFile } from "../../network/network.ts";
import type { Site } from "./site.ts";

/** Files that no program may start with. */
export function describeConfiguration(site: Site): void {
  describe("configuration that cannot be used", () => {
    it.each([
      ["api: {bind: nowhere\n", /bad\.yml:\d+:\d+: /],
      ["v: 1\napi:\n  bind: nowhere\n", /bad\.yml:3:9: api\.bind: expected .*, found /],
      ["v: 1\nlog:\n  level: loud\n", /bad\.yml:3:10: log\.level: expected one of .*, found "loud"/],
    ])("of the controller ends it with code 3 and names line and column: %j", async (text, pattern) => {
      const file = join(site.folder, "bad.yml");
      writeFileSync(file, text);
      const { code, output } = await site.network.runToEnd("controller", "run", file);
      expect(output).toMatch(pattern);
      expect(code).toBe(3);
    });

    it.each([
      ["run", "v: 3\nidentity: {cert: a\n", /bad-router\.yml:\d+:\d+: /],
      [
        "run",
        "v: 3\nedge:\n  heartbeatIntervalSeconds: soon\n",
        /bad-router\.yml:3:\d+: edge\.heartbeatIntervalSeconds: expected .*, found /,
      ],
      ["check", "v: 2\n", /bad-router\.yml:1:\d+: v: expected .*, found /],
      ["enroll", "v: 3\nctrl:\n  endpoint: nowhere\n", /bad-router\.yml:3:\d+: ctrl\.endpoint: expected .*, found /],
    ])("of the router ends `%s` with code 2 and names line and column: %j", async (command, text, pattern) => {
      const file = join(site.folder, "bad-router.yml");
      writeFileSync(file, text);
      const rest = command === "enroll" ? ["--jwt", join(site.folder, "r1.jwt")] : [];
      const { code, output } = await site.network.runToEnd("router", command, file, ...rest);
      expect(output).toMatch(pattern);
      expect(code).toBe(2);
    });

    it("ports that are taken end both programs with a message that names the port", async () => {
      const router = await site.network.runToEnd("router", "run", join(site.folder, "r1.yml"));
      expect(router.output).toMatch(
        new RegExp(`r1\\.yml:\\d+:\\d+: .*: cannot listen on .*:${site.routerPort}: another program listens there`),
      );
      expect(router.code).toBe(1);
      const dir = join(site.folder, "second");
      const made = await site.network.runToEnd(
        "controller",
        ...["init", "--dir", dir, "--host", "localhost", "--api-port", String(site.network.port)],
      );
      expect(made.code).toBe(0);
      const controller = await site.network.runToEnd("controller", "run", join(dir, "controller.yml"));
      expect(controller.output).toContain(`:${site.network.port} (api.bind in ${join(dir, "controller.yml")})`);
      expect(controller.output).toContain("another program listens there");
      expect(controller.code).toBe(1);
    }, 60_000);

    it("a router's token for another network ends `enroll` with what is wrong, and no certificate", async () => {
      const file = join(site.folder, "r9.yml");
      writeFileSync(file, routerFile({ folder: site.folder, name: "r9", controllerPort: site.network.port, port: 1 }));
      const used = await site.network.runToEnd("router", "enroll", file, "--jwt", join(site.folder, "r1.jwt"));
      expect(used.code).toBe(1);
      expect(used.output).toContain("INVALID_ENROLLMENT_TOKEN");
      expect(readdirSync(site.folder)).not.toContain("r9.cert");
    });
  });
}
