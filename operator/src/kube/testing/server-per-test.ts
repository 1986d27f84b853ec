import { afterEach, beforeEach } from "vitest";
import { clusterAt } from "../client/cluster.ts";
import { HttpKubeClient } from "../client/http-client.ts";
import { FakeApiServer, type FakeApiServerOptions } from "./fake-api-server.ts";

/** A fake API server with a client for each test of the file: `server` and `client` are those of the test that runs. Both close after the test's own hooks. */
export function serverPerTest(o: FakeApiServerOptions = {}): {
  readonly server: FakeApiServer;
  readonly client: HttpKubeClient;
} {
  const api = {} as { server: FakeApiServer; client: HttpKubeClient };
  beforeEach(async () => {
    api.server = await FakeApiServer.start(o);
    api.client = new HttpKubeClient(clusterAt(api.server.url), { kinds: o.kinds ?? [] });
  });
  afterEach(async () => {
    await api.client.close();
    await api.server.close();
  });
  return api;
}
