import { createSocket, Socket } from "node:dgram";
import { once } from "node:events";
import { type Logger, lineBounds, silentLogger, xgressDefaults } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, expect, it, vi } from "vitest";
import { DatagramListener, type DatagramListenerOptions } from "./datagram-listener.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** @param wanted gets the services that were asked for; there are none */
async function listen(
  wanted: string[],
  log: Logger = silentLogger,
  more: Partial<DatagramListenerOptions> = {},
): Promise<DatagramListener> {
  const listener = await DatagramListener.listen({
    forwarder: undefined as never,
    xgress: xgressDefaults,
    createCircuit: async (service) => {
      wanted.push(service);
      throw new Error("no such service");
    },
    release: () => {},
    binding: "transport_udp",
    ...{ host: "127.0.0.1", port: 0, family: 4, log },
    ...more,
  });
  closers.push(() => listener.close());
  return listener;
}

it("takes nothing from port 0, where nothing can be sent: only forged packets come from there", async () => {
  const bound = vi.spyOn(Socket.prototype, "bind");
  const listener = await listen([]);
  const socket = bound.mock.contexts[0] as Socket;
  bound.mockRestore();
  socket.emit("message", Buffer.from('{"svcId":"s"}'), { address: "127.0.0.1", family: "IPv4", port: 0, size: 13 });
  expect(listener.sessions).toBe(0);
});

it("answers refused requests, and never what is no request: two listeners would answer each other without end", async () => {
  const wanted: string[] = [];
  const listener = await listen(wanted);
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

it("leaves half of its sessions to others than one address, and takes again who comes when some have ended", async () => {
  const wanted: string[] = [];
  const answers: PromiseWithResolvers<never>[] = [];
  const createCircuit = (service: string) => {
    wanted.push(service);
    answers.push(Promise.withResolvers());
    return (answers.at(-1) as PromiseWithResolvers<never>).promise;
  };
  const listener = await listen([], silentLogger, { maxSessions: 4, createCircuit });
  const ask = async (service: string, address: string): Promise<Socket> => {
    const client: Socket = createSocket("udp4");
    closers.push(() => client.close());
    client.bind(0, address);
    await once(client, "listening");
    client.send(JSON.stringify({ svcId: service }), listener.port, "127.0.0.1");
    return client;
  };
  const first = await ask("a1", "127.0.0.1");
  await expect.poll(() => wanted).toEqual(["a1"]);
  for (const service of ["a2", "a3"]) await ask(service, "127.0.0.1");
  await ask("b1", "127.0.0.2");
  await expect.poll(() => wanted).toEqual(["a1", "a2", "b1"]);
  answers[0]?.reject(new Error("no such service"));
  await once(first, "message");
  await ask("a4", "127.0.0.1");
  await expect.poll(() => wanted).toEqual(["a1", "a2", "b1", "a4"]);
});

it("writes a few lines about clients that get no circuit, however many there are", async () => {
  const log = new RecordingLogger();
  const listener = await listen([], log);
  for (let i = 0; i < 12; i++) {
    const client: Socket = createSocket("udp4");
    closers.push(() => client.close());
    client.send('{"svcId":"s1"}', listener.port, "127.0.0.1");
    await once(client, "message");
  }
  const lines = log.entries.filter(({ level }) => level !== "debug");
  expect(lines.map(({ msg }) => msg)).toEqual(Array(lineBounds.perReason).fill("a client got no circuit"));
});
