import { ApiError, ApiTransportError } from "@sallyport/api/client";
import { pause, untilAborted } from "@sallyport/async";
import { silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ApiSession } from "./api-session.ts";
import { ControllerSet } from "./controller-set.ts";
import type { LoginCredentials } from "./login/login.ts";
import { SecondFactors } from "./login/second-factors.ts";
import { TinyController } from "./testing/tiny-controller.ts";

describe("a session with several controllers", () => {
  let all: TinyController[];
  let credentials: LoginCredentials;
  let session: ApiSession;
  let replaced = 0;

  beforeEach(async () => {
    const authority = await TestAuthority.create();
    const identity = await authority.identity("localhost");
    credentials = { kind: "certificate", identity };
    all = await Promise.all([1, 2, 3].map(() => TinyController.start(identity)));
    replaced = 0;
    for (const each of all) {
      each.controllers = all.map(({ url }) => url);
      each.shareSessions(all[0]!);
    }
  });

  afterEach(async () => {
    await session.close();
    for (const each of all) await each.close();
  });

  function start(controllerUrls = [all[0]!.url]): ApiSession {
    session = new ApiSession({
      ...{ controllerUrls, credentials, configTypes: [], log: silentLogger, factors: new SecondFactors({}) },
      onToken: () => {},
      onReplaced: () => replaced++,
    });
    return session;
  }

  /** How many requests of a kind a controller had. */
  const count = (controller: TinyController, path: string) =>
    controller.asked.filter((line) => line.includes(path)).length;
  const learned = async () => await expect.poll(() => count(all[0]!, "GET /controllers")).toBe(1);

  it.each(["OIDC_AUTH", "none"])(
    "goes on at another one that the network named, with the same token (%s)",
    async (capability) => {
      for (const each of all) each.capabilities = [capability];
      await start().login();
      const { token } = await session.login();
      await learned();
      await session.identity();
      await all[0]!.close();
      expect(await session.identity()).toMatchObject({ id: "i" });
      await session.identity();
      expect((await session.login()).token).toBe(token);
      expect(replaced).toBe(0);
      const others = all.slice(1).map((each) => [count(each, "GET /current-identity"), count(each, "POST /")]);
      expect(others.toSorted()).toEqual(
        [
          [0, 0],
          [2, 0],
        ].toSorted(),
      );
    },
  );

  it("leaves one that has no database, and asks it again when the others have none either", async () => {
    await start().login();
    await learned();
    all[0]!.callStatus = 503;
    await session.identity();
    expect(count(all[1]!, "GET /current-identity") + count(all[2]!, "GET /current-identity")).toBe(1);
    for (const each of all) each.callStatus = 503;
    await expect(session.identity()).rejects.toMatchObject({ status: 503 });
    all[0]!.callStatus = 0;
    await session.identity();
    expect(count(all[0]!, "GET /current-identity")).toBeGreaterThan(1);
  });

  it("renews its tokens at another one", async () => {
    for (const each of all) each.accessSeconds = 1;
    await start().login();
    await learned();
    await all[0]!.close();
    await expect.poll(() => count(all[1]!, "oauth/token") + count(all[2]!, "oauth/token"), { timeout: 15_000 }).toBe(1);
    expect(replaced).toBe(0);
    await session.identity();
  }, 30_000);

  it("begins at the next one of the identity file when the first is away", async () => {
    await all[0]!.close();
    await start([all[0]!.url, all[1]!.url]).login();
    expect(count(all[1]!, "POST /oidc/oauth/token")).toBe(1);
    expect(await session.hosts().catch(() => [])).toEqual([]);
  });

  it("leaves one that hangs for another one, with everything that was under way there", async () => {
    await start().login();
    await learned();
    const { token } = await session.login();
    all[0]!.hang();
    const calls = await Promise.all([session.identity(), session.identity(), session.verify()]);
    expect(calls.slice(0, 2)).toMatchObject([{ id: "i" }, { id: "i" }]);
    expect((await session.login()).token).toBe(token);
    expect(replaced).toBe(0);
    const asked = all[0]!.unanswered.filter((line) => line.includes("/version"));
    expect(asked).toHaveLength(1);
    // It is not returned to as long as the other one answers.
    all[0]!.wakeUp();
    const before = all[0]!.asked.length;
    await session.identity();
    expect(all[0]!.asked).toHaveLength(before);
  });

  it("logs in at the next one of the identity file when the first hangs", async () => {
    all[0]!.hang();
    await start([all[0]!.url, all[1]!.url]).login();
    expect(count(all[1]!, "POST /oidc/oauth/token")).toBe(1);
  });

  it("renews its tokens at another one while one hangs", async () => {
    for (const each of all) each.accessSeconds = 1;
    await start().login();
    await learned();
    all[0]!.hang();
    await expect
      .poll(() => count(all[1]!, "oauth/token") + count(all[2]!, "oauth/token"), { timeout: 20_000 })
      .toBeGreaterThan(0);
    expect(replaced).toBe(0);
    await session.identity();
  }, 30_000);

  it("does not take a refusal for an absence", async () => {
    await start().login();
    await learned();
    all[0]!.callStatus = 400;
    await expect(session.identity()).rejects.toMatchObject({ status: 400 });
    expect(count(all[1]!, "GET") + count(all[2]!, "GET")).toBe(0);
  });
});

