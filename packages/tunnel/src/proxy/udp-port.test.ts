import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { silentLogger } from "@sallyport/wire";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterEach, expect, it } from "vitest";
import type { UdpFlow } from "../interceptor.ts";
import { UdpPort } from "./udp-port.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

it("leaves half of its clients to others than one address, and takes again who comes when one has gone", async () => {
  const flows: UdpFlow[] = [];
  const port = await freePort();
  const open = await UdpPort.open({
    ...{ address: "127.0.0.1", port, idleMs: 60_000, maxFlows: 4, log: silentLogger },
    onFlow: (flow) => flows.push(flow),
  });
  closers.push(() => {
    for (const flow of flows) flow.close();
    void open.close();
  });
  const send = async (address: string) => {
    const client: Socket = createSocket("udp4");
    closers.push(() => client.close());
    client.bind(0, address);
    await once(client, "listening");
    client.send("x", port, "127.0.0.1");
  };
  const clients = () => flows.map(({ addresses }) => addresses.sourceIp);
  for (let i = 0; i < 3; i++) await send("127.0.0.1");
  await send("127.0.0.2");
  await expect.poll(clients).toEqual(["127.0.0.1", "127.0.0.1", "127.0.0.2"]);
  flows[0]?.close();
  await send("127.0.0.1");
  await expect.poll(clients).toEqual(["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.1"]);
});
