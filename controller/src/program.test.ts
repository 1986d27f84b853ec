import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testDatabase } from "./store/testing/test-store.ts";

const PROGRAM = new URL("./main.ts", import.meta.url).pathname;

/** The parts of answers that are looked at here. */
interface Answer {
  status: number;
  body: { data: { id: string; token: string; enrollment: { ott: { jwt: string; token: string } } } };
}

interface Ended {
  status: number | null;
  out: string;
  err: string;
}

function start(args: readonly string[], env: NodeJS.ProcessEnv = {}, input?: string): ChildProcess {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    env: { PATH, NODE_COMPILE_CACHE, ...env },
  });
  child.stdin?.end(input);
  return child;
}

async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}, input?: string): Promise<Ended> {
  const child = start(args, env, input);
  const [out, err, [status]] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, "close")]);
  return { status: status as number | null, out, err };
}

/** A started controller, whose log is collected; resolves at its first line that says `ready`. */
async function startController(
  file: string,
): Promise<{ child: ChildProcess; log: () => string; ended: Promise<number | null> }> {
  const child = start(["run", file]);
  let log = "";
  const ended = once(child, "close").then(([status]) => status as number | null);
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.on("data", (chunk) => {
        log += String(chunk);
        if (log.includes('"controller ready"')) resolve();
      });
    }
    void ended.then((status) => reject(new Error(`the controller ended with status ${status}: ${log}`)));
  });
  return { child, log: () => log, ended };
}

async function call(port: number, method: string, path: string, body?: unknown, token?: string): Promise<Answer> {
  const headers = { "content-type": "application/json", ...(token ? { "zt-session": token } : {}) };
  const call = request({ host: "127.0.0.1", port, method, path, headers, rejectUnauthorized: false, agent: false });
  call.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = await once(call, "response");
  return { status: response.statusCode, body: JSON.parse(await text(response)) };
}

