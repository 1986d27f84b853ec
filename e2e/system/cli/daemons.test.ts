import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { symlinkSync, writeFileSync } from "node:fs";
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
    expect(help.stdout).toContain(`sallyport-${name} `);
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

  it("is the program, with the same process id and its signals", async () => {
    symlinkSync(MAIN, join(folder, "sallyport"));
    writeFileSync(join(folder, "sallyport-router"), '#!/bin/sh\necho "$$ $*"\nexec sleep 60\n', { mode: 0o755 });
    const child = spawn(process.execPath, [join(folder, "sallyport"), "router", "a b", "--x"]);
    const [said] = await once(child.stdout, "data");
    expect(String(said)).toBe(`${child.pid} a b --x\n`);
    child.kill("SIGTERM");
    await once(child, "close");
    expect(child.signalCode).toBe("SIGTERM");
  });
});
