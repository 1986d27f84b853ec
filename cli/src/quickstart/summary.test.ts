import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { testContext } from "../testing/test-context.ts";
import type { Places } from "./places.ts";
import { showSummary } from "./summary.ts";

it("a terminal shows tokens as text and QR code, and a log only their files, which other users cannot read", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sallyport-summary-"));
  try {
    const places = { controllerFolder: "/net/controller", passwordFile: "/net/admin.password" } as Places;
    const tokens = [{ name: "machine-2", jwt: "head.claims.signature", until: new Date(0) }];
    const services = [{ name: "web", host: "127.0.0.1", port: 80, answers: true }];
    const shown = async (context: ReturnType<typeof testContext>, isQr: boolean) => {
      await showSummary({ network: "quickstart", places, tokenFolder: folder, services, tokens, isQr }, context);
      return context.output();
    };
    const file = join(folder, "machine-2.jwt");
    const log = await shown(testContext(), false);
    expect(log).toContain(`--join FILE, a copy of ${file}\n`);
    expect(log).not.toContain("head.claims");
    expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual(["head.claims.signature\n", 0o600]);
    const terminal = await shown(testContext({ NO_COLOR: "1" }, { columns: 120 }), true);
    expect(terminal).toContain("  sallyport quickstart --join head.claims.signature\n");
    expect(terminal).toMatch(/^ {2}█▀▀▀▀▀█ .* █▀▀▀▀▀█ {2}$/m);
    expect(terminal).toMatch(/ {2}web {2}127\.0\.0\.1:80 {2}web\.sallyport\.internal:80\n/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