describe("sallyport-controller", { timeout: 120_000 }, () => {
  let dir: string;
  let file: string;
  let port: number;
  let password: string;
  let firstInit: Ended;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "sallyport-program-"));
    // As root, the database runs under another user, who must be able to pass.
    await chmod(dir, 0o711);
    file = join(dir, "net", "controller.yml");
    port = await freePort();
    firstInit = await run(["init", "--dir", join(dir, "net"), "--host", "127.0.0.1", "--api-port", String(port)]);
    password = /password: (\S+)/.exec(firstInit.out)?.[1] ?? "";
  }, 120_000);
  afterAll(async () => {
    await rm(dir, { recursive: true, force: true });
  });

  it("says its version and how it is used", async () => {
    expect(await run(["--version"])).toMatchObject({
      status: 0,
      out: expect.stringMatching(/^sallyport-controller \d+\.\d+\.\d+ \(protocol v1\.6\.20\)\n$/),
    });
    expect(await run(["--help"])).toMatchObject({
      status: 0,
      out: expect.stringContaining("sallyport-controller init --dir DIR"),
    });
    expect(await run(["start"])).toMatchObject({ status: 2, err: expect.stringContaining("unknown command start") });
  });

  it("init makes a network, prints a generated password once, and keeps secrets to their owner", async () => {
    expect(firstInit).toMatchObject({ status: 0, err: "" });
    expect(password).toMatch(/^[A-Za-z2-9]{20}$/);
    for (const name of ["controller.yml", "secret.key"])
      expect((await stat(join(dir, "net", name))).mode & 0o777).toBe(0o600);
    expect(await readFile(file, "utf8")).not.toContain(password);
  });

  it("init a second time changes nothing and says so", async () => {
    const before = await Promise.all(
      ["controller.yml", "secret.key"].map((name) => readFile(join(dir, "net", name), "utf8")),
    );
    const second = await run(["init", "--dir", join(dir, "net"), "--host", "other.example"], {
      SALLYPORT_ADMIN_PASSWORD: "another1",
    });
    expect(second).toMatchObject({ status: 0, err: "" });
    expect(second.out).toContain("nothing was changed");
    expect(second.out).not.toMatch(/^made|password:/m);
    const after = await Promise.all(
      ["controller.yml", "secret.key"].map((name) => readFile(join(dir, "net", name), "utf8")),
    );
    expect(after).toEqual(before);
  });

  it("runs, serves the API, keeps its log free of secrets, refuses a second controller, and stops on SIGTERM", async () => {
    const controller = await startController(file);
    const version = await call(port, "GET", "/version");
    expect(version).toMatchObject({ status: 200, body: { data: { version: "v1.6.20" } } });
    const credentials = { username: "admin", password };
    const login = await call(port, "POST", "/edge/management/v1/authenticate?method=password", credentials);
    expect(login.status).toBe(200);
    const { token } = login.body.data;
    const made = await call(
      port,
      "POST",
      "/edge/management/v1/identities",
      { name: "a", type: "Device", isAdmin: false, enrollment: { ott: true } },
      token,
    );
    expect(made.status).toBe(201);
    const shown = await call(port, "GET", `/edge/management/v1/identities/${made.body.data.id}`, undefined, token);
    const { jwt, token: enrollmentToken } = shown.body.data.enrollment.ott;
    expect(
      (
        await call(port, "POST", "/edge/management/v1/authenticate?method=password", {
          username: "admin",
          password: "wrong",
        })
      ).status,
    ).toBe(401);

    const second = await run(["run", file]);
    expect(second.status).toBe(4);
    expect(second.err).toMatch(/in use by sallyport-controller on \S+, process \d+/);
    const init = await run(["init", "--dir", join(dir, "net")]);
    expect(init.status).toBe(4);

    controller.child.kill("SIGTERM");
    expect(await controller.ended).toBe(0);
    const log = controller.log();
    expect(log).toContain('"controller stopped"');
    const [, key] = /secretKeyFile: (\S+)/.exec(await readFile(file, "utf8"))!;
    const secretKey = (await readFile(join(dir, "net", key!), "utf8")).trim();
    for (const secret of [password, token, jwt, enrollmentToken, secretKey]) expect(log.includes(secret)).toBe(false);
  });

  it("starts again with the same network after it was killed, and with what was set meanwhile", async () => {
    const first = await startController(file);
    const provider = "/oidc/.well-known/openid-configuration";
    expect(await call(port, "GET", provider)).toMatchObject({
      status: 200,
      body: { issuer: `https://127.0.0.1:${port}/oidc` },
    });
    first.child.kill("SIGKILL");
    await first.ended;
    const settings = await readFile(file, "utf8");
    expect(settings).toContain("  oidc:\n    # enabled: true\n");
    await writeFile(file, settings.replace("  oidc:\n    # enabled: true\n", "  oidc:\n    enabled: false\n"));
    const second = await startController(file);
    expect((await call(port, "GET", provider)).status).toBe(404);
    const login = await call(port, "POST", "/edge/management/v1/authenticate?method=password", {
      username: "admin",
      password,
    });
    expect(login.status).toBe(200);
    second.child.kill("SIGINT");
    expect(await second.ended).toBe(0);
  });

  it("admin reset lets a locked administrator in again, beside the controller and without it", async () => {
    const login = async (at: number, word: string) =>
      (
        await call(at, "POST", "/edge/management/v1/authenticate?method=password", {
          username: "admin",
          password: word,
        })
      ).status;
    const { child, log, ended } = await startController(file);
    try {
      const { body } = await call(port, "POST", "/edge/management/v1/authenticate?method=password", {
        username: "admin",
        password,
      });
      const { token } = body.data;
      const me = await call(port, "GET", "/edge/management/v1/current-identity", undefined, token);
      await call(
        port,
        "POST",
        `/edge/management/v1/identities/${me.body.data.id}/disable`,
        { durationMinutes: 0 },
        token,
      );
      expect(await login(port, password)).toBe(401);
      const reset = await run(["admin", "reset", file], {}, "Beside-1\n");
      expect(reset).toMatchObject({ status: 0, err: "" });
      expect(reset.out).toContain("user name admin, with the new password");
      expect(reset.out).toContain("is enabled again");
      expect(reset.out).not.toContain("Beside-1");
      expect([await login(port, password), await login(port, "Beside-1")]).toEqual([401, 200]);
      expect(log()).not.toContain("Beside-1");
    } finally {
      child.kill("SIGTERM");
      await ended;
    }
    expect(await run(["admin", "reset", file], {}, "")).toMatchObject({
      status: 1,
      err: expect.stringContaining("no password"),
    });
    expect(await run(["admin", "reset", file, "--identity", "unknown"], {}, "Beside-1\n")).toMatchObject({
      status: 1,
      err: expect.stringContaining("no identity has the id, name or user name unknown"),
    });
    const stopped = await run(["admin", "reset", file, "--generate", "--own-policy"]);
    password = /password: (\S+)/.exec(stopped.out)?.[1] ?? "";
    expect(password).toHaveLength(24);
    const again = await startController(file);
    try {
      expect([await login(port, "Beside-1"), await login(port, password)]).toEqual([401, 200]);
    } finally {
      again.child.kill("SIGTERM");
      await again.ended;
    }
  });

  it("names every mistake of its configuration, or what is missing, and exits", async () => {
    const bad = join(dir, "bad.yml");
    await writeFile(bad, "api: { bind: nowhere }\nlog: { level: loud }\n");
    const ended = await run(["run", bad]);
    expect(ended.status).toBe(3);
    expect(ended.err).toContain(`${bad}:1:14: api.bind: expected a place to listen on`);
    expect(ended.err).toContain(`${bad}:2:15: log.level: expected one of debug, info, warn, error, found "loud"`);
    expect(await run(["run", join(dir, "none.yml")])).toMatchObject({
      status: 3,
      err: expect.stringContaining("ENOENT"),
    });
  });

  it("says when its port is taken, and when the secret key is another one", async () => {
    const taken = createServer().listen(port);
    await once(taken, "listening");
    expect(await run(["run", file])).toMatchObject({
      status: 1,
      err: expect.stringMatching(/cannot listen on .*api\.bind in .*another program listens there/),
    });
    taken.close();
    const wrong = await run(["run", file], { SALLYPORT_SECRET_KEY: Buffer.alloc(32).toString("base64") });
    expect(wrong).toMatchObject({ status: 1, err: expect.stringContaining("made under another secret key") });
  });

  it("works on a PostgreSQL of the user's, given by URL", async () => {
    const { connection, drop } = await testDatabase();
    const url = `postgres://${connection.user}@localhost/${connection.database}?host=${encodeURIComponent(connection.host)}`;
    const place = join(dir, "url");
    const args = [
      "--dir",
      place,
      "--host",
      "127.0.0.1",
      "--api-port",
      String(await freePort()),
      "--ctrl-port",
      String(await freePort()),
    ];
    expect(await run(["init", ...args, "--database-url", url])).toMatchObject({ status: 0, err: "" });
    const controller = await startController(join(place, "controller.yml"));
    const { apiPort, ctrlPort } = JSON.parse(
      controller
        .log()
        .split("\n")
        .find((line) => line.includes("controller ready")) ?? "{}",
    );
    expect(apiPort).not.toBe(ctrlPort);
    expect((await call(apiPort, "GET", "/version")).status).toBe(200);
    await expect(call(ctrlPort, "GET", "/version")).rejects.toThrow();
    controller.child.kill("SIGTERM");
    expect(await controller.ended).toBe(0);
    expect(controller.log()).not.toContain("?host=");
    await drop();
  });

  it("init refuses an administrator that the API would refuse, and makes nothing", async () => {
    const ended = await run(["init", "--dir", join(dir, "never")], { SALLYPORT_ADMIN_PASSWORD: "1234" });
    expect(ended).toMatchObject({
      status: 1,
      err: expect.stringContaining("SALLYPORT_ADMIN_PASSWORD must have 5 to 100 characters"),
    });
    expect(await readdir(dir)).not.toContain("never");
  });
});
