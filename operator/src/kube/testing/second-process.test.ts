import { spawn } from "node:child_process";
import { expect, test } from "vitest";
import { KINDS } from "../kinds.ts";
import { FakeApiServer } from "./fake-api-server.ts";

test("another process uses the fake API server by its URL", async () => {
  const server = await FakeApiServer.start();
  server.put(KINDS.ConfigMap, { metadata: { namespace: "edge", name: "question" }, data: { text: "ping" } });
  const file = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);
  const program = `
    import { clusterAt } from ${file("../client/cluster.ts")};
    import { HttpKubeClient } from ${file("../client/http-client.ts")};
    import { KINDS } from ${file("../kinds.ts")};
    const client = new HttpKubeClient(clusterAt(process.argv[1]));
    const { data } = await client.get({ kind: KINDS.ConfigMap, namespace: "edge", name: "question" });
    const metadata = { namespace: "edge", name: "answer" };
    await client.apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { text: data.text + " pong" } });
    await client.close();
  `;
  const answered = server.changed(({ object }) => JSON.stringify(object).includes("pong"));
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program, server.url], { stdio: "inherit" });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  expect(await Promise.race([answered, ended])).toMatchObject({
    type: "ADDED",
    object: { data: { text: "ping pong" } },
  });
  expect(await ended).toBe(0); // nothing keeps a process alive that closed its client
  await server.close();
});
