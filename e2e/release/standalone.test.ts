import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@sallyport/api/client";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readElf } from "../../images/elf/elf.ts";
import { accepts, Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { hasRelease, publicKey, RELEASE_FOLDER, VERSION } from "./offered.ts";
import { toolOf } from "./tool-of.ts";

const PROGRAMS = ["sallyport", ...["controller", "operator", "router", "tunnel"].map((name) => `sallyport-${name}`)];
const DEBIAN = process.arch === "x64" ? "amd64" : process.arch;
const RPM = process.arch === "x64" ? "x86_64" : "aarch64";
/** A machine without Node and npm. */
const BARE = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: "/nonexistent", LANG: "C.UTF-8" };

describe.skipIf(!hasRelease || process.platform !== "linux")("a release on a machine without npm", () => {
  const scratch = makeScratch("standalone");
  const prefix = join(scratch, "prefix");
  const archive = `sallyport-${VERSION}-linux-${process.arch}.tar.gz`;
  const minisign = publicKey === undefined ? undefined : toolOf("minisign");
  const keyed: NodeJS.ProcessEnv =
    minisign === undefined || publicKey === undefined
      ? {}
      : { SALLYPORT_PUBLIC_KEY: publicKey, PATH: `${join(minisign, "..")}:${BARE.PATH}` };

  const install = (from: string, ...args: string[]) =>
    spawnSync("sh", [join(RELEASE_FOLDER, "install.sh"), "--from", from, "--prefix", prefix, ...args], {
      encoding: "utf8",
      env: { ...BARE, ...keyed },
    });

  beforeAll(() => {
    const { status, stderr } = install(RELEASE_FOLDER);
    expect(stderr).toBe("");
    expect(status).toBe(0);
    // The embedded database may run as another user, who has to reach its programs.
    for (const folder of [prefix, join(prefix, "lib")]) chmodSync(folder, 0o755);
  });
  afterAll(() => removeScratch(scratch));

  test("is signed: minisign takes the checksums, and install.sh nothing else", (context) => {
    if (minisign === undefined || publicKey === undefined)
      return context.skip("minisign cannot be had on this machine");
    const key = publicKey;
    const check = (folder: string) =>
      spawnSync(minisign, ["-V", "-m", join(folder, "SHA256SUMS"), "-p", key], { encoding: "utf8" });
    expect(check(RELEASE_FOLDER).stdout).toContain(`Trusted comment: Sallyport ${VERSION}`);
    const forged = join(scratch, "forged");
    mkdirSync(forged);
    for (const name of ["SHA256SUMS", "SHA256SUMS.minisig", archive])
      copyFileSync(join(RELEASE_FOLDER, name), join(forged, name));
    writeFileSync(
      join(forged, "SHA256SUMS"),
      readFileSync(join(forged, "SHA256SUMS"), "utf8").replace(/^./, (digit) => (digit === "0" ? "1" : "0")),
    );
    expect(check(forged).status).not.toBe(0);
    const refused = install(forged);
    expect(refused.stderr).toContain("SHA256SUMS is not signed with");
    expect(refused.status).toBe(1);
  });

  test("has programs that say their version, by links from anywhere", () => {
    for (const program of PROGRAMS) {
      const version = execFileSync(join(prefix, "bin", program), ["--version"], { encoding: "utf8", env: BARE });
      expect(version).toContain(`${program} ${VERSION}`);
    }
  });

  test("has a controller that makes a network with its embedded database, and serves it", async () => {
    const program = join(prefix, "bin/sallyport-controller");
    const [port, folder] = [await freePort(), join(scratch, "network")];
    const ports = ["--api-port", String(port), "--ctrl-port", String(port)];
    execFileSync(program, ["init", "--dir", folder, "--host", "localhost", ...ports], { env: BARE });
    const controller = new Program({
      name: "controller",
      command: "env",
      args: [
        "-i",
        ...Object.entries(BARE).map(([name, value]) => `${name}=${value}`),
        program,
        "run",
        join(folder, "controller.yml"),
      ],
      logFile: join(scratch, "controller.log"),
    });
    try {
      await controller.ready("its port", () => accepts(port));
      const client = createClient("client", {
        baseUrl: `https://localhost:${port}`,
        tls: { rejectUnauthorized: false },
      });
      expect((await client.listWellKnownCas()).data.length).toBeGreaterThan(0);
      client.close();
    } finally {
      await controller.stop();
    }
  });

  test("brings Node, the database and its native modules for the other processor", () => {
    const other = process.arch === "x64" ? "arm64" : "x64";
    const folder = join(scratch, other);
    mkdirSync(folder);
    execFileSync("tar", [
      "-xzf",
      join(RELEASE_FOLDER, `sallyport-${VERSION}-linux-${other}.tar.gz`),
      "-C",
      folder,
      "--strip-components=1",
    ]);
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const binaries = files
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => /(\/node|\/initdb|\/postgres|\.node|\.so(\.[\d.]+)?)$/.test(path));
    for (const path of binaries) expect(readElf(readFileSync(path), path).arch, path).toBe(other);
    for (const part of ["runtime/node", "native/bin/postgres", "sodium-native.node", "koffi.node"])
      expect(
        binaries.some((path) => path.endsWith(part)),
        part,
      ).toBe(true);
  });

  test("is a Debian package that dpkg installs, checks and removes", (context) => {
    const overlay = inOverlay(
      `dpkg -i ${join(RELEASE_FOLDER, `sallyport_${VERSION}_${DEBIAN}.deb`)} >&2 && dpkg -V sallyport >&2 && sallyport-router --version &&
        stat -c %U:%a /var/lib/sallyport-controller && su -s /bin/sh sallyport -c 'sallyport-controller init --dir /var/lib/sallyport-controller --host localhost' >&2 &&
        systemd-analyze verify /usr/lib/systemd/system/sallyport-*.service >&2 && dpkg -r sallyport >&2 && ! ls /usr/lib/sallyport /usr/bin/sallyport-router >&2 && ls /var/lib/sallyport-controller/controller.yml`,
    );
    if (overlay === undefined)
      return context.skip("this needs root on Debian, and a root folder that can be laid over");
    expect(overlay.stdout, overlay.stderr).toBe(
      `sallyport-router ${VERSION} (protocol v1.6.20)\nsallyport:700\n/var/lib/sallyport-controller/controller.yml\n`,
    );
  });

  test("is an RPM package that rpm unpacks", (context) => {
    const rpm = toolOf("rpm");
    if (rpm === undefined || toolOf("nfpm") === undefined)
      return context.skip("rpm or nfpm cannot be had on this machine");
    const file = join(RELEASE_FOLDER, `sallyport-${VERSION}.${RPM}.rpm`);
    const ask = (...args: string[]) => execFileSync(rpm, ["-qp", ...args, file], { encoding: "utf8" });
    expect(ask("--requires").split("\n")).toContain("glibc >= 2.28");
    expect(ask("--scripts")).toContain("systemd-sysusers sallyport.conf");
    const root = join(scratch, "rpm");
    mkdirSync(root);
    execFileSync(rpm, ["--root", root, "--dbpath", "/var/lib/rpm", "-i", "--nodeps", "--noscripts", file], {
      stdio: "pipe",
    });
    expect(readdirSync(join(root, "usr/bin")).sort()).toEqual(expect.arrayContaining(PROGRAMS));
    const version = execFileSync(join(root, "usr/lib/sallyport/bin/sallyport-tunnel"), ["--version"], {
      encoding: "utf8",
      env: BARE,
    });
    expect(version).toContain(VERSION);
  });

  test("is removed by install.sh, which leaves nothing", () => {
    const { status, stdout } = install(RELEASE_FOLDER, "--remove");
    expect(stdout).toContain("removed ");
    expect(status).toBe(0);
    expect(readdirSync(join(prefix, "bin"))).toEqual([]);
    expect(readdirSync(join(prefix, "lib"))).toEqual([]);
  });

  /** Runs a script on a copy of this machine's files, of which nothing stays; undefined where that cannot be done. */
  function inOverlay(script: string): { readonly stdout: string; readonly stderr: string } | undefined {
    if (process.getuid?.() !== 0 || spawnSync("dpkg", ["--version"]).status !== 0) return undefined;
    if (toolOf("nfpm") === undefined) return undefined;
    const layers = join(scratch, "layers");
    mkdirSync(layers);
    // The release lies in the folder for temporary files, which is part of the copy.
    const prepare = `mount -t tmpfs tmpfs ${layers} && cd ${layers} && mkdir upper work root &&
      mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root && mount -t proc proc root/proc && mount --bind /dev root/dev`;
    const unshare = (inside: string) =>
      spawnSync("unshare", ["--mount", "--propagation", "private", "sh", "-c", inside], {
        encoding: "utf8",
        env: BARE,
      });
    if (unshare(prepare).status !== 0) return undefined;
    return unshare(`${prepare} && exec chroot root sh -c "$0"`.replace('"$0"', `'${script.replaceAll("'", "'\\''")}'`));
  }
});
