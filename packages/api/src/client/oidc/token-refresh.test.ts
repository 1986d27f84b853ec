import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApiError } from "../../errors.ts";
import { ApiTransportError } from "../https.ts";
import type { OidcTokens } from "./oidc-http.ts";
import { TokenRefresh } from "./token-refresh.ts";

const LIFE_MS = 1_800_000;

/** Tokens as a refresh gives them now. */
const fresh = (accessToken: string): OidcTokens => ({
  ...{ accessToken, refreshToken: "r", apiSessionId: "s", identityId: "i", identityName: "i" },
  expiresAt: Date.now() + LIFE_MS,
});

let answers: (() => Promise<OidcTokens>)[];
let told: string[];
let refresh: TokenRefresh;

beforeEach(() => {
  vi.useFakeTimers();
  answers = [];
  told = [];
  refresh = new TokenRefresh({
    tokens: fresh("first"),
    refresh: async () => (await answers.shift()?.()) ?? fresh("next"),
    onRefreshed: ({ accessToken }) => told.push(accessToken),
    onRefused: () => told.push("refused"),
    onFailed: () => told.push("failed"),
  });
});

afterEach(() => {
  refresh.stop();
  vi.useRealTimers();
});

it("refreshes between one half and five sixths of the life", async () => {
  await vi.advanceTimersByTimeAsync(LIFE_MS / 2 - 1);
  expect(told).toEqual([]);
  await vi.advanceTimersByTimeAsync(LIFE_MS / 3 + 2);
  expect(told).toEqual(["next"]);
  expect(refresh.tokens.accessToken).toBe("next");
  await vi.advanceTimersByTimeAsync((LIFE_MS * 5) / 6 + 1);
  expect(told).toEqual(["next", "next"]);
});

it("tries again while the provider cannot be asked, with growing pauses", async () => {
  const away = () => Promise.reject(new ApiTransportError("away"));
  const busy = () => Promise.reject(new ApiError(429, "temporarily_unavailable", "later"));
  const broken = () => Promise.reject(new ApiError(503, "server_error", "later"));
  answers = [away, busy, broken];
  await expect(refresh.now()).rejects.toThrow("away");
  expect(told).toEqual(["failed"]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(told).toEqual(["failed", "failed", "failed", "next"]);
});

it("gives up when the provider refuses", async () => {
  answers = [() => Promise.reject(new ApiError(400, "invalid_grant", "session has ended"))];
  await expect(refresh.now()).rejects.toThrow("session has ended");
  await vi.advanceTimersByTimeAsync(LIFE_MS * 2);
  expect(told).toEqual(["refused"]);
});

it("uses a refresh token once, however many ask at one time", async () => {
  const both = await Promise.all([refresh.now(), refresh.now()]);
  expect(both[0]).toBe(both[1]);
  expect(told).toEqual(["next"]);
});

it("says nothing after it was stopped, not even of a refresh under way", async () => {
  const answer = Promise.withResolvers<OidcTokens>();
  answers = [() => answer.promise];
  const underWay = refresh.now();
  refresh.stop();
  answer.resolve(fresh("late"));
  await underWay;
  await vi.advanceTimersByTimeAsync(LIFE_MS * 2);
  expect(told).toEqual([]);
});
