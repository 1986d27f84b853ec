import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const program = fileURLToPath(new URL("main.ts", import.meta.url));
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sallyport-tunnel-main-"));
});
afterEach(async () => await rm(folder, { recursive: true }));

function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], { cwd: folder, timeout: 60_000 }, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), out, err });
    });
  });
}

describe("sallyport-tunnel", () => {
  it("prints its version and its usage", async () => {
    expect(await run("--version")).toMatchObject({ code: 0, out: expect.stringMatching(/^sallyport-tunnel \d+\.\d+/) });
    expect(await run("--help")).toMatchObject({ code: 0, out: expect.stringContaining("usage: sallyport-tunnel") });
  });

  it("a wrong command line ends with 2 and the usage", async () => {
    const { code, err } = await run("host");
    expect([code, err]).toEqual([2, expect.stringMatching(/host needs -i <identity>[\s\S]*usage:/)]);
  });

  it("an identity that is not there, none, or no identity: 2, with what to do", async () => {
    expect(await run("host", "-i", "none.json")).toMatchObject({
      code: 2,
      err: expect.stringContaining("the identity none.json cannot be read; make one with: sallyport-tunnel enroll"),
    });
    await mkdir(join(folder, "empty"));
    expect(await run("host", "-i", "empty")).toMatchObject({
      code: 2,
      err: expect.stringContaining("there is no .json file in the folder empty"),
    });
    await writeFile(join(folder, "bad.json"), "{}");
    expect(await run("host", "-i", "bad.json")).toMatchObject({ code: 2, err: expect.stringContaining("bad.json") });
  });

  it("a service of a proxy that is none: 2", async () => {
    await writeFile(join(folder, "me.json"), "{}");
    const { code, err } = await run("proxy", "-i", "me.json", "web:80:sctp");
    expect([code, err]).toEqual([2, expect.stringContaining("must be tcp or udp")]);
  });

  it("enrolling touches no identity file that exists, and leaves none behind when it fails", async () => {
    await writeFile(join(folder, "me.jwt"), "not a token");
    await writeFile(join(folder, "me.json"), "precious");
    expect(await run("enroll", "--jwt", "me.jwt")).toMatchObject({
      code: 2,
      err: expect.stringContaining("name another one with -o"),
    });
    expect(await readFile(join(folder, "me.json"), "utf8")).toBe("precious");
    expect(await run("enroll", "--jwt", "me.jwt", "-o", "new.json")).toMatchObject({ code: 1 });
    await expect(readFile(join(folder, "new.json"))).rejects.toThrow("ENOENT");
    expect(await run("enroll", "--jwt", "none.jwt")).toMatchObject({
      code: 2,
      err: expect.stringContaining("the token file of --jwt cannot be read"),
    });
  });
});
