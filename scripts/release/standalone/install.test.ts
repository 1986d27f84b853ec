import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checksums } from "../checksums.ts";
import { installScript } from "./parts.ts";

const NAME = `sallyport-1.2.3-linux-${process.arch}`;

describe.skipIf(process.platform !== "linux")("install.sh", () => {
  let folder: string;
  let release: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "sallyport-install-"));
    release = join(folder, "release");
    const top = join(folder, "content", NAME);
    const program = (path: string, text: string) => {
      mkdirSync(join(top, path, ".."), { recursive: true });
      writeFileSync(join(top, path), `#!/bin/sh\n${text}\n`);
      chmodSync(join(top, path), 0o755);
    };
    program("bin/sallyport-router", "echo it runs");
    program("runtime/node", "exit 0");
    mkdirSync(release);
    const archive = join(release, `${NAME}.tar.gz`);
    execFileSync("tar", ["-czf", archive, "-C", join(folder, "content"), NAME]);
    writeFileSync(join(release, "SHA256SUMS"), checksums(new Map([[`${NAME}.tar.gz`, readFileSync(archive)]])));
    writeFileSync(join(release, "install.sh"), installScript("1.2.3"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const install = (...args: string[]) => {
    const env = { ...process.env, HOME: join(folder, "home"), SALLYPORT_PUBLIC_KEY: "" };
    const { status, stdout, stderr } = spawnSync("sh", [join(release, "install.sh"), ...args], {
      encoding: "utf8",
      env,
    });
    return { status, stdout, stderr };
  };
  const prefix = (...path: string[]) => join(folder, "prefix", ...path);

  it("fits one screen", () => {
    expect(installScript("1.2.3").trimEnd().split("\n").length).toBeLessThanOrEqual(60);
    expect(installScript("1.2.3")).not.toContain("@");
  });

  it("installs from its own folder, again over itself, and removes what it has installed", () => {
    for (const _ of [1, 2]) {
      expect(install("--prefix", prefix())).toMatchObject({ status: 0, stderr: "" });
      expect(execFileSync(prefix("bin/sallyport-router"), { encoding: "utf8" })).toBe("it runs\n");
    }
    writeFileSync(prefix("bin/other"), "");
    expect(install("--prefix", prefix(), "--remove")).toMatchObject({ status: 0, stderr: "" });
    expect(existsSync(prefix("lib/sallyport-1.2.3"))).toBe(false);
    expect(execFileSync("ls", [prefix("bin")], { encoding: "utf8" })).toBe("other\n");
    expect(install("--prefix", prefix(), "--remove")).toMatchObject({ status: 1 });
  });

  it("installs for one user, from an address", async () => {
    const server = createServer((request, response) => response.end(readFileSync(join(release, request.url ?? ""))));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      const env = { ...process.env, HOME: join(folder, "home"), SALLYPORT_PUBLIC_KEY: "" };
      const { promise, resolve } = Promise.withResolvers<unknown>();

      spawn("sh", [join(release, "install.sh"), "--user", "--from", url], { env }).once("exit", resolve);
      expect(await promise).toBe(0);
      expect(existsSync(join(folder, "home/.local/bin/sallyport-router"))).toBe(true);
    } finally {
      server.close();
    }
  });

  it("installs nothing with another checksum, without one, with a wrong argument, or where Node does not start", () => {
    const refused = (message: string, ...args: string[]) => {
      const { status, stderr } = install("--prefix", prefix(), ...args);
      expect(stderr).toContain(message);
      expect(status).toBe(1);
      expect(existsSync(prefix("bin/sallyport-router"))).toBe(false);
    };
    refused("unknown argument --perfix", "--perfix");
    refused("--from needs a value", "--from");
    refused("has no SHA256SUMS", "--from", folder);
    appendFileSync(join(release, `${NAME}.tar.gz`), "more");
    refused("does not have the checksum in SHA256SUMS");
    writeFileSync(join(release, "SHA256SUMS"), "");
    refused("does not have the checksum in SHA256SUMS");
    writeFileSync(join(folder, "content", NAME, "runtime/node"), "#!/bin/sh\nexit 1\n");
    const archive = join(release, `${NAME}.tar.gz`);
    execFileSync("tar", ["-czf", archive, "-C", join(folder, "content"), NAME]);
    writeFileSync(join(release, "SHA256SUMS"), checksums(new Map([[`${NAME}.tar.gz`, readFileSync(archive)]])));
    refused("Node does not start here");
    expect(existsSync(prefix("lib/sallyport-1.2.3.new"))).toBe(false);
  });
});
