/** "Why not?" on a whole network: each way to break it, with a dial of the SDK that fails, and the answer that names it first. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { Subject } from "./subject.ts";
import { WAYS } from "./ways.ts";

const folder = makeScratch("why");
let subject: Subject;

beforeAll(async () => {
  subject = await Subject.start(folder);
}, 180_000);

afterAll(async () => {
  await subject?.stop();
  removeScratch(folder);
});

/** What the SDK says, and what comes first in the answer once it is the expected problem. */
async function answered(code: string, message: string) {
  return await eventually(`${code} comes first`, async () => {
    // The host may learn of a change after the first dials.
    const said = await subject.fails();
    const { firstProblem: first } = await subject.why();
    if (first?.code.startsWith(code) && first.message.includes(message)) return { said, first };
    throw new Error(`${first?.code}: ${first?.message}`);
  });
}

describe("when the network is broken", () => {
  it.each(WAYS)(
    "because $what, a dial fails and $code comes first",
    async ({ code, message = "", remedy = "", saidBySdk, breakIt }) => {
      const repair = await breakIt(subject);
      const { said, first } = await answered(code, message).finally(repair);
      await subject.works();
      await eventually("nothing is in the way any more", async () => {
        const { allowed, firstProblem } = await subject.why();
        return allowed && firstProblem?.status !== "failed";
      });
      expect(first.remedies?.[0]?.text ?? "").not.toBe("");
      expect(first.remedies?.[0]?.text).toContain(remedy);
      if (saidBySdk !== undefined) expect(said).toMatch(saidBySdk);
    },
    120_000,
  );
});

it("a host that is away may host still, and is said not to", async () => {
  await subject.stopHost();
  await eventually("the answer says that it does not host", async () => {
    const answer = await subject.whyBind();
    expect(answer).toMatchObject({ allowed: true, type: "Bind", identity: { name: "backend" } });
    expect(answer.checks.find(({ check }) => check === "hosting")).toMatchObject({ code: "DOES_NOT_HOST" });
    return true;
  });
  await subject.startHost();
  await subject.works();
}, 60_000);
