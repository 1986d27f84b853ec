import { EdgeHeader, EdgeType, Headers } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { TestSdk } from "../testing/test-sdk.ts";

/** Dials one SDK may have waiting. */
const MOST = 1_000;

let network: TestNetwork;
let router: TestRouter;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  router = await network.addRouter("r1");
});

afterEach(async () => {
  for (const one of sdks.splice(0)) one.close();
  await network.close();
});

async function client(name: string, at = router): Promise<TestSdk> {
  const made = await TestSdk.connect(at.port.port, await network.client(name));
  sdks.push(made);
  return made;
}

test("an SDK that floods its router with dials has so many under way and no more; others dial, and it does once there is room", async () => {
  const other = await network.addRouter("r2");
  await network.link(router, other);
  const [silent, web] = [await client("silent"), await client("web", other)];
  await silent.bind(network.session("silence", "Bind"));
  await web.bind(network.session("web", "Bind"));
  silent.answerDial = "silence";
  const [greedy, modest] = [await client("greedy"), await client("modest")];
  const toSilence = network.session("silence", "Dial");
  const toWeb = network.session("web", "Dial");
  for (let connId = 1; connId <= MOST; connId++) greedy.requestConnect(toSilence, { connId }).catch(() => {});
  for (const connId of [MOST + 1, MOST + 2]) {
    const { answer } = await greedy.requestConnect(toWeb, { connId });
    expect([answer.contentType, answer.body.toString()]).toEqual([
      EdgeType.StateClosed,
      `${MOST} requests of this client are waiting; try again later`,
    ]);
  }
  const connection = await modest.connect(toWeb);
  expect(connection.closedReason).toBeUndefined();
  // Who gives a dial up makes room for another.
  greedy.channel.send({ contentType: EdgeType.StateClosed, headers: new Headers().setU32(EdgeHeader.ConnId, 1) });
  await greedy.connect(toWeb, { connId: MOST + 3 });
});
