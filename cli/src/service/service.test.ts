import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { main } from "../main.ts";
import { lockFolder } from "../quickstart/programs/folder-lock.ts";
import { testContext } from "../testing/test-context.ts";
import { PACKAGED, SERVICES, systemFolder, unitName, unitText } from "./unit.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "sallyport-service-"));
});
afterEach(() => rmSync(root, { recursive: true }));

describe("units of systemd", () => {
  it("of packages run in their folders, as their user", () => {
    for (const service of PACKAGED) {
      const command = [`/usr/bin/sallyport-${service}`];
      const lines = unitText({ service, scope: "system", command, folder: systemFolder(service) }).split("\n");
      expect(lines).toEqual(
        expect.arrayContaining([
          "User=sallyport",
          `StateDirectory=sallyport-${service}`,
          `WorkingDirectory=/var/lib/sallyport-${service}`,
          "ProtectSystem=strict",
          "ReadWritePaths=/tmp",
          "NoNewPrivileges=yes",
          "WantedBy=multi-user.target",
        ]),
      );
      expect(lines.includes("CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_BIND_SERVICE")).toBe(service === "tunnel");
    }
  });

  it("of a quick start run as the user who has made it, and go on with it", () => {
    const unit = (service: "quickstart" | "join", scope: "system" | "user") =>
      unitText({ service, scope, command: ["/usr/bin/sallyport"], folder: "/home/me/net" }).split("\n");
    expect(unit("quickstart", "user")).toEqual(
      expect.arrayContaining([
        "ConditionPathExists=/home/me/net/quickstart.json",
        "ExecStart=/usr/bin/sallyport quickstart --dir .",
        "KillMode=mixed",
        "WantedBy=default.target",
      ]),
    );
    expect(unit("join", "system")).toEqual(
      expect.arrayContaining([
        "User=root",
        "ExecStart=/usr/bin/sallyport quickstart --join --dir .",
        "ProtectClock=yes",
      ]),
    );
    for (const line of ["ProtectHome=yes", "ProtectSystem=strict"]) expect(unit("join", "system")).not.toContain(line);
  });

  it("have no word that systemd would read as another one", () => {
    const folder = "/srv/100% mine";
    const args = ["proxy", "-i", "an identity.json", 'we$b"\\:8000'];
    const text = unitText({ service: "tunnel", scope: "system", command: ["/opt/a b/tunnel"], folder, args });
    expect(text).toContain('ExecStart="/opt/a b/tunnel" proxy -i "an identity.json" "we$$b\\"\\\\:8000"\n');
    expect(text).toContain("WorkingDirectory=/srv/100%% mine\n");
    expect(text).toContain('ReadWritePaths=/tmp "/srv/100%% mine"\n');
    const bad = () => unitText({ service: "tunnel", scope: "user", command: ["t"], folder: "/a\nExecStart=/bin/sh" });
    expect(bad).toThrow("has control characters");
  });

  it.skipIf(spawnSync("systemd-analyze", ["--version"]).status !== 0)("are what systemd accepts", () => {
    const files = SERVICES.flatMap((service) =>
      (["system", "user"] as const).map((scope) => {
        mkdirSync(join(root, scope), { recursive: true });
        const file = join(root, scope, unitName(service));
        writeFileSync(
          file,
          unitText({ service, scope, command: ["/bin/true"], folder: "/tmp/100% mine", user: "root" }),
        );
        return file;
      }),
    );
    for (const file of files) {
      const { status, stderr } = spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" });
      expect({ status, stderr }, file).toEqual({ status: 0, stderr: "" });
    }
  });
});

