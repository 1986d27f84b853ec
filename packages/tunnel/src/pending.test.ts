import { freePort } from "@sallyport/wire/testing/free-ports";
import { expect, it } from "vitest";
import type { HostedTerminator } from "./overlay.ts";
import { configs, hostAt, overlay, proxyOf, says, tunneler } from "./testing/tunneler-in-memory.ts";
import { Tunneler } from "./tunneler.ts";

const hosts = (port: number) => ({ canBind: true, configs: configs({ "host.v1": hostAt(port) }) });

it("a tunneler waits for its services, and for the first router of each one that it hosts", async () => {
  const early = new Tunneler({ overlay });
  expect(early.pending()).toEqual(["the services of laptop are not known yet"]);
  await early.close();

  const isEstablished = { web: false, files: false };
  const host = overlay.host.bind(overlay);
  overlay.host = async (service, o): Promise<HostedTerminator> => {
    const terminator = await host(service, o);
    const name = service.name as keyof typeof isEstablished;
    return Object.defineProperty(terminator, "isEstablished", { get: () => isEstablished[name] });
  };
  const running = tunneler();
  await expect.poll(() => running.pending()).toEqual([]);
  overlay.change({ web: hosts(1), files: hosts(2), "no config": { canBind: true } });
  const missing = ["web is hosted on no router yet", "files is hosted on no router yet"];
  await expect.poll(() => running.pending()).toEqual(missing);
  isEstablished.web = true;
  expect(running.pending()).toEqual(missing.slice(1));
  isEstablished.files = true;
  expect(running.pending()).toEqual([]);
});

it("a proxy waits for each of its ports, again when the service is taken away", async () => {
  const port = await freePort();
  const interceptor = proxyOf("web", port);
  tunneler({ interceptor });
  const missing = [`tcp port ${port} is not open: web may not be dialled, or see the log`];
  expect(interceptor.pending()).toEqual(missing);
  overlay.change({ other: { canDial: true }, web: { canDial: true } });
  await says("a port is open");
  await expect.poll(() => interceptor.pending()).toEqual([]);
  overlay.change({ web: undefined });
  await expect.poll(() => interceptor.pending()).toEqual(missing);
});
