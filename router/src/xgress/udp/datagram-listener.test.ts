import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { silentLogger, xgressDefaults } from "@sallyport/wire";
import { afterEach, expect, it } from "vitest";
import { DatagramListener } from "./datagram-listener.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

it("answers refused requests, and never what is no request: two listeners would answer each other for ever", async () => {
  const wanted: string[] = [];
  const listener = await DatagramListener.listen({
    forwarder: undefined as never,
    xgress: xgressDefaults,
    createCircuit: async (service) => {
      wanted.push(service);
      throw new Error("no such service");
    },
    release: () => {},
    binding: "transport_udp",
    ...{ host: "127.0.0.1", port: 0, family: 4, log: silentLogger },
  });
  closers.push(() => listener.close());
  const client: Socket = createSocket("udp4");
  closers.push(() => client.close());
  const heard: string[] = [];
  client.on("message", (bytes) => heard.push(bytes.toString("utf8")));
  client.send('{"scc":false,"msg":"expected a line of JSON"}\n', listener.port, "127.0.0.1");
  client.send("x", listener.port, "127.0.0.1");
  client.send('{"id":"me","svcId":"s1"}', listener.port, "127.0.0.1");
  await once(client, "message");
  expect(wanted).toEqual(["s1"]);
  expect(heard).toEqual(['{"scc":false,"msg":"no such service"}\n']);
});
