import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const MAIN = join(import.meta.dirname, "../../../cli/src/main.ts");
const folder = makeScratch("cli-daemons");

afterAll(() => removeScratch(folder));

describe("sallyport as one of the programs of a network", () => {
  it.each(["controller", "router", "tunnel", "operator"])("%s prints that program's version and help", (name) => {
    const { status, stdout } = spawnSync(process.execPath, [MAIN, name, "--version"], { encoding: "utf8" });
    expect([status, stdout]).toEqual([0, expect.stringMatching(new RegExp(`^sallyport-${name} \\d+\\.\\d+`))]);
    const help = spawnSync(process.execPath, [MAIN, "help", name], { encoding: "utf8" });
    expect(help.stdout).toMatch(new RegExp(`^usage: sallyport-${name} `, "i"));
  });

  it("ends as the program does, with its messages", () => {
    const { status, stderr } = spawnSync(process.execPath, [MAIN, "router", "run", join(folder, "none.yml")], {
      encoding: "utf8",
    });
    const direct = spawnSync(
      process.execPath,
      [join(MAIN, "../../../router/src/main.ts"), "run", join(folder, "none.yml")],
      {
        encoding: "utf8",
      },
    );
    expect(status).toBe(direct.status);
    expect(status).not.toBe(0);
    expect(stderr).toContain("none.yml");
  });

  it.skipIf(process.platform !== "linux")("is the program, with the same process id and its signals", async () => {
    const file = join(folder, "controller.yml");
    const child = spawn(
      process.execPath,
      [MAIN, "controller", "init", "--dir", join(folder, "ctrl"), "--host", "localhost"],
      {
        stdio: ["ignore", "pipe", "pipe"],
        env: { ...process.env, SALLYPORT_ADMIN_USERNAME: "admin", SALLYPORT_ADMIN_PASSWORD: "correct-horse" },
      },
    );
    await once(child.stdout, "data");
    const line = readFileSync(`/proc/${child.pid}/cmdline`, "utf8").split("\0");
    expect(line.some((part) => part.endsWith("controller/src/main.ts"))).toBe(true);
    expect(file).toContain(folder);
    child.kill("SIGTERM");
    await once(child, "close");
    expect(child.signalCode ?? child.exitCode).not.toBeNull();
  });
});
