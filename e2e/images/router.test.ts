import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { administrator } from "../network/network.ts";
import { accepts, type Program } from "../network/program.ts";
import { archiveOf, canRun } from "./archive-of.ts";
import { dataFolder } from "./data-folder.ts";
import { signalTo, UnpackedImage } from "./unpacked-image.ts";

const PASSWORD = "correct-horse-battery";
const CONFIG = "/etc/sallyport/router.yml";

describe.skipIf(!canRun)("the router's image", () => {
  let image: UnpackedImage;
  beforeAll(() => {
    image = UnpackedImage.unpack(archiveOf("router"));
  });
  afterAll(() => image.remove());

  it("says that it cannot run without a configuration", () => {
    const { status, errors } = image.run({ args: ["run", CONFIG] });
    expect(status).toBe(2);
    expect(errors).toContain(`${CONFIG}: expected a file that can be read`);
  });

  it("prints how it is used when nothing is said", () => {
    expect(image.run()).toMatchObject({ status: 0, output: expect.stringContaining("usage: sallyport-router") });
  });

  it("enrolls once, comes online with nothing but its volume to write to, and ends with 0 at SIGTERM", async () => {
    const controllerImage = UnpackedImage.unpack(archiveOf("controller"));
    const [controllerData, routerData, config, token] = [dataFolder(), dataFolder(), dataFolder(), dataFolder()];
    const [port = 0, routerPort = 0] = await freePorts(2);
    const mounts = { "/var/lib/sallyport": controllerData };
    const running: Program[] = [];
    try {
      const init = ["init", "--dir", "/var/lib/sallyport", "--api-port", String(port), "--ctrl-port", String(port)];
      const made = controllerImage.run({ args: init, mounts, env: { SALLYPORT_ADMIN_PASSWORD: PASSWORD } });
      expect(made.status, made.errors).toBe(0);
      const controller = controllerImage.start({ args: ["run", "/var/lib/sallyport/controller.yml"], mounts });
      running.push(controller);
      await controller.ready("its port", () => accepts(port));
      const management = await administrator(port, PASSWORD);
      const { data } = await management.createEdgeRouter({ body: { name: "edge" } });
      const detail = await management.detailEdgeRouter({ params: { id: data.id } });
      writeFileSync(join(token, "enrollment.jwt"), detail.data.enrollmentJwt ?? "");
      writeFileSync(
        join(config, "router.yml"),
        image.run({
          args: [
            ...["create-config", "edge", "--controller", `tls:localhost:${port}`, "--host", "localhost"],
            ...["--port", String(routerPort), "--link-port", String(routerPort), "--private"],
          ],
        }).output,
      );
      const volumes = { "/var/lib/sallyport": routerData, "/etc/sallyport": config };
      const enroll = ["enroll", CONFIG, "--if-needed", "--jwt", "/etc/sallyport-enrollment/enrollment.jwt"];
      const enrolled = image.run({
        args: [...enroll, "--expect-id", data.id],
        mounts: { ...volumes, "/etc/sallyport-enrollment": token },
      });
      expect(enrolled, enrolled.errors).toMatchObject({ status: 0, output: expect.stringContaining("is enrolled") });
      // What an init container does at every further start, without the token.
      const again = image.run({ args: [...enroll, "--expect-id", data.id], mounts: volumes });
      expect(again, again.errors).toMatchObject({ status: 0, output: expect.stringContaining("was enrolled already") });

      const router = image.start({ args: ["run", CONFIG], mounts: volumes });
      running.push(router);
      await router.ready("being online", async () => {
        const { data } = await management.listEdgeRouters({ query: {} });
        return data[0]?.isOnline === true;
      });
      expect(await accepts(routerPort)).toBe(true);
      management.close();
      signalTo(router, "SIGTERM");
      expect(await router.exited).toBe(0);
      signalTo(controller, "SIGTERM");
      expect(await controller.exited).toBe(0);
    } catch (error) {
      for (const { name, tail } of running) console.error(`${name}:\n${tail.join("\n")}`);
      throw error;
    } finally {
      await controllerImage.remove();
      for (const folder of [controllerData, routerData, config, token])
        rmSync(folder, { recursive: true, force: true });
    }
  });

  it("brings what its tunneler calls to intercept", () => expectInterceptionTools(image));
});

describe.skipIf(!canRun)("the tunneler's image", () => {
  let image: UnpackedImage;
  beforeAll(() => {
    image = UnpackedImage.unpack(archiveOf("tunnel"));
  });
  afterAll(() => image.remove());

  it("says that it cannot run without an identity", () => {
    const { status, errors } = image.run({ args: ["host", "-i", "/etc/sallyport-identity/identity.json"] });
    expect(status).toBe(2);
    expect(errors).toContain("/etc/sallyport-identity/identity.json");
  });

  it("brings what it calls to intercept", () => expectInterceptionTools(image));
});

/** In a network of its own, as root with all rights there: what a pod for tproxy has. */
function expectInterceptionTools(image: UnpackedImage): void {
  const asRoot = { user: "0:0", isolated: true };
  const ip = (...args: string[]) => image.run({ ...asRoot, entrypoint: ["/usr/sbin/ip"], args });
  expect(ip("-o", "link")).toMatchObject({ status: 0, output: expect.stringContaining("LOOPBACK,UP") });
  expect(ip("rule", "add", "fwmark", "1", "lookup", "100")).toMatchObject({ status: 0, errors: "" });
  const rules =
    "add table inet probe; add chain inet probe divert { type filter hook prerouting priority -150; }; list ruleset";
  const nft = image.run({ ...asRoot, entrypoint: ["/usr/sbin/nft"], args: [rules] });
  expect(nft).toMatchObject({ status: 0, errors: "", output: expect.stringContaining("hook prerouting") });
  // The call that makes a socket transparent, and the native part of end-to-end encryption.
  const script = `
    const { createRequire } = require("node:module");
    const from = createRequire("/opt/sallyport/lib/main.js");
    const libc = from("koffi").load(null);
    console.log(libc.func("int getpid()")(), typeof from("sodium-native").crypto_kx_keypair);`;
  const native = image.run({ entrypoint: ["/usr/local/bin/node"], args: ["-e", script] });
  expect(native).toMatchObject({ status: 0, output: "1 function\n" });
}
