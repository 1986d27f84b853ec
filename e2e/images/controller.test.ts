import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../network/eventually.ts";
import { administrator } from "../network/network.ts";
import { accepts, type Program } from "../network/program.ts";
import { archiveOf, canRun } from "./archive-of.ts";
import { dataFolder } from "./data-folder.ts";
import { firstProcess, signalTo, UnpackedImage } from "./unpacked-image.ts";

const PASSWORD = "correct-horse-battery";
const FILE = "/var/lib/sallyport/controller.yml";

describe.skipIf(!canRun)("the controller's image", () => {
  let image: UnpackedImage;
  let data: string;
  let port: number;
  const volumes = () => ({ "/var/lib/sallyport": data });
  const init = () => [
    ...["init", "--dir", "/var/lib/sallyport", "--host", "localhost"],
    ...["--api-port", String(port), "--ctrl-port", String(port)],
  ];
  const run = async (): Promise<Program> => {
    const controller = image.start({ args: ["run", FILE], mounts: volumes() });
    await controller.ready("its port", () => accepts(port));
    return controller;
  };
  beforeAll(async () => {
    image = UnpackedImage.unpack(archiveOf("controller"));
    data = dataFolder();
    [port = 0] = await freePorts(1);
  });
  afterAll(async () => {
    await image.remove();
    rmSync(data, { recursive: true, force: true });
  });

  it("makes a network with its own PostgreSQL, without root and without a shell; a second time nothing is left to do", () => {
    const made = image.run({ args: init(), mounts: volumes(), env: { SALLYPORT_ADMIN_PASSWORD: PASSWORD } });
    expect(made).toMatchObject({ status: 0, errors: "", output: expect.stringContaining("is ready") });
    expect(statSync(join(data, "database")).uid).toBe(65_532);
    const again = image.run({ args: init(), mounts: volumes() });
    expect(again).toMatchObject({ status: 0, output: expect.stringContaining("Nothing had to be done") });
  });

  it("answers on its API, drains at SIGTERM, ends with 0, and leaves no process behind", async () => {
    const controller = await run();
    const management = await administrator(port, PASSWORD);
    const { data: identities } = await management.listIdentities({ query: {} });
    expect(identities.length).toBe(1);
    await management.createEdgeRouter({ body: { name: "kept" } });
    management.close();
    const processes = readdirSync("/proc").filter((name) => isIn(name, firstProcess(controller)));
    expect(processes.length).toBeGreaterThan(3);
    signalTo(controller, "SIGTERM");
    expect(await controller.exited).toBe(0);
    expect(controller.tail.join("\n")).toContain("controller stopped");
    expect(existsSync(join(data, "database", "postmaster.pid"))).toBe(false);
  });

  it("starts again on a volume whose rights were widened for its group, and keeps what was written", async () => {
    chmodSync(join(data, "database"), 0o2770);
    const controller = await run();
    const management = await administrator(port, PASSWORD);
    expect((await management.listEdgeRouters({ query: {} })).data.map(({ name }) => name)).toEqual(["kept"]);
    management.close();
    expect(statSync(join(data, "database")).mode & 0o777).toBe(0o700);
    signalTo(controller, "SIGKILL");
    await controller.exited;
  });

  it("recovers after it was killed", async () => {
    // The kernel has ended the database with the container, in the middle of things.
    expect(existsSync(join(data, "database", "postmaster.pid"))).toBe(true);
    const controller = await run();
    signalTo(controller, "SIGTERM");
    expect(await controller.exited).toBe(0);
  });

  it("starts its PostgreSQL again when that dies", async () => {
    const controller = await run();
    const inside = firstProcess(controller)!;
    const server = await eventually("the server", () => {
      const found = readdirSync("/proc").find((name) => isIn(name, inside) && parentOf(name) === inside);
      return found === undefined ? undefined : Number(found);
    });
    process.kill(server!, "SIGKILL");
    await controller.line(/the embedded PostgreSQL runs again/);
    const management = await eventually("a login", () => administrator(port, PASSWORD));
    management.close();
    signalTo(controller, "SIGTERM");
    expect(await controller.exited).toBe(0);
  });

  it("can be stopped while it makes a network", async () => {
    const fresh = dataFolder();
    const args = ["init", "--dir", "/var/lib/sallyport"];
    const controller = image.start({ args, mounts: { "/var/lib/sallyport": fresh } });
    // A signal is lost until the program has a handler; or the kernel ends the process by it, while Node holds signals back in its first thread only.
    const timer = setInterval(() => signalTo(controller, "SIGTERM"), 50);
    const status = await controller.exited;
    clearInterval(timer);
    rmSync(fresh, { recursive: true, force: true });
    expect([128 + 15, null], controller.tail.join("\n")).toContain(status);
  });

  it("has no shell that would run anything but the server of PostgreSQL", () => {
    const shell = (...args: string[]) => image.run({ entrypoint: ["/bin/sh"], args });
    const refused = { status: 127, output: "", errors: expect.stringContaining("this image has no shell") };
    expect(shell("-c", "/usr/local/bin/node --version")).toMatchObject(refused);
    expect(shell("-c", "echo hello; echo world")).toMatchObject(refused);
    expect(shell("-i")).toMatchObject(refused);
    expect(shell()).toMatchObject(refused);
    const postgres = image.executables().find((path) => path.endsWith("/bin/postgres"));
    expect(shell("-c", `"${postgres}" -V`)).toMatchObject({ status: 0, output: expect.stringMatching(/^postgres \(/) });
  });

  it("says that it cannot run without a configuration", () => {
    const { status, errors } = image.run({ args: ["run", FILE] });
    expect(status).toBe(3);
    expect(errors).toContain(FILE);
  });
});

/** Is the process in the namespace of processes that began with the other one? */
function isIn(name: string, first: number | undefined): boolean {
  if (!/^\d+$/.test(name) || first === undefined) return false;
  try {
    return (
      readFileSync(`/proc/${name}/status`, "utf8").includes("NSpid:") &&
      namespaceOf(name) === namespaceOf(String(first))
    );
  } catch {
    return false;
  }
}

function namespaceOf(pid: string): bigint {
  return statSync(`/proc/${pid}/ns/pid`, { bigint: true }).ino;
}

function parentOf(pid: string): number {
  return Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}
