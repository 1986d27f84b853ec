import { describe, expect, it } from "vitest";
import { AllowedAddresses } from "./allowed-addresses.ts";
import { answerQuestion, type HostResolver } from "./resolver.ts";

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
