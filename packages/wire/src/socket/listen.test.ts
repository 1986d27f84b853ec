import { type AddressInfo, createServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import { listen } from "./listen.ts";

const server = createServer();
const other = createServer();

afterEach(() => {
  server.close();
  other.close();
});

test("a listener hears of failed accepts, not of a port that is taken", async () => {
  const errors: Error[] = [];
  await listen(server, { host: "127.0.0.1", port: 0 }, (error) => errors.push(error));
  const { port } = server.address() as AddressInfo;
  await expect(listen(other, { host: "127.0.0.1", port }, (error) => errors.push(error))).rejects.toThrow("EADDRINUSE");
  const failed = new Error("accept EMFILE");
  server.emit("error", failed);
  expect(errors).toEqual([failed]);
});
