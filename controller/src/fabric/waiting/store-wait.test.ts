import { EdgeCtrlHeader, EdgeCtrlType, type Message, RetryHint } from "@sallyport/wire";
import { expect, test } from "vitest";
import { DatabaseUnavailableError } from "../../store/outage.ts";
import type { Denial, SessionClaim, SessionGrant } from "../ports.ts";
import { dial, dialTunnel, meshPerTest } from "../testing/circuit-mesh.ts";
import type { MemoryModel } from "../testing/memory-model.ts";

const mesh = meshPerTest(() => undefined);

/** Lets dials fail as `error` says, until it says nothing. @returns how often the model was asked */
function failDials(model: MemoryModel, error: (asked: number) => Error | undefined): () => number {
  const authorize = model.authorizeDial.bind(model);
  let asked = 0;
  model.authorizeDial = async (claim: SessionClaim): Promise<SessionGrant | Denial> => {
    asked += 1;
    const failure = error(asked);
    if (failure !== undefined) throw failure;
    return authorize(claim);
  };
  return () => asked;
}

function refused(answer: Message): { text: string; hint: number | undefined } {
  expect(answer.contentType).toBe(EdgeCtrlType.Error);
  return { text: answer.body.toString(), hint: answer.headers.getU32(EdgeCtrlHeader.RetryHint) };
}

const away = (): Error => new DatabaseUnavailableError("the database cannot be used now: connection refused");

test("a dial during a short outage of the database is answered when the outage is over", async () => {
  const { net, a, b } = await mesh();
  const asked = failDials(net.model, (count) => (count < 4 ? away() : undefined));
  const answer = dial(a);
  const [atA, atB] = [await a.nextRoute(), await b.nextRoute()];
  a.acceptRoute(atA.message);
  b.acceptRoute(atB.message);
  expect((await answer).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
  expect(asked()).toBe(4);
});

test("a dial of a tunneling router waits, too", async () => {
  const { net, a, b } = await mesh();
  net.model.tunnelSession = { id: "a", token: "t", identityId: "a" } as never;
  const authorize = net.model.authorizeTunnel.bind(net.model);
  let asked = 0;
  net.model.authorizeTunnel = async (claim) => {
    asked += 1;
    if (asked < 3) throw away();
    return authorize(claim);
  };
  const answer = dialTunnel(a);
  const [atA, atB] = [await a.nextRoute(), await b.nextRoute()];
  a.acceptRoute(atA.message);
  b.acceptRoute(atB.message);
  expect((await answer).contentType).toBe(EdgeCtrlType.CreateTunnelCircuitV2Response);
  expect(asked).toBe(3);
});

test("a dial that has waited long enough is refused with the reason, and to be tried again", async () => {
  const { net, a } = await mesh({ returnWaitMs: 700 });
  const asked = failDials(net.model, away);
  expect(refused(await dial(a))).toEqual({
    text: "the controller's database cannot be used at the moment, try again later",
    hint: RetryHint.TooBusy,
  });
  expect(asked()).toBeGreaterThan(1);
});

test("a dial waits for half of the time that a circuit may take at most", async () => {
  const { net, a } = await mesh({ routeTimeoutMs: 1_000, returnWaitMs: 600_000 });
  failDials(net.model, away);
  expect(refused(await dial(a)).hint).toBe(RetryHint.TooBusy);
});

test("a fault that does not pass is answered at once, without its text", async () => {
  const { net, a } = await mesh();
  const asked = failDials(net.model, () => new Error("relation does not exist"));
  expect(refused(await dial(a))).toEqual({ text: "internal error", hint: RetryHint.Default });
  expect(asked()).toBe(1);
});