describe.skipIf(process.platform !== "linux")("sallyport service", () => {
  const at = (...path: string[]): string => join(root, ...path);
  const put = (file: string, text: string): void => {
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, text, { mode: 0o755 });
  };
  const unit = (): string => at("config", "systemd", "user", "sallyport-tunnel.service");
  const calls = (): string[] => readFileSync(at("calls"), "utf8").trimEnd().split("\n");

  beforeEach(() => {
    put(at("bin", "sallyport-tunnel"), "#!/bin/sh\n");
    put(at("bin", "systemctl"), `#!/bin/sh\necho "$*" >> ${at("calls")}\n`);
    mkdirSync(at("run", "systemd"), { recursive: true });
  });

  const run = async (...args: string[]) => {
    const env = {
      PATH: `${at("bin")}:/usr/bin:/bin`,
      HOME: at("home"),
      XDG_CONFIG_HOME: at("config"),
      XDG_RUNTIME_DIR: at("run"),
    };
    const context = testContext(env);
    const code = await main(["service", ...args], context);
    return { code, output: context.output(), errors: context.errors() };
  };

  it("installs a unit of a user, starts it when its identity is there, and removes it", async () => {
    const first = await run("install", "tunnel", "--user");
    expect(first).toMatchObject({ code: 0, errors: "" });
    expect(first.output).toContain(`wrote ${unit()}\nsallyport-tunnel.service is enabled\nthere is no ${at("home")}`);
    expect(calls()).toEqual(["--user daemon-reload", "--user enable sallyport-tunnel.service"]);
    expect(readFileSync(unit(), "utf8")).toContain(
      `ExecStart=${at("bin", "sallyport-tunnel")} host -i identity.json\n`,
    );
    put(at("home", ".local", "share", "sallyport", "tunnel", "identity.json"), "{}");
    const again = await run("install", "tunnel", "--user", "--", "proxy", "-i", "identity.json", "web:8000");
    expect(again.output).toContain("sallyport-tunnel.service is enabled and runs\n");
    expect(calls().slice(2)).toEqual([
      "--user daemon-reload",
      "--user enable --now sallyport-tunnel.service",
      "--user restart sallyport-tunnel.service",
    ]);
    expect(readFileSync(unit(), "utf8")).toContain("sallyport-tunnel proxy -i identity.json web:8000\n");
    const removed = await run("uninstall", "tunnel", "--user");
    expect(removed.output).toBe(`removed ${unit()}; what the program has written stays\n`);
    expect(calls().slice(5)).toEqual(["--user disable --now sallyport-tunnel.service", "--user daemon-reload"]);
    expect(existsSync(unit())).toBe(false);
    expect(await run("uninstall", "tunnel", "--user")).toMatchObject({
      code: 1,
      errors: `sallyport: there is no ${unit()}: nothing to remove; --system is for the other place\n`,
    });
  });

  it("writes the unit where systemd does not run, and says what is to be done", async () => {
    rmSync(at("run"), { recursive: true });
    const { code, output } = await run("install", "tunnel", "--user");
    expect(code).toBe(0);
    expect(output).toContain(
      "the systemd of this user does not run here, so nothing was started. Where it runs: systemctl --user daemon-reload && systemctl --user enable sallyport-tunnel.service\n",
    );
    expect(existsSync(unit())).toBe(true);
  });

  it("changes nothing with --dry-run, beside another's unit, or with arguments that cannot be used", async () => {
    const dry = await run("install", "tunnel", "--user", "--dry-run");
    expect(dry.output).toMatch(
      /^# .*sallyport-tunnel\.service\n# Written by[\s\S]*\n# systemctl --user daemon-reload\n/,
    );
    expect(existsSync(unit())).toBe(false);
    put(unit(), "[Unit]\n");
    for (const what of ["install", "uninstall"])
      expect((await run(what, "tunnel", "--user")).errors).toContain("was not written by 'sallyport service install'");
    expect(readFileSync(unit(), "utf8")).toBe("[Unit]\n");
    for (const [args, message] of [
      [["install", "tunnels", "--user"], "Allowed choices are controller, router, tunnel, quickstart, join"],
      [["install", "tunnel", "--user", "--system"], "exclude each other"],
      [["install", "tunnel", "--user", "--run-as", "me"], "--run-as is for services of the system"],
      [["install", "tunnel", "--system", "--dry-run", "--run-as", "a b"], "cannot be the name of a user"],
      [["install", "tunnel", "--user", "--dir", "/a\nb"], "control characters"],
    ] as const) {
      expect((await run(...args)).errors, args.join(" ")).toContain(message);
    }
    expect(existsSync(at("calls"))).toBe(false);
  });

  it("goes on with a quick start of this user, which must not run at the same time", async () => {
    put(at("bin", "sallyport"), "#!/bin/sh\n");
    const folder = at("home", ".local", "share", "sallyport", "quickstart");
    put(join(folder, "quickstart.json"), "{}");
    const unlock = await lockFolder(folder);
    expect((await run("install", "quickstart", "--user")).errors).toContain(
      `it runs in ${folder} already (process ${process.pid}): stop it, and install the service then`,
    );
    await unlock();
    expect((await run("install", "quickstart", "--user")).output).toContain(
      "sallyport-quickstart.service is enabled and runs\n",
    );
    expect(readFileSync(at("config", "systemd", "user", "sallyport-quickstart.service"), "utf8")).toContain(
      `WorkingDirectory=${folder}\nExecStart=${at("bin", "sallyport")} quickstart --dir .\n`,
    );
    expect((await run("install", "join", "--user")).output).toContain(
      "yet: join with 'sallyport quickstart --join TOKEN', stop it",
    );
  });

  it("says which command of systemd failed, and why", async () => {
    put(at("bin", "systemctl"), "#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n");
    expect(await run("install", "tunnel", "--user")).toMatchObject({
      code: 1,
      errors: "sallyport: 'systemctl --user daemon-reload' failed: Failed to connect to bus\n",
    });
  });
});
