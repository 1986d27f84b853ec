import { Server } from "node:net";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterEach, expect, test, vi } from "vitest";
import { SetupError } from "./identity-files.ts";
import { ProbeServer } from "./tunnel-command.ts";

let server: ProbeServer | undefined;
afterEach(async () => await server?.close());

const pages = async (port: number, method = "GET") =>
  await Promise.all(
    ["live", "ready", "else"].map(async (page) => {
      const answer = await fetch(`http://127.0.0.1:${port}/health-checks/${page}`, { method });
      return [answer.status, await answer.text()];
    }),
  );

test("is live from the start, and ready when nothing is missing any more", async () => {
  const port = await freePort();
  let missing = ["me.json has not logged in", "tcp port 80 is not open"];
  server = await ProbeServer.listen({ host: "127.0.0.1", port, pending: () => missing });
  const [live, gone] = [
    [200, "live\n"],
    [404, "no such page\n"],
  ];
  expect(await pages(port)).toEqual([live, [503, "me.json has not logged in\ntcp port 80 is not open\n"], gone]);
  missing = [];
  expect(await pages(port)).toEqual([live, [200, "ready\n"], gone]);
  expect((await pages(port, "POST")).map(([status]) => status)).toEqual([405, 405, 405]);
  // A query says nothing here, and a target may be no address.
  const others = ["/health-checks/live?all", "//"].map((target) => fetch(`http://127.0.0.1:${port}${target}`));
  expect((await Promise.all(others)).map(({ status }) => status)).toEqual([200, 404]);
});

test("answers after a failed accept", async () => {
  const port = await freePort();
  const listens = vi.spyOn(Server.prototype, "listen");
  server = await ProbeServer.listen({ host: "127.0.0.1", port, pending: () => [] });
  const [http] = listens.mock.contexts as Server[];
  listens.mockRestore();
  for (let i = 0; i < 2; i++) http?.emit("error", new Error("accept EMFILE"));
  expect((await pages(port))[0]).toEqual([200, "live\n"]);
});

test("a port that is taken is told with its option", async () => {
  const port = await freePort();
  server = await ProbeServer.listen({ host: "127.0.0.1", port, pending: () => [] });
  const again = ProbeServer.listen({ host: "127.0.0.1", port, pending: () => [] });
  await expect(again).rejects.toThrow(SetupError);
  await expect(again).rejects.toThrow(
    `cannot listen on 127.0.0.1:${port} (--health-address): another program listens there`,
  );
});
