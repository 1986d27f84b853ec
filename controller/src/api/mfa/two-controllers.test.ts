/** One-time and recovery codes at two controllers on one database: each code counts once, and guesses are counted together. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { matchTotp, totpCode } from "../../model/identity/one-time-codes.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

const CLIENT = "/edge/client/v1";

let one: TestController;
let other: TestController;
beforeAll(async () => {
  one = await startTestController();
  other = await startTestController({ beside: one });
});
afterAll(async () => {
  await other.close();
  await one.close();
});

const now = () => new Date(Date.now() + one.clock.offsetMs);
const nextStep = () => {
  one.clock.offsetMs += 30_000;
};

let count = 0;
async function enrolled() {
  const name = `user${++count}`;
  const id = await one.make("identities", { name, type: "User", isAdmin: false });
  await one.make("authenticators", { identityId: id, method: "updb", username: name, password: "password" });
  const token = await one.login(name, "password");
  const mfa = (method: string, path = "", body?: object) =>
    one.call(method, `${CLIENT}/current-identity/mfa${path}`, { token, body });
  await mfa("POST");
  const { provisioningUrl, recoveryCodes } = (await mfa("GET")).json.data;
  const secret = new URL(provisioningUrl).searchParams.get("secret") ?? "";
  const code = () => totpCode(secret, now());
  expect((await mfa("POST", "/verify", { code: code() })).status).toBe(200);
  nextStep();
  const login = () => one.login(name, "password");
  return { id, secret, code, codes: recoveryCodes as string[], login };
}

const pass = async (at: TestController, token: string, code: string) =>
  (await at.call("POST", `${CLIENT}/authenticate/mfa`, { token, body: { code } })).status;
/** The statuses of a code that comes in many sessions at both controllers at once. */
async function passEverywhere(login: () => Promise<string>, code: string): Promise<number[]> {
  const tokens: string[] = [];
  for (let i = 0; i < 4; i++) tokens.push(await login());
  const answers = await Promise.all(tokens.map((token, i) => pass(i % 2 ? one : other, token, code)));
  return answers.toSorted();
}

describe("with two controllers", () => {
  it("a one-time code opens one session, a recovery code too, at whichever controller they come", async () => {
    const { code, codes, login } = await enrolled();
    expect(await passEverywhere(login, code())).toEqual([200, 400, 400, 400]);
    expect(await passEverywhere(login, codes[0] ?? "")).toEqual([200, 400, 400, 400]);
    expect(await pass(other, await login(), codes[0] ?? "")).toBe(400);
    expect(await pass(one, await login(), codes[1] ?? "")).toBe(200);
  });

  it("wrong codes in a row at both pause the identity at both; a right code resets that, and so does an administrator", async () => {
    const { id, secret, code, login } = await enrolled();
    const token = await login();
    const wrong = ["000000", "111111", "222222"].find((each) => matchTotp(secret, each, now()) === undefined) ?? "";
    const guess = async (at: TestController) => pass(at, token, wrong);
    expect([await guess(one), await guess(other), await guess(one), await guess(other)]).toEqual([400, 400, 400, 400]);
    expect(await pass(other, token, code())).toBe(200);
    nextStep();
    const five = [await guess(one), await guess(other), await guess(one), await guess(other), await guess(one)];
    expect(five).toEqual([400, 400, 400, 400, 400]);
    expect([await guess(other), await guess(one), await pass(other, token, code())]).toEqual([400, 429, 429]);
    expect((await one.admin("DELETE", `/identities/${id}/mfa`)).status).toBe(200);
    const again = await other.call("POST", `${CLIENT}/current-identity/mfa`, { token });
    expect(again.status).toBe(201);
    const verify = { token, body: { code: wrong } };
    expect((await other.call("POST", `${CLIENT}/current-identity/mfa/verify`, verify)).status).toBe(400);
  });

  it("guesses at once at both gain nothing: five wrong codes are answered, and the one that makes the identity pause", async () => {
    const { secret, login } = await enrolled();
    const token = await login();
    const wrong = ["000000", "111111", "222222"].find((each) => matchTotp(secret, each, now()) === undefined) ?? "";
    const answers = await Promise.all(Array.from({ length: 24 }, (_, i) => pass(i % 2 ? one : other, token, wrong)));
    expect(answers.filter((status) => status === 400)).toHaveLength(6);
    expect(answers.filter((status) => status === 429)).toHaveLength(18);
  });
});
