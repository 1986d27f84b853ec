import { describe, expect, it } from "vitest";
import type { OverlayConnection } from "../overlay.ts";
import { AllowedAddresses } from "./addresses.ts";
import { answerQuestion, type HostResolver, ResolverRelay } from "./resolver.ts";

const allowed = new AllowedAddresses(["*.example.com"]);
const server: HostResolver = {
  resolveMx: async () => [{ exchange: "mx.example.com", priority: 10 }],
  resolveTxt: async () => [["v=spf1 ", "-all"], ["other"]],
  resolveSrv: async () => [{ name: "sip.example.com", port: 5060, priority: 1, weight: 2 }],
};
const ask = async (question: unknown, from: HostResolver = server) =>
  JSON.parse(await answerQuestion(JSON.stringify({ id: 7, question }), allowed, from));

describe("names by the host's resolver", () => {
  it("MX, TXT and SRV records", async () => {
    const name = "example.com";
    expect(await ask([{ name, type: 15 }])).toEqual({
      id: 7,
      status: 0,
      question: [{ name, type: 15 }],
      answer: [{ name, type: 15, ttl: 86_400, data: "mx.example.com", priority: 10 }],
    });
    expect((await ask([{ name, type: 16 }])).answer).toEqual([
      { name, type: 16, ttl: 86_400, data: "v=spf1 -all" },
      { name, type: 16, ttl: 86_400, data: "other" },
    ]);
    expect((await ask([{ name: "_sip._tcp.example.com", type: 33 }])).answer).toEqual([
      {
        name: "_sip._tcp.example.com",
        type: 33,
        ttl: 86_400,
        data: "sip.example.com",
        port: 5060,
        priority: 1,
        weight: 2,
      },
    ]);
  });

  it.each([
    ["a name that is not allowed", [{ name: "other.com", type: 15 }], 3],
    ["another type", [{ name: "example.com", type: 1 }], 4],
    ["no question", [], 1],
    [
      "two questions",
      [
        { name: "a.example.com", type: 15 },
        { name: "b.example.com", type: 15 },
      ],
      1,
    ],
    ["a question without a type", [{ name: "example.com" }], 1],
    ["something else", "x", 1],
  ])("%s is refused with its code", async (_, question, status) => {
    expect(await ask(question)).toMatchObject({ id: 7, status });
  });

  it("what is no JSON is answered, too", async () => {
    expect(JSON.parse(await answerQuestion("{", allowed, server))).toMatchObject({ id: 0, status: 1 });
  });

  it("a failed look-up says why", async () => {
    const failing = { ...server, resolveMx: async () => Promise.reject(new Error("queryMx ETIMEOUT")) };
    expect(await ask([{ name: "example.com", type: 15 }], failing)).toMatchObject({
      status: 2,
      comment: "queryMx ETIMEOUT",
    });
  });

  it("a target that is fixed allows no names", async () => {
    const text = JSON.stringify({ id: 1, question: [{ name: "example.com", type: 15 }] });
    expect(JSON.parse(await answerQuestion(text, undefined, server))).toMatchObject({ status: 3 });
  });
});

describe("a circuit of questions", () => {
  it("takes no more questions while the dialer takes no answers", async () => {
    let written = 0;
    let resumed = 0;
    const connection: OverlayConnection = {
      circuitId: "c1",
      maxMessage: 65_507,
      start: () => {},
      write: () => {
        written++;
        return false;
      },
      endWriting: () => {},
      resume: () => void resumed++,
      close: () => {},
    };
    const relay = new ResolverRelay(connection, new AllowedAddresses(["a.b"]), () => {});
    const question = Buffer.from(JSON.stringify({ id: 1, question: [{ name: "not.allowed", type: 16 }] }));
    relay.start();
    let taken = 0;
    for (let i = 0; i < 1_000; i++) {
      if (relay.data(question, 0, question.length)) taken++;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect([taken, written, resumed]).toEqual([1, 1, 0]);
    relay.writable();
    expect(resumed).toBe(1);
    expect(relay.data(question, 0, question.length)).toBe(true);
  });
});