describe("the controllers of a network", () => {
  const listed = (...urls: string[]) => urls.map((url) => ({ apiAddresses: { "edge-client": [{ url }] } }));
  const gone = new ApiTransportError("gone");
  const noSwitch = { answers: async () => true, onSwitch: () => {} };

  it("are those that were named last, and those of the configuration", () => {
    const set = new ControllerSet(["https://shared:1"], silentLogger);
    set.learn(listed("https://a:1/edge/client/v1", "https://b:1/edge/client/v1", "http://c:1", "no address"));
    expect(set.all.toSorted()).toEqual(["https://a:1", "https://b:1", "https://shared:1"]);
    expect(set.current).toBe("https://shared:1");
    set.learn(listed("https://b:1"));
    expect(set.all).toEqual(["https://b:1", "https://shared:1"]);
    set.learn([{}]);
    expect(set.all).toEqual(["https://b:1", "https://shared:1"]);
  });

  it("are left when they are named no more", async () => {
    const set = new ControllerSet(["https://shared:1"], silentLogger);
    set.learn(listed("https://a:1"));
    const asked: string[] = [];
    const work = async () => {
      asked.push(set.current);
      if (set.current !== "https://a:1") throw gone;
    };
    await set.reach(work, noSwitch);
    expect(asked).toEqual(["https://shared:1", "https://a:1"]);
    set.learn(listed("https://b:1"));
    expect(set.current).toBe("https://b:1");
  });

  it("are each asked once, and the last failure is the answer", async () => {
    const set = new ControllerSet(["https://a:1", "https://b:1"], silentLogger);
    let switches = 0;
    const failures: unknown[] = [gone, new ApiError(503, "UNAVAILABLE", "later", undefined)];
    const last = failures[1];
    await expect(
      set.reach(() => Promise.reject(failures.shift()), { ...noSwitch, onSwitch: () => void switches++ }),
    ).rejects.toBe(last);
    expect(switches).toBe(1);
  });

  it("are switched once for calls that fail together", async () => {
    const set = new ControllerSet(["https://a:1", "https://b:1", "https://c:1"], silentLogger);
    const work = async () => {
      if (set.current === "https://a:1") throw gone;
      return set.current;
    };
    const answers = await Promise.all([set.reach(work, noSwitch), set.reach(work, noSwitch)]);
    expect(answers).toEqual(["https://b:1", "https://b:1"]);
  });

  it("that hang are left for another one once no new connection is answered either, and tried last afterwards", async () => {
    const set = new ControllerSet(["https://a:1", "https://b:1", "https://c:1"], silentLogger);
    const hanging = new Set(["https://a:1"]);
    const probed: string[] = [];
    const switches: boolean[] = [];
    const options = {
      answers: async (controller: string) => {
        probed.push(controller);
        await pause(100);
        return !hanging.has(controller);
      },
      onSwitch: (isHanging: boolean) => void switches.push(isHanging),
    };
    const withdrawn: string[] = [];
    const work = async (signal: AbortSignal) => {
      const { current } = set;
      if (!hanging.has(current)) return current;
      return await untilAborted(signal).then(() => Promise.reject(withdrawn.push(current)));
    };
    const answers = await Promise.all([set.reach(work, options), set.reach(work, options)]);
    expect([answers, probed, switches]).toEqual([["https://b:1", "https://b:1"], ["https://a:1"], [true]]);
    expect(withdrawn).toEqual(["https://a:1", "https://a:1"]);
    hanging.add("https://b:1");
    expect(await set.reach(work, options)).toBe("https://c:1");
    // Then only those are left that hung before, and the last one of a call keeps it.
    hanging.clear();
    hanging.add("https://c:1").add("https://a:1");
    expect(await set.reach(work, options)).toBe("https://b:1");
  });

  it("that are busy keep what they are asked", async () => {
    const set = new ControllerSet(["https://a:1", "https://b:1"], silentLogger);
    const work = async () => {
      await pause(1_500);
      return set.current;
    };
    expect(await set.reach(work, noSwitch)).toBe("https://a:1");
  });

  it("are those of a changed configuration, the first of them first", () => {
    const set = new ControllerSet(["https://a:1"], silentLogger);
    expect(set.configure(["https://a:1"])).toBe(false);
    expect(set.configure(["https://c:1", "https://a:1"])).toBe(true);
    expect([set.current, set.all]).toEqual(["https://c:1", ["https://c:1", "https://a:1"]]);
  });
});
