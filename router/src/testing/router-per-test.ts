import type { Headers } from "@sallyport/wire";
import { afterEach, beforeEach } from "vitest";
import type { EdgeOptions } from "../edge/options.ts";
import { TestNetwork, type TestRouter, type TokenClient } from "./test-network.ts";
import { TestSdk } from "./test-sdk.ts";

/**
 * A network with one router for each test of a file, and SDKs that are closed behind it.
 *
 * @returns connects an SDK, to that router or another one
 */
export function routerPerTest(
  started: (network: TestNetwork, router: TestRouter) => void,
  edge: Partial<EdgeOptions> = {},
): (client: Pick<TokenClient, "identity" | "token">, o?: { headers?: Headers; at?: TestRouter }) => Promise<TestSdk> {
  let [network, router]: [TestNetwork?, TestRouter?] = [];
  const sdks: TestSdk[] = [];
  beforeEach(async () => {
    network = await TestNetwork.create();
    router = await network.addRouter("r1", { edge });
    started(network, router);
  });
  afterEach(async () => {
    for (const sdk of sdks.splice(0)) sdk.close();
    await network?.close();
  });
  return async (client, { at = router, ...o } = {}) => {
    if (at === undefined) throw new Error("SDKs connect within a test");
    const sdk = await TestSdk.connect(at.port.port, client, o);
    sdks.push(sdk);
    return sdk;
  };
}
